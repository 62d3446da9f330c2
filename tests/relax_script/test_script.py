"""Scripts as Relax writes them: what they mean, and how they are printed."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt import relax
from smelt.ir.errors import ParseError, Unsupported
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.types import FuncType, IncompleteType, Type, tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import (
    Function,
    GlobalVar,
    If,
    Let,
    Tuple,
    Var,
    call,
    call_function,
    constant,
)
from smelt.relax.op.registry import BUILDERS
from smelt.script import parse

CLASSIC = """\
@I.ir_module
class Module:
    @T.prim_func
    def add_one(A: T.Buffer((2, 4), "float32"), B: T.Buffer((2, 4), "float32")):
        for i, j in T.grid(2, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1.0

    @R.function
    def run(
        x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), dtype="bool")
    ) -> R.Tensor((n, 4), "float32"):
        n = T.int64()
        cls = Module
        with R.dataflow():
            lv: R.Tensor((n, 4), "float32") = R.relu(x)
            lv1 = 1.0 - lv * 2.0
            gv: R.Tensor(dtype="float32", ndim=2) = lv1
            R.output(gv)
        if c:
            y0 = R.exp(gv)
            y: R.Tensor((n, 4), "float32") = y0
        else:
            y = cls.helper(gv, x)

        @R.function
        def inner(z: R.Tensor((n, 4), "float32")) -> R.Tensor((n, 4), "float32"):
            return R.add(z, y)

        pair = R.tuple(inner(y), inner(x))
        a, b = pair
        return R.maximum(a, pair[1])

    @R.function(private=True)
    def helper(a: R.Tensor(("m", 4), "float32"), b: R.Tensor(("m", "4"), "float32")):
        return R.add(a, b)
