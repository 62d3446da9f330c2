"""Sorting and searching along an axis.

NaN counts as larger than every number, as in numpy; equal elements keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from smelt.ir import build
from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Expr, ExprLike, cast, const
from smelt.te.tensor import Tensor
from smelt.tir.nodes import Stmt

from .common import agree, axis_of, named, numbers_only, require, same_dtype, tensor
from .program import (
    Cell,
    Lanes,
    let,
    lets,
    loop,
    loop_nest,
    product,
    program,
    seq,
    sharing,
    store,
    when,
)
from .reference import Array, widened
from .registry import op


def before(a: Expr, b: Expr, descending: bool = False) -> Expr:
    """Whether one value has to stand in front of another."""
    if descending:
        a, b = b, a
    if not dt.is_float(a.dtype):
        return a < b
    number = build.logical_not(build.call("isnan", a, dtype="bool"))
    return build.any_of(a < b, build.all_of(number, build.call("isnan", b, dtype="bool")))


def _passes(n: Expr) -> Expr:
    """How often runs have to be merged until one is left: the bits of n - 1."""
    known = build.value_of(n)
    if known is not None:
        return const(max(known - 1, 0).bit_length(), INDEX)
    return 64 - build.call("clz", build.maximum(n, 1) - 1)


Comparison = Callable[[Expr, Expr, Expr, Callable[[Expr], Stmt]], Stmt]
"""(lane, i, j, act) -> act(whether element i of a lane has to stand in front of element j)."""


def _merged(
    work: Tensor, lane: Expr, n: Expr, turn: Expr, compared: Comparison, left: Cell, right: Cell
) -> Stmt:
    """Pairs of sorted runs of 2 ** turn elements merged: from the half `turn % 2` to the other."""
    run, source = build.call("shift_left", const(1, INDEX), turn), turn % 2

    def step(k: Expr, middle: Expr, end: Expr) -> Stmt:
        def moved(i: Expr, j: Expr, take: Expr) -> Stmt:
            return seq(
                store(work, (lane, 1 - source, k), build.select(take, j, i)),
                when(take, right.set(right.value + 1), left.set(left.value + 1)),
            )

        def met(i: Expr, j: Expr) -> Stmt:
            def chosen(earlier: Expr) -> Stmt:
                later = build.all_of(right.value < end, earlier)
                take = build.any_of(left.value >= middle, later)
                return let(take, lambda t: moved(i, j, t), "take")

            return compared(lane, j, i, chosen)

        first = [work[lane, source, build.minimum(c.value, n - 1)] for c in (left, right)]
        return lets(first, lambda found: met(*found))

    def pair(p: Expr) -> Stmt:
        def joined(known: Sequence[Expr]) -> Stmt:
            begin, middle, end = known
            every = loop(end - begin, lambda k: step(begin + k, middle, end), "k")
            return seq(left.set(begin), right.set(middle), every)

        begin = p * (run * 2)
        ends = [build.minimum(begin + size, n) for size in (run, run * 2)]
        return lets([begin, *ends], joined)

    return loop(build.ceildiv(n, run * 2), pair, "pair")


def merged_order(
    lanes: Lanes, inputs: Sequence[Tensor], compared: Comparison, cells: Sequence[Cell] = (),
    count: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where the elements of each lane stand that come first, second, ... when sorted (int64).

    inputs  what the comparison reads, with `cells` of its own
    count   [lanes] how many of a lane are sorted, the rest stays where it is; None: all

    Merging of runs whose length doubles, from one half of a workspace to the other.
    """
    left, right = Cell(name="left"), Cell(name="right")

    def body(result: Tensor, work: Tensor) -> Stmt:
        def put(lane: Expr, k: Expr, i: Expr) -> Stmt:
            return store(result, lanes.at(lane, k), i)

        def first(lane: Expr, n: Expr) -> Stmt:
            def turn(t: Expr) -> Stmt:
                return _merged(work, lane, n, t, compared, left, right)

            passes = _passes(n)
            begin = loop(n, lambda k: store(work, (lane, 0, k), k), "k")
            end = loop(n, lambda k: put(lane, k, work[lane, passes % 2, k]), "k")
            return seq(begin, loop(passes, turn, "turn"), end)

        def all_but_the_rest(lane: Expr, n: Expr) -> Stmt:
            rest = loop(lanes.size - n, lambda k: put(lane, n + k, n + k), "k")
            return seq(first(lane, n), rest)

        def each(lane: Expr) -> Stmt:
            if count is None:
                return first(lane, lanes.size)
            return let(count[lane], lambda n: all_but_the_rest(lane, n), "n")

        return lanes.each([left, right, *cells], each, 16)

    shapes = [lanes.shape, (lanes.count, const(2, INDEX), lanes.size)]
    operands = [*inputs, *([] if count is None else [count])]
    return program(shapes, [INDEX, INDEX], operands, body, "order")[0]


