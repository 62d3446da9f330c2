"""Converters of convolutions and of softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Unpack

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.values import larger, product, simplify, static
from smelt.frontend.common.windows import Placing, Spaced, fitted, window
from smelt.ir.expr import convert

from .registry import Ints, onnx_op


def per_channel(g: Build, v: Value, rank: int) -> Value:
    """A vector as it broadcasts along dimension 1 of a tensor with `rank` dimensions."""
    if v.rank != 1:
        g.malformed(f"a vector is expected, the operand has {v.rank} dimensions")
    return moves.reshape(g, v, (v.shape[0], *([1] * (rank - 2))))


@onnx_op("Conv")
def conv(
    g: Build, x: Value, w: Value, b: Value | None = None, *, group: int = 1,
    kernel_shape: Ints = (), **place: Unpack[Placing],
) -> Value:  # fmt: skip
    """Convolutions of 1 to 3 spatial dimensions."""
    if x.rank not in (3, 4, 5):
        g.unsupported(f"an image of {x.rank} dimensions", "3, 4, 5")
    _check_kernel(g, x, w, kernel_shape)
    x, win = fitted(g, x, w.shape[2:], 0.0, **place)
    cut = _around(g, x, [min(p, 0) for p in win.pads])
    win = replace(win, pads=tuple([max(p, 0) for p in win.pads]))
    y = g.call(f"conv{x.rank - 2}d", cut, w, groups=group, **win.placed())
    return y if b is None else g.call("add", y, per_channel(g, b, y.rank))


def _check_kernel(g: Build, x: Value, w: Value, kernel_shape: Ints) -> None:
    if w.rank != x.rank:
        g.malformed(f"the image has {x.rank} dimensions, the weights {w.rank}")
    if kernel_shape and static(w.shape[2:]) and kernel_shape != w.shape[2:]:
        g.malformed(f"kernel_shape={kernel_shape}, but the weights have {w.shape[2:]}")


def _around(g: Build, x: Value, pads: Sequence[Any]) -> Value:
    """Zeros around the pixels of an image; negative numbers cut it."""
    rank = x.rank - 2
    return moves.pad(g, x, (0, 0, *pads[:rank], 0, 0, *pads[rank:]))


@onnx_op("ConvTranspose")
def conv_transpose(
    g: Build, x: Value, w: Value, b: Value | None = None, *, auto_pad: str = "NOTSET",
    group: int = 1, kernel_shape: Ints = (), output_padding: Ints = (), output_shape: Ints = (),
    **place: Unpack[Spaced],
) -> Value:  # fmt: skip
    """The gradient of a convolution as a layer."""
    _check_kernel(g, x, w, kernel_shape)
    rank = x.rank - 2
    win = window(g, x, w.shape[2:], **place)
    g.one_of("auto_pad", auto_pad, ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"))
    extra = output_padding or (0,) * rank
    for name, given in (("output_padding", extra), ("output_shape", output_shape[-rank:])):
        if given and len(given) != rank:
            g.malformed(f"{len(given)} numbers in {name} for {rank} spatial dimensions")
    cuts = [(win.pads[d], win.pads[rank + d]) for d in range(rank)]
    if auto_pad == "VALID":
        cuts = [(0, 0)] * rank
    whole = [
        simplify((x.shape[2 + d] - 1) * win.strides[d] + (extra[d] + win.reach(d)))
        for d in range(rank)
    ]
    if output_shape or auto_pad.startswith("SAME"):
        wanted = output_shape[-rank:] or [
            simplify(e * s) for e, s in zip(x.shape[2:], win.strides, strict=True)
        ]
        cuts = [_cut(n, want, auto_pad) for n, want in zip(whole, wanted, strict=True)]
    own = [c if static(c) and c[0] >= 0 else (0, 0) for c in cuts]
    more = [e - min(c[1], 0) for e, c in zip(extra, own, strict=True)]
    win = replace(win, pads=(*[c[0] for c in own], *[max(c[1], 0) for c in own]))
    y = g.call("conv_transpose", x, w, groups=group, output_padding=tuple(more), **win.placed())
    rest = [(0, 0) if c is o else c for c, o in zip(cuts, own, strict=True)]
    if any(c != (0, 0) for c in rest):
        ends = [[simplify(0 - c[k]) for c in rest] for k in (0, 1)]
        y = g.call("pad", y, pads=(0, 0, *ends[0], 0, 0, *ends[1]))
    return y if b is None else g.call("add", y, per_channel(g, b, y.rank))


def _cut(whole: Any, wanted: Any, auto_pad: str) -> tuple[Any, Any]:
    """What is cut off a dimension at its two ends so that `wanted` elements remain; where there
    are too few, zeros are added at the end: a number below 0."""
    total = larger(convert(whole) - wanted, 0)
    half = simplify(convert(total) // 2)
    begin = half if auto_pad == "SAME_UPPER" else simplify(convert(total) - half)
    return begin, simplify(convert(whole) - wanted - begin)


# ------------------------------------------------------------------------------------- softmax


Along = Callable[[Build, Value, int], Value]


def _flattened(g: Build, fn: Along, x: Value, axis: int) -> Value:
    """Before opset 13: over all dimensions from the axis on together; behind the last, of each."""
    axis = x.rank if axis == x.rank else g.axis(axis, x.rank)
    tail = x.shape[axis + 1 :]
    if axis < x.rank and all(isinstance(d, int) and d == 1 for d in tail):
        return fn(g, x, axis)
    flat = moves.reshape(g, x, (*x.shape[:axis], product(x.shape[axis:])))
    return moves.reshape(g, fn(g, flat, axis), x.shape)


def _softmax(name: str, fn: Along) -> None:
    def flat(g: Build, x: Value, *, axis: int = 1) -> Value:
        return _flattened(g, fn, x, axis)

    def one(g: Build, x: Value, *, axis: int = -1) -> Value:
        return fn(g, x, g.axis(axis, x.rank))

    onnx_op(name)(flat)
    onnx_op(name, since=13)(one)


_softmax("Softmax", lambda g, x, axis: g.call("softmax", x, axis=axis))
_softmax("LogSoftmax", lambda g, x, axis: g.call("log_softmax", x, axis=axis))


def _hardmax(g: Build, x: Value, axis: int) -> Value:
    """1 at the first largest element."""
    best = g.call("argmax", x, axis=axis, keepdims=False, select_last_index=False)
    return g.call(
        "one_hot", best, depth=x.shape[axis], axis=axis, on_value=1.0, off_value=0.0, dtype=x.dtype
    )


_softmax("Hardmax", _hardmax)
