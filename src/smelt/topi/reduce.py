"""Reductions along dimensions, softmax and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import gt, lt
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import call, equal, maximum, not_equal, product, select
from smelt.ir.expr import INDEX, And, Expr, Or, cast, const
from smelt.te.tensor import (
    Tensor,
    comm_reducer,
    compute,
    max_value,
    min_value,
    reduce_all,
    reduce_any,
)
from smelt.te.tensor import max as te_max
from smelt.te.tensor import min as te_min
from smelt.te.tensor import prod as te_prod
from smelt.te.tensor import sum as te_sum
from smelt.tir.nodes import Stmt

from . import common
from .program import Cell, Lanes, loop, program, seq, store
from .reference import Array, divided, highest, lowest, widened
from .registry import op

Axes = tuple[int, ...] | None


class _Plan:
    """Which dimensions are reduced and how the result is indexed.

    axes    the reduced dimensions, ascending
    shape   of the result
    point   (result index, reduction variables) -> index of the operand
    """

    def __init__(self, x: Tensor, axes: Sequence[int] | None, keepdims: bool) -> None:
        self.axes = common.axes_of(axes, len(x.shape))
        self.keepdims, self.rank = keepdims, len(x.shape)
        self.vars = common.reduce_axes(x, self.axes)
        kept = [a for a in range(self.rank) if keepdims or a not in self.axes]
        self.shape = tuple([const(1, INDEX) if a in self.axes else x.shape[a] for a in kept])

    def point(self, i: Sequence[Expr]) -> tuple[Expr, ...]:
        """The operand's index for the result's."""
        rest = iter([v for a, v in enumerate(i) if not self.keepdims or a not in self.axes])
        over = dict(zip(self.axes, self.vars, strict=True))
        return tuple([over[a].var if a in over else next(rest) for a in range(self.rank)])


def _reduce(
    x: Tensor, axes: Axes, keepdims: bool, name: str, reducer: Callable[..., Any],
    fn: Callable[[Expr], Expr] = lambda v: v,
) -> Tensor:  # fmt: skip
    plan = _Plan(x, axes, keepdims)
    if not plan.axes:
        return common.tensor(x.shape, lambda *i: fn(x[i]), name)
    return common.tensor(plan.shape, lambda *i: reducer(fn(x[plan.point(i)]), plan.vars), name)


def _total(x: Tensor, axes: Axes, keepdims: bool, name: str, fn: Callable[[Expr], Expr]) -> Tensor:
    """The sum of fn(x), in the wide type."""
    common.numbers_only(x=x)
    to = common.wide(x.dtype)
    return _reduce(x, axes, keepdims, name, te_sum, lambda v: fn(cast(to, v)))


@op
def sum_(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The sum along `axes` (None: all). Narrow floats are summed in float32."""
    return common.stored(_total(x, axes, keepdims, "sum", lambda v: v), x.dtype)


def _reduction(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Array, *, axes: Sequence[int] | None, keepdims: bool) -> Array:
        wide = widened(x)
        result = fn(wide, axis=axes, keepdims=keepdims)
        return np.asarray(result).astype(x.dtype)

    return run


sum_.numpy(_reduction(lambda x, **k: np.sum(x, dtype=x.dtype, **k)))


