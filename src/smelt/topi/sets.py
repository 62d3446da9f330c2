"""What depends on the values themselves: distinct elements, positions that are not zero.

How many there are is known only when the program has run, so results have room for the most that
is possible, 0 in the rest, and the number is a result of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from smelt.ir.build import all_of, equal, maximum, not_equal, select
from smelt.ir.expr import INDEX, Expr, ExprLike, cast, const, convert
from smelt.te.tensor import Tensor
from smelt.tir.nodes import Stmt

from .common import extents, integers_only, named, number, numbers_only, require, take_forms, tensor
from .program import (
    Cell,
    Lanes,
    add_to,
    cleared,
    inside,
    let,
    loop,
    loops,
    once,
    product,
    program,
    seq,
    store,
    when,
)
from .reference import Array, widened
from .registry import op
from .sort import before, merged_order, order_of


def _compared(x: Tensor, i: Expr, j: Expr, sign: Cell) -> Stmt:
    """sign = -1, 0 or 1 where element (or row) i of x comes before number j, is equal, or comes
    behind."""

    def at(k: tuple[Expr, ...]) -> Stmt:
        a, b = x[(i, *k)], x[(j, *k)]
        found = when(before(a, b), sign.set(-1), when(before(b, a), sign.set(1)))
        return when(equal(sign.value, 0), found)

    return seq(sign.set(0), loops(x.shape[1:], at))


def _firsts(x: Tensor, order: Tensor) -> Tensor:
    """Where the first element (or row) stands that equals each one."""
    sign = Cell(name="sign")

    def body(first: Tensor) -> Stmt:
        def step(k: Expr) -> Stmt:
            last = order[maximum(k - 1, 0)]

            def put(i: Expr) -> Stmt:
                again = all_of(k > 0, equal(sign.value, 0))
                same = when(again, store(first, (i,), first[last]), store(first, (i,), i))
                return seq(_compared(x, last, i, sign), same)

            return let(order[k], put)

        return once([sign], loop(order.shape[0], step, "k"))

    return program([order.shape], [INDEX], [x, order], body, "first")[0]


def _distinct(x: Tensor, order: Tensor, sorted: bool, name: str) -> tuple[Tensor, ...]:
    """The results of `unique`, of elements or rows that come in this order when sorted."""
    first, filled = _firsts(x, order), Cell(name="filled")

    def body(*outs: Tensor) -> Stmt:
        values, indices, inverse, counts, count = outs

        def fresh(i: Expr) -> Stmt:
            at = filled.value
            return seq(
                loops(x.shape[1:], lambda k: store(values, (at, *k), x[(i, *k)])),
                store(indices, (at,), i), store(inverse, (i,), at), filled.set(at + 1),
            )  # fmt: skip

        def member(i: Expr) -> Stmt:
            slot = inverse[first[i]]
            return seq(
                when(not_equal(first[i], i), store(inverse, (i,), slot), fresh(i)),
                add_to(counts, (inverse[i],), 1),
            )

        def step(k: Expr) -> Stmt:
            return let(order[k], member, "i") if sorted else member(k)

        clear = [*cleared(values, indices, counts), filled.set(0)]
        end = store(count, (), filled.value)
        return once([filled], *clear, loop(x.shape[0], step, "k"), end)

    shapes: list[Sequence[ExprLike]] = [x.shape, *[x.shape[:1]] * 3, ()]
    return program(shapes, [x.dtype, *[INDEX] * 4], [x, order, first], body, name)


@op
def unique(x: Tensor, *, sorted: bool = True) -> tuple[Tensor, ...]:
    """The distinct elements of a vector: (values, indices, inverse, counts, count).

    Shapes   x, values, indices, inverse, counts [n]; count []
    values   from the smallest to the largest, or in the order in which they come in x where
             `sorted` is false; count of them, then 0. All NaN are one value, the largest
    indices  where each value comes first (int64)
    inverse  which value each element of x is (int64)
    counts   how often each value comes (int64)
    """
    numbers_only(x=x)
    require(len(x.shape) == 1, f"{named(x=x)} has to have one dimension; reshape it")
    return _distinct(x, order_of(x, 0), sorted, "unique")


def _unique_array(x: Array, sorted: bool, axis: int | None) -> tuple[Array, ...]:
    """numpy's, with room for as many values as x has elements or rows."""
    _, first, inverse, counts = np.unique(
        widened(x), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    order = np.arange(first.size) if sorted else np.argsort(first)
    first, counts = first[order].astype(np.int64), counts[order].astype(np.int64)
    room = (0, len(x) - first.size)
    values = np.pad(x[first], [room, *[(0, 0)] * (x.ndim - 1)])
    place = np.argsort(order)[inverse.reshape(-1)].astype(np.int64)
    return values, np.pad(first, room), place, np.pad(counts, room), np.asarray(first.size)


@unique.numpy
def _(x: Array, *, sorted: bool) -> tuple[Array, ...]:
    """Distinct elements."""
    return _unique_array(x, sorted, None)


@op
def unique_rows(x: Tensor, *, sorted: bool = True) -> tuple[Tensor, ...]:
    """The distinct rows of a matrix: (values, indices, inverse, counts, count).

    Shapes   x, values [n, m]; indices, inverse, counts [n]; count []
    values   ordered by their first elements, then by their second and so on, or in the order in
             which they come in x where `sorted` is false; count of them, then 0
    The others are as in `unique`.
    """
    numbers_only(x=x)
    require(len(x.shape) == 2, f"{named(x=x)} has to have two dimensions; reshape it")
    sign = Cell(name="sign")

    def compared(_: Expr, i: Expr, j: Expr, act: Callable[[Expr], Stmt]) -> Stmt:
        return seq(_compared(x, i, j, sign), act(sign.value < 0))

    order = merged_order(Lanes(x.shape[:1], 0), [x], compared, [sign])
    return _distinct(x, order, sorted, "unique_rows")


@unique_rows.numpy
def _(x: Array, *, sorted: bool) -> tuple[Array, ...]:
    """Distinct rows."""
    return _unique_array(x, sorted, 0)


@op
def argwhere(x: Tensor) -> tuple[Tensor, ...]:
    """Where x is not 0, in row-major order: (positions, count), both int64.

    Shapes  x [n0, ...]; positions [n0 * ..., the dimensions of x]; count []
    """
    rank = len(x.shape)
    require(rank >= 1, "x has no dimension; reshape it to [1]")
    filled = Cell(name="filled")

    def body(positions: Tensor, count: Tensor) -> Stmt:
        def one(i: tuple[Expr, ...]) -> Stmt:
            found = x[i] if x.dtype == "bool" else not_equal(x[i], number(0, x.dtype))
            written = [store(positions, (filled.value, d), v) for d, v in enumerate(i)]
            return when(found, seq(*written, filled.set(filled.value + 1)))

        return once(
            [filled], *cleared(positions), filled.set(0), loops(x.shape, one),
            store(count, (), filled.value),
        )  # fmt: skip

    shapes: list[Sequence[ExprLike]] = [(product(x.shape), rank), ()]
    return program(shapes, [INDEX, INDEX], [x], body, "argwhere")


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
    integers_only(indices=indices)
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
    take_forms("[n]", x=x)
    n = x.shape[0]

    def body(result: Tensor) -> Stmt:
        def one(k: Expr) -> Stmt:
            return inside(x[k], n, lambda at: store(result, (at,), cast(x.dtype, k)), "at")

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
