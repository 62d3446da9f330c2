"""smelt.tir as its users see it: names, functions on scalars, walks over statements."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from smelt import tir
from smelt.ir import assert_structural_equal
from smelt.ir import dtype as dt
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import Expr
from smelt.tir.interpret import interpret

X = np.array([0.25, -0.75, 1.5, -2.0, 3.0, 0.0], "float32")


def evaluate(e: Expr, x: tir.Var) -> np.ndarray:
    """A value of one variable at the points X, or at whole numbers."""
    points = X if dt.is_float(x.dtype) else np.array([0, 1, 2, 5, -3, -8], x.dtype)
    a = tir.decl_buffer((len(points),), x.dtype, "A")
    b = tir.decl_buffer((len(points),), e.dtype, "B")
    i = tir.Var("i", "int64")
    store = tir.LetStmt(x, a[i], tir.BufferStore(b, e, (i,)))
    loop = tir.For(i, tir.const(0), tir.const(len(points)), store)
    out = np.zeros(len(points), dt.to_numpy(e.dtype))
    with np.errstate(all="ignore"):
        interpret(tir.PrimFunc((a, b), loop), points.copy(), out)
    return out


FUNCTIONS = """exp exp2 expm1 sqrt tanh sin cos tan sinh cosh arcsin:asin arccos:acos arctan:atan
arcsinh:asinh arctanh:atanh floor ceil trunc abs isnan isinf isfinite log log2 log10 log1p"""


@pytest.mark.parametrize("name", FUNCTIONS.split())
def test_functions_of_floats(name: str) -> None:
    theirs, _, ours = name.partition(":")
    x = tir.Var("x", "float32")
    with np.errstate(all="ignore"):
        expected = getattr(np, theirs)(X)
    np.testing.assert_allclose(evaluate(getattr(tir, ours or theirs)(x), x), expected, rtol=1e-6)


def test_other_functions_of_floats() -> None:
    x = tir.Var("x", "float32")
    for found, expected in (
        (tir.rsqrt(x * x + 1), 1 / np.sqrt(X * X + 1)),
        (tir.sigmoid(x), 1 / (1 + np.exp(-X))),
        (tir.erf(x), [math.erf(v) for v in X]),
        (tir.power(tir.abs(x), 1.5), np.abs(X) ** 1.5),
        (tir.atan2(x, 2.0), np.arctan2(X, 2)),
        (tir.hypot(x, 2.0), np.hypot(X, 2)),
        (tir.copysign(3.0, x), np.copysign(3, X)),
        (tir.fma(x, x, 1.0), X * X + 1),
        (tir.fmod(x, 0.5), np.fmod(X, 0.5)),
        (tir.round(x), np.round(X)),
        (tir.max(x, 0.5), np.maximum(X, 0.5)),
        (tir.min(x, 0.5), np.minimum(X, 0.5)),
        (tir.if_then_else(x > 0, x, -x), np.abs(X)),
        (tir.Select(x > 0, x, x * 2), np.where(X > 0, X, X * 2)),
        (tir.all(x > 0, x < 2), (X > 0) & (X < 2)),
        (tir.any(x < 0, x > 2), (X < 0) | (X > 2)),
        (tir.likely(x > 0), X > 0),
        (tir.call_intrin("float32", "tir.exp", x), np.exp(X)),
        (tir.reinterpret("int32", x), X.view("int32")),
    ):
        np.testing.assert_allclose(evaluate(found, x), expected, rtol=2e-6)


def test_functions_of_integers() -> None:
    i = tir.Var("i", "int32")
    n = np.array([0, 1, 2, 5, -3, -8], "int32")
    for found, expected in (
        (tir.floordiv(i, 3), n // 3),
        (tir.floormod(i, 3), n % 3),
        (tir.indexdiv(i, 3), n // 3),
        (tir.indexmod(i, 3), n % 3),
        (tir.truncdiv(i, 3), np.trunc(n / 3)),
        (tir.truncmod(i, 3), np.fmod(n, 3)),
        (tir.ceildiv(i, 3), -(-n // 3)),
        (tir.div(i, 3), np.trunc(n / 3)),
        (tir.abs(i), np.abs(n)),
        (tir.shift_left(i, 2), n << 2),
        (tir.shift_right(i, 1), n >> 1),
        (tir.bitwise_and(i, 6), n & 6),
        (tir.bitwise_or(i, 6), n | 6),
        (tir.bitwise_xor(i, 6), n ^ 6),
        (tir.bitwise_not(i), ~n),
        (tir.popcount(i), [bin(int(v) & 0xFFFFFFFF).count("1") for v in n]),
        (tir.clz(i), [32 - (int(v) & 0xFFFFFFFF).bit_length() for v in n]),
        (tir.floor(i), n),
    ):
        np.testing.assert_array_equal(evaluate(found, i), expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint16", "bool"])
def test_the_limits_of_types(dtype: str) -> None:
    low, high = tir.min_value(dtype), tir.max_value(dtype)
    assert low.dtype == high.dtype == dtype
    values = {"float32": 3.4028234663852886e38, "float16": 65504.0, "int8": 127, "uint16": 65535,
              "bool": 1, "bfloat16": 3.3895313892515355e38}  # fmt: skip
    assert high.value == values[dtype]  # type: ignore[attr-defined]
    if dt.is_float(dtype):
        assert tir.infinity(dtype).value == math.inf  # type: ignore[attr-defined]
        assert low.value == -values[dtype]  # type: ignore[attr-defined]


def test_operands_of_other_types() -> None:
    i, x = tir.Var("i"), tir.Var("x", "float32")
    for call, message in (
        (lambda: tir.exp(i), "exp takes a float, not int64"),
        (lambda: tir.power(i, 2), "power takes floats, not int64"),
        (lambda: tir.bitwise_and(x, x), "bitwise_and takes ints, not float32"),
        (lambda: tir.atan2(x), "atan2 takes 2 operands, 1 given"),
        (lambda: tir.infinity("int8"), "int8 has no infinity"),
        (lambda: tir.reinterpret("int8", x), "float32 has 4 bytes, int8 1"),
        (lambda: tir.call_intrin("float32", "tir.epx", x), "no intrinsic 'epx'; nearest: exp"),
        (lambda: tir.call_intrin("float32", "exp", x, x), "exp takes 1 operands, 2 given"),
        (lambda: tir.decl_buffer((4, x)), "an extent of buffer is of type float32"),
        (lambda: tir.decl_buffer((4,), strides=(1, 1)), "buffer has 1 dimensions, 2 strides"),
        (lambda: tir.decl_buffer((4,), "int8x4", "B"), "B: a buffer holds scalars, not int8x4"),
    ):
        with pytest.raises(TypeMismatch, match=message):
            call()


TEXT = """
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        x: T.float32 = A[i]
        if i < 4:
            B[i] = x * 2.0
    for j in T.parallel(8):
        B[j] = B[j] + A[j]
