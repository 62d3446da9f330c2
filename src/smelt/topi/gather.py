"""Elements chosen or written by tensors of indices."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, equal, if_then_else, maximum, minimum, select, value_of
from smelt.ir.expr import INDEX, Expr, ExprLike, cast, const, convert
from smelt.te.tensor import Tensor
from smelt.tir.nodes import Stmt

from . import common
from .program import copied, loops, program, rows, seq, store, when
from .reference import Array, widened
from .registry import op
from .sort import first_of, order_array, order_of


def _wrapped(i: Expr, extent: Expr) -> Expr:
    """An index counted from the front; -1 is the last element."""
    i = cast(INDEX, i)
    return select(i < 0, i + extent, i)


def _inside(i: Expr, extent: Expr) -> Expr:
    """`_wrapped`, kept inside the dimension so that no load leaves the tensor."""
    return common.clamped(_wrapped(i, extent), 0, extent - 1)


def _clipped(i: Expr, extent: Expr) -> Expr:
    """The index inside the dimension that is next to the one given."""
    return common.clamped(cast(INDEX, i), 0, extent - 1)


def _held(x: Tensor, axes: Iterable[int], element: Expr) -> Expr:
    """An element of x; 0 where x has none along the axes that it is chosen from."""
    some = all_of([x.shape[a] > 0 for a in axes])
    return if_then_else(some, element, common.number(0, x.dtype))


_MODES: dict[str, Callable[[Expr, Expr], Expr]] = {
    "negative": _inside,
    "clip": _clipped,
    "wrap": lambda i, extent: cast(INDEX, i) % extent,
}


@op
def gather(x: Tensor, indices: Tensor, *, axis: int = 0, mode: str = "negative") -> Tensor:
    """Slices of x along `axis`, one for each index.

    Shapes   x [a..., n, b...]; indices [i...]; result [a..., i..., b...]
    mode     what other indices than 0 to n - 1 mean: "negative" ones count from the end, and
             beyond both ends the element there is taken; "clip": the element at the nearest end;
             "wrap": the index modulo n
    """
    common.integers_only(indices=indices)
    common.one_of(_MODES, mode=mode)
    axis = common.axis_of(axis, len(x.shape))
    rank = len(indices.shape)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])

    def body(*i: Expr) -> Expr:
        at = _MODES[mode](indices[i[axis : axis + rank]], x.shape[axis])
        return _held(x, [axis], x[(*i[:axis], at, *i[axis + rank :])])

    return common.tensor(shape, body, "gather")


def _cut(indices: Array, extent: int) -> Array:
    at = indices.astype(np.int64)
    return np.clip(np.where(at < 0, at + extent, at), 0, extent - 1)


@gather.numpy
def _(x: Array, indices: Array, *, axis: int, mode: str) -> Array:
    """Slices."""
    if mode == "negative":
        return np.take(x, _cut(indices, x.shape[axis]), axis)
    return np.take(x, indices.astype(np.int64), axis, mode=mode)  # type: ignore[call-overload,no-any-return]


@op
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """The element of x whose index along `axis` is replaced by the one given at each place.

    Shapes   x and indices of one rank, indices no larger than x outside `axis`; result as indices
    """
    common.integers_only(indices=indices)
    axis = common.axis_of(axis, len(x.shape))
    _inside_of(x, axis, indices=indices)

    def body(*i: Expr) -> Expr:
        at = _inside(indices[i], x.shape[axis])
        return _held(x, [axis], x[(*i[:axis], at, *i[axis + 1 :])])

    return common.tensor(indices.shape, body, "gather_elements")


@gather_elements.numpy
def _(x: Array, indices: Array, *, axis: int) -> Array:
    """Elements, one place at a time."""
    grid: list[Array] = list(np.indices(indices.shape))
    grid[axis] = _cut(indices, x.shape[axis])
    return np.asarray(x[tuple(grid)])


def _inside_of(x: Tensor, axis: int, **others: Tensor) -> None:
    """Operands of the rank of x, and no larger outside an axis."""
    for name, t in others.items():
        both = f"{name} {common.describe(t.shape)} and {common.named(x=x)}"
        common.require(len(t.shape) == len(x.shape), f"{both} need one rank")
        for d, (have, most) in enumerate(zip(t.shape, x.shape, strict=True)):
            if d != axis:
                common.at_most(have, most, f"{both}: dimension {d} of {name} has to be no larger")


def _depth(x: Tensor, indices: Tensor, batch: int) -> int:
    """How many dimensions of x one row of `indices` names."""
    common.require(
        len(indices.shape) > batch,
        f"{common.named(indices=indices)} need more than batch_dims={batch} dimensions",
    )
    depth = value_of(indices.shape[-1])
    common.require(depth is not None, "the last extent of indices has to be a known number")
    assert depth is not None
    common.require(
        batch + depth <= len(x.shape),
        f"{common.named(indices=indices)} name {depth} dimensions after {batch} batch "
        f"dimensions; {common.named(x=x)} has {len(x.shape)}",
    )
    return depth


@op
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Elements or slices of x, each named by a row of indices.

    Shapes   x [b..., n0..., s...]; indices [b..., i..., depth]; result [b..., i..., s...]
    """
    common.integers_only(indices=indices)
    depth = _depth(x, indices, batch_dims)
    outer = len(indices.shape) - 1
    shape = [*indices.shape[:-1], *x.shape[batch_dims + depth :]]
    for d in range(batch_dims):
        rule = f"{common.named(x=x, indices=indices)}: batch dimension {d}"
        shape[d] = common.agree(x.shape[d], indices.shape[d], rule)

    def body(*i: Expr) -> Expr:
        named = [indices[(*i[:outer], const(k, INDEX))] for k in range(depth)]
        row = [_inside(v, x.shape[batch_dims + k]) for k, v in enumerate(named)]
        element = x[(*i[:batch_dims], *row, *i[outer:])]
        return _held(x, range(batch_dims, batch_dims + depth), element)

    return common.tensor(shape, body, "gather_nd")


