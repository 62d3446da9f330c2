"""The interpreter against numpy."""

# ruff: noqa: E501 (programs as texts)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from smelt.ir import dtype as dt
from smelt.ir.expr import Var, const
from smelt.tir.interpret import InterpretError, interpret
from smelt.tir.interpret_threads import Order
from smelt.tir.nodes import Buffer, BufferStore, For, IfThenElse, PrimFunc, Stmt, walk
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.script_ops import INTRINSICS

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
    z = np.array([1e300, -1e300], "float64")
    np.testing.assert_array_equal(_run("T.fma($x, $x, $y)", "float64", z, z), [np.inf, np.inf])
    np.testing.assert_array_equal(_run("T.fma($x, $y, $x)", "float64", z, -z), [-np.inf, -np.inf])


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
    interpret(func, shuffled, order="random", seed=1)
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


_GUARDED = {
    "branch": """
        if d > 0:
            B[i] = 10 // d + C[d]
""",
    "other branch": """
        if d <= 0:
            B[i] = B[i]
        else:
            B[i] = 10 // d + C[d]
""",
    "choice": """
        B[i] = B[i] + T.if_then_else(d > 0, 10 // d + C[d], 0)
""",
    "loop": """
        for j in range(T.min(d, 1)):
            B[i] = 10 // d + C[d]
""",
    "repetition": """
        while T.And(d > 0, B[i] == 0):
            B[i] = 10 // d + C[d]
""",
    "predicate": """
        with T.block("b"):
            v = T.axis.spatial(5, i)
            T.where(d > 0)
            T.reads(C[d])
            T.writes(B[v])
            B[v] = 10 // d + C[d]
""",
    "reduction": """
        for k in range(2):
            with T.block("b"):
                v, w = T.axis.remap("SR", [i, k])
                T.where(d > 0)
                with T.init():
                    B[v] = 10 // d
                B[v] = B[v] + C[d] * w
""",
}


