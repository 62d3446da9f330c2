"""Element types of at most 8 bits in native code: bit by bit what ml_dtypes does."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from smelt.ir import dtype as dt
from smelt.lowering.legalize import legalize_narrow
from smelt.lowering.vectorize import vectorize_loops
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse

from .build import Array, run_llvm

FLOATS = (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float4_e2m1fn",
)  # fmt: skip
INTEGERS = ("int4", "uint4", "int2", "uint2")
NARROW = (*FLOATS, *INTEGERS)


def made(text: str) -> PrimFunc:
    """A program whose vector loops are vectors and whose narrow types are bytes."""
    return legalize_narrow(vectorize_loops(parse(dedent(text))))


def patterns(dtype: str) -> Array:
    """Every value once."""
    raw: Any = np.arange(1 << dt.width(dtype), dtype=np.uint8)
    return np.asarray(raw.view(dt.to_numpy(dtype)))


def same_bits(found: Array, expected: Array) -> None:
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


def test_what_a_type_is() -> None:
    for dtype in NARROW:
        kind = dt.to_numpy(dtype)
        assert (dt.bits(dtype), dt.bytes_of(dtype), kind.itemsize) == (8, 1, 1)
        assert dt.from_numpy(kind) == dtype
    assert [dt.width(d) for d in (*INTEGERS, "float4_e2m1fn", "bool")] == [4, 4, 2, 2, 4, 1]
    assert [dt.limits(d) for d in (*INTEGERS, "bool")] == [
        (-8, 7),
        (0, 15),
        (-2, 1),
        (0, 3),
        (0, 1),
    ]
    assert dt.bytes_of("int4x8") == 8


@pytest.mark.parametrize("dtype", NARROW)
def test_every_pattern_is_read(dtype: str) -> None:
    """As a float, and of integers as an integer, in single steps and in vectors."""
    values = patterns(dtype)
    n = len(values)
    func = made(
        f"""
        def main(A: T.Buffer(({n},), "{dtype}"), B: T.Buffer(({n},), "float32"),
                 C: T.Buffer(({n},), "float16"), D: T.Buffer(({n},), "int32")):
            for i in T.vectorized({min(n, 16)}):
                for j in range({n // min(n, 16)}):
                    B[i + j * {min(n, 16)}] = T.cast("float32", A[i + j * {min(n, 16)}])
            for i in range({n}):
                C[i] = T.cast("float16", A[i])
                D[i] = T.cast("int32", A[i])
        """
    )
    out = [np.zeros(n, t) for t in ("float32", "float16", "int32")]
    assert run_llvm(func, values, *out) == 0
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out[0], values.astype("float32"))
        signed = ~np.isnan(out[0])
        expected = np.signbit(values.astype("float32"))
        np.testing.assert_array_equal(np.signbit(out[0])[signed], expected[signed])
        np.testing.assert_array_equal(out[1], values.astype("float32").astype("float16"))
        if dt.is_int(dtype):
            np.testing.assert_array_equal(out[2], values.astype("int32"))


def numbers(kind: str) -> Array:
    """Numbers around every value and every tie of the float types, and special ones."""
    found = [np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30, 465, 248, 61440])]
    for dtype in FLOATS:
        exact = patterns(dtype).astype("float64")
        exact = np.unique(exact[np.isfinite(exact)])
        found += [exact, (exact[1:] + exact[:-1]) / 2]
    whole = np.concatenate(found)
    with np.errstate(all="ignore"):
        whole = whole.astype(kind)
        whole = np.concatenate(
            [whole, *[np.nextafter(whole, np.array(s * np.inf, kind)) for s in (1, -1)]]
        )
    return whole[: len(whole) // 16 * 16]


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_floats_are_rounded_to_the_nearest(kind: str) -> None:
    values = numbers(kind)
    n = len(values)
    results = "".join(f', r{k}: T.Buffer(({n},), "{d}")' for k, d in enumerate(FLOATS))
    stores = "".join(
        f'\n        r{k}[j * 16 + i] = T.cast("{d}", A[j * 16 + i])' for k, d in enumerate(FLOATS)
    )
    func = made(
        f'def main(A: T.Buffer(({n},), "{kind}"){results}):\n'
        f"    for j in range({n // 16}):\n      for i in T.vectorized(16):{stores}\n"
    )
    out = [np.zeros(n, dt.to_numpy(d)) for d in FLOATS]
    assert run_llvm(func, values, *out) == 0
    with np.errstate(all="ignore"):
        for found in out:
            same_bits(found, values.astype(found.dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_keep_the_low_bits(dtype: str) -> None:
    values = np.arange(-40, 40, dtype="int32")
    floats = values.astype("float32") + np.float32(0.75)
    func = made(
        f"""
        def main(A: T.Buffer((80,), "int32"), F: T.Buffer((80,), "float32"),
                 B: T.Buffer((80,), "{dtype}"), C: T.Buffer((80,), "{dtype}")):
            for i in T.vectorized(80):
                B[i] = T.cast("{dtype}", A[i])
                C[i] = T.cast("{dtype}", F[i])
        """
    )
    out = [np.zeros(80, dt.to_numpy(dtype)) for _ in range(2)]
    assert run_llvm(func, values, floats, *out) == 0
    same_bits(out[0], values.astype(out[0].dtype))
    same_bits(out[1], np.trunc(floats).astype("int32").astype(out[0].dtype))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2fnuz", "float4_e2m1fn", *INTEGERS])
def test_arithmetic_agrees_with_the_interpreter(dtype: str) -> None:
    """Results are rounded, or wrap, after every operation."""
    text = f"""
        def main(A: T.Buffer((64,), "{dtype}"), B: T.Buffer((64,), "{dtype}"),
                 C: T.Buffer((64,), "{dtype}"), D: T.Buffer((64,), "bool")):
            for i in T.vectorized(64):
                x: T.{dtype} = A[i] * B[i] + A[63 - i] - T.{dtype}(1)
                C[i] = T.select(A[i] < B[i], T.max(x, A[i]), T.if_then_else(i > 3, x, B[i]))
                D[i] = x > A[i]
        """
    rng = np.random.default_rng(0)
    values = patterns(dtype)
    if dt.is_float(dtype):
        values = values[np.abs(np.nan_to_num(values.astype("float32"), nan=99)) < 4]
    a, b = (rng.choice(values.view("uint8"), 64).view(values.dtype) for _ in range(2))
    expected, found = ([np.zeros_like(a), np.zeros(64, bool)] for _ in range(2))
    interpret(vectorize_loops(parse(dedent(text))), a.copy(), b.copy(), *expected)
    func = made(text)
    assert not any(p.type == dtype for p in func.buffers)
    assert run_llvm(func, a, b, *found) == 0
    same_bits(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_bits_of_small_integers_are_counted() -> None:
    text = """
        def main(A: T.Buffer((16,), "int4"), B: T.Buffer((16,), "int32"),
                 C: T.Buffer((16,), "int32")):
            for i in range(16):
                B[i] = T.cast("int32", T.popcount(A[i]))
                C[i] = T.cast("int32", T.clz(A[i]))
        """
    values = patterns("int4")
    found, expected = ([np.zeros(16, "int32") for _ in range(2)] for _ in range(2))
    interpret(parse(dedent(text)), values, *expected)
    assert run_llvm(made(text), values, *found) == 0
    np.testing.assert_array_equal(found, expected)
    assert found[0].tolist() == [bin(k).count("1") for k in range(16)]
