"""The Analyzer: what the rest of the compiler asks about integer expressions."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeAlias

from smelt.ir.expr import EQ, INDEX, Expr, ExprLike, IntImm, Var, convert
from smelt.ir.walk import free_vars

from . import compare as _compare
from .answer import Answer, ConstIntBound, ModularSet
from .bounds import deep, expr_bounds, poly_bounds, precompute, residue
from .context import Bounds, Context
from .facts import learn, under
from .interval_set import IntervalSet
from .poly import INTS, Poly, add, constant, subtract
from .simplify import merge
from .solve import Interval, interval, linear, solve_bounds


class RangeLike(Protocol):
    """Anything with a first value and a number of values."""

    @property
    def min(self) -> Expr:
        """The first value."""

    @property
    def extent(self) -> Expr:
        """How many values."""


Domain: TypeAlias = tuple[ExprLike, ExprLike | None] | RangeLike | IntervalSet | Expr | int
"""(low, extent), a Range, an interval, or an extent from 0; extent None: upwards without end."""


def as_domain(domain: Domain, dtype: str = INDEX) -> tuple[Expr, Expr | None]:
    """(low, extent) of any way to write a range; numbers become constants of a type."""
    low: ExprLike | None
    extent: ExprLike | None
    if type(domain) is tuple:
        low, extent = domain
    elif isinstance(domain, int | Expr):
        low, extent = 0, domain
    elif isinstance(domain, IntervalSet):
        low, high = domain.min_value, domain.max_value
        if low is None:
            raise ValueError(
                "an interval without a first value is no range; legal: one that begins"
            )
        extent = None if high is None else high - low + 1
    else:
        low, extent = domain.min, domain.extent  # type: ignore[union-attr]
    return (
        low if isinstance(low, Expr) else convert(low, dtype),
        extent if extent is None or isinstance(extent, Expr) else convert(extent, dtype),
    )


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
            _bind(self.context, v, *_ends(self.context, v, d))

    # ------------------------------------------------------------------------------- facts

    def bind(self, var: Var, expr: ExprLike | Domain, extent: ExprLike | None = None) -> None:
        """`var` runs over a range, or stands for a value; what was known of it is forgotten.

        bind(v, low, extent)    v is low, ..., low + extent - 1
        bind(v, range)          likewise, for a Range or a pair (low, extent); an extent None has
                                no end
        bind(v, value)          v is that number or expression
        """
        if extent is not None:
            expr = (expr, extent)  # type: ignore[assignment]
        ranged = isinstance(expr, tuple | IntervalSet) or hasattr(expr, "extent")
        for cx in self._own():
            if ranged:
                _bind(cx, var, *_ends(cx, var, expr))  # type: ignore[arg-type]
            else:
                _bind_value(cx, var, convert(expr, var.dtype))  # type: ignore[arg-type]

    def update(self, var: Var, info: ConstIntBound, override: bool = False) -> None:
        """`var` lies between constants; what was known of it is forgotten.

        override  whether it may have had other bounds before; ValueError where it may not
        """
        known = self.const_int_bound(var)
        if not override and known not in (info, ConstIntBound.of(None, None)):
            raise ValueError(f"update: {var.name} is bound to {known} already, not to {info}; "
                             "override=True exchanges it")  # fmt: skip
        self.bind(var, IntervalSet.of(info.min_value, info.max_value))

    def assume_positive(self, var: Var) -> None:
        """`var` is a size: at least 1."""
        self.bind(var, (1, None))

    def suppose(self, condition: ExprLike) -> None:
        """The condition is true from here on."""
        c = self.simplify(condition)
        if not isinstance(c, IntImm):
            for cx in self._own():
                deep(cx, functools.partial(learn, cx, c), c)

    @contextmanager
    def assume(self, condition: ExprLike) -> Iterator[Analyzer]:
        """Inside the `with` block the condition is true."""
        c = self.simplify(condition)
        if isinstance(c, IntImm):
            yield self
            return
        self.context = under(self.context, c, True)
        self._stack.append(self.context)
        try:
            yield self
        finally:
            self._stack.pop()
            self.context = self._stack[-1]

    def constraint_scope(self, constraint: ExprLike) -> AbstractContextManager[Analyzer]:
        """The same as `assume`."""
        return self.assume(constraint)

    # ---------------------------------------------------------------------- simplification

    def simplify(self, expr: ExprLike) -> Expr:
        """The simplest known form; the value never changes, floats are left alone."""
        x = convert(expr)
        found = self.context.simple.get(x)
        if found is not None:
            return found
        try:
            return self.context.simplify(x)
        except RecursionError:
            precompute(self.context, x)
            return self.context.simplify(x)

    rewrite_simplify = canonical_simplify = simplify
    """The same: there is one normal form."""

    def bounds(self, e: ExprLike) -> Bounds:
        """Constant inclusive bounds; None where there is none."""
        x = convert(e)
        return deep(self.context, lambda: expr_bounds(self.context, x), x)

    def const_int_bound(self, expr: ExprLike) -> ConstIntBound:
        """The same as `bounds`, with numbers for the ends without bound."""
        return ConstIntBound.of(*self.bounds(expr))

    def modular_set(self, expr: ExprLike) -> ModularSet:
        """What is known of the remainders of an int32 or int64 expression."""
        x, cx = convert(expr), self.context
        if x.dtype not in INTS:
            return ModularSet(1, 0)
        return ModularSet(*deep(cx, lambda: residue(cx, cx.poly(x)), x))

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
            simple = self.simplify(c)
            return Answer.of(simple.value) if isinstance(simple, IntImm) else Answer.UNKNOWN

    def can_prove(self, expr: ExprLike) -> bool:
        """Whether a condition is shown to be always true."""
        return self.prove(expr) is Answer.YES

    def can_prove_equal(self, lhs: ExprLike, rhs: ExprLike) -> bool:
        """Whether two values are shown to be always equal."""
        if isinstance(lhs, int) and isinstance(rhs, int):
            return lhs == rhs
        x = convert(lhs)
        y = convert(rhs, x.dtype) if isinstance(lhs, Expr) else convert(rhs)
        x = convert(lhs, y.dtype)
        if x is y:
            return True
        if x.dtype not in INTS or y.dtype not in INTS:
            return self.simplify(x) is self.simplify(y)
        if x.dtype != y.dtype:
            return self.can_prove(EQ(x.astype("int64"), y.astype("int64")))
        cx = self.context

        def equal() -> bool:
            return _compare.equals_zero(cx, subtract(cx.poly(x), cx.poly(y))) is Answer.YES

        return deep(cx, equal, x, y)

    # ----------------------------------------------------------------------- symbolic forms

    def interval(self, e: ExprLike, domains: Mapping[Var, Domain]) -> tuple[Expr, Expr] | None:
        """Symbolic inclusive (min, max) of `e` while the variables run over their domains.

        Other variables stay symbolic. Exact for linear and monotone expressions, possibly wider
        otherwise; None where an end is unknown. A domain may mention variables of other domains.
        """
        found = self.int_set(e, domains)
        if found.min_value is None or found.max_value is None:
            return None
        return found.min_value, found.max_value

    def int_set(self, expr: ExprLike, dom_map: Mapping[Var, Domain] | None = None) -> IntervalSet:
        """An interval that holds `expr` while the variables run over their domains; see `interval`.

        dom_map  None: all variables that are bound to a range run over it
        """
        x = convert(expr)
        dtype = x.dtype
        if dtype not in INTS:
            return IntervalSet.everything()
        cx, ends = (
            (self.context, _bound(self.context, x)) if dom_map is None else self._inside(dom_map)
        )
        known = cx.intervals.get(x) if dom_map is not None else None
        if known is None:
            found = deep(cx, lambda: interval(cx, x, ends), x)
            low, high = (None if p is None else self.simplify(cx.build(p, dtype)) for p in found)
            known = low, high
            if dom_map is not None:
                cx.intervals[x] = known
        return IntervalSet(*known)

    def inside(self, domains: Mapping[Var, Domain]) -> Analyzer:
        """Another Analyzer that knows this one's facts, with these variables bound (anew).

        Asking again for the same domains gives one that remembers what it has derived.
        """
        new = Analyzer.__new__(Analyzer)
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
        key = tuple([(v, *_written(d)) for v, d in domains.items()])
        child = self.context.children.get(key)
        if child is None:
            child = self.context.extended()
            for v, d in domains.items():
                child.values.pop(v, None)
                _bind(child, v, *_ends(child, v, d))
            # a domain may mention variables that are bound after it
            child.ends = {v: _ends(child, v, d) for v, d in domains.items()}
            self.context.children[key] = child
        return child, child.ends

    def linear(self, e: ExprLike, variables: Iterable[Var]) -> tuple[dict[Var, Expr], Expr] | None:
        """Coefficients (of the variables that occur) and rest; None where `e` is not linear."""
        x = convert(e)
        if x.dtype not in INTS:
            return None
        cx, wanted = self.context, tuple(variables)
        form = deep(cx, lambda: linear(cx, cx.poly(x), wanted), x)
        if form is None:
            return None
        build, dtype = cx.build, x.dtype
        return {v: build(c, dtype) for v, c in form[0].items()}, build(form[1], dtype)

    def solve_bounds(self, condition: ExprLike, var: Var) -> tuple[Expr | None, Expr | None] | None:
        """The half-open interval [low, high) of `var` in which the whole condition holds.

        For conjunctions of comparisons linear in `var`. None for an end without constraint; None
        as result where the condition cannot be expressed so. An empty interval has high <= low.
        """
        cx, c = self._unbound(var), convert(condition)
        ends = deep(cx, lambda: solve_bounds(cx, c, var), c)
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
            child.drop(var)
            child.forget()
        return child


def _bound(cx: Context, e: Expr) -> dict[Var, Interval]:
    """The ends of the variables behind an expression that have a range with two ends."""
    out: dict[Var, Interval] = {}
    open_vars = list(free_vars(e))
    while open_vars:
        v = open_vars.pop()
        low, high = cx.ranges.get(v, (None, None))
        if v in out or (v not in cx.symbolic and (low is None or high is None)):
            continue
        ends = cx.symbolic.get(v)
        out[v] = (constant(low), constant(high)) if ends is None else ends  # type: ignore[arg-type]
        open_vars += [x for p in ends or () for t in p.terms for x in free_vars(t)]
    return out


def _written(domain: Domain) -> tuple[object, ...]:
    """What tells domains apart."""
    if type(domain) is tuple:
        return domain
    if isinstance(domain, IntervalSet):
        return "interval", domain.min_value, domain.max_value
    return (domain,) if isinstance(domain, int | Expr) else (domain.min, domain.extent)  # type: ignore[union-attr]


def _ends(cx: Context, var: Var, domain: Domain) -> Interval:
    """The first and the last value of a domain."""
    if isinstance(domain, IntervalSet):
        low, high = domain.min_value, domain.max_value
        return None if low is None else cx.poly(low), None if high is None else cx.poly(high)
    first, extent = as_domain(domain, var.dtype)
    if type(first) is IntImm and type(extent) is IntImm:
        return constant(first.value), constant(first.value + extent.value - 1)
    start = cx.poly(first)
    if extent is None:
        return start, None
    end = merge(cx, add(start, cx.poly(extent)), var.dtype)
    return start, Poly(end.terms, end.const - 1)


def _bind_value(cx: Context, var: Var, value: Expr) -> None:
    value = deep(cx, lambda: cx.simplify(value), value)
    if value is var:
        return
    if var in free_vars(value):
        raise ValueError(f"{var.name} cannot stand for {value}, which depends on it")
    known = var in cx.polys or var in cx.simple or var in cx.values
    cx.drop(var)
    cx.values[var] = value
    cx.children.clear()
    if known:
        cx.forget()


def _bind(cx: Context, var: Var, first: Poly | None, last: Poly | None) -> None:
    """Record a range; forget what was derived if the variable has been met before."""
    met = var in cx.polys or var in cx.ranges or var in cx.symbolic or var in cx.values
    lowest = None if first is None else poly_bounds(cx, first)[0]
    highest = None if last is None else poly_bounds(cx, last)[1]
    ends = None
    if first is not None and last is not None and (first.terms or last.terms):
        ends = (first, last)
    if met:
        if cx.ranges.get(var) == (lowest, highest) and cx.symbolic.get(var) == ends:
            return
        cx.drop(var)
    cx.ranges[var] = (lowest, highest)
    if ends is not None:
        cx.symbolic[var] = ends
    cx.children.clear()
    if met:
        cx.forget()
