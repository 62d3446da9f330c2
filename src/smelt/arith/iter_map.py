"""Affine iterator maps: indices as sums of splits of (fused) iterators.

    split   value // lower % extent * scale     of a mark, itself an iterator or a fused sum
    sum     splits with falling scales, plus a base

Such a map is injective in the iterators it uses where no two splits of a mark overlap, and it is a
bijection where the splits of every mark cover it: what reordering, blockizing and tensorizing need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from smelt.ir.build import all_of
from smelt.ir.expr import (
    INDEX,
    Compare,
    Expr,
    ExprLike,
    FloorDiv,
    FloorMod,
    IntImm,
    Min,
    Var,
    const,
    convert,
)
from smelt.ir.walk import free_vars

from .analyzer import Analyzer, Domain, as_domain
from .context import Context
from .facts import conjuncts
from .poly import INTS, ONE, Poly, add, atom, constant, dtype_of, factors, scale, subtract
from .prove import nonnegative, positive

__all__ = [
    "IterMap",
    "IterMark",
    "IterSplit",
    "IterSum",
    "detect_iter_map",
    "inverse_affine_map",
    "is_bijective",
    "normalize_iter_values",
    "subspace_divide",
]


@dataclass(eq=False)
class IterMark:
    """Something that runs over 0, ..., extent - 1: a variable less its first value, or a sum."""

    source: Var | IterSum
    extent: Poly
    low: Poly = field(default_factory=lambda: constant(0))

    def variables(self) -> set[Var]:
        """The iterators behind the mark."""
        if isinstance(self.source, Var):
            return {self.source}
        return {v for s in self.source.splits for v in s.mark.variables()}


@dataclass(eq=False)
class IterSplit:
    """mark // lower % extent * scale."""

    mark: IterMark
    lower: Poly
    extent: Poly
    scale: Poly


@dataclass(eq=False)
class IterSum:
    """The sum of splits, the one with the largest scale first, plus a base."""

    splits: tuple[IterSplit, ...]
    base: Poly


@dataclass(eq=False)
class IterMap:
    """Indices in terms of iterators.

    indices    one sum per index
    iters      the iterators and their (low, extent)
    bijective  whether the indices determine all iterators and reach every value
    """

    indices: tuple[IterSum, ...]
    iters: dict[Var, tuple[Expr, Expr]]
    bijective: bool
    analyzer: Analyzer

    def extent(self, index: int) -> Expr:
        """How many values an index takes: its last value less its first, plus 1."""
        cx = self.analyzer.context
        return cx.build(_extent(cx, self.indices[index].splits), INDEX)


