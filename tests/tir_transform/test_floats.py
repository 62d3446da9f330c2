"""Narrow floats as wider arithmetic and as integers: bit by bit what the types themselves do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError, Unsupported
from smelt.tir import transform as t
from smelt.tir.interpret import interpret
from smelt.tir.printer import script
from smelt.tir.verify import verify

from .support import expressions, program

NARROW = {
    "bfloat16": (t.BF16ComputeLegalize, t.BF16StorageLegalize),
    "float8_e4m3fn": (t.FP8ComputeLegalize, t.FP8StorageLegalize),
    "float8_e5m2": (t.FP8ComputeLegalize, t.FP8StorageLegalize),
}


def bits_of(dtype: str) -> str:
    return f"uint{dt.bits(dtype)}"


def equal(found: Any, expected: Any) -> bool:
    """Bit by bit, but for which NaN it is."""
    kind = expected.dtype
    nan = np.isnan(expected.astype("float32"))
    return bool(
        np.array_equal(np.isnan(found.view(kind).astype("float32")), nan)
        and np.array_equal(found[~nan], expected.view(found.dtype)[~nan])
    )


@pytest.mark.parametrize("dtype", list(NARROW))
def test_every_pattern_is_read_as_its_value(dtype: str) -> None:
    count = 1 << dt.bits(dtype) if dtype != "bfloat16" else 1 << 12
    func = program(
        f"""
        def main(A: T.Buffer(({count},), "{dtype}"), B: T.Buffer(({count},), "float32")):
            for i in range({count}):
                B[i] = T.cast("float32", A[i])
        """
    )
    new = verify(NARROW[dtype][1]()(func))
    patterns = np.arange(count, dtype="uint32") * ((1 << dt.bits(dtype)) // count)
    patterns = patterns.astype(bits_of(dtype))
    values = np.zeros(count, "float32")
    interpret(new, patterns, values)
    expected = patterns.view(dt.to_numpy(dtype)).astype("float32")
    assert equal(values.view("uint32"), expected)


@pytest.mark.parametrize("dtype", list(NARROW))
def test_values_are_rounded_to_the_nearest(dtype: str) -> None:
    kind = dt.to_numpy(dtype)
    exact = np.arange(1 << dt.bits(dtype), dtype="uint32").astype(bits_of(dtype)).view(kind)
    exact = np.unique(exact[np.isfinite(exact.astype("float32"))].astype("float64"))
    exact = exact[:: max(1, len(exact) // 300)]
    ties = (exact[1:] + exact[:-1]) / 2
    near = [np.nextafter(ties.astype("float32"), np.float32(s * np.inf)) for s in (1, -1)]
    rng = np.random.default_rng(0)
    other = rng.standard_normal(300) * np.exp(rng.uniform(-20, 20, 300))
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 464.0, 465.0, 480.0, 61439.0, 61440.0, 1e38]
    values = np.concatenate([exact, ties, *near, other, special]).astype("float32")
    count = len(values)
    func = program(
        f"""
        def main(A: T.Buffer(({count},), "float32"), B: T.Buffer(({count},), "{dtype}")):
            for i in range({count}):
                B[i] = T.cast("{dtype}", A[i])
        """
    )
    new = verify(NARROW[dtype][1]()(func))
    found = np.zeros(len(values), bits_of(dtype))
    with np.errstate(all="ignore"):
        interpret(new, values, found)
        expected = values.astype(kind)
    assert equal(found, expected)


@pytest.mark.parametrize("dtype", list(NARROW))
def test_arithmetic_is_rounded_after_every_operation(dtype: str) -> None:
    func = program(
        f"""
        def main(A: T.Buffer((40,), "{dtype}"), B: T.Buffer((40,), "{dtype}"),
                 C: T.Buffer((40,), "{dtype}"), D: T.Buffer((40,), "bool")):
            for i in range(40):
                x: T.{dtype} = A[i] * B[i] + A[39 - i] / T.{dtype}(3.0) - B[i]
                C[i] = T.select(A[i] < B[i], T.max(x, A[i]), T.abs(x) * T.cast("{dtype}", i))
                D[i] = T.isnan(x) or T.cast("bool", T.if_then_else(i > 3, A[i], B[i]))
        """
    )
    compute, storage = (make() for make in NARROW[dtype])
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(40).astype(dt.to_numpy(dtype)) for _ in range(2))
    expected, truth = np.zeros_like(a), np.zeros(40, bool)
    interpret(func, a.copy(), b.copy(), expected, truth)
    wide = verify(compute(func))
    narrow = verify(storage(wide))
    for new, kind in ((wide, a.dtype), (narrow, np.dtype(bits_of(dtype)))):
        found, told = np.zeros_like(a), np.zeros(40, bool)
        interpret(new, a.copy().view(kind), b.copy().view(kind), found.view(kind), told)
        assert equal(found.view(bits_of(dtype)), expected)
        np.testing.assert_array_equal(told, truth)
    assert not any(dt.scalar(e.dtype) == dtype for e in expressions(narrow))
    assert not any(b.type == dtype for b in narrow.buffers)


def test_long_chains_stay_short() -> None:
    lines = "".join(f" + A[{k}]" for k in range(1, 30))
    func = program(
        f"""
        def main(A: T.Buffer((30,), "bfloat16"), B: T.Buffer((1,), "bfloat16")):
            B[0] = A[0]{lines}
        """
    )
    new = t.BF16StorageLegalize()(t.BF16ComputeLegalize()(func))
    assert len(script(new)) < 200 * len(script(func))
    a = np.linspace(-1, 2, 30).astype(dt.to_numpy("bfloat16"))
    expected, found = np.zeros(1, a.dtype), np.zeros(1, "uint16")
    interpret(func, a.copy(), expected)
    interpret(verify(new), a.view("uint16"), found)
    assert equal(found, expected)


def test_vectors_are_legalized_as_well() -> None:
    func = program(
        """
        def main(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "bfloat16")):
            for i in T.vectorized(16):
                B[i] = A[i] * A[i] + T.bfloat16(1.0)
        """
    )
    a = np.linspace(-3, 3, 16).astype(dt.to_numpy("bfloat16"))
    expected = np.zeros_like(a)
    interpret(func, a.copy(), expected)
    new = t.VectorizeLoop()(func)
    for p in (t.BF16ComputeLegalize(), t.BF16StorageLegalize()):
        new = verify(p(new))
    found = np.zeros(16, "uint16")
    interpret(new, a.view("uint16"), found)
    assert equal(found, expected)


def test_storage_comes_after_arithmetic() -> None:
    func = program('def main(A: T.Buffer((4,), "bfloat16")):\n    A[0] = A[1] + A[2]')
    with pytest.raises(CompileError) as caught:
        t.BF16StorageLegalize()(func)
    assert str(caught.value) == (
        "BF16StorageLegalize: A[1] + A[2] computes with values of bfloat16; "
        "BF16ComputeLegalize comes first"
    )
    with pytest.raises(Unsupported) as refused:
        t.FP8ComputeLegalize("bfloat16")
    assert str(refused.value) == (
        "FP8ComputeLegalize(promote_dtype_str='bfloat16'): legal: float16, float32"
    )
