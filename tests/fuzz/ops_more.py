"""How recurrences, samplers, results of unknown size, and computed shapes are drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .draw import EPSILON, Draw, Out, Size, Skip, Value, broadcast, count, fixed, widest
from .ops_element import partner_shape
from .ops_move import an_axis, moved, regrouped, with_zero
from .ops_nn import Windows, image
from .table import draws

__all__: list[str] = []


# ------------------------------------------------------------------------------------ recurrences


@draws("RNN", "GRU", "LSTM", weight=0.5)
def _recurrent(d: Draw, op: str) -> None:
    """Weights are small, so that errors do not grow along the sequence."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    hidden, both = d.between(1, 6), d.chance(0.3)
    directions = 2 if both else 1
    x = d.pick(
        "float32",
        where=lambda v: v.rank == 3 and max(v.shape[0]) <= 9,
        shape=lambda: (d.const(d.between(1, 6)), d.shape(1, 4)[0], d.const(d.between(1, 6))),
        lo=-3.0, hi=3.0,
    )  # fmt: skip
    length, batch, width = x.shape
    d.valid([e > 0 for e in length])
    n = fixed(width)
    w = d.leaf("float32", d.sizes(directions, gates * hidden, n), -0.5, 0.5)
    r = d.leaf("float32", d.sizes(directions, gates * hidden, hidden), -0.25, 0.25)
    operands: list[Value | None] = [x, w, r]
    if d.chance(0.6):
        operands.append(d.leaf("float32", d.sizes(directions, 2 * gates * hidden), -0.5, 0.5))
    if d.chance(0.3):
        operands += [None] * (5 - len(operands))
        operands.append(d.leaf("float32", (d.const(directions), batch, d.const(hidden)), -1.0, 1.0))
    attrs: dict[str, Any] = {"hidden_size": hidden}
    if both or d.chance(0.3):
        attrs["direction"] = "bidirectional" if both else d.one("forward", "reverse")
    if op == "GRU" and d.chance(0.5):
        attrs["linear_before_reset"] = 1
    steps = max(length)
    err = 4 * steps * (0.5 * n * x.err + 200 * EPSILON["float32"])
    top = 1.0
    state = (d.const(directions), batch, d.const(hidden))
    outs = [Out(x.dtype, (length, *state), -top, top, err), Out(x.dtype, state, -top, top, err)]
    if op == "LSTM":
        outs.append(Out(x.dtype, state, -steps - 1.0, steps + 1.0, 4 * err))
    d.emit(op, operands, attrs, outs)


@draws("ReverseSequence", weight=0.3)
def _reverse(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: v.rank >= 2)
    time = d.between(0, 1)
    batch = fixed(x.shape[1 - time])
    ends = d.constant(
        d.numbers.integers(1, max(x.shape[time].least, 1) + 1, [batch]).astype("int64")
    )
    d.emit(op, [x, ends], {"time_axis": time, "batch_axis": 1 - time}, [moved(x, x.shape)])


@draws("CumProd", weight=0.2)
def _cumprod(d: Draw, op: str) -> None:
    x = d.pick(d.types(op) & {"float32"}, where=lambda v: v.rank > 0, lo=-1.25, hi=1.25)
    axis = an_axis(d, x.rank)
    n = max(x.shape[axis])
    top = 1.25 ** min(n, 100)
    err = n * top * (x.err + 2 * EPSILON[x.dtype])
    attrs = {name: 1 for name in ("exclusive", "reverse") if d.chance(0.4)}
    d.emit(op, [x, d.scalar(axis, "int64")], attrs, [Out(x.dtype, x.shape, -top, top, err)])


# --------------------------------------------------------------------------------------- sampling