@op
def mean(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The sum along `axes` divided by the number of elements; integers toward zero, 0 of none.

    Narrow integers are summed in int64.
    """
    narrow = not dt.is_float(x.dtype) and dt.bits(x.dtype) < 32
    total = _total(x, axes, keepdims, "sum", lambda v: cast("int64", v) if narrow else v)
    n = product([x.shape[a] for a in common.axes_of(axes, len(x.shape))])

    def body(*i: Expr) -> Expr:
        if dt.is_float(x.dtype):
            return cast(x.dtype, total[i] / cast(total.dtype, n))
        return cast(x.dtype, total[i] / cast(total.dtype, maximum(n, 1)))

    return common.tensor(total.shape, body, "mean")


def _mean(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    count = math.prod(x.shape if axis is None else [x.shape[a] for a in axis])
    to = np.int64 if x.dtype.kind in "iu" and x.dtype.itemsize < 4 else x.dtype
    total = np.asarray(np.sum(x, axis=axis, keepdims=keepdims, dtype=to))
    return divided(total, np.asarray(max(count, x.dtype.kind in "iu"), to))


mean.numpy(_reduction(_mean))


@op(numpy=_reduction(lambda x, **k: np.prod(x, dtype=x.dtype, **k)))
def prod(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The product along `axes` (None: all)."""
    common.numbers_only(x=x)
    to = common.wide(x.dtype)
    found = _reduce(x, axes, keepdims, "prod", te_prod, lambda v: cast(to, v))
    return common.stored(found, x.dtype)


@op(chooses=True)
def max_(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The largest element along `axes` (None: all)."""
    return _reduce(x, axes, keepdims, "max", reduce_any if x.dtype == "bool" else te_max)


def _extreme(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """np.max or np.min, with the value that any other beats where there is no element."""

    def run(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
        if x.dtype == bool:
            return np.asarray((np.any if name == "max" else np.all)(x, axis, keepdims=keepdims))
        worst = lowest(x) if name == "max" else highest(x)
        return np.asarray(fn(x, axis=axis, keepdims=keepdims, initial=worst))

    return run


max_.numpy(_reduction(_extreme(np.max, "max")))


@op(chooses=True, numpy=_reduction(_extreme(np.min, "min")))
def min_(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The smallest element along `axes` (None: all)."""
    return _reduce(x, axes, keepdims, "min", reduce_all if x.dtype == "bool" else te_min)


@op(numpy=_reduction(np.all))
def all_(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """Whether all elements along `axes` are true."""
    common.dtype_only("bool", x=x)
    return _reduce(x, axes, keepdims, "all", reduce_all)


@op(numpy=_reduction(np.any))
def any_(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """Whether some element along `axes` is true."""
    common.dtype_only("bool", x=x)
    return _reduce(x, axes, keepdims, "any", reduce_any)


def _through_float(name: str, x: Tensor, dtype: str) -> Tensor:
    """A floating-point function of a sum, stored as `dtype`; integers pass through float64."""
    via = x.dtype if dt.is_float(x.dtype) else "float64"
    return common.tensor(x.shape, lambda *i: cast(dtype, call(name, cast(via, x[i]))), name)


@op(numpy=_reduction(lambda x, **k: np.sum(np.abs(x), dtype=x.dtype, **k)))
def reduce_l1(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The sum of magnitudes along `axes`."""
    return common.stored(_total(x, axes, keepdims, "sum", lambda v: call("abs", v)), x.dtype)


@op(numpy=_reduction(lambda x, **k: np.sqrt(np.sum(x * x, dtype=x.dtype, **k))))
def reduce_l2(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The root of the sum of squares along `axes`."""
    return _through_float("sqrt", _total(x, axes, keepdims, "sum", lambda v: v * v), x.dtype)


@op(numpy=_reduction(lambda x, **k: np.sum(x * x, dtype=x.dtype, **k)))
def reduce_sum_square(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The sum of squares along `axes`."""
    return common.stored(_total(x, axes, keepdims, "sum", lambda v: v * v), x.dtype)


@op
def reduce_log_sum(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The logarithm of the sum along `axes`; of integers that of sums below 0 is that of 0."""
    total = _total(x, axes, keepdims, "sum", lambda v: v)
    if dt.is_int(x.dtype):
        zero, found = const(0, total.dtype), total
        total = common.tensor(found.shape, lambda *i: maximum(found[i], zero), "sum")
    return _through_float("log", total, x.dtype)


def _log_sum(x: Array, **options: Any) -> Array:
    total = np.sum(x, dtype=x.dtype, **options)
    return np.asarray(np.log(np.maximum(total, 0) if x.dtype.kind in "iu" else total))


reduce_log_sum.numpy(_reduction(_log_sum))


@op
def reduce_log_sum_exp(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """log(sum(exp(x))) along `axes`, shifted by the largest element so that nothing overflows."""
    common.float_only(x)
    largest = _reduce(x, axes, keepdims, "max", te_max)
    to = common.wide(x.dtype)

    def shift(i: Sequence[Expr]) -> Expr:
        m = cast(to, largest[tuple(i)])
        return select(call("abs", m) < math.inf, m, 0.0)

    plan = _Plan(x, axes, keepdims)
    if not plan.axes:
        return common.tensor(x.shape, lambda *i: x[i], "log")

    def power(*i: Expr) -> Expr:
        return call("exp", cast(to, x[plan.point(i)]) - shift(i))

    total = common.sum_over(plan.shape, power, plan.vars, "sum")

    def body(*i: Expr) -> Expr:
        return cast(x.dtype, call("log", total[i]) + shift(i))

    return common.tensor(plan.shape, body, "log")


reduce_log_sum_exp.numpy(_reduction(np.logaddexp.reduce))


# ------------------------------------------------------------------------------- where it stands


def _picker(name: str, better: Callable[[Expr, Expr], Expr], worst: Any, last: bool) -> Any:
    """A reduction of (index, value) pairs to the better value; among equals by position."""
    start = const(-1 if last else (1 << 63) - 1, "int64")

    def combine(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, Expr]:
        nearer = a[0] > b[0] if last else a[0] < b[0]
        keep: Expr = Or(better(a[1], b[1]), And(equal(a[1], b[1]), nearer))
        # sums in a comparison may be moved, and then pass the worst value
        keep = And(not_equal(a[0], start), keep) if dt.is_int(a[1].dtype) else keep
        return select(keep, a[0], b[0]), select(keep, a[1], b[1])

    def identity(_: str, dtype: str) -> tuple[Expr, Expr]:
        return start, worst(dtype)

    return comm_reducer(combine, identity, name)


_ARGMAX, _ARGMIN = [
    [_picker(f"{name}{'_last' * last}", better, worst, last) for last in (False, True)]
    for name, better, worst in (("argmax", gt, min_value), ("argmin", lt, max_value))
]
"""By whether the last index among equals is wanted."""
FIRST_MAX = _ARGMAX[False]
"""The reduction of (index, value) pairs to the largest value; the first index among equals."""


def _position(x: Tensor, axis: int, keepdims: bool, name: str, reducer: Any) -> Tensor:
    common.numbers_only(x=x)
    plan = _Plan(x, (common.axis_of(axis, len(x.shape)),), keepdims)

    def body(*i: Expr) -> Any:
        return reducer((plan.vars[0].var, x[plan.point(i)]), plan.vars)

    found: Tensor = compute(plan.shape, body, name)[0]
    return found


@op
def argmax(
    x: Tensor, *, axis: int = 0, keepdims: bool = True, select_last_index: bool = False
) -> Tensor:
    """Where the largest element along `axis` stands (int64): the first of equals, or the last."""
    return _position(x, axis, keepdims, "argmax", _ARGMAX[select_last_index])


def _position_array(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Array, *, axis: int, keepdims: bool, select_last_index: bool) -> Array:
        if select_last_index:
            back = fn(np.flip(x, axis), axis=axis, keepdims=keepdims)
            return np.asarray(x.shape[axis] - 1 - back, np.int64)
        return np.asarray(fn(x, axis=axis, keepdims=keepdims), np.int64)

    return run


argmax.numpy(_position_array(np.argmax))


@op(numpy=_position_array(np.argmin))
def argmin(
    x: Tensor, *, axis: int = 0, keepdims: bool = True, select_last_index: bool = False
) -> Tensor:
    """Where the smallest element along `axis` stands (int64): the first of equals, or the last."""
    return _position(x, axis, keepdims, "argmin", _ARGMIN[select_last_index])


# -------------------------------------------------------------------------------------- softmax


class _Powers:
    """exp(x - max) along one axis, and what softmax and its logarithm are made of.

    moved  x - max
    powers, total  exp(moved) and its sum
    """

    def __init__(self, x: Tensor, axis: int) -> None:
        common.float_only(x)
        self.axis = common.axis_of(axis, len(x.shape))
        to, largest = common.wide(x.dtype), _reduce(x, (self.axis,), False, "softmax_max", te_max)

        def moved(i: tuple[Expr, ...]) -> Expr:
            return cast(to, x[i]) - cast(to, largest[self.rest(i)])

        self.moved = moved
        self.powers = common.tensor(x.shape, lambda *i: call("exp", self.moved(i)), "softmax_exp")
        plan = _Plan(x, (self.axis,), False)
        self.total = common.sum_over(
            plan.shape, lambda *i: self.powers[plan.point(i)], plan.vars, "softmax_sum"
        )

    def rest(self, i: Sequence[Expr]) -> tuple[Expr, ...]:
        """An index without the axis."""
        return (*i[: self.axis], *i[self.axis + 1 :])


def softmax_of(x: Tensor, axis: int) -> Tensor:
    """exp(x - max) / sum(exp(x - max)) along `axis`, in the element type of x."""
    p = _Powers(x, axis)
    # one division a row: that of a vector takes as long as ten products
    share = common.tensor(p.total.shape, lambda *i: 1.0 / p.total[i], "softmax_share")
    return common.tensor(
        x.shape, lambda *i: cast(x.dtype, p.powers[i] * share[p.rest(i)]), "softmax"
    )


@op
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along `axis`, shifted by the largest element."""
    return softmax_of(x, axis)


@softmax.numpy
def softmax_array(x: Array, *, axis: int) -> Array:
    """exp(x - max) over its sum."""
    w = widened(x)
    e = np.exp(w - np.max(w, axis=axis, keepdims=True, initial=-np.inf))
    return np.asarray(e / np.sum(e, axis=axis, keepdims=True)).astype(x.dtype)


@op
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """log(softmax(x)) along `axis`: x - max - log(sum(exp(x - max)))."""
    p = _Powers(x, axis)
    # one logarithm a row
    log = common.tensor(p.total.shape, lambda *i: call("log", p.total[i]), "softmax_log")
    return common.tensor(
        x.shape, lambda *i: cast(x.dtype, p.moved(i) - log[p.rest(i)]), "log_softmax"
    )


@log_softmax.numpy
def _(x: Array, *, axis: int) -> Array:
    """x - max - log(sum(exp(x - max)))."""
    w = widened(x)
    moved = w - np.max(w, axis=axis, keepdims=True, initial=-np.inf)
    total = np.log(np.sum(np.exp(moved), axis=axis, keepdims=True))
    return np.asarray(moved - total).astype(x.dtype)


# ----------------------------------------------------------------------------------------- scans


def scan(
    x: Tensor, axis: int, join: Callable[[Expr, Expr], Expr], start: int, name: str,
    exclusive: bool = False, reverse: bool = False,
) -> Tensor:  # fmt: skip
    """The elements before each one along `axis` joined; narrow floats meet in float32."""
    common.numbers_only(x=x)
    lanes = Lanes(x.shape, common.axis_of(axis, len(x.shape)))
    so_far = Cell(common.wide(x.dtype), "so_far")

    def body(result: Tensor) -> Stmt:
        def one(lane: Expr) -> Stmt:
            def step(k: Expr) -> Stmt:
                at = lanes.at(lane, lanes.size - 1 - k if reverse else k)
                joined = so_far.set(join(so_far.value, cast(common.wide(x.dtype), x[at])))
                kept = store(result, at, cast(x.dtype, so_far.value))
                return seq(kept, joined) if exclusive else seq(joined, kept)

            return seq(so_far.set(start), loop(lanes.size, step, "k"))

        return lanes.each([so_far], one)

    return program([x.shape], [x.dtype], [x], body, name)[0]


@op
def cumsum(x: Tensor, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """The sum of the elements before each one along `axis`.

    exclusive  without the element itself
    reverse    of the elements after it
    """
    return scan(x, axis, lambda a, b: a + b, 0, "cumsum", exclusive, reverse)


def _running(fn: Callable[..., Any], start: int) -> Callable[..., Array]:
    def run(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
        w = np.flip(widened(x), axis) if reverse else widened(x)
        total = fn(w, axis=axis, dtype=w.dtype)
        if exclusive:
            total = np.roll(total, 1, axis)
            first = [slice(None)] * x.ndim
            first[axis] = slice(0, 1)
            total[tuple(first)] = start
        return np.asarray(np.flip(total, axis) if reverse else total).astype(x.dtype)

    return run


cumsum.numpy(_running(np.cumsum, 0))


@op(numpy=_running(np.cumprod, 1))
def cumprod(x: Tensor, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """The product of the elements before each one along `axis`.

    exclusive  without the element itself
    reverse    of the elements after it
    """
    return scan(x, axis, lambda a, b: a * b, 1, "cumprod", exclusive, reverse)
