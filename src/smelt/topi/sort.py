"""Sorting and searching along an axis.

NaN counts as larger than every number, as in numpy; equal elements keep their order.
"""

from __future__ import annotations

import numpy as np

from smelt.ir import build
from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Expr, cast, const
from smelt.te.tensor import Tensor
from smelt.tir.nodes import Stmt

from .common import agree, axis_of, named, require, same_dtype, tensor
from .program import Cell, Lanes, let, loop, loop_nest, product, program, seq, sharing, store, when
from .reference import Array, widened
from .registry import op


def _sortable(x: Tensor, name: str = "x") -> None:
    require(x.dtype != "bool", f"{name} is bool; the operator is defined for numbers, cast it")


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
    return 64 - build.call("clz", n - 1)


def order_of(x: Tensor, axis: int, descending: bool = False) -> Tensor:
    """Where the elements along `axis` stand that come first, second, ... when sorted (int64).

    Merging of runs whose length doubles, from one half of a workspace to the other.
    """
    lanes = Lanes(x, axis)
    n, passes = lanes.size, _passes(lanes.size)
    left, right = Cell(name="left"), Cell(name="right")

    def merged(x: Tensor, work: Tensor, lane: Expr, turn: Expr) -> Stmt:
        """One pass over a lane: from the half `turn % 2` to the other."""
        run = build.call("shift_left", const(1, INDEX), turn)
        source = turn % 2

        def step(k: Expr) -> Stmt:
            begin = k - k % (run * 2)
            middle, end = build.minimum(begin + run, n), build.minimum(begin + run * 2, n)
            a = work[lane, source, build.minimum(left.value, n - 1)]
            b = work[lane, source, build.minimum(right.value, n - 1)]
            return seq(
                when(build.equal(k, begin), seq(left.set(k), right.set(build.minimum(k + run, n)))),
                let(a, lambda i: let(b, lambda j: chosen(i, j, middle, end, k), "j"), "i"),
            )

        def chosen(i: Expr, j: Expr, middle: Expr, end: Expr, k: Expr) -> Stmt:
            later = before(x[lanes.at(lane, j)], x[lanes.at(lane, i)], descending)
            take = build.any_of(left.value >= middle, build.all_of(right.value < end, later))
            return let(take, lambda r: moved(r, i, j, k), "take")

        def moved(take: Expr, i: Expr, j: Expr, k: Expr) -> Stmt:
            return seq(
                store(work, (lane, 1 - source, k), build.select(take, j, i)),
                when(take, right.set(right.value + 1), left.set(left.value + 1)),
            )

        return loop(n, step, "k")

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        (x,), (result, work) = ins, outs

        def one(lane: Expr) -> Stmt:
            last = passes % 2
            return seq(
                loop(n, lambda k: store(work, (lane, 0, k), k), "k"),
                loop(passes, lambda turn: merged(x, work, lane, turn), "turn"),
                loop(n, lambda k: store(result, lanes.at(lane, k), work[lane, last, k]), "k"),
            )

        return lanes.each([left, right], (ins, outs), one, 16)

    shapes = [x.shape, (lanes.count, const(2, INDEX), n)]
    return program(shapes, [INDEX, INDEX], [x], body, "order")[0]


def first_of(x: Tensor, axis: int, count: int, descending: bool = False) -> Tensor:
    """The first `count` (at least 1) along `axis` of what `order_of` gives.

    Each element that belongs to the best so far is put into their list: for few of many, most
    elements are only compared with the last one there.
    """
    lanes = Lanes(x, axis)
    n, k = lanes.size, const(count, INDEX)
    held, low, high = Cell(name="held"), Cell(name="low"), Cell(name="high")

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        (x,), (result,) = ins, outs

        def listed(lane: Expr, place: Expr) -> Expr:
            return x[lanes.at(lane, result[lanes.at(lane, place)])]

        def halved(lane: Expr, value: Expr) -> Stmt:
            def closer(m: Expr) -> Stmt:
                earlier = before(value, listed(lane, m), descending)
                return when(earlier, high.set(m), low.set(m + 1))

            return when(low.value < high.value, let((low.value + high.value) // 2, closer, "m"))

        def inserted(lane: Expr, j: Expr, value: Expr) -> Stmt:
            def moved(last: Expr) -> Stmt:
                return loop(last - low.value, lambda s: one_down(lane, last - s), "s")

            return seq(
                low.set(0),
                high.set(held.value),
                loop(count.bit_length(), lambda _: halved(lane, value), "turn"),
                let(build.minimum(held.value, k - 1), moved, "last"),
                store(result, lanes.at(lane, low.value), j),
                held.set(build.minimum(held.value + 1, k)),
            )

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

        return lanes.each([held, low, high], (ins, outs), one, 16)

    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return program([shape], [INDEX], [x], body, "first")[0]


@op
def argsort(x: Tensor, *, axis: int = -1, descending: bool = False, dtype: str = "int64") -> Tensor:
    """Where the elements along `axis` stand that come first, second, ... when sorted."""
    _sortable(x)
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
    _sortable(x)
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
    _sortable(sorted, "sorted")
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

    def halved(row: tuple[Expr, ...], sequence: Tensor, value: Expr) -> Stmt:
        middle = (low.value + high.value) // 2
        element = sequence[(*row, build.minimum(middle, n - 1))]
        behind = build.logical_not(before(value, element)) if right else before(element, value)
        return when(
            low.value < high.value,
            let(middle, lambda m: when(behind, low.set(m + 1), high.set(m)), "middle"),
        )

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        (sequence, values), (result,) = ins, outs

        def one(i: tuple[Expr, ...]) -> Stmt:
            halving = loop(passes, lambda _: halved(i[:rows], sequence, values[i]), "turn")
            return seq(low.set(0), high.set(n), halving, store(result, i, cast(dtype, low.value)))

        kind = sharing(product(values.shape) * 16)
        return loop_nest(values.shape, [low, high], (ins, outs), one, kind, "search")

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