@draws("GridSample", weight=0.4)
def _grid_sample(d: Draw, op: str) -> None:
    """Places are not near the border between two pixels; cubic and linear are continuous."""
    x = image(d, op, (2,), {"float32"})
    if d.opset < 16:
        raise Skip
    old = d.opset < 20
    mode = d.one("bilinear", "bicubic") if old else d.one("linear", "cubic")
    attrs = {"mode": mode, "padding_mode": d.one("zeros", "border", "reflection")}
    if d.chance(0.5):
        attrs["align_corners"] = d.between(0, 1)
    height, width = d.sizes(d.between(1, 5), d.between(1, 5))
    grid = d.leaf("float32", (x.shape[0], height, width, d.const(2)), -1.25, 1.25)
    top = 3 * x.top
    err = 4 * x.err + 100 * EPSILON["float32"] * x.top * max(max(x.shape[2]), max(x.shape[3]))
    d.emit(op, [x, grid], attrs, [Out(x.dtype, (*x.shape[:2], height, width), -top, top, err)])


@draws("LpPool", "GlobalLpPool", weight=0.3)
def _lp_pool(d: Draw, op: str) -> None:
    x = image(d, op, (1, 2, 2, 3), {"float32"})
    p = d.between(1, 2)
    if op == "GlobalLpPool" and d.opset >= 22:
        raise Skip  # neither oracle has it
    if op == "GlobalLpPool":
        n, shape = count(x.shape[2:]), (*x.shape[:2], *[d.const(1) for _ in x.shape[2:]])
        attrs: dict[str, Any] = {"p": p}
    else:
        w = Windows(d, x, d.opset >= 18)
        n, shape = w.taps, (*x.shape[:2], *w.space)
        attrs = {**w.attrs, "kernel_shape": w.kernel, "p": p}
    top = n * x.top
    err = n * x.err + (n + 16) * EPSILON[x.dtype] * top
    d.emit(op, [x], attrs, [Out(x.dtype, shape, 0, top, err)])


@draws("Det", weight=0.2)
def _det(d: Draw, op: str) -> None:
    n = d.between(1, 4)
    x = d.leaf(
        "float32", (*d.shape(d.between(0, 2), 40), d.const(n), d.const(n)), -1.0, 1.0, grid=False
    )
    top = float(math.factorial(n))
    d.emit(op, [x], {}, [Out(x.dtype, x.shape[:-2], -top, top, 1e-5 * top)])


@draws("CenterCropPad", weight=0.2)
def _crop(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: v.rank > 0 and v.static)
    axes = sorted(d.rng.sample(range(x.rank), d.between(1, x.rank)))
    sizes = [d.between(1, 9) for _ in axes]
    shape = list(x.shape)
    for a, s in zip(axes, sizes, strict=True):
        shape[a] = d.const(s)
    d.emit(op, [x, d.ints(sizes)], {"axes": axes}, [with_zero(x, shape)])


# -------------------------------------------------------------------- sizes that the data decide


@draws("NonZero", weight=0.3)
def _non_zero(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: v.exact and v.rank > 0)
    d.emit_last(op, [x], {}, [Out("int64", d.sizes(x.rank), 0, 1e4, 0, 1)])


@draws("Compress", weight=0.3)
def _compress(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: v.rank > 0)
    if d.chance(0.5):
        axis = an_axis(d, x.rank)
        n, attrs = x.shape[axis], {"axis": axis}
    else:
        n, attrs = d.const(min(5, *[s.least for s in x.shape])), {}
    c = d.pick("bool", where=lambda v: v.shape == (n,), shape=lambda: (n,))
    d.emit_last(op, [x, c], attrs, [moved(x, ())])


@draws("Unique", weight=0.2)
def _unique(d: Draw, op: str) -> None:
    x = d.pick({"int64", "float32"}, where=lambda v: v.exact and v.rank > 0)
    d.emit_last(op, [x], {"sorted": 1}, [moved(x, ())])


@draws("NonMaxSuppression", weight=0.2)
def _boxes(d: Draw, op: str) -> None:
    """Scores differ, and so do the overlaps from the threshold."""
    n, classes = d.between(1, 8), d.between(1, 3)
    corner = d.numbers.integers(0, 9, (1, n, 2)) / 4
    size = d.numbers.integers(1, 5, (1, n, 2)) / 4
    boxes = d.constant(np.concatenate([corner, corner + size], -1).astype("float32"))
    scores = d.numbers.permutation(classes * n).reshape(1, classes, n) / (classes * n)
    operands: list[Value | None] = [boxes, d.constant(scores.astype("float32"))]
    operands.append(d.ints([d.between(1, 4)]))
    operands += [d.constant(np.array([v], np.float32)) for v in (0.437, 0.111)]
    d.emit_last(op, operands, {}, [Out("int64", d.sizes(3), 0, 9, 0, 1)])


