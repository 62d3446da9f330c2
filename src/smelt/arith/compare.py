"""Comparisons and truth values: normal forms and proofs."""

from __future__ import annotations

from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, any_of, logical_not
from smelt.ir.expr import EQ, GE, GT, LE, LT, NE, And, Compare, Expr, FloorDiv, IntImm, Not, Or, Var

from .answer import Answer
from .bounds import expr_bounds, poly_bounds, residue
from .context import Context, rebuild, value_rule
from .facts import bare, conjuncts, negated, negative_forms
from .poly import INTS, Poly, scale, subtract
from .prove import nonnegative
from .vectors import compare_lanes

TRUE = IntImm("bool", 1)
FALSE = IntImm("bool", 0)


def below_zero(cx: Context, p: Poly) -> Answer:
    """Whether p < 0."""
    low, high = poly_bounds(cx, p)
    if high is not None and high < 0:
        return Answer.YES
    if low is not None and low >= 0:
        return Answer.NO
    if nonnegative(cx, negated(p)):
        return Answer.YES
    return Answer.NO if nonnegative(cx, p) else Answer.UNKNOWN


def equals_zero(cx: Context, p: Poly) -> Answer:
    """Whether p = 0."""
    if not p.terms:
        return Answer.of(p.const == 0)
    low, high = poly_bounds(cx, p)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return Answer.NO
    m, base = residue(cx, p)
    if (m and base % m) or (not m and base):
        return Answer.NO
    flipped = scale(p, -1)
    if nonnegative(cx, Poly(p.terms, p.const - 1)) or nonnegative(
        cx, Poly(flipped.terms, flipped.const - 1)
    ):
        return Answer.NO
    if nonnegative(cx, p) and nonnegative(cx, flipped):
        return Answer.YES
    return Answer.UNKNOWN


@value_rule(LT, LE, GT, GE, EQ, NE)
def _compare(cx: Context, e: Compare) -> Expr:
    dtype = e.a.dtype
    if dtype not in INTS:
        return _compare_other(cx, e)
    if isinstance(e, EQ | NE):
        return _equality(cx, type(e), subtract(cx.poly(e.a), cx.poly(e.b)), dtype)
    (p,) = negative_forms(cx, e)
    return _below(cx, p, dtype)


def _known(cx: Context, e: Expr) -> Expr:
    if cx.truths:
        found = cx.truths.get(e)
        if found is not None:
            return TRUE if found else FALSE
    return e


