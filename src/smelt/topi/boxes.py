"""What the detection operators share: sorting, packing and suppression of boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from smelt.ir.build import all_of, maximum, minimum, select
from smelt.ir.expr import INDEX, Expr, ExprLike, const
from smelt.te.tensor import Tensor, min_value
from smelt.tir.nodes import Stmt, While

from .program import Cell, add_to, cleared, loop, loops, once, program, seq, store, when
from .sort import order_of

Corners = Sequence[Expr]
"""A box: left, top, right, bottom."""
Box = Callable[[int], Expr]
"""A box with what belongs to it: its column of this number."""


def sorted_order(key: Tensor, count: Tensor | None = None) -> Tensor:
    """[r, n]: where the elements of each row of key [r, n] stand when the first count [r] of them
    (None: all) are sorted, largest first and NaN last; equal ones keep their order, and the rest
    stays where it is."""
    low = min_value(key.dtype)

    def body(scores: Tensor) -> Stmt:
        return loops(key.shape, lambda i: store(scores, i, select(key[i] > low, key[i], low)))

    # a program and no expression: every score is computed once, however often it is compared
    scores = program([key.shape], [key.dtype], [key], body, "scores")[0]
    return order_of(scores, 1, descending=True, count=count)


def packed(chosen: Tensor) -> tuple[Tensor, ...]:
    """The places of the true elements of each row of chosen [r, n], in order, then -1; and how many
    they are [r]."""
    rows, n = chosen.shape

    def body(places: Tensor, count: Tensor) -> Stmt:
        def row(r: Expr) -> Stmt:
            def visit(j: Expr) -> Stmt:
                take = seq(store(places, (r, count[r]), j), add_to(count, (r,), 1))
                return when(chosen[r, j], take)

            rest = loop(n - count[r], lambda j: store(places, (r, count[r] + j), -1), "j")
            return seq(store(count, (r,), 0), loop(n, visit, "j"), rest)

        return loop(rows, row, "r")

    return program([chosen.shape, chosen.shape[:1]], [INDEX] * 2, [chosen], body, "packed")


class Rows(NamedTuple):
    """Boxes [r, n, w] that are read where they stand: from some tensors, by row, place, column."""

    shape: tuple[Expr, ...]
    dtype: str
    operands: Sequence[Tensor]
    at: Callable[[Expr, Expr, Expr], Expr]


def rows_of(boxes: Tensor) -> Rows:
    """The rows of a tensor."""
    return Rows(boxes.shape, boxes.dtype, [boxes], lambda r, j, k: boxes[r, j, k])


def suppressed(
    boxes: Rows, count: Tensor, limit: ExprLike, overlaps: Callable[[Box, Box], Expr],
    counts: Callable[[Box], Expr] | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
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
    alive, at = Cell(name="alive"), Cell(name="at")

    def body(*outs: Tensor) -> Stmt:
        # copies of this box and of the kept ones: each is read again and again
        state, kept, total, own, before = outs

        def this(k: int) -> Expr:
            return own[k]

        def check(m: Expr) -> Stmt:
            return when(overlaps(this, lambda k: before[m, k]), alive.set(0))

        def visit(r: Expr, j: Expr) -> Stmt:
            m = total[r]
            keep = seq(
                loop(width, lambda k: store(before, (m, k), own[k]), "k"),
                store(kept, (r, m), j), store(state, (r, j), True), add_to(total, (r,), 1),
            )  # fmt: skip
            left = all_of([at.value < m, alive.value > 0])
            search = While(left, seq(check(at.value), at.set(at.value + 1)))
            compared = seq(alive.set(1), at.set(0), search, when(alive.value > 0, keep))
            if counts is not None:
                compared = when(counts(this), compared, store(state, (r, j), True))
            copy = loop(width, lambda k: store(own, (k,), boxes.at(r, j, k)), "k")
            return when(m < limit, seq(copy, compared))

        def row(r: Expr) -> Stmt:
            return loop(count[r], lambda j: visit(r, j), "j")

        nothing = cleared(state, kept, total)
        return once([alive, at], *nothing, loop(rows, row, "r"))

    shapes = [(rows, n), (rows, n), (rows,), (width,), (n, width)]
    types = ["bool", INDEX, INDEX, boxes.dtype, boxes.dtype]
    return program(shapes, types, [*boxes.operands, count], body, "suppress")[:3]


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
