"""Moving elements: each function works on known elements and on graph values alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import ceildiv
from smelt.ir.expr import convert
from smelt.ir.limits import SPREAD, worth_knowing

from .build import Build
from .values import Value, at_least, clamp_end, larger, quotient, simplify, static


def _array(x: Value, array: np.ndarray) -> Value:
    return Value.of_array(array, x.dtype)


def _size(x: Value) -> int:
    """Bytes of known elements; where they are repeated, at least so many each time."""
    return 0 if x.known is None else x.array.nbytes


def as_type(g: Build, x: Value, dtype: str) -> Value:
    """The value with another element type, at once where it is a constant."""
    if x.dtype == dtype:
        return x
    if x.is_array and x.small:
        return Value.of_array(dt.converted(x.array, dtype))
    return g.call("cast", x, dtype=dtype)


def reshape(g: Build, x: Value, dims: Sequence[Any]) -> Value:
    """The elements in another shape; an extent -1 is what remains."""
    dims = [simplify(d) for d in dims]
    if any(isinstance(d, int) and d < -1 for d in dims) or dims.count(-1) > 1:
        g.malformed(f"the shape {_text(dims)} is none")
    if -1 in dims:
        rest = [d for d in dims if not (isinstance(d, int) and d == -1)]
        if static(x.shape) and static(rest):
            there, one = math.prod(x.shape), math.prod(rest)
            if one == 0 or there % one:
                g.malformed(
                    f"the shape {_text(dims)} does not divide the {there} elements "
                    f"of {_text(x.shape)}"
                )
        remaining = quotient(x.shape, rest)
        dims = [remaining if isinstance(d, int) and d == -1 else d for d in dims]
    if static(dims) and static(x.shape) and math.prod(dims) != math.prod(x.shape):
        g.malformed(
            f"the shape {_text(dims)} has {math.prod(dims)} elements, "
            f"the operand {math.prod(x.shape)}"
        )
    if x.is_array or (x.small and static(dims)):
        return _array(x, x.array.reshape(dims))
    return x if tuple(dims) == x.shape else g.call("reshape", x, shape=tuple(dims))


def _text(dims: Sequence[Any]) -> str:
    return f"({', '.join(map(str, dims))})"


def transpose(g: Build, x: Value, axes: Sequence[int]) -> Value:
    """The dimensions in another order."""
    if sorted(axes) != list(range(x.rank)):
        g.malformed(f"perm={tuple(axes)} is no permutation of {x.rank} dimensions")
    if x.small:
        return _array(x, x.array.transpose(axes).copy())
    return g.call("transpose", x, axes=tuple(axes))


def expand_dims(g: Build, x: Value, axes: Sequence[int]) -> Value:
    """Extents of 1 put in, at these places of the result."""
    if not axes:
        return x
    places = g.axes(axes, x.rank + len(axes))
    if len(set(places)) != len(places):
        g.malformed(f"axes={tuple(axes)} names a dimension twice")
    if x.is_array or x.small:
        return _array(x, np.expand_dims(x.array, places))
    return g.call("expand_dims", x, axes=tuple(sorted(places)))


def squeeze(g: Build, x: Value, axes: Sequence[int] | None) -> Value:
    """Extents of 1 taken out; all of them where none are named."""
    places = (
        tuple([k for k, d in enumerate(x.shape) if d == 1])
        if axes is None
        else g.axes(axes, x.rank)
    )
    for p in places:
        if isinstance(x.shape[p], int) and x.shape[p] != 1:
            g.malformed(f"dimension {p} has the extent {x.shape[p]}, only 1 can be squeezed")
    if not places:
        return x
    if x.is_array or x.small:
        return _array(x, x.array.squeeze(places))
    return g.call("squeeze", x, axes=tuple(sorted(places)))


def of_matrices(g: Build, a: Value, b: Value, product: Callable[[Value, Value], Value]) -> Value:
    """numpy's matmul by a product of matrices: a vector is a row or a column for the moment."""
    if a.rank == 0 or b.rank == 0:
        g.malformed("an operand is a scalar")
    row, column = a.rank == 1, b.rank == 1
    a = expand_dims(g, a, (0,)) if row else a
    b = expand_dims(g, b, (1,)) if column else b
    y = product(a, b)
    gone = tuple([p for p, one in ((y.rank - 2, row), (y.rank - 1, column)) if one])
    return g.call("squeeze", y, axes=gone) if gone else y


