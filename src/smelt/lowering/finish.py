"""Last touches on a flat program: fused multiply-adds, cheap divisions."""

from __future__ import annotations

from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.tir.nodes import PrimFunc

from .ranges import RangeRewriter, analyzer_for


class _Finish(RangeRewriter):
    fuses = True

    def visit_expr(self, e: expr.Expr) -> expr.Expr:
        e = super().visit_expr(e)
        if self.fuses and isinstance(e, expr.Add) and dt.scalar(e.dtype) in ("float32", "float64"):
            return _fused(e)
        if (
            isinstance(e, expr.FloorDiv | expr.FloorMod)
            and dt.is_int(e.dtype)
            and dt.lanes(e.dtype) == 1
        ):
            low = self.analyzer.bounds(e.a)[0]
            if low is not None and low >= 0 and self.analyzer.can_prove(e.b > 0):
                return (expr.TruncDiv if isinstance(e, expr.FloorDiv) else expr.TruncMod)(e.a, e.b)
        return e


def _fused(e: expr.Add) -> expr.Expr:
    """a * b + c with one rounding."""
    for product, other in ((e.b, e.a), (e.a, e.b)):
        if isinstance(product, expr.Mul):
            return expr.Call(e.dtype, "fma", (product.a, product.b, other))
    return e


def finish(func: PrimFunc) -> PrimFunc:
    """a * b + c as fma, where the target has one; floor divisions of what is never negative as the
    processor's own."""
    last = _Finish(analyzer_for(func))
    last.fuses = "fma" not in func.attrs.get("lacks", ())
    return func.replace(body=last.stmt(func.body))
