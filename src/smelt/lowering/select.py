"""A select whose values may not both be computed becomes an if_then_else."""

from __future__ import annotations

from smelt.ir import dtype as dt
from smelt.ir.expr import Call, Div, Expr, FloorDiv, FloorMod, Select, TruncDiv, TruncMod
from smelt.tir.nodes import BufferLoad, PrimFunc
from smelt.tir.script_ops import expr_nodes

from .ranges import RangeRewriter, sizes_of
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
        for x in expr_nodes(e):
            match x:
                case BufferLoad():
                    if not in_bounds(x, self.analyzer):
                        return False
                case FloorDiv(a, b) | FloorMod(a, b) | TruncDiv(a, b) | TruncMod(a, b) | Div(a, b):
                    if not dt.is_float(a.dtype) and not self.analyzer.can_prove(b > 0):
                        return False
                case _ if not is_total(x):
                    return False
        return True


def rewrite_unsafe_select(func: PrimFunc) -> PrimFunc:
    """A program whose selects can compute both values: the others choose before they compute."""
    return _Choose(sizes_of(func)).program(func)
