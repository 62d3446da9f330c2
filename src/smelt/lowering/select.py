"""A select whose values may not both be computed becomes an if_then_else."""

from __future__ import annotations

from smelt.ir.expr import Call, Div, Expr, FloorDiv, FloorMod, Select, TruncDiv, TruncMod
from smelt.tir.nodes import BufferLoad, PrimFunc
from smelt.tir.script_ops import expr_nodes

from .ranges import RangeRewriter, analyzer_for
from .safe import in_bounds, is_total


class _Choose(RangeRewriter):
    def visit_expr(self, e: Expr) -> Expr:
        new = super().visit_expr(e)
        match new:
            case Select(c, a, b) if not self.safe(a) or not self.safe(b):
                return Call(new.dtype, "if_then_else", (c, a, b))
        return new

    def safe(self, e: Expr) -> bool:
        """Whether a value can be computed whatever the condition is."""
        return all(is_total(x) or self.proved(x) for x in expr_nodes(e))

    def proved(self, e: Expr) -> bool:
        """Whether a load is in bounds, or a divisor positive, under the ranges of loops."""
        match e:
            case BufferLoad():
                return in_bounds(e, self.analyzer)
            case FloorDiv(_, b) | FloorMod(_, b) | TruncDiv(_, b) | TruncMod(_, b) | Div(_, b):
                return self.analyzer.can_prove(b > 0)
        return False


def rewrite_unsafe_select(func: PrimFunc) -> PrimFunc:
    """A program whose selects can compute both values: the others choose before they compute."""
    return _Choose(analyzer_for(func)).program(func)