"""

PRINTED = """\
    @R.function
    def run(x: R.Tensor((n, 4), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((n, 4), "float32"):
        v0 = R.relu(x)
        v1 = R.multiply(v0, R.const(2.0, "float32"))
        v2 = R.subtract(R.const(1.0, "float32"), v1)
        if c:
            v3 = R.exp(v2)
        else:
            v3: R.Tensor((n, 4), "float32") = cls.helper(v2, x)
        @R.function
        def inner(z: R.Tensor((n, 4), "float32")) -> R.Tensor((n, 4), "float32"):
            v4 = R.add(z, v3)
            return v4
        v5 = inner(v3)
        v6 = inner(x)
        v7 = (v5, v6)
        v8 = v7[1]
        v9 = R.maximum(v5, v8)
        return v9

    @R.function(private=True)
    def helper(
        a: R.Tensor((m, 4), "float32"),
        b: R.Tensor((m, 4), "float32"),
    ) -> R.Tensor((m, 4), "float32"):
        v0 = R.add(a, b)
        return v0
"""


def module(text: str, **constants: Any) -> IRModule:
    made = parse(text, constants=constants or None)
    return made if isinstance(made, IRModule) else IRModule({"main": made})


def test_a_module_in_classic_words() -> None:
    m = module(CLASSIC)
    printed = m.script()
    assert printed[printed.index("    @R.function") :] == PRINTED
    relax.assert_structural_equal(module(printed), m)
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    after = 1 - 2 * np.maximum(x, 0)
    for c, y in ((True, np.exp(after)), (False, after + x)):
        (found,) = interpret(m["run"], x, c, module=m)
        np.testing.assert_allclose(found, np.maximum(y + y, x + y), rtol=1e-6)


SOURCE = """\
from smelt.script import ir as I
from smelt.script import relax as R
from smelt.script import tir as T

SIZE = 4

@I.ir_module
class Module:
    @T.prim_func
    def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(SIZE):
            with T.block("B"):
                v = T.axis.spatial(SIZE, i)
                B[v] = A[v] + A[v]

    @R.function
    def main(x: R.Tensor((SIZE,), "float32")):
        with R.dataflow():
            y = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((SIZE,), "float32"))
            z = cls.later(y)
            R.output(z)
        return z

    @R.function(private=True)
    def later(x: R.Tensor((SIZE,), "float32")):
        return R.negative(x)
"""


def test_a_class_of_python(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(SOURCE)
    made = runpy.run_path(str(file))["Module"]
    (found,) = interpret(made["main"], np.arange(4, dtype=np.float32), module=made)
    np.testing.assert_array_equal(found, [0, -2, -4, -6])
    assert made["later"].attrs == {"private": True}
    relax.assert_structural_equal(parse(made.script()), made)
    file.write_text(SOURCE.replace("cls.later(y)", "cls.later(y, y)"))
    with pytest.raises(ParseError, match="2 operands for 1 parameters") as caught:
        runpy.run_path(str(file))
    assert str(caught.value).startswith(f"{file}:20:17: ")


def test_functions_that_call_themselves() -> None:
    f = module(
        """
@R.function
def main(n: R.Tensor((), "int64"), x: R.Tensor((k,), "float32")) -> R.Tensor((k,), "float32"):
    @R.function
    def loop(i: R.Tensor((), "int64"), y: R.Tensor((k,), "float32")) -> R.Tensor((k,), "float32"):
        more = i > 0
        if more:
            z = loop(i - 1, y * 2.0)
        else:
            z = y
        return z
    return loop(n, x)
"""
    )
    (found,) = interpret(f["main"], np.asarray(3), np.ones(2, np.float32))
    np.testing.assert_array_equal(found, [8, 8])
    relax.assert_structural_equal(module(f.script()), f)


def test_sizes_are_computed_and_checked() -> None:
    text = """
@R.function
def main(past: R.Tensor((p, 8), "float32"), new: R.Tensor((s, 8), "float32")):
    both: R.Tensor((p + s, 8), "float32") = R.concat(past, new, axis=0)
    flat: R.Tensor(((s + p) * 8,), "float32") = R.reshape(both, shape=((p + s) * 8,))
    return flat
"""
    f = module(text)["main"]
    assert 'R.Tensor((p * 8 + s * 8,), "float32")' in f.script()
    relax.assert_structural_equal(parse(f.script()), f)
    with pytest.raises(ParseError, match=r"the value is float32\[p \+ s, 8\], the statement"):
        module(text.replace("p + s, 8", "p + s + 1, 8"))


def test_branches_in_branches_share_what_stands_before_them() -> None:
    f = module(
        """
@R.function
def main(c: R.Tensor((), "bool"), d: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
    s = R.exp(x)
    if c:
        if d:
            y = s
        else:
            y = R.add(s, x)
    elif d:
        t = R.tanh(s)
        y = R.add(t, t)
    else:
        y = x
    return y
"""
    )["main"]
    relax.assert_structural_equal(parse(f.script()), f)
    x = np.asarray([0.5, -1], np.float32)
    s = np.exp(x)
    for c, d, want in [
        (True, True, s),
        (True, False, s + x),
        (False, True, 2 * np.tanh(s)),
        (False, False, x),
    ]:
        np.testing.assert_allclose(interpret(f, c, d, x)[0], want, rtol=1e-6)


def test_types_of_all_kinds() -> None:
    f = module(
        """
@R.function
def main(
    f: R.Callable((R.Tensor((n,), "float32"),), R.Tensor((n,), "float32")),
    t: R.Tuple(R.Tensor((n,), "float32"), R.Prim("int64")),
    o: R.Object,
    u: R.Tensor(dtype="float32", ndim=2),
):
    y = f(t[0])
    z: R.Tensor((u_0, u_1), "float32") = R.relu(u)
    return y, o, z
"""
    )["main"]
    assert isinstance(f.params[0].type, relax.FuncStructInfo)
    assert isinstance(f.params[2].type, relax.ObjectStructInfo)
    assert [v.name for v in f.params[3].type.shape] == ["u_0", "u_1"]
    relax.assert_structural_equal(parse(f.script(), check_well_formed=False), f)


# --------------------------------------------------------------- the core's operators and builders


@pytest.fixture
def builders(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Builders as Relax has them, in the place of those that are there."""

    def total(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        axes = (axis,) if isinstance(axis, int) else axis
        return relax.Call("sum", [x], {"axes": axes, "keepdims": keepdims})

    def relu(x: Any) -> Any:
        return relax.Call("relu", [x])

    def reshape(x: Any, shape: Any) -> Any:
        return relax.Call("reshape", [x], {"shape": tuple(shape)})

    made = {"sum": total, "nn.relu": relu, "reshape": reshape}
    for name in list(BUILDERS):
        monkeypatch.delitem(BUILDERS, name)
    for name, fn in made.items():
        monkeypatch.setitem(BUILDERS, name, fn)
    return made


HEAD = '@R.function\ndef main(x: R.Tensor((n, 4), "float32")):\n    return '
CALLS = {
    "R.sum(x)": "R.sum(x, keepdims=False)",
    "R.sum(x, axis=1)": "R.sum(x, axes=(1,), keepdims=False)",
    "R.sum(x, 1, True)": "R.sum(x, axes=(1,), keepdims=True)",
    "R.sum(x, keepdims=True)": "R.sum(x, keepdims=True)",
    "R.sum(x, axes=(0,), keepdims=False)": "R.sum(x, axes=(0,), keepdims=False)",
    "R.sum(x, axes=(1,))": "R.sum(x, axes=(1,), keepdims=True)",
    "R.nn.relu(x)": "R.relu(x)",
    "R.relu(x)": "R.relu(x)",
    "R.reshape(x, (4, n))": "R.reshape(x, shape=(4, n))",
    "R.reshape(x, R.shape([n * 4]))": "R.reshape(x, shape=(n * 4,))",
    "R.reshape(x, shape=(2, 2, n))": "R.reshape(x, shape=(2, 2, n))",
}


@pytest.mark.parametrize("call", CALLS)
def test_builders_make_calls_of_the_core(call: str, builders: dict[str, Any]) -> None:
    f = module(HEAD + call)["main"]
    assert f"    v0 = {CALLS[call]}\n" in f.script()
    relax.assert_structural_equal(parse(f.script()), f)


def test_what_a_builder_does_not_take(builders: dict[str, Any]) -> None:
    with pytest.raises(ParseError, match="multiple values for argument 'axis'") as caught:
        module(HEAD + "R.sum(x, 1, axis=1)")
    assert "    return R.sum(x, 1, axis=1)\n             ^^^^^^^" in str(caught.value)
    with pytest.raises(ParseError, match="sum has no attribute 'axs'; nearest: axes"):
        module(HEAD + "R.sum(x, axs=1)")


# ------------------------------------------------------------------------------------------- edges

X = Var("x", tensor_type((2,)))
C = Var("c", tensor_type((), "bool"))


def recursive(kind: Type) -> Function:
    """A closure that calls itself, behind a variable of a type."""
    f, y = Var("f", kind), Var("y", X.type)
    body = If(C, Function((), call_function(f, [y], X.type)), Function((), y), X.type)
    return Function((X, C), Let(f, Function((y,), body), call_function(f, [X], X.type)))


A = Var("a", X.type)
SIDE = Function((), call("relu", X))
EDGES = {
    "a function of the module as a value": Function((X,), Tuple((GlobalVar("f"), X))),
    "a call with a data-dependent size": Function(
        (X,), call_function(GlobalVar("f"), [X], tensor_type((SizeVar("any"),)))
    ),
    "recursion": recursive(FuncType((X.type,), X.type)),
    "recursion behind a variable of no type": recursive(IncompleteType()),
    "a name in an operand": Function((X,), call("add", Let(A, call("relu", X), call("exp", A)), X)),
    "a name that is two operands": Function(
        (X,), Let(A, Let(Var("a", X.type), X, call("exp", X)), Tuple((A, A)))
    ),
    "a name of less known type": Function((X,), Let(Var("b", IncompleteType()), X, X)),
    "attributes of a closure": Function(
        (X,), call_function(Function((A,), A, {"k": (1, "two")}), [X])
    ),
    "one function as both sides": Function((X, C), If(C, SIDE, SIDE, X.type)),
    "a side of another type": Function((X, C), If(C, SIDE, SIDE, tensor_type((SizeVar("any"),)))),
    "names of the language": Function((Var("cls", X.type), X, Var("if", X.type)), X),
    "an operand left out": Function((X,), call("clip", X, max=float("inf"))),
    "a tuple of nothing": Function((X,), Tuple(())),
    "the same number twice": Function(
        (X,), Tuple((constant(np.asarray(0.1)), constant(np.asarray(0.1))))
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges_are_read_back(name: str) -> None:
    f = EDGES[name]
    made = parse(f.script(), check_well_formed=False)
    relax.assert_structural_equal(made, f)
    assert made.script() == f.script()  # type: ignore[union-attr]


def test_a_module_of_functions_that_call_each_other() -> None:
    gives = call_function(GlobalVar("odd"), [X], X.type)
    m = IRModule(
        {
            "even": Function((X, C), If(C, Function((), X), Function((), gives), X.type)),
            "odd": Function(
                (X,), call_function(GlobalVar("even"), [X, constant(np.asarray(True))], X.type)
            ),
        }
    )
    assert 'cls.even(x, R.const(True, "bool"))' in m.script()
    relax.assert_structural_equal(parse(m.script()), m)


def test_blocks_deeper_than_python_reads() -> None:
    e: Any = X
    for _ in range(120):
        e = If(C, Function((), call("relu", X)), Function((), call("exp", e)), X.type)
    with pytest.raises(Unsupported, match="a block in 90 others has no text form"):
        Function((X, C), e).script()
    e = X
    for _ in range(60):
        e = If(C, Function((), call("relu", X)), Function((), call("exp", e)), X.type)
    f = Function((X, C), e)
    relax.assert_structural_equal(parse(f.script()), f)
