"""Symbolic intervals, linear forms, and conditions solved for one variable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from smelt.ir.expr import Call, Cast, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Select, Var
from smelt.ir.node import postorder
from smelt.ir.walk import free_vars

from .answer import Answer
from .bounds import atom_bounds, fits
from .compare import below_zero
from .context import Context
from .depend import Dependence
from .divide import quotient, remainder
from .facts import conjuncts, negative_forms
from .interval_set import of_both, of_either
from .poly import INTS, ZERO, Poly, add, atom, constant, factors, scale, subtract
from .prove import nonnegative, positive, split_by

Interval: TypeAlias = tuple[Poly | None, Poly | None]
"""Inclusive symbolic ends; None where there is none."""


# ---------------------------------------------------------------------------- symbolic intervals


class _Walk:
    """The interval of one expression while some variables run; the others stay."""

    def __init__(self, cx: Context, domains: Mapping[Var, Interval], dtype: str) -> None:
        self.cx = cx
        self.domains = domains
        self.dtype = dtype
        self.varies = Dependence(domains)
        self.memo: dict[Expr, Interval] = {}

    def poly(self, p: Poly) -> Interval:
        """Term by term: the ends of c*t are those of t, swapped where c < 0."""
        low: Poly | None = constant(p.const)
        high: Poly | None = constant(p.const)
        for t, c in p.terms.items():
            tl, th = self.monomial(t)
            if c < 0:
                tl, th = th, tl
            low = None if low is None or tl is None else add(low, tl, c)
            high = None if high is None or th is None else add(high, th, c)
            if low is None and high is None:
                break
        return low, high

    def mentions(self, p: Poly) -> bool:
        """Whether a polynomial varies."""
        varies = self.varies
        return any(map(varies, p.terms))

    def ends(self, p: Poly) -> Interval:
        """The interval of a polynomial, whose terms may be nested deeply."""
        try:
            return self.poly(p)
        except RecursionError:
            for part in postorder(self.expr(p)):
                if isinstance(part, Expr) and part.dtype == self.dtype:
                    self.poly(self.cx.poly(part))
            return self.poly(p)

    def monomial(self, t: Expr) -> Interval:
        found = self.memo.get(t)
        if found is None:
            items = factors(t)
            found = self.atom(t) if len(items) == 1 else self.product(items)
            self.memo[t] = found
        return found

    def product(self, items: list[Expr]) -> Interval:
        result: Interval = (constant(1), constant(1))
        for x in items:
            result = self.times(result, self.monomial(x))
        return result

    def times(self, a: Interval, b: Interval) -> Interval:
        """The product of intervals whose signs can be shown, else of constant ones."""
        mul, cx = self.cx.order.multiply, self.cx
        (al, ah), (bl, bh) = a, b
        if al is not None and bl is not None and nonnegative(cx, al) and nonnegative(cx, bl):
            return mul(al, bl), None if ah is None or bh is None else mul(ah, bh)
        for (x, y), (ul, uh) in ((a, b), (b, a)):
            if x is not None and y is not None and x.same(y):
                if nonnegative(cx, x):
                    return None if ul is None else mul(x, ul), None if uh is None else mul(x, uh)
                if nonnegative(cx, scale(x, -1)):
                    return None if uh is None else mul(x, uh), None if ul is None else mul(x, ul)
        if al is None or ah is None or bl is None or bh is None:
            return None, None
        corners = [mul(x, y) for x in (al, ah) for y in (bl, bh)]
        return self.fold(Min, corners), self.fold(Max, corners)

    def fold(self, cls: type[Min] | type[Max], polys: Iterable[Poly]) -> Poly:
        items = list(polys)
        result = items[0]
        for p in items[1:]:
            if not p.same(result):
                result = self.cx.poly(cls(self.expr(result), self.expr(p)))
        return result

    def least(self, a: Poly, b: Poly) -> Poly:
        return self.fold(Min, (a, b))

    def most(self, a: Poly, b: Poly) -> Poly:
        return self.fold(Max, (a, b))

    def expr(self, p: Poly) -> Expr:
        return self.cx.build(p, self.dtype)

    def atom(self, e: Expr) -> Interval:
        if e in self.domains:
            return self.domains[e]  # type: ignore[index]
        if not self.varies(e):
            return atom(e), atom(e)
        rule = _INTERVALS.get(type(e))
        ends = rule(self, e) if rule is not None else (None, None)
        if ends[0] is None or ends[1] is None:
            low, high = atom_bounds(self.cx, e)
            ends = (
                constant(low) if ends[0] is None and low is not None else ends[0],
                constant(high) if ends[1] is None and high is not None else ends[1],
            )
        return ends

    def of(self, e: Expr) -> Interval:
        return self.poly(self.cx.poly(e))


def _floor_div(w: _Walk, e: FloorDiv) -> Interval:
    """x // d grows with x; for d > 0 that does not vary."""
    d = w.cx.poly(e.b)
    if w.varies(e.b) or not positive(w.cx, d):
        return None, None
    low, high = [None if p is None else quotient(w.cx, p, d, w.dtype) for p in w.of(e.a)]
    return low, high