class _Detect:
    def __init__(self, an: Analyzer, iters: Mapping[Var, tuple[Expr, Expr]]) -> None:
        self.an = an
        self.cx: Context = an.context
        self.iters = iters
        self.marks: dict[Expr, IterMark] = {}
        self.fused: list[tuple[IterMark, Poly]] = []
        self.constraints: list[tuple[Poly, Poly]] = []
        self.required: list[IterMark] = []
        for v, (low, extent) in iters.items():
            self.marks[v] = IterMark(v, self.cx.poly(extent), self.cx.poly(low))

    # ------------------------------------------------------------------------ predicates

    def predicate(self, condition: Expr) -> bool:
        """Read `sum < bound`; false where a condition is something else."""
        for c in conjuncts(condition):
            c = self.an.simplify(c)
            if isinstance(c, IntImm):
                if c.value:
                    continue
                return False
            if not isinstance(c, Compare) or dtype_of(c.a) not in INTS or c.symbol != "<":
                return False
            p = subtract(self.cx.poly(c.a), self.cx.poly(c.b))
            inner = {t: k for t, k in p.terms.items() if self.varies(t)}
            bound = scale(Poly({t: k for t, k in p.terms.items() if t not in inner}, p.const), -1)
            self.constraints.append((Poly(inner, 0), bound))
        self.constraints.sort(key=lambda pair: len(pair[0].terms))
        return all(self.restrict(p, b) for p, b in self.constraints)

    def restrict(self, p: Poly, bound: Poly) -> bool:
        """Fuse the constrained sum into one mark whose extent is the bound."""
        whole = self.sum(p)
        if whole is None or not self.tight(whole.splits):
            return False
        bottom = whole.splits[-1].scale
        if bottom.terms or bottom.const != 1 or whole.base.terms or whole.base.const:
            return False
        if len(whole.splits) == 1 and isinstance(whole.splits[0].mark.source, Var):
            mark = whole.splits[0].mark
            mark.extent = self.least(bound, mark.extent)
            return True
        mark = IterMark(whole, self.least(bound, _extent(self.cx, whole.splits)))
        self.fused.append((mark, p))
        self.required.append(mark)
        return True

    def least(self, a: Poly, b: Poly) -> Poly:
        """The smaller of two extents."""
        build = self.cx.build
        return self.cx.poly(Min(build(a, INDEX), build(b, INDEX)))

    # ---------------------------------------------------------------------------- sums

    def varies(self, e: Expr) -> bool:
        return any(v in self.iters for v in free_vars(e))

    def sum(self, p: Poly) -> IterSum | None:
        """A polynomial as splits and a base."""
        splits: list[IterSplit] = []
        base = constant(p.const)
        p = Poly(p.terms, 0)
        for mark, form in self.fused:
            k = _multiple(p, form)
            if k:
                p = subtract(p, scale(form, k))
                splits.append(IterSplit(mark, ONE, mark.extent, constant(k)))
        for t, c in p.terms.items():
            moving = [x for x in factors(t) if self.varies(x)]
            if not moving:
                base = add(base, atom(t, c))
                continue
            if len(moving) > 1:
                return None
            rest = [x for x in factors(t) if x is not moving[0]]
            by = atom(self.cx.order.product(rest), c) if rest else constant(c)
            s = self.atom(moving[0])
            if s is None:
                return None
            base = add(base, self.cx.order.multiply(self.low(moving[0]), by))
            splits.append(IterSplit(s.mark, s.lower, s.extent, by))
        return IterSum(self.ordered(splits), base)

    def low(self, e: Expr) -> Poly:
        return self.marks[e].low if isinstance(e, Var) else constant(0)

    def atom(self, e: Expr) -> IterSplit | None:
        """A variable, x // c or x % c, with scale 1."""
        if isinstance(e, Var):
            mark = self.marks[e]
            return IterSplit(mark, ONE, mark.extent, ONE)
        if type(e) not in (FloorDiv, FloorMod) or self.varies(e.b):  # type: ignore[attr-defined]
            return None
        x = self.whole(self.cx.poly(e.a))  # type: ignore[attr-defined]
        d = self.cx.poly(e.b)  # type: ignore[attr-defined]
        if x is None:
            return None
        q = self.divide(x.extent, d)
        if q is None:
            return None
        if type(e) is FloorMod:
            return IterSplit(x.mark, x.lower, d, ONE)
        return IterSplit(x.mark, self.cx.order.multiply(x.lower, d), q, ONE)

    def whole(self, p: Poly) -> IterSplit | None:
        """A dividend as one split of scale 1: itself, or its fused parts as a new mark."""
        s = self.sum(p)
        if s is None or not s.splits or s.base.terms or s.base.const or not self.tight(s.splits):
            return None
        if not s.splits[-1].scale.same(ONE):
            return None
        if len(s.splits) == 1:
            return s.splits[0]
        for mark, form in self.fused:
            if form.same(p):
                return IterSplit(mark, ONE, mark.extent, ONE)
        mark = IterMark(s, _extent(self.cx, s.splits))
        self.fused.append((mark, p))
        return IterSplit(mark, ONE, mark.extent, ONE)

    def divide(self, extent: Poly, d: Poly) -> Poly | None:
        """extent / d where d divides it."""
        build = self.cx.build
        if not positive(self.cx, d):
            return None
        q = self.cx.poly(FloorDiv(build(extent, INDEX), build(d, INDEX)))
        return q if self.cx.order.multiply(q, d).same(extent) else None

    def ordered(self, splits: list[IterSplit]) -> tuple[IterSplit, ...]:
        """Largest scale first; equal scales with the larger extent first."""
        out: list[IterSplit] = []
        for s in splits:
            at = len(out)
            while at and _before(self.cx, s, out[at - 1]):
                at -= 1
            out.insert(at, s)
        return tuple(out)

    def tight(self, splits: Sequence[IterSplit], gaps: bool = False) -> bool:
        """Whether each scale is the reach of the splits below it (with `gaps`: at least that)."""
        if not splits:
            return True
        reach = splits[-1].scale
        if not positive(self.cx, reach):
            return False
        for s in reversed(splits):
            if not (
                nonnegative(self.cx, subtract(s.scale, reach)) if gaps else s.scale.same(reach)
            ):
                return False
            reach = self.cx.order.multiply(s.scale, s.extent)
        return True


