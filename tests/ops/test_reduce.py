from typing import Any

import numpy as np
import pytest

from .cases import Case, data
from .compiled import check_all

AXES: list[tuple[int, ...] | None] = [None, (0,), (-1,), (0, 2), (1, -1), (0, 1, 2), ()]
SUMS = ("sum", "mean", "prod", "reduce_l1", "reduce_l2", "reduce_sum_square")


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("name", [*SUMS, "max", "min"])
def test_reductions(name: str, axes: tuple[int, ...] | None) -> None:
    for dtype in ("float32", "float16", "float64", "int32", "int64"):
        for keepdims in (True, False):
            x = data((2, 3, 4), dtype)
            Case(name, x, axes=axes, keepdims=keepdims, symbolic={0: {0: "n"}}).check()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_means_of_narrow_integers_are_summed_in_wide_ones(dtype: str) -> None:
    x = np.full((2, 300), 3 if dtype.endswith("8") else 999, dtype)
    Case("mean", x, axes=(1,)).check()
    (found,) = Case("mean", x, axes=(1,), keepdims=False).native()
    np.testing.assert_array_equal(found, x[:, 0])


@pytest.mark.parametrize("name", ["reduce_log_sum", "reduce_log_sum_exp"])
def test_logarithms_of_sums(name: str) -> None:
    for axes in AXES:
        for keepdims in (True, False):
            Case(name, data((2, 3, 4), "float32", 0.5, 4), axes=axes, keepdims=keepdims).check()
            Case(name, data((2, 3, 4), "float16", 0.5, 4), axes=axes, keepdims=keepdims).check()


def test_log_sum_exp_does_not_overflow() -> None:
    x = np.array([[1000.0, 1000.0], [-np.inf, -np.inf], [np.inf, 1.0]], np.float32)
    Case("reduce_log_sum_exp", x, axes=(1,), keepdims=False).check()


@pytest.mark.parametrize("name", ["max", "min", "all", "any"])
def test_truth_values(name: str) -> None:
    for axes in AXES:
        Case(name, data((2, 3, 4), "bool"), axes=axes, keepdims=False).check()


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(name: str, last: bool) -> None:
    for axis in (0, 1, -1):
        for keepdims in (True, False):
            for dtype in ("int32", "float32", "uint8", "int64"):
                x = data((3, 4, 5), dtype, -2, 2)
                Case(name, x, axis=axis, keepdims=keepdims, select_last_index=last).check()


def test_positions_among_equals() -> None:
    for value in (-np.inf, np.inf, 0.0):
        x = np.full((2, 3), value, np.float32)
        for name in ("argmax", "argmin"):
            for last in (False, True):
                Case(name, x, axis=1, select_last_index=last).check()


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name: str) -> None:
    for axis in (-1, 0, 1):
        for dtype in ("float32", "float16", "float64", "bfloat16"):
            Case(
                name, data((2, 3, 4), dtype, -50, 50), axis=axis, symbolic={0: {0: "n", 2: "m"}}
            ).check()


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_sums_and_products(name: str) -> None:
    options: list[dict[str, Any]] = [
        {},
        {"exclusive": True},
        {"reverse": True},
        {"exclusive": True, "reverse": True},
    ]
    check_all([
        Case(name, data((3, 4, 2), dtype), axis=axis, symbolic={0: {1: "n"}}, **more)
        for dtype in ("float32", "int64", "float16", "uint8")
        for axis in (0, 1, -1)
        for more in options
    ])  # fmt: skip
