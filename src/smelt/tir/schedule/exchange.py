"""Another buffer in the place of one: in the whole function, or in some blocks as a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from smelt.ir.expr import Expr
from smelt.tir.rewrite import Indices, Rewriter

from .. import nodes
from .region import refreshed
from .state import Change, State, allocating


def is_outer(b: nodes.Block) -> bool:
    """Whether a block has blocks inside."""
    return any(isinstance(x, nodes.BlockRealize) for x in nodes.walk(b.body))


class Relayout(Rewriter):
    """Moves every access of a buffer to new indices of a new one."""

    def __init__(
        self, old: nodes.Buffer, new: nodes.Buffer, at: Callable[[Indices], Indices]
    ) -> None:
        super().__init__()
        self.old, self.new, self.at = old, new, at

    def access(self, b: nodes.Buffer, indices: Indices) -> tuple[nodes.Buffer, Indices]:
        """Where an element of the old buffer is in the new one."""
        return (self.new, self.at(indices)) if b is self.old else (b, indices)

    def visit_Block(self, s: nodes.Block) -> nodes.Block:
        """A block, its regions in the new buffer."""
        return self.block_parts(s)


def transform_accesses(s: State, old: nodes.Buffer, new: nodes.Buffer, rewriter: Rewriter) -> None:
    """Let every block use a new buffer in the place of an old one, as a rewriter says."""

    def outer(b: nodes.Block) -> nodes.Block:
        allocs = tuple([new if x is old else x for x in b.alloc_buffers])
        made = b.replace(alloc_buffers=allocs)
        return made if b.name == "root" else refreshed(s, made)

    _exchange(s, old, new, lambda b: refreshed(s, rewriter.stmt(b)), outer)


def replace_buffer(s: State, old: nodes.Buffer, new: nodes.Buffer) -> None:
    """Another buffer of the same shape in the whole function; only its users are rebuilt."""
    swap = Rewriter(buffers={old: new})

    def outer(b: nodes.Block) -> nodes.Block:
        plain = b.replace(body=nodes.no_op())
        made = swap.visit_Block(plain)
        return made.replace(body=b.body)

    _exchange(s, old, new, swap.visit_Block, outer)


def _exchange(
    s: State,
    old: nodes.Buffer,
    new: nodes.Buffer,
    inner: Callable[[nodes.Block], nodes.Block],
    outer: Callable[[nodes.Block], nodes.Block],
) -> None:
    """Rebuild the blocks that use a buffer, and those with blocks inside or that allocate it."""
    changes: dict[nodes.Stmt, Change] = {}
    for b in nodes.walk(s.func.body):
        if not isinstance(b, nodes.Block):
            continue
        if is_outer(b):
            changes[b] = outer
        elif any(r.buffer is old for r in (*b.reads, *b.writes)):
            changes[b] = inner(b)
        elif old in b.alloc_buffers:
            changes[b] = outer
    s.replace(changes)
    if old in s.func.params:
        s.set_func(s.func.replace(params=tuple([new if p is old else p for p in s.func.params])))


def stored(
    s: State,
    base: str,
    domains: Iterable[nodes.Range],
    store: Callable[[Indices], nodes.BufferStore],
    predicate: Callable[[Indices], Expr] | None = None,
) -> tuple[str, nodes.Stmt]:
    """A block that stores one element, in loops over the domains of its variables; and its name.

    base              what it is called, unless that name is taken
    store, predicate  in terms of these variables
    """
    iters = s.iter_vars(domains)
    point: Indices = tuple([i.var for i in iters])
    name = s.fresh_block(base)
    block = refreshed(s, nodes.Block(name, iters, (), (), store(point)))
    return name, s.block_nest(block, None if predicate is None else predicate(point))


def stage(
    s: State,
    new: Sequence[nodes.Buffer],
    users: Sequence[nodes.BlockRealize],
    swap: Change,
    nest: nodes.Stmt,
    place: nodes.Stmt,
    behind: bool,
) -> None:
    """Let blocks of a scope use new buffers, which a nest beside a place fills or reads.

    swap  what becomes of these blocks
    """
    changes: dict[nodes.Stmt, Change] = {b.block: swap for b in users}
    changes[place] = lambda x: nodes.seq(x, nest) if behind else nodes.seq(nest, x)
    changes[s.scope(users[0]).block] = allocating(*new)
    s.replace(changes)
