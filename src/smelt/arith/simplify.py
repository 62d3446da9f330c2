"""How integer nodes become polynomials: sums, products, min, max, choices and conversions."""

from __future__ import annotations

from typing import Any

from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.node import postorder

from .bounds import deep, expr_bounds, fits, poly_bounds, residue
from .context import Context, integer_rule, opaque, rebuild, value_rule
from .facts import under
from .poly import INTS, Poly, add, atom, constant, factors, scale, subtract
from .prove import nonnegative

_DISTRIBUTE = 24
"""Products of sums with more terms than this are not multiplied out."""

_NESTED = 12
"""Choices within choices below this depth are left as they are."""


@integer_rule(expr.IntImm, plain=True)
def _constant(cx: Context, e: expr.IntImm) -> Poly:
    return constant(e.value)


@integer_rule(expr.Var, plain=True)
def _var(cx: Context, e: expr.Var) -> Poly:
    value = cx.values.get(e)
    if value is not None:
        return cx.poly(value)
    low, high = cx.ranges.get(e, (None, None))
    return constant(low) if low is not None and low == high else atom(e)


@integer_rule(expr.Add, expr.Sub, plain=True)
def _sum(cx: Context, e: expr.Add | expr.Sub) -> Poly:
    known = cx.polys.get
    a, b = known(e.a) or cx.poly(e.a), known(e.b) or cx.poly(e.b)
    return merge(cx, add(a, b, 1 if type(e) is expr.Add else -1), e.dtype)


@integer_rule(expr.Mul, plain=True)
def _mul(cx: Context, e: expr.Mul) -> Poly:
    a, b = cx.poly(e.a), cx.poly(e.b)
    if len(a.terms) * len(b.terms) <= _DISTRIBUTE:
        product = cx.order.multiply(a, b)
        return merge(cx, product, e.dtype)
    dtype = e.dtype
    return atom(cx.order.product([cx.build(a, dtype), cx.build(b, dtype)]))


# ----------------------------------------------------------------------------- terms that meet


def merge(cx: Context, p: Poly, dtype: str) -> Poly:
    """The sum with quotients, remainders, minima and maxima joined to what they complete."""
    changed = True
    while changed:
        changed = False
        for t in p.terms:
            rule = _MERGE.get(type(t))
            if rule is not None:
                new = rule(cx, p, t, dtype)
                if new is not None:
                    p, changed = new, True
                    break
    return p


def _contains(p: Poly, part: Poly, by: int) -> bool:
    """Whether every term of part * by stands in p."""
    terms = p.terms
    return bool(part.terms) and all(terms.get(t) == c * by for t, c in part.terms.items())


def _join_remainder(cx: Context, p: Poly, t: expr.FloorMod, dtype: str) -> Poly | None:
    """x % d + x // d * d  =  x;   x % d + x // d % b * d  =  x % (d*b)."""
    if len(p.terms) < 2:
        return None
    c = p.terms[t]
    d = cx.poly(t.b)
    q = cx.poly(expr.FloorDiv(t.a, t.b))
    qd = cx.order.multiply(q, d)
    if _contains(p, qd, c):
        rest = subtract(p, Poly({**scale(qd, c).terms, t: c}, qd.const * c))
        return add(rest, cx.poly(t.a), c)
    if d.terms:
        return None
    upper = q.single()
    if upper is None:
        return None
    for s, k in p.terms.items():
        match s:
            case expr.FloorMod(a=x, b=expr.IntImm(value=n)) if k == c * d.const and x is upper:
                whole = expr.FloorMod(t.a, expr.IntImm(dtype, d.const * n))
                return add(subtract(p, Poly({t: c, s: k}, 0)), cx.poly(whole), c)
    return None


def _join_quotient(cx: Context, p: Poly, t: expr.Expr, dtype: str) -> Poly | None:
    """x - x // d * d  =  x % d;   x // d * d  =  x  where d divides x."""
    for f in factors(t):
        if type(f) is not expr.FloorDiv:
            continue
        d = cx.poly(f.b)
        whole = cx.order.multiply(atom(f), d)
        if len(whole.terms) != 1 or t not in whole.terms or p.terms[t] % whole.terms[t]:
            continue
        k = p.terms[t] // whole.terms[t]
        x = cx.poly(f.a)
        m, base = residue(cx, x)
        if not d.terms and d.const > 0 and m % d.const == 0 and base % d.const == 0:
            return add(subtract(p, atom(t, p.terms[t])), x, k)
        if _contains(p, x, -k):
            rest = add(subtract(p, atom(t, p.terms[t])), x, k)
            return add(rest, cx.poly(expr.FloorMod(f.a, f.b)), -k)
    return None


