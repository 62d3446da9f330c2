"""From the values of the bindings back to the iterators."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.expr import Expr, ExprLike, Var, convert

from .analyzer import Analyzer
from .iter_nodes import IterMark, IterSplit, IterSum


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
    return _Inverse(an).of(iter_map, values)


class _Inverse:
    """The values of marks: the sum of those of their digits."""

    def __init__(self, an: Analyzer) -> None:
        self.an = an
        self.values: dict[IterMark, Expr] = {}

    def of(self, sums: Sequence[IterSum], outputs: Sequence[Expr]) -> dict[Var, Expr]:
        for total, output in zip(sums, outputs, strict=True):
            self.spread(total, output)
        out: dict[Var, Expr] = {}
        for mark in _outer_first(sums):
            e = self.values[mark] + mark.low
            if isinstance(mark.source, IterSum):
                self.spread(mark.source, e)
            else:
                out[mark.source] = self.an.simplify(e)
        return out

    def spread(self, total: IterSum, output: Expr) -> None:
        """Gives each mark of a sum its digits of the value."""
        e = self.an.simplify(output - total.base)
        for at, s in enumerate(total.args):
            digit = self.an.simplify(_digit(e, s, at == 0)) * s.lower_factor
            known = self.values.get(s.source)
            self.values[s.source] = digit if known is None else known + digit


def _digit(e: Expr, s: IterSplit, top: bool) -> Expr:
    """The digit at a scale; the topmost one has nothing above it to be cut off."""
    digit = e // s.scale
    return digit if top else digit % s.extent


def _outer_first(sums: Sequence[IterSum]) -> list[IterMark]:
    """The marks behind sums, each before those that it is made of."""
    done: dict[IterMark, None] = {}

    def visit(mark: IterMark) -> None:
        if mark not in done:
            if isinstance(mark.source, IterSum):
                for s in mark.source.args:
                    visit(s.source)
            done[mark] = None

    for total in sums:
        for s in total.args:
            visit(s.source)
    return list(reversed(done))