def concat(g: Build, xs: Sequence[Value], axis: int) -> Value:
    """Values one behind the other."""
    if len(xs) == 1:
        return xs[0]
    axis = g.axis(axis, xs[0].rank)
    if all(x.small for x in xs):
        if all(x.is_array for x in xs):
            return _array(xs[0], np.concatenate([x.array for x in xs], axis))
        return _array(xs[0], np.concatenate([x.elements() for x in xs], axis))
    return g.call("concat", *xs, axis=axis)


def stack(g: Build, xs: Sequence[Value], axis: int) -> Value:
    """Values of one shape along a dimension of their own."""
    return concat(g, [expand_dims(g, x, (axis,)) for x in xs], axis)


def take(g: Build, x: Value, indices: Value, axis: int) -> Value:
    """The slices of `x` at these indices, negative ones counted from the end."""
    axis = g.axis(axis, x.rank)
    extent = x.shape[axis]
    if indices.is_array and isinstance(extent, int):
        at = indices.array
        if at.size and (at.min() < -extent or at.max() >= extent):
            g.malformed(f"an index lies outside of -{extent} to {extent - 1}")
        if at.size and at.min() < 0:
            at = np.where(at < 0, at + extent, at)
            indices = Value.of_array(at.astype(np.int64))
        if x.small and worth_knowing(at.size * _size(x)):
            return _array(x, np.asarray(np.take(x.array, at, axis), x.array.dtype))
    if indices.small and indices.rank == 0:
        at = g.scalar(indices, "indices")
        begin = at if at_least(at, 0) else simplify(extent + convert(at))
        return g.call("squeeze", _part(g, x, axis, begin, simplify(begin + 1)), axes=(axis,))
    return g.call("gather", x, indices, axis=axis)


def _part(g: Build, x: Value, axis: int, begin: Any, end: Any) -> Value:
    """The elements between two places that are inside of a dimension."""
    return g.call("strided_slice", x, axes=(axis,), begin=(begin,), end=(end,), strides=(1,))


def slice_(
    g: Build, x: Value, axes: Sequence[int], starts: Sequence[Any], ends: Sequence[Any],
    steps: Sequence[int],
) -> Value:  # fmt: skip
    """A part of a value, with numpy's clamping; steps backward become a slice and a flip."""
    axes = g.axes(axes, x.rank)
    if not len(axes) == len(starts) == len(ends) == len(steps) or 0 in steps:
        g.malformed(
            f"{len(axes)} axes, {len(starts)} starts, {len(ends)} ends, steps {tuple(steps)}"
        )
    ranges = [
        _range(x.shape[a], b, e, s) for a, b, e, s in zip(axes, starts, ends, steps, strict=True)
    ]
    if x.small and all(static(r) for r in ranges):
        index: list[Any] = [slice(None)] * x.rank
        for a, (b, e, s), step in zip(axes, ranges, steps, strict=True):
            index[a] = slice(b, max(b, e), s)
            if step < 0:
                index[a] = np.arange(b, max(b, e), s)[::-1]
        out = x.array
        for a, i in enumerate(index):
            out = out[(slice(None),) * a + (i,)]
        return _array(x, out)
    full = [
        k
        for k, (a, (b, e, s)) in enumerate(zip(axes, ranges, strict=True))
        if not (b == 0 and e == x.shape[a] and s == 1)
    ]
    if full:
        begin, end, by = zip(*[ranges[k] for k in full], strict=True)
        which = tuple([axes[k] for k in full])
        x = g.call("strided_slice", x, axes=which, begin=begin, end=end, strides=by)
    back = tuple([a for a, s in zip(axes, steps, strict=True) if s < 0])
    return g.call("flip", x, axes=back) if back else x


def along(g: Build, x: Value, axis: int, begin: Any, end: Any) -> Value:
    """The elements from begin up to end of one dimension."""
    return slice_(g, x, (axis,), (begin,), (end,), (1,))


def _range(extent: Any, start: Any, end: Any, step: int) -> tuple[Any, Any, int]:
    """Begin, end and step forward of the elements that a slice takes."""
    start, end = _from_front(start, extent), _from_front(end, extent)
    if step > 0:
        begin = clamp_end(larger(start, 0), extent)
        return begin, larger(clamp_end(larger(end, 0), extent), begin), step
    last = clamp_end(larger(start, 0), simplify(convert(extent) - 1))
    stop = clamp_end(larger(end, -1), simplify(convert(extent) - 1))
    count = simplify(ceildiv(convert(last) - stop, -step))
    if isinstance(count, int):
        count = max(count, 0)
    first = simplify(convert(last) + (convert(count) - 1) * step)
    return (0, 0, 1) if count == 0 else (first, simplify(convert(last) + 1), -step)


