"""From conditions to facts."""

from __future__ import annotations

from smelt.ir import expr
from smelt.ir.build import logical_not

from .bounds import deep, intersect
from .context import Context
from .poly import INTS, Poly, add, atom, scale, subtract


def bare(c: expr.Expr) -> expr.Expr:
    """A condition without the hint that it is likely."""
    while isinstance(c, expr.Call) and c.op == "likely":
        (c,) = c.args
    return c


def conjuncts(e: expr.Expr) -> list[expr.Expr]:
    """The conditions that all hold where `e` holds."""
    out: list[expr.Expr] = []
    stack = [e]
    while stack:
        c = bare(stack.pop())
        if isinstance(c, expr.And):
            stack += (c.b, c.a)
        elif isinstance(c, expr.Not) and isinstance(c.a, expr.Or):
            stack += (logical_not(c.a.b), logical_not(c.a.a))
        else:
            out.append(c)
    return out


def negative_forms(cx: Context, c: expr.Expr) -> list[Poly]:
    """What is negative exactly where a comparison of int32 or int64 holds; nothing for others."""
    if not isinstance(c, expr.Compare) or c.a.dtype not in INTS:
        return []
    d, forms = subtract(cx.poly(c.a), cx.poly(c.b)), []
    if isinstance(c, expr.LT | expr.LE | expr.EQ):
        forms.append(Poly(d.terms, d.const - (not isinstance(c, expr.LT))))
    if isinstance(c, expr.GT | expr.GE | expr.EQ):
        forms.append(Poly(scale(d, -1).terms, -d.const - (not isinstance(c, expr.GT))))
    return forms


def negated(p: Poly) -> Poly:
    """not (p < 0)  =  (-p - 1 < 0)."""
    return Poly(scale(p, -1).terms, -p.const - 1)


def learn(cx: Context, condition: expr.Expr) -> None:
    """Take a condition as true. The memory must be empty or unaffected."""
    for c, forms in [(c, negative_forms(cx, c)) for c in conjuncts(condition)]:
        cx.truths[c] = True
        cx.truths[logical_not(c)] = False
        for p in forms:
            _learn_nonnegative(cx, negated(p))
        _learn_residue(cx, c)
    cx.forget()


def _learn_nonnegative(cx: Context, p: Poly) -> None:
    """p >= 0: a bound of an atom where there is just one, else a fact."""
    if len(p.terms) == 1:
        ((t, c),) = p.terms.items()
        bound = (-(p.const // c), None) if c > 0 else (None, p.const // -c)
        cx.ranges[t] = intersect(cx.ranges.get(t, (None, None)), bound)
        _learn_divided(cx, t, *bound)
    elif p.terms:
        cx.facts.append(p)
    for t, c in p.terms.items():
        if isinstance(t, expr.Min if c > 0 else expr.Max):  # what holds for either operand
            for e in (t.a, t.b):
                _learn_nonnegative(cx, add(p, subtract(cx.poly(e), atom(t)), c))
            break  # the next one is taken there


def _learn_divided(cx: Context, t: expr.Expr, low: int | None, high: int | None) -> None:
    """What a bound of a quotient says of what is divided."""
    match t:
        case expr.FloorDiv(x, expr.IntImm(_, m)) if m > 1:
            p = cx.poly(x)
            if low is not None:
                _learn_nonnegative(cx, Poly(p.terms, p.const - low * m))
            if high is not None:
                p = scale(p, -1)
                _learn_nonnegative(cx, Poly(p.terms, p.const + high * m + m - 1))


def _learn_residue(cx: Context, c: expr.Expr) -> None:
    match c:
        case expr.EQ(expr.FloorMod(x, expr.IntImm(_, m)), expr.IntImm(_, r)) if (
            m > 1 and isinstance(x, expr.Var)
        ):
            cx.moduli[x] = (m, r % m)


def under(cx: Context, condition: expr.Expr, value: bool) -> Context:
    """The context in which a condition has a value."""
    condition = bare(condition)
    key = (condition, value)
    child = cx.children.get(key)
    if child is None:
        child = new = cx.extended()
        known = condition if value else logical_not(condition)
        deep(new, lambda: learn(new, known), known)
        cx.children[key] = child
    return child
