"""What the detection operators share: sorting, packing and suppression of boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.ir.build import if_then_else, maximum, minimum, select
from smelt.ir.expr import INDEX, Expr, ExprLike, const
from smelt.te.tensor import Tensor, extern
from smelt.tir.nodes import Stmt, While

from .common import extents
from .statements import add, at, loop, put, seq, when

Corners = Sequence[Expr]
"""A box: left, top, right, bottom."""
Box = Callable[[int], Expr]
"""A box with what belongs to it: its column of this number."""


def sorted_order(key: Tensor, count: Tensor) -> Tensor:
    """[r, n]: where the elements of each row of key [r, n] stand when the first count [r] of them
    are sorted, largest first; equal ones keep their order, and the rest stays where it is.

    Runs of sorted elements are merged in pairs until one is left.
    """
    rows, n = key.shape

    def program(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        order, spare, values, state = outs
        left, right, width = 0, 1, 2

        def value(r: Expr, run: int) -> Expr:
            return at(values, at(order, r, at(state, run)))

        def step(r: Expr, k: Expr, middle: Expr, end: Expr) -> Stmt:
            i, j = at(state, left), at(state, right)
            # the second run's element goes first only where it is larger
            later = if_then_else(j < end, value(r, right) > value(r, left), False)
            second = if_then_else(i < middle, later, True)
            return when(
                second,
                seq(put(spare, at(order, r, j), k), add(state, 1, right)),
                seq(put(spare, at(order, r, i), k), add(state, 1, left)),
            )

        def pair(r: Expr, p: Expr) -> Stmt:
            size, total = at(state, width), at(count, r)
            begin = p * 2 * size
            middle, end = minimum(begin + size, total), minimum(begin + 2 * size, total)
            merged = loop("k", end - begin, lambda k: step(r, k, middle, end), begin)
            return seq(put(state, begin, left), put(state, middle, right), merged)

        def row(r: Expr) -> Stmt:
            total, size = at(count, r), at(state, width)
            pairs = (total + (2 * size - 1)) // maximum(2 * size, 1)
            back = loop("k", total, lambda k: put(order, at(spare, k), r, k))
            merge = seq(loop("p", pairs, lambda p: pair(r, p)), back, put(state, size * 2, width))
            start = loop("k", n, lambda k: seq(put(order, k, r, k), put(values, at(key, r, k), k)))
            return seq(start, put(state, 1, width), While(at(state, width) < total, merge))

        return loop("r", rows, row)

    shapes = [list(key.shape), [n], [n], list(extents([3]))]
    types = [INDEX, INDEX, key.dtype, INDEX]
    order: Tensor = extern(shapes, [key, count], program, "order", types)[0]
    return order


def packed(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The places of the true elements of each row of chosen [r, n], in order, then -1; and how many
    they are [r]."""
    rows, n = chosen.shape

    def program(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        places, count = outs

        def row(r: Expr) -> Stmt:
            def visit(j: Expr) -> Stmt:
                take = seq(put(places, j, r, at(count, r)), add(count, 1, r))
                return when(at(chosen, r, j), take)

            take = loop("j", n, visit)
            rest = loop("j", n - at(count, r), lambda j: put(places, -1, r, j), at(count, r))
            return seq(put(count, 0, r), take, rest)

        return loop("r", rows, row)

    shapes = [list(chosen.shape), [rows]]
    places, count = extern(shapes, [chosen], program, "packed", [INDEX] * 2)
    return places, count


def suppressed(
    boxes: Tensor, count: Tensor, limit: ExprLike, overlaps: Callable[[Box, Box], Expr],
    counts: Callable[[Box], Expr] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The boxes that are kept when each, best first, puts out those behind it that overlap it.

    boxes     [r, n, w], sorted; the first count [r] of a row are looked at
    limit     how many are kept of a row
    overlaps  (a box, a kept one before it) -> whether that puts it out
    counts    a box -> false where it neither counts nor puts out others but stays; None: true for
              all
    result    [r, n] whether each is kept; [r, n] the places of those that count, first to last,
              then 0; [r] how many they are
    """
    rows, n, width = boxes.shape

    def program(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        # copies of this box and of the kept ones: each is read again and again
        state, kept, total, alive, own, before = outs

        def this(k: int) -> Expr:
            return at(own, k)

        def check(m: Expr) -> Stmt:
            near = if_then_else(at(alive, 0) > 0, overlaps(this, lambda k: at(before, m, k)), False)
            return when(near, put(alive, 0, 0))

        def visit(r: Expr, j: Expr) -> Stmt:
            m = at(total, r)
            keep = seq(
                loop("k", width, lambda k: put(before, at(own, k), m, k)),
                put(kept, j, r, m), put(state, True, r, j), add(total, 1, r),
            )  # fmt: skip
            compared = seq(put(alive, 1, 0), loop("m", m, check), when(at(alive, 0) > 0, keep))
            if counts is not None:
                compared = when(counts(this), compared, put(state, True, r, j))
            copy = loop("k", width, lambda k: put(own, at(boxes, r, j, k), k))
            return when(m < limit, seq(copy, compared))

        def row(r: Expr) -> Stmt:
            nothing = loop("j", n, lambda j: seq(put(state, False, r, j), put(kept, 0, r, j)))
            every = loop("j", at(count, r), lambda j: visit(r, j))
            return seq(put(total, 0, r), nothing, every)

        return loop("r", rows, row)

    shapes = [[rows, n], [rows, n], [rows], list(extents([1])), [width], [n, width]]
    types = ["bool", INDEX, INDEX, INDEX, boxes.dtype, boxes.dtype]
    state, kept, total, *_ = extern(shapes, [boxes, count], program, "suppress", types)
    return state, kept, total


def corners(box: Box) -> Corners:
    """A box whose two corners, coordinates 0, 1 and 2, 3, may stand in any order."""
    pairs = [(box(0), box(2)), (box(1), box(3))]
    return [minimum(*p) for p in pairs] + [maximum(*p) for p in pairs]


def iou(a: Corners, b: Corners, pixel: float = 0.0) -> Expr:
    """The area that two boxes share over the area that they cover, 0 where that is empty.

    pixel  1 where the right and bottom coordinates are those of the last pixel
    """
    zero = const(0.0, a[0].dtype)

    def extent(low: Expr, high: Expr) -> Expr:
        return high - low + pixel if pixel else high - low

    inner = [extent(maximum(a[d], b[d]), minimum(a[2 + d], b[2 + d])) for d in range(2)]
    shared = maximum(inner[0], zero) * maximum(inner[1], zero)
    areas = [extent(c[0], c[2]) * extent(c[1], c[3]) for c in (a, b)]
    covered = areas[0] + areas[1] - shared
    empty = covered <= 0.0
    return select(empty, zero, shared / select(empty, const(1.0, zero.dtype), covered))
