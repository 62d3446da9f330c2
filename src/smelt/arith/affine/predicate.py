"""Predicates of iterators: ranges that they narrow, and sums that they bound."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from smelt.ir.build import ceildiv
from smelt.ir.expr import Compare, Expr, IntImm, Var
from smelt.ir.walk import free_vars

from ..analyzer import Analyzer
from ..facts import conjuncts, negative_forms
from ..poly import Poly, scale
from .nodes import NotAffine


class Bound(NamedTuple):
    """low <= sum < high, as a condition says; None for an end without constraint."""

    sum: Poly
    low: Expr | None
    high: Expr | None
    condition: Expr

    @property
    def variable(self) -> Var | None:
        """The iterator, where the sum is just that."""
        t = self.sum.single()
        return t if isinstance(t, Var) else None


def read_predicate(
    an: Analyzer, predicate: Expr, iters: Collection[Var], dtype: str
) -> tuple[list[Bound], list[Expr]]:
    """The bounds that a conjunction sets, the fewest terms first, and what is something else."""
    found: list[Bound] = []
    unread: list[Expr] = []
    for c in conjuncts(an.simplify(predicate)):
        if isinstance(c, IntImm):
            if not c.value:
                raise NotAffine("the predicate is never true")
            continue
        bounds = _bounds(an, c, iters, dtype)
        found += bounds
        if not bounds:
            unread.append(c)
    return sorted(found, key=lambda b: len(b.sum.terms)), unread


def _bounds(an: Analyzer, c: Expr, iters: Collection[Var], dtype: str) -> list[Bound]:
    """What one comparison says about the sum of its terms that vary; nothing where it has none."""
    if not isinstance(c, Compare) or c.a.dtype != dtype:
        return []
    below = negative_forms(an.context, c)
    return [b for p in below if (b := _bound(an, p, c, iters, dtype)) is not None]


def _bound(an: Analyzer, p: Poly, c: Expr, iters: Collection[Var], dtype: str) -> Bound | None:
    """p < 0 as an end of the sum of the terms that vary, whose largest coefficient is positive."""
    cx = an.context
    varying = {t: k for t, k in p.terms.items() if any(v in iters for v in free_vars(t))}
    if not varying:
        return None
    rest = Poly({t: k for t, k in p.terms.items() if t not in varying}, p.const)
    leading = min(varying, key=lambda t: (-abs(varying[t]), cx.order.key(t)))
    upwards = varying[leading] > 0
    total = Poly(varying, 0) if upwards else scale(Poly(varying, 0), -1)
    # total < -rest, or  total > rest
    end = scale(rest, -1) if upwards else Poly(rest.terms, rest.const + 1)
    step = total.content()
    e = an.simplify(ceildiv(cx.build(end, dtype), step))
    total = total.divided(step)
    return Bound(total, None, e, c) if upwards else Bound(total, e, None, c)