@pytest.mark.parametrize("case", list(_GUARDED))
@pytest.mark.parametrize("value", ["i - 2", "C[i + 1] + i - 5"])
def test_nothing_is_computed_before_its_guard(case: str, value: str) -> None:
    """Neither the division by zero nor the load outside of C that the guards prevent."""
    func = parse(
        'def f(B: T.Buffer((5,), "int64"), C: T.Buffer((9,), "int64")):\n'
        f"    for i in range(5):\n        d = {value}{_GUARDED[case]}"
    )
    b, c = np.zeros(5, "int64"), np.arange(9)[::-1] - 4
    values = [i - 2 if value == "i - 2" else int(c[i + 1]) + i - 5 for i in range(5)]
    interpret(func, b, c)
    np.testing.assert_array_equal(b, [10 // d + c[d] if d > 0 else 0 for d in values])


def test_a_guard_says_nothing_after_a_store() -> None:
    func = parse("""
def f(A: T.Buffer((4,), "int64"), B: T.Buffer((4,), "int64")):
    if A[0] < 4:
        A[0] = A[0] + 4
        B[A[0]] = 1
""")
    with pytest.raises(InterpretError, match=r"B\[4\] is outside of its shape"):
        interpret(func, np.zeros(4, "int64"), np.zeros(4, "int64"))


def test_a_sum_wraps_before_it_becomes_wider() -> None:
    func = parse("""
def f(A: T.Buffer((3,), "int64"), X: T.Buffer((1,), "int32")):
    x = X[0]
    if x < 5:
        A[0] = T.cast("int64", x + 1)
    A[1] = T.cast("int64", x + 1)
    A[2] = T.cast("int64", x) + 1
""")
    a = np.zeros(3, "int64")
    interpret(func, a, np.array([2**31 - 1], "int32"))
    np.testing.assert_array_equal(a, [0, -(2**31), 2**31])


def test_an_index_wraps_before_it_is_tested() -> None:
    func = parse("""
def f(A: T.Buffer((4,), "int64"), n: T.int64):
    for i in range(n):
        j = T.cast("int8", i) + T.int8(120)
        A[T.cast("int64", j + T.int8(9)) + 127] = T.cast("int64", j)
""")
    a = np.zeros(4, "int64")
    interpret(func, a, 4)
    np.testing.assert_array_equal(a, [120, 121, 122, 123])
    with pytest.raises(InterpretError, match=r"A\[4\] is outside of its shape .* i = 4"):
        interpret(func, a, 5)


def test_a_loop_stays_in_the_type_of_its_variable() -> None:
    func = parse("""
def f(A: T.Buffer((256,), "int8"), n: T.int8):
    for i in T.serial(n, n + T.int8(28), dtype="int8"):
        A[T.cast("int64", i)] = i
""")
    a = np.zeros(256, "int8")
    interpret(func, a, 99)
    assert a[126] == 126
    with pytest.raises(InterpretError, match=r"the loop i over 101 \.\.\. 128 leaves the .* int8"):
        interpret(func, a, 101)


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


# ------------------------------------------------------------------------------------ intrinsics

_REFERENCE: dict[str, Any] = {
    **{n: getattr(np, n) for n in ["exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sqrt", "tanh", "sin", "cos", "tan", "sinh", "cosh", "floor", "ceil", "trunc", "abs", "isnan", "isinf", "isfinite", "sign"]},
    **{n: getattr(np, "arc" + n[1:]) for n in ["asin", "acos", "atan", "asinh", "acosh", "atanh"]},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf),
    "round": np.round,
    "likely": lambda x: x,
    "atan2": np.arctan2, "pow": np.power, "fmod": np.fmod, "copysign": np.copysign,
    "nextafter": np.nextafter, "hypot": np.hypot,
    "fma": lambda x, y, z: x * y + z,
    "if_then_else": lambda x, y, z: np.where(x > y, y, z),
    "ldexp": lambda x, y: np.ldexp(x, y.astype("int32")),
}  # fmt: skip
_INTEGERS: dict[str, Any] = {
    "bitwise_not": np.invert,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "shift_left": lambda x, y: x << (y & 7),
    "shift_right": lambda x, y: x >> (y & 7),
    "high_product": lambda x, y: (x.astype("i8") * y + (1 << 31)) >> 32,
    "popcount": lambda x: np.bitwise_count(x.view("uint32")),
    "clz": np.vectorize(lambda x: 32 - (int(x) & 0xFFFFFFFF).bit_length()),
    "reinterpret": lambda x: x.view("uint32"),
}


@pytest.mark.parametrize("op", [op for op in INTRINSICS if op in _REFERENCE])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_every_intrinsic_of_floats(op: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    kind = dt.to_numpy(dtype)
    a, b, c = (rng.uniform(-2, 2, 40).astype(kind) for _ in range(3))
    names = "xyz"[: INTRINSICS[op].arity]
    out = "bool" if op in ("isnan", "isinf", "isfinite") else dtype
    if op == "if_then_else":
        text = "T.if_then_else($x > $y, $y, $z)"
    elif op == "ldexp":
        text = 'T.ldexp($x, T.cast("int32", $y))'
    else:
        text = f"T.{op}({', '.join(['$' + n for n in names])})"
    wide = [x.astype("f8") for x in (a, b, c)][: INTRINSICS[op].arity]
    with np.errstate(all="ignore"):
        found = _run(text, dtype, a, b, c, out=out)
        expected = np.asarray(_REFERENCE[op](*wide))
    tolerance = {"float64": 1e-12, "float32": 3e-6, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    np.testing.assert_allclose(
        found.astype("f8"), expected.astype("f8"), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("op", list(_INTEGERS))
def test_every_intrinsic_of_integers(op: str) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-(1 << 31), 1 << 31, 50, dtype="int32") for _ in range(2))
    text, out = f"T.{op}($x)", "int32"
    if op in ("shift_left", "shift_right"):
        text = f"T.{op}($x, T.bitwise_and($y, 7))"
    elif INTRINSICS[op].arity == 2:
        text = f"T.{op}($x, $y)"
    elif op == "reinterpret":
        text, out = 'T.call("uint32", "reinterpret", $x)', "uint32"
    expected = _INTEGERS[op](*[a, b][: INTRINSICS[op].arity])
    np.testing.assert_array_equal(_run(text, "int32", a, b, out=out), expected.astype(out))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_next_value_is_one_of_the_type(dtype: str) -> None:
    a, b = _floats(dtype)
    with np.errstate(all="ignore"):
        found = _run("T.nextafter($x, $y)", dtype, a, b)
        np.testing.assert_array_equal(found.view("u1"), np.nextafter(a, b).view("u1"))


def test_no_intrinsic_is_left_out() -> None:
    assert set(INTRINSICS) == set(_REFERENCE) | set(_INTEGERS)


def test_powers_of_integers_wrap_and_are_quick() -> None:
    a, b = np.array([3, -7, 2], "int64"), np.array([1 << 40, 3, 63], "int64")
    found = _run("T.pow($x, $y)", "int64", a, b)
    assert found[0] == (pow(3, 1 << 40, 1 << 64) ^ (1 << 63)) - (1 << 63)
    np.testing.assert_array_equal(found[1:], [-343, -(1 << 63)])


# --------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("strides", [(1, 4), (12, 2), (0, 1), (7, 1), (3, 3)])
def test_strides_of_parameters(strides: tuple[int, int]) -> None:
    """Elements that share a place share their value; the others do not."""
    func = parse(
        f'def f(A: T.Buffer((4, 5), "int32", strides={strides}), B: T.Buffer((4, 5), "int32")):\n'
        "    for i, j in T.grid(4, 5):\n"
        '        A[i, j] = A[i, j] + T.cast("int32", i * 10 + j + 1)\n'
        "    for i, j in T.grid(4, 5):\n        B[i, j] = A[i, j]\n"
    )
    memory = np.zeros(64, "int32")
    expected = np.zeros(64, "int32")
    for i, j in np.ndindex(4, 5):
        expected[i * strides[0] + j * strides[1]] += i * 10 + j + 1
    view = np.lib.stride_tricks.as_strided(memory, (4, 5), [4 * s for s in strides])
    b = np.zeros((4, 5), "int32")
    interpret(func, view, b)
    np.testing.assert_array_equal(memory, expected)
    np.testing.assert_array_equal(b, view)


def test_an_array_of_another_layout_is_as_good() -> None:
    func = parse(
        'def f(A: T.Buffer((4, 5), "float32", strides=(1, 4)), B: T.Buffer((20,), "float32")):\n'
        "    for i, j in T.grid(4, 5):\n        B[i * 5 + j] = A[i, j]\n        A[i, j] = 0.0\n"
    )
    a, b = np.arange(20, dtype="float32").reshape(4, 5), np.zeros(20, "float32")
    interpret(func, a, b)
    np.testing.assert_array_equal(b, np.arange(20))
    assert not a.any()


def test_strides_of_intermediate_buffers() -> None:
    func = parse("""
def f(B: T.Buffer((6,), "int32")):
    t = T.allocate((3, 4), "int32", strides=(2, 1))
    for i, j in T.grid(3, 4):
        t[i, j] = T.cast("int32", i * 10 + j)
    for i in range(3):
        B[i] = t[i, 0]
        B[i + 3] = t[i, 3]
""")
    b = np.zeros(6, "int32")
    interpret(func, b)
    np.testing.assert_array_equal(b, [0, 10, 20, 11, 21, 23])


def test_buffers_whose_size_changes_while_the_program_runs() -> None:
    func = parse("""
def f(A: T.Buffer((6,), "int32")):
    for n in range(6):
        t = T.allocate((n + 1, 2), "int32")
        for i, j in T.grid(n + 1, 2):
            t[i, j] = T.cast("int32", i + j)
        A[n] = t[n, 1]
""")
    a = np.zeros(6, "int32")
    interpret(func, a)
    np.testing.assert_array_equal(a, np.arange(6) + 1)
    wrong = parse(script(func).replace("t[n, 1]", "t[n + 1, 1]"))
    with pytest.raises(
        InterpretError, match=r"t\[1, 1\] is outside of its shape \(1, 2\), where n = 0"
    ):
        interpret(wrong, a)


def test_read_only_arrays() -> None:
    func = parse(
        'def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):\n'
        "    for i in range(4):\n        B[i] = A[i]\n"
    )
    a, b = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    a.flags.writeable = False
    interpret(func, a, b)
    np.testing.assert_array_equal(a, b)
    with pytest.raises(InterpretError, match="f stores in B, whose array is read-only"):
        interpret(func, b + 1, a)


# ---------------------------------------------------------------------------------------- orders


@pytest.mark.parametrize(("order", "last"), [("forward", 63), ("reverse", 1)])
def test_orders_of_a_parallel_loop(order: Order, last: int) -> None:
    func = parse(
        'def f(A: T.Buffer((64,), "int64")):\n    for i in T.parallel(1, 64):\n'
        "        A[i] = A[i - 1] + 1\n"
    )
    a = np.zeros(64, "int64")
    interpret(func, a, order=order)
    assert a[-1] == last
    results = set()
    for seed in range(4):
        b = np.zeros(64, "int64")
        interpret(func, b, order="random", seed=seed)
        again = np.zeros(64, "int64")
        interpret(func, again, order="random", seed=seed)
        np.testing.assert_array_equal(b, again)
        results.add(tuple(b))
    assert len(results) > 1


# ---------------------------------------------------------------------------------------- faults

FAULTS = {
    "division": """
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = 1
        B[i] = 100 // A[i]
""",
    "shift": """
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = T.shift_left(1, A[i] + 31)
""",
    "assertion": """
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        for j in range(2):
            assert A[i] * T.cast("int32", j) < 4, "small"
            B[i] = 1
""",
    "domain": """
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(4, T.cast("int64", A[i]))
            T.reads(A[0:8])
            T.writes(B[v])
            B[v] = 1
""",
    "vector": """
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(3):
        B[T.ramp(i * 3, 1, 4)] = A[T.ramp(i * 3, 1, 4)] + T.broadcast(T.int32(1), 4)
""",
    "endless_size": """
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    while A[0] < 3:
        A[0] = A[0] + 1
        B[A[0] * 4] = 1
""",
    "unknown_intrinsic": """
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = T.call("int32", "rotate", A[i])
""",
    "nobody_says": """
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        T.smelt.call_packed("print", i)
""",
}


@pytest.mark.parametrize("case", list(FAULTS))
def test_faults_say_where(case: str, golden: Callable[[str], None]) -> None:
    a = np.arange(8, dtype="int32")
    if case == "division":
        a = np.array([3, 2, 0, 1, 1, 1, 1, 1], "int32")
    with pytest.raises(InterpretError) as caught:
        interpret(parse(FAULTS[case]), a, np.zeros(8, "int32"))
    golden(str(caught.value))


def test_nesting_without_end_is_refused() -> None:
    stmt: Stmt = BufferStore(Buffer("A", (const(1),), "int64"), const(1), (const(0),))
    n = Var("n")
    for _ in range(400):
        stmt = IfThenElse(n > 0, stmt)
    with pytest.raises(InterpretError, match="too deeply nested to be interpreted"):
        interpret(PrimFunc((stmt_buffer(stmt), n), stmt, {"name": "deep"}), np.zeros(1, "int64"), 1)


def stmt_buffer(s: Stmt) -> Buffer:
    return next(x.buffer for x in walk(s) if isinstance(x, BufferStore))
