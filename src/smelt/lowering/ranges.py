"""What passes on statements share: an analyzer that follows the loops on the way down."""

from __future__ import annotations

from collections.abc import Iterable

from smelt.arith import Analyzer
from smelt.ir.expr import Var
from smelt.tir.nodes import For, PrimFunc, Stmt
from smelt.tir.rewrite import Rewriter

__all__ = ["RangeRewriter", "sizes_of"]


class RangeRewriter(Rewriter):
    """A Rewriter whose analyzer knows the ranges of the loops around."""

    def __init__(self, sizes: Iterable[Var]) -> None:
        """Symbolic sizes are at least 1."""
        super().__init__()
        self.analyzer = Analyzer()
        for v in sizes:
            self.analyzer.assume_positive(v)

    def visit_For(self, s: For) -> Stmt:
        """A loop, whose range is known from here on; override `loop` instead of this."""
        self.analyzer.bind(s.var, s.min, s.extent)
        return self.loop(s)

    def loop(self, s: For) -> Stmt:
        """A loop whose range is known."""
        return super().visit_For(s)


def sizes_of(func: PrimFunc) -> list[Var]:
    """The symbolic sizes among a program's parameters."""
    return [p for p in func.params if isinstance(p, Var)]
