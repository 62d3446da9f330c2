"""From conditions to facts."""

from __future__ import annotations

from smelt.ir import expr
from smelt.ir.build import logical_not

from .bounds import intersect
from .context import Context
from .poly import INTS, Poly, scale, subtract


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


def learn(cx: Context, condition: expr.Expr) -> None:
    """Take a condition as true. The memory must be empty or unaffected."""
    polys = [(c, _difference(cx, c)) for c in conjuncts(condition)]
    for c, p in polys:
        cx.truths[c] = True
        cx.truths[logical_not(c)] = False
        if p is None:
            continue
        kind = type(c)
        if kind is expr.EQ:
            _learn_nonnegative(cx, p)
            _learn_nonnegative(cx, scale(p, -1))
            _learn_residue(cx, c)
        elif kind in (expr.LT, expr.LE):
            _learn_nonnegative(cx, Poly(scale(p, -1).terms, -p.const - (kind is expr.LT)))
        elif kind in (expr.GT, expr.GE):
            _learn_nonnegative(cx, Poly(p.terms, p.const - (kind is expr.GT)))
    cx.forget()


def _difference(cx: Context, c: expr.Expr) -> Poly | None:
    if isinstance(c, expr.Compare) and c.a.dtype in INTS and type(c) is not expr.NE:
        return subtract(cx.poly(c.a), cx.poly(c.b))
    return None


def _learn_nonnegative(cx: Context, p: Poly) -> None:
    """p >= 0: a bound of an atom where there is just one, else a fact."""
    if len(p.terms) == 1:
        ((t, c),) = p.terms.items()
        bound = (-(p.const // c), None) if c > 0 else (None, p.const // -c)
        cx.ranges[t] = intersect(cx.ranges.get(t, (None, None)), bound)
    elif p.terms:
        cx.facts.append(p)


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
        child = cx.extended()
        learn(child, condition if value else logical_not(condition))
        cx.children[key] = child
    return child
