"""Vectors of index arithmetic: ramps and broadcasts joined."""

from __future__ import annotations

from typing import Any

from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.walk import rebuild_binary

from .bounds import poly_bounds
from .context import Context, rebuild, value_rule
from .poly import INTS


@value_rule(
    expr.Add, expr.Sub, expr.Mul, expr.Div, expr.FloorDiv, expr.FloorMod, expr.Min, expr.Max
)
def _vector(cx: Context, e: expr.Binary) -> expr.Expr:
    """Operations on broadcasts are broadcasts; sums and multiples of ramps are ramps."""
    new = rebuild(cx, e)
    if type(new) is not type(e):
        return new
    known = _of_broadcasts(cx, new)
    if known is not None:
        return known
    rule = _RAMPS.get(type(e))
    return new if rule is None else rule(cx, new)


def _of_broadcasts(cx: Context, e: expr.Binary) -> expr.Expr | None:
    """One broadcast for two; None where there are ramps of integers; else the same operation."""
    a, b = e.a, e.b
    for x in (a, b):
        if not isinstance(x, expr.Broadcast | expr.Ramp) or dt.lanes(x.dtype) != x.lanes:
            return e
    if isinstance(a, expr.Broadcast) and isinstance(b, expr.Broadcast):
        return expr.Broadcast(cx.simplify(rebuild_binary(type(e), a.value, b.value)), a.lanes)
    return None if dt.scalar(a.dtype) in INTS else e


def _parts(v: expr.Expr) -> tuple[expr.Expr, expr.Expr, int]:
    if isinstance(v, expr.Ramp):
        return v.base, v.stride, v.lanes
    assert isinstance(v, expr.Broadcast)
    return v.value, expr.IntImm(v.value.dtype, 0), v.lanes


def _ramp(cx: Context, base: expr.Expr, stride: expr.Expr, lanes: int) -> expr.Expr:
    base, stride = cx.simplify(base), cx.simplify(stride)
    if isinstance(stride, expr.IntImm) and stride.value == 0:
        return expr.Broadcast(base, lanes)
    return expr.Ramp(base, stride, lanes)


def _sum(cx: Context, e: expr.Binary) -> expr.Expr:
    """ramp(a, s) + ramp(b, t) = ramp(a + b, s + t)."""
    (a, s, lanes), (b, t, _) = _parts(e.a), _parts(e.b)
    return _ramp(cx, type(e)(a, b), type(e)(s, t), lanes)


def _product(cx: Context, e: expr.Mul) -> expr.Expr:
    """ramp(a, s) * broadcast(x) = ramp(a*x, s*x)."""
    if isinstance(e.a, expr.Ramp) and isinstance(e.b, expr.Ramp):
        return e
    (a, s, lanes), (b, t, _) = _parts(e.a), _parts(e.b)
    if isinstance(e.a, expr.Ramp):
        return _ramp(cx, expr.Mul(a, b), expr.Mul(s, b), lanes)
    return _ramp(cx, expr.Mul(a, b), expr.Mul(a, t), lanes)


def _quotient(cx: Context, e: expr.FloorDiv | expr.FloorMod) -> expr.Expr:
    """ramp(a, s) // c: lane by lane equal, or a multiple of c apart."""
    if not (
        isinstance(e.a, expr.Ramp)
        and isinstance(e.b, expr.Broadcast)
        and isinstance(e.b.value, expr.IntImm)
        and isinstance(e.a.stride, expr.IntImm)
        and e.b.value.value > 0
    ):
        return e
    ramp, c, s = e.a, e.b.value, e.a.stride.value
    remainder = cx.simplify(expr.FloorMod(ramp.base, c))
    if s % c.value == 0:
        if type(e) is expr.FloorMod:
            return expr.Broadcast(remainder, ramp.lanes)
        return expr.Ramp(
            cx.simplify(expr.FloorDiv(ramp.base, c)), expr.IntImm(c.type, s // c.value), ramp.lanes
        )
    low, high = poly_bounds(cx, cx.poly(remainder))
    reach = s * (ramp.lanes - 1)
    if (
        low is not None
        and high is not None
        and low + min(reach, 0) >= 0
        and high + max(reach, 0) < c.value
    ):
        if type(e) is expr.FloorMod:
            return expr.Ramp(remainder, ramp.stride, ramp.lanes)
        return expr.Broadcast(cx.simplify(expr.FloorDiv(ramp.base, c)), ramp.lanes)
    return e


def compare_lanes(cx: Context, kind: type[expr.Compare], a: expr.Expr, b: expr.Expr) -> expr.Expr:
    """A comparison of vectors; one broadcast where it is the same in every lane."""
    new = kind(a, b)
    known = _of_broadcasts(cx, new)
    if known is not None:
        return known
    if kind in (expr.EQ, expr.NE):
        return new
    (x, s, lanes), (y, t, _) = _parts(a), _parts(b)
    step = cx.poly(expr.Sub(s, t))
    if step.terms:
        return new
    reach = expr.IntImm(x.dtype, step.const * (lanes - 1))
    first, last = cx.simplify(kind(x, y)), cx.simplify(kind(expr.Add(x, reach), y))
    if isinstance(first, expr.IntImm) and first is last:
        return expr.Broadcast(first, lanes)
    return new


_RAMPS: dict[type, Any] = {
    expr.Add: _sum,
    expr.Sub: _sum,
    expr.Mul: _product,
    expr.FloorDiv: _quotient,
    expr.FloorMod: _quotient,
}
