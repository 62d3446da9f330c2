"""The interpreter against numpy."""

# ruff: noqa: E501 (programs as texts)

from __future__ import annotations

import numpy as np
import pytest

from smelt.ir import dtype as dt
from smelt.ir.expr import Var, const
from smelt.tir.interpret import InterpretError, interpret
from smelt.tir.nodes import Buffer, BufferStore, For, PrimFunc, Stmt
from smelt.tir.parser import parse

FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def _run(expression: str, dtype: str, *arrays: np.ndarray, out: str | None = None) -> np.ndarray:
    names = "xyz"[: len(arrays)]
    loads = expression
    for name in names:
        loads = loads.replace(f"${name}", f"{name}[i]")
    params = ", ".join([f'{n}: T.Buffer((n,), "{dtype}")' for n in names])
    func = parse(
        f'def f({params}, r: T.Buffer((n,), "{out or dtype}")):\n    n = T.int64()\n'
        f"    for i in range(n):\n        r[i] = {loads}\n"
    )
    result = np.zeros(arrays[0].shape, dt.to_numpy(out or dtype))
    interpret(func, *arrays, result)
    return result


def _floats(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        a = (rng.standard_normal(300) * 10.0 ** rng.integers(-3, 3, 300)).astype(dt.to_numpy(dtype))
        a[:6] = [0.0, -0.0, np.inf if "e4m3" not in dtype else 1, np.nan, 1.0, -1.0]
    return a, np.roll(a, 7)


@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_arithmetic_is_exact(dtype: str, op: str) -> None:
    a, b = _floats(dtype)
    with np.errstate(all="ignore"):
        expected = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op](a, b)
        np.testing.assert_array_equal(
            _run(f"$x {op} $y", dtype, a, b).astype("f8"), expected.astype("f8")
        )


