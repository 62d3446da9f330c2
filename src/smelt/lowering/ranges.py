"""What passes on statements share: an analyzer that follows the loops on the way down."""

from __future__ import annotations

from collections.abc import Iterable

from smelt.arith import Analyzer
from smelt.ir.expr import Expr, Mul, Var
from smelt.ir.walk import free_vars
from smelt.tir.nodes import Block, For, PrimFunc, Range, Stmt
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

    def visit_Block(self, s: Block) -> Stmt:
        """A block, whose variables' domains are known from here on."""
        doms = [Range(self.expr(i.dom.min), self.expr(i.dom.extent)) for i in s.iter_vars]
        for i, d in zip(s.iter_vars, doms, strict=True):
            self.analyzer.bind(i.var, d.min, d.extent)
        made = super().visit_Block(s)
        pairs = list(zip(s.iter_vars, doms, strict=True))
        if all(d.min is i.dom.min and d.extent is i.dom.extent for i, d in pairs):
            return made
        return made.replace(iter_vars=tuple([i.replace(dom=d) for i, d in pairs]))


def sizes_of(func: PrimFunc) -> list[Var]:
    """The symbolic sizes: factors of the parameters' extents, and what their strides are made of.

    Another scalar parameter may be zero or negative.
    """
    found: dict[Var, None] = {}
    for b in func.buffers:
        for e in b.shape:
            found.update(dict.fromkeys(_factors(e)))
        for e in b.strides:
            found.update(dict.fromkeys(sorted(free_vars(e), key=lambda v: v.name)))
    return list(found)


def _factors(e: Expr) -> list[Var]:
    if isinstance(e, Mul):
        return _factors(e.a) + _factors(e.b)
    return [e] if isinstance(e, Var) else []
