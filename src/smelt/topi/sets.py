"""What depends on the values themselves: distinct elements, positions that are not zero.

How many there are is known only when the program has run, so results have room for the most that
is possible, 0 in the rest, and the number is a result of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, equal, logical_not, maximum, not_equal, select
from smelt.ir.expr import INDEX, Expr, ExprLike, cast, const, convert
from smelt.te.tensor import Tensor
from smelt.tir.nodes import Stmt

from .common import extents, integers_only, named, number, require, take_dimensions, tensor
from .program import Cell, cleared, let, loop, loops, once, product, program, seq, store, when
from .reference import Array
from .registry import op
from .sort import before, order_of


def _firsts(x: Tensor, order: Tensor) -> Tensor:
    """Where the first element stands that equals each one."""
    n = x.shape[0]

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        (x, order), (first,) = ins, outs

        def step(k: Expr) -> Stmt:
            here, last = order[k], order[maximum(k - 1, 0)]
            again = all_of(k > 0, logical_not(before(x[last], x[here])))
            return let(
                here, lambda i: when(again, store(first, (i,), first[last]), store(first, (i,), i))
            )

        return loop(n, step, "k")

    return program([x.shape], [INDEX], [x, order], body, "first")[0]


@op
def unique(x: Tensor, *, sorted: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The distinct elements of a vector: (values, indices, inverse, counts, count).

    Shapes   x, values, indices, inverse, counts [n]; count []
    values   from the smallest to the largest, or in the order in which they come in x where
             `sorted` is false; count of them, then 0. All NaN are one value, the largest
    indices  where each value comes first (int64)
    inverse  which value each element of x is (int64)
    counts   how often each value comes (int64)
    """
    require(x.dtype != "bool", "x is bool; the operator is defined for numbers, cast it")
    require(len(x.shape) == 1, f"{named(x=x)} has to have one dimension; reshape it")
    order = order_of(x, 0)
    first, filled = _firsts(x, order), Cell(name="filled")

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        (x, order, first), (values, indices, inverse, counts, count) = ins, outs

        def fresh(i: Expr) -> Stmt:
            at = filled.value
            return seq(
                store(values, (at,), x[i]), store(indices, (at,), i), store(inverse, (i,), at),
                filled.set(at + 1),
            )  # fmt: skip

        def member(i: Expr) -> Stmt:
            slot = inverse[first[i]]
            return seq(
                when(not_equal(first[i], i), store(inverse, (i,), slot), fresh(i)),
                store(counts, (inverse[i],), counts[inverse[i]] + 1),
            )

        def step(k: Expr) -> Stmt:
            return let(order[k], member, "i") if sorted else member(k)

        clear = [*cleared(values, indices, counts), filled.set(0)]
        end = store(count, (), filled.value)
        return once([filled], (ins, outs), *clear, loop(x.shape[0], step, "k"), end)

    shapes: list[Sequence[ExprLike]] = [*[x.shape] * 4, ()]
    made = program(shapes, [x.dtype, *[INDEX] * 4], [x, order, first], body, "unique")
    values, indices, inverse, counts, count = made
    return values, indices, inverse, counts, count


@unique.numpy
def _(x: Array, *, sorted: bool) -> tuple[Array, ...]:
    """numpy's, with room for n values."""
    values, indices, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    if not sorted:
        order = np.argsort(indices)
        place = np.argsort(order)
        values, indices, counts = values[order], indices[order], counts[order]
        inverse = place[inverse]
    room = x.size - values.size
    padded = [np.pad(a, (0, room)) for a in (values, indices, counts)]
    found, first, often = padded[0], *(a.astype(np.int64) for a in padded[1:])
    return found, first, inverse.astype(np.int64), often, np.asarray(values.size, np.int64)


