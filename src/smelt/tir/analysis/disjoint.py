"""Whether two accesses in different iterations of a loop can be shown to touch different elements.

Two accesses touch one element only where all their indices agree. An index is a sum of terms; where
each term weighs more than all lighter ones together can, equal sums have equal terms, so that what
the terms say of the loop's variable is equal too. Where this gives the variable itself, different
iterations touch different elements.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from smelt.arith import Analyzer
from smelt.arith.affine.sums import determined, heavy_terms, near, sum_bounds
from smelt.arith.bounds import atom_bounds, union
from smelt.arith.context import Bounds, Context
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
        places = here, there = self.at(a), self.at(b)
        first, last = atom_bounds(here, loop.var)
        if first is not None and first == last and atom_bounds(there, loop.var) == (first, last):
            return True  # it happens in one iteration only
        known: list[Expr] = []
        sums: list[Expr] = []
        for pair in zip(a.indices, b.indices, strict=True):
            known += self.shared_terms(pair, places, loop.var, same)
            if pair[0] is pair[1]:
                sums.append(pair[0])
            elif self.separate(pair, places, same):
                return True
        # where both happen only if an equation holds, its sides are two more equal sums
        sums += [g.a - g.b for g in a.guards if isinstance(g, EQ) and g in b.guards]
        return self.determines(loop.var, sums, known, same, *places)

    def all_disjoint(self, loop: Loop, accesses: Sequence[Access], same: set[Var]) -> bool:
        """Whether different iterations of `loop` certainly touch different elements, whichever of
        several accesses they do; quick, for the many copies that unrolling makes.
        """
        if any(a.indices is None for a in accesses):
            return False
        places = [self.at(a) for a in accesses]
        known: list[Expr] = []
        for sums in zip(*[a.indices or () for a in accesses], strict=True):
            known += self.shared_terms(sums, places, loop.var, same)
        return self.determines(loop.var, (), known, same, *dict.fromkeys(places))

    def separate(self, sums: Sequence[Expr], places: Sequence[Context], same: set[Var]) -> bool:
        """Whether two sums have no value in common, whatever the iterations are."""
        (low, high), (first, last) = self.rests(sums, places, same)[1]
        return (high is not None and first is not None and high < first) or (
            low is not None and last is not None and last < low
        )

    def rests(
        self, sums: Sequence[Expr], places: Sequence[Context], fixed: set[Var]
    ) -> tuple[dict[Expr, int], list[Bounds]]:
        """The terms of sizes and fixed variables that are equal in some sums, each from a place of
        its own, and between what numbers the rest of each sum is.
        """
        p, *others = forms = [self.form(e) for e in sums]
        fixed = fixed | set(self.sizes)
        equal = {
            t: c
            for t, c in p.terms.items()
            if all(q.terms.get(t) == c for q in others) and free_vars(t) <= fixed
        }
        common = Poly(equal, 0)
        return equal, [
            sum_bounds(cx, subtract(q, common)) for q, cx in zip(forms, places, strict=True)
        ]

    def shared_terms(
        self, sums: Sequence[Expr], places: Sequence[Context], var: Var, same: set[Var]
    ) -> list[Expr]:
        """Terms in `var` alone that are equal wherever some sums are, each from its place."""
        equal, ends = self.rests(sums, places, same | {var})
        low, high = functools.reduce(union, ends)
        if low is None or high is None:
            return []
        own = {t: c for t, c in equal.items() if var in free_vars(t)}
        return heavy_terms(own, functools.partial(near, list(dict.fromkeys(places))), high - low)

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
        return var in determined(base, sums, varies, functools.partial(near, places), known)

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