def _floor_mod(w: _Walk, e: FloorMod) -> Interval:
    """x % d is x - k*d where x // d = k at both ends of x, else 0 ... d - 1."""
    d = w.cx.poly(e.b)
    if w.varies(e.b) or not positive(w.cx, d):
        return None, None
    low, high = w.of(e.a)
    if low is not None and high is not None:
        if quotient(w.cx, low, d, w.dtype).same(quotient(w.cx, high, d, w.dtype)):
            return remainder(w.cx, low, d, w.dtype), remainder(w.cx, high, d, w.dtype)
        if nonnegative(w.cx, low):
            return ZERO, w.least(high, Poly(d.terms, d.const - 1))
    return ZERO, Poly(d.terms, d.const - 1)


def _extreme(w: _Walk, e: Min | Max) -> Interval:
    """min and max grow with both operands."""
    (al, ah), (bl, bh) = w.of(e.a), w.of(e.b)
    if type(e) is Min:
        return of_both(w.least, al, bl), of_either(w.least, ah, bh)
    return of_either(w.most, al, bl), of_both(w.most, ah, bh)


def _union(w: _Walk, a: Expr, b: Expr) -> Interval:
    (al, ah), (bl, bh) = w.of(a), w.of(b)
    return of_both(w.least, al, bl), of_both(w.most, ah, bh)


def _select(w: _Walk, e: Select) -> Interval:
    return _union(w, e.true_value, e.false_value)


def _call(w: _Walk, e: Call) -> Interval:
    return _union(w, e.args[1], e.args[2]) if e.op == "if_then_else" else (None, None)


def _cast(w: _Walk, e: Cast) -> Interval:
    """Widening keeps order; narrowing keeps it where the value fits (then it is not an atom)."""
    inner = e.value.dtype
    if inner not in INTS or not (e.type == "int64" or fits(atom_bounds(w.cx, e.value), e.type)):
        return None, None
    below = _Walk(w.cx, w.domains, inner)
    ends = [None if p is None else below.expr(p) for p in below.of(e.value)]
    low, high = [None if x is None else w.cx.poly(Cast(e.type, x)) for x in ends]
    return low, high


_INTERVALS: dict[type, Callable[[_Walk, Any], Interval]] = {
    FloorDiv: _floor_div,
    FloorMod: _floor_mod,
    Min: _extreme,
    Max: _extreme,
    Select: _select,
    Call: _call,
    Cast: _cast,
}


def interval(cx: Context, e: Expr, domains: Mapping[Var, Interval]) -> Interval:
    """Symbolic inclusive ends of `e`; ends of domains that mention other domains are resolved."""
    dtype = e.dtype
    low: Poly | None = cx.poly(e)
    high = low
    w = _Walk(cx, domains, dtype)
    for _ in range(len(domains) + 1):
        open_low, open_high = (p is not None and w.mentions(p) for p in (low, high))
        if not open_low and not open_high:
            return low, high
        low = w.ends(low)[0] if low is not None and open_low else low
        high = w.ends(high)[1] if high is not None and open_high else high
    # what still mentions a domain is caught in a circle
    return (
        None if low is None or w.mentions(low) else low,
        None if high is None or w.mentions(high) else high,
    )


