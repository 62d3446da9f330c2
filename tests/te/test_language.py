"""Tensor expressions: operators of tensors, equality, functions, initial values, extern."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from smelt import te, topi
from smelt.ir.errors import SmeltError, TypeMismatch, Unsupported
from smelt.ir.expr import EQ, NE, And, Expr, Not, Or, Var, const
from smelt.tir.interpret import interpret
from smelt.tir.nodes import BufferLoad, BufferStore, For, Stmt, seq, walk
from smelt.tir.schedule import Schedule
from smelt.tir.verify import verify

Array = np.ndarray[Any, Any]


def value(result: te.Tensor, *inputs: tuple[te.Tensor, Array]) -> Array:
    """What the interpreter makes of a tensor."""
    func = te.create_prim_func([*[t for t, _ in inputs], result])
    shape = [getattr(e, "value", 0) for e in result.shape]
    out = np.zeros(shape, result.dtype)
    interpret(func, *[a for _, a in inputs], out)
    return out


A = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def a_tensor() -> te.Tensor:
    return te.placeholder((3, 4), name="A")


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add", lambda x, y: x + y),
        ("subtract", lambda x, y: x - y),
        ("reversed", lambda x, y: 2 - x * y),
        ("divide", lambda x, y: x / (y + 10)),
        ("negative", lambda x, y: -x),
        ("less", lambda x, y: x < y),
    ],
)
def test_operators_of_tensors_broadcast_as_numpy_does(name: str, function: Any) -> None:
    a, b = a_tensor(), te.placeholder((4,), name="B")
    v = np.array([1, -2, 3, 0.5], np.float32)
    np.testing.assert_allclose(value(function(a, b), (a, A), (b, v)), function(A, v), rtol=1e-6)


def test_numbers_go_with_topi_functions_too() -> None:
    a = a_tensor()
    np.testing.assert_array_equal(value(topi.maximum(a, 1.5), (a, A)), np.maximum(A, 1.5))
    np.testing.assert_array_equal(value(topi.add(2, a), (a, A)), 2 + A)


def test_shapes_that_do_not_broadcast_are_named() -> None:
    with pytest.raises(TypeMismatch, match=r"a \[3, 4\] and b \[3\] do not broadcast"):
        a_tensor() + te.placeholder((3,), name="B")


# ----------------------------------------------------------------------------------------- equality


def test_equality_becomes_a_comparison_where_an_expression_is_expected() -> None:
    c = te.compute((5,), lambda i: te.if_then_else(i == 2, 1.0, 0.0))
    assert value(c).tolist() == [0, 0, 1, 0, 0]
    d = te.compute((5,), lambda i: te.select((i != 2) & (i > 0), 1.0, 0.0))
    assert value(d).tolist() == [0, 1, 0, 1, 1]
    k = te.reduce_axis((0, 4), "k")
    a = a_tensor()
    s = te.compute((3,), lambda i: te.sum(a[i, k], axis=k, where=k == 1))
    assert value(s, (a, A)).tolist() == A[:, 1].tolist()


def test_equality_is_identity_as_a_truth_value() -> None:
    n, m = te.var("n"), te.var("m")
    assert n == n
    assert n != m
    assert not n == m  # noqa: SIM201
    assert {n: 1}[n] == 1
    assert n not in (m, m + 1)
    assert (n + 1) == (n + 1)  # interned
    assert const(3) == 3
    assert const(3) != 4
    assert n != None  # noqa: E711


def test_asking_whether_an_unknown_is_a_number_is_an_error() -> None:
    with pytest.raises(TypeError, match="is not known here; use if_then_else"):
        te.compute((5,), lambda i: 1.0 if i == 2 else 0.0)


def test_constants_are_numbers_where_python_wants_one() -> None:
    a = a_tensor()
    assert [int(e) for e in a.shape] == [3, 4]
    assert list(range(a.shape[0])) == [0, 1, 2]
    assert float(const(1.5)) == 1.5
    with pytest.raises(TypeError):
        int(te.var("n"))


def test_comparisons_join() -> None:
    n = te.var("n")
    assert isinstance((n == 1) | (n == 2), Or)
    assert isinstance((n == 1) & (n < 2), And)
    assert isinstance((n == 1).as_expr(), EQ)
    assert isinstance(~(n == 1), NE | Not)
    assert isinstance(te.all(n == 1, n < 3), And)
    assert isinstance(te.any(n == 1, n < 3), Or)


def test_bitwise_operators_take_integers() -> None:
    x = te.placeholder((6,), "int32", "x")
    v = np.array([0, 1, -1, 77, -128, 1 << 20], np.int32)
    f = te.compute((6,), lambda i: ((x[i] & 15) | (x[i] ^ 3)) + (~x[i] << 1) + (x[i] >> 2))
    assert value(f, (x, v)).tolist() == ((v & 15 | (v ^ 3)) + (~v << 1) + (v >> 2)).tolist()
    with pytest.raises(TypeError, match="bitwise_and takes integers, not float32"):
        a_tensor()[0, 0] & 1


# ---------------------------------------------------------------------------------------- functions


FUNCTIONS: dict[str, Any] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "asinh": np.arcsinh, "atanh": np.arctanh, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.round, "abs": np.abs, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": np.vectorize(math.erf),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_agree_with_numpy(name: str) -> None:
    x = te.placeholder((5,), name="x")
    v = np.array([0.1, 0.25, 0.5, 0.75, 0.9], np.float32)
    f = te.compute((5,), lambda i: getattr(te, name)(x[i]))
    np.testing.assert_allclose(value(f, (x, v)), FUNCTIONS[name](v), rtol=2e-6, atol=1e-6)


def test_functions_of_two() -> None:
    x = te.placeholder((4,), name="x")
    v = np.array([-2.5, -1, 1.5, 4], np.float32)
    np.testing.assert_allclose(
        value(te.compute((4,), lambda i: te.power(te.abs(x[i]), 1.5)), (x, v)),
        np.abs(v) ** 1.5, rtol=1e-6,
    )  # fmt: skip
    np.testing.assert_allclose(
        value(te.compute((4,), lambda i: te.fmod(x[i], 2.0)), (x, v)), np.fmod(v, 2)
    )
    n = te.compute((7,), lambda i: te.truncdiv(i - 3, 2) * 10 + te.floordiv(i - 3, 2), "n")
    assert value(n).tolist() == [int((i - 3) / 2) * 10 + (i - 3) // 2 for i in range(7)]


def test_functions_of_floats_refuse_integers() -> None:
    with pytest.raises(TypeMismatch, match="exp takes a float, not int64; convert it with astype"):
        te.compute((4,), lambda i: te.exp(i))


# --------------------------------------------------------------------------------------- reductions


def test_init_replaces_the_identity() -> None:
    a, k = a_tensor(), te.reduce_axis((0, 4), "k")
    b = te.placeholder((3,), name="B")
    start = np.array([10, 20, 30], np.float32)
    s = te.compute((3,), lambda i: te.sum(a[i, k], axis=k, init=b[i]))
    np.testing.assert_allclose(value(s, (a, A), (b, start)), A.sum(1) + start)


def test_argmax_is_a_reduction_of_pairs() -> None:
    def combine(x: Any, y: Any) -> Any:
        return te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])

    argmax = te.comm_reducer(
        combine, lambda t0, t1: (const(-1, t0), te.min_value(t1)), name="argmax"
    )
    a, k = a_tensor(), te.reduce_axis((0, 4), "k")
    data = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    index, top = te.compute(
        (3,), lambda i: argmax((k.var.astype("int32"), a[i, k]), axis=k), name="argmax"
    )
    out, best = np.zeros(3, np.int32), np.zeros(3, np.float32)
    interpret(te.create_prim_func([a, index, top]), data, out, best)
    np.testing.assert_array_equal(out, data.argmax(1))
    np.testing.assert_array_equal(best, data.max(1))


# ------------------------------------------------------------------------------------------- extern


def reversed_rows(ins: list[te.Tensor], outs: list[te.Tensor]) -> Stmt:
    """outs[0][i, j] = ins[0][2 - i, j]."""
    i, j = te.var("i"), te.var("j")
    body = BufferStore(outs[0], BufferLoad(ins[0], (const(2) - i, j)), (i, j))
    return For(i, const(0), const(3), For(j, const(0), const(4), body))


def test_extern_is_a_statement() -> None:
    a = a_tensor()
    b = te.extern((3, 4), [a], reversed_rows, name="flip")
    c = te.compute((3, 4), lambda i, j: b[i, j] * 2)
    np.testing.assert_array_equal(value(c, (a, A)), A[::-1] * 2)


def test_what_an_extern_binds_has_a_name_of_its_own() -> None:
    i = te.size_var("i")
    a = te.placeholder((i, 4), name="A")

    def twice(ins: list[te.Tensor], outs: list[te.Tensor]) -> Stmt:
        row, j = te.var("i"), te.var("j")
        body = BufferStore(outs[0], BufferLoad(ins[0], (row, j)) * 2, (row, j))
        loop = For(row, const(0), i, For(j, const(0), const(4), body))
        return seq(loop, loop)

    b = te.extern((i, 4), [a], twice, name="B", dtype="float32")
    func = te.create_prim_func([a, te.extern((i, 4), [b], twice, name="C", dtype="float32")])
    verify(func)
    assert [s.var.name for s in walk(func.body) if isinstance(s, For)] == [
        "i_1", "j", "i_2", "j_1", "i_3", "j_2", "i_4", "j_3",
    ]  # fmt: skip


def test_extern_primfunc_is_a_program() -> None:
    x = te.placeholder((3, 4), name="x")
    inner = te.create_prim_func([x, te.compute((3, 4), lambda i, j: te.exp(x[i, j]) + 1)], "inner")
    a = a_tensor()
    doubled = te.compute((3, 4), lambda i, j: te.extern_primfunc([a], inner)[i, j] * 2)
    np.testing.assert_allclose(value(doubled, (a, A)), (np.exp(A) + 1) * 2, rtol=1e-6)
    Schedule(te.create_prim_func([a, doubled]))  # names stay apart


def test_extern_with_a_wrong_shape_is_refused() -> None:
    x = te.placeholder((3, 5), name="x")
    inner = te.create_prim_func([x, te.compute((3, 5), lambda i, j: x[i, j])], "inner")
    with pytest.raises(TypeMismatch) as e:
        te.extern_primfunc([a_tensor()], inner)
    assert str(e.value) == ("extern_primfunc: inner takes x as float32[3, 5], A is float32[3, 4]")


@pytest.mark.parametrize("name", ["scan", "gradient", "hybrid", "tag_scope"])
def test_what_is_absent_says_what_replaces_it(name: str) -> None:
    with pytest.raises(Unsupported, match=f"te.{name}: "):
        getattr(te, name)
    assert not hasattr(te, name)


def test_varargs_names_name_the_axes() -> None:
    a = a_tensor()
    b = te.compute((3, 4), lambda *i: a[i] + 1.0, varargs_names=["row", "column"])
    assert [x.var.name for x in b.op.axis] == ["row", "column"]
    with pytest.raises(SmeltError, match="1 varargs_names for 2 indices"):
        te.compute((3, 4), lambda *i: a[i], varargs_names=["row"])


def test_expressions_stay_expressions() -> None:
    made: Expr = te.var("n") + 1
    assert made.dtype == "int64"


def test_equal_extents_are_one_expression() -> None:
    """However they came about: by windows, borders, parts or what was written."""
    h, w = Var("h", "int64"), Var("w", "int64")
    x = te.placeholder((1, 2, h + 4 - 5 + 1, w), name="x")
    assert x.shape[2] is h
    kernel = te.placeholder((2, 2, 5, 5), name="kernel")
    assert topi.conv2d(x, kernel, pads=(2, 2, 2, 2)).shape[2:] == (h, w)
    padded = topi.pad(x, pads=(0, 0, 3, 1, 0, 0, 2, 4))
    assert padded.shape[2:] == (h + 5, w + 5)
    assert topi.max_pool(padded, kernel=(6, 6)).shape[2:] == (h, w)
    joined = topi.concat(
        topi.reshape(x, shape=(2 * h, w)), te.placeholder((h, w), name="y"), axis=0
    )
    assert joined.shape[0] is topi.tile(te.placeholder((h,), name="z"), repeats=(3,)).shape[0]
    assert te.placeholder((0 - (3 - h),)).shape == te.compute((h - 3,), lambda i: i).shape
