"""Expressions in normal form, statements as they are."""

from __future__ import annotations

from smelt.ir.expr import Expr
from smelt.tir.nodes import PrimFunc

from .ranges import RangeRewriter, analyzer_for


class _Normal(RangeRewriter):
    def expr(self, e: Expr) -> Expr:
        return self.analyzer.simplify(e)


def renormalize(func: PrimFunc) -> PrimFunc:
    """A program whose expressions are simplified under the ranges of the loops around."""
    return _Normal(analyzer_for(func)).program(func)
