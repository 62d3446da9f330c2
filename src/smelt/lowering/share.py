"""Intermediate buffers that are never alive together use the same memory.

A buffer is alive from the first to the last statement that touches it; a loop that holds only a
part of its life counts as one statement. Buffers stay inside the parallel loop that allocates
them, since its iterations run at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smelt.ir.expr import Expr, IntImm
from smelt.tir import nodes as tir
from smelt.tir.rewrite import Rewriter, map_stmts, own_loads, replace_buffers

from .safe import require_one_dimension


@dataclass
class _Life:
    """Where a buffer is allocated, and between which statements (counted in order) it is used."""

    buffer: tir.Buffer
    size: int
    loops: tuple[tir.Stmt, ...]
    first: int = -1
    last: int = -1


def share_storage(func: tir.PrimFunc) -> tir.PrimFunc:
    """Allocations of constant size move to the beginning of the function, or of a parallel loop's
    body, and share memory with those of the same type and scope whose lives do not overlap.

    The largest are placed first.
    """
    require_one_dimension(func, "StorageRewrite")
    return func.replace(body=_Share().scope(func.body))


class _Share(Rewriter):
    """Shares what is allocated in each scope: the function, the body of a parallel loop."""

    def scope(self, s: tir.Stmt) -> tir.Stmt:
        """A statement with the allocations inside it (but not inside of other scopes) shared."""
        s = self.stmt(s)
        memories: dict[tir.Buffer, list[_Life]] = {}  # what stands for some buffers: the largest
        for life in sorted(_lives(s), key=lambda x: -x.size):
            fits = [m for m, lives in memories.items() if _fits(m, lives, life)]
            memories.setdefault(fits[0] if fits else life.buffer, []).append(life)
        shared = {m: lives for m, lives in memories.items() if len(lives) > 1}
        if not shared:
            return s
        stands = {x.buffer: m for m, lives in shared.items() for x in lives}
        plain = map_stmts(s, tir.Allocate, lambda a: a.body if a.buffer in stands else a)
        body = replace_buffers(plain, stands)
        for m in reversed(shared):
            body = tir.Allocate(m, body)
        return body

    def visit_For(self, s: tir.For) -> tir.Stmt:
        if s.kind in ("parallel", "thread_binding"):
            body = self.scope(s.body)
            return s if body is s.body else s.replace(body=body)
        return super().visit_For(s)


def _fits(memory: tir.Buffer, lives: Sequence[_Life], life: _Life) -> bool:
    return (
        memory.type == life.buffer.type
        and memory.scope == life.buffer.scope
        and all(life.last < x.first or x.last < life.first for x in lives)
    )


def _lives(scope: tir.Stmt) -> list[_Life]:
    """The allocations of a scope, as far as their sizes are constants and somebody uses them."""
    found: dict[tir.Buffer, _Life] = {}
    spans: dict[tir.Stmt, tuple[int, int]] = {}
    uses: list[tuple[tir.Buffer, int, tuple[tir.Stmt, ...]]] = []
    count = 0

    def visit(s: tir.Stmt, loops: tuple[tir.Stmt, ...], allocate: bool) -> None:
        nonlocal count
        count += 1
        at = count
        if isinstance(s, tir.Allocate) and allocate and not s.annotations:
            size: Expr = s.buffer.shape[0]
            if isinstance(size, IntImm):
                found[s.buffer] = _Life(s.buffer, size.value, loops)
        if isinstance(s, tir.BufferStore):
            uses.append((s.buffer, at, loops))
        uses.extend((x.buffer, at, loops) for x in own_loads(s))
        inner = (*loops, s) if isinstance(s, tir.For | tir.While) else loops
        own = not (isinstance(s, tir.For) and s.kind in ("parallel", "thread_binding"))
        for x in tir.sub_statements(s):
            visit(x, inner, allocate and own)
        spans[s] = (at, count)

    visit(scope, (), True)
    for b, at, loops in uses:
        life = found.get(b)
        if life is not None:
            outer = loops[len(life.loops) :]
            first, last = spans[outer[0]] if outer else (at, at)
            life.first = first if life.first < 0 else min(life.first, first)
            life.last = max(life.last, last)
    return [x for x in found.values() if x.first >= 0]
