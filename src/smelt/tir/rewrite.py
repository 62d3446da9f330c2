"""Rewriting of statements and the expressions in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from smelt.ir.expr import Binary, Expr, Var
from smelt.ir.node import Node, map_all, map_nodes
from smelt.ir.walk import rebuild_binary, refold

from . import nodes
from .names import unique_name

N = TypeVar("N", bound=Node)
S = TypeVar("S", bound=nodes.Stmt)

Indices = tuple[Expr, ...]


class Rewriter:
    """Rebuilds a statement bottom up. Override `visit_<class>` for what should change.

    `expr` rewrites an expression: it memoises by node, so shared subexpressions are visited once
    per memo; empty `memo` where the context changes (a new scope with other facts).
    """

    def __init__(
        self,
        values: Mapping[Var, Expr] | None = None,
        buffers: Mapping[Any, nodes.Buffer] | None = None,
    ) -> None:
        """What stands for some variables and buffers."""
        self.memo: dict[Expr, Expr] = dict(values.items()) if values else {}
        self.buffers: dict[Any, nodes.Buffer] = dict(buffers or {})

    def program(self, f: nodes.PrimFunc) -> nodes.PrimFunc:
        """A program with its body rewritten; the same one where nothing changed."""
        body = self.stmt(f.body)
        return f if body is f.body else f.replace(body=body)

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
        if isinstance(e, nodes.BufferLoad):
            buffer, indices = self.access(e.buffer, self.exprs(e.indices))
            return (
                e
                if indices is e.indices and buffer is e.buffer
                else nodes.BufferLoad(buffer, indices)
            )
        new = e.with_children(self.child)
        return new if new is e else refold(new)

    def exprs(self, items: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Several expressions; the same tuple where nothing changed."""
        return map_all(items, self.expr)

    def access(self, b: nodes.Buffer, indices: Indices) -> tuple[nodes.Buffer, Indices]:
        """Where a load or store goes whose indices are rewritten already."""
        return self.buffer(b), indices

    def buffer(self, b: nodes.Buffer) -> nodes.Buffer:
        """What stands for a buffer; override `other_buffer` instead of this."""
        found = self.buffers.get(b)
        if found is None:
            found = self.buffers[b] = self.other_buffer(b)
        return found

    def other_buffer(self, b: nodes.Buffer) -> nodes.Buffer:
        """What will stand for a buffer that is met for the first time."""
        return b

    def allocated(self, b: nodes.Buffer) -> nodes.Buffer:
        """What stands from here on for a buffer that is allocated here, its shape rewritten."""
        new = self.buffer(b)
        self.buffers[b] = self.parts(b) if new is b else new
        return self.buffers[b]

    # --------------------------------------------------------------------------- statements

    def stmt(self, s: nodes.Stmt) -> nodes.Stmt:
        """The statement rewritten."""
        method: Callable[[nodes.Stmt], nodes.Stmt] = getattr(self, "visit_" + type(s).__name__)
        return method(s)

    def parts(self, s: N) -> N:
        """A node with its parts rewritten; the variable that it binds stays."""
        own = getattr(s, "var", None)
        return s.with_children(lambda c: c if c is own else self.child(c))

    def visit_Seq(self, s: nodes.Seq) -> nodes.Stmt:
        """Statements one after another, flattened again where something changed."""
        new = map_all(s.stmts, self.stmt)
        return s if new is s.stmts else nodes.seq(*new)

    def _plain(self, s: Any) -> nodes.Stmt:
        made: nodes.Stmt = self.parts(s)
        return made

    visit_For = visit_While = visit_IfThenElse = visit_LetStmt = _plain
    visit_AssertStmt = visit_Evaluate = visit_BlockRealize = _plain

    def visit_Allocate(self, s: nodes.Allocate) -> nodes.Stmt:
        """A buffer, in whose shape variables may stand, and the statements that use it."""
        buffer, annotations = self.allocated(s.buffer), self.notes(s.annotations)
        return updated(s, buffer=buffer, annotations=annotations, body=self.stmt(s.body))

    def visit_AllocateConst(self, s: nodes.AllocateConst) -> nodes.Stmt:
        """A buffer of constants, and the statements that use it."""
        return updated(s, buffer=self.allocated(s.buffer), body=self.stmt(s.body))

    def visit_BufferStore(self, s: nodes.BufferStore) -> nodes.Stmt:
        """A store."""
        value = self.expr(s.value)
        buffer, indices = self.access(s.buffer, self.exprs(s.indices))
        same = buffer is s.buffer and value is s.value and indices is s.indices
        return s if same else nodes.BufferStore(buffer, value, indices)

    def visit_Block(self, s: nodes.Block) -> nodes.Block:
        """A block with all that is in it."""
        iters = map_all(s.iter_vars, self.iter_var)
        allocs = map_all(s.alloc_buffers, self.allocated)
        reads, writes = self.regions(s.reads), self.regions(s.writes)
        new = updated(s, iter_vars=iters, reads=reads, writes=writes, alloc_buffers=allocs)
        return self.block_parts(updated(new, annotations=self.notes(s.annotations)))

    def block_parts(self, s: nodes.Block) -> nodes.Block:
        """A block whose statements alone are rewritten."""
        init = None if s.init is None else self.stmt(s.init)
        return updated(s, init=init, body=self.stmt(s.body))

    def iter_var(self, i: nodes.IterVar) -> nodes.IterVar:
        """A variable of a block, its domain rewritten."""
        return self.parts(i)

    def notes(self, annotations: nodes.Annotations) -> nodes.Annotations:
        """Annotations, with the expressions in them rewritten."""
        made: nodes.Annotations = map_nodes(annotations, self.child)
        return made

    def regions(self, items: tuple[nodes.BufferRegion, ...]) -> tuple[nodes.BufferRegion, ...]:
        """Regions with buffers and bounds rewritten."""
        return map_all(items, self.region)

    def region(self, r: nodes.BufferRegion) -> nodes.BufferRegion:
        """One region."""
        return r.with_children(self.child)

    def child(self, node: Node) -> Node:
        """A part of a node; the variables that a block or a reduction binds stay."""
        if isinstance(node, Expr):  # most are
            return self.expr(node)
        match node:
            case nodes.Stmt():
                return self.stmt(node)
            case nodes.Buffer():
                return self.buffer(node)
        return self.parts(node) if node.part else node


