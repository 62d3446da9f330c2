"""Data movement: elements are moved, copied or cut, never computed with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.arith import Analyzer
from smelt.ir.build import all_of, ceildiv, equal, if_then_else, maximum, minimum, product, value_of
from smelt.ir.expr import INDEX, Expr, ExprLike, IntImm, Mul, Select, const, convert
from smelt.ir.node import postorder
from smelt.ir.walk import free_vars
from smelt.te.tensor import Tensor

from . import common
from .reference import Array, basic_slice
from .registry import op

ZERO = const(0, INDEX)
Extents = tuple[int, ...]
"""Extents or indices: every number may also be an expression over symbolic sizes."""

# -------------------------------------------------------------------------------------- reshape


def _factors(e: Expr) -> tuple[int, tuple[int, ...]]:
    """A product as a number times unknowns (told apart by identity)."""
    if isinstance(e, IntImm):
        return e.value, ()
    if isinstance(e, Mul):
        (ca, fa), (cb, fb) = _factors(e.a), _factors(e.b)
        return ca * cb, tuple(sorted((*fa, *fb)))
    return 1, (id(e),)


def _groups(old: Sequence[Expr], new: Sequence[Expr]) -> list[tuple[range, range]]:
    """The finest runs of dimensions of both shapes that hold equally many elements."""
    out = []
    i = j = 0
    while i < len(old) or j < len(new):
        a, b = i, j
        while True:
            if a == len(old) and b == len(new):
                break
            if a > i and b > j and _factors(product(old[i:a])) == _factors(product(new[j:b])):
                break
            if b == len(new) or (a < len(old) and _behind(old[i:a], new[j:b], a - i, b - j)):
                a += 1
            else:
                b += 1
        out.append((range(i, a), range(j, b)))
        i, j = a, b
    return out


def _behind(old: Sequence[Expr], new: Sequence[Expr], a: int, b: int) -> bool:
    """Whether the run of old dimensions is the one to grow next."""
    if a == 0 or b == 0:
        return a == 0
    (ca, fa), (cb, fb) = _factors(product(old)), _factors(product(new))
    if fa == fb:
        return ca < cb
    return len(fa) < len(fb) or (len(fa) == len(fb) and a <= b)


def reshape_index(old: Sequence[Expr], new: Sequence[Expr], point: Sequence[Expr]) -> list[Expr]:
    """Where the element at `point` of the new shape stands in the old one."""
    index: list[Expr] = []
    for from_dims, to_dims in _groups(old, new):
        dims = [d for d in from_dims if value_of(old[d]) != 1]
        spread = [d for d in to_dims if value_of(new[d]) != 1]
        flat = common.row_major([new[d] for d in spread], [point[d] for d in spread])
        found = dict(zip(dims, common.digits(flat, [old[d] for d in dims]), strict=True))
        index += [found.get(d, ZERO) for d in from_dims]
    return index


@op(numpy=lambda x, shape: np.reshape(x, shape))
def reshape(x: Tensor, *, shape: Extents) -> Tensor:
    """The same elements in row-major order under another shape.

    shape  extents, all explicit
    """
    new = common.extents(shape)
    have, want = value_of(product(x.shape)), value_of(product(new))
    common.require(
        have is None or want is None or have == want,
        f"{common.named(x=x)} has {have} elements, shape {common.describe(new)} has {want}",
    )
    if len(new) == len(x.shape) and all(a is b for a, b in zip(new, x.shape, strict=True)):
        return common.tensor(new, lambda *i: x[i], "reshape")
    if have is None or want is None:
        common.take_equal(product(x.shape), product(new))
    return common.tensor(new, lambda *i: x[tuple(reshape_index(x.shape, new, i))], "reshape")


@op(numpy=lambda x, axes: np.transpose(x, axes))
def transpose(x: Tensor, *, axes: tuple[int, ...] | None = None) -> Tensor:
    """Dimension d of the result is dimension axes[d] of x; None turns their order round."""
    rank = len(x.shape)
    order = tuple(reversed(range(rank))) if axes is None else tuple(axes)
    order = tuple([common.axis_of(a, rank, "axes") for a in order])
    common.require(
        sorted(order) == list(range(rank)),
        f"axes={axes} is no order of the {rank} dimensions of {common.named(x=x)}",
    )

    def body(*i: Expr) -> Expr:
        return x[tuple([i[order.index(d)] for d in range(rank)])]

    return common.tensor([x.shape[a] for a in order], body, "transpose")


@op(numpy=lambda x, axes: np.expand_dims(x, axes))
def expand_dims(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """Dimensions of extent 1 inserted, so that they have these numbers in the result."""
    rank = len(x.shape) + len(axes)
    new = common.axes_of(axes, rank)
    rest = iter(x.shape)
    shape: list[ExprLike] = [1 if d in new else next(rest) for d in range(rank)]
    return common.tensor(
        shape, lambda *i: x[tuple([v for d, v in enumerate(i) if d not in new])], "expand_dims"
    )


@op(numpy=lambda x, axes: np.squeeze(x, axes))
def squeeze(x: Tensor, *, axes: tuple[int, ...] | None = None) -> Tensor:
    """Dimensions of extent 1 removed; None: all that are known to have it."""
    rank = len(x.shape)
    ones = tuple([d for d in range(rank) if value_of(x.shape[d]) == 1])
    gone = ones if axes is None else common.axes_of(axes, rank)
    for d in gone:
        common.require(
            value_of(x.shape[d]) in (None, 1),
            f"axes={axes}: dimension {d} of {common.named(x=x)} is not 1",
        )
        common.take_equal(x.shape[d], const(1, INDEX))
    shape = [e for d, e in enumerate(x.shape) if d not in gone]

    def body(*i: Expr) -> Expr:
        rest = iter(i)
        return x[tuple([ZERO if d in gone else next(rest) for d in range(rank)])]

    return common.tensor(shape, body, "squeeze")


@op(numpy=lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, shape)))
def broadcast_to(x: Tensor, *, shape: Extents) -> Tensor:
    """x repeated along dimensions of extent 1 and along new leading ones."""
    out = common.broadcast_shapes(x=x.shape, shape=common.extents(shape))
    return common.tensor(out, lambda *i: common.at(x, out, i), "broadcast_to")


# ------------------------------------------------------------------------------ joining, cutting


LONG_CONCAT = 64
"""Operands that one chain of comparisons chooses from; more are halved first."""


@op(chooses=True, numpy=lambda *xs, axis: np.concatenate(xs, axis))
def concat(*xs: Tensor, axis: int = 0) -> Tensor:
    """Tensors one after another along `axis`."""
    common.require(bool(xs), "at least one operand is needed")
    first = xs[0]
    axis = common.axis_of(axis, len(first.shape))
    shape = list(first.shape)
    for n, x in enumerate(xs[1:], 1):
        common.same_dtype(**{"xs0": first, f"xs{n}": x})
        both = f"xs{n} {common.describe(x.shape)} and xs0 {common.describe(first.shape)}"
        common.require(len(x.shape) == len(first.shape), f"{both} need one rank")
        for d, e in enumerate(x.shape):
            if d != axis:
                shape[d] = common.agree(shape[d], e, f"{both}: dimension {d} has to be equal")
    starts: list[Expr] = [ZERO]
    for x in xs:
        starts.append(starts[-1] + x.shape[axis])
    shape[axis] = starts[-1]

    def body(*i: Expr) -> Expr:
        def piece(n: int) -> Expr:
            return xs[n][(*i[:axis], i[axis] - starts[n], *i[axis + 1 :])]

        def among(low: int, high: int) -> Expr:
            if high - low > LONG_CONCAT:
                half = (low + high) // 2
                return if_then_else(i[axis] < starts[half], among(low, half), among(half, high))
            result = piece(high - 1)
            for n in reversed(range(low, high - 1)):
                result = if_then_else(i[axis] < starts[n + 1], piece(n), result)
            return result

        return among(0, len(xs))

    return common.tensor(shape, body, "concat")


@op
def strided_slice(
    x: Tensor, *, axes: tuple[int, ...], begin: Extents, end: Extents,
    strides: tuple[int, ...] | None = None,
) -> Tensor:  # fmt: skip
    """The elements begin, begin + stride, ... before end along some dimensions.

    begin, end  not negative; end may be -1 where a stride is negative: down to the first element
    """
    shape, start, step = slice_of(x, axes, begin, end, strides)

    def body(*i: Expr) -> Expr:
        return x[tuple([b + v * s for v, b, s in zip(i, start, step, strict=True)])]

    return common.tensor(shape, body, "strided_slice")


@strided_slice.numpy
def _(
    x: Array, *, axes: Sequence[int], begin: Sequence[int], end: Sequence[int],
    strides: Sequence[int] | None,
) -> Array:  # fmt: skip
    """A basic slice."""
    return x[basic_slice(x.ndim, axes, begin, end, strides)]


def slice_of(
    x: Tensor, axes: tuple[int, ...], begin: Extents, end: Extents, strides: tuple[int, ...] | None
) -> tuple[list[Expr], list[Expr], list[int]]:
    """The shape of a slice, and for every dimension of x where it begins and how it steps."""
    steps = tuple(strides or (1,) * len(axes))
    common.require(
        len(axes) == len(begin) == len(end) == len(steps),
        f"axes={axes}, begin, end and strides={steps} need equally many numbers",
    )
    common.require(0 not in steps, f"strides={steps}; a stride of 0 is not legal")
    shape, start, step = list(x.shape), [ZERO] * len(x.shape), [1] * len(x.shape)
    for a, b, e, s in zip(axes, common.extents(begin), common.extents(end), steps, strict=True):
        d = common.axis_of(a, len(x.shape), "axes")
        if s == 1 and value_of(x.shape[d]) is None:
            b, e = _of_something(b, e, x.shape[d])
        count = ceildiv(e - b, s) if s > 0 else ceildiv(b - e, -s)
        known = value_of(Analyzer().simplify(count))
        shape[d] = const(max(known, 0), INDEX) if known is not None else count
        start[d], step[d] = b, s
        _check_slice(x, d, b, shape[d], s)
    return shape, start, step


def _of_something(begin: Expr, end: Expr, extent: Expr) -> tuple[Expr, Expr]:
    """The ends of a slice as they are where the extent is not 0, if only then their distance is a
    number.

    A number as an extent broadcasts. That the elements have to exist is noted; a model is compiled
    for a size of 0 too (artifact.variants).
    """
    sizes = sorted(free_vars(begin) | free_vars(end) | free_vars(extent), key=lambda v: v.name)
    # n // 2 may be 0 where no size is, and so may what broadcasts, since one of two is its extent
    joined = any(isinstance(e, Select) for e in postorder(extent))
    if joined or not Analyzer(dict.fromkeys(sizes, (1, None))).can_prove(extent >= 1):
        return begin, end
    some = Analyzer(dict.fromkeys(sizes, (0, None)))
    if value_of(some.simplify(end - begin)) is not None:
        return begin, end
    some.suppose(extent >= 1)
    first, last = some.simplify(begin), some.simplify(end)
    return (begin, end) if value_of(some.simplify(last - first)) is None else (first, last)


def _check_slice(x: Tensor, d: int, begin: Expr, count: Expr, step: int) -> None:
    b, n, h = value_of(begin), value_of(count), value_of(x.shape[d])
    if not n:
        return
    if b is None or h is None:
        low, high = (begin, begin + n) if step > 0 else (begin + n * step, begin + 1)
        common.take_equal(maximum(low, 0), low)
        common.take_equal(maximum(high, x.shape[d]), x.shape[d])
        return
    last = b + (n - 1) * step
    common.require(
        0 <= b < h and 0 <= last < h,
        f"the slice of dimension {d} reads elements {b} to {last} of {common.named(x=x)}; "
        f"legal: 0 to {h - 1}",
    )


@op(numpy=lambda x, axes: np.flip(x, axes))
def flip(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """Dimensions read backwards."""
    turned = common.axes_of(axes, len(x.shape))

    def body(*i: Expr) -> Expr:
        return x[tuple([x.shape[d] - 1 - v if d in turned else v for d, v in enumerate(i)])]

    return common.tensor(x.shape, body, "flip")


PAD_MODES = ("constant", "reflect", "symmetric", "edge", "wrap")


@op(chooses=True)
def pad(x: Tensor, *, pads: Extents, mode: str = "constant", value: float = 0.0) -> Tensor:
    """x with a border; negative numbers cut elements off.

    pads  elements in front of every dimension, then behind every dimension
    mode  what stands in the border: "constant" (value), "edge" (the nearest element), "reflect"
          (mirrored without the edge), "symmetric" (mirrored with the edge), "wrap" (the other
          side)
    """
    rank = len(x.shape)
    common.require(
        mode in PAD_MODES, f"mode={mode!r}; legal: {', '.join([repr(m) for m in PAD_MODES])}"
    )
    common.take_count(x, 2 * rank, pads=pads)
    front, back = common.extents(pads[:rank]), common.extents(pads[rank:])
    shape = [e + (f + b) for e, f, b in zip(x.shape, front, back, strict=True)]
    some = [] if mode == "constant" else _has_elements(x, front, back, mode)

    def body(*i: Expr) -> Expr:
        moved = [v - f for v, f in zip(i, front, strict=True)]
        if mode != "constant":
            element = x[tuple([_border(v, d, x, front, back, mode) for d, v in enumerate(moved)])]
            return if_then_else(all_of(some), element, common.number(0, x.dtype))
        conditions: list[Expr] = []
        for v, f, b, e in zip(moved, front, back, x.shape, strict=True):
            conditions += [v >= 0] if _above(f, 0) else []
            conditions += [v < e] if _above(b, 0) else []
        return if_then_else(all_of(conditions), x[tuple(moved)], common.number(value, x.dtype))

    return common.tensor(shape, body, "pad")


@pad.numpy
def _(x: Array, *, pads: Sequence[int], mode: str, value: float) -> Array:
    """numpy's border; then elements are cut off where numbers are negative."""
    ends = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    border = [(max(f, 0), max(b, 0)) for f, b in ends]
    options: Any = {"constant_values": value} if mode == "constant" else {}
    kept = np.pad(x, border, mode, **options)  # type: ignore[call-overload]
    cut = [slice(max(-f, 0), n - max(-b, 0)) for (f, b), n in zip(ends, kept.shape, strict=True)]
    return np.asarray(kept[tuple(cut)])