# -------------------------------------------------------------------------------- computed shapes


def shape_of(d: Draw, x: Value) -> Value:
    """The node Shape."""
    return d.emit("Shape", [x], {}, [Out("int64", d.sizes(x.rank), 0, widest(x.shape), 0, 1)])[0]


def extent_of(d: Draw, shape: Value, axis: int) -> Value:
    """One extent as a vector of one element: Gather of a Shape."""
    out = Out("int64", d.sizes(1), 0, shape.hi, 0, 1)
    return d.emit("Gather", [shape, d.ints([axis])], {"axis": 0}, [out])[0]


@draws("Reshape by a computed shape", weight=1.0)
def _computed_reshape(d: Draw, op: str) -> None:
    """As exporters write it: extents of Shape, joined with numbers by Concat."""
    x = d.pick(d.types("Reshape"), where=lambda v: v.rank > 0)
    sizes = regrouped(d, x.shape)
    if not sizes:
        raise Skip
    shape = shape_of(d, x)
    parts: list[Value] = []
    left_out = d.between(-1, len(sizes) - 1)
    for k, s in enumerate(sizes):
        same = [a for a, e in enumerate(x.shape) if e == s]
        if k == left_out:
            parts.append(d.ints([-1]))
        elif same and (d.chance(0.7) or not s.fixed):
            parts.append(extent_of(d, shape, same[0]))
            own = x.shape[k] if k < x.rank else d.const(1)
            d.valid([e > 0 or e == o for e, o in zip(s, own, strict=True)])
        else:
            parts.append(d.ints([fixed(s)]))
    out = Out("int64", d.sizes(len(parts)), -1, widest(x.shape), 0, 1)
    target = d.emit("Concat", parts, {"axis": 0}, [out])[0]
    d.emit("Reshape", [x, target], {}, [moved(x, sizes)])


@draws("Expand to a shape", weight=0.5)
def _computed_expand(d: Draw, op: str) -> None:
    y = d.pick(("float32", "int64", "int32", "bool"), where=lambda v: v.rank > 0)
    shape = partner_shape(d, y.shape)
    x = d.pick(d.types("Expand"), lambda v: v.shape == shape, lambda: shape)
    d.emit("Expand", [x, shape_of(d, y)], {}, [moved(x, broadcast(x.shape, y.shape))])


@draws("Slice by computed ends", weight=0.7)
def _computed_slice(d: Draw, op: str) -> None:
    """Up to half of an extent, or without its last elements."""
    if d.opset < 10:
        raise Skip
    x = d.pick(d.types("Slice"), where=lambda v: v.rank > 0)
    axis = d.between(0, x.rank - 1)
    extent = x.shape[axis]
    end = extent_of(d, shape_of(d, x), axis)
    by = d.between(1, extent.least - 1)
    half = d.chance(0.5)
    number = d.ints([2 if half else by])
    size = Size([e // 2 if half else len(range(e)[: e - by]) for e in extent])
    out = Out("int64", d.sizes(1), -by, end.hi, 0, 1)
    end = d.emit("Div" if half else "Sub", [end, number], {}, [out])[0]
    shape = [size if k == axis else s for k, s in enumerate(x.shape)]
    d.emit("Slice", [x, d.ints([0]), end, d.ints([axis])], {}, [moved(x, shape)])


@draws("Range of an extent", weight=0.3)
def _computed_range(d: Draw, op: str) -> None:
    if d.opset < 13:
        raise Skip
    x = d.pick(("float32", "int64", "bool"), where=lambda v: v.rank > 0)
    axis = d.between(0, x.rank - 1)
    out = Out("int64", (), 0, widest(x.shape), 0, 1)
    n = d.emit("Gather", [shape_of(d, x), d.scalar(axis, "int64")], {}, [out])[0]
    top = max(x.shape[axis])
    ends = [d.scalar(0, "int64"), n, d.scalar(1, "int64")]
    d.emit("Range", ends, {}, [Out("int64", (x.shape[axis],), 0, top, 0, 1)])