def _from_front(index: Any, extent: Any) -> Any:
    """An index from the front: one that is negative counts from the end."""
    return simplify(convert(extent) + index) if at_least(-1, index) else index


def split(g: Build, x: Value, sizes: Sequence[Any], axis: int) -> tuple[Value, ...]:
    """Consecutive parts of these sizes."""
    axis = g.axis(axis, x.rank)
    if static(sizes) and isinstance(x.shape[axis], int) and sum(sizes) != x.shape[axis]:
        g.malformed(f"the sizes {tuple(sizes)} do not add up to the extent {x.shape[axis]}")
    parts, at = [], 0
    for size in sizes:
        end: Any = simplify(convert(at) + size)
        if x.small and isinstance(at, int) and isinstance(end, int):
            parts.append(_array(x, x.array[(slice(None),) * axis + (slice(at, end),)]))
        else:
            parts.append(_part(g, x, axis, at, end))
        at = end
    return tuple(parts)


def broadcast_to(g: Build, x: Value, dims: Sequence[Any]) -> Value:
    """The value repeated along extents of 1, by numpy's rule, in both directions."""
    rank = max(len(dims), x.rank)
    old = [1] * (rank - x.rank) + list(x.shape)
    new = [1] * (rank - len(dims)) + [simplify(d) for d in dims]
    out: list[Any] = []
    for a, b in zip(old, new, strict=True):
        if isinstance(a, int) and isinstance(b, int) and a != b and 1 not in (a, b):
            g.malformed(
                f"the shape ({', '.join(map(str, x.shape))}) does not broadcast to "
                f"({', '.join(map(str, dims))})"
            )
        out.append(a if isinstance(b, int) and b == 1 else b)
    if tuple(out) == x.shape:
        return x
    if static(out) and (x.small or x.is_array) and math.prod(out) <= SPREAD:
        return _array(x, np.broadcast_to(x.array, out))
    return g.call("broadcast_to", x, shape=tuple(out))


def everywhere(
    given: Sequence[Any], places: Sequence[int], default: Sequence[Any]
) -> tuple[Any, ...]:
    """Numbers for some places as numbers for all, a tuple."""
    full = list(default)
    for a, v in zip(places, given, strict=True):
        full[a] = v
    return tuple(full)


def both_ends(given: Sequence[Any], axes: Sequence[int], default: Sequence[Any]) -> tuple[Any, ...]:
    """Begins of some dimensions, then ends, as those of all."""
    return everywhere(given, (*axes, *[len(default) // 2 + a for a in axes]), default)


def pad(
    g: Build, x: Value, pads: Sequence[Any], mode: str = "constant", value: float = 0.0
) -> Value:
    """Elements put around, begins of all dimensions, then ends; negative ones cut off."""
    if len(pads) != 2 * x.rank:
        g.malformed(f"{len(pads)} pads for {x.rank} dimensions")
    before, after = list(pads[: x.rank]), list(pads[x.rank :])
    ends = [p for p in zip(before, after, strict=True) if static(p)]
    if mode == "constant" and any(min(p) < 0 < max(p) for p in ends):
        # more may go than there is
        return g.call("pad", x, pads=tuple(pads), mode=mode, value=value)
    for k in range(x.rank):
        b, a = before[k], after[k]
        if (isinstance(b, int) and b < 0) or (isinstance(a, int) and a < 0):
            cut_a, cut_b = min(a, 0), -min(b, 0)
            x = along(g, x, k, cut_b, simplify(convert(x.shape[k]) + cut_a))
            before[k], after[k] = max(b, 0), max(a, 0)
    if all(isinstance(p, int) and p == 0 for p in (*before, *after)):
        return x
    return g.call("pad", x, pads=(*before, *after), mode=mode, value=value)


def tile(g: Build, x: Value, repeats: Sequence[Any]) -> Value:
    """The value repeated as a whole along each dimension."""
    if len(repeats) != x.rank:
        g.malformed(f"{len(repeats)} repeats for {x.rank} dimensions")
    g.extents(repeats, "repeats")
    if all(isinstance(r, int) and r == 1 for r in repeats):
        return x
    if x.small and static(repeats) and worth_knowing(math.prod(repeats) * _size(x)):
        return _array(x, np.tile(x.array, repeats))
    return g.call("tile", x, repeats=tuple(repeats))


def arange(g: Build, start: Any, limit: Any, step: int, dtype: str) -> Value:
    """Integers from start on, below the limit (above it for a negative step)."""
    distance = convert(limit) - start if step > 0 else convert(start) - limit
    count = larger(ceildiv(distance, abs(step)), 0)
    return g.call("arange", start=start, step=step, count=count, dtype=dtype)