class _DistinctRows:
    """The search for one matrix: a row gets a number when it is first seen.

    firsts, often  where the row with a number came first, and how often it came
    ranked         the numbers in the order of the rows
    """

    def __init__(self, ins: Sequence[Tensor], outs: Sequence[Tensor], cells: list[Cell]) -> None:
        (self.x,), self.outs = ins, outs
        self.firsts, self.often, self.ranked = outs[5:8]
        self.inverse = outs[2]
        self.made, self.low, self.high, self.sign = cells

    def compared(self, i: Expr, j: Expr) -> Stmt:
        """sign = -1, 0 or 1 where row i comes before row j, is equal, or comes behind."""

        def at(k: Expr) -> Stmt:
            a, b = self.x[i, k], self.x[j, k]
            found = when(before(a, b), self.sign.set(-1), when(before(b, a), self.sign.set(1)))
            return when(equal(self.sign.value, 0), found)

        return seq(self.sign.set(0), loop(self.x.shape[1], at, "k"))

    def halved(self, i: Expr) -> Stmt:
        """One step of the search for row i; high = -1 where it was found at `low`."""

        def at(middle: Expr) -> Stmt:
            found = seq(self.low.set(middle), self.high.set(-1))
            missed = when(self.sign.value > 0, self.low.set(middle + 1), self.high.set(middle))
            same = when(equal(self.sign.value, 0), found, missed)
            return seq(self.compared(i, self.firsts[self.ranked[middle]]), same)

        middle = (self.low.value + self.high.value) // 2
        return when(self.low.value < self.high.value, let(middle, at, "middle"))

    def fresh(self, i: Expr) -> Stmt:
        """A new number, put in at `low`."""
        number = self.made.value

        def moved(k: Expr) -> Stmt:
            return store(self.ranked, (number - k,), self.ranked[number - k - 1])

        return seq(
            loop(number - self.low.value, moved, "k"),
            store(self.ranked, (self.low.value,), number), store(self.firsts, (number,), i),
            store(self.often, (number,), 1), store(self.inverse, (i,), number),
            self.made.set(number + 1),
        )  # fmt: skip

    def member(self, i: Expr) -> Stmt:
        """Row i: seen before or not."""
        slot = self.ranked[self.low.value]
        more = store(self.often, (slot,), self.often[slot] + 1)
        again = seq(store(self.inverse, (i,), slot), more)
        return seq(
            self.low.set(0), self.high.set(self.made.value), loop(64, lambda _: self.halved(i)),
            when(self.high.value < 0, again, self.fresh(i)),
        )  # fmt: skip

    def written(self, sorted: bool) -> Stmt:
        """The results, in the order of the rows or in that of their numbers."""
        values, indices, inverse, counts, count = self.outs[:5]
        place = self.outs[8]

        def one(k: Expr) -> Stmt:
            slot = self.ranked[k] if sorted else k

            def copied(j: Expr) -> Stmt:
                return store(values, (k, j), self.x[self.firsts[slot], j])

            return seq(
                loop(self.x.shape[1], copied, "j"), store(indices, (k,), self.firsts[slot]),
                store(counts, (k,), self.often[slot]), store(place, (slot,), k),
            )  # fmt: skip

        return seq(
            loop(self.made.value, one, "k"),
            loop(self.x.shape[0], lambda i: store(inverse, (i,), place[inverse[i]]), "i"),
            store(count, (), self.made.value),
        )