@gather_nd.numpy
def _(x: Array, indices: Array, *, batch_dims: int) -> Array:
    """Slices named by rows."""
    b, depth = batch_dims, indices.shape[-1]
    out = np.empty((*indices.shape[:-1], *x.shape[b + depth :]), x.dtype)
    for place in np.ndindex(*indices.shape[:-1]):
        row = [int(_cut(v, n)) for v, n in zip(indices[place], x.shape[b:], strict=False)]
        out[place] = x[(*place[:b], *row)]
    return out


@op
def one_hot(
    indices: Tensor, *, depth: ExprLike, axis: int = -1, on_value: float = 1.0,
    off_value: float = 0.0, dtype: str = "float32",
) -> Tensor:  # fmt: skip
    """on_value where the place along a new dimension is the index, off_value elsewhere.

    depth  the extent of the new dimension; indices may be negative, those outside give no on_value
    """
    common.integers_only(indices=indices)
    axis = common.axis_of(axis, len(indices.shape) + 1)
    extent = convert(depth, INDEX)
    shape = (*indices.shape[:axis], extent, *indices.shape[axis:])

    def body(*i: Expr) -> Expr:
        wanted = _wrapped(indices[(*i[:axis], *i[axis + 1 :])], extent)
        return select(
            equal(wanted, i[axis]), common.number(on_value, dtype), common.number(off_value, dtype)
        )

    return common.tensor(shape, body, "one_hot")


@one_hot.numpy
def _(
    indices: Array, *, depth: int, axis: int, on_value: float, off_value: float, dtype: str
) -> Array:
    """on_value at the index along a new dimension."""
    axis = axis % (indices.ndim + 1)
    wanted = np.where(indices < 0, indices + depth, indices)
    line = np.arange(depth).reshape([-1 if d == axis else 1 for d in range(indices.ndim + 1)])
    hit = np.expand_dims(wanted, axis) == line
    return np.where(hit, on_value, off_value).astype(dt.to_numpy(dtype))


# -------------------------------------------------------------------------------------- writing

_JOIN: dict[str, Callable[[Any, Any], Expr]] = {
    "none": lambda _, new: new, "add": operator.add, "mul": operator.mul, "min": minimum,
    "max": maximum,
}  # fmt: skip


def _scattered(
    x: Tensor, indices: Tensor, updates: Tensor, reduction: str, name: str,
    place: Callable[[tuple[Expr, ...]], tuple[list[Expr], list[Expr]]], wide: bool,
) -> Tensor:  # fmt: skip
    """x with updates joined in one after another, in row-major order.

    place  position of an update -> (conditions that it counts, where it belongs)
    wide   whether neighbours along the last dimension have places beside each other
    """
    common.one_of(_JOIN, reduction=reduction)
    to = common.wide(x.dtype) if reduction in ("add", "mul") else x.dtype

    def body(result: Tensor) -> Stmt:
        def one(i: tuple[Expr, ...]) -> Stmt:
            counts, at = place(i)
            new = _JOIN[reduction](result[tuple(at)], cast(to, updates[i]))
            return when(all_of(counts), store(result, at, new))

        each = rows(updates.shape, one) if wide else loops(updates.shape, one)
        return seq(copied(x, result), each)

    found = program([x.shape], [to], [x, indices, updates], body, name)[0]
    return common.stored(found, x.dtype)


