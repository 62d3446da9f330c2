"""Elements moved apart, windows taken apart and put together, parts replaced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.ir.errors import TypeMismatch

from .cases import Case, close, data
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


FOLDED: list[tuple[Any, dict[str, Any]]] = [
    (data((2, 18, 16)), {"size": (5, 6), "kernel": (2, 3)}),
    (data((2, 12, 9)), {"size": (5, 7), "kernel": (3, 2), "pads": (1, 0, 2, 1), "strides": (2, 3)}),
    (data((1, 6, 30)),
     {"size": (7, 7), "kernel": (3, 2), "pads": (1, 1, 1, 1), "dilations": (2, 3)}),
    (data((2, 3, 4)), {"size": (9,), "kernel": (3,), "strides": (2,)}),
]  # fmt: skip


def test_columns_put_together() -> None:
    check_all([Case("col2im", x, **attrs) for x, attrs in FOLDED], 1e-4)
    Case("col2im", data((2, 8, 12), "float16"), size=(5, 4), kernel=(2, 2)).check()
    Case("col2im", data((2, 8, 12), "int32"), size=(5, 4), kernel=(2, 2)).check()
    Case("col2im", *[x for x, _ in FOLDED[:1]], symbolic={0: {0: "n"}}, **FOLDED[0][1]).check(1e-4)


def test_columns_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for x, attrs in FOLDED[:3]:
        pads = attrs.get("pads", (0,) * 4)
        if pads[:2] != pads[2:]:
            continue
        want = torch.nn.functional.fold(
            torch.from_numpy(x), attrs["size"], attrs["kernel"], attrs.get("dilations", 1),
            pads[:2], attrs.get("strides", 1),
        )  # fmt: skip
        close(Case("col2im", x, **attrs).numpy()[0], want.numpy(), 1e-5)


def test_texts_of_mistakes() -> None:
    texts = [
        (Case("dilate", X, strides=(1, 2)),
         "dilate: strides has 2 numbers; x [2, 5, 6] needs 3"),
        (Case("sliding_window", X, axis=2, window_shape=(7,), strides=(1,)),
         "sliding_window: window_shape=(7,): dimension 2 of x [2, 5, 6] has 6 elements"),
        (Case("strided_set", X, data((2, 3, 6)), axes=(1,), begin=(1,), end=(3,)),
         "strided_set: v [2, 3, 6] has to be of the shape of the slice, [2, 2, 6]: dimension 1; "
         "got 3 and 2"),
        (Case("col2im", data((1, 7, 4)), size=(3, 3), kernel=(2, 2)),
         "col2im: x [1, 7, 4]: 7 rows are no multiple of the kernel's 4 elements"),
        (Case("col2im", data((1, 4, 5)), size=(3, 3), kernel=(2, 2)),
         "col2im: x [1, 4, 5]: a kernel of (2, 2) has as many places on [3, 3]; got 5 and 4"),
    ]  # fmt: skip
    for case, text in texts:
        with pytest.raises(TypeMismatch) as caught:
            case.numpy()
        assert str(caught.value) == text
