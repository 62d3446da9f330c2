"""Moving elements by numbers known only at run time.

The numbers are brought into a form without negative ones by operators of the graph; what becomes an
extent is then a size of the run (`Build.sizes`), the rest stays an operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import moves
from .build import Build
from .moves import as_type
from .values import Value, objects, product, simplify


def _extents(dims: Sequence[Any]) -> Value:
    """Extents as a vector."""
    return Value.of_array(objects(dims, (len(dims),)), "int64")


def _number(g: Build, n: int) -> Value:
    return g.constant(n, "int64")


def _part(g: Build, v: Value, n: int) -> Value:
    """One element of a vector, without dimensions."""
    return moves.take(g, v, _number(g, n), 0)


def reshape(g: Build, x: Value, shape: Value, allowzero: bool) -> Value:
    """0 keeps an extent unless allowzero, -1 is what remains."""
    rank = _rank(g, shape, "shape")
    wanted = as_type(g, shape, "int64")
    if not allowzero:
        own = [*x.shape[:rank], *[0] * (rank - x.rank)]
        wanted = g.call("where", g.call("equal", wanted, _number(g, 0)), _extents(own), wanted)
    open_ = g.call("equal", wanted, _number(g, -1))
    known = g.call("where", open_, _number(g, 1), wanted)
    rest = g.call("prod", known, axes=(0,), keepdims=False)
    total = Value.of_array(objects([product(x.shape)], ()), "int64")
    remaining = g.call("divide", total, g.call("maximum", rest, _number(g, 1)))
    dims = g.sizes(g.call("where", open_, remaining, wanted), "shape", total)
    return g.call("reshape", x, shape=dims)


def _rank(g: Build, v: Value, what: str) -> int:
    """The length of a vector of numbers, which has to be known: it is a number of dimensions."""
    if v.rank != 1 or not isinstance(v.shape[0], int):
        g.needs(v, what)
    return v.shape[0]


def expand(g: Build, x: Value, shape: Value) -> Value:
    """Repetition along extents of 1, in both directions."""
    rank = max(_rank(g, shape, "shape"), x.rank)
    wanted = as_type(g, shape, "int64")
    short = rank - _rank(g, shape, "shape")
    if short:
        wanted = moves.concat(g, [g.constant(np.ones(short, np.int64)), wanted], 0)
    own, one = _extents([1] * (rank - x.rank) + list(x.shape)), _number(g, 1)
    repeated = [g.call("equal", v, one) for v in (own, wanted)]
    fits = g.call("where", g.call("logical_or", *repeated), wanted, own)
    return g.call("broadcast_to", x, shape=g.sizes(wanted, "shape", fits))


def slice_(
    g: Build, x: Value, starts: Value, ends: Value, axes: Sequence[int], steps: Value | None
) -> Value:
    """ONNX's clamped ranges: along each axis the elements first, first + step, ..."""
    places = g.axes(axes, x.rank)
    starts, ends = as_type(g, starts, "int64"), as_type(g, ends, "int64")
    steps = None if steps is None else as_type(g, steps, "int64")
    firsts, counts, by = [], [], []
    for n, a in enumerate(places):
        extent = Value.of_array(objects([x.shape[a]], ()), "int64")
        step = _number(g, 1) if steps is None else _part(g, steps, n)
        first, last = _clamped(g, _part(g, starts, n), _part(g, ends, n), extent, step)
        count = _steps(g, g.call("subtract", last, first), step)
        counts.append(g.call("maximum", count, _number(g, 0)))
        firsts.append(first)
        by.append(step)
    sizes = g.sizes(
        moves.concat(g, [moves.expand_dims(g, c, (0,)) for c in counts], 0), "starts and ends"
    )
    for a, first, step, size in zip(places, firsts, by, sizes, strict=True):
        run = g.call("arange", start=0, step=1, count=size, dtype="int64")
        at = g.call("add", first, g.call("multiply", run, step))
        x = g.call("gather", x, at, axis=a)
    return x


def _steps(g: Build, span: Value, step: Value) -> Value:
    """How many steps lead over a span, the last one maybe beyond it; 0 and less: none."""
    zero, size = _number(g, 0), g.call("abs", step)
    away = g.call("where", g.call("greater", step, zero), span, g.call("negative", span))
    up = g.call("add", away, g.call("subtract", size, _number(g, 1)))
    return g.call("divide", up, size)


def _clamped(g: Build, start: Value, end: Value, extent: Value, step: Value) -> tuple[Value, Value]:
    """Where a range begins and ends, as numbers from the front."""
    zero, one = _number(g, 0), _number(g, 1)
    forward = g.call("greater", step, zero)
    most = g.call("where", forward, extent, g.call("subtract", extent, one))
    least = g.call("where", forward, zero, _number(g, -1))

    def front(v: Value) -> Value:
        return g.call("where", g.call("less", v, zero), g.call("add", v, extent), v)

    first = g.call("minimum", g.call("maximum", front(start), zero), most)
    last = g.call("minimum", g.call("maximum", front(end), least), most)
    return first, last


def pad(
    g: Build, x: Value, pads: Value, axes: Sequence[int], mode: str, value: Value | None
) -> Value:
    """Padding by numbers from 0 on; ranges are cut by negative ones first."""
    pads, count = as_type(g, pads, "int64"), len(axes)
    zero = _number(g, 0)
    cut = g.call("maximum", g.call("negative", pads), zero)
    begin = moves.slice_(g, cut, (0,), (0,), (count,), (1,))
    behind = moves.slice_(g, cut, (0,), (count,), (2 * count,), (1,))
    own = _extents([x.shape[a] for a in axes])
    x = slice_(g, x, begin, g.call("subtract", own, behind), axes, None)
    sizes = g.sizes(g.call("maximum", pads, zero), "pads")
    full = moves.both_ends(sizes, axes, [0] * (2 * x.rank))
    fill = 0.0 if value is None else g.number(value, "constant_value")
    return g.call("pad", x, pads=full, mode=mode, value=fill)


def arange(g: Build, start: Value, limit: Value, step: Value) -> Value:
    """start, start + step, ... up to the limit, which is left out."""
    dtype = start.dtype
    wide = "int64" if dtype.startswith(("int", "uint")) else "float64"
    first, last, by = [as_type(g, v, wide) for v in (start, limit, step)]
    span = g.call("subtract", last, first)
    if wide == "int64":
        count = _steps(g, span, by)
    else:
        count = g.call("cast", g.call("ceil", g.call("divide", span, by)), dtype="int64")
    (n,) = g.sizes(g.call("maximum", count, _number(g, 0)), "limit")
    run = g.call("arange", start=0, step=1, count=simplify(n), dtype="int64")
    made = g.call("add", first, g.call("multiply", as_type(g, run, wide), by))
    return as_type(g, made, dtype)