def updated(node: N, **fields: Any) -> N:
    """A node with some fields changed; the same node where they hold these objects already."""
    for f, value in fields.items():
        if getattr(node, f) is not value:
            return node.replace(**fields)
    return node


class RenameBound(Rewriter):
    """A copy in which what a statement binds is new: variables, buffers, names of blocks.

    Override `new_var`, `new_buffer` and `new_block` to choose them.
    """

    def __init__(self) -> None:
        """Nothing is bound yet."""
        super().__init__()

    def new_var(self, v: Var, low: Expr | None = None, extent: Expr | None = None) -> Var:
        """What stands for a variable, which runs from `low` where a loop or a block binds it."""
        return Var(v.name, v.type)

    def new_buffer(self, b: nodes.Buffer) -> nodes.Buffer:
        """What stands for a buffer."""
        return b.replace()

    def new_block(self, name: str) -> str:
        """The name of a block."""
        return name

    def bind(self, v: Var, low: Expr | None = None, extent: Expr | None = None) -> Var:
        """The variable that stands for one from here on."""
        new = self.new_var(v, low, extent)
        self.forget(self.memo.get(v, new), new)
        self.memo[v] = new
        return new

    def forget(self, old: Node, new: Node) -> None:
        """Drop what was made with another node: it is bound elsewhere, too."""
        if old is not new:
            self.memo = {k: e for k, e in self.memo.items() if isinstance(k, Var)}

    def allocated(self, b: nodes.Buffer) -> nodes.Buffer:
        """The buffer that stands for one from here on."""
        new = self.new_buffer(self.parts(b))
        self.forget(self.buffers.get(b, new), new)
        self.buffers[b] = new
        return new

    def visit_For(self, s: nodes.For) -> nodes.Stmt:
        """A loop over a variable of its own."""
        low, extent = self.expr(s.min), self.expr(s.extent)
        var = self.bind(s.var, low, extent)
        notes = self.notes(s.annotations)
        new = updated(s, var=var, min=low, extent=extent, annotations=notes)
        return updated(new, body=self.stmt(s.body))

    def visit_LetStmt(self, s: nodes.LetStmt) -> nodes.Stmt:
        """A binding of a variable of its own."""
        value = self.expr(s.value)
        return updated(s, var=self.bind(s.var), value=value, body=self.stmt(s.body))

    def iter_var(self, i: nodes.IterVar) -> nodes.IterVar:
        """A variable of its own over the same domain."""
        new = self.parts(i)
        return updated(new, var=self.bind(i.var, new.dom.min, new.dom.extent))

    def visit_Block(self, s: nodes.Block) -> nodes.Block:
        """A block with variables and buffers of its own."""
        return super().visit_Block(updated(s, name=self.new_block(s.name)))


