"""Views: results that are another value's memory seen with another shape.

reshape, transpose, squeeze, expand_dims, strided_slice and broadcast_to need no kernel where the
result can be described by an offset and strides into the memory of their operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from smelt.arith import Analyzer
from smelt.ir.build import is_const
from smelt.ir.expr import INDEX, Expr, IntImm, const, convert
from smelt.ir.node import Node


class View(Node):
    """Where a value's elements are: element i of the shape stands at offset + sum(i * strides).

    offset, strides  in elements of the value's type
    """

    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    offset: Expr


def dense(shape: Sequence[Expr]) -> View:
    """A value alone in its memory, row-major."""
    return dense_in_order(shape, range(len(shape)))


def dense_in_order(shape: Sequence[Expr], order: Sequence[int]) -> View:
    """A value alone in its memory; `order` lists the dimensions, outermost first."""
    strides: list[Expr] = [const(1, INDEX)] * len(shape)
    step: Expr = const(1, INDEX)
    for d in reversed(order):
        strides[d] = step
        step = step * shape[d]
    return View(tuple(shape), tuple(strides), const(0, INDEX))


def same(a: Expr, b: Expr, analyzer: Analyzer) -> bool:
    """Whether two sizes are equal for sure."""
    return a is b or analyzer.simplify(a - b) is const(0, INDEX)


def is_dense(view: View, analyzer: Analyzer) -> bool:
    """Whether the elements stand in row-major order without gaps (extents of 1 do not matter)."""
    step: Expr = const(1, INDEX)
    for d in range(len(view.shape) - 1, -1, -1):
        extent = view.shape[d]
        if is_const(extent, 1):
            continue
        if not same(view.strides[d], step, analyzer):
            return False
        step = step * extent
    return True


def _reshape(view: View, attrs: Any, analyzer: Analyzer) -> View | None:
    """Split or merge dimensions whose elements are evenly spaced."""
    shape = tuple([convert(e, INDEX) for e in attrs["shape"]])
    if is_dense(view, analyzer):
        made = dense(shape)
        return made.replace(offset=view.offset)
    old = [(e, s) for e, s in zip(view.shape, view.strides, strict=True) if not is_const(e, 1)]
    new = tuple([e for e in shape if not is_const(e, 1)])
    groups = _match(tuple([e for e, _ in old]), new, analyzer)
    if groups is None:
        return None
    strides: list[Expr] = []
    for begin, end, parts in groups:
        for (_, outer), (extent, inner) in pairwise(old[begin:end]):
            if not same(outer, inner * extent, analyzer):
                return None
        strides += [old[end - 1][1] * s for s in dense(parts).strides]
    found = iter(strides)
    full = [const(0, INDEX) if is_const(e, 1) else analyzer.simplify(next(found)) for e in shape]
    return View(shape, tuple(full), view.offset)


def _match(
    old: tuple[Expr, ...], new: tuple[Expr, ...], analyzer: Analyzer
) -> list[tuple[int, int, tuple[Expr, ...]]] | None:
    """Runs of old dimensions beside runs of new ones with the same number of elements."""
    groups = []
    i = j = 0
    while i < len(old) and j < len(new):
        begin, start = i, j
        a, b = old[i], new[j]
        i, j = i + 1, j + 1
        while not same(a, b, analyzer):
            smaller = _smaller(a, b, i < len(old), j < len(new))
            if smaller is None:
                return None
            if smaller:
                a, i = a * old[i], i + 1
            else:
                b, j = b * new[j], j + 1
        groups.append((begin, i, new[start:j]))
    return groups if i == len(old) and j == len(new) else None


def _smaller(a: Expr, b: Expr, more_old: bool, more_new: bool) -> bool | None:
    """Whether to take one more old dimension (True) or new one (False) into a run."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        wanted = a.value < b.value
        return wanted if (more_old if wanted else more_new) else None
    if isinstance(a, IntImm) and more_old and not isinstance(b, IntImm):
        return True
    return False if more_new else True if more_old else None


def transpose_axes(attrs: Any, rank: int) -> tuple[int, ...]:
    """The order of dimensions that a transpose asks for; None reverses them."""
    axes = attrs["axes"]
    return tuple(range(rank - 1, -1, -1)) if axes is None else tuple([a % rank for a in axes])


def _transpose(view: View, attrs: Any, analyzer: Analyzer) -> View | None:
    axes = transpose_axes(attrs, len(view.shape))
    shape, strides = (tuple([v[a] for a in axes]) for v in (view.shape, view.strides))
    return View(shape, strides, view.offset)


def _slice(view: View, attrs: Any, analyzer: Analyzer) -> View | None:
    shape, strides, offset = list(view.shape), list(view.strides), view.offset
    steps = attrs["strides"] or (1,) * len(attrs["axes"])
    ends = (attrs["axes"], attrs["begin"], attrs["end"])
    for axis, begin, end, step in zip(*ends, steps, strict=True):
        if not isinstance(step, int) or step < 1:
            return None
        low, high = convert(begin, INDEX), convert(end, INDEX)
        offset = offset + low * view.strides[axis]
        shape[axis] = analyzer.simplify((high - low + (step - 1)) // step)
        strides[axis] = view.strides[axis] * step
    return View(tuple(shape), tuple(strides), analyzer.simplify(offset))


def _broadcast(view: View, attrs: Any, analyzer: Analyzer) -> View | None:
    shape = tuple([convert(e, INDEX) for e in attrs["shape"]])
    lead, zero = len(shape) - len(view.shape), const(0, INDEX)
    pairs = zip(view.shape, shape[lead:], view.strides, strict=True)
    kept = [s if same(old, new, analyzer) else zero for old, new, s in pairs]
    return View(shape, (*[zero] * lead, *kept), view.offset)


VIEW_OPS: dict[str, Callable[[View, Any, Analyzer], View | None]] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "strided_slice": _slice,
    "broadcast_to": _broadcast,
}


def view_of(
    name: str, attrs: Any, view: View, shape: Sequence[Expr], analyzer: Analyzer
) -> View | None:
    """The view that an operator makes of its operand's, or None where it needs a kernel."""
    if name in ("squeeze", "expand_dims"):
        return _reshape(view, {"shape": tuple(shape)}, analyzer)
    make = VIEW_OPS.get(name)
    made = None if make is None else make(view, attrs, analyzer)
    return None if made is None else made.replace(shape=tuple(shape))


VIEW_NAMES = frozenset({*VIEW_OPS, "squeeze", "expand_dims"})
"""The operators that may be views."""
