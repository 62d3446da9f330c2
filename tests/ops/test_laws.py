"""Laws of data movement on shapes and attributes nobody thought of."""

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from .cases import Case, data

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
FEW = settings(max_examples=60, deadline=None)


@st.composite
def two_shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of equally many elements."""
    primes = draw(st.lists(st.sampled_from([1, 2, 2, 3, 5]), min_size=1, max_size=5))

    def grouped() -> tuple[int, ...]:
        dims = [1]
        for p in draw(st.permutations(primes)):
            if draw(st.booleans()):
                dims.append(p)
            else:
                dims[-1] *= p
        return tuple(dims)

    return grouped(), grouped()


@given(two_shapes())
@FEW
def test_reshape(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    old, new = shapes
    Case("reshape", data(old), shape=new).check()


@given(SHAPES, st.data())
@FEW
def test_slices(shape: tuple[int, ...], random: st.DataObject) -> None:
    begin, end, strides = [], [], []
    for e in shape:
        a, b = sorted(random.draw(st.tuples(st.integers(0, e - 1), st.integers(0, e - 1))))
        step = random.draw(st.sampled_from([-3, -2, -1, 1, 2, 3]))
        begin.append(a if step > 0 else b)
        end.append(b + 1 if step > 0 else a - 1)
        strides.append(step)
    axes = tuple(range(len(shape)))
    Case(
        "strided_slice", data(shape), axes=axes, begin=tuple(begin), end=tuple(end),
        strides=tuple(strides),
    ).check()  # fmt: skip


@given(SHAPES, st.sampled_from(["constant", "edge", "wrap", "reflect"]), st.data())
@FEW
def test_pad(shape: tuple[int, ...], mode: str, random: st.DataObject) -> None:
    pads = tuple(random.draw(st.lists(st.integers(0, 7), min_size=2 * len(shape), max_size=8)))
    Case("pad", data(shape), pads=pads[: 2 * len(shape)], mode=mode).check()


@given(SHAPES, st.data())
@FEW
def test_broadcasting(shape: tuple[int, ...], random: st.DataObject) -> None:
    def some() -> Any:
        cut = shape[random.draw(st.integers(0, len(shape))) :]
        return data(tuple([random.draw(st.sampled_from([1, e])) for e in cut]))

    Case("add", some(), some()).check()
    Case("where", some() > 0, some(), some()).check()


@given(
    st.integers(1, 3), st.integers(1, 9), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3),
    st.integers(0, 3), st.integers(0, 3), st.integers(1, 2),
)  # fmt: skip
@FEW
def test_windows(
    c: int, size: int, kernel: int, stride: int, dilation: int, a: int, b: int, groups: int
) -> None:
    if size + a + b < dilation * (kernel - 1) + 1:
        return
    some: dict[str, Any] = {"strides": (stride,), "pads": (a, b), "dilations": (dilation,)}
    x, w = data((1, c * groups, size)), data((2 * groups, c, kernel))
    Case("conv1d", x, w, groups=groups, **some).check()
    Case("max_pool", x, kernel=(kernel,), **some).check()
    Case("avg_pool", x, kernel=(kernel,), **some).check()
    back = data((groups * c, 2, kernel))
    if (size - 1) * stride + dilation * (kernel - 1) + 1 > a + b:
        Case("conv_transpose", x, back, groups=groups, **some).check()


@given(SHAPES, st.data())
@FEW
def test_transposing_back_gives_the_tensor(shape: tuple[int, ...], random: st.DataObject) -> None:
    axes = tuple(random.draw(st.permutations(range(len(shape)))))
    back = tuple([axes.index(d) for d in range(len(shape))])
    once = Case("transpose", data(shape), axes=axes).numpy()[0]
    again = Case("transpose", once, axes=back).numpy()[0]
    np.testing.assert_array_equal(again, data(shape))
    assert again.size == math.prod(shape)