def _join_product(cx: Context, p: Poly, t: expr.Expr, dtype: str) -> Poly | None:
    """The same of quotients; and of remainders k * (x % d) + k * (x // d) * d  =  k * x."""
    joined = _join_quotient(cx, p, t, dtype)
    if joined is not None or len(p.terms) < 2:
        return joined
    c, parts = p.terms[t], list(factors(t))
    for n, f in enumerate(parts):
        if type(f) is not expr.FloorMod:
            continue
        k = atom(cx.order.product(parts[:n] + parts[n + 1 :]))
        whole = cx.order.multiply(cx.poly(expr.FloorDiv(f.a, f.b)), cx.poly(f.b))
        whole = cx.order.multiply(whole, k)
        if _contains(p, whole, c):
            rest = subtract(p, Poly({**scale(whole, c).terms, t: c}, whole.const * c))
            return add(rest, cx.order.multiply(cx.poly(f.a), k), c)
    return None


def _join_extreme(cx: Context, p: Poly, t: Any, dtype: str) -> Poly | None:
    """min(x + s, y) - s  =  min(x, y - s);   -min(x, y)  =  max(-x, -y), where that is all."""
    c = p.terms[t]
    operands = cx.poly(t.a), cx.poly(t.b)
    if c < 0 and len(p.terms) == 1 and not p.const:
        other = expr.Max if type(t) is expr.Min else expr.Min
        return scale(cx.poly(other(*[cx.build(scale(o, -1), dtype) for o in operands])), -c)
    for x in operands:
        shared = {s: k for s, k in x.terms.items() if p.terms.get(s) == -c * k}
        if shared:
            s = Poly(shared, 0)
            a, b = (cx.build(subtract(o, s), dtype) for o in operands)
            return add(add(subtract(p, atom(t, c)), s, c), cx.poly(type(t)(a, b)), c)
    return None


_MERGE: dict[type, Any] = {
    expr.FloorMod: _join_remainder,
    expr.FloorDiv: _join_quotient,
    expr.Mul: _join_product,
    expr.Min: _join_extreme,
    expr.Max: _join_extreme,
}


# --------------------------------------------------------------------------------- min and max


@integer_rule(expr.Min, expr.Max)
def _extreme(cx: Context, e: expr.Min | expr.Max) -> Poly:
    """min(a, b) = a where a <= b; what all operands share stands outside."""
    dtype, cls = e.dtype, type(e)
    operands = _flatten(cx, cls, cx.poly(e.a)) + _flatten(cx, cls, cx.poly(e.b))
    kept: list[Poly] = []
    for x in operands:
        if any(_wins(cx, cls, y, x) for y in kept):
            continue
        kept = [y for y in kept if not _wins(cx, cls, x, y)]
        kept.append(x)
    if len(kept) == 1:
        return kept[0]
    first = kept[0]
    shared = Poly(
        {t: c for t, c in first.terms.items() if all(k.terms.get(t) == c for k in kept)},
        first.const if all(k.const == first.const for k in kept) else 0,
    )
    items = [cx.build(subtract(k, shared), dtype) for k in kept]
    items.sort(key=lambda x: (isinstance(x, expr.IntImm), cx.order.key(x)))
    result = items[0]
    for item in items[1:]:
        result = cls(result, item)
    return add(shared, atom(result))


def _flatten(cx: Context, cls: type, p: Poly) -> list[Poly]:
    """The operands of a nested min (or max), a constant added to each."""
    out: list[Poly] = []
    stack = [p]
    while stack:
        q = stack.pop()
        t = next(iter(q.terms)) if len(q.terms) == 1 else None
        if t is not None and type(t) is cls and q.terms[t] == 1:
            stack += [add(cx.poly(x), constant(q.const)) for x in (t.b, t.a)]  # type: ignore[attr-defined]
        else:
            out.append(q)
    return out


def _wins(cx: Context, cls: type, x: Poly, y: Poly) -> bool:
    """Whether x makes y needless in a min or max."""
    d = subtract(y, x) if cls is expr.Min else subtract(x, y)
    return nonnegative(cx, d, 3)


# ------------------------------------------------------------------------------------- choices


def decided(cx: Context, e: expr.Expr, c: expr.Expr, a: expr.Expr, b: expr.Expr) -> expr.Expr:
    """The chosen branch where the condition is known, else the node with simple parts."""
    if e in cx.pending or len(cx.pending) > _NESTED:
        return e
    cx.pending.add(e)
    try:
        c = cx.simplify(c)
        if isinstance(c, expr.IntImm):
            return cx.simplify(a if c.value else b)
        both = type(e) is expr.Select  # computes both branches, whatever the condition says
        a = _simplified(cx if both and _reads(a) else under(cx, c, True), a)
        b = _simplified(cx if both and _reads(b) else under(cx, c, False), b)
    finally:
        cx.pending.discard(e)
    if a is b:
        return a
    return (
        expr.Select(c, a, b)
        if type(e) is expr.Select
        else expr.Call(a.dtype, "if_then_else", (c, a, b))
    )


