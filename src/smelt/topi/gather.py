"""Elements chosen or written by tensors of indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, any_of, equal, maximum, minimum, select, value_of
from smelt.ir.expr import INDEX, Expr, ExprLike, cast, const, convert
from smelt.te.tensor import Tensor, comm_reducer, compute, reduce_axis
from smelt.te.tensor import max as te_max
from smelt.te.tensor import min as te_min
from smelt.te.tensor import prod as te_prod
from smelt.te.tensor import sum as te_sum

from .common import (
    agree,
    axis_of,
    describe,
    number,
    require,
    same_dtype,
    tensor,
    wide,
)  # fmt: skip
from .registry import op

REDUCTIONS = ("none", "add", "mul", "min", "max")


def _integers(indices: Tensor) -> None:
    require(dt.is_int(indices.dtype), f"indices are {indices.dtype}; they have to be integers")


def _wrapped(i: Expr, extent: Expr) -> Expr:
    """An index counted from the front; -1 is the last element."""
    i = cast(INDEX, i)
    return select(i < 0, i + extent, i)


def _inside(i: Expr, extent: Expr) -> Expr:
    """`_wrapped`, kept inside the dimension so that no load leaves the tensor."""
    return maximum(minimum(_wrapped(i, extent), extent - 1), 0)


@op
def gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Slices of x along `axis`, one for each index; negative indices count from the end.

    Shapes   x [a..., n, b...]; indices [i...]; result [a..., i..., b...]
    """
    _integers(indices)
    axis = axis_of(axis, len(x.shape))
    rank = len(indices.shape)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])

    def body(*i: Expr) -> Expr:
        at = _inside(indices[i[axis : axis + rank]], x.shape[axis])
        return x[(*i[:axis], at, *i[axis + rank :])]

    return tensor(shape, body, "gather")


@op
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """The element of x whose index along `axis` is replaced by the one given at each place.

    Shapes   x and indices of one rank; result as indices
    """
    _integers(indices)
    axis = axis_of(axis, len(x.shape))
    _one_rank(x, indices=indices)
    return tensor(
        indices.shape,
        lambda *i: x[(*i[:axis], _inside(indices[i], x.shape[axis]), *i[axis + 1 :])],
        "gather_elements",
    )


def _one_rank(x: Tensor, **others: Tensor) -> None:
    for name, t in others.items():
        require(
            len(t.shape) == len(x.shape),
            f"{name} {describe(t.shape)} and x {describe(x.shape)} need one rank",
        )


def _depth(x: Tensor, indices: Tensor, batch: int) -> int:
    """How many dimensions of x one row of `indices` names."""
    require(
        len(indices.shape) > batch,
        f"indices {describe(indices.shape)} need more than batch_dims={batch} dimensions",
    )
    depth = value_of(indices.shape[-1])
    require(depth is not None, "the last extent of indices has to be a known number")
    assert depth is not None
    require(
        batch + depth <= len(x.shape),
        f"indices {describe(indices.shape)} name {depth} dimensions after {batch} batch "
        f"dimensions; x {describe(x.shape)} has {len(x.shape)}",
    )
    return depth


