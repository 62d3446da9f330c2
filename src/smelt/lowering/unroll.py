"""Unrolling, and copies of statements with variables and buffers of their own."""

from __future__ import annotations

from smelt.ir.errors import CompileError
from smelt.ir.expr import IntImm, const
from smelt.tir.nodes import Allocate, AllocateConst, For, LetStmt, PrimFunc, Stmt, no_op, seq, walk
from smelt.tir.printer import script
from smelt.tir.rewrite import renamed

from .ranges import sizes_of
from .simplify import Simplify

_LARGE = 16384
"""Statements after which unrolling is refused as a mistake."""


class _Unroll(Simplify):
    """Writes out unrolled loops; simplifies on the way, since now more is constant."""

    def visit_For(self, s: For) -> Stmt:
        if s.kind != "unrolled":
            return super().visit_For(s)
        low, extent = self.expr(s.min), self.expr(s.extent)
        if not isinstance(extent, IntImm):
            raise CompileError(
                f"the unrolled loop {s.var.name} has the extent {script(extent)}, not a constant"
            )
        if extent.value > _LARGE:
            raise CompileError(f"the unrolled loop {s.var.name} has {extent.value} turns")
        # what defines variables or buffers is renamed in each copy
        defines = any(isinstance(x, For | LetStmt | Allocate | AllocateConst) for x in walk(s.body))
        copies = []
        for i in range(extent.value):
            self.define(s.var, low + const(i, low.dtype))
            copies.append(self.stmt(renamed(s.body) if defines else s.body))
        if copies:
            self.define(s.var, None)
        return seq(*copies) if copies else no_op()


def unroll_loops(func: PrimFunc) -> PrimFunc:
    """Write out the loops of kind "unrolled"."""
    return func.replace(body=_Unroll(sizes_of(func)).stmt(func.body))
