"""Affine iterator maps: indices as sums of digits of (fused) iterators.

`detect_iter_map` finds that form, and shows that no two iterations share a value or that every
value is reached: what reordering, blockizing and changing layouts need to know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial

from smelt.ir.build import all_of, any_of, maximum, minimum
from smelt.ir.expr import INDEX, Expr, ExprLike, IntImm, Var, const, convert
from smelt.ir.node import postorder

from ..analyzer import Analyzer, Domain, as_domain
from ..bounds import deep
from ..poly import INTS
from .digits import Digits
from .nodes import IterMark, IterSplit, IterSum, NotAffine, Sizes, value
from .parse import Parser
from .predicate import read_predicate


class IterMapLevel(IntEnum):
    """What a map has to be shown to be, the strictest first.

    BIJECTIVE   different iterations have different values, and every value is reached
    SURJECTIVE  every value (in constant steps) is reached, some perhaps by padding; iterators may
                be without use
    INJECTIVE   digits that differ give values that differ; there may be gaps
    NO_CHECK    the indices are sums of digits of the iterators
    """

    BIJECTIVE = 0
    SURJECTIVE = 1
    INJECTIVE = 2
    NO_CHECK = 3

    @staticmethod
    def of(level: IterMapLevel | int | str) -> IterMapLevel:
        """A level by its name, in any case, with or without underscore, or by its number."""
        wanted = level.replace("_", "").upper() if isinstance(level, str) else level
        for known in IterMapLevel:
            if wanted in (known, known.name.replace("_", "")):
                return known
        names = ", ".join(known.name.lower() for known in IterMapLevel)
        raise ValueError(f"check_level is {level!r}; legal: {names}")


@dataclass(frozen=True, eq=False)
class IterMapResult:
    """What `detect_iter_map` finds.

    indices            a sum for each binding; empty where the map is not what was asked for
    errors             why not
    padding_predicate  true of the iterations outside the ranges that only padding reaches
    """

    indices: tuple[IterSum, ...]
    errors: tuple[str, ...] = ()
    padding_predicate: Expr = field(default_factory=lambda: const(False))


class Detection:
    """The parser of one set of iterators, with what the predicate says about them."""

    def __init__(
        self, an: Analyzer, iters: Mapping[Var, Domain], predicate: ExprLike, whole: bool = False
    ) -> None:
        """Reads the ranges and the predicate; NotAffine where they are unusable.

        whole  different iterations have different values, possibly with padding: a remainder by d
               has d values even where fewer are reached
        """
        ranges = _ranges(an, iters)
        dtypes = {v.dtype for v in ranges} or {INDEX}
        if len(dtypes) > 1 or not dtypes <= INTS:
            raise NotAffine(
                f"the iterators are {' and '.join(sorted(dtypes))}; legal: all int64, or all int32"
            )
        (self.dtype,) = dtypes
        bounds, self._strange = read_predicate(
            an.inside(ranges), convert(predicate), ranges, self.dtype
        )
        for b in bounds:
            if b.variable is not None:
                v = b.variable
                ranges[v] = _narrowed(an, *ranges[v], b.low, b.high)
        for v, (_, extent) in ranges.items():
            if isinstance(extent, IntImm) and extent.value < 1:
                raise NotAffine(f"there are no iterations: {v.name} has {extent.value} values")
        self.bounds = [b for b in bounds if b.variable is None]
        self.ranges, self.whole = ranges, whole
        open_ended = {v: (low, None) for v, (low, _) in ranges.items()}
        self.analyzer = an.inside(open_ended if whole else ranges)
        facts = all_of([] if whole else [b.condition for b in self.bounds])
        with self.analyzer.assume(facts):
            self.sizes = Sizes(self.analyzer.context, self.dtype)
        self.parser = self._parser()

    def _parser(self) -> Parser:
        parser = Parser(self.sizes, self.ranges, self.whole)
        self.unread = list(self._strange)
        for b in self.bounds:
            try:
                parser.constrain(self.sizes.cx.build(b.sum, self.dtype), b.low, b.high)
            except NotAffine:
                self.unread.append(b.condition)
        return parser

    def find(self, bindings: Iterable[ExprLike], level: IterMapLevel) -> tuple[list[IterSum], Expr]:
        """The bindings in a form that has a property, and the padding predicate; else NotAffine.

        As they are written first: reshaped indices have digits of one sum there. Then simplified.
        """
        items = [convert(e, self.dtype) for e in bindings]
        try:
            return self._checked([self.parser.parse(e) for e in items], level)
        except NotAffine:
            self.parser = self._parser()
            cx = self.sizes.cx
            simple = [deep(cx, partial(cx.simplify, e), e) for e in items]
            return self._checked([self.parser.parse(e) for e in simple], level)

    def _checked(self, sums: list[IterSum], level: IterMapLevel) -> tuple[list[IterSum], Expr]:
        if level is IterMapLevel.NO_CHECK:
            return sums, const(False)
        digits = Digits(self.parser, sums)
        if level <= IterMapLevel.SURJECTIVE and self.unread:
            raise NotAffine(
                f"the predicate {all_of(self.unread)} is no bound of a sum of iterators"
            )
        for total in digits.sums:
            self._stepped(total, level)
        padded = digits.padded()
        unused = digits.unused() if level is IterMapLevel.BIJECTIVE or self.whole else []
        if unused:
            raise NotAffine(f"no binding uses {', '.join(unused)}")
        if padded and level is IterMapLevel.BIJECTIVE:
            z = self.sizes
            marks = [f"{value(z, m)} of {m.extent} values" for m in padded]
            raise NotAffine(f"padding is needed for {', '.join(marks)}")
        return digits.sums, self._outside(padded)

    def _stepped(self, total: IterSum, level: IterMapLevel) -> None:
        """Scales of a sum: multiples of what is below; for no gaps exactly that."""
        z, args = self.sizes, total.args
        lowest = args[-1].scale if args and level is not IterMapLevel.BIJECTIVE else z.one
        for s, reach in self.parser.steps(args, lowest):
            if s.scale is not reach and (
                level <= IterMapLevel.SURJECTIVE or not z.at_least(s.scale, reach)
            ):
                raise NotAffine(f"{value(z, total)}: {value(z, s)} should step by {reach}")

    def _outside(self, padded: list[IterMark]) -> Expr:
        z = self.sizes
        conditions: list[Expr] = []
        for m in padded:
            v = value(z, m)
            if m.left is not z.zero:
                conditions.append(v < m.left)
            conditions.append(v >= m.extent)
        return Analyzer().simplify(any_of(conditions))


def _ranges(an: Analyzer, iters: Mapping[Var, Domain]) -> dict[Var, tuple[Expr, Expr]]:
    out = {}
    for v, d in iters.items():
        low, extent = as_domain(d, v.dtype)
        if extent is None:
            raise NotAffine(f"{v.name} has no last value")
        out[v] = (an.simplify(low), an.simplify(extent))
    return out


def _narrowed(
    an: Analyzer, low: Expr, extent: Expr, above: Expr | None, below: Expr | None
) -> tuple[Expr, Expr]:
    """What is left of a range of (low, extent) between `above` and `below`."""
    end = low + extent
    low = low if above is None else maximum(low, above)
    end = end if below is None else minimum(end, below)
    return an.simplify(low), an.simplify(end - low)


def detect_iter_map(
    indices: Iterable[ExprLike],
    input_iters: Mapping[Var, Domain],
    predicate: ExprLike = True,
    check_level: IterMapLevel | int | str = IterMapLevel.SURJECTIVE,
    require_bijective: bool = False,
    analyzer: Analyzer | None = None,
) -> IterMapResult:
    """The indices as an affine map of the iterators.

    input_iters        the iterators and their ranges
    predicate          restricts the iterations: a conjunction of bounds of sums of iterators
    check_level        what the map has to be shown to be
    require_bijective  the same as check_level="bijective"
    analyzer           what is known of other variables
    """
    level = IterMapLevel.BIJECTIVE if require_bijective else IterMapLevel.of(check_level)
    try:
        d = Detection(analyzer or Analyzer(), input_iters, predicate)
        sums, padding = d.find(indices, level)
    except NotAffine as e:
        return IterMapResult((), (str(e),))
    return IterMapResult(tuple(sums), (), padding)


def normalize_iter_map_to_expr(
    expr: IterMark | IterSplit | IterSum, analyzer: Analyzer | None = None
) -> Expr:
    """The expression of the iterators that a part of a map stands for."""
    an = analyzer or Analyzer()
    size = expr.base if isinstance(expr, IterSum) else expr.extent
    return value(Sizes(an.context, size.dtype), expr)


def iter_map_simplify(
    indices: Iterable[ExprLike],
    input_iters: Mapping[Var, Domain],
    predicate: ExprLike = True,
    check_level: IterMapLevel | int | str = IterMapLevel.SURJECTIVE,
    analyzer: Analyzer | None = None,
) -> tuple[Expr, ...]:
    """Indices simplified under the ranges and the predicate.

    Where they form a map of the level asked for, quotients and remainders are joined or resolved as
    its digits allow; of both forms of an index the shorter one is taken.
    """
    an = analyzer or Analyzer()
    level = IterMapLevel.of(check_level)
    items = [convert(e) for e in indices]
    inside = an.inside(input_iters)
    with inside.assume(predicate):
        plain = [inside.simplify(e) for e in items]
        try:
            d = Detection(an, input_iters, predicate)
            sums, _ = d.find(items, level)
        except NotAffine:
            return tuple(plain)
        joined = [inside.simplify(value(d.sizes, s)) for s in sums]
    return tuple([b if _size(b) < _size(a) else a for a, b in zip(plain, joined, strict=True)])


def _size(e: Expr) -> int:
    return sum(1 for _ in postorder(e))
