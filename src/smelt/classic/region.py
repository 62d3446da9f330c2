"""Regions of arrays that loops touch, and bounds of variables that conditions imply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from smelt.arith.affine.maps import Detection, IterMapLevel
from smelt.arith.affine.nodes import NotAffine
from smelt.arith.analyzer import Analyzer, Domain, RangeLike
from smelt.arith.answer import Answer
from smelt.arith.facts import conjuncts
from smelt.arith.interval_set import IntervalSet
from smelt.ir.build import all_of
from smelt.ir.expr import Expr, ExprLike, Var, convert
from smelt.ir.walk import free_vars

Region = Sequence[RangeLike | tuple[ExprLike, ExprLike]]
"""A range per dimension: what one iteration touches."""


def _pairs(region: Region) -> list[tuple[Expr, Expr]]:
    items = [r if isinstance(r, tuple) else (r.min, r.extent) for r in region]
    return [(convert(low), convert(extent)) for low, extent in items]


def estimate_region_upper_bound(
    region: Region,
    var_dom: Mapping[Var, Domain],
    predicate: ExprLike = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet]:
    """A box that holds the region of every iteration; an end that is not known is None.

    region     what one iteration touches
    var_dom    the ranges of the iterators
    predicate  which iterations there are
    """
    exact = estimate_region_strict_bound(region, var_dom, predicate, analyzer)
    if exact is not None:
        return exact
    with (analyzer or Analyzer()).inside(var_dom).assume(predicate) as an:
        out = []
        for low, extent in _pairs(region):
            first, last = an.int_set(low, var_dom), an.int_set(low + extent - 1, var_dom)
            out.append(IntervalSet(first.min_value, last.max_value))
    return out


def estimate_region_strict_bound(
    region: Region,
    var_dom: Mapping[Var, Domain],
    predicate: ExprLike = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet] | None:
    """The box that all iterations together touch, every element of it; None where not shown."""
    an = analyzer or Analyzer()
    pairs = _pairs(region)
    if any(v in var_dom for _, extent in pairs for v in free_vars(extent)):
        return None
    try:
        d = Detection(an, var_dom, predicate)
        sums, padding = d.find([low for low, _ in pairs], IterMapLevel.SURJECTIVE)
    except NotAffine:
        return None
    if an.prove(padding) is not Answer.NO:
        return None
    z = d.sizes
    out = []
    for total, (_, extent) in zip(sums, pairs, strict=True):
        reach = step = z.one
        if total.args:
            top, step = total.args[0], total.args[-1].scale
            reach = z.less(z.plus(z.times(top.scale, top.extent), z.one), step)
            if not an.can_prove(extent >= step):
                return None
        # the last first element, then the rest of its range
        last = total.base + reach + extent - 2
        out.append(IntervalSet(an.simplify(total.base), an.simplify(last)))
    return out


estimate_region_lower_bound = estimate_region_strict_bound
"""A box of which every element is touched: the exact one, or None where that is not shown."""


# -------------------------------------------------------------------------------- conditions


def detect_linear_equation(
    expr: ExprLike, var_list: Iterable[Var], analyzer: Analyzer | None = None
) -> list[Expr]:
    """[a, b, ..., rest] with expr = a * x + b * y + ... + rest for the variables x, y, ...

    Empty where the expression is not linear in them.
    """
    an, wanted = analyzer or Analyzer(), list(var_list)
    form = an.linear(expr, wanted)
    if form is None:
        return []
    coefficients, rest = form
    zero = convert(0, rest.dtype)
    return [*[coefficients.get(v, zero) for v in wanted], rest]


def detect_clip_bound(
    expr: ExprLike, var_list: Iterable[Var], analyzer: Analyzer | None = None
) -> list[Expr | None]:
    """[x first, x last, y first, y last, ...]: the box in which a conjunction holds.

    None for an end without condition. Empty where a comparison is not about one of the variables
    alone, or cannot be solved for it.
    """
    an, wanted = analyzer or Analyzer(), list(var_list)
    boxes = {v: IntervalSet.everything() for v in wanted}
    for c in conjuncts(convert(expr)):
        about = free_vars(c) & boxes.keys()
        if not about and an.can_prove(c):
            continue
        if len(about) != 1:
            return []
        (v,) = about
        ends = an.solve_bounds(c, v)
        if ends is None:
            return []
        boxes[v] = boxes[v].intersect(_closed(*ends))
    found = [e for v in wanted for e in (boxes[v].min_value, boxes[v].max_value)]
    return [None if e is None else an.simplify(e) for e in found]


def _closed(low: Expr | None, end: Expr | None) -> IntervalSet:
    return IntervalSet(low, None if end is None else end - 1)


def deduce_bound(
    var: Var,
    cond: ExprLike,
    hint_map: Mapping[Var, Domain] | None = None,
    relax_map: Mapping[Var, Domain] | None = None,
    analyzer: Analyzer | None = None,
) -> IntervalSet:
    """Values of a variable for which a condition holds whatever the relaxed variables are.

    hint_map   ranges of variables that may stand in the ends
    relax_map  ranges of variables that may not: the condition holds for all their values
    Nothing where no such interval is found.
    """
    relaxed = dict(relax_map or {})
    hints = {v: d for v, d in (hint_map or {}).items() if v is not var}
    an = (analyzer or Analyzer()).inside({**hints, **relaxed})
    ends = an.solve_bounds(all_of(convert(cond)), var)
    if ends is None:
        return IntervalSet.nothing()
    low, end = ends
    first = None if low is None else an.int_set(low, relaxed).max_value
    last = None if end is None else an.int_set(end, relaxed).min_value
    if (low is not None and first is None) or (end is not None and last is None):
        return IntervalSet.nothing()
    return IntervalSet(first, None if last is None else an.simplify(last - 1))
