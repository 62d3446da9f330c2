"""The accesses of a statement, with the loops inside it that they stand in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from smelt.ir.expr import Expr, Var
from smelt.tir.access import AccessWalk
from smelt.tir.facts import conjuncts
from smelt.tir.nodes import Buffer, BufferLoad, BufferStore, For, Stmt, walk
from smelt.tir.rewrite import Indices, Rewriter
from smelt.tir.threads import touched_buffers

Domains = Mapping[Var, tuple[Expr, Expr]]
"""The first value and the extent of loops."""


class Access(NamedTuple):
    """A load or a store, and the loops and conditions inside the statement that it stands in."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    domains: Domains
    store: bool
    guards: tuple[Expr, ...]


class _Flat(AccessWalk[For]):
    """Every access of a statement as it is written: what lets bind stays a name."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Access] = []
        self.domains: Domains = {}

    def condition(self, e: Expr) -> Expr:
        return e

    def loop(self, s: For) -> None:
        outside, self.domains = self.domains, {**self.domains, s.var: (s.min, s.extent)}
        self.nested(s, s)
        self.domains = outside

    def inside(self, s: Stmt, part: int, body: Stmt, *guards: Expr) -> None:
        super().inside(s, part, body, *[c for g in guards for c in conjuncts(g)])

    def access(self, buffer: Buffer, indices: tuple[Expr, ...] | None, write: bool) -> None:
        assert indices is not None
        self.found.append(Access(buffer, indices, self.domains, write, self.guards))


def accesses(s: Stmt) -> list[Access]:
    """All loads and stores, in the order in which they happen."""
    flat = _Flat()
    flat.stmt(s)
    return flat.found


def uses(s: Stmt, buffer: Buffer) -> bool:
    """Whether a statement touches a buffer."""
    return any(buffer in touched_buffers(x) for x in walk(s))


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