def order_of(x: Tensor, axis: int, descending: bool = False, count: Tensor | None = None) -> Tensor:
    """`merged_order` of the elements along `axis`."""
    lanes = Lanes(x.shape, axis)

    def compared(lane: Expr, i: Expr, j: Expr, act: Callable[[Expr], Stmt]) -> Stmt:
        return act(before(x[lanes.at(lane, i)], x[lanes.at(lane, j)], descending))

    return merged_order(lanes, [x], compared, count=count)


def halving(low: Cell, high: Cell, turns: ExprLike, behind: Callable[[Expr], Expr]) -> Stmt:
    """`low` becomes the first place from it on, below `high`, that `behind` does not hold for; if
    there is none, `high`. The interval is halved so many times."""

    def step(middle: Expr) -> Stmt:
        return when(behind(middle), low.set(middle + 1), high.set(middle))

    half = (low.value + high.value) // 2
    return loop(turns, lambda _: when(low.value < high.value, let(half, step, "middle")), "turn")


def first_of(x: Tensor, axis: int, count: int, descending: bool = False) -> Tensor:
    """The first `count` (at least 1) along `axis` of what `order_of` gives.

    Each element that belongs to the best so far is put into their list: for few of many, most
    elements are only compared with the last one there.
    """
    lanes = Lanes(x.shape, axis)
    n, k = lanes.size, const(count, INDEX)
    held, low, high = Cell(name="held"), Cell(name="low"), Cell(name="high")

    def body(result: Tensor) -> Stmt:
        def listed(lane: Expr, place: Expr) -> Expr:
            return x[lanes.at(lane, result[lanes.at(lane, place)])]

        def inserted(lane: Expr, j: Expr, value: Expr) -> Stmt:
            def behind(m: Expr) -> Expr:
                return build.logical_not(before(value, listed(lane, m), descending))

            def moved(last: Expr) -> Stmt:
                return loop(last - low.value, lambda s: one_down(lane, last - s), "s")

            found = halving(low, high, count.bit_length(), behind)
            room = let(build.minimum(held.value, k - 1), moved, "last")
            put = store(result, lanes.at(lane, low.value), j)
            full = held.set(build.minimum(held.value + 1, k))
            return seq(low.set(0), high.set(held.value), found, room, put, full)

        def one_down(lane: Expr, place: Expr) -> Stmt:
            return store(result, lanes.at(lane, place), result[lanes.at(lane, place - 1)])

        def considered(lane: Expr, j: Expr) -> Stmt:
            def seen(value: Expr) -> Stmt:
                better = before(value, listed(lane, k - 1), descending)
                # a list that is not full has no last one to look at
                belongs = build.if_then_else(held.value < k, const(True), better)
                return when(belongs, inserted(lane, j, value))

            return let(x[lanes.at(lane, j)], seen, "value")

        def one(lane: Expr) -> Stmt:
            return seq(held.set(0), loop(n, lambda j: considered(lane, j), "j"))

        return lanes.each([held, low, high], one, 16)

    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return program([shape], [INDEX], [x], body, "first")[0]