def _before(cx: Context, a: IterSplit, b: IterSplit) -> bool:
    if a.scale.same(b.scale):
        return b.extent.same(ONE) and not a.extent.same(ONE)
    return nonnegative(cx, subtract(a.scale, b.scale))


def _multiple(p: Poly, form: Poly) -> int:
    """k where p contains form * k, else 0."""
    (t, c), *_ = form.terms.items()
    k, r = divmod(p.terms.get(t, 0), c)
    if r or not k:
        return 0
    return k if all(p.terms.get(s) == x * k for s, x in form.terms.items()) else 0


def _extent(cx: Context, splits: Sequence[IterSplit]) -> Poly:
    """One more than the largest value of a sum of splits."""
    total = ONE
    for s in splits:
        last = Poly(s.extent.terms, s.extent.const - 1)
        total = add(total, cx.order.multiply(s.scale, last))
    return total


# ------------------------------------------------------------------------------------ detection


def _domains(an: Analyzer, iters: Mapping[Var, Domain]) -> dict[Var, tuple[Expr, Expr]]:
    return {
        v: (an.simplify(low), an.simplify(extent))
        for v, (low, extent) in ((v, as_domain(d)) for v, d in iters.items())
    }


def detect_iter_map(
    indices: Iterable[ExprLike],
    iters: Mapping[Var, Domain],
    predicate: ExprLike | None = None,
    bijective: bool = False,
    analyzer: Analyzer | None = None,
) -> IterMap | None:
    """The indices as an affine map of the iterators, or None where they are not one.

    predicate   restricts the iterators: a conjunction of `sum < bound`; others are not used
    bijective   demand that every iterator is used and every value reached
    """
    an = (analyzer or Analyzer()).inside(iters)
    d = _Detect(an, _domains(an, iters))
    readable = predicate is None or d.predicate(convert(predicate))
    if bijective and not readable:
        return None
    sums: list[IterSum] = []
    for index in indices:
        s = d.sum(d.cx.poly(convert(index)))
        if s is None:
            return None
        trivial = [x for x in s.splits if not x.extent.same(ONE)]
        s = IterSum(tuple(trivial), s.base)
        if not d.tight(s.splits, gaps=not bijective):
            return None
        sums.append(s)
    covered = _independent(d, sums)
    if covered is None or (bijective and not covered):
        return None
    unit = all(not s.splits or s.splits[-1].scale.same(ONE) for s in sums)
    whole = readable and covered and unit and all(d.tight(s.splits) for s in sums)
    if bijective and not whole:
        return None
    return IterMap(tuple(sums), dict(d.iters), whole, an)


