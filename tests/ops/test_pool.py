"""Norms of windows, and where the largest element of each stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.ir.errors import TypeMismatch

from .cases import Array, Case, data, label
from .compiled import check_all

X1, X2, X3 = data((2, 3, 9)), data((2, 3, 7, 10)), data((1, 2, 5, 4, 6))
WINDOWS: list[tuple[Array, dict[str, Any]]] = [
    (X1, {"kernel": (3,), "strides": (2,), "pads": (1, 2)}),
    (X2, {"kernel": (2, 3), "strides": (2, 1), "pads": (1, 0, 0, 2)}),
    (X2, {"kernel": (2, 2), "dilations": (3, 2)}),
    (X3, {"kernel": (2, 3, 2), "strides": (2, 1, 3), "pads": (0, 1, 1, 1, 0, 1)}),
]


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_norms(p: float) -> None:
    check_all([Case("lp_pool", x, p=p, **attrs) for x, attrs in WINDOWS], 1e-4)
    sizes = {0: {2: "n", 3: "m"}}
    Case("lp_pool", X2, kernel=(3, 2), p=p, symbolic=sizes).check(1e-4)
    Case("lp_pool", X2.astype("float16"), kernel=(3, 2), p=p).check()


@pytest.mark.parametrize("column_major", [False, True])
def test_places_of_the_largest(column_major: bool) -> None:
    order: dict[str, Any] = {"column_major": column_major}
    check_all([Case("max_pool_with_indices", x, **attrs, **order) for x, attrs in WINDOWS])
    equal = data((2, 2, 6, 7), "int8", 0, 2)  # the first of equal ones counts
    attrs: dict[str, Any] = {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
    low = np.full((1, 1, 4, 4), -128, np.int8)
    check_all([Case("max_pool_with_indices", x, **attrs, **order) for x in (equal, low)])
    sizes = {0: {0: "s", 2: "n", 3: "m"}}
    Case("max_pool_with_indices", X2, symbolic=sizes, **attrs, **order).check()


@pytest.mark.parametrize(("x", "attrs"), WINDOWS, ids=label)
def test_places_point_at_the_largest(x: Array, attrs: dict[str, Any]) -> None:
    largest, places = Case("max_pool_with_indices", x, **attrs).numpy()
    np.testing.assert_array_equal(x.ravel()[places], largest)
    np.testing.assert_array_equal(largest, Case("max_pool", x, **attrs).numpy()[0])


def test_texts_of_mistakes() -> None:
    texts = [
        (Case("lp_pool", X2, kernel=(2, 2), p=0.0), "lp_pool: p=0.0; it has to be above 0"),
        (
            Case("lp_pool", X2.astype("int32"), kernel=(2, 2)),
            "lp_pool: x is int32; the operator is defined for floats only",
        ),
        (
            Case("max_pool_with_indices", X2, kernel=(2,)),
            "max_pool_with_indices: kernel=(2,) has 1 numbers; 2 spatial dimensions need 2",
        ),
    ]
    for case, text in texts:
        with pytest.raises(TypeMismatch) as caught:
            case.numpy()
        assert str(caught.value) == text
