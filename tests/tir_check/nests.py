"""Random nests of loops whose turns may run at once, small enough to be run through.

All indices are affine (with quotients and remainders), so that one run touches whatever the program
can touch: what `find_races` finds is the truth.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from smelt.ir.build import equal
from smelt.ir.expr import INDEX, Expr, StringImm, Var, const
from smelt.tir.nodes import (
    Allocate,
    Buffer,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    intrinsic,
    seq,
)
from smelt.tir.threads import BARRIER

SIZE = 160
"""Elements of every dimension: more than any index of a nest."""


class _Maker:
    """Draws one program."""

    def __init__(self, draw: st.DrawFn, threads: bool) -> None:
        self.draw, self.threads = draw, threads
        wide = (const(SIZE),), (const(SIZE), const(SIZE))
        self.buffers = [Buffer("A", wide[0], "int32"), Buffer("B", wide[1], "int32")]
        self.params = tuple(self.buffers)
        self.loops: list[tuple[Var, int]] = []
        self.count = 0
        self.barriers = False

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def pick(self, items: Any) -> Any:
        return self.draw(st.sampled_from(items))

    def index(self) -> Expr:
        """A value of at most 3 * 3 * 16."""
        total: Expr = const(self.number(0, 3))
        for v, _ in self.loops:
            weight = self.pick([0, 0, 1, 1, 2, 3, 4, 8, 12])
            term: Expr = v * weight
            if self.number(0, 5) == 0:
                term = (v * self.number(1, 4) + self.number(0, 2)) // self.number(2, 3)
            elif self.number(0, 5) == 0:
                term = (v + total) % self.number(2, 4) * self.number(1, 3)
            total = total + term
        return total

    def access(self) -> tuple[Buffer, tuple[Expr, ...]]:
        b = self.pick(self.buffers)
        return b, tuple([self.index() for _ in b.shape])

    def store(self) -> Stmt:
        buffer, at = self.access()
        value: Expr = const(self.number(0, 9), "int32")
        for v, n in self.loops[:2]:
            value = value + v.astype("int32") * (n + 7)
        for _ in range(self.number(0, 2)):
            other, where = (buffer, at) if self.number(0, 2) == 0 else self.access()
            value = value + other[where]
        return BufferStore(buffer, value, at)

    def guard(self) -> Expr:
        v, n = self.pick(self.loops)
        chosen: Expr = self.pick(
            [equal(v, self.number(0, n - 1)), v < self.number(1, n), v * 2 >= n]
        )
        return chosen

    def stmt(self, depth: int) -> Stmt:
        choice = self.number(0, 6)
        if depth and choice <= 3:
            return self.loop(depth)
        if self.loops and choice == 4:
            return IfThenElse(self.guard(), self.body(0), self.pick([None, self.store()]))
        return self.store()

    def body(self, depth: int) -> Stmt:
        return seq(*[self.stmt(depth) for _ in range(self.number(1, 2))])

    def loop(self, depth: int) -> Stmt:
        self.count += 1
        v, n = Var(f"i{self.count}", INDEX), self.number(1, 4)
        kind = "serial" if self.threads else self.pick(["serial", "parallel", "vectorized"])
        self.loops.append((v, n))
        body = self.steps() if self.barriers and kind == "serial" else self.body(depth - 1)
        own = Buffer(f"own{self.count}", (const(SIZE),), "int32", "local")
        if self.number(0, 4) == 0:
            self.buffers.append(own)
            body = Allocate(own, seq(body, self.body(0)))
            self.buffers.remove(own)
        self.loops.pop()
        return For(v, const(0), const(n), body, kind)

    def steps(self) -> Stmt:
        """Statements with barriers here and there, as they may stand where all threads come."""
        out: list[Stmt] = []
        for _ in range(self.number(1, 4)):
            barrier = intrinsic(BARRIER, StringImm("shared"))
            out.append(barrier if self.number(0, 1) else self.stmt(0))
        return seq(*out, self.store())

    def kernel(self) -> Stmt:
        """Two blocks of four threads, and shared memory."""
        self.barriers = bool(self.number(0, 2))
        axes = [("blockIdx.x", Var("bx", INDEX), 2), ("threadIdx.x", Var("tx", INDEX), 4)]
        shared = Buffer("S", (const(SIZE),), "int32", "shared")
        self.buffers += [shared, shared]
        self.loops += [(v, n) for _, v, n in axes]
        body = seq(self.steps(), self.loop(1)) if self.barriers else self.body(2)
        for axis, v, n in reversed(axes):
            body = For(v, const(0), const(n), body, "thread_binding", axis)
        return Allocate(shared, body)


@st.composite
def nests(draw: st.DrawFn, threads: bool = False) -> PrimFunc:
    """Loops, parallel and vectorized among them; or a kernel, with and without barriers."""
    m = _Maker(draw, threads)
    return PrimFunc(m.params, m.kernel() if threads else m.loop(3), {"name": "nest"})
