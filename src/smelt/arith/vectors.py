"""Vectors of index arithmetic: ramps and broadcasts joined."""

from __future__ import annotations

from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.expr import (
    EQ,
    NE,
    Add,
    Binary,
    Broadcast,
    Compare,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Ramp,
    Sub,
)
from smelt.ir.walk import rebuild_binary

from .bounds import poly_bounds
from .context import Context, rebuild, value_rule
from .poly import INTS


@value_rule(Add, Sub, Mul, Div, FloorDiv, FloorMod, Min, Max)
def _vector(cx: Context, e: Binary) -> Expr:
    """Operations on broadcasts are broadcasts; sums and multiples of ramps are ramps."""
    new = rebuild(cx, e)
    if type(new) is not type(e):
        return new
    a, b = new.a, new.b
    if (
        dt.lanes(a.dtype) == 1
        or not isinstance(a, Broadcast | Ramp)
        or not isinstance(b, Broadcast | Ramp)
    ):
        return new
    if dt.lanes(a.dtype) != a.lanes or dt.lanes(b.dtype) != b.lanes:
        return new
    if isinstance(a, Broadcast) and isinstance(b, Broadcast):
        return Broadcast(cx.simplify(rebuild_binary(type(e), a.value, b.value)), a.lanes)
    if dt.scalar(a.dtype) not in INTS:
        return new
    rule = _RAMPS.get(type(e))
    return new if rule is None else rule(cx, new)


def _parts(v: Expr) -> tuple[Expr, Expr, int]:
    if isinstance(v, Ramp):
        return v.base, v.stride, v.lanes
    assert isinstance(v, Broadcast)
    return v.value, IntImm(v.value.dtype, 0), v.lanes


def _ramp(cx: Context, base: Expr, stride: Expr, lanes: int) -> Expr:
    base, stride = cx.simplify(base), cx.simplify(stride)
    if isinstance(stride, IntImm) and stride.value == 0:
        return Broadcast(base, lanes)
    return Ramp(base, stride, lanes)


def _sum(cx: Context, e: Binary) -> Expr:
    """ramp(a, s) + ramp(b, t) = ramp(a + b, s + t)."""
    (a, s, lanes), (b, t, _) = _parts(e.a), _parts(e.b)
    return _ramp(cx, type(e)(a, b), type(e)(s, t), lanes)


def _product(cx: Context, e: Mul) -> Expr:
    """ramp(a, s) * broadcast(x) = ramp(a*x, s*x)."""
    if isinstance(e.a, Ramp) and isinstance(e.b, Ramp):
        return e
    (a, s, lanes), (b, t, _) = _parts(e.a), _parts(e.b)
    if isinstance(e.a, Ramp):
        return _ramp(cx, Mul(a, b), Mul(s, b), lanes)
    return _ramp(cx, Mul(a, b), Mul(a, t), lanes)


def _quotient(cx: Context, e: FloorDiv | FloorMod) -> Expr:
    """ramp(a, s) // c: lane by lane equal, or a multiple of c apart."""
    if not (
        isinstance(e.a, Ramp)
        and isinstance(e.b, Broadcast)
        and isinstance(e.b.value, IntImm)
        and isinstance(e.a.stride, IntImm)
        and e.b.value.value > 0
    ):
        return e
    ramp, c, s = e.a, e.b.value, e.a.stride.value
    remainder = cx.simplify(FloorMod(ramp.base, c))
    if s % c.value == 0:
        if type(e) is FloorMod:
            return Broadcast(remainder, ramp.lanes)
        return Ramp(cx.simplify(FloorDiv(ramp.base, c)), IntImm(c.type, s // c.value), ramp.lanes)
    low, high = poly_bounds(cx, cx.poly(remainder))
    reach = s * (ramp.lanes - 1)
    if (
        low is not None
        and high is not None
        and low + min(reach, 0) >= 0
        and high + max(reach, 0) < c.value
    ):
        if type(e) is FloorMod:
            return Ramp(remainder, ramp.stride, ramp.lanes)
        return Broadcast(cx.simplify(FloorDiv(ramp.base, c)), ramp.lanes)
    return e


def compare_lanes(cx: Context, kind: type[Compare], a: Expr, b: Expr) -> Expr:
    """A comparison of vectors; one broadcast where it is the same in every lane."""
    new = kind(a, b)
    if not isinstance(a, Broadcast | Ramp) or not isinstance(b, Broadcast | Ramp):
        return new
    if dt.lanes(a.dtype) != a.lanes or dt.lanes(b.dtype) != b.lanes:
        return new
    if isinstance(a, Broadcast) and isinstance(b, Broadcast):
        return Broadcast(cx.simplify(kind(a.value, b.value)), a.lanes)
    if dt.scalar(a.dtype) not in INTS or kind in (EQ, NE):
        return new
    (x, s, lanes), (y, t, _) = _parts(a), _parts(b)
    step = cx.poly(Sub(s, t))
    if step.terms:
        return new
    reach = IntImm(x.dtype, step.const * (lanes - 1))
    first, last = cx.simplify(kind(x, y)), cx.simplify(kind(Add(x, reach), y))
    if isinstance(first, IntImm) and first is last:
        return Broadcast(first, lanes)
    return new


_RAMPS: dict[type, Any] = {
    Add: _sum,
    Sub: _sum,
    Mul: _product,
    FloorDiv: _quotient,
    FloorMod: _quotient,
}
