"""Iteration spaces divided: each index as outer * extent + inner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from smelt.arith.affine.cuts import resolved
from smelt.arith.affine.maps import Detection, IterMapLevel
from smelt.arith.affine.nodes import IterMark, IterSplit, IterSum, NotAffine, Sizes, value
from smelt.arith.analyzer import Analyzer, Domain
from smelt.arith.facts import conjuncts
from smelt.ir.build import all_of
from smelt.ir.expr import Expr, ExprLike, IntImm, Var, const
from smelt.ir.walk import free_vars


class SubspaceDivision(NamedTuple):
    """index = outer * inner.extent + inner, for each index.

    indices          an outer and an inner mark for each binding
    outer_predicate  the conditions that no inner iterator stands in
    inner_predicate  the conditions on inner iterators only
    errors           why the space cannot be divided; then `indices` is empty
    """

    indices: tuple[tuple[IterMark, IterMark], ...]
    outer_predicate: Expr
    inner_predicate: Expr
    errors: tuple[str, ...] = ()


def subspace_divide(
    bindings: Iterable[ExprLike],
    input_iters: Mapping[Var, Domain],
    sub_iters: Iterable[Var],
    predicate: ExprLike = True,
    check_level: IterMapLevel | int | str = IterMapLevel.SURJECTIVE,
    analyzer: Analyzer | None = None,
) -> SubspaceDivision:
    """Each binding as outer * extent + inner, where `inner` uses the inner iterators only.

    sub_iters    the inner iterators
    predicate    a conjunction; each condition must be about outer or about inner iterators only
    check_level  what the map of all iterators has to be shown to be, without the predicate
    """
    an = analyzer or Analyzer()
    inside = set(sub_iters)
    level = min(IterMapLevel.of(check_level), IterMapLevel.SURJECTIVE)
    try:
        strange = [v.name for v in inside if v not in input_iters]
        if strange:
            raise NotAffine(f"{', '.join(strange)} is no iterator")
        outer, inner = _conditions(an.inside(input_iters).simplify(predicate), input_iters, inside)
        d = Detection(an, input_iters, True)
        sums, padding = d.find(bindings, level)
        if not isinstance(padding, IntImm):
            raise NotAffine(f"padding is needed: {padding}")
        return SubspaceDivision(tuple([_divided(d, s, inside) for s in sums]), outer, inner)
    except NotAffine as e:
        return SubspaceDivision((), const(False), const(False), (str(e),))


def _conditions(
    predicate: Expr, iters: Mapping[Var, Domain], inside: set[Var]
) -> tuple[Expr, Expr]:
    outer: list[Expr] = []
    inner: list[Expr] = []
    for c in conjuncts(predicate):
        used = {v for v in free_vars(c) if v in iters}
        if used & inside and used - inside:
            raise NotAffine(f"{c} is about outer and inner iterators")
        (inner if used & inside else outer).append(c)
    return all_of(outer), all_of(inner)


def _divided(d: Detection, total: IterSum, inside: set[Var]) -> tuple[IterMark, IterMark]:
    """The outer and the inner part of one sum."""
    z = d.sizes
    fine = d.parser.canonical(
        [part for s in total.args for part in _resolved(z, s, inside)], total.base
    )
    inner = [s for s in fine.args if s.source.variables() <= inside]
    outer = [s for s in fine.args if not s.source.variables() & inside]
    if (*outer, *inner) != fine.args:
        raise NotAffine(f"in {value(z, total)} the inner iterators are not the inner part")
    size = d.parser.reach(inner)
    parts = []
    for s in outer:
        scale = z.exact(s.scale, size)
        if scale is None:
            raise NotAffine(f"{value(z, s)} is no multiple of {size}")
        parts.append(IterSplit(s.source, s.lower_factor, s.extent, scale))
    base = (z.zero, fine.base) if inner else (fine.base, z.zero)
    return (
        IterMark(IterSum(tuple(parts), base[0]), d.parser.reach(parts), base[0], z.zero),
        IterMark(IterSum(tuple(inner), base[1]), size, base[1], z.zero),
    )


def _resolved(z: Sizes, s: IterSplit, inside: set[Var]) -> list[IterSplit]:
    """A split as digits of marks that have outer or inner iterators only."""
    mark = s.source
    used = mark.variables()
    if not isinstance(mark.source, IterSum) or used <= inside or not used & inside:
        return [s]
    shifted = mark.low is not z.zero or mark.source.base is not z.zero
    parts = None if shifted else resolved(z, s)
    if parts is None:
        raise NotAffine(f"{value(z, s)} mixes outer and inner iterators")
    return [fine for part in parts for fine in _resolved(z, part, inside)]
