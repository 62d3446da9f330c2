"""Statements that do nothing, or that shall do nothing, are taken out."""

from __future__ import annotations

from collections.abc import Callable

from smelt.ir.build import is_const, logical_not
from smelt.ir.expr import Call
from smelt.ir.walk import free_vars
from smelt.tir.nodes import (
    Allocate,
    AssertStmt,
    BlockRealize,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    is_no_op,
    no_op,
    seq,
    without_no_ops,
)
from smelt.tir.rewrite import Rewriter

from .accesses import uses
from .ranges import RangeRewriter, sizes_of
from .safe import is_pure


class _Remove(RangeRewriter):
    """Replaces what does nothing by nothing, from the inside out."""

    def loop(self, s: For) -> Stmt:
        new = self.parts(s)
        if is_no_op(new.body) or self.analyzer.can_prove(new.extent <= 0):
            return no_op()
        return new

    def visit_Seq(self, s: Seq) -> Stmt:
        return without_no_ops(s, map(self.stmt, s.stmts))

    def visit_IfThenElse(self, s: IfThenElse) -> Stmt:
        new = self.parts(s)
        no = None if new.else_body is None or is_no_op(new.else_body) else new.else_body
        if is_const(new.condition):
            return new.then_body if is_const(new.condition, 1) else no or no_op()
        if is_no_op(new.then_body):
            return no_op() if no is None else IfThenElse(logical_not(new.condition), no)
        return new if no is new.else_body else IfThenElse(new.condition, new.then_body)

    def visit_LetStmt(self, s: LetStmt) -> Stmt:
        new = self.parts(s)
        used = s.var in free_vars(new.body) or not is_pure(new.value)
        return new if used else new.body

    def visit_Allocate(self, s: Allocate) -> Stmt:
        new = self.parts(s)
        return new if uses(new.body, new.buffer) else new.body

    def visit_Evaluate(self, s: Evaluate) -> Stmt:
        return no_op() if is_pure(s.value) else s

    def visit_AssertStmt(self, s: AssertStmt) -> Stmt:
        return no_op() if is_const(s.condition, 1) else s

    def visit_BufferStore(self, s: BufferStore) -> Stmt:
        """A store of what is there already."""
        v = s.value
        same = isinstance(v, BufferLoad) and v.buffer is s.buffer and _alike(v, s)
        return no_op() if same else s

    def visit_BlockRealize(self, s: BlockRealize) -> Stmt:
        new = self.parts(s)
        empty = is_no_op(new.block.body) and (new.block.init is None or is_no_op(new.block.init))
        return no_op() if empty or is_const(new.predicate, 0) else new


def _alike(load: BufferLoad, s: BufferStore) -> bool:
    return all(a is b for a, b in zip(load.indices, s.indices, strict=True))


def remove_no_op(func: PrimFunc) -> PrimFunc:
    """A program without loops, branches, bindings, buffers and stores that do nothing."""
    return _Remove(sizes_of(func)).program(func)


class _Drop(Rewriter):
    """Takes out the statements that a question is answered with yes for."""

    def __init__(self, dropped: Callable[[Stmt], bool]) -> None:
        super().__init__()
        self.dropped = dropped

    def stmt(self, s: Stmt) -> Stmt:
        return no_op() if self.dropped(s) else super().stmt(s)

    def visit_Seq(self, s: Seq) -> Stmt:
        kept = [self.stmt(x) for x in s.stmts if not self.dropped(x)]
        if len(kept) == len(s.stmts) and all(a is b for a, b in zip(kept, s.stmts, strict=True)):
            return s
        return seq(*kept) if kept else no_op()


def _without(func: PrimFunc, dropped: Callable[[Stmt], bool]) -> PrimFunc:
    return _Drop(dropped).program(func)


def remove_assume(func: PrimFunc) -> PrimFunc:
    """A program without T.assume."""

    def assumed(s: Stmt) -> bool:
        return isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.op == "assume"

    return _without(func, assumed)


def skip_asserts(func: PrimFunc) -> PrimFunc:
    """A program without checks."""
    return _without(func, lambda s: isinstance(s, AssertStmt))
