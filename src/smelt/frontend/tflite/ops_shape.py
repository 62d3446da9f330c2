"""Converters of operators on shapes, and of those that move elements by a rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.frontend.common import Value, dynamic, moves
from smelt.frontend.common.moves import as_type
from smelt.frontend.common.values import simplify
from smelt.ir import dtype as dt
from smelt.ir.expr import convert

from .layout import first, last
from .node import Node
from .quantized import ACTIVATIONS, same_numbers
from .registry import Ints, tflite_op

# -------------------------------------------------------------------------------------- reshapes


@tflite_op("RESHAPE")
def reshape(g: Node, x: Value, shape: Value | None = None, *, new_shape: Ints = ()) -> Value:
    """The elements in another shape; an extent -1 is what remains."""
    if shape is None or shape.rank != 1:
        shape = g.known(new_shape, "int64")
    return dynamic.reshape(g, x, shape, allowzero=True)


@tflite_op("SQUEEZE", 2)
def squeeze(g: Node, x: Value, *, squeeze_dims: Ints = ()) -> Value:
    """Extents of 1 taken out; all of them where none are named."""
    return moves.squeeze(g, x, squeeze_dims or None)


@tflite_op("EXPAND_DIMS", 2)
def expand_dims(g: Node, x: Value, axis: Value) -> Value:
    """An extent of 1 put in."""
    return moves.expand_dims(g, x, g.ints(axis, "axis"))


@tflite_op("SHAPE")
def shape(g: Node, x: Value, *, out_type: int = 0) -> Value:
    """The extents, which are known here."""
    return as_type(g, Value.of_sizes(x.shape), g.out.dtype)


@tflite_op("RANK")
def rank(g: Node, x: Value) -> Value:
    """The number of dimensions."""
    return g.known(x.rank, "int32")


@tflite_op("TRANSPOSE", 6)
def transpose(g: Node, x: Value, perm: Value) -> Value:
    """Dimensions in another order."""
    return moves.transpose(g, x, g.ints(perm, "perm"))


tflite_op("BROADCAST_TO", 3)(dynamic.expand)
tflite_op("RANGE", 2)(dynamic.arange)


@tflite_op("BROADCAST_ARGS")
def broadcast_args(g: Node, a: Value, b: Value) -> Value:
    """The shape that two shapes broadcast to."""
    shapes = [g.ints(v, n) for v, n in ((a, "s0"), (b, "s1"))]
    return g.known(np.broadcast_shapes(*shapes), g.out.dtype)


@tflite_op("FILL", 4)
def fill(g: Node, dims: Value, value: Value) -> Value:
    """One value everywhere."""
    return dynamic.expand(g, value, dims)


@tflite_op("TILE", 3)
def tile(g: Node, x: Value, multiples: Value) -> Value:
    """Repetition as a whole."""
    return moves.tile(g, x, g.dims(multiples, "multiples"))


# ---------------------------------------------------------------------------- joining and cutting


@tflite_op("CONCATENATION", 4)
def concatenation(g: Node, *xs: Value, axis: int = 0, fused_activation_function: int = 0) -> Value:
    """Values one behind the other; uint8 is brought to the result's scale."""
    if ACTIVATIONS.get(fused_activation_function) != (None, None):
        g.unsupported(f"fused_activation_function={fused_activation_function}", "0")
    if not xs:
        g.malformed("no operands")
    parts = list(xs)
    if g.integers:
        parts = [_rescaled(g, x, k) for k, x in enumerate(xs)]
    return moves.concat(g, parts, axis)


def _rescaled(g: Node, x: Value, k: int) -> Value:
    """An operand of uint8 in steps of the result's scale; those of others have it."""
    t, out = g.tensor(k), g.out
    if (t.scales == out.scales).all() and (t.zeros == out.zeros).all():
        return x
    if x.dtype != "uint8":
        same_numbers(g, t, out)
    factor = np.float32(1) / g.scale(out) * g.scale(t)
    bias = np.float32(-g.zero(t)) * factor
    y = g.call("add", g.call("multiply", as_type(g, x, "float32"), float(factor)), float(bias))
    y = as_type(g, g.call("round", y, mode="away"), "int32")
    y = g.call("add", y, g.known(g.zero(out), "int32"))
    return as_type(g, g.call("clip", y, min=0, max=255), "uint8")