@pytest.mark.parametrize("dtype", INTS)
def test_integers_wrap(dtype: str) -> None:
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    a = rng.integers(info.min, info.max, 200, dtype=dtype, endpoint=True)
    b = np.roll(a, 3)
    with np.errstate(all="ignore"):
        for text, expected in (
            ("$x + $y", a + b),
            ("$x * $y", a * b),
            ("$x - $y", a - b),
            ("$x * $x * $y", a * a * b),
            ("T.min($x, $y)", np.minimum(a, b)),
            ("T.bitwise_xor($x, $y)", a ^ b),
            ("T.shift_left($x, 3)", a << dt.to_numpy(dtype).type(3)),
            ("$x // 7", a // 7),
            ("$x % 7", a % 7),
            ("T.popcount($x)", np.bitwise_count(a.view(f"u{a.itemsize}"))),
        ):
            np.testing.assert_array_equal(
                _run(text, dtype, a, b), expected.astype(dtype), err_msg=text
            )


@pytest.mark.parametrize(
    "op",
    [
        "exp",
        "log",
        "sqrt",
        "tanh",
        "sin",
        "cos",
        "floor",
        "ceil",
        "trunc",
        "log1p",
        "expm1",
        "log2",
        "log10",
        "abs",
        "sinh",
        "cosh",
        "tan",
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_functions(dtype: str, op: str) -> None:
    a = _floats(dtype)[0]
    with np.errstate(all="ignore"):
        expected = getattr(np, op)(a.astype("f8")).astype(dtype)
        found = _run(f"T.{op}($x)", dtype, a)
    np.testing.assert_allclose(
        found.astype("f8"), expected.astype("f8"), rtol=1e-3 if dtype == "float16" else 1e-6
    )


def test_round_to_even_and_fma() -> None:
    a = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -0.2], "float32")
    np.testing.assert_array_equal(_run("T.round($x)", "float32", a), np.round(a))
    x = np.array([1 + 2.0**-12], "float32")
    y = np.array([-1 - 2.0**-11], "float32")
    np.testing.assert_array_equal(
        _run("T.fma($x, $x, $y)", "float32", x, y), np.array([2.0**-24], "float32")
    )


def test_reinterpret_and_casts() -> None:
    a = np.array([1.0, -2.5, 300.7, np.nan], "float32")
    np.testing.assert_array_equal(
        _run('T.call("int32", "reinterpret", $x)', "float32", a, out="int32"), a.view("int32")
    )
    np.testing.assert_array_equal(
        _run('T.cast("int8", $x)', "float32", a, out="int8"), [1, -2, 127, 0]
    )
    np.testing.assert_array_equal(_run('T.cast("bool", $x)', "float32", a, out="bool"), [True] * 4)


def test_int4_is_stored() -> None:
    a = np.array([-8, -1, 0, 7]).astype(dt.to_numpy("int4"))
    np.testing.assert_array_equal(_run("$x + 1", "int4", a).astype("i4"), [-7, 0, 1, -8])


MATMUL = """
def matmul(A: T.Buffer((m, k), "float32"), B: T.Buffer((k, n), "float32"), C: T.Buffer((m, n), "float32"), m: T.int64, n: T.int64, k: T.int64):
    for i, j, p in T.grid(m, n, k):
        with T.block("C"):
            vi, vj, vp = T.axis.remap("SSR", [i, j, p])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vp] * B[vp, vj]
"""


def test_blocks_with_symbolic_sizes_and_strided_arrays() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((6, 10)).astype("float32")[:, ::2]
    b, c = rng.standard_normal((5, 4)).astype("float32"), np.full((4, 6), 9, "float32").T
    interpret(parse(MATMUL), a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    c2 = np.zeros((6, 4), "float32")
    interpret(parse(MATMUL), a, b, c2, 6, 4, 5)
    np.testing.assert_array_equal(c, c2)


def test_a_race_shows_when_shuffled() -> None:
    func = parse(
        'def f(A: T.Buffer((64,), "int64")):\n    for i in T.parallel(1, 64):\n        A[i] = A[i - 1] + 1\n'
    )
    plain, shuffled = np.zeros(64, "int64"), np.zeros(64, "int64")
    interpret(func, plain)
    interpret(func, shuffled, shuffle=True, seed=1)
    assert plain[-1] == 63
    assert shuffled[-1] != 63


def test_guarded_loads_are_lazy() -> None:
    func = parse(
        'def f(A: T.Buffer((4,), "float32"), B: T.Buffer((8,), "float32")):\n    for i in range(8):\n'
        "        B[i] = T.if_then_else(2 <= i and i < 6, A[i - 2], 7.0)\n"
    )
    b = np.zeros(8, "float32")
    interpret(func, np.arange(4, dtype="float32"), b)
    np.testing.assert_array_equal(b, [7, 7, 0, 1, 2, 3, 7, 7])


def test_deep_loop_nests() -> None:
    a = Buffer("A", (const(1),), "int64")
    n = Var("n")
    stmt: Stmt = BufferStore(a, a[0] + 1, (const(0),))
    for d in range(30):
        stmt = For(Var(f"i{d}"), const(0), const(2) if d in (3, 20) else n, stmt)
    count = np.zeros(1, "int64")
    interpret(PrimFunc((a, n), stmt, {"name": "deep"}), count, 1)
    assert count[0] == 4


def test_uninitialised_memory_shows() -> None:
    func = parse(
        'def f(A: T.Buffer((1,), "float32")):\n    t = T.allocate((1,), "float32")\n    A[0] = t[0]\n'
    )
    a = np.zeros(1, "float32")
    interpret(func, a)
    assert np.isnan(a[0])


def test_host_intrinsics_are_given() -> None:
    func = parse('def f(x: T.handle):\n    T.smelt.call_kernel("k", x)\n')
    seen: list[object] = []
    interpret(func, "tensor", host={"smelt.call_kernel": lambda *a: seen.append(a)})
    assert seen == [("k", "tensor")]
    with pytest.raises(InterpretError, match="nobody says"):
        interpret(func, "tensor")
