"""Intermediate buffers that are never alive together use the same memory.

A buffer is alive from the first to the last statement that touches it; a loop that holds only a
part of its life counts as one statement. Buffers stay inside the parallel loop that allocates
them, since its iterations run at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from smelt.ir.expr import Expr, IntImm
from smelt.tir import nodes as tir
from smelt.tir.rewrite import Rewriter, loads, map_stmts, replace_buffers

from .safe import require_one_dimension


@dataclass
class _Life:
    """Where a buffer is allocated, and between which statements (counted in order) it is used."""

    buffer: tir.Buffer
    size: int
    loops: tuple[tir.Stmt, ...]
    first: int = -1
    last: int = -1


@dataclass
class _Memory:
    """What stands for some buffers: the largest of them."""

    buffer: tir.Buffer
    lives: list[_Life] = field(default_factory=list)


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
        lives = _lives(s)
        memories: list[_Memory] = []
        for life in sorted(lives, key=lambda x: -x.size):
            fits = [m for m in memories if _fits(m, life)]
            memory = fits[0] if fits else _Memory(life.buffer)
            if not fits:
                memories.append(memory)
            memory.lives.append(life)
        if all(len(m.lives) == 1 for m in memories):
            return s
        shared = [m for m in memories if len(m.lives) > 1]
        stands = {x.buffer: m.buffer for m in shared for x in m.lives}
        plain = map_stmts(s, tir.Allocate, lambda a: a.body if a.buffer in stands else a)
        body = replace_buffers(plain, stands)
        for m in reversed(shared):
            body = tir.Allocate(m.buffer, body)
        return body

    def visit_For(self, s: tir.For) -> tir.Stmt:
        if s.kind in ("parallel", "thread_binding"):
            body = self.scope(s.body)
            return s if body is s.body else s.replace(body=body)
        return super().visit_For(s)


def _fits(m: _Memory, life: _Life) -> bool:
    return (
        m.buffer.type == life.buffer.type
        and m.buffer.scope == life.buffer.scope
        and all(life.last < x.first or x.last < life.first for x in m.lives)
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
        for c in s.children():
            if isinstance(c, Expr):
                uses.extend((x.buffer, at, loops) for x in loads(c))
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
