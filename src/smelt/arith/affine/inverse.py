"""From the values of the bindings back to the iterators."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.expr import Expr, ExprLike, Var, convert

from ..analyzer import Analyzer
from .nodes import IterMark, IterSum, outer_first


def inverse_affine_iter_map(
    iter_map: Sequence[IterSum], outputs: Sequence[ExprLike], analyzer: Analyzer | None = None
) -> dict[Var, Expr]:
    """Each iterator in terms of the values of the bindings.

    iter_map  the indices of a map found at level BIJECTIVE, or SURJECTIVE: what holds of an
              iterator then holds but in the padding. Iterators that no index uses are left out
    outputs   a value for each index
    analyzer  what is known of these values
    """
    an = analyzer or Analyzer()
    values = [convert(e) for e in outputs]
    if len(values) != len(iter_map):
        raise ValueError(f"the map has {len(iter_map)} indices, {len(values)} values given")
    known: dict[IterMark, Expr] = {}
    for total, value in zip(iter_map, values, strict=True):
        _spread(an, known, total, value)
    found: dict[Var, Expr] = {}
    for mark in outer_first(s.source for total in iter_map for s in total.args):
        e = known[mark] + mark.low
        if isinstance(mark.source, IterSum):
            _spread(an, known, mark.source, e)
        else:
            found[mark.source] = an.simplify(e)
    return found


def _spread(an: Analyzer, known: dict[IterMark, Expr], total: IterSum, value: Expr) -> None:
    """Adds to what is known of each mark of a sum its digits of the sum's value."""
    e = an.simplify(value - total.base)
    for at, s in enumerate(total.args):
        # the topmost digit has nothing above it to be cut off
        digit = e // s.scale if at == 0 else e // s.scale % s.extent
        part = an.simplify(digit) * s.lower_factor
        known[s.source] = known[s.source] + part if s.source in known else part