def _has_elements(x: Tensor, front: Sequence[Expr], back: Sequence[Expr], mode: str) -> list[Expr]:
    """Conditions on elements that a border is made of; that they exist, where it has an extent."""
    found: list[Expr] = []
    for d, (n, f, b) in enumerate(zip(x.shape, front, back, strict=True)):
        if max(value_of(f) or 0, value_of(b) or 0) > 0:
            rule = f"dimension {d} of {common.named(x=x)}: mode={mode!r} repeats its elements"
            common.at_most(const(1, INDEX), n, f"{rule}, and at least one is needed")
        elif value_of(n) is None and (_above(f, 0) or _above(b, 0)):
            found.append(n > 0)
    return found


def _above(e: Expr, limit: int) -> bool:
    """Whether an extent may be above a limit."""
    v = value_of(e)
    return v is None or v > limit


def _border(
    v: Expr, d: int, x: Tensor, front: Sequence[Expr], back: Sequence[Expr], mode: str
) -> Expr:
    """Where an element of the border is taken from."""
    n = x.shape[d]
    if not _above(front[d], 0) and not _above(back[d], 0):
        return v
    if mode == "edge":
        return maximum(minimum(v, n - 1), 0)
    if mode == "wrap":
        return v % n
    if mode == "symmetric":
        phase = v % (2 * n)
        return minimum(phase, (2 * n - 1) - phase)
    known = value_of(n)
    if known is not None and not _above(front[d], known - 1) and not _above(back[d], known - 1):
        left = maximum(v, 0 - v)
        right = (n - 1) - left
        return (n - 1) - maximum(right, 0 - right)
    period = maximum(2 * (n - 1), 1)
    phase = v % period
    return minimum(phase, period - phase) if known != 1 else ZERO


