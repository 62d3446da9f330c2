"""What is defined where: undefined names, where buffers are used, what blocks touch, rules kept."""

from __future__ import annotations

from collections.abc import Iterable

from smelt.ir.errors import VerifyError
from smelt.ir.expr import Expr, Var, const
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.tir.facts import Facts
from smelt.tir.nodes import (
    Allocate,
    AllocateConst,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    LetStmt,
    PrimFunc,
    Reduce,
    Stmt,
    sub_statements,
    walk,
)
from smelt.tir.regions import accesses
from smelt.tir.script_ops import expr_nodes
from smelt.tir.threads import around_uses
from smelt.tir.verify import verify


def verify_well_formed(obj: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """Whether a tensor program, or each of a module, obeys the rules (see `verify`).

    assert_mode  raise the VerifyError that shows the place instead of returning False
    """
    funcs = [obj] if isinstance(obj, PrimFunc) else obj.functions.values()
    for f in funcs:
        if isinstance(f, PrimFunc):
            try:
                verify(f)
            except VerifyError:
                if assert_mode:
                    raise
                return False
    return True


def verify_ssa(func: PrimFunc) -> bool:
    """Whether every variable and buffer of a program is defined in one place only."""
    defined: list[Node] = list(func.params)
    for s in walk(func.body):
        defined += _defines(s)
    return len(defined) == len(set(defined))


def undefined_vars(node: Stmt | Expr | PrimFunc, defs: Iterable[Var] = ()) -> list[Var]:
    """The variables that a program uses and does not define, in order of their first use.

    defs  variables that count as defined besides
    """
    return [n for n in _undefined(node, set(defs)) if isinstance(n, Var)]


def undefined_buffers(node: Stmt | Expr | PrimFunc, defined: Iterable[Buffer] = ()) -> list[Buffer]:
    """The buffers that a program uses and does not define, in order of their first use."""
    return [n for n in _undefined(node, set(defined)) if isinstance(n, Buffer)]


def _undefined(node: Stmt | Expr | PrimFunc, defined: set[Node]) -> list[Node]:
    found: dict[Node, None] = {}
    if isinstance(node, Expr):
        _use([node], defined, found)
        return list(found)
    if isinstance(node, PrimFunc):
        defined = defined | set(node.params)
        for b in node.buffers:
            _sizes(b, defined)
        node = node.body
    stack: list[tuple[Stmt, set[Node]]] = [(node, defined)]
    while stack:
        s, known = stack.pop()
        if isinstance(s, BufferStore) and s.buffer not in known:
            found[s.buffer] = None
        own = [c for c in s.children() if isinstance(c, Expr) and not _binds(s, c)]
        if isinstance(s, Block):
            known = known | set(_defines(s))
            parts = [*s.reads, *s.writes]
            own = [e for r in parts for d in r.region for e in (d.min, d.extent)]
            own += [e for it in s.iter_vars for e in (it.dom.min, it.dom.extent)]
        _use(own, known, found)
        if _defines(s):
            known = known | set(_defines(s))
        stack.extend((x, known) for x in reversed(sub_statements(s)))
    return list(found)


def _binds(s: Stmt, e: Expr) -> bool:
    return isinstance(s, For | LetStmt) and e is s.var


def _defines(s: Stmt) -> list[Node]:
    """What a statement defines for the statements in it."""
    match s:
        case For(var) | LetStmt(var):
            return [var]
        case Allocate(buffer) | AllocateConst(buffer):
            return [buffer]
        case Block():
            return [*[it.var for it in s.iter_vars], *s.alloc_buffers]
    return []


def _sizes(b: Buffer, defined: set[Node]) -> None:
    """The sizes that a parameter's shape tells are defined."""
    for e in (*b.shape, *b.strides):
        defined.update(n for n in expr_nodes(e) if isinstance(n, Var))


def _use(exprs: Iterable[Expr], defined: set[Node], found: dict[Node, None]) -> None:
    for root in exprs:
        inner: set[Node] = set()
        nodes = list(expr_nodes(root))
        for n in nodes:
            if isinstance(n, Reduce):
                inner.update(it.var for it in n.axis)
        for n in nodes:
            used = n if isinstance(n, Var) else n.buffer if isinstance(n, BufferLoad) else None
            if used is not None and used not in defined and used not in inner:
                found[used] = None


def detect_buffer_access_lca(func: PrimFunc) -> dict[Buffer, Stmt]:
    """For every buffer that is used: the innermost statement that holds all its uses."""
    return {b: path[-1] for b, path in around_uses(func.body).items()}


def get_block_access_region(
    block: Block | BlockRealize, func: PrimFunc | None = None
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """The regions that the body of a block reads and writes, in terms of its variables.

    A reduction's reading of its own result is not listed; an index that is data, or that leaves
    what is known of its variables, counts as the whole dimension.

    func  the program around, for what it knows of sizes and loops
    """
    inner = block.block if isinstance(block, BlockRealize) else block
    values = tuple([it.dom.min for it in inner.iter_vars])
    alone = PrimFunc((), BlockRealize(values, const(True), inner))
    return accesses(Facts(alone if func is None else func), inner)
