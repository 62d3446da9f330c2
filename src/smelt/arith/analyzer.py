"""The Analyzer: what the rest of the compiler asks about integer expressions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TypeAlias

from smelt.ir.expr import EQ, Expr, ExprLike, IntImm, Var, convert
from smelt.ir.node import postorder
from smelt.ir.walk import free_vars

from . import compare as _compare
from .answer import Answer
from .bounds import expr_bounds, poly_bounds, residue
from .context import Bounds, Context
from .facts import learn
from .poly import INTS, Poly, add, dtype_of, subtract
from .simplify import merge
from .solve import Interval, interval, linear, solve_bounds

__all__ = ["Analyzer", "Domain", "RangeLike", "as_domain"]


class RangeLike(Protocol):
    """Anything with a first value and a number of values."""

    @property
    def min(self) -> Expr:
        """The first value."""

    @property
    def extent(self) -> Expr:
        """How many values."""


Domain: TypeAlias = tuple[ExprLike, ExprLike] | RangeLike | Expr | int
"""(low, extent), a Range, or an extent from 0."""


def as_domain(domain: Domain) -> tuple[Expr, Expr]:
    """(low, extent) of any way to write a range."""
    if isinstance(domain, int | Expr):
        return convert(0), convert(domain)
    if isinstance(domain, tuple):
        return convert(domain[0]), convert(domain[1])
    return domain.min, domain.extent


class Analyzer:
    """Simplifies and proves, under what is known about the variables.

    Variables are bound by `bind`; facts hold inside `with analyzer.assume(condition):`. Everything
    derived is remembered until the facts change, so keep one Analyzer for a whole walk.
    """

    def __init__(self, domains: Mapping[Var, Domain] | None = None) -> None:
        """Start with these variables bound."""
        self._stack: list[Context] = [Context()]
        self.context = self._stack[0]
        self._shared = False
        for v, d in (domains or {}).items():
            self.bind(v, *as_domain(d))

    # ------------------------------------------------------------------------------- facts

    def bind(self, var: Var, low: ExprLike, extent: ExprLike | None = None) -> None:
        """`var` runs over low, ..., low + extent - 1; upwards without end where extent is None."""
        first = convert(low, var.dtype)
        count = None if extent is None else convert(extent, var.dtype)
        for cx in self._own():
            _bind(cx, var, first, count)

    def bind_range(self, var: Var, rng: Domain) -> None:
        """`var` runs over a Range, a pair (low, extent), or 0 ... extent - 1."""
        self.bind(var, *as_domain(rng))

    def bind_value(self, var: Var, value: ExprLike) -> None:
        """`var` stands for a value."""
        e = convert(value, var.dtype)
        for cx in self._own():
            known = var in cx.polys or var in cx.simple or var in cx.values
            cx.values[var] = cx.simplify(e)
            cx.children.clear()
            if known:
                cx.forget()

    def assume_positive(self, var: Var) -> None:
        """`var` is a size: at least 1."""
        self.bind(var, 1)

    @contextmanager
    def assume(self, condition: ExprLike) -> Iterator[Analyzer]:
        """Inside the `with` block the condition is true."""
        c = self.context.simplify(convert(condition))
        if isinstance(c, IntImm):
            yield self
            return
        child = self.context.children.get((c, True))
        if child is None:
            child = self.context.extended()
            learn(child, c)
            self.context.children[c, True] = child
        self._stack.append(child)
        self.context = child
        try:
            yield self
        finally:
            self._stack.pop()
            self.context = self._stack[-1]

    # ---------------------------------------------------------------------- simplification

    def simplify(self, e: ExprLike) -> Expr:
        """The simplest known form; the value never changes, floats are left alone."""
        x = convert(e)
        found = self.context.simple.get(x)
        if found is not None:
            return found
        try:
            return self.context.simplify(x)
        except RecursionError:
            for part in postorder(x):
                if isinstance(part, Expr):
                    self.context.simplify(part)
            return self.context.simplify(x)

    def bounds(self, e: ExprLike) -> Bounds:
        """Constant inclusive bounds; None where there is none."""
        return expr_bounds(self.context, self._known(e))

    def modular(self, e: ExprLike) -> tuple[int, int]:
        """(coefficient, base): e = coefficient * q + base; coefficient 0 for a constant."""
        x = self._known(e)
        return residue(self.context, self.context.poly(x)) if dtype_of(x) in INTS else (1, 0)

    def _known(self, e: ExprLike) -> Expr:
        """The expression; a deep one is simplified first, so that later walks are shallow."""
        x = convert(e)
        if x not in self.context.polys:
            self.simplify(x)
        return x

    # ------------------------------------------------------------------------------ proofs

    def prove(self, condition: ExprLike) -> Answer:
        """YES where the condition is always true, NO where it is always false."""
        c = convert(condition)
        found = self.context.simple.get(c)
        if isinstance(found, IntImm):
            return Answer.of(found.value)
        try:
            return _compare.prove(self.context, c)
        except RecursionError:
            self.simplify(c)
            return _compare.prove(self.context, c)

    def can_prove(self, condition: ExprLike) -> bool:
        """Whether the condition is shown to be always true."""
        return self.prove(condition) is Answer.YES

    def can_prove_equal(self, a: ExprLike, b: ExprLike) -> bool:
        """Whether two values are shown to be always equal."""
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        x = convert(a)
        y = convert(b, x.dtype) if isinstance(a, Expr) else convert(b)
        x = convert(a, y.dtype)
        if x is y:
            return True
        if dtype_of(x) not in INTS or dtype_of(y) not in INTS:
            return self.simplify(x) is self.simplify(y)
        if dtype_of(x) != dtype_of(y):
            return self.can_prove(EQ(x.astype("int64"), y.astype("int64")))
        d = subtract(self.context.poly(x), self.context.poly(y))
        return _compare.equals_zero(self.context, d) is Answer.YES

    # ----------------------------------------------------------------------- symbolic forms

    def interval(self, e: ExprLike, domains: Mapping[Var, Domain]) -> tuple[Expr, Expr] | None:
        """Symbolic inclusive (min, max) of `e` while the variables run over their domains.

        Other variables stay symbolic. Exact for linear and monotone expressions, possibly wider
        otherwise; None where an end is unknown. A domain may mention variables of other domains.
        """
        x = convert(e)
        if dtype_of(x) not in INTS:
            return None
        cx, ends = self._inside(domains)
        low, high = interval(cx, x, ends)
        if low is None or high is None:
            return None
        dtype = dtype_of(x)
        return self.simplify(cx.build(low, dtype)), self.simplify(cx.build(high, dtype))

    def inside(self, domains: Mapping[Var, Domain]) -> Analyzer:
        """Another Analyzer that knows this one's facts, with these variables bound (anew).

        Asking again for the same domains gives one that remembers what it has derived.
        """
        new = Analyzer()
        new.context = self._inside(domains)[0]
        new._stack = [new.context]
        new._shared = True
        return new

    def _own(self) -> list[Context]:
        """The contexts a binding goes to; one shared with another Analyzer is copied first."""
        if self._shared:
            self._stack[0] = self._stack[0].extended()
            self.context = self._stack[-1]
            self._shared = False
        return self._stack

    def _inside(self, domains: Mapping[Var, Domain]) -> tuple[Context, dict[Var, Interval]]:
        pairs = tuple([(v, *as_domain(d)) for v, d in domains.items()])
        key = ("domains", pairs)
        child = self.context.children.get(key)
        if child is None:
            child = self.context.extended()
            for v, low, extent in pairs:
                child.values.pop(v, None)
                _bind(child, v, convert(low, v.dtype), convert(extent, v.dtype))
            self.context.children[key] = child
        ends: dict[Var, Interval] = {}
        for v, low, extent in pairs:
            first = child.poly(low)
            ends[v] = (first, _last(child, first, child.poly(extent), v.dtype))
        return child, ends

    def linear(self, e: ExprLike, variables: Iterable[Var]) -> tuple[dict[Var, Expr], Expr] | None:
        """Coefficients (of the variables that occur) and rest; None where `e` is not linear."""
        x = convert(e)
        if dtype_of(x) not in INTS:
            return None
        form = linear(self.context, self.context.poly(x), variables)
        if form is None:
            return None
        build, dtype = self.context.build, dtype_of(x)
        return {v: build(c, dtype) for v, c in form[0].items()}, build(form[1], dtype)

    def solve_bounds(self, condition: ExprLike, var: Var) -> tuple[Expr | None, Expr | None] | None:
        """The half-open interval [low, high) of `var` in which the whole condition holds.

        For conjunctions of comparisons linear in `var`. None for an end without constraint; None
        as result where the condition cannot be expressed so. An empty interval has high <= low.
        """
        cx = self._unbound(var)
        ends = solve_bounds(cx, convert(condition), var)
        if ends is None:
            return None
        low, high = (None if p is None else self.simplify(cx.build(p, var.dtype)) for p in ends)
        return low, high

    def _unbound(self, var: Var) -> Context:
        """The context without the range of a variable, which would hide its conditions."""
        key = ("unbound", var)
        child = self.context.children.get(key)
        if child is None:
            child = self.context.children[key] = self.context.extended()
            child.ranges = {t: b for t, b in child.ranges.items() if var not in free_vars(t)}
            child.moduli = {t: m for t, m in child.moduli.items() if var not in free_vars(t)}
            child.truths = {c: x for c, x in child.truths.items() if var not in free_vars(c)}
            child.facts = [f for f in child.facts if not any(var in free_vars(t) for t in f.terms)]
            child.symbolic.pop(var, None)
            child.values.pop(var, None)
        return child


def _last(cx: Context, first: Poly, count: Poly, dtype: str) -> Poly:
    end = merge(cx, add(first, count), dtype)
    return Poly(end.terms, end.const - 1)


def _bind(cx: Context, var: Var, low: Expr, extent: Expr | None) -> None:
    """Record a range; forget what was derived if the variable has been met before."""
    met = var in cx.polys or var in cx.ranges or var in cx.symbolic or var in cx.values
    first = cx.poly(low)
    lowest = poly_bounds(cx, first)[0]
    highest: int | None = None
    symbolic = bool(first.terms)
    last = None
    if extent is not None:
        count = cx.poly(extent)
        last = _last(cx, first, count, var.dtype)
        highest = poly_bounds(cx, last)[1]
        symbolic = symbolic or bool(count.terms)
    ends = (first, last) if symbolic and last is not None else None
    if met:
        if cx.ranges.get(var) == (lowest, highest) and _same(cx.symbolic.get(var), ends):
            return
        cx.symbolic.pop(var, None)
        cx.values.pop(var, None)
    cx.ranges[var] = (lowest, highest)
    if ends is not None:
        cx.symbolic[var] = ends
    cx.children.clear()
    if met:
        cx.forget()


def _same(a: tuple[Poly, Poly] | None, b: tuple[Poly, Poly] | None) -> bool:
    if a is None or b is None:
        return a is b
    return a[0].same(b[0]) and a[1].same(b[1])
