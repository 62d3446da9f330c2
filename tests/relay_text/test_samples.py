"""What people write and the printer does not: infix, comments, missing types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.ir.equal import structural_equal
from smelt.ir.errors import ParseError
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.types import IncompleteType, TensorType, tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, Constant, Function, Let

from .face import relay

Array = np.ndarray[Any, Any]


def value(text: str, *args: Array) -> Array:
    """What a function of a text computes."""
    f = relay.parse_expr(text)
    assert isinstance(f, Function)
    return np.asarray(interpret(f, *args)[0])


def number(text: str) -> Constant:
    c = relay.parse_expr(text)
    assert isinstance(c, Constant)
    return c


A, B = np.array([6.0, -2.0], "float32"), np.array([4.0, 5.0], "float32")
HEAD = "fn (%a: Tensor[(2), float32], %b: Tensor[(2), float32])"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%a + %b * 2f", A + B * 2),
        ("(%a + %b) * 2f", (A + B) * 2),
        ("%a - %b - 1f", A - B - 1),
        ("%a / %b / 2f", A / B / 2),
        ("-%a - -1f", -A + 1),
        ("- -%a", A),
        ("%a * -%b", -A * B),
        ("%a + 1f > %b * 1f", A + 1 > B),
        ("%a <= %b", A <= B),
        ("%a == %a", A == A),
        ("%a != %b", A != B),
        ("add(%a, subtract(%b, 1.0))", A + B - 1),
        ("(%a, %b).1", B),
        ("((%a,), %b).0.0", A),
        ("{ let %a: Tensor[(2), float32] = %b; %a + %a }", B + B),
        ("let %a: Tensor[(2), float32] = %a + 1f; let %a = %a * 2f; %a", (A + 1) * 2),
        ("let %f = fn (%a: Tensor[(2), float32]) { %a * %b }; %f(%f(%a))", A * B * B),
        ("fn (%y: Tensor[(2), float32]) { %y + %a }(%b)", A + B),
        ("%sum = %a + %b; %0 = %sum * %sum; %0", (A + B) * (A + B)),
        ("if (True) { %0 = %a; %0 } else { %0 = %b; %0 }", A),
        ("split(%a, indices_or_sections=2).1", A[1:]),
        ("sum(%a, axis=[0], keepdims=True)", A.sum(keepdims=True)),
    ],
)
def test_values(text: str, expected: Array) -> None:
    assert np.array_equal(value(f"{HEAD} {{ {text} }}", A, B), expected)


@pytest.mark.parametrize(
    ("text", "dtype", "expected"),
    [
        ("1", "int32", 1), ("-7i64", "int64", -7), ("255u8", "uint8", 255), ("1.", "float32", 1),
        ("1.5", "float32", 1.5), ("2f", "float32", 2), ("2.5e-1f64", "float64", 0.25),
        ("1e3f", "float32", 1000), ("3h", "float16", 3), ("3f16", "float16", 3),
        ("-2147483648", "int32", -(2**31)), ("True", "bool", True), ("inff", "float32", np.inf),
        ("-inff64", "float64", -np.inf), ("1bf16", "bfloat16", 1),
    ],
)  # fmt: skip
def test_numbers(text: str, dtype: str, expected: float) -> None:
    c = number(text)
    assert c.type is tensor_type((), dtype)
    assert c.data.item() == expected
    assert structural_equal(relay.parse_expr(str(c)), c)


def test_comments_and_layout_do_not_matter() -> None:
    plain = relay.parse_expr("fn(%x:int32){%x+1}")
    wide = relay.parse_expr("""
    // a function
    fn /* of /* one */ number */ (
        %x: int32,   // trailing commas are fine
    ) -> int32 {
        %x + 1 // the result
    }
    """)
    assert structural_equal(plain, wide)


def test_missing_types_are_not_known_yet() -> None:
    f = relay.parse_expr("fn (%x, %y: Tensor[(2), float32]) { %0 = nn.relu(%y); add(%x, %0) }")
    assert isinstance(f, Function)
    assert isinstance(f.params[0].type, IncompleteType)
    assert isinstance(f.body, Call)
    assert isinstance(f.body.type, IncompleteType)
    assert f.body.args[1].type is tensor_type((2,))  # type: ignore[union-attr]
    let = relay.parse_expr("let %x = 1; %x")
    assert isinstance(let, Let)
    assert isinstance(let.var.type, IncompleteType)


def test_types() -> None:
    f = relay.parse_expr("""
    fn (%a: Tensor[(10), float32], %b: Tensor[(), int32], %c: int8, %d: (int32, (bool,), ()),
        %e: fn (int32, int32) -> int32, %f: Tensor[(n, ?, n * 2 + 1), float16], %g: _) { () }
    """)
    assert isinstance(f, Function)
    a, b, c, _, e, g, _ = [p.type for p in f.params]
    assert (a, b, c) == (tensor_type((10,)), tensor_type((), "int32"), tensor_type((), "int8"))
    assert isinstance(g, TensorType)
    n, any_, more = g.shape
    assert isinstance(n, SizeVar)
    assert isinstance(any_, SizeVar)
    assert more is n * 2 + 1
    assert e == relay.FuncType([b, b], b)
    assert relay.parse_expr("()").type is relay.TupleType([])


def test_attributes() -> None:
    f = relay.parse_expr("""
    fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) {
      nn.conv2d(%x, %w, padding=[1, 1], strides=(2, 2), data_layout="NCHW", kernel_size=None)
    }""")
    assert isinstance(f, Function)
    assert isinstance(f.body, Call)
    assert f.body.attrs["padding"] == (1, 1, 1, 1)
    assert f.body.attrs["strides"] == (2, 2)
    g = relay.parse_expr("""
    fn (%x: Tensor[(n), int32], Inline=1, Compiler="dnnl", ratio=-0.5f, flags=[True, False, None],
        nested={"a": (1,), "b": [n, n * 2]}, "any name"="a\\nb", big=1i64, dtype=float32) { %x }""")
    assert isinstance(g, Function)
    t = g.params[0].type
    assert isinstance(t, TensorType)
    n = t.shape[0]
    assert dict(g.attrs) == {
        "Inline": 1, "Compiler": "dnnl", "ratio": -0.5, "flags": [True, False, None],
        "nested": {"a": (1,), "b": [n, n * 2]}, "any name": "a\nb", "big": 1, "dtype": "float32",
    }  # fmt: skip


def test_definitions_in_any_order() -> None:
    mod = relay.parse("""
    def @main(%n: int32) -> int32 { @even(%n) }
    def @even(%n: int32) -> int32 { if (%n == 0) { 1 } else { @odd(%n - 1) } }
    def @odd(%n: int32) -> int32 { if (%n == 0) { 0 } else { @even(%n - 1) } }
    """)
    assert list(mod.functions) == ["main", "even", "odd"]
    assert mod["main"].body.type is tensor_type((), "int32")
    tree = relay.parse("""
    def @size[A](%t: Tree[A]) -> int32 {
      match (%t) { Leaf => 0, Node(%l, _, %r) => @size(%l) + 1 + @size(%r) }
    }
    type Tree[A] { Leaf, Node(Tree[A], A, Tree[A]) }
    extern type File
    """)
    assert [c.name for c in tree.type_data("Tree").constructors] == ["Leaf", "Node"]
    assert tree.type_data("File").constructors == ()
    assert structural_equal(relay.parse(tree.astext()), tree)


def test_a_text_goes_on_where_a_module_ends() -> None:
    first = relay.parse("type L { Nil, Cons(int32, L) }\ndef @one() -> int32 { 1 }")
    mod = relay.parse("def @main() { Cons(@one(), Nil) }", init_module=first)
    assert list(mod.functions) == ["one", "main"]
    assert "type L {" in mod.astext()
    assert isinstance(relay.parse_expr("@one()", init_module=first), Call)
    with pytest.raises(ParseError, match="has a function @one already"):
        relay.parse("def @one() { 2 }", init_module=first)


def test_a_value_is_a_module_with_main() -> None:
    mod = relay.parse("free_var %x: Tensor[(2), float32]; free_var %y; %x + %y")
    assert isinstance(mod, IRModule)
    assert [p.name for p in mod["main"].params] == ["x", "y"]
    assert relay.fromtext is relay.parse
    assert relay.parser.parse is relay.parse


def test_names_in_quotes() -> None:
    f = relay.parse_expr('fn (%"input.1": int32, %"0": int32) { %0 = %"input.1"; %0 + %"0" }')
    assert isinstance(f, Function)
    assert [p.name for p in f.params] == ["input.1", "0"]
    assert structural_equal(relay.parse_expr(str(f)), f)