def _independent(d: _Detect, sums: list[IterSum]) -> bool | None:
    """Whether the splits cover all marks; None where two of them overlap."""
    uses: dict[int, tuple[IterMark, list[IterSplit]]] = {}

    def use(splits: Iterable[IterSplit]) -> None:
        for s in splits:
            first = id(s.mark) not in uses
            uses.setdefault(id(s.mark), (s.mark, []))[1].append(s)
            if first and isinstance(s.mark.source, IterSum):
                use(s.mark.source.splits)

    for s in sums:
        use(s.splits)
    marks = [*(d.marks[v] for v in d.iters), *d.required]
    covered = all(m.extent.same(ONE) or id(m) in uses for m in marks)
    for mark, splits in uses.values():
        answer = _cover(d, mark, splits)
        if answer is None:
            return None
        covered = covered and answer
    return covered


def _cover(d: _Detect, mark: IterMark, splits: list[IterSplit]) -> bool | None:
    """Whether splits of one mark cover it; None where they overlap."""
    items: list[IterSplit] = []
    for s in splits:
        at = len(items)
        while at and nonnegative(d.cx, subtract(items[at - 1].lower, s.lower)):
            at -= 1
        items.insert(at, s)
    reach, full = ONE, True
    for s in items:
        if not s.lower.same(reach):
            if d.divide(s.lower, reach) is None:
                return None
            full = False
        reach = d.cx.order.multiply(s.lower, s.extent)
    return full and reach.same(mark.extent)


def is_bijective(
    indices: Iterable[ExprLike],
    iters: Mapping[Var, Domain],
    predicate: ExprLike | None = None,
    analyzer: Analyzer | None = None,
) -> bool:
    """Whether the indices are shown to determine the iterators and to reach every value."""
    found = detect_iter_map(indices, iters, predicate, bijective=True, analyzer=analyzer)
    return found is not None


def normalize_iter_values(
    values: Iterable[ExprLike],
    iters: Mapping[Var, Domain],
    predicate: ExprLike | None = None,
    analyzer: Analyzer | None = None,
) -> tuple[Expr, ...]:
    """Iteration values simplified under the ranges of the loops (and the predicate)."""
    an = (analyzer or Analyzer()).inside(iters)
    if predicate is None:
        return tuple([an.simplify(v) for v in values])
    with an.assume(predicate):
        return tuple([an.simplify(v) for v in values])


# -------------------------------------------------------------------------------------- inverse


def inverse_affine_map(found: IterMap, outputs: Sequence[ExprLike]) -> dict[Var, Expr]:
    """Each iterator as an expression of the values of the indices; for a bijective map.

    A mark is the sum of its splits, each the digit of an output (or of an outer mark) at its scale.
    """
    cx = found.analyzer.context
    values: dict[int, Poly] = {}
    sources: dict[int, IterMark] = {}

    def digit(value: Poly, s: IterSplit, top: bool) -> Poly:
        e = cx.build(value, INDEX)
        q = cx.poly(FloorDiv(e, cx.build(s.scale, INDEX)))
        if top:
            return q
        return cx.poly(FloorMod(cx.build(q, INDEX), cx.build(s.extent, INDEX)))

    def spread(total: IterSum, value: Poly) -> None:
        value = subtract(value, total.base)
        for at, s in enumerate(total.splits):
            part = cx.order.multiply(digit(value, s, at == 0), s.lower)
            values[id(s.mark)] = add(values.get(id(s.mark), constant(0)), part)
            sources[id(s.mark)] = s.mark

    for total, value in zip(found.indices, outputs, strict=True):
        spread(total, cx.poly(convert(value)))
    done: set[int] = set()
    while len(done) < len(sources):
        key = _ready(sources, done)
        done.add(key)
        source = sources[key].source
        if isinstance(source, IterSum):
            spread(source, values[key])
    result = {v: low for v, (low, _) in found.iters.items()}
    for key, mark in sources.items():
        if isinstance(mark.source, Var):
            e = cx.build(add(values[key], mark.low), mark.source.dtype)
            result[mark.source] = found.analyzer.simplify(e)
    return result


