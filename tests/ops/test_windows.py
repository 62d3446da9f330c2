"""Elements moved apart, windows, parts replaced."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.ir.errors import TypeMismatch

from .cases import Case, data
from .compiled import check_all

X = data((2, 5, 6))


def test_elements_moved_apart() -> None:
    check_all([
        Case("dilate", X, strides=(1, 2, 3)),
        Case("dilate", data((3, 4), "int8"), strides=(2, 1), value=-7, symbolic={0: {0: "n"}}),
        Case("dilate", np.array(1.5, np.float32), strides=()),
    ])  # fmt: skip


def test_windows() -> None:
    sizes = {0: {0: "n", 2: "m"}}
    check_all([
        Case("sliding_window", X, axis=1, window_shape=(3, 4), strides=(1, 2), symbolic=sizes),
        Case("sliding_window", X, axis=-1, window_shape=(6,), strides=(3,)),
        Case("sliding_window", data((9,), "bool"), axis=0, window_shape=(2,), strides=(2,)),
    ])  # fmt: skip


def test_parts_replaced() -> None:
    check_all([
        Case("strided_set", X, data((2, 2, 6)), axes=(1,), begin=(1,), end=(3,)),
        Case("strided_set", X, data((2, 2, 3)), axes=(1, 2), begin=(0, 1), end=(4, 6),
             strides=(2, 2), symbolic={0: {0: "n"}, 1: {0: "n"}}),
        Case("strided_set", X, data((2, 3, 6)), axes=(-2,), begin=(4,), end=(-1,), strides=(-2,)),
        Case("strided_set", X, data((2, 5, 6)), axes=(2,), begin=(5,), end=(-1,), strides=(-1,)),
        Case("strided_set", X, data((2, 0, 6)), axes=(1,), begin=(2,), end=(2,)),
    ])  # fmt: skip


def test_texts_of_mistakes() -> None:
    texts = [
        (Case("dilate", X, strides=(1, 2)),
         "dilate: strides has 2 numbers; x [2, 5, 6] needs 3"),
        (Case("sliding_window", X, axis=2, window_shape=(7,), strides=(1,)),
         "sliding_window: window_shape=(7,): dimension 2 of x [2, 5, 6] has 6 elements"),
        (Case("strided_set", X, data((2, 3, 6)), axes=(1,), begin=(1,), end=(3,)),
         "strided_set: v [2, 3, 6] has to be of the shape of the slice, [2, 2, 6]: dimension 1; "
         "got 3 and 2"),
    ]  # fmt: skip
    for case, text in texts:
        with pytest.raises(TypeMismatch) as caught:
            case.numpy()
        assert str(caught.value) == text
