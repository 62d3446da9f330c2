"""Unrolling, and copies of statements with variables and buffers of their own."""

from __future__ import annotations

from smelt.ir.errors import CompileError
from smelt.ir.expr import IntImm, Var, const
from smelt.tir.nodes import Allocate, Buffer, For, LetStmt, PrimFunc, Stmt, no_op, seq
from smelt.tir.printer import script
from smelt.tir.rewrite import Rewriter

from .ranges import sizes_of
from .simplify import Simplify

__all__ = ["renamed", "unroll_loops"]

_LARGE = 16384
"""Statements after which unrolling is refused as a mistake."""


class _Rename(Rewriter):
    """Fresh variables and buffers for everything defined inside."""

    def __init__(self) -> None:
        super().__init__()
        self.buffers: dict[Buffer, Buffer] = {}

    def buffer(self, b: Buffer) -> Buffer:
        return self.buffers.get(b, b)

    def visit_For(self, s: For) -> Stmt:
        fresh = self.memo[s.var] = Var(s.var.name, s.var.type)
        return For(
            fresh,
            self.expr(s.min),
            self.expr(s.extent),
            self.stmt(s.body),
            s.kind,
            s.thread,
            s.annotations,
        )

    def visit_LetStmt(self, s: LetStmt) -> Stmt:
        value = self.expr(s.value)
        fresh = Var(s.var.name, s.var.type)
        self.memo[s.var] = fresh
        return LetStmt(fresh, value, self.stmt(s.body))

    def visit_Allocate(self, s: Allocate) -> Stmt:
        fresh = self.buffers[s.buffer] = s.buffer.replace()
        return Allocate(fresh, self.stmt(s.body), s.annotations)


def renamed(s: Stmt) -> Stmt:
    """A copy whose loop variables, bindings and buffers are new objects."""
    return _Rename().stmt(s)


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
        copies = []
        for i in range(extent.value):
            self.define(s.var, low + const(i, low.dtype))
            copies.append(self.stmt(renamed(s.body) if _defines(s.body) else s.body))
        if copies:
            self.define(s.var, None)
        return seq(*copies) if copies else no_op()


def _defines(s: Stmt) -> bool:
    """Whether a statement defines variables or buffers, so that a copy must be renamed."""
    from_here: list[Stmt] = [s]
    while from_here:
        x = from_here.pop()
        if isinstance(x, For | LetStmt | Allocate):
            return True
        from_here.extend(c for c in x.children() if isinstance(c, Stmt))
    return False


def unroll_loops(func: PrimFunc) -> PrimFunc:
    """Write out the loops of kind "unrolled"."""
    return func.replace(body=_Unroll(sizes_of(func)).stmt(func.body))
