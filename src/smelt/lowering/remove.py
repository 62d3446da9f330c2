"""Statements that do nothing, or that shall do nothing, are taken out."""

from __future__ import annotations

from collections.abc import Callable

from smelt.ir.build import is_const
from smelt.ir.expr import Call
from smelt.ir.walk import free_vars
from smelt.tir import nodes as tir
from smelt.tir.rewrite import map_stmts
from smelt.tir.script_ops import is_pure

from .accesses import is_self, uses
from .ranges import RangeRewriter, analyzer_for


class _Remove(RangeRewriter):
    """Replaces what does nothing by nothing, from the inside out."""

    def loop(self, s: tir.For) -> tir.Stmt:
        new = self.parts(s)
        if tir.is_no_op(new.body) or self.analyzer.can_prove(new.extent <= 0):
            return tir.no_op()
        return new

    def visit_Seq(self, s: tir.Seq) -> tir.Stmt:
        return tir.without_no_ops(s, map(self.stmt, s.stmts))

    def visit_IfThenElse(self, s: tir.IfThenElse) -> tir.Stmt:
        new = self.parts(s)
        if is_const(new.condition):
            return new.then_body if is_const(new.condition, 1) else new.else_body or tir.no_op()
        return tir.without_empty_sides(new)

    def visit_LetStmt(self, s: tir.LetStmt) -> tir.Stmt:
        new = self.parts(s)
        used = s.var in free_vars(new.body) or not is_pure(new.value)
        return new if used else new.body

    def visit_Allocate(self, s: tir.Allocate) -> tir.Stmt:
        new = self.parts(s)
        return new if uses(new.body, new.buffer) else new.body

    def visit_Evaluate(self, s: tir.Evaluate) -> tir.Stmt:
        return tir.no_op() if is_pure(s.value) else s

    def visit_AssertStmt(self, s: tir.AssertStmt) -> tir.Stmt:
        return tir.no_op() if is_const(s.condition, 1) else s

    def visit_BufferStore(self, s: tir.BufferStore) -> tir.Stmt:
        """A store of what is there already."""
        return tir.no_op() if is_self(s.value, s) else s

    def visit_BlockRealize(self, s: tir.BlockRealize) -> tir.Stmt:
        new = self.parts(s)
        empty = tir.is_no_op(new.block.body) and (
            new.block.init is None or tir.is_no_op(new.block.init)
        )
        return tir.no_op() if empty or is_const(new.predicate, 0) else new


def remove_no_op(func: tir.PrimFunc) -> tir.PrimFunc:
    """A program without loops, branches, bindings, buffers and stores that do nothing."""
    return _Remove(analyzer_for(func)).program(func)


def _without(func: tir.PrimFunc, dropped: Callable[[tir.Stmt], bool]) -> tir.PrimFunc:
    """A program without the statements that a question is answered with yes for."""

    def kept(s: tir.Stmt) -> tir.Stmt:
        if isinstance(s, tir.Seq):
            return tir.without_no_ops(s, s.stmts)
        return tir.no_op() if dropped(s) else s

    body = map_stmts(func.body, tir.Stmt, kept)
    return func if body is func.body else func.replace(body=body)


def is_assume(s: tir.Stmt) -> bool:
    """Whether a statement only says what holds."""
    return isinstance(s, tir.Evaluate) and isinstance(s.value, Call) and s.value.op == "assume"


def remove_assume(func: tir.PrimFunc) -> tir.PrimFunc:
    """A program without T.assume."""
    return _without(func, is_assume)


def skip_asserts(func: tir.PrimFunc) -> tir.PrimFunc:
    """A program without checks."""
    return _without(func, lambda s: isinstance(s, tir.AssertStmt))
