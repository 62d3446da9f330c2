"""Sums of bytes become bytes in fewer instructions, and the same bytes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, Function, Var, call, constant, values
from smelt.relax.transform.for_scalar_cores import halve_factors, requantize_small_sums

CHANNELS = 4


def layer(
    r: np.random.Generator, zero: int, least: int, right: int, product: bool
) -> tuple[IRModule, np.ndarray]:
    """A convolution or a product of bytes, with a bias, rescaled by channels, moved, cut off."""
    shape = (5, 6) if product else (1, 6, 3, 3)
    x = Var("x", tensor_type(shape, "int8"))
    w = r.integers(-127, 128, (CHANNELS, 6) if product else (CHANNELS, 6, 2, 2)).astype("int8")
    w[1] *= r.integers(0, 2).astype("int8")  # perhaps a filter of zeros
    bias = r.integers(-9000, 9000, (CHANNELS, *(() if product else (1, 1)))).astype("int32")
    factors = [r.integers(1 << 30, 1 << 31, CHANNELS), np.zeros(CHANNELS),
               r.integers(right, right + 3, CHANNELS)]  # fmt: skip
    if product:
        y = call("matmul", x, constant(w), transpose_b=True, out_dtype="int32")
    else:
        y = call("conv2d", x, constant(w), out_dtype="int32")
    y = call("fixed_point_multiply_per_axis", call("add", y, constant(bias)),
             *[constant(f.astype("int32")) for f in factors], axes=(1,), rounding="twice",
             is_lshift_required=False)  # fmt: skip
    y = call("add", y, constant(np.array(zero, "int32")))
    y = call("cast", call("clip", y, min=least, max=127), dtype="int8")
    return IRModule({"main": Function((x,), y)}), r.integers(-128, 128, shape).astype("int8")


@given(st.integers(0, 10**6), st.integers(-128, 127), st.integers(-128, 127),
       st.integers(0, 12), st.booleans())  # fmt: skip
def test_sums_become_the_same_bytes(
    seed: int, zero: int, least: int, right: int, product: bool
) -> None:
    before, x = layer(np.random.default_rng(seed), zero, least, right, product)
    small = requantize_small_sums(before)
    (found,) = [v for v in values(small["main"].body)
                if isinstance(v, Call) and v.callee == "requantize_sums"]  # fmt: skip
    assert found.attrs["away"] or zero <= least
    wanted = interpret(before["main"], x)
    for made in (small, halve_factors(small)):
        np.testing.assert_array_equal(interpret(made["main"], x), wanted)


def test_halves_count_where_results_below_zero_do() -> None:
    for least, away in ((-128, True), (5, False), (6, False), (4, True)):
        mod = requantize_small_sums(layer(np.random.default_rng(0), 5, least, 6, False)[0])
        text = str(mod)
        assert ("away=False" in text) is not away