@op
def dilate(x: Tensor, *, strides: tuple[int, ...], value: float = 0.0) -> Tensor:
    """x with stride - 1 elements of `value` between neighbours of every dimension.

    Shapes   result (extent - 1) * stride + 1 for each dimension
    strides  one number per dimension, at least 1
    """
    common.take_count(x, len(x.shape), strides=strides)
    common.take_numbers("dimensions", len(x.shape), 1, strides=strides)

    def body(*i: Expr) -> Expr:
        hits = [equal(v % s, 0) for v, s in zip(i, strides, strict=True) if s > 1]
        at = tuple([v // s for v, s in zip(i, strides, strict=True)])
        return if_then_else(all_of(hits), x[at], common.number(value, x.dtype))

    shape = [(e - 1) * s + 1 for e, s in zip(x.shape, strides, strict=True)]
    return common.tensor(shape, body, "dilate")


@dilate.numpy
def _(x: Array, *, strides: Sequence[int], value: float) -> Array:
    """Every stride-th element written."""
    shape = [(n - 1) * s + 1 for n, s in zip(x.shape, strides, strict=True)]
    out = np.full(shape, value, x.dtype)
    out[tuple([slice(None, None, s) for s in strides])] = x
    return out


@op(numpy=lambda x, repeats: np.tile(x, repeats))
def tile(x: Tensor, *, repeats: Extents) -> Tensor:
    """x repeated along every dimension."""
    times = common.extents(repeats)
    common.take_count(x, len(x.shape), repeats=times)
    shape = [e * r for e, r in zip(x.shape, times, strict=True)]

    def body(*i: Expr) -> Expr:
        index = [
            v if value_of(r) == 1 else v % e for v, e, r in zip(i, x.shape, times, strict=True)
        ]
        return x[tuple(index)]

    return common.tensor(shape, body, "tile")


# -------------------------------------------------------------------------------- blocks of pixels


def _images(x: Tensor, block: int) -> tuple[Expr, ...]:
    common.take_forms("[n, c, h, w]", x=x)
    common.at_least(1, block=block)
    return x.shape


def _divisible(e: Expr, by: int, what: str) -> Expr:
    v = value_of(e)
    common.require(v is None or v % by == 0, f"{what} is {e}; it has to be a multiple of {by}")
    return e // by


@op(channels_last=True)
def depth_to_space(x: Tensor, *, block: int, mode: str = "DCR") -> Tensor:
    """Channels laid out as blocks of pixels.

    Shapes   x [n, c * block * block, h, w]; result [n, c, h * block, w * block]
    mode     order of the channels: "DCR" (row, column, c) or "CRD" (c, row, column)
    """
    n, depth, h, w = _images(x, block)
    common.require(mode in ("DCR", "CRD"), f"mode={mode!r}; legal: 'DCR', 'CRD'")
    c = _divisible(depth, block * block, "dimension 1 of x")

    def body(b: Expr, k: Expr, y: Expr, z: Expr) -> Expr:
        row, column = y % block, z % block
        cell = row * block + column
        channel = cell * c + k if mode == "DCR" else k * (block * block) + cell
        return x[b, channel, y // block, z // block]

    return common.tensor((n, c, h * block, w * block), body, "depth_to_space")


@depth_to_space.numpy
def _(x: Array, *, block: int, mode: str) -> Array:
    """Channels to pixels."""
    n, depth, h, w = x.shape
    c = depth // block**2
    depths = (block, block, c) if mode == "DCR" else (c, block, block)
    order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    return x.reshape(n, *depths, h, w).transpose(order).reshape(n, c, h * block, w * block)


@op(channels_last=True)
def space_to_depth(x: Tensor, *, block: int, mode: str = "DCR") -> Tensor:
    """Blocks of pixels laid out as channels.

    Shapes   x [n, c, h * block, w * block]; result [n, c * block * block, h, w]
    mode     order of the channels: "DCR" (row, column, c) or "CRD" (c, row, column)
    """
    n, c, h, w = _images(x, block)
    common.require(mode in ("DCR", "CRD"), f"mode={mode!r}; legal: 'DCR', 'CRD'")
    size = (_divisible(h, block, "dimension 2 of x"), _divisible(w, block, "dimension 3 of x"))
    cells = block * block

    def body(b: Expr, k: Expr, y: Expr, z: Expr) -> Expr:
        cell, channel = (k // c, k % c) if mode == "DCR" else (k % cells, k // cells)
        return x[b, channel, y * block + cell // block, z * block + cell % block]

    return common.tensor((n, c * cells, *size), body, "space_to_depth")


@space_to_depth.numpy
def _(x: Array, *, block: int, mode: str) -> Array:
    """Pixels to channels."""
    n, c, h, w = x.shape
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    y = x.reshape(n, c, h // block, block, w // block, block).transpose(order)
    return y.reshape(n, c * block**2, h // block, w // block)


@op
def trilu(x: Tensor, *, k: ExprLike = 0, upper: bool = True) -> Tensor:
    """The upper (or lower) triangle of matrices, zeros elsewhere.

    k  the diagonal that still belongs to it, counted to the right
    """
    common.take_matrices(x=x)
    diagonal = convert(k, INDEX)

    def body(*i: Expr) -> Expr:
        right = i[-1] - i[-2]
        kept = right >= diagonal if upper else right <= diagonal
        return if_then_else(kept, x[i], common.number(0, x.dtype))

    return common.tensor(x.shape, body, "trilu")


@trilu.numpy
def _(x: Array, *, k: int, upper: bool) -> Array:
    """A triangle."""
    return np.triu(x, k) if upper else np.tril(x, k)