def _ready(sources: dict[int, IterMark], done: set[int]) -> int:
    """A mark whose every use has contributed: no open mark stands above it."""
    below: set[int] = set()
    for key, mark in sources.items():
        if key not in done and isinstance(mark.source, IterSum):
            below.update(id(s.mark) for s in mark.source.splits)
    return next(k for k in sources if k not in done and k not in below)


# ------------------------------------------------------------------------------------- division


def subspace_divide(
    indices: Iterable[ExprLike],
    iters: Mapping[Var, Domain],
    inner: Iterable[Var],
    predicate: ExprLike | None = None,
    analyzer: Analyzer | None = None,
) -> tuple[tuple[tuple[Expr, Expr, Expr, Expr], ...], Expr, Expr] | None:
    """Each index as outer * extent + inner, where `inner` uses only the inner iterators.

    Gives per index (outer value, outer extent, inner value, inner extent), and the predicate split
    into an outer and an inner part; None where an index or the predicate cannot be divided.
    """
    inside = set(inner)
    found = detect_iter_map(indices, iters, analyzer=analyzer)
    if found is None:
        return None
    an = found.analyzer
    parts: list[tuple[Expr, Expr, Expr, Expr]] = []
    for total in found.indices:
        part = _divide(an.context, total, inside)
        if part is None:
            return None
        low, high, extents = part
        parts.append((high, extents[0], low, extents[1]))
    outer_conditions, inner_conditions = [], []
    for c in conjuncts(an.simplify(const(True) if predicate is None else predicate)):
        used = {v for v in free_vars(c) if v in found.iters}
        if used <= inside and used:
            inner_conditions.append(c)
        elif used & inside:
            return None
        else:
            outer_conditions.append(c)
    return tuple(parts), all_of(outer_conditions), all_of(inner_conditions)


def _divide(
    cx: Context, total: IterSum, inside: set[Var]
) -> tuple[Expr, Expr, tuple[Expr, Expr]] | None:
    low = [s for s in total.splits if s.mark.variables() <= inside]
    high = [s for s in total.splits if not s.mark.variables() & inside]
    if len(low) + len(high) < len(total.splits) or tuple(high + low) != total.splits:
        return None
    inner_extent = _extent(cx, low) if low else ONE
    if low and not low[-1].scale.same(ONE):
        return None
    if high and not (high[-1].scale.same(inner_extent) or (low == [] and high[-1].scale.same(ONE))):
        return None
    outer = constant(0)
    outer_extent = ONE
    for s in reversed(high):
        by = outer_extent
        outer = add(outer, cx.order.multiply(split_value(cx, s), by))
        outer_extent = cx.order.multiply(outer_extent, s.extent)
    inner = constant(0)
    for s in low:
        inner = add(inner, cx.order.multiply(split_value(cx, s), s.scale))
    outer, inner = (add(outer, total.base), inner) if not low else (outer, add(inner, total.base))
    build = cx.build
    return (
        build(inner, INDEX),
        build(outer, INDEX),
        (build(outer_extent, INDEX), build(inner_extent, INDEX)),
    )


def split_value(cx: Context, s: IterSplit) -> Poly:
    """mark // lower % extent, as a polynomial."""
    source = s.mark.source
    if isinstance(source, Var):
        value = subtract(atom(source), s.mark.low)
    else:
        value = source.base
        for x in source.splits:
            value = add(value, cx.order.multiply(split_value(cx, x), x.scale))
    e = cx.build(value, INDEX)
    e = cx.simplify(FloorDiv(e, cx.build(s.lower, INDEX)))
    if not cx.order.multiply(s.lower, s.extent).same(s.mark.extent):
        e = FloorMod(e, cx.build(s.extent, INDEX))
    return cx.poly(e)
