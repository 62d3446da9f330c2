"""Rewriting of statements and the expressions in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from smelt.ir.expr import Binary, Expr, Var
from smelt.ir.node import Node
from smelt.ir.walk import rebuild_binary, refold

from .nodes import (
    Allocate,
    AssertStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Range,
    Seq,
    Stmt,
    While,
    seq,
)

__all__ = ["Rewriter", "map_exprs", "replace_buffers", "substitute_stmt"]


class Rewriter:
    """Rebuilds a statement bottom up. Override `visit_<class>` for what should change.

    `expr` rewrites an expression: it memoises by node, so shared subexpressions are visited once
    per memo; call `fresh()` where the context changes (a new scope with other facts).
    """

    def __init__(self) -> None:
        """Start with an empty memo."""
        self.memo: dict[Expr, Expr] = {}

    # -------------------------------------------------------------------------- expressions

    def expr(self, e: Expr) -> Expr:
        """The expression rewritten."""
        found = self.memo.get(e)
        if found is None:
            found = self.memo[e] = self.visit_expr(e)
        return found

    def visit_expr(self, e: Expr) -> Expr:
        """One expression; the default rewrites its parts and folds constants."""
        if isinstance(e, Binary):
            a, b = self.expr(e.a), self.expr(e.b)
            return e if a is e.a and b is e.b else rebuild_binary(type(e), a, b)
        if isinstance(e, BufferLoad):
            indices = self.exprs(e.indices)
            buffer = self.buffer(e.buffer)
            return e if indices is e.indices and buffer is e.buffer else BufferLoad(buffer, indices)
        new = e.with_children(lambda c: self.expr(c) if isinstance(c, Expr) else c)
        return new if new is e else refold(new)

    def exprs(self, items: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Several expressions; the same tuple where nothing changed."""
        new = tuple([self.expr(e) for e in items])
        return items if all(a is b for a, b in zip(new, items, strict=True)) else new

    def buffer(self, b: Buffer) -> Buffer:
        """What stands for a buffer."""
        return b

    # --------------------------------------------------------------------------- statements

    def stmt(self, s: Stmt) -> Stmt:
        """The statement rewritten."""
        method: Callable[[Stmt], Stmt] = getattr(self, "visit_" + type(s).__name__)
        return method(s)

    def visit_Seq(self, s: Seq) -> Stmt:
        """Statements one after another, flattened again where something changed."""
        new = [self.stmt(x) for x in s.stmts]
        return s if all(a is b for a, b in zip(new, s.stmts, strict=True)) else seq(*new)

    def visit_For(self, s: For) -> Stmt:
        """A loop; its variable stays."""
        low, extent, body = self.expr(s.min), self.expr(s.extent), self.stmt(s.body)
        if low is s.min and extent is s.extent and body is s.body:
            return s
        return s.replace(min=low, extent=extent, body=body)

    def visit_While(self, s: While) -> Stmt:
        """A loop with a condition."""
        return While(self.expr(s.condition), self.stmt(s.body))

    def visit_IfThenElse(self, s: IfThenElse) -> Stmt:
        """A branch."""
        c, a = self.expr(s.condition), self.stmt(s.then_body)
        b = None if s.else_body is None else self.stmt(s.else_body)
        return (
            s if c is s.condition and a is s.then_body and b is s.else_body else IfThenElse(c, a, b)
        )

    def visit_LetStmt(self, s: LetStmt) -> Stmt:
        """A binding; its variable stays."""
        value, body = self.expr(s.value), self.stmt(s.body)
        return s if value is s.value and body is s.body else LetStmt(s.var, value, body)

    def visit_AssertStmt(self, s: AssertStmt) -> Stmt:
        """A check."""
        c = self.expr(s.condition)
        return s if c is s.condition else AssertStmt(c, s.message)

    def visit_Allocate(self, s: Allocate) -> Stmt:
        """A buffer and where it lives."""
        buffer, body = self.buffer(s.buffer), self.stmt(s.body)
        return s if buffer is s.buffer and body is s.body else Allocate(buffer, body, s.annotations)

    def visit_Evaluate(self, s: Evaluate) -> Stmt:
        """An effect."""
        value = self.expr(s.value)
        return s if value is s.value else Evaluate(value)

    def visit_BufferStore(self, s: BufferStore) -> Stmt:
        """A store."""
        value, indices, buffer = self.expr(s.value), self.exprs(s.indices), self.buffer(s.buffer)
        if value is s.value and indices is s.indices and buffer is s.buffer:
            return s
        return BufferStore(buffer, value, indices)

    def visit_BlockRealize(self, s: BlockRealize) -> Stmt:
        """A block and its bindings."""
        values, predicate = self.exprs(s.values), self.expr(s.predicate)
        block = self.stmt(s.block)
        if values is s.values and predicate is s.predicate and block is s.block:
            return s
        assert isinstance(block, Block)
        return BlockRealize(values, predicate, block)

    def visit_Block(self, s: Block) -> Stmt:
        """A block, its regions included."""
        reads, writes = self.regions(s.reads), self.regions(s.writes)
        init = None if s.init is None else self.stmt(s.init)
        body = self.stmt(s.body)
        allocs = tuple([self.buffer(b) for b in s.alloc_buffers])
        same = all(a is b for a, b in zip(allocs, s.alloc_buffers, strict=True))
        if reads is s.reads and writes is s.writes and init is s.init and body is s.body and same:
            return s
        return s.replace(reads=reads, writes=writes, init=init, body=body, alloc_buffers=allocs)

    def regions(self, items: tuple[BufferRegion, ...]) -> tuple[BufferRegion, ...]:
        """Regions with buffers and bounds rewritten."""
        new = tuple([self.region(r) for r in items])
        return items if all(a is b for a, b in zip(new, items, strict=True)) else new

    def region(self, r: BufferRegion) -> BufferRegion:
        """One region."""
        buffer = self.buffer(r.buffer)
        ranges = []
        for d in r.region:
            low, extent = self.expr(d.min), self.expr(d.extent)
            ranges.append(d if low is d.min and extent is d.extent else Range(low, extent))
        if buffer is r.buffer and all(a is b for a, b in zip(ranges, r.region, strict=True)):
            return r
        return BufferRegion(buffer, tuple(ranges))


