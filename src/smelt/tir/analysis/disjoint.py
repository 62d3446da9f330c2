"""Whether two accesses in different iterations of a loop can be shown to touch different elements.

Two accesses touch one element only where all their indices agree. An index is a sum of terms; where
each term weighs more than all lighter ones together can, equal sums have equal terms, so that what
the terms say of the loop's variable is equal too. Where this gives the variable itself, different
iterations touch different elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from smelt.arith import Analyzer
from smelt.arith.bounds import atom_bounds
from smelt.arith.context import Context
from smelt.arith.equal_sums import determined, heavy_terms, near, sum_bounds
from smelt.arith.poly import INTS, Poly, atom, subtract
from smelt.ir.build import all_of
from smelt.ir.expr import EQ, Expr, Var
from smelt.ir.walk import free_vars, substitute

from .parallel_accesses import Access, Loop


class Disjointness:
    """Proofs for one program."""

    def __init__(self, sizes: Iterable[Var], accesses: Iterable[Access]) -> None:
        """sizes: symbolic ones, at least 1."""
        self.sizes = tuple(sizes)
        self.analyzer = Analyzer(dict.fromkeys(self.sizes, (1, None)))
        for x in dict.fromkeys(x for a in accesses for x in a.loops):
            self.analyzer.bind(x.var, x.low, x.iterations)
        self.forms: dict[Expr, Poly] = {}
        self.known: dict[tuple[Expr, ...], Context] = {}

    def form(self, e: Expr) -> Poly:
        """A sum of terms with constant weights, and a constant."""
        if e not in self.forms:
            self.forms[e] = self.analyzer.context.poly(e) if e.dtype in INTS else atom(e)
        return self.forms[e]

    def at(self, access: Access) -> Context:
        """What is known where an access happens."""
        found = self.known.get(access.guards)
        if found is None:
            with self.analyzer.assume(all_of(access.guards)) as an:
                found = self.known[access.guards] = an.context
        return found

    # -------------------------------------------------------------------------------- proofs

    def disjoint(self, loop: Loop, a: Access, b: Access, same: set[Var]) -> bool:
        """Whether different iterations of `loop` certainly touch different elements.

        same  variables with one value in both accesses; all others but sizes are free
        """
        if a.indices is None or b.indices is None:
            return False
        here, there = self.at(a), self.at(b)
        first, last = atom_bounds(here, loop.var)
        if first is not None and first == last and atom_bounds(there, loop.var) == (first, last):
            return True  # it happens in one iteration only
        known: list[Expr] = []
        sums: list[Expr] = []
        for x, y in zip(a.indices, b.indices, strict=True):
            known += self.shared_terms(x, y, loop.var, same, here, there)
            if x is y:
                sums.append(x)
            elif self.separate(x, y, same, here, there):
                return True
        # where both happen only if an equation holds, its sides are two more equal sums
        sums += [g.a - g.b for g in a.guards if isinstance(g, EQ) and g in b.guards]
        return self.determines(loop.var, sums, known, same, here, there)

    def all_disjoint(self, loop: Loop, accesses: Sequence[Access], same: set[Var]) -> bool:
        """Whether different iterations of `loop` certainly touch different elements, whichever of
        several accesses they do; quick, for the many copies that unrolling makes.
        """
        if any(a.indices is None for a in accesses):
            return False
        fixed, known = same | set(self.sizes), list[Expr]()
        at = self.at(replace(accesses[0], guards=()))
        for d in range(len(accesses[0].indices or ())):
            first: dict[Expr, int] | None = None
            low: list[int] = []
            high: list[int] = []
            for a in accesses:
                p = self.form((a.indices or ())[d])
                own = {t: c for t, c in p.terms.items() if free_vars(t) <= fixed | {loop.var}}
                first = own if first is None else first
                ends = sum_bounds(self.at(a), subtract(p, Poly(own, 0)))
                if own != first or ends[0] is None or ends[1] is None:
                    break
                low.append(ends[0])
                high.append(ends[1])
            else:
                moving = {t: c for t, c in (first or {}).items() if loop.var in free_vars(t)}
                known += heavy_terms(moving, partial(near, [at]), max(high) - min(low))
        return self.determines(loop.var, (), known, same, at)

    def separate(self, x: Expr, y: Expr, same: set[Var], here: Context, there: Context) -> bool:
        """Whether two sums have no value in common, whatever the iterations are."""
        left, right = self.rests(x, y, same)
        (low, high), (first, last) = sum_bounds(here, left), sum_bounds(there, right)
        return (high is not None and first is not None and high < first) or (
            low is not None and last is not None and last < low
        )

    def rests(self, x: Expr, y: Expr, fixed: set[Var]) -> tuple[Poly, Poly]:
        """Two sums without the terms that are equal in both: those of sizes and fixed variables."""
        p, q = self.form(x), self.form(y)
        fixed = fixed | set(self.sizes)
        equal = {t: c for t, c in p.terms.items() if q.terms.get(t) == c and free_vars(t) <= fixed}
        return subtract(p, Poly(equal, 0)), subtract(q, Poly(equal, 0))

    def shared_terms(
        self, x: Expr, y: Expr, var: Var, same: set[Var], here: Context, there: Context
    ) -> list[Expr]:
        """Terms in `var` alone that are equal wherever two sums are."""
        left, right = self.rests(x, y, same | {var})
        own = {
            t: c
            for t, c in self.form(x).terms.items()
            if t not in left.terms and var in free_vars(t)
        }
        (low, high), (first, last) = sum_bounds(here, left), sum_bounds(there, right)
        if low is None or high is None or first is None or last is None:
            return []
        width = max(high, last) - min(low, first)
        return heavy_terms(own, partial(near, [here, there]), width)

    def determines(
        self,
        var: Var,
        sums: Sequence[Expr],
        known: Sequence[Expr],
        same: set[Var],
        *places: Context,
    ) -> bool:
        """Whether equal values of `sums` and of `known` certainly have equal values of `var`."""
        fixed = same | set(self.sizes)

        def varies(t: Expr) -> bool:
            return not free_vars(t) <= fixed

        base = self.analyzer.context
        return var in determined(base, sums, varies, partial(near, places), known)

    # ------------------------------------------------------------------------ the slow way

    def moves_on(self, loop: Loop, a: Access, b: Access, same: set[Var]) -> bool:
        """Whether an index is always further on in later iterations, by their intervals."""
        if a.indices is None or b.indices is None:
            return False
        for x, y in zip(a.indices, b.indices, strict=True):
            moving = loop.var in free_vars(x) and loop.var in free_vars(y)
            if moving and not (self.is_numeric(x, a) and self.is_numeric(y, b)):
                ends = self.ends(loop, x, a, same), self.ends(loop, y, b, same)
                if self.ordered(loop, *ends):
                    return True
        return False

    def is_numeric(self, e: Expr, access: Access) -> bool:
        """Whether the ranges of a sum's terms are numbers: then the fast way sees all."""
        cx = self.at(access)
        return all(None not in atom_bounds(cx, t) for t in self.form(e).terms)

    def ends(self, loop: Loop, e: Expr, access: Access, same: set[Var]) -> tuple[Expr, Expr] | None:
        """The smallest and the largest value of an index in one iteration of a loop."""
        inner = [x for x in access.loops[access.loops.index(loop) + 1 :] if x.var not in same]
        return self.analyzer.interval(e, {x.var: (x.low, x.iterations) for x in inner})

    def ordered(
        self, loop: Loop, first: tuple[Expr, Expr] | None, second: tuple[Expr, Expr] | None
    ) -> bool:
        """Whether what two intervals hold always grows, or always falls, with the iterations."""
        if first is None or second is None:
            return False
        further = Var("further", loop.var.type)
        self.analyzer.bind(further, (0, None))
        (x0, x1), (y0, y1) = first, second
        later = {loop.var: loop.var + 1 + further}
        x2, x3, y2, y3 = (substitute(e, later) for e in (x0, x1, y0, y1))
        prove = self.analyzer.can_prove
        return (prove(x1 < y2) and prove(y1 < x2)) or (prove(x0 > y3) and prove(y0 > x3))