@op
def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """x with each update written where its index replaces its own place along `axis`.

    Shapes     x, indices and updates of one rank; indices and updates of one shape, no larger
               than x outside `axis`
    reduction  "none" (the last update stays), or "add", "mul", "min", "max" with what is there
    Source     ONNX ScatterElements-18
    """
    common.integers_only(indices=indices)
    common.same_dtype(x=x, updates=updates)
    axis = common.axis_of(axis, len(x.shape))
    _inside_of(x, axis, indices=indices, updates=updates)
    rule = "indices and updates have to be of one shape"
    common.agree_in_shape(indices.shape, updates.shape, rule)

    def place(i: tuple[Expr, ...]) -> tuple[list[Expr], list[Expr]]:
        at = _wrapped(indices[i], x.shape[axis])
        return [at >= 0, at < x.shape[axis]], [*i[:axis], at, *i[axis + 1 :]]

    return _scattered(x, indices, updates, reduction, "scatter_elements", place, False)


scatter_elements.updates(scatter_elements.fn)


_JOIN_ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda _, b: b, "add": np.add, "mul": np.multiply, "min": np.minimum,
    "max": np.maximum,
}  # fmt: skip


def _joined_array(x: Array, places: Array, updates: Array, reduction: str) -> Array:
    """x with updates joined in, one row of places after the other."""
    out = widened(x).copy()
    for n in np.ndindex(*places.shape[:-1]):
        at = tuple(places[n])
        out[at] = _JOIN_ARRAYS[reduction](out[at], widened(updates)[n])
    return out.astype(x.dtype)


@scatter_elements.numpy
def _(x: Array, indices: Array, updates: Array, *, axis: int, reduction: str) -> Array:
    """One update after the other."""
    at = np.indices(indices.shape)
    at[axis] = indices % x.shape[axis]
    return _joined_array(x, np.moveaxis(at, 0, -1), updates, reduction)


@op
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """x with elements or slices, each named by a row of indices, replaced by updates.

    Shapes     x [n0..., s...]; indices [i..., depth]; updates [i..., s...]
    reduction  "none" (the last update stays), or "add", "mul", "min", "max" with what is there
    Source     ONNX ScatterND-18
    """
    common.integers_only(indices=indices)
    common.same_dtype(x=x, updates=updates)
    depth, outer = _depth(x, indices, 0), len(indices.shape) - 1
    want = (*indices.shape[:-1], *x.shape[depth:])
    rule = f"{common.named(updates=updates)} have to be {common.describe(want)}"
    common.agree_in_shape(updates.shape, want, rule)

    def place(i: tuple[Expr, ...]) -> tuple[list[Expr], list[Expr]]:
        row = [_wrapped(indices[(*i[:outer], const(d, INDEX))], x.shape[d]) for d in range(depth)]
        inside = [c for at, n in zip(row, x.shape, strict=False) for c in (at >= 0, at < n)]
        return inside, [*row, *i[outer:]]

    return _scattered(x, indices, updates, reduction, "scatter_nd", place, depth < len(x.shape))


scatter_nd.updates(scatter_nd.fn)


@scatter_nd.numpy
def _(x: Array, indices: Array, updates: Array, *, reduction: str) -> Array:
    """One row after the other."""
    return _joined_array(x, indices % x.shape[: indices.shape[-1]], updates, reduction)


# -------------------------------------------------------------------------------------- ranking


_FEW = 128
"""Elements up to which a list of the best is kept: mostly a twentieth of what sorting costs, and
one and a half times that where every element is better than those in front of it."""


@op
def topk(
    x: Tensor, *, k: ExprLike, axis: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along `axis`, best first, and where they stood (int64).

    sorted  a promise that the caller needs; the result is sorted either way
    """
    common.numbers_only(x=x)
    axis = common.axis_of(axis, len(x.shape))
    count, have = value_of(convert(k)), value_of(x.shape[axis])
    common.require(
        count is None or have is None or 0 <= count <= have,
        f"k={count}; dimension {axis} of {common.named(x=x)} has {have} elements",
    )
    common.at_most(
        convert(k, INDEX), x.shape[axis], f"k and dimension {axis} of {common.named(x=x)}"
    )
    if count is not None and 0 < count <= _FEW:
        order = first_of(x, axis, count, largest)
    else:
        order = order_of(x, axis, largest)
    shape = (*x.shape[:axis], convert(k, INDEX), *x.shape[axis + 1 :])
    where = common.tensor(shape, lambda *i: order[i], "topk_indices")
    values = common.tensor(
        shape, lambda *i: x[(*i[:axis], order[i], *i[axis + 1 :])], "topk_values"
    )
    return values, where


@topk.numpy
def _(x: Array, *, k: int, axis: int, largest: bool, sorted: bool) -> tuple[Array, Array]:
    """The first k of a stable sort, in which NaN is the largest."""
    at = np.take(order_array(x, axis, largest), np.arange(k), axis).astype(np.int64)
    return np.take_along_axis(x, at, axis), at