@op
def unique_rows(x: Tensor, *, sorted: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The distinct rows of a matrix: (values, indices, inverse, counts, count).

    Shapes   x, values [n, m]; indices, inverse, counts [n]; count []
    values   ordered by their first elements, then by their second and so on, or in the order in
             which they come in x where `sorted` is false; count of them, then 0
    The others are as in `unique`.
    """
    require(x.dtype != "bool", "x is bool; the operator is defined for numbers, cast it")
    require(len(x.shape) == 2, f"{named(x=x)} has to have two dimensions; reshape it")
    n = x.shape[0]
    cells = [Cell(name=name) for name in ("made", "low", "high", "sign")]

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        rows = _DistinctRows(ins, outs, cells)

        clear = cleared(*[t for t in outs if t.shape])
        search = seq(rows.made.set(0), loop(n, rows.member, "i"))
        return once(cells, (ins, outs), *clear, search, rows.written(sorted))

    shapes: list[Sequence[ExprLike]] = [x.shape, *[(n,)] * 3, (), *[(n,)] * 4]
    found = program(shapes, [x.dtype, *[INDEX] * 8], [x], body, "unique_rows")
    values, indices, inverse, counts, count = found[:5]
    return values, indices, inverse, counts, count


@unique_rows.numpy
def _(x: Array, *, sorted: bool) -> tuple[Array, ...]:
    """Rows by what they hold, in a dictionary."""
    seen: dict[tuple[float, ...], list[int]] = {}
    for i, row in enumerate(x):
        seen.setdefault(tuple(row.tolist()), []).append(i)
    keys = list(seen)
    if sorted:
        keys.sort()
    values, indices, counts = np.zeros_like(x), *np.zeros((2, x.shape[0]), np.int64)
    inverse = np.zeros(x.shape[0], np.int64)
    for k, key in enumerate(keys):
        values[k], indices[k], counts[k] = x[seen[key][0]], seen[key][0], len(seen[key])
        inverse[seen[key]] = k
    return values, indices, inverse, counts, np.asarray(len(keys), np.int64)


@op
def argwhere(x: Tensor) -> tuple[Tensor, Tensor]:
    """Where x is not 0, in row-major order: (positions, count), both int64.

    Shapes  x [n0, ...]; positions [n0 * ..., the dimensions of x]; count []
    """
    rank = len(x.shape)
    require(rank >= 1, "x has no dimension; reshape it to [1]")
    filled = Cell(name="filled")

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        (x,), (positions, count) = ins, outs

        def one(i: tuple[Expr, ...]) -> Stmt:
            found = x[i] if x.dtype == "bool" else not_equal(x[i], number(0, x.dtype))
            written = [store(positions, (filled.value, d), v) for d, v in enumerate(i)]
            return when(found, seq(*written, filled.set(filled.value + 1)))

        return once(
            [filled], (ins, outs), *cleared(positions), filled.set(0), loops(x.shape, one),
            store(count, (), filled.value),
        )  # fmt: skip

    shapes: list[Sequence[ExprLike]] = [(product(x.shape), rank), ()]
    positions, count = program(shapes, [INDEX, INDEX], [x], body, "argwhere")
    return positions, count


@argwhere.numpy
def _(x: Array) -> tuple[Array, Array]:
    """numpy's, with room for all elements."""
    found = np.argwhere(x != 0).astype(np.int64)
    padded = np.pad(found, ((0, x.size - len(found)), (0, 0)))
    return padded, np.asarray(len(found), np.int64)


@op
def unravel_index(indices: Tensor, *, shape: tuple[ExprLike, ...]) -> Tensor:
    """The index in each dimension for a place in row-major order.

    Shapes  indices [i...]; result [the number of extents in `shape`, i...]
    """
    require(dt.is_int(indices.dtype), f"indices are {indices.dtype}; they have to be integers")
    sizes = extents(shape)
    require(bool(sizes), "shape has no dimension")

    def body(d: Expr, *i: Expr) -> Expr:
        rest = cast(INDEX, indices[i])
        found: Expr = const(0, INDEX)
        for axis, size in reversed(list(enumerate(sizes))):
            found = select(
                d < axis, found, select(d > axis, found, rest if not axis else rest % size)
            )
            rest = rest // size
        return cast(indices.dtype, found)

    return tensor((convert(len(sizes), INDEX), *indices.shape), body, "unravel_index")


@unravel_index.numpy
def _(indices: Array, *, shape: Sequence[int]) -> Array:
    """numpy's."""
    return np.stack(np.unravel_index(indices, shape)).astype(indices.dtype)


@op
def invert_permutation(x: Tensor) -> Tensor:
    """The vector y with y[x[i]] = i, for a permutation x of 0 to n - 1.

    Elements that name no place are left out; a place that none names holds 0.
    """
    integers_only(x=x)
    take_dimensions(1, x=x)
    n = x.shape[0]

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        (x,), (result,) = ins, outs

        def one(k: Expr) -> Stmt:
            at = cast(INDEX, x[k])
            return when(all_of(at >= 0, at < n), store(result, (at,), cast(x.dtype, k)))

        return seq(*cleared(result), loop(n, one, "k"))

    return program([x.shape], [x.dtype], [x], body, "invert_permutation")[0]


@invert_permutation.numpy
def _(x: Array) -> Array:
    """Where each number stands."""
    out = np.zeros_like(x)
    for i, v in enumerate(x):
        if 0 <= v < x.size:
            out[v] = i
    return out