class _Substitute(Rewriter):
    def __init__(self, values: Mapping[Var, Expr], buffers: Mapping[Buffer, Buffer]) -> None:
        super().__init__()
        self.memo.update(values.items())
        self.buffers = buffers

    def buffer(self, b: Buffer) -> Buffer:
        return self.buffers.get(b, b)


def substitute_stmt(s: Stmt, values: Mapping[Var, Expr]) -> Stmt:
    """A statement with variables replaced by expressions."""
    return _Substitute(values, {}).stmt(s) if values else s


def replace_buffers(s: Stmt, buffers: Mapping[Buffer, Buffer]) -> Stmt:
    """A statement with buffers replaced by others of the same rank."""
    return _Substitute({}, buffers).stmt(s) if buffers else s


class _MapExprs(Rewriter):
    def __init__(self, fn: Callable[[Expr], Expr]) -> None:
        super().__init__()
        self.fn = fn

    def visit_expr(self, e: Expr) -> Expr:
        return self.fn(super().visit_expr(e))


def map_exprs(s: Stmt, fn: Callable[[Expr], Expr]) -> Stmt:
    """A statement with `fn` applied to every expression, innermost first."""
    return _MapExprs(fn).stmt(s)


def loads(root: Node) -> list[BufferLoad]:
    """All distinct loads in a statement or expression."""
    found: dict[BufferLoad, None] = {}
    stack: list[Node] = [root]
    seen: set[Node] = set()
    while stack:
        n = stack.pop()
        if isinstance(n, Expr):
            if n in seen:
                continue
            seen.add(n)
            if isinstance(n, BufferLoad):
                found[n] = None
        if isinstance(n, Block):
            stack.extend(x for x in (n.body, n.init) if x is not None)
        elif not isinstance(n, Buffer):
            stack.extend(n.children())
    return list(found)