@tflite_op("PACK", 4)
def pack(g: Node, *xs: Value, values_count: int = 0, axis: int = 0) -> Value:
    """Values of one shape along a dimension of their own."""
    if not xs:
        g.malformed("no operands")
    return moves.stack(g, xs, g.axis(axis, xs[0].rank + 1))


@tflite_op("UNPACK", 4)
def unpack(g: Node, x: Value, *, num: int = 0, axis: int = 0) -> tuple[Value, ...]:
    """The slices along a dimension, without it."""
    at = g.axis(axis, x.rank)
    count = g.extent(x, at, "one result for each index")
    parts = moves.split(g, x, (1,) * count, at)
    return tuple([moves.squeeze(g, p, (at,)) for p in parts])


@tflite_op("SPLIT", 4)
def split(g: Node, axis: Value, x: Value, *, num_splits: int = 0) -> tuple[Value, ...]:
    """Parts of one size."""
    at = g.axis(g.number(axis, "axis"), x.rank)
    if num_splits < 1:
        g.malformed(f"num_splits={num_splits}")
    extent = x.shape[at]
    if isinstance(extent, int) and extent % num_splits:
        g.malformed(f"an extent of {extent} in {num_splits} parts of one size")
    part = simplify(convert(extent) // num_splits)
    return moves.split(g, x, (part,) * num_splits, at)


@tflite_op("SPLIT_V", 2)
def split_v(
    g: Node, x: Value, sizes: Value, axis: Value, *, num_splits: int = 0
) -> tuple[Value, ...]:
    """Parts of given sizes; -1 is what remains."""
    at = g.axis(g.number(axis, "axis"), x.rank)
    parts: list[Any] = list(g.ints(sizes, "size_splits"))
    if parts.count(-1) == 1:
        rest = convert(x.shape[at]) - (sum(parts) + 1)
        parts[parts.index(-1)] = simplify(rest)
    return moves.split(g, x, parts, at)


@tflite_op("SLICE", 6)
def slice_(g: Node, x: Value, begin: Value, size: Value) -> Value:
    """So many elements from a place on in each dimension; -1: all that follow."""
    starts, sizes = g.ints(begin, "begin"), g.ints(size, "size")
    if not len(starts) == len(sizes) == x.rank:
        g.malformed(f"{len(starts)} begins and {len(sizes)} sizes for {x.rank} dimensions")
    ends = [x.shape[k] if n == -1 else b + n for k, (b, n) in
            enumerate(zip(starts, sizes, strict=True))]  # fmt: skip
    return moves.slice_(g, x, range(x.rank), starts, ends, (1,) * x.rank)


_FAR = 1 << 40


@tflite_op("STRIDED_SLICE", 8)
def strided_slice(
    g: Node, x: Value, begin: Value, end: Value, strides: Value, *, begin_mask: int = 0,
    end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0,
    offset: bool = False,
) -> Value:  # fmt: skip
    """numpy's ranges; a mask has a bit for each of them."""
    if ellipsis_mask or new_axis_mask:
        g.unsupported(f"ellipsis_mask={ellipsis_mask}, new_axis_mask={new_axis_mask}", "0")
    by = g.ints(strides, "strides")
    given = [g.dims(v, n) for v, n in ((begin, "begin"), (end, "end"))]
    if not len(given[0]) == len(given[1]) == len(by) <= x.rank or 0 in by:
        g.malformed(f"{len(given[0])} begins, {len(given[1])} ends, strides {by}")
    starts, ends, gone = [], [], []
    for k, step in enumerate(by):
        b, e, bit = given[0][k], given[1][k], 1 << k
        e = simplify(convert(b) + e) if offset else e
        if begin_mask & bit:
            b = 0 if step > 0 else _FAR
        if end_mask & bit:
            e = _FAR if step > 0 else -_FAR
        if shrink_axis_mask & bit:
            gone.append(k)
            e = _FAR if isinstance(b, int) and b == -1 else simplify(convert(b) + 1)
        starts.append(b)
        ends.append(e)
    by = tuple([1 if k in gone else s for k, s in enumerate(by)])
    y = moves.slice_(g, x, range(len(by)), starts, ends, by)
    return moves.squeeze(g, y, gone) if gone else y


# ---------------------------------------------------------------------------------------- borders


def _widths(g: Node, x: Value, pads: Value) -> tuple[Any, ...]:
    """Begins of all dimensions, then ends."""
    if pads.rank != 2 or pads.shape != (x.rank, 2):
        g.malformed(f"paddings of the shape {pads.shape} for {x.rank} dimensions")
    found = g.ints(pads, "paddings")
    g.extents(found, "paddings")
    return (*found[::2], *found[1::2])


@tflite_op("PAD", 4)
def pad(g: Node, x: Value, pads: Value) -> Value:
    """Zeros around; of quantized numbers, what stands for zero."""
    blank = g.zero(g.tensor(0)) if g.integers else 0
    return moves.pad(g, x, _widths(g, x, pads), value=blank)


@tflite_op("PADV2", 4)
def pad_v2(g: Node, x: Value, pads: Value, value: Value | None = None) -> Value:
    """One value around."""
    if value is None:
        return pad(g, x, pads)
    if g.integers:
        same_numbers(g, g.tensor(0), g.tensor(2))
    return moves.pad(g, x, _widths(g, x, pads), value=g.number(value, "constant_values"))


@tflite_op("MIRROR_PAD", 3)
def mirror_pad(g: Node, x: Value, pads: Value, *, mode: int = 0) -> Value:
    """The elements mirrored at each end: at the last one (REFLECT), or behind it (SYMMETRIC)."""
    g.one_of("mode", mode, (0, 1))
    widths = _widths(g, x, pads)
    for d in range(x.rank):
        ends = widths[d], widths[x.rank + d]
        if not any(ends):
            continue
        extent = g.extent(x, d, "a mirrored border")
        if max(ends) > extent - 1 + mode:
            g.malformed(f"paddings {ends} of dimension {d} with {extent} elements")
        at = np.pad(np.arange(extent), ends, "symmetric" if mode else "reflect")
        x = moves.take(g, x, g.known(at, "int64"), d)
    return x


@tflite_op("REVERSE_V2", 3)
def reverse(g: Node, x: Value, axes: Value) -> Value:
    """The elements in the other order along some dimensions."""
    return g.call("flip", x, axes=g.axes(g.ints(axes, "axis"), x.rank))


@tflite_op("REVERSE_SEQUENCE")
def reverse_sequence(
    g: Node, x: Value, lengths: Value, *, seq_dim: int = 0, batch_dim: int = 0
) -> Value:
    """The first elements of each sequence in the other order."""
    return g.call("reverse_sequence", x, lengths, seq_axis=seq_dim, batch_axis=batch_dim)


# ----------------------------------------------------------------------------------------- blocks


def _blocks(name: str, op: str) -> None:
    @tflite_op(name, 2)
    def converter(g: Node, x: Value, *, block_size: int = 0) -> Value:
        if x.rank != 4 or block_size < 1:
            g.malformed(f"block_size={block_size} of {x.rank} dimensions")
        return last(g, g.call(op, first(g, x), block=block_size, mode="DCR"))


_blocks("DEPTH_TO_SPACE", "depth_to_space")
_blocks("SPACE_TO_DEPTH", "space_to_depth")


def _block_shape(g: Node, x: Value, block: Value, ends: Value) -> tuple[Ints, Ints]:
    """The blocks' extents, and begins and ends of the dimensions that have some."""
    sizes, cuts = g.ints(block, "block_shape"), g.ints(ends, "crops or paddings")
    if len(cuts) != 2 * len(sizes) or len(sizes) >= x.rank or min((*sizes, 1)) < 1:
        g.malformed(f"blocks of {sizes}, {len(cuts)} numbers for their ends, {x.rank} dimensions")
    return sizes, cuts


@tflite_op("SPACE_TO_BATCH_ND", 4)
def space_to_batch(g: Node, x: Value, block: Value, pads: Value) -> Value:
    """Each place of a block of pixels as an image of its own."""
    sizes, cuts = _block_shape(g, x, block, pads)
    n, rest = len(sizes), x.rank - 1 - len(sizes)
    blank = g.zero(g.tensor(0)) if g.integers else 0
    around = (0, *cuts[::2], *(0,) * rest, 0, *cuts[1::2], *(0,) * rest)
    x = moves.pad(g, x, around, value=blank)
    split: list[Any] = [x.shape[0]]
    for k, b in enumerate(sizes):
        split += [_quotient(g, x.shape[1 + k], b), b]
    x = moves.reshape(g, x, (*split, *x.shape[1 + n :]))
    order = (*range(2, 2 * n + 1, 2), 0, *range(1, 2 * n, 2), *range(2 * n + 1, x.rank))
    x = moves.transpose(g, x, order)
    whole = simplify(convert(split[0]) * int(np.prod(sizes)))
    return moves.reshape(g, x, (whole, *x.shape[n + 1 :]))


@tflite_op("BATCH_TO_SPACE_ND", 4)
def batch_to_space(g: Node, x: Value, block: Value, crops: Value) -> Value:
    """The inverse: images as the places of blocks of pixels."""
    sizes, cuts = _block_shape(g, x, block, crops)
    n = len(sizes)
    batch = _quotient(g, x.shape[0], int(np.prod(sizes)))
    image, rest = x.shape[1 : 1 + n], x.shape[1 + n :]
    x = moves.reshape(g, x, (*sizes, batch, *image, *rest))
    blocks = [d for k in range(n) for d in (n + 1 + k, k)]
    x = moves.transpose(g, x, (n, *blocks, *range(2 * n + 1, x.rank)))
    whole = [simplify(convert(e) * b) for e, b in zip(image, sizes, strict=True)]
    x = moves.reshape(g, x, (batch, *whole, *rest))
    ends = [simplify(convert(e) - c) for e, c in zip(whole, cuts[1::2], strict=True)]
    return moves.slice_(g, x, range(1, n + 1), cuts[::2], ends, (1,) * n)


def _quotient(g: Node, extent: Any, by: int) -> Any:
    if isinstance(extent, int) and extent % by:
        g.malformed(f"an extent of {extent} in blocks of {by}")
    return simplify(convert(extent) // by)


# ------------------------------------------------------------------------------------------ resize


def _new_size(g: Node, x: Value, size: Value) -> tuple[Ints, Ints]:
    """Rows and columns before and after."""
    new = g.ints(size, "size")
    if x.rank != 4 or len(new) != 2 or min(new) < 1:
        g.malformed(f"an image of {x.rank} dimensions made {new}")
    return (g.extent(x, 1, "a resize"), g.extent(x, 2, "a resize")), new


@tflite_op("RESIZE_NEAREST_NEIGHBOR", 4)
def resize_nearest(
    g: Node, x: Value, size: Value, *, align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Value:  # fmt: skip
    """The nearest pixel of each place."""
    image = first(g, x)
    for d, (old, new) in enumerate(zip(*_new_size(g, x, size), strict=True)):
        aligned = align_corners and new > 1
        scale = np.float32(old - 1) / np.float32(new - 1) if aligned else (
            np.float32(old) / np.float32(new))  # fmt: skip
        at = (np.arange(new, dtype=np.float32) + np.float32(0.5 * half_pixel_centers)) * scale
        at = np.floor(at + np.float32(0.5)) if align_corners else np.floor(at)
        image = moves.take(g, image, g.known(np.clip(at, 0, old - 1), "int64"), 2 + d)
    return last(g, image)


@tflite_op("RESIZE_BILINEAR", 4)
def resize_bilinear(
    g: Node, x: Value, size: Value, *, align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Value:  # fmt: skip
    """Pixels mixed of the four around each place; of quantized ones with weights of 10 bits."""
    old, new = _new_size(g, x, size)
    image = first(g, x)
    if x.dtype == "uint8":
        return last(g, _mixed_in_floats(g, image, old, new, align_corners, half_pixel_centers))
    if not dt.is_float(x.dtype):
        return last(g, _mixed(g, image, old, new, align_corners, half_pixel_centers))
    mode = "half_pixel" if half_pixel_centers else "asymmetric"
    mode = "align_corners" if align_corners else mode
    return last(g, g.call("resize", image, sizes=(*image.shape[:2], *new), mode="linear",
                          coordinate_mode=mode))  # fmt: skip


def _mixed(
    g: Node, image: Value, old: Sequence[int], new: Sequence[int], aligned: bool, half: bool
) -> Value:
    wide = "int64" if image.dtype == "int16" else "int32"
    y = as_type(g, image, wide)
    for d in range(2):
        a, b, one = old[d], new[d], 1 << 10
        step = (one * a + b // 2) // b
        if aligned and b > 1:
            step = (one * (a - 1) + (b - 1) // 2) // (b - 1)
        at = np.arange(b) * step + (step // 2 - one // 2 if half else 0)
        lower = np.maximum(np.trunc(at / one).astype(np.int64), 0)
        upper = np.minimum(np.trunc((at + one - 1) / one).astype(np.int64), a - 1)
        form = (-1, *(1,) * (1 - d))
        above = g.known((at - one * lower).reshape(form), wide)
        below = g.known((one - (at - one * lower)).reshape(form), wide)
        parts = [moves.take(g, y, g.known(k, "int64"), 2 + d) for k in (lower, upper)]
        weighed = [g.call("multiply", p, w) for p, w in zip(parts, (below, above), strict=True)]
        y = g.call("add", *weighed)
    half_one = g.call("where", g.call("greater", y, 0), 1 << 19, g.known(-(1 << 19), wide))
    y = g.call("divide", g.call("add", y, half_one), g.known(1 << 20, wide))
    return as_type(g, y, image.dtype)


def _mixed_in_floats(
    g: Node, image: Value, old: Sequence[int], new: Sequence[int], aligned: bool, half: bool
) -> Value:
    """In float32, rounded to the nearest, halves up."""
    one, places = np.float32(1), []
    for d in range(2):
        a, b = old[d], new[d]
        step = np.float32(a) / np.float32(b)
        step = np.float32(a - 1) / np.float32(b - 1) if aligned and b > 1 else step
        at = np.arange(b, dtype=np.float32)
        at = (at + np.float32(0.5)) * step - np.float32(0.5) if half else at * step
        lower = np.maximum(np.floor(at), 0).astype(np.int64)
        upper = np.minimum(np.ceil(at), a - 1).astype(np.int64)
        weight = (at - lower.astype(np.float32)).reshape(-1, *(1,) * (1 - d))
        places.append(((lower, one - weight), (upper, weight)))
    floats = as_type(g, image, "float32")
    total: Value | None = None
    for columns, across in places[1]:
        for rows, along in places[0]:
            part = moves.take(g, floats, g.known(rows, "int64"), 2)
            part = moves.take(g, part, g.known(columns, "int64"), 3)
            part = g.call("multiply", g.call("multiply", part, g.known(along)), g.known(across))
            total = part if total is None else g.call("add", total, part)
    assert total is not None
    return as_type(g, g.call("floor", g.call("add", total, 0.5)), image.dtype)