def _below(cx: Context, p: Poly, dtype: str) -> Expr:
    """The normal form of p < 0."""
    answer = below_zero(cx, p)
    if answer is not Answer.UNKNOWN:
        return TRUE if answer is Answer.YES else FALSE
    g = p.content()
    if g > 1:
        # g*s + c < 0  =  s + c // g < 0
        p = Poly({t: c // g for t, c in p.terms.items()}, p.const // g)
    p = _without_small_part(cx, p)
    if len(p.terms) == 1:
        ((t, c),) = p.terms.items()
        if type(t) is FloorDiv and isinstance(t.b, IntImm) and t.b.value > 0:
            # x // d < k  =  x < k*d;   -(x // d) < k  =  x >= (1 - k)*d
            d, x = t.b.value, cx.poly(t.a)
            if c == 1:
                return _below(cx, Poly(x.terms, x.const + p.const * d), dtype)
            return _below(cx, negated(Poly(x.terms, x.const - (1 + p.const) * d)), dtype)
    return _known(cx, _ordered(cx, p, dtype))


def _without_small_part(cx: Context, p: Poly) -> Poly:
    """x*g + y < 0  =  x < k  where y is too small to matter."""
    if len(p.terms) == 1:
        return p
    for g in sorted({abs(c) for c in p.terms.values()}, reverse=True):
        if g == 1:
            break
        y = Poly({t: c for t, c in p.terms.items() if c % g}, p.const)
        if len(y.terms) == len(p.terms) or not y.terms:
            continue
        low, high = poly_bounds(cx, y)
        # holds for x <= (-1 - high) // g, fails for x > (-1 - low) // g
        if low is not None and high is not None and (-1 - high) // g == (-1 - low) // g:
            x = {t: c // g for t, c in p.terms.items() if c % g == 0}
            return _without_small_part(cx, Poly(x, -((-1 - low) // g) - 1))
    return p


def _ordered(cx: Context, p: Poly, dtype: str) -> Expr:
    """p < 0 with positive terms on the left and negative ones on the right."""
    left = {t: c for t, c in p.terms.items() if c > 0}
    right = {t: -c for t, c in p.terms.items() if c < 0}
    build = cx.order.build
    if not left:
        # -s < k  =  s >= 1 - k
        return GE(build(Poly(right, 0), dtype), IntImm(dtype, p.const + 1))
    if not right or p.const < 0:
        return LT(build(Poly(left, 0), dtype), build(Poly(right, -p.const), dtype))
    return LT(build(Poly(left, p.const), dtype), build(Poly(right, 0), dtype))


def _equality(cx: Context, kind: type, d: Poly, dtype: str) -> Expr:
    answer = equals_zero(cx, d)
    if answer is not Answer.UNKNOWN:
        return TRUE if (answer is Answer.YES) == (kind is EQ) else FALSE
    g = d.content()
    if g > 1:
        d = d.divided(g)  # the residue has shown that g divides the constant
    first = cx.order.sorted_terms(d)
    leading = min((t for t, _ in first), key=cx.order.key)
    if d.terms[leading] < 0:
        d = scale(d, -1)
    left = Poly({t: c for t, c in d.terms.items() if c > 0}, 0)
    right = Poly({t: -c for t, c in d.terms.items() if c < 0}, -d.const)
    if right.terms and right.const < 0:
        left, right = Poly(left.terms, -right.const), Poly(right.terms, 0)
    return _known(cx, kind(cx.order.build(left, dtype), cx.order.build(right, dtype)))


def _compare_other(cx: Context, e: Compare) -> Expr:
    """Floats are left alone; narrow integers are decided by bounds; lanes by their scalars."""
    a, b = cx.simplify(e.a), cx.simplify(e.b)
    if dt.lanes(a.dtype) > 1:
        return compare_lanes(cx, type(e), a, b)
    new = e if a is e.a and b is e.b else type(e)(a, b)
    if dt.kind(a.dtype) in ("int", "uint", "bool"):
        (al, ah), (bl, bh) = expr_bounds(cx, a), expr_bounds(cx, b)
        if al is not None and ah is not None and bl is not None and bh is not None:
            answer = _by_bounds(type(e), al - bh, ah - bl)
            if answer is not Answer.UNKNOWN:
                return TRUE if answer is Answer.YES else FALSE
        if a is b:
            return TRUE if type(e) in (EQ, LE, GE) else FALSE
    return _known(cx, new)


def _by_bounds(kind: type, low: int, high: int) -> Answer:
    """A comparison of two numbers whose difference lies between two others."""
    if kind in _NEGATIONS:
        return _by_bounds(_NEGATIONS[kind], low, high).negate()
    if kind is EQ:
        yes, no = low == high == 0, low > 0 or high < 0
    else:
        most = -1 if kind is LT else 0
        yes, no = high <= most, low > most
    return Answer.YES if yes else Answer.NO if no else Answer.UNKNOWN


_NEGATIONS: dict[type, type] = {NE: EQ, GE: LT, GT: LE}


# ---------------------------------------------------------------------------------- connectives


@value_rule(And)
def _and(cx: Context, e: And) -> Expr:
    """Each condition once; of several bounds of one sum the tightest; false where they exclude."""
    if dt.lanes(e.dtype) > 1:
        return rebuild(cx, e)
    parts: list[Expr] = []
    for c in conjuncts(e):
        parts += conjuncts(cx.simplify(c))
    kept = list(dict.fromkeys(parts))
    if any(c is FALSE or logical_not(c) in kept for c in kept):
        return FALSE
    bounds: dict[frozenset[Any], tuple[int, Expr]] = {}
    dropped: set[Expr] = set()
    for c in kept:
        if isinstance(c, EQ) or not (forms := negative_forms(cx, c)):
            continue
        (p,) = forms
        key = frozenset(p.terms.items())
        other = bounds.get(key)
        if other is None or p.const > other[0]:
            if other is not None:
                dropped.add(other[1])
            bounds[key] = (p.const, c)
        elif other[1] is not c:
            dropped.add(c)
        opposite = bounds.get(frozenset((t, -k) for t, k in p.terms.items()))
        # s + a < 0 and -s + b < 0  need  a + b + 1 < 0
        if opposite is not None and opposite[0] + p.const + 1 >= 0:
            return FALSE
    return all_of([c for c in kept if c not in dropped])


@value_rule(Or)
def _or(cx: Context, e: Or) -> Expr:
    """a or b = not (not a and not b), for what the conjunction decides."""
    if dt.lanes(e.dtype) > 1:
        return rebuild(cx, e)
    parts = [x for c in _operands(e, Or) for x in _operands(cx.simplify(c), Or)]
    kept = list(dict.fromkeys(parts))
    if any(c is TRUE or logical_not(c) in kept for c in kept):
        return TRUE
    if len(kept) > 1 and all(type(c) in (LT, LE, GT, GE) for c in kept):
        opposite = cx.simplify(all_of([logical_not(c) for c in kept]))
        if isinstance(opposite, IntImm):
            return FALSE if opposite.value else TRUE
        return any_of([cx.simplify(logical_not(c)) for c in conjuncts(opposite)])
    return any_of(kept)


@value_rule(Not)
def _not(cx: Context, e: Not) -> Expr:
    """Negation moves inwards, except through comparisons of floats."""
    a = cx.simplify(e.a)
    if dt.lanes(a.dtype) > 1:
        return e if a is e.a else Not(a)
    if isinstance(a, And):
        return cx.simplify(any_of(logical_not(a.a), logical_not(a.b)))
    if isinstance(a, Or):
        return cx.simplify(all_of(logical_not(a.a), logical_not(a.b)))
    new = logical_not(a)
    return _known(cx, new) if isinstance(new, Not) else cx.simplify(new)


@value_rule(Var)
def _bool_var(cx: Context, e: Var) -> Expr:
    value = cx.values.get(e)
    if value is not None:
        return cx.simplify(value)
    return _known(cx, e) if e.type == "bool" else e


# --------------------------------------------------------------------------------------- proofs


def prove(cx: Context, condition: Expr) -> Answer:
    """Whether a condition always (YES) or never (NO) holds."""
    condition = bare(condition)
    kind = type(condition)
    if isinstance(condition, IntImm):
        return Answer.of(condition.value)
    if kind is And or kind is Or:
        answers = {prove(cx, c) for c in _operands(condition, kind)}
        decisive = Answer.NO if kind is And else Answer.YES
        if decisive in answers:
            return decisive
        if Answer.UNKNOWN not in answers:
            return decisive.negate()
    elif kind is Not:
        return prove(cx, condition.a).negate()  # type: ignore[attr-defined]
    elif isinstance(condition, Compare) and condition.a.dtype in INTS:
        if kind in (EQ, NE):
            answer = equals_zero(cx, subtract(cx.poly(condition.a), cx.poly(condition.b)))
            return answer if kind is EQ else answer.negate()
        (p,) = negative_forms(cx, condition)
        return below_zero(cx, p)
    simple = cx.simplify(condition)
    return Answer.of(simple.value) if isinstance(simple, IntImm) else Answer.UNKNOWN


def _operands(e: Expr, kind: type) -> list[Expr]:
    """What a chain of `and` (or `or`) joins."""
    out: list[Expr] = []
    stack = [e]
    while stack:
        c = stack.pop()
        if type(c) is kind:
            stack += (c.b, c.a)  # type: ignore[attr-defined]
        else:
            out.append(c)
    return out
