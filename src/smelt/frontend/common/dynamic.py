"""Moving elements by numbers that are operands: known ones, and those known only at run time.

The latter are brought into a form without negative ones by operators of the graph; what becomes an
extent is then a size of the run (`Build.sizes`), the rest stays an operand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.expr import Expr
from smelt.ir.limits import worth_knowing
from smelt.relax.compose import counts

from . import moves
from .build import Build
from .moves import as_type
from .values import Value, product, simplify

_NUMBER = f" as a number of elements ({counts.UNTOLD})"


def _part(g: Build, v: Value, n: int) -> Value:
    """One element of a vector, without dimensions."""
    return moves.take(g, v, g.constant(n, "int64"), 0)


def reshape(g: Build, x: Value, shape: Value, allowzero: bool = False) -> Value:
    """0 keeps an extent unless allowzero, -1 is what remains."""
    if shape.known is not None:
        known = [simplify(d) for d in g.dims(shape, "shape")]
        for k, d in enumerate(known):
            if isinstance(d, int) and d == 0 and not allowzero:
                if k >= x.rank:
                    have = f"the operand has {x.rank} dimensions"
                    g.malformed(f"the shape's extent {k} is 0, but {have}")
                known[k] = x.shape[k]
        return moves.reshape(g, x, known)
    rank = _rank(g, shape, "shape")
    own = None if allowzero else Value.of_sizes([*x.shape[:rank], *[0] * (rank - x.rank)])
    total = Value.of_sizes(product(x.shape))
    extents = g.composed(counts.completed_extents, as_type(g, shape, "int64"), total, own)
    return g.call("reshape", x, shape=g.sizes(extents, "shape", total))


def _rank(g: Build, v: Value, what: str) -> int:
    """The length of a vector of numbers, which has to be known: it is a number of dimensions."""
    if v.rank != 1 or not isinstance(v.shape[0], int):
        g.needs(v, what)
    return v.shape[0]


def expand(g: Build, x: Value, shape: Value) -> Value:
    """Repetition along extents of 1, in both directions."""
    if shape.known is not None:
        return moves.broadcast_to(g, x, g.dims(shape, "shape"))
    rank = max(_rank(g, shape, "shape"), x.rank)
    wanted = as_type(g, shape, "int64")
    short = rank - _rank(g, shape, "shape")
    if short:
        wanted = moves.concat(g, [g.constant(np.ones(short, np.int64)), wanted], 0)
    own = Value.of_sizes([1] * (rank - x.rank) + list(x.shape))
    repeated = [g.call("equal", v, 1) for v in (own, wanted)]
    fits = g.call("where", g.call("logical_or", *repeated), wanted, own)
    return g.call("broadcast_to", x, shape=g.sizes(wanted, "shape", fits))


def slice_(
    g: Build, x: Value, starts: Value, ends: Value, axes: Sequence[int] | None, steps: Value | None
) -> Value:
    """numpy's clamped ranges: along each axis (None: the first ones) first, first + step, ..."""
    if all(v is None or v.known is not None for v in (starts, ends, steps)):
        begin, end = g.dims(starts, "starts"), g.dims(ends, "ends")
        which = range(len(begin)) if axes is None else axes
        step_of = (1,) * len(begin) if steps is None else g.ints(steps, "steps")
        return moves.slice_(g, x, which, begin, end, step_of)
    axes = range(starts.shape[0]) if axes is None else axes
    places = g.axes(axes, x.rank)
    starts, ends = as_type(g, starts, "int64"), as_type(g, ends, "int64")
    steps = None if steps is None else as_type(g, steps, "int64")
    firsts, many, by = [], [], []
    for n, a in enumerate(places):
        extent = Value.of_sizes(x.shape[a])
        step = g.constant(1, "int64") if steps is None else _part(g, steps, n)
        first = g.composed(counts.clamped, _part(g, starts, n), extent, step, before=False)
        last = g.composed(counts.clamped, _part(g, ends, n), extent, step, before=True)
        many.append(g.composed(counts.steps_between, first, last, step))
        firsts.append(first)
        by.append(step)
    sizes = g.sizes(moves.stack(g, many, 0), "starts and ends", note=_NUMBER)
    for a, first, step, size in zip(places, firsts, by, sizes, strict=True):
        run = g.call("arange", start=0, step=1, count=size, dtype="int64")
        at = g.call("add", first, g.call("multiply", run, step))
        x = g.call("gather", x, at, axis=a)
    return x


def pad(
    g: Build, x: Value, pads: Value, axes: Sequence[int] | None, mode: str, value: Value | None
) -> Value:
    """Padding of some dimensions, begins, then ends; negative numbers cut ranges first."""
    if pads.known is not None:
        widths = g.dims(pads, "pads")
        if axes is not None:
            widths = moves.both_ends(widths, g.axes(axes, x.rank), [0] * (2 * x.rank))
        fill = 0.0 if value is None else g.number(value, "constant_value")
        return moves.pad(g, x, widths, mode, fill)
    axes = range(x.rank) if axes is None else g.axes(axes, x.rank)
    pads, count = as_type(g, pads, "int64"), len(axes)
    cut = g.call("maximum", g.call("negative", pads), 0)
    begin, behind = [moves.along(g, cut, 0, n, n + count) for n in (0, count)]
    own = Value.of_sizes([x.shape[a] for a in axes])
    x = slice_(g, x, begin, g.call("subtract", own, behind), axes, None)
    sizes = g.sizes(g.call("maximum", pads, 0), "pads")
    full = moves.both_ends(sizes, axes, [0] * (2 * x.rank))
    fill = 0.0 if value is None else g.number(value, "constant_value")
    return g.call("pad", x, pads=full, mode=mode, value=fill)


def arange(g: Build, start: Value, limit: Value, step: Value) -> Value:
    """start, start + step, ... up to the limit, which is left out."""
    if start.known is not None and limit.known is not None and step.known is not None:
        return _known_range(g, start, limit, step)
    dtype = start.dtype
    wide = counts.range_type(dtype)
    first, last, by = [as_type(g, v, wide) for v in (start, limit, step)]
    (n,) = g.sizes(g.composed(counts.steps_between, first, last, by), "limit", note=_NUMBER)
    run = g.call("arange", start=0, step=1, count=simplify(n), dtype="int64")
    made = g.call("add", first, g.call("multiply", as_type(g, run, wide), by))
    return as_type(g, made, dtype)


def _known_range(g: Build, start: Value, limit: Value, step: Value) -> Value:
    dtype = start.dtype
    first, last, by = [
        g.scalar(v, n) for v, n in ((start, "start"), (limit, "limit"), (step, "delta"))
    ]
    if not any(isinstance(e, Expr) for e in (first, last, by)):
        if not all(map(math.isfinite, (first, last, by))) or by == 0:
            g.malformed(f"start={first}, limit={last}, delta={by}: finite numbers, delta not 0")
        count = max(int(np.ceil((last - first) / by)), 0)
        if not worth_knowing(8 * count):
            return g.call("arange", start=first, step=by, count=count, dtype=dtype)
        return Value.of_array(np.array([first + k * by for k in range(count)], dt.to_numpy(dtype)))
    if isinstance(by, Expr) or not dt.is_int(dtype):
        g.unsupported(
            "a range of symbolic length with this type or step", "integers with a constant delta"
        )
    return moves.arange(g, first, last, by, dtype)