@op
def argsort(x: Tensor, *, axis: int = -1, descending: bool = False, dtype: str = "int64") -> Tensor:
    """Where the elements along `axis` stand that come first, second, ... when sorted."""
    numbers_only(x=x)
    require(dt.is_int(dtype), f"dtype={dtype!r}; it has to be an integer type")
    order = order_of(x, axis_of(axis, len(x.shape)), descending)
    return order if dtype == INDEX else tensor(x.shape, lambda *i: cast(dtype, order[i]), "argsort")


def order_array(x: Array, axis: int, descending: bool) -> Array:
    """Stable; turned round twice where the largest element comes first."""
    w = widened(x)
    if not descending:
        return np.argsort(w, axis=axis, kind="stable")
    back = np.argsort(np.flip(w, axis), axis=axis, kind="stable")
    return np.asarray(x.shape[axis] - 1 - np.flip(back, axis))


@argsort.numpy
def _(x: Array, *, axis: int, descending: bool, dtype: str) -> Array:
    """The order of the elements."""
    return order_array(x, axis, descending).astype(dt.to_numpy(dtype))


@op
def sort(x: Tensor, *, axis: int = -1, descending: bool = False) -> Tensor:
    """The elements along `axis` from the smallest to the largest, or the other way round."""
    numbers_only(x=x)
    axis = axis_of(axis, len(x.shape))
    order = order_of(x, axis, descending)
    return tensor(x.shape, lambda *i: x[(*i[:axis], order[i], *i[axis + 1 :])], "sort")


@sort.numpy
def _(x: Array, *, axis: int, descending: bool) -> Array:
    """The elements in order."""
    return np.take_along_axis(x, order_array(x, axis, descending), axis)


@op
def searchsorted(
    sorted: Tensor, values: Tensor, *, right: bool = False, dtype: str = "int64"
) -> Tensor:
    """Where each value has to be put into a sorted sequence so that it stays sorted.

    Shapes  sorted [n] and values of any shape, or sorted [a..., n] and values [a..., m]: each row
            of values belongs to a row of sorted; result as values
    right   behind elements that are equal to the value, not in front of them
    """
    same_dtype(sorted=sorted, values=values)
    numbers_only(sorted=sorted)
    require(dt.is_int(dtype), f"dtype={dtype!r}; it has to be an integer type")
    require(len(sorted.shape) >= 1, "sorted has no dimension")
    rows = len(sorted.shape) - 1
    if rows:
        rule = named(sorted=sorted, values=values)
        require(len(values.shape) == rows + 1, f"{rule} need one rank")
        for d in range(rows):
            agree(sorted.shape[d], values.shape[d], f"{rule}: dimension {d}")
    n, passes = sorted.shape[-1], _passes(sorted.shape[-1] + 1)
    low, high = Cell(name="low"), Cell(name="high")

    def body(result: Tensor) -> Stmt:
        def one(i: tuple[Expr, ...]) -> Stmt:
            def behind(middle: Expr) -> Expr:
                element = sorted[(*i[:rows], middle)]
                if right:
                    return build.logical_not(before(values[i], element))
                return before(element, values[i])

            found = halving(low, high, passes, behind)
            return seq(low.set(0), high.set(n), found, store(result, i, cast(dtype, low.value)))

        kind = sharing(product(values.shape) * 16)
        return loop_nest(values.shape, [low, high], one, kind, "search")

    return program([values.shape], [dtype], [sorted, values], body, "searchsorted")[0]


@searchsorted.numpy
def _(sorted: Array, values: Array, *, right: bool, dtype: str) -> Array:
    """numpy's, row by row."""
    side = "right" if right else "left"
    keys, wanted = widened(sorted), widened(values)
    if sorted.ndim == 1:
        found = np.searchsorted(keys, wanted, side)  # type: ignore[call-overload]
        return np.asarray(found, dt.to_numpy(dtype))
    out = np.empty(values.shape, dt.to_numpy(dtype))
    for row in np.ndindex(*sorted.shape[:-1]):
        out[row] = np.searchsorted(keys[row], wanted[row], side)  # type: ignore[call-overload]
    return out