@op
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Elements or slices of x, each named by a row of indices.

    Shapes   x [b..., n0..., s...]; indices [b..., i..., depth]; result [b..., i..., s...]
    """
    _integers(indices)
    depth = _depth(x, indices, batch_dims)
    outer = len(indices.shape) - 1
    shape = [*indices.shape[:-1], *x.shape[batch_dims + depth :]]
    for d in range(batch_dims):
        shape[d] = agree(
            x.shape[d], indices.shape[d],
            f"x {describe(x.shape)} and indices {describe(indices.shape)}: batch dimension {d}",
        )  # fmt: skip

    def body(*i: Expr) -> Expr:
        row = [
            _inside(indices[(*i[:outer], const(k, INDEX))], x.shape[batch_dims + k])
            for k in range(depth)
        ]
        return x[(*i[:batch_dims], *row, *i[outer:])]

    return tensor(shape, body, "gather_nd")


@op
def one_hot(
    indices: Tensor, *, depth: ExprLike, axis: int = -1, on_value: float = 1.0,
    off_value: float = 0.0, dtype: str = "float32",
) -> Tensor:  # fmt: skip
    """on_value where the place along a new dimension is the index, off_value elsewhere.

    depth  the extent of the new dimension; indices may be negative, those outside give no on_value
    """
    _integers(indices)
    axis = axis_of(axis, len(indices.shape) + 1)
    extent = convert(depth, INDEX)
    shape = (*indices.shape[:axis], extent, *indices.shape[axis:])

    def body(*i: Expr) -> Expr:
        wanted = _wrapped(indices[(*i[:axis], *i[axis + 1 :])], extent)
        return select(equal(wanted, i[axis]), number(on_value, dtype), number(off_value, dtype))

    return tensor(shape, body, "one_hot")


# -------------------------------------------------------------------------------------- writing

_JOIN: dict[str, tuple[Callable[..., Any], Callable[[Expr, Expr], Expr]]] = {
    "add": (te_sum, lambda a, b: a + b),
    "mul": (te_prod, lambda a, b: a * b),
    "min": (te_min, minimum),
    "max": (te_max, maximum),
}

_LAST = comm_reducer(
    lambda a, b: (
        select(a[0] > b[0], a[0], b[0]),
        select(a[0] > b[0], a[1], b[1]),
    ),
    lambda position, value: (const(-1, position), const(0, value)),
    "last",
)
"""Of (position, value) pairs the one that stands last; position -1 is no value."""


def _scattered(
    x: Tensor, updates: Tensor, reduction: str, extents: Sequence[Expr],
    match: Callable[[Sequence[Expr], Sequence[Expr]], tuple[Expr, Expr]], name: str,
) -> Tensor:  # fmt: skip
    """x with updates joined in: for each element a reduction over the updates that may hit it.

    extents  of the reduction
    match    (index, reduction variables) -> (whether that update hits, its value)
    """
    require(reduction in REDUCTIONS, f"reduction={reduction!r}; legal: {', '.join(REDUCTIONS)}")
    axes = [reduce_axis((0, e), f"u{n}") for n, e in enumerate(extents)]
    k = [a.var for a in axes]
    if reduction == "none":
        return _overwritten(x, extents, match, axes, name)
    reducer, join = _JOIN[reduction]
    to = wide(x.dtype) if reduction in ("add", "mul") else x.dtype

    start = reducer(const(0, to), axes).combiner.identity[0]

    def total(*i: Expr) -> Any:
        hit, value = match(i, k)
        return reducer(select(hit, cast(to, value), start), axes)

    found = tensor(x.shape, total, f"{name}_updates")
    return tensor(x.shape, lambda *i: cast(x.dtype, join(cast(to, x[i]), found[i])), name)


def _overwritten(
    x: Tensor, extents: Sequence[Expr],
    match: Callable[[Sequence[Expr], Sequence[Expr]], tuple[Expr, Expr]], axes: list[Any],
    name: str,
) -> Tensor:  # fmt: skip
    """x with the last update that hits each element in its place."""
    k = [a.var for a in axes]
    place: Expr = const(0, INDEX)
    for e, v in zip(extents, k, strict=True):
        place = place * e + v

    def last(*i: Expr) -> Any:
        hit, value = match(i, k)
        return _LAST((select(hit, place, -1), value), axes)

    position, value = compute(x.shape, last, f"{name}_updates")
    return tensor(x.shape, lambda *i: select(position[i] >= 0, value[i], x[i]), name)


@op(kind="opaque")
def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """x with each update written where its index replaces its own place along `axis`.

    Shapes     x, indices and updates of one rank; indices and updates of one shape, no larger
               than x outside `axis`
    reduction  "none" (the last update stays), or "add", "mul", "min", "max" with what is there
    Source     ONNX ScatterElements-18
    """
    _integers(indices)
    same_dtype(x=x, updates=updates)
    axis = axis_of(axis, len(x.shape))
    _one_rank(x, indices=indices, updates=updates)
    for d, (a, b) in enumerate(zip(indices.shape, updates.shape, strict=True)):
        agree(a, b, f"indices and updates have to be of one shape: dimension {d}")

    def match(i: Sequence[Expr], k: Sequence[Expr]) -> tuple[Expr, Expr]:
        inside, at = [], []
        for d, v in enumerate(i):
            own = k[0] if d == axis else v
            if d != axis and indices.shape[d] is not x.shape[d]:
                inside.append(v < indices.shape[d])
                own = minimum(v, indices.shape[d] - 1)
            at.append(own)
        hit = equal(_wrapped(indices[tuple(at)], x.shape[axis]), i[axis])
        return all_of([*inside, hit]), updates[tuple(at)]

    return _scattered(x, updates, reduction, [indices.shape[axis]], match, "scatter_elements")


@op(kind="opaque")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """x with elements or slices, each named by a row of indices, replaced by updates.

    Shapes     x [n0..., s...]; indices [i..., depth]; updates [i..., s...]
    reduction  "none" (the last update stays), or "add", "mul", "min", "max" with what is there
    Source     ONNX ScatterND-18
    """
    _integers(indices)
    same_dtype(x=x, updates=updates)
    depth = _depth(x, indices, 0)
    outer = indices.shape[:-1]
    want = (*outer, *x.shape[depth:])
    require(
        len(updates.shape) == len(want),
        f"updates {describe(updates.shape)} have to be {describe(want)}",
    )
    for a, b in zip(updates.shape, want, strict=True):
        agree(a, b, f"updates {describe(updates.shape)} have to be {describe(want)}")

    def match(i: Sequence[Expr], k: Sequence[Expr]) -> tuple[Expr, Expr]:
        hits = [
            equal(_wrapped(indices[(*k, const(d, INDEX))], x.shape[d]), i[d]) for d in range(depth)
        ]
        return all_of(hits), updates[(*k, *i[depth:])]

    if not outer:
        return tensor(x.shape, lambda *i: _single(x, i, match, reduction), "scatter_nd")
    return _scattered(x, updates, reduction, outer, match, "scatter_nd")


def _single(
    x: Tensor, i: Sequence[Expr],
    match: Callable[[Sequence[Expr], Sequence[Expr]], tuple[Expr, Expr]], reduction: str,
) -> Expr:  # fmt: skip
    """One update only: no reduction is needed."""
    require(reduction in REDUCTIONS, f"reduction={reduction!r}; legal: {', '.join(REDUCTIONS)}")
    hit, value = match(i, [])
    joined = value if reduction == "none" else _JOIN[reduction][1](x[tuple(i)], value)
    return select(hit, joined, x[tuple(i)])


# -------------------------------------------------------------------------------------- ranking


def _rank(x: Tensor, axis: int, largest: bool) -> Tensor:
    """How many elements along `axis` come before each one: the place it gets when sorted. Equal
    elements keep their order."""
    k = reduce_axis((0, x.shape[axis]), "k")

    def body(*i: Expr) -> Any:
        other = x[(*i[:axis], k.var, *i[axis + 1 :])]
        better = other > x[i] if largest else other < x[i]
        before = any_of(better, all_of(equal(other, x[i]), k.var < i[axis]))
        return te_sum(select(before, const(1, INDEX), const(0, INDEX)), [k])

    return tensor(x.shape, body, "rank")


@op
def topk(
    x: Tensor, *, k: ExprLike, axis: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along `axis`, best first, and where they stood (int64).

    sorted  a promise that the caller needs; the result is sorted either way
    """
    require(x.dtype != "bool", "x is bool; the operator is defined for numbers, cast it")
    axis = axis_of(axis, len(x.shape))
    count, have = value_of(convert(k)), value_of(x.shape[axis])
    require(
        count is None or have is None or 0 <= count <= have,
        f"k={count}; dimension {axis} of x {describe(x.shape)} has {have} elements",
    )
    rank = _rank(x, axis, largest)
    j = reduce_axis((0, x.shape[axis]), "j")
    shape = (*x.shape[:axis], convert(k, INDEX), *x.shape[axis + 1 :])

    def place(*i: Expr) -> Any:
        here = rank[(*i[:axis], j.var, *i[axis + 1 :])]
        return te_sum(select(equal(here, i[axis]), j.var, const(0, INDEX)), [j])

    where = tensor(shape, place, "topk_indices")
    values = tensor(
        shape,
        lambda *i: x[(*i[:axis], _inside(where[i], x.shape[axis]), *i[axis + 1 :])], "topk_values",
    )  # fmt: skip
    return values, where
