"""Structural equality: what counts, the path of the first difference, and both texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import tir
from smelt.ir import (
    IRModule,
    StructuralDifference,
    assert_structural_equal,
    structural_equal,
    structural_hash,
)
from smelt.ir import dtype as dt
from smelt.ir.expr import Add, Expr, FloatImm, IntImm, Var, const
from smelt.ir.text import data_text
from smelt.ir.types import tensor_type
from smelt.relax import nodes as relax
from smelt.tir.nodes import (
    Allocate,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    LetStmt,
    PrimFunc,
    Range,
    Seq,
)
from smelt.tir.parser import parse

Golden = Callable[[str], None]

TEXT = """
@T.prim_func
def f(A: T.Buffer((128, n), "float32"), B: T.Buffer((128, n), "float32"), n: T.int64):
    T.func_attr({"target": "llvm", "tile": (1, 2.5)})
    C = T.alloc_buffer((128, n), "float32", scope="local")
    for i in T.parallel(128, annotations={"grain": 2}):
        for j in range(n):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(j < 64)
                T.block_attr({"note": "x"})
                C[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(128, n):
        with T.block("B"):
            vi = T.axis.spatial(128, i)
            vj = T.axis.reduce((0, n), j)
            with T.init():
                B[vi, vj] = 0.0
            x: T.float32 = C[vi, vj]
            t = T.allocate((2,), "float32")
            t[0] = x
            if vi < 3:
                B[vi, vj] = T.cast(B.dtype, T.exp(x) + t[0])
            else:
                while x < 0.0:
                    T.evaluate(0)
            assert vi >= 0, "never"
"""
CHANGES = {
    "extent": ("T.parallel(128", "T.parallel(64", ".body.block.body[0].extent: 128 != 64"),
    "kind": ("T.parallel", "T.serial", '.body.block.body[0].kind: "parallel" != "serial"'),
    "loop_note": ('"grain": 2', '"grain": 4', '.body[0].annotations["grain"]: 2 != 4'),
    "loop_note_gone": (
        '{"grain": 2}', '{"size": 2}', '.body[0].annotations["grain"]: 2 != nothing',
    ),
    "dtype": ('B: T.Buffer((128, n), "float32")', 'B: T.Buffer((128, n), "float16")',
              '.params[1].dtype: "float32" != "float16"'),
    "shape": ("A: T.Buffer((128, n)", "A: T.Buffer((128, n + 1)", ".params[0].shape[1]: n (Var"),
    "scope": ('scope="local"', 'scope="shared"', '.alloc_buffers[0].scope: "local" != "shared"'),
    "attribute": ('"llvm"', '"c"', '.attrs["target"]: "llvm" != "c"'),
    "inner_data": ("2.5)", "2)", '.attrs["tile"][1]: 2.5 != 2'),
    "name": ("def f", "def g", '.attrs["name"]: "f" != "g"'),
    "block_name": ('T.block("C")', 'T.block("D")', '.block.name: "C" != "D"'),
    "predicate": ("j < 64", "j <= 64", ".predicate: j < 64 != j <= 64"),
    "axis": ("T.axis.reduce", "T.axis.spatial", '.iter_vars[1].kind: "reduce" != "spatial"'),
    "domain": ("(0, n), j", "(0, n - 1), j", ".iter_vars[1].dom.extent: n (Var of int64) != n"),
    "block_note": ('"note": "x"', '"note": None', '.annotations["note"]: "x" != None'),
    "operand": ("A[vi, vj] * 2", "A[vj, vi] * 2", ".value.a.indices[0]: vi (Var of int64) != vj"),
    "constant": ("* 2.0", "* 2.5", ".value.b: 2.0 != 2.5"),
    "init": ("= 0.0", "= -0.0", ".init.value: 0.0 != -0.0"),
    "let": ("x: T.float32 = C[vi, vj]", "x: T.float32 = C[vi, 0]", ".body.value.indices[1]: vj"),
    "branch": (TEXT[TEXT.index("            else:") : TEXT.index("            assert")], "",
               ".body.body[1].else_body: while x < 0.0: ... != None"),
    "message": ('"never"', '"ever"', '.message: "never" != "ever"'),
    "memory": ("(2,)", "(3,)", ".body.body.buffer.shape[0]: 2 != 3"),
    "intrinsic": ("T.exp(x)", "T.log(x)", '.value.value.a.op: "exp" != "log"'),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_the_path_leads_to_the_difference(change: str) -> None:
    old, new, where = CHANGES[change]
    assert old in TEXT
    first, second = parse(TEXT), parse(TEXT.replace(old, new))
    assert structural_equal(first, first)
    assert structural_equal(first, parse(TEXT))
    assert not structural_equal(first, second)
    with pytest.raises(StructuralDifference) as caught:
        assert_structural_equal(first, second)
    message = str(caught.value).split("\n", 1)[0]
    assert message.startswith("<root>.")
    assert where in message, message


def test_names_do_not_count() -> None:
    renamed = TEXT
    for old, new in (("vi", "row"), ("A", "left"), ("n:", "size:"), (" n)", " size)"),
                     ("range(n)", "range(size)"), ("x:", "y:"), ("(x)", "(y)"), ("= x", "= y"),
                     ("x <", "y <")):  # fmt: skip
        renamed = renamed.replace(old, new)
    assert_structural_equal(parse(renamed), parse(TEXT))


def test_a_module(golden: Golden) -> None:
    first = IRModule({"f": parse(TEXT), "main": parse(TEXT)}, {"a": 1})
    second = IRModule({"main": parse(TEXT.replace("* 2.0", "* 3.0")), "f": parse(TEXT)}, {"a": 1})
    assert_structural_equal(first, IRModule(dict(reversed(first.functions.items())), {"a": 1}))
    with pytest.raises(StructuralDifference) as caught:
        assert_structural_equal(first, second)
    golden(str(caught.value) + "\n")
    with pytest.raises(ValueError, match=r'<root>.functions\["f"\]: nothing != @T.prim_func'):
        assert_structural_equal(IRModule({}), IRModule({"f": parse(TEXT)}))
    with pytest.raises(AssertionError, match=r'<root>.attrs\["a"\]: 1 != nothing'):
        assert_structural_equal(first, IRModule(first.functions))


def _graph(extent: Any = None, alpha: float = 0.5, array: Any = None) -> relax.Function:
    n = Var("n") if extent is None else extent
    x = relax.Var("x", tensor_type((n, 4)))
    w = relax.constant(np.ones((1, 4), "float32") if array is None else array, "w")
    y = relax.call("leaky_relu", relax.call("add", x, w), alpha=alpha)
    return relax.Function((x,), relax.Tuple((y, relax.call("add", y, y))), {"output_names": ("y",)})


def test_graphs_have_paths_too() -> None:
    other = np.full((1, 4), 2, "float32")
    assert_structural_equal(_graph(), _graph())
    assert structural_equal(_graph(), _graph(array=other), weights=False)
    for changed, where in (
        (_graph(const(3)), ".params[0].type.shape[0]: n (Var of int64) != 3"),
        (_graph(alpha=-0.5), '.body.items[0].attrs["alpha"]: 0.5 != -0.5'),
        (_graph(array=other), ".body.items[0].args[0].args[1].data: array([[1., 1., 1., 1.]]"),
    ):
        with pytest.raises(StructuralDifference) as caught:
            assert_structural_equal(IRModule({"main": _graph()}), IRModule({"main": changed}))
        message = str(caught.value).split("\n", 1)[0]
        assert message.startswith('<root>.functions["main"]' + where), message


def test_a_value_used_twice_is_not_two_values() -> None:
    x = relax.Var("x", tensor_type((4,)))
    once = relax.call("relu", x)
    first = relax.Function((x,), relax.call("add", once, once))
    second = relax.Function((x,), relax.call("add", relax.call("relu", x), relax.call("relu", x)))
    assert_structural_equal(first, first)
    assert not structural_equal(first, second)
    assert not structural_equal(second, first)


def test_expressions_and_statements() -> None:
    i, j, k = Var("i"), Var("j"), Var("i")
    assert structural_equal(i + 1, i + 1)
    assert not structural_equal(i + 1, j + 1)
    assert structural_equal(i + 1, j + 1, map_free_vars=True)
    assert structural_equal(Add(i, j), Add(j, k), map_free_vars=True)
    assert not structural_equal(Add(i, i), Add(i, j), map_free_vars=True)
    assert not structural_equal(Add(i, j), Add(i, i), map_free_vars=True)
    assert not structural_equal(Var("i", "int32"), i, map_free_vars=True)
    assert not structural_equal(IntImm("int64", 1), IntImm("int32", 1))
    assert not structural_equal(FloatImm("float32", 0.0), FloatImm("float32", -0.0))
    nan = FloatImm("float32", float("nan"))
    assert structural_equal(nan, nan)
    a, b = Buffer("A", (const(4),)), Buffer("B", (const(4),))
    store = BufferStore(a, const(1.0), (i,))
    assert not structural_equal(store, BufferStore(b, const(1.0), (i,)))
    assert structural_equal(store, BufferStore(b, const(1.0), (j,)), map_free_vars=True)
    assert structural_equal(Seq((Seq((store,)),)), store)
    assert not structural_equal(Seq((store, store)), store)
    assert not structural_equal(Seq(()), store)
    assert structural_equal(Range(i, j), Range(i, j))
    with pytest.raises(StructuralDifference, match=r"<root>.b: 1 != 2"):
        assert_structural_equal(i + 1, i + 2)


def test_a_binding_ends_with_what_it_is_for() -> None:
    """A variable bound again later corresponds to what it is bound to then."""
    i, j, a = Var("i"), Var("j"), Buffer("A", (const(4),))

    def loop(v: Var, at: Expr) -> For:
        return For(v, const(0), const(4), BufferStore(a, const(1.0), (at,)))

    shared = PrimFunc((a,), Seq((loop(i, i), loop(i, i))))
    separate = PrimFunc((a,), Seq((loop(i, i), loop(j, j))))
    assert structural_equal(shared, separate)
    assert structural_equal(separate, shared)
    assert tir.structural_hash(shared) == tir.structural_hash(separate)
    nested = PrimFunc((a,), For(i, const(0), const(4), loop(j, i)))
    other = PrimFunc((a,), For(i, const(0), const(4), loop(j, j)))
    assert not structural_equal(nested, other)
    let = PrimFunc((a,), LetStmt(i, const(1), Evaluate(i)))
    assert not structural_equal(let, PrimFunc((a,), LetStmt(i, const(1), Evaluate(const(1)))))
    own = Buffer("t", (const(4),))
    kept = PrimFunc((a,), Allocate(own, BufferStore(own, const(1.0), (const(0),))))
    lost = PrimFunc((a,), Allocate(own, BufferStore(a, const(1.0), (const(0),))))
    assert not structural_equal(kept, lost)


def test_different_things_differ() -> None:
    func = parse(TEXT)
    values: list[Any] = [func, IRModule({"f": func}), _graph(), const(1), 1, 1.0, True, None, "1",
                         (1,), [1], {"a": 1}, np.ones(2), np.ones(2, "float32")]  # fmt: skip
    for i, a in enumerate(values):
        for k, b in enumerate(values):
            assert structural_equal(a, b) == (i == k), (a, b)


def test_where_the_field_looks_for_it() -> None:
    assert smelt.ir.assert_structural_equal is tir.assert_structural_equal
    assert smelt.ir.structural_equal is tir.structural_equal


def test_numbers_of_numpy_are_written_as_pythons() -> None:
    assert data_text({"a": np.float64(1.5), "b": np.str_("x")}) == '{"a": 1.5, "b": "x"}'


def test_equal_programs_have_equal_hashes() -> None:
    """Any NaN is another one; the order of attributes does not count."""
    odd_nan = float(np.array(0x7FF8000000000001, np.uint64).view(np.float64))
    one = PrimFunc((), Evaluate(const(0)), {"x": float("nan"), "y": 1})
    other = PrimFunc((), Evaluate(const(0)), {"y": 1, "x": odd_nan})
    assert structural_equal(one, other)
    assert structural_hash(one) == structural_hash(other)


@pytest.mark.parametrize("dtype", [d for d in dt.DTYPES if dt.is_float(d)])
def test_elements_of_arrays_are_compared_as_numbers_are(dtype: str) -> None:
    """A NaN is any other one, in types that numpy lacks too; zeros of two signs differ."""
    kind = dt.to_numpy(dtype)
    nan = np.array([float("nan"), 1.0], "float32").astype(kind)
    assert structural_equal(nan, nan.copy())
    assert structural_equal(nan[::-1], nan[::-1].copy())
    signs = np.array([[0.0, -0.0]], "float32").astype(kind)
    bits = signs.view(f"u{kind.itemsize}")
    assert structural_equal(signs[:, :1], signs[:, 1:]) == (bits[0, 0] == bits[0, 1])