def _reads(e: expr.Expr) -> bool:
    """Whether a value is read from somewhere: its index has to be right whenever it is computed."""
    return any(type(n).__module__ != expr.Expr.__module__ for n in postorder(e))


def _simplified(cx: Context, e: expr.Expr) -> expr.Expr:
    return deep(cx, lambda: cx.simplify(e), e)


@integer_rule(expr.Select)
def _select(cx: Context, e: expr.Select) -> Poly:
    new = decided(cx, e, e.condition, e.true_value, e.false_value)
    return atom(new) if type(new) is expr.Select else cx.poly(new)


@value_rule(expr.Select)
def _select_value(cx: Context, e: expr.Select) -> expr.Expr:
    if dt.lanes(e.condition.dtype) > 1:
        return rebuild(cx, e)
    return decided(cx, e, e.condition, e.true_value, e.false_value)


@integer_rule(expr.Call)
def _call(cx: Context, e: expr.Call) -> Poly:
    if e.op == "if_then_else":
        new = decided(cx, e, *e.args)
        return atom(new) if type(new) is expr.Call else cx.poly(new)
    if e.op in _BITS:
        found = _bits(cx, e)
        if found is not None:
            return found
    return opaque(cx, e)


_BITS = frozenset({"shift_left", "shift_right", "bitwise_and"})


def _bits(cx: Context, e: expr.Call) -> Poly | None:
    """x << c = x * 2**c;  x >> c = x // 2**c;  x & (2**c - 1) = x % 2**c."""
    x, y = e.args
    count = cx.poly(y)
    if count.terms or count.const < 0:
        return None
    if e.op == "bitwise_and":
        size = count.const + 1
        return (
            cx.poly(expr.FloorMod(x, expr.IntImm(e.dtype, size)))
            if size & (size - 1) == 0
            else None
        )
    if count.const >= dt.width(e.dtype) - 1:
        return None
    size = 1 << count.const
    return cx.poly(
        (expr.Mul if e.op == "shift_left" else expr.FloorDiv)(x, expr.IntImm(e.dtype, size))
    )


@value_rule(expr.Call)
def _call_value(cx: Context, e: expr.Call) -> expr.Expr:
    if e.op == "likely" and e.type == "bool":
        c = cx.simplify(e.args[0])
        return c if isinstance(c, expr.IntImm) else rebuild(cx, e)
    if e.op != "if_then_else" or dt.lanes(e.args[0].dtype) > 1:
        return rebuild(cx, e)
    return decided(cx, e, *e.args)


# --------------------------------------------------------------------------------- conversions


@integer_rule(expr.Cast)
def _cast(cx: Context, e: expr.Cast) -> Poly:
    """int64(x + c*y) = int64(x) + c*int64(y) where x + c*y fits both types."""
    inner = e.value.dtype
    if inner not in INTS:
        return _cast_other(cx, e)
    p = cx.poly(e.value)
    if not p.terms:
        return constant(p.const) if fits((p.const, p.const), e.type) else opaque(cx, e)
    alone = p.single()
    if (alone is None or type(alone) is expr.Mul) and not fits(poly_bounds(cx, p), "int32"):
        return atom(expr.Cast(e.type, cx.build(p, inner)))
    total = constant(p.const)
    for t, c in p.terms.items():
        items = [_cast_atom(cx, e.type, x) for x in factors(t)]
        part = constant(c)
        for x in items:
            part = cx.order.multiply(part, x)
        total = add(total, part)
    return total


def _cast_atom(cx: Context, dtype: str, x: expr.Expr) -> Poly:
    """int64(int32(x)) = x where x fits int32; int32(int64(x)) = x."""
    if (
        type(x) is expr.Cast
        and x.value.dtype == dtype
        and (dtype == "int32" or fits(expr_bounds(cx, x.value), x.type))
    ):
        return cx.poly(x.value)
    return atom(expr.Cast(dtype, x))


def _cast_other(cx: Context, e: expr.Cast) -> Poly:
    value = cx.simplify(e.value)
    if isinstance(value, expr.IntImm):
        return constant(value.value)
    if (
        isinstance(value, expr.Cast)
        and value.value.dtype in INTS
        and (fits(expr_bounds(cx, value.value), value.type))
    ):
        return cx.poly(expr.cast(e.type, value.value))
    return atom(e if value is e.value else expr.Cast(e.type, value))


@value_rule(expr.Cast)
def _cast_value(cx: Context, e: expr.Cast) -> expr.Expr:
    """A conversion to a type that holds every value, after another such, is one conversion."""
    value = cx.simplify(e.value)
    if isinstance(value, expr.IntImm):
        if e.type == "bool":
            return expr.IntImm("bool", int(bool(value.value)))
        if dt.is_int(e.type) and fits((value.value, value.value), e.type):
            return expr.IntImm(e.type, value.value)
    return e if value is e.value else expr.cast(e.type, value)
