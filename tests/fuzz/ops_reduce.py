"""How reductions, scans, sorts and softmaxes are drawn."""

from __future__ import annotations

import math
from typing import Any

from .draw import EPSILON, FLOATS, INTS, Draw, Out, Size, Skip, Value, count, rounded
from .ops_move import an_axis, moved, some_axes
from .table import draws

__all__: list[str] = []

SINCE = {"ReduceSum": 13}
DEFINED = {"ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd"}
"""Reductions that make a number of no elements."""


def reduced(shape: Any, axes: list[int], keep: bool, one: Size) -> list[Size]:
    """The shape without some axes."""
    places = {a % len(shape) for a in axes}
    if keep:
        return [one if k in places else s for k, s in enumerate(shape)]
    return [s for k, s in enumerate(shape) if k not in places]


def _sum(x: Value, n: int) -> Any:
    lo, hi = min(n * x.lo, x.lo), max(n * x.hi, x.hi)
    if x.hollow:
        lo, hi = min(lo, 0.0), max(hi, 0.0)
    return rounded(x.dtype, lo, hi, n * x.err, x.step, n + 2)


def _reduction(d: Draw, op: str, x: Value, n: int) -> tuple[Value, Any]:
    """(operand, (lo, hi, err, step)) of a reduction over at most n elements."""
    eps = EPSILON.get(x.dtype, 0.0)
    if op in ("ReduceMax", "ReduceMin"):
        return x, (x.lo, x.hi, x.err, x.step)
    if op == "ReduceSum":
        return x, _sum(x, n)
    if op == "ReduceL1":
        lo, hi, err, step = _sum(x, n)
        return x, (0.0, max(hi, -lo), err, step)
    if op == "ReduceSumSquare":
        top = n * x.top * x.top
        return x, rounded(x.dtype, 0.0, top, n * 2 * x.top * x.err, x.step * x.step, n + 2)
    if x.dtype in INTS and op != "ReduceProd":
        raise Skip
    if op == "ReduceMean":
        return x, (min(x.lo, 0.0), max(x.hi, 0.0), x.err + (n + 2) * eps * x.top, 0.0)
    if op == "ReduceL2":
        top = math.sqrt(n) * x.top
        return x, (0.0, top, math.sqrt(n) * x.err + (n + 4) * eps * top, 0.0)
    if op == "ReduceProd" and n > 64:
        raise Skip
    if op == "ReduceProd":
        x = d.within(x, -1.5 if x.is_float else -2, 1.5 if x.is_float else 2)
        top = max(x.top, 1.0) ** n
        err = n * top * x.err + 2 * n * eps * top
        return x, (-top if x.lo < 0 else 0.0, top, err, 0.0)
    x = d.within(x, 0.2 if op == "ReduceLogSum" else -10.0, 10.0)
    room = math.log(max(n, 1))
    if op == "ReduceLogSum":
        lo, hi, err = math.log(x.lo), math.log(x.hi) + room, x.err / x.lo
    else:
        lo, hi, err = x.lo, x.hi + room, x.err
    return x, (lo, hi, err + (n + 24) * eps * max(abs(lo), abs(hi), 1.0), 0.0)


@draws(
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", weight=0.7,
)  # fmt: skip
def _reduce(d: Draw, op: str) -> None:
    x = d.pick(d.types(op))
    attrs: dict[str, Any] = {}
    keep = d.chance(0.5)
    if not keep or d.chance(0.5):
        attrs["keepdims"] = int(keep)
    axes = some_axes(d, x.rank) if x.rank and d.chance(0.85) else []
    where = axes or list(range(x.rank))
    n = count([x.shape[a] for a in where])
    x, out = _reduction(d, op, x, n)
    operands: list[Value | None] = [x]
    if axes and d.opset >= SINCE.get(op, 18):
        operands.append(d.ints(axes))
    elif axes:
        attrs["axes"] = axes
    undefined = x.hollow and op not in DEFINED
    add = d.emit_last if undefined else d.emit
    add(op, operands, attrs, [Out(x.dtype, reduced(x.shape, where, keep, d.const(1)), *out)])


@draws("ArgMax", "ArgMin", "Hardmax", weight=0.7)
def _arg(d: Draw, op: str) -> None:
    """Of exact values; ties are decided by position."""
    x = d.pick(d.types(op), where=lambda v: v.exact and v.rank > 0)
    axis = an_axis(d, x.rank)
    if op == "Hardmax":
        if d.opset < 13 and axis % x.rank != x.rank - 1:
            raise Skip
        d.emit(op, [x], {"axis": axis}, [Out(x.dtype, x.shape, 0, 1, 0, 1)])
        return
    attrs: dict[str, Any] = {"axis": axis, "keepdims": d.between(0, 1)}
    if d.opset >= 12 and d.chance(0.4):
        attrs["select_last_index"] = d.between(0, 1)
    shape = reduced(x.shape, [axis], bool(attrs["keepdims"]), d.const(1))
    d.emit(op, [x], attrs, [Out("int64", shape, 0, max(x.shape[axis]) - 1, 0, 1)])


@draws("CumSum", weight=0.8)
def _cumsum(d: Draw, op: str) -> None:
    x = d.pick(d.types(op), where=lambda v: v.rank > 0)
    axis = an_axis(d, x.rank)
    attrs = {n: 1 for n in ("exclusive", "reverse") if d.chance(0.4)}
    lo, hi, err, step = _sum(x, max(x.shape[axis]))
    where = d.scalar(axis, d.one("int32", "int64"))
    d.emit(op, [x, where], attrs, [Out(x.dtype, x.shape, min(lo, 0), max(hi, 0), err, step)])


@draws("TopK", weight=0.8)
def _topk(d: Draw, op: str) -> None:
    """Of exact values; equal ones keep their order."""
    x = d.pick(d.types(op), where=lambda v: v.exact and v.rank > 0)
    axis = an_axis(d, x.rank)
    k = d.between(0, x.shape[axis].least) if d.chance(0.7) else min(x.shape[axis])
    attrs: dict[str, Any] = {"axis": axis}
    if d.opset >= 11 and d.chance(0.5):
        attrs["largest"] = d.between(0, 1)
    shape = [d.const(k) if a == axis % x.rank else s for a, s in enumerate(x.shape)]
    operands: list[Value | None] = [x]
    if d.opset >= 10:
        operands.append(d.ints([k]))
    else:
        attrs["k"] = k
    d.emit(op, operands, attrs, [moved(x, shape), Out("int64", shape, 0, max(x.shape[axis]), 0, 1)])


@draws("Softmax", "LogSoftmax", weight=1.2)
def _softmax(d: Draw, op: str) -> None:
    x = d.pick(d.types(op) & set(FLOATS), lo=-20.0, hi=20.0, where=lambda v: v.rank > 0)
    axis = an_axis(d, x.rank)
    attrs = {"axis": axis} if d.chance(0.8) else {}
    n = count(x.shape)
    eps = EPSILON[x.dtype]
    top = x.hi - x.lo + math.log(max(n, 1))
    if op == "Softmax":
        out = Out(x.dtype, x.shape, 0, 1, min(x.err, 1.0) + (top + n + 16) * eps)
    else:
        out = Out(x.dtype, x.shape, -top, 0, 2 * x.err + (n + 16) * eps * max(top, 1))
    d.emit(op, [x], attrs, [out])
