"""What depends on the values themselves: distinct elements, positions that are not zero.

How many there are is known only when the program has run, so results have room for the most that
is possible, 0 in the rest, and the number is a result of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, equal, logical_not, maximum, not_equal, select
from smelt.ir.expr import INDEX, Expr, ExprLike, cast, const, convert
from smelt.te.tensor import Tensor
from smelt.tir.nodes import Stmt

from .common import describe, extents, number, require, tensor
from .program import Cell, filled_with, let, loop, loops, product, program, seq, store, turns, when
from .registry import op
from .sort import before, order_of

__all__ = ["argwhere", "invert_permutation", "unique", "unique_rows", "unravel_index"]


def _cleared(*tensors: Tensor) -> list[Stmt]:
    """0 everywhere."""
    return [filled_with(t, number(0, t.dtype)) for t in tensors]


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
    require(len(x.shape) == 1, f"x {describe(x.shape)} has to have one dimension; reshape it")
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

        def whole(_: tuple[Expr, ...]) -> Stmt:
            steps = [*_cleared(values, indices, counts), filled.set(0)]
            steps += [loop(x.shape[0], step, "k"), store(count, (), filled.value)]
            return seq(*steps)

        return turns([], [filled], (ins, outs), whole)

    shapes: list[Sequence[ExprLike]] = [*[x.shape] * 4, ()]
    made = program(shapes, [x.dtype, *[INDEX] * 4], [x, order, first], body, "unique")
    values, indices, inverse, counts, count = made
    return values, indices, inverse, counts, count


@op
def unique_rows(x: Tensor, *, sorted: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The distinct rows of a matrix: (values, indices, inverse, counts, count).

    Shapes   x, values [n, m]; indices, inverse, counts [n]; count []
    values   ordered by their first elements, then by their second and so on, or in the order in
             which they come in x where `sorted` is false; count of them, then 0
    The others are as in `unique`.
    """
    require(x.dtype != "bool", "x is bool; the operator is defined for numbers, cast it")
    require(len(x.shape) == 2, f"x {describe(x.shape)} has to have two dimensions; reshape it")
    n, m = x.shape
    made, low, high, sign = [Cell(name=name) for name in ("made", "low", "high", "sign")]

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        # a row gets a number when it is first seen; `firsts` and `often` go by these numbers,
        # `ranked` lists them in the order of the rows, `place` says where each stands in it
        (x,), (values, indices, inverse, counts, count, firsts, often, ranked, place) = ins, outs

        def compared(i: Expr, j: Expr, k: Expr) -> Stmt:
            smaller, larger = before(x[i, k], x[j, k]), before(x[j, k], x[i, k])
            found = when(smaller, sign.set(-1), when(larger, sign.set(1)))
            return when(equal(sign.value, 0), found)

        def halved(i: Expr, middle: Expr) -> Stmt:
            j = firsts[ranked[middle]]
            return seq(
                sign.set(0), loop(m, lambda k: compared(i, j, k), "k"),
                when(equal(sign.value, 0), seq(low.set(middle), high.set(-1)),
                     when(sign.value > 0, low.set(middle + 1), high.set(middle))),
            )  # fmt: skip

        def fresh(i: Expr) -> Stmt:
            def moved(k: Expr) -> Stmt:
                at = made.value - k
                return store(ranked, (at,), ranked[at - 1])

            return seq(
                loop(made.value - low.value, moved, "k"),
                store(ranked, (low.value,), made.value), store(firsts, (made.value,), i),
                store(often, (made.value,), 1), store(inverse, (i,), made.value),
                made.set(made.value + 1),
            )  # fmt: skip

        def member(i: Expr) -> Stmt:
            slot = ranked[low.value]
            again = seq(store(inverse, (i,), slot), store(often, (slot,), often[slot] + 1))
            search = when(
                low.value < high.value,
                let((low.value + high.value) // 2, lambda mid: halved(i, mid), "middle"),
            )
            return seq(
                low.set(0), high.set(made.value), loop(64, lambda _: search, "turn"),
                when(high.value < 0, again, fresh(i)),
            )  # fmt: skip

        def written(k: Expr) -> Stmt:
            slot = ranked[k] if sorted else k
            row = loop(m, lambda j: store(values, (k, j), x[firsts[slot], j]), "j")
            return seq(
                row, store(indices, (k,), firsts[slot]), store(counts, (k,), often[slot]),
                store(place, (slot,), k),
            )  # fmt: skip

        def whole(_: tuple[Expr, ...]) -> Stmt:
            return seq(
                *_cleared(values, indices, counts, firsts, often, ranked, place), made.set(0),
                loop(n, member, "i"), loop(made.value, written, "k"),
                loop(n, lambda i: store(inverse, (i,), place[inverse[i]]), "i"),
                store(count, (), made.value),
            )  # fmt: skip

        return turns([], [made, low, high, sign], (ins, outs), whole)

    shapes: list[Sequence[ExprLike]] = [x.shape, *[(n,)] * 3, (), *[(n,)] * 4]
    found = program(shapes, [x.dtype, *[INDEX] * 8], [x], body, "unique_rows")
    values, indices, inverse, counts, count = found[:5]
    return values, indices, inverse, counts, count


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

        def whole(_: tuple[Expr, ...]) -> Stmt:
            return seq(
                *_cleared(positions), filled.set(0), loops(x.shape, one),
                store(count, (), filled.value),
            )  # fmt: skip

        return turns([], [filled], (ins, outs), whole)

    shapes: list[Sequence[ExprLike]] = [(product(x.shape), rank), ()]
    positions, count = program(shapes, [INDEX, INDEX], [x], body, "argwhere")
    return positions, count


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


@op
def invert_permutation(x: Tensor) -> Tensor:
    """The vector y with y[x[i]] = i, for a permutation x of 0 to n - 1.

    Elements that name no place are left out; a place that none names holds 0.
    """
    require(dt.is_int(x.dtype), f"x is {x.dtype}; it has to be an integer")
    require(len(x.shape) == 1, f"x {describe(x.shape)} has to have one dimension")
    n = x.shape[0]

    def body(ins: list[Tensor], outs: list[Tensor]) -> Stmt:
        (x,), (result,) = ins, outs

        def one(k: Expr) -> Stmt:
            at = cast(INDEX, x[k])
            return when(all_of(at >= 0, at < n), store(result, (at,), cast(x.dtype, k)))

        return seq(*_cleared(result), loop(n, one, "k"))

    return program([x.shape], [x.dtype], [x], body, "invert_permutation")[0]
