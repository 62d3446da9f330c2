"""Approximations, fixed-point products, roundings, bits, and the types products are summed in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.ir.errors import TypeMismatch

from .cases import BFLOAT16, Array, Case, data
from .compiled import check_all, run_compiled

FLOATS = ("float16", "float32", "float64", "bfloat16")


def test_logarithms_and_powers() -> None:
    cases = []
    for dtype in FLOATS:
        for name in ("log2", "log10"):
            cases.append(Case(name, data((3, 5), dtype, 0.1, 9), symbolic={0: {0: "n"}}))
        cases.append(Case("exp2", data((3, 5), dtype)))
    check_all(cases)


SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, 1.0]


def test_finite_numbers() -> None:
    cases = [Case("isfinite", np.array(SPECIAL, t)) for t in ("f2", "f4", "f8", BFLOAT16)]
    check_all(cases)


HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, -0.49999997, 0.3, -0.7, 8388609.0,
          -8388609.0, 4503599627370497.0, np.inf, -np.inf, np.nan, 0.0]  # fmt: skip


@pytest.mark.parametrize("mode", ["even", "away", "up"])
def test_rounding(mode: str) -> None:
    cases = [Case("round", np.array(HALVES, t), mode=mode) for t in ("f4", "f8")]
    cases += [Case("round", data((40,), t, -9, 9), mode=mode) for t in FLOATS]
    cases.append(Case("round", data((9,), "int32"), mode=mode))
    check_all(cases)


PAIRS = [("float32", "int32"), ("int32", "float32"), ("float64", "uint64"), ("uint8", "int8"),
         ("float16", "uint16"), ("int16", "float16"), ("int64", "float64"), ("float32", "float32"),
         ("uint32", "int32"), ("bfloat16", "int16")]  # fmt: skip


def test_bits_as_another_type() -> None:
    cases = [Case("reinterpret", data((3, 7), a, -9, 9), dtype=b) for a, b in PAIRS]
    check_all(cases)


# -------------------------------------------------------------------------------- approximations

GRID = np.linspace(-10, 10, 20001)
ERRORS: list[tuple[str, Array, float, float]] = [
    # operator, points, relative error, absolute error
    ("fast_exp", np.linspace(-87.3, 88.3, 40001), 3e-6, 0.0),
    ("fast_tanh", GRID, 0.0, 1e-5),
    ("fast_erf", GRID, 0.0, 1e-6),
]


@pytest.mark.parametrize(("name", "points", "relative", "absolute"), ERRORS)
def test_approximations_keep_their_error(
    name: str, points: Array, relative: float, absolute: float
) -> None:
    case = Case(name, points.astype(np.float32))
    want = case.numpy()[0].astype(np.float64)
    got = run_compiled([case])[0][0].astype(np.float64)
    assert np.all(np.abs(got - want) <= relative * np.abs(want) + absolute)


def test_approximations_of_all_floats() -> None:
    names, shape = ("fast_exp", "fast_tanh", "fast_erf"), (2, 3, 4)
    cases = [Case(n, data(shape, t), symbolic={0: {1: "n"}}) for n in names for t in FLOATS]
    check_all([c for c in cases if c.types[0] and c.types[0].dtype != "float64"])
    check_all([c for c in cases if c.types[0] and c.types[0].dtype == "float64"], 1e-5)


def test_approximations_at_the_ends() -> None:
    ends = np.array([-np.inf, -1e30, -200, 200, 1e30, np.inf, np.nan], np.float32)
    check_all([Case(n, ends) for n in ("fast_exp", "fast_tanh", "fast_erf")])


# ---------------------------------------------------------------------------- fixed-point numbers

EDGES = np.array([0, 1, -1, 2, -2, 3, -3, 1 << 30, -(1 << 30), (1 << 31) - 1, -(1 << 31)], "i4")


@pytest.mark.parametrize("shift", [-31, -7, -1, 0, 1, 5])
def test_fixed_point_products(shift: int) -> None:
    factors = (1 << 30, (1 << 31) - 1, 1395864371, -(1 << 31), 0)
    x = np.concatenate([EDGES if shift <= 0 else EDGES[:7], data((30,), "int32", -999, 999)])
    check_all([
        Case("fixed_point_multiply", x, multiplier=m, shift=shift, rounding=r)
        for m in factors
        for r in ("upward", "away", "twice")
    ])  # fmt: skip


def test_halves_go_upward_or_away_from_zero() -> None:
    x = np.array([1, 3, 5, -1, -3, -5], np.int32)
    more: Any = {"multiplier": 1 << 30, "shift": 0}
    assert Case("fixed_point_multiply", x, **more).numpy()[0].tolist() == [1, 2, 3, 0, -1, -2]
    away = Case("fixed_point_multiply", x, rounding="away", **more)
    assert away.numpy()[0].tolist() == [1, 2, 3, -1, -2, -3]


def twice_rounded(x: int, multiplier: int, shift: int) -> int:
    """The same in the words of the kernels that do so: a nudge and a division cut off, then a
    remainder beside a threshold."""
    product = (x << max(shift, 0)) * multiplier
    moved = product + ((1 << 30) if product >= 0 else 1 - (1 << 30))
    high = abs(moved) // (1 << 31) * (1 if moved >= 0 else -1)
    mask = (1 << max(-shift, 0)) - 1
    return (high >> max(-shift, 0)) + ((high & mask) > (mask >> 1) + (high < 0))


@given(st.integers(-(1 << 24), 1 << 24), st.integers(1 << 30, (1 << 31) - 1), st.integers(-20, 6))
def test_products_are_rounded_twice(x: int, multiplier: int, shift: int) -> None:
    c = Case("fixed_point_multiply", np.array([x], np.int32), multiplier=multiplier, shift=shift,
             rounding="twice")  # fmt: skip
    assert c.numpy()[0].tolist() == [twice_rounded(x, multiplier, shift)]


def test_rounding_twice_is_not_rounding_once() -> None:
    x = np.array([1, -1], np.int32)
    more: Any = {"multiplier": 1 << 30, "shift": -1}  # 1 / 4; or 1 / 2 to 1, and that / 2 to 1
    once, twice = (Case("fixed_point_multiply", x, rounding=r, **more).numpy()[0].tolist()
                   for r in ("away", "twice"))  # fmt: skip
    assert once == [0, 0]
    assert twice == [1, 0]


@pytest.mark.parametrize(("left", "right"), [(True, True), (False, True), (True, False)])
def test_fixed_point_products_along_axes(left: bool, right: bool) -> None:
    required: Any = {"is_lshift_required": left, "is_rshift_required": right}
    x, name = data((2, 3, 4), "int32", -9999, 9999), "fixed_point_multiply_per_axis"
    one = [data((3,), "int32", 1 << 29, (1 << 31) - 2), *[data((3,), "int32", 0, 6)] * 2]
    two = [data((2, 4), "int32", 1 << 29, (1 << 31) - 2), *[data((2, 4), "int32", 0, 6)] * 2]
    check_all([
        Case(name, x, *one, axes=(1,), symbolic={0: {0: "n"}}, **required),
        Case(name, x, *two, axes=(0, -1), **required),
        Case(name, x, *two, axes=(0, -1), rounding="away", **required),
        Case(name, x, *two, axes=(0, -1), rounding="twice", **required),
    ])  # fmt: skip


# -------------------------------------------------------------------------------- types of products

OPERANDS = [("uint8", "int8", "int32"), ("int8", "int8", "int32"), ("uint8", "uint8", "uint32"),
            ("int8", "int8", "int8"), ("int16", "int8", "int64"), ("float16", "float16", "float32"),
            ("float32", "float32", "float64"), ("float32", "float32", "float16"),
            ("bfloat16", "bfloat16", "float32")]  # fmt: skip


def whole_range(shape: tuple[int, ...], dtype: str) -> Array:
    if dtype[0] == "u":
        return data(shape, dtype, 0, 255)
    return data(shape, dtype, -128, 126) if dtype[0] == "i" else data(shape, dtype)


@pytest.mark.parametrize(("a", "b", "out"), OPERANDS)
def test_products_in_a_type_of_their_own(a: str, b: str, out: str) -> None:
    image = whole_range((1, 4, 6, 6), a)
    more: Any = {"out_dtype": out}
    check_all([
        Case("matmul", whole_range((3, 40), a), whole_range((40, 5), b), **more),
        Case("matmul", whole_range((2, 5, 3), a), whole_range((4, 5), b), transpose_a=True,
             transpose_b=True, symbolic={0: {0: "n"}}, **more),
        Case("conv1d", whole_range((1, 4, 9), a), whole_range((6, 2, 3), b), groups=2, **more),
        Case("conv2d", image, whole_range((5, 4, 3, 3), b), pads=(1, 1, 1, 1), **more),
        Case("conv2d", image, whole_range((4, 1, 3, 3), b), groups=4, pads=(1, 0, 0, 1), **more),
        Case("conv3d", whole_range((1, 2, 3, 4, 4), a), whole_range((3, 2, 2, 2, 2), b), **more),
        Case("conv_transpose", image, whole_range((4, 2, 3, 3), b), strides=(2, 2), **more),
    ])  # fmt: skip


def test_sums_of_bytes_do_not_go_round() -> None:
    a, b = np.full((1, 300), 255, np.uint8), np.full((300, 1), -128, np.int8)
    assert Case("matmul", a, b, out_dtype="int32").numpy()[0].item() == -255 * 128 * 300


@pytest.mark.parametrize("name", ["matmul", "conv2d"])
def test_products_are_still_the_anchor_of_a_kernel(name: str) -> None:
    shapes = ((1, 4, 6, 6), (5, 4, 3, 3)) if name == "conv2d" else ((3, 4), (4, 5))
    for a, b, out in OPERANDS:
        case = Case(name, data(shapes[0], a), data(shapes[1], b), out_dtype=out)
        assert case.kind == "contraction"


def test_types_that_products_cannot_have() -> None:
    texts = [
        ("int8", "int8", "float32", "a is int8 and b is int8, out_dtype='float32'; legal: int16, "
         "int32, int64, int8"),
        ("uint8", "int8", "int8", "a is uint8 and b is int8, out_dtype='int8'; legal: int16, "
         "int32, int64"),
        ("uint8", "int8", "", "a is uint8 and b is int8; both need one element type, cast one"),
        ("float32", "float16", "float32", "a is float32 and b is float16; both need one element "
         "type, cast one"),
        ("float32", "float32", "int32", "a is float32 and b is float32, out_dtype='int32'; legal: "
         "a float"),
        ("int8", "float32", "float32", "a is int8 and b is float32, out_dtype='float32'; both "
         "operands have to be integers or both floats"),
        ("int8", "int8", "int33", "out_dtype='int33' is no element type; legal: '' or one of bool, "
         "int8, "),
    ]  # fmt: skip
    for a, b, out, text in texts:
        with pytest.raises(TypeMismatch) as caught:
            Case("matmul", data((2, 3), a), data((3, 2), b), out_dtype=out).numpy()
        assert str(caught.value).startswith(f"matmul: {text}")