"""


def test_visits_in_both_orders() -> None:
    func = tir.parse(TEXT)
    after: list[object] = []
    tir.stmt_functor.post_order_visit(func.body, after.append)
    before: list[object] = []
    tir.stmt_functor.pre_order_visit(func.body, before.append)
    assert set(map(id, after)) == set(map(id, before))
    assert before[0] is func.body
    assert after[-1] is func.body
    place = {id(n): k for k, n in enumerate(after)}
    assert all(place[id(c)] < place[id(n)] for n in after for c in n.children() if id(c) in place)  # type: ignore[attr-defined]
    names = [type(n).__name__ for n in before]
    assert (names.count("For"), names.count("BufferStore"), names.count("BufferLoad")) == (2, 2, 3)
    outer: list[object] = []

    def loops_only(node: object) -> bool:
        outer.append(node)
        return not isinstance(node, tir.For)

    tir.stmt_functor.pre_order_visit(func.body, loops_only)
    assert [type(n).__name__ for n in outer] == ["Seq", "For", "For"]


def test_transformations() -> None:
    func = tir.parse(TEXT)

    def doubled(s: tir.For) -> tir.For | None:
        return s.replace(kind="unrolled") if s.kind == "serial" else None

    body = tir.stmt_functor.ir_transform(func.body, None, doubled, ["tir.For"])
    wanted = tir.parse(TEXT.replace("in range", "in T.unroll"))
    assert_structural_equal(func.replace(body=body), wanted)

    def first_only(s: tir.Stmt) -> tir.Stmt | None:
        return tir.Evaluate(tir.const(0)) if isinstance(s, tir.IfThenElse) else None

    body = tir.stmt_functor.ir_transform(func.body, first_only, None)
    kept = TEXT.replace(
        "        if i < 4:\n            B[i] = x * 2.0\n", "        T.evaluate(0)\n"
    )
    assert_structural_equal(func.replace(body=body), tir.parse(kept))
    loop = func.body.stmts[1]  # type: ignore[attr-defined]
    at_three = tir.stmt_functor.substitute(loop.body, {loop.var: 3})
    assert tir.script.script(at_three) == "B[3] = B[3] + A[3]\n"
    assert tir.stmt_functor.substitute(loop.var * 2 + 1, {loop.var: 3}) is tir.const(7)
    same = tir.stmt_functor.ir_transform(func.body, None, None)
    assert same is func.body


def test_every_public_name_is_there() -> None:
    for name in (*tir.__all__, *dir(tir)):
        assert getattr(tir, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Schedul'"):
        getattr(tir, "Schedul")  # noqa: B009 (an attribute alone does nothing)


def test_nodes_alone_load_nodes_alone() -> None:
    program = (
        "import sys, smelt.tir.nodes; "
        "print([m for m in ('smelt.tir.schedule', 'smelt.tir.parser', 'smelt.arith', 'smelt.te')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
