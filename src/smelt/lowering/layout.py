"""Physical layouts: the order in memory of every value's dimensions, chosen over the whole graph.

Images are kept channels-last, so that convolutions read pixels as rows of a matrix and vectors run
over channels, whatever their number. Elementwise work keeps its operand's order. A value whose only
way on is a reshape of a transposition is written in the order that makes both free.
"""

from __future__ import annotations

from collections.abc import Sequence

from smelt.arith import Analyzer
from smelt.ir.build import value_of
from smelt.ir.expr import Expr, const
from smelt.ir.types import TensorType, Type
from smelt.relax.nodes import Call, Function, tensor_type_of, values
from smelt.relax.views import View
from smelt.topi.registry import Op

__all__ = ["channel_operands", "keeps_channels_last", "kernel_order", "may_write_rows",
           "memory_order"]  # fmt: skip

_SPATIAL = frozenset(
    {
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose",
        "max_pool",
        "avg_pool",
        "batch_norm",
        "instance_norm",
        "lrn",
        "resize",
        "depth_to_space",
        "space_to_depth",
    }
)


_WIDE = 24
"""Pixels of a row that fill vectors well enough."""


def keeps_channels_last(group: Function) -> bool:
    """Whether a kernel is one that runs over channels: convolution, pooling and their like."""
    return any(
        isinstance(v, Call) and isinstance(v.op, Op) and v.op.name in _SPATIAL and not _repeats(v)
        for v in values(group.body)
    )


def _repeats(v: Call) -> bool:
    """Whether pixels are only repeated: as fast in any order, so that of the operand stays."""
    return v.callee == "resize" and v.attrs["mode"] == "nearest"


def may_write_rows(group: Function) -> bool:
    """Whether a kernel over channels writes a row-major result about as fast as a copy would.

    Convolutions over wide rows whose window moves by one pixel do: they keep neighbouring pixels in
    a vector. With larger steps those lie apart (measured: 6 times the time, against 0.6 to 1.2).
    """
    spatial = [v for v in values(group.body) if isinstance(v, Call) and v.callee in _SPATIAL]
    windows = [v for v in spatial if v.callee != "batch_norm"]
    return bool(windows) and all(
        v.callee == "conv2d"
        and set(v.attrs["strides"] or (1,)) == {1}
        and (value_of(tensor_type_of(v).shape[-1]) or 0) >= _WIDE
        for v in windows
    )


def channel_operands(group: Function) -> list[int]:
    """Parameters that a kernel reads along channels, a vector at a time.

    Windows that slide over each channel alone: pooling and depthwise convolution.
    """
    found = []
    for v in values(group.body):
        if not isinstance(v, Call) or not isinstance(v.op, Op):
            continue
        pool = v.op.name in ("max_pool", "avg_pool")
        if (pool or v.attrs.get("groups", 1) != 1) and v.args[0] in group.params:
            found += [i for i, p in enumerate(group.params) if p is v.args[0]]
    return found


def kernel_order(
    group: Function,
    inputs: Sequence[View | None],
    types: Sequence[Type],
    out: Type,
    analyzer: Analyzer,
) -> tuple[int, ...]:
    """The dimensions of a kernel's result, outermost in memory first."""
    assert isinstance(out, TensorType)
    rank = out.rank
    if rank >= 3 and keeps_channels_last(group):
        return (0, *range(2, rank), 1)
    for view, t in zip(inputs, types, strict=True):
        if view is not None and isinstance(t, TensorType) and t.rank == rank and rank >= 3:
            order = memory_order(view, analyzer)
            if order is not None and (t.shape == out.shape or order != tuple(range(rank))):
                return order
    return tuple(range(rank))


def memory_order(view: View, analyzer: Analyzer) -> tuple[int, ...] | None:
    """The order of a view's dimensions in memory, where it has no gaps.

    Dimensions of one element have no place of their own: they stay where they are if the others do.
    """
    rest = [d for d in range(len(view.shape)) if getattr(view.shape[d], "value", None) != 1]
    order: list[int] = []
    at: Expr = const(1)
    while rest:
        fits = [d for d in reversed(rest) if analyzer.simplify(view.strides[d] - at) is const(0)]
        if not fits:
            return None
        rest.remove(fits[0])
        order.insert(0, fits[0])
        at = analyzer.simplify(view.strides[fits[0]] * view.shape[fits[0]])
    if order == sorted(order):
        return tuple(range(len(view.shape)))
    units = [d for d in range(len(view.shape)) if d not in order]
    return (*units, *order)
