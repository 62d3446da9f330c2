"""The accesses of a statement, with the loops inside it that they stand in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from smelt.ir.build import logical_not
from smelt.ir.expr import Expr, Var
from smelt.tir.facts import conjuncts
from smelt.tir.nodes import Buffer, BufferLoad, BufferStore, For, IfThenElse, Stmt, sub_statements
from smelt.tir.rewrite import Indices, Rewriter, own_loads

Domains = Mapping[Var, tuple[Expr, Expr]]
"""The first value and the extent of loops."""


class Access(NamedTuple):
    """A load or a store, and the loops and conditions inside the statement that it stands in."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    domains: Domains
    store: bool
    guards: tuple[Expr, ...]


def accesses(
    s: Stmt, domains: Domains = MappingProxyType({}), guards: tuple[Expr, ...] = ()
) -> Iterator[Access]:
    """All loads and stores, in the order in which they happen."""
    if isinstance(s, For):
        domains = {**domains, s.var: (s.min, s.extent)}
    for x in own_loads(s):
        yield Access(x.buffer, x.indices, domains, False, guards)
    if isinstance(s, BufferStore):
        yield Access(s.buffer, s.indices, domains, True, guards)
    if isinstance(s, IfThenElse):
        yield from accesses(s.then_body, domains, (*guards, *conjuncts(s.condition)))
        if s.else_body is not None:
            yield from accesses(s.else_body, domains, (*guards, logical_not(s.condition)))
        return
    for part in sub_statements(s):
        yield from accesses(part, domains, guards)


def uses(s: Stmt, buffer: Buffer) -> bool:
    """Whether a statement touches a buffer."""
    return any(a.buffer is buffer for a in accesses(s))


def is_self(e: Expr, s: BufferStore) -> bool:
    """Whether an expression is the element that a store is about."""
    return isinstance(e, BufferLoad) and e.buffer is s.buffer and e.indices == s.indices


class Moved(Rewriter):
    """Puts the elements of buffers behind an offset in other ones; all have one dimension."""

    def __init__(self, moved: Mapping[Buffer, tuple[Buffer, Expr]]) -> None:
        """Where each buffer begins."""
        super().__init__()
        self.moved = moved

    def access(self, b: Buffer, indices: Indices) -> tuple[Buffer, Indices]:
        """The element in the other buffer."""
        if b not in self.moved:
            return b, indices
        wide, offset = self.moved[b]
        return wide, (indices[0] + offset,)