class UniqueNames(RenameBound):
    """Renames what has a name that is taken, or repeats one."""

    def __init__(self, names: set[str]) -> None:
        """Take note of names in this set; blocks have names of their own."""
        super().__init__()
        self.names, self.blocks = names, set[str]()

    def new_var(self, v: Var, low: Expr | None = None, extent: Expr | None = None) -> Var:
        """The variable itself where its name is free."""
        name = unique_name(v.name, self.names)
        return v if name == v.name else Var(name, v.type)

    def new_buffer(self, b: nodes.Buffer) -> nodes.Buffer:
        """The buffer itself where its name is free."""
        return updated(b, name=unique_name(b.name, self.names))

    def new_block(self, name: str) -> str:
        """The name itself where no other block has it."""
        return unique_name(name, self.blocks)


def renamed(s: nodes.Stmt) -> nodes.Stmt:
    """A copy whose loop variables, bindings and buffers are new objects."""
    return RenameBound().stmt(s)


def substitute_stmt(s: nodes.Stmt, values: Mapping[Var, Expr]) -> nodes.Stmt:
    """A statement with variables replaced by expressions."""
    return Rewriter(values).stmt(s) if values else s


def replace_buffers(s: nodes.Stmt, buffers: Mapping[nodes.Buffer, nodes.Buffer]) -> nodes.Stmt:
    """A statement with buffers replaced by others of the same rank."""
    return Rewriter(buffers=buffers).stmt(s) if buffers else s


class _MapStmts(Rewriter):
    def __init__(self, kind: type[nodes.Stmt], fn: Callable[[Any], nodes.Stmt]) -> None:
        super().__init__()
        self.kind, self.fn = kind, fn

    def stmt(self, s: nodes.Stmt) -> nodes.Stmt:
        new = super().stmt(s) if nodes.sub_statements(s) else s
        return self.fn(new) if isinstance(new, self.kind) else new

    def expr(self, e: Expr) -> Expr:
        return e


def map_stmts(s: nodes.Stmt, kind: type[S], fn: Callable[[S], nodes.Stmt]) -> nodes.Stmt:
    """A statement with `fn` applied to every statement of a kind in it, innermost first."""
    return _MapStmts(kind, fn).stmt(s)


def own_loads(s: nodes.Stmt) -> list[nodes.BufferLoad]:
    """The loads in the expressions directly in a statement."""
    return [x for e in nodes.own_exprs(s) for x in loads(e)]


def loads(root: Node) -> list[nodes.BufferLoad]:
    """All distinct loads in a statement or expression."""
    found: dict[nodes.BufferLoad, None] = {}
    stack: list[Node] = [root]
    seen: set[Node] = set()
    while stack:
        n = stack.pop()
        if isinstance(n, Expr):
            if n in seen:
                continue
            seen.add(n)
            if isinstance(n, nodes.BufferLoad):
                found[n] = None
        if isinstance(n, nodes.Block):
            stack.extend(x for x in (n.body, n.init) if x is not None)
        elif not isinstance(n, nodes.Buffer):
            stack.extend(n.children())
    return list(found)
