"""What passes on statements share: an analyzer that follows the loops on the way down."""

from __future__ import annotations

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.build import logical_not
from smelt.ir.expr import Expr
from smelt.tir.facts import analyzer_of, sizes_of
from smelt.tir.nodes import For, IfThenElse, IterVar, PrimFunc, Stmt
from smelt.tir.rewrite import Rewriter


def analyzer_for(func: PrimFunc) -> Analyzer:
    """What is known of the sizes of a program."""
    return analyzer_of(sizes_of(func))


class RangeRewriter(Rewriter):
    """A Rewriter whose analyzer knows the ranges of the loops around."""

    def __init__(self, analyzer: Analyzer) -> None:
        """What is known of sizes, or of all that is around."""
        super().__init__()
        self.analyzer = analyzer

    def visit_For(self, s: For) -> Stmt:
        """A loop, whose range is known from here on; override `loop` instead of this."""
        self.analyzer.bind(s.var, s.min, s.extent)
        return self.loop(s)

    def loop(self, s: For) -> Stmt:
        """A loop whose range is known."""
        return super().visit_For(s)

    def branches(self, s: IfThenElse, condition: Expr) -> tuple[Stmt, Stmt | None]:
        """Both sides of a branch, each with what its condition says there."""
        yes = self.side(s.then_body, condition)
        no = s.else_body
        return yes, None if no is None else self.side(no, logical_not(condition))

    def side(self, s: Stmt, condition: Expr) -> Stmt:
        """A statement that runs where a condition holds; one of many lanes is no fact."""
        if dt.lanes(condition.dtype) > 1:
            return self.stmt(s)
        with self.analyzer.assume(condition):
            return self.stmt(s)

    def iter_var(self, i: IterVar) -> IterVar:
        """A variable of a block, whose domain is known from here on."""
        new = super().iter_var(i)
        self.analyzer.bind(i.var, new.dom.min, new.dom.extent)
        return new
