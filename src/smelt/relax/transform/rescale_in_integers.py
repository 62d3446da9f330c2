"""Quantized numbers change their scale by fixed-point factors, as TFLite's kernels do.

A model with QuantizeLinear and DequantizeLinear says that numbers go through floats: its sums would
be multiplied in float32. Processors without vectors, and above all those without floats, do it
faster by a product of integers, which is rounded another way: results differ by one step where what
is rounded is near a half. It is `compute_in_integers` that brings models into the form wanted here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.module import IRModule
from smelt.relax.compose.integer import is_zero
from smelt.relax.nodes import Call, Constant, RelaxExpr

from .compute_in_integers import compute_in_integers
from .engine import GraphRewriter, RuleSet, apply_rules
from .expand_ops import expand_dialects
from .match import dtype_of, is_op, rank_of, scalar_of
from .normal_form import inline_functions

_RULES = RuleSet()
_OF_ONNX = "even"
"""How ONNX rounds; what says that it rounds otherwise was asked for."""
_FINER = 20
"""Bits by which the operands of a sum are moved to the left before they get one scale."""


@_RULES.rule("requantize")
def by_fixed_point(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """requantize in floats  =  requantize by a number of 31 bits, to within a step"""
    x, scale, zero_in, step, zero = n.args
    floats = n.attrs["compute_dtype"] != "int64" and n.attrs["rounding"] == _OF_ONNX
    if not floats or not _have_factors(scale, step):
        return None
    how = {"axis": n.attrs["axis"], "out_dtype": n.attrs["out_dtype"], "rounding": "twice"}
    zero_point = 0 if zero is None else scalar_of(zero)
    if is_op(x, "relu") and (zero_in is None or is_zero(zero_in)) and zero_point is not None:
        y = g.call("requantize", x.args[0], scale, zero_in, step, zero, **how)
        return _from(g, y, int(zero_point))
    return g.call("requantize", x, scale, zero_in, step, zero, **how)


@_RULES.rule("quantize")
def between_limits(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """quantize(clip(dequantize(x)))  =  the limits, quantized, of x rescaled"""
    held, step, zero = (*n.args, None)[:3]
    own = _target(n)
    if not is_op(held, "clip") or not is_op(held.args[0], "dequantize") or own is None:
        return None
    x, scale, zero_in = (*held.args[0].args, None)[:3]
    wide, out = held.args[0].attrs, str(n.attrs["out_dtype"])
    if not dt.is_int(dtype_of(x)) or dt.bits(out) > 16 or not _have_factors(scale, step):
        return None
    y = g.call("requantize", x, scale, zero_in, step, zero, axis=wide["axis"], out_dtype=out,
               rounding="twice")  # fmt: skip
    lowest, highest = dt.limits(out)
    low, high = held.attrs["min"], held.attrs["max"]
    low = lowest if low is None else max(_in_steps(low, *own), lowest)
    high = highest if high is None else min(_in_steps(high, *own), highest)
    return g.call("clip", y, min=low, max=high)


def _in_steps(value: float, scale: float, zero: int) -> int:
    return round(float(np.clip(value / scale, -(2.0**20), 2.0**20))) + zero


@_RULES.rule("quantize")
def sum_of_two(g: GraphRewriter, n: Call) -> RelaxExpr | None:
    """quantize(dequantize(x) + dequantize(y))  =  the sum of both, moved to the left and rescaled
    to twice the larger scale, rescaled to the result's"""
    total = n.args[0]
    cut = is_op(total, "relu")
    total = total.args[0] if isinstance(total, Call) and cut else total
    own, out = _target(n), str(n.attrs["out_dtype"])
    if not is_op(total, "add", "subtract") or own is None or dt.bits(out) != 8:
        return None
    sides = [s for s in map(_side, total.args) if s is not None]
    if len(sides) < 2:
        return None
    twice = 2 * max(s.scale for s in sides)
    parts = [_finer(g, s, twice) for s in sides]
    ratio = twice / (own[0] * 2.0**_FINER)
    y = _fixed(g, g.call(str(total.callee), *parts), ratio, own[1], out)
    return _from(g, y, own[1]) if cut else y


@dataclass(frozen=True)
class _Side:
    """An operand of a sum: bytes, and what they stand for."""

    bytes: RelaxExpr
    scale: float
    zero: int


def _side(x: RelaxExpr | None) -> _Side | None:
    if not is_op(x, "dequantize") or x.args[0] is None:
        return None
    found = _numbers(*(*x.args, None)[1:3])
    narrow = dt.is_int(dtype_of(x.args[0])) and dt.bits(dtype_of(x.args[0])) == 8
    return _Side(x.args[0], *found) if found and narrow else None


def _target(n: Call) -> tuple[float, int] | None:
    """The scale and the zero point of a quantize that rounds as ONNX does."""
    return _numbers(*(*n.args, None)[1:3]) if n.attrs["rounding"] == _OF_ONNX else None


def _numbers(scale: RelaxExpr | None, zero: RelaxExpr | None) -> tuple[float, int] | None:
    """A scale and a zero point that are one number each."""
    s, z = scalar_of(scale), 0 if zero is None else scalar_of(zero)
    return None if s is None or z is None else (s, int(z))


def _finer(g: GraphRewriter, s: _Side, twice: float) -> RelaxExpr:
    wide = g.call("cast", s.bytes, dtype="int32")
    wide = g.call("subtract", wide, g.constant(s.zero, "int32")) if s.zero else wide
    wide = g.call("multiply", wide, g.constant(1 << _FINER, "int32"))
    return _fixed(g, wide, s.scale / twice, 0, "int32")


def _fixed(g: GraphRewriter, x: RelaxExpr, ratio: float, zero: int, out: str) -> RelaxExpr:
    """x * ratio + zero, rounded twice."""
    move = g.constant(zero, "int32") if zero else None
    return g.call("requantize", x, g.constant(ratio, "float64"), None, g.constant(1.0, "float32"),
                  move, out_dtype=out, rounding="twice")  # fmt: skip


def _from(g: GraphRewriter, y: RelaxExpr, least: int) -> RelaxExpr:
    """What a ReLU keeps of quantized numbers."""
    low, high = dt.limits(dtype_of(y))
    return y if least <= low else g.call("clip", y, min=least, max=high)


def _have_factors(*scales: RelaxExpr | None) -> bool:
    """Whether the ratio of two scales is known, and one that fixed point has."""
    data = [s.data.astype(np.float64) for s in scales if isinstance(s, Constant)]
    if len(data) < 2 or any(rank_of(s) > 1 for s in scales):
        return False
    ratio = data[0] / data[1]
    return bool(np.all((ratio >= 0) & (ratio < 2.0**31)))


def rescale_in_integers(mod: IRModule) -> IRModule:
    """A module whose quantized numbers change their scale without floats, where scales are known.

    Averages and functions stay in floats.
    """
    return apply_rules(mod, _RULES)


def as_on_boards(mod: IRModule) -> IRModule:
    """An imported module with the arithmetic that processors without vectors do."""
    return rescale_in_integers(compute_in_integers(expand_dialects(inline_functions(mod))))