# ---------------------------------------------------------------------------------- linear forms


def linear(cx: Context, p: Poly, variables: Iterable[Var]) -> tuple[dict[Var, Poly], Poly] | None:
    """Coefficients and rest; None where a variable occurs in another way than linearly."""
    wanted = list(dict.fromkeys(variables))
    inside = set(wanted)
    rest = p
    out: dict[Var, Poly] = {}
    for v in wanted:
        coefficient, rest = split_by(cx, rest, v)
        if coefficient is None:
            return None
        if coefficient.terms or coefficient.const:
            out[v] = coefficient
    for q in (*out.values(), rest):
        if any(v in inside for t in q.terms for v in free_vars(t)):
            return None
    return out, rest


# -------------------------------------------------------------------------------------- solving


def solve_bounds(cx: Context, condition: Expr, v: Var) -> Interval | None:
    """The half-open interval of `v` in which every comparison of a conjunction holds."""
    return _met(cx, (_solve_one(cx, cx.simplify(c), v) for c in conjuncts(condition)), v)


def _solve_one(cx: Context, c: Expr, v: Var) -> Interval | None:
    """The same for one simplified condition."""
    if len(conjuncts(c)) > 1:
        return solve_bounds(cx, c, v)
    if isinstance(c, IntImm):
        return (None, None) if c.value else (ZERO, ZERO)
    below = negative_forms(cx, c)
    if not below or c.a.dtype != v.dtype:  # type: ignore[attr-defined]
        return None
    return _met(cx, (_solve_negative(cx, p, v) for p in below), v)


def _met(cx: Context, found: Iterable[Interval | None], v: Var) -> Interval | None:
    """What lies in all of some intervals of a variable; None where one is not known."""
    w = _Walk(cx, {}, v.dtype)
    low: Poly | None = None
    high: Poly | None = None
    for ends in found:
        if ends is None:
            return None
        low, high = of_either(w.most, low, ends[0]), of_either(w.least, high, ends[1])
    return low, high


def _solve_negative(cx: Context, p: Poly, v: Var) -> Interval | None:
    """k*v + r < 0:  v < ceil(-r / k) for k > 0,  v >= r // -k + 1 for k < 0."""
    form = linear(cx, p, (v,))
    if form is None:
        return _solve_nested(cx, p, v)
    coefficients, r = form
    k = coefficients.get(v)
    if k is None:
        answer = below_zero(cx, r)
        return {Answer.YES: (None, None), Answer.NO: (ZERO, ZERO)}.get(answer)
    if positive(cx, k):
        top = add(subtract(k, r), constant(-1))
        return None, quotient(cx, top, k, v.dtype)
    k = scale(k, -1)
    if positive(cx, k):
        return add(quotient(cx, r, k, v.dtype), constant(1)), None
    return None


def _solve_nested(cx: Context, p: Poly, v: Var) -> Interval | None:
    """Conditions in which `v` stands below one min, max or quotient.

    max(a, b) + r < 0  =  a + r < 0 and b + r < 0;  likewise -min(a, b)
    x // d + r < 0  =  x + r*d < 0;  -(x // d) + r < 0  =  (r + 1)*d - 1 - x < 0;  for d > 0
    """
    inside = [(t, c) for t, c in p.terms.items() if v in free_vars(t)]
    if len(inside) != 1:
        return None
    t, c = inside[0]
    rest = subtract(p, atom(t, c))
    if (isinstance(t, Max) and c > 0) or (isinstance(t, Min) and c < 0):
        sides = [add(rest, cx.poly(x), c) for x in (t.a, t.b)]
        return _met(cx, (_solve_negative(cx, p, v) for p in sides), v)
    if isinstance(t, FloorDiv) and abs(c) == 1:
        d, x = cx.poly(t.b), cx.poly(t.a)
        if positive(cx, d):
            if c == 1:
                return _solve_negative(cx, add(x, cx.order.multiply(rest, d)), v)
            reach = cx.order.multiply(add(rest, constant(1)), d)
            return _solve_negative(cx, add(subtract(reach, x), constant(-1)), v)
    return None
