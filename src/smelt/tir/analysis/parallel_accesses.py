"""What may run at once in a program: every access to what is written there, and where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from smelt.ir import dtype as dt
from smelt.ir.build import is_const
from smelt.ir.errors import Unsupported
from smelt.ir.expr import INDEX, Call, Expr, IntImm, Var, const
from smelt.tir.access import AccessWalk, Path
from smelt.tir.interpret_lanes import lane
from smelt.tir.script_ops import INTRINSICS, expr_nodes

from .. import nodes, threads

CONCURRENT = ("parallel", "vectorized", "thread_binding")
"""The kinds of loops whose iterations may run at once."""


@dataclass(eq=False, slots=True)
class Loop:
    """A loop around an access, or an axis of a kernel.

    kind  "parallel", "vectorized", "grid" or "threads" where iterations may run at once
    low   first value; iterations: how many
    """

    var: Var
    low: Expr
    iterations: Expr
    kind: str
    source: nodes.Stmt


@dataclass(eq=False, slots=True)
class Kernel:
    """What an outermost thread-bound loop stands for.

    axes        those that count blocks first
    strict      it has barriers, and is taken at its word; otherwise its threads do one statement
                that uses communal buffers after another
    collective  blocks that its threads execute one after another
    barriers    where its barriers stand, as paths
    """

    axes: dict[str, Loop]
    strict: bool
    communal: set[nodes.Buffer]
    collective: set[nodes.BlockRealize]
    barriers: list[Path] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Access:
    """A load or a store.

    indices  in terms of loop variables; None where it is not known which elements are meant
    loops    around it, outermost first
    guards   conditions under which it happens
    bound    the axes of its kernel that it is bound to; along the others it is repeated
    """

    buffer: nodes.Buffer
    indices: tuple[Expr, ...] | None
    writes: bool
    stmt: nodes.Stmt
    loops: tuple[Loop, ...]
    guards: tuple[Expr, ...]
    kernel: Kernel | None
    bound: frozenset[str]
    path: Path
    block: nodes.BlockRealize | None


_SOMETHING = Var("condition", "bool")
"""A condition of which nothing is known."""


class ParallelAccesses(AccessWalk[Loop]):
    """All accesses in loops whose iterations may run at once, to buffers that are written there.

    accesses  in the order of the text
    private   the loops of which each iteration will have a block's own buffer for itself
    """

    def __init__(self, func: nodes.PrimFunc) -> None:
        """Walk the program; nothing is looked at outside of concurrent loops."""
        super().__init__()
        self.accesses: list[Access] = []
        self.made: dict[nodes.Buffer, int] = {}
        self.written: set[nodes.Buffer] = set()
        for s in filter(_is_concurrent, nodes.walk(func.body, _is_concurrent)):
            self.written |= {x.buffer for x in nodes.walk(s) if isinstance(x, nodes.BufferStore)}
            self.written |= {b for x in nodes.walk(s) for b in _given_away(x)}
        self.private = threads.private_loops(func.body) if self.written else {}
        self.kernel: Kernel | None = None
        self.bound: frozenset[str] = frozenset()
        self.block: nodes.BlockRealize | None = None
        if self.written:
            self.stmt(func.body)

    def levels(self) -> Iterator[tuple[Loop, dict[nodes.Buffer, list[Access]]]]:
        """Every concurrent loop with the accesses in it, by buffer; outer loops first."""
        found: dict[Loop, dict[nodes.Buffer, list[Access]]] = {}
        for a in self.accesses:
            for loop in a.loops:
                if loop.kind != "serial":
                    found.setdefault(loop, {}).setdefault(a.buffer, []).append(a)
        for loop, buffers in found.items():
            shared = {
                b: items
                for b, items in buffers.items()
                if any(a.writes for a in items) and not self.is_inside(b, loop, items[0])
            }
            if shared:
                yield loop, shared

    def is_inside(self, b: nodes.Buffer, loop: Loop, access: Access) -> bool:
        """Whether every iteration of a loop has a buffer of its own, since it is made there."""
        if access.kernel is not None and loop.kind in ("grid", "threads"):
            if b in access.kernel.communal and (threads.is_shared(b) or b.scope == "local"):
                return loop.kind == "grid"
            if threads.is_shared(b) or b.scope == "local":
                return True
        return b in self.made and self.made[b] > access.loops.index(loop)

    def is_private(self, b: nodes.Buffer, loop: Loop) -> bool:
        """Whether a buffer of a block is used in one concurrent loop only: lowering moves it in."""
        return loop.source in self.private.get(b, ())

    # -------------------------------------------------------------------------- statements

    def loop(self, s: nodes.For) -> None:
        """A loop; one that is bound to an axis takes the axis' place."""
        low, iterations = self.value(s.min), self.value(s.extent)
        if s.kind != "thread_binding":
            kind = s.kind if s.kind in CONCURRENT else "serial"
            self.nested(Loop(s.var, low, iterations, kind, s), s)
            return
        outside = self.nest, self.path, self.kernel
        if self.kernel is None:
            self.enter(s)
        assert self.kernel is not None
        axis, bound = self.kernel.axes[str(s.thread)], self.bound
        self.values[s.var] = axis.var if is_const(low, 0) else low + axis.var
        self.bound = bound | {str(s.thread)}
        self.stmt(s.body)
        self.bound = bound
        self.nest, self.path, self.kernel = outside

    def repeat(self, s: nodes.While) -> None:
        """A loop of which it is not known how often it runs."""
        turn, turns = Var("turn", INDEX), Var("turns", INDEX)
        self.nested(Loop(turn, const(0, INDEX), turns, "serial", s), s)

    def enter(self, s: nodes.For) -> None:
        """A kernel begins: all its axes are around all of it."""
        axes: dict[str, Loop] = {}
        found = threads.thread_axes(s)
        for axis in sorted(found, key=lambda a: not threads.is_grid_axis(a)):
            first = found[axis][0]
            kind = "grid" if threads.is_grid_axis(axis) else "threads"
            var = Var(axis, first.var.type)
            axes[axis] = Loop(var, const(0, var.type), self.value(first.extent), kind, first)
        strict = any(threads.barrier_scope(x) is not None for x in nodes.walk(s))
        self.kernel = Kernel(
            axes, strict, threads.communal_buffers(s), set(threads.collective_blocks(s))
        )
        self.nest, self.path = (*self.nest, *axes.values()), ()
        self.bound = frozenset()

    def effect(self, s: nodes.Evaluate) -> None:
        """A barrier, or a call that may do anything with the buffers that it is given."""
        if threads.barrier_scope(s) is not None:
            if self.kernel is not None:
                self.kernel.barriers.append(self.path)
            return
        self.read(s.value)
        for b in _given_away(s):
            self.access(b, None, True)

    def realize(self, s: nodes.BlockRealize) -> None:
        """A block."""
        outside, self.block = self.block, s
        super().realize(s)
        self.block = outside

    def allocate(self, buffers: Iterable[nodes.Buffer]) -> None:
        """Buffers live in what comes next."""
        self.made.update(dict.fromkeys(buffers, len(self.nest)))

    # -------------------------------------------------------------------------- expressions

    def read(self, root: Expr) -> None:
        """The loads in an expression; outside of loops they meet none."""
        if self.nest:
            super().read(root)

    def access(self, buffer: nodes.Buffer, indices: tuple[Expr, ...] | None, write: bool) -> None:
        """Remember an access, if it may meet another one."""
        if buffer not in self.written or all(x.kind == "serial" for x in self.nest):
            return
        loops, guards, known = self.nest, self.guards, None
        if indices is not None:
            known = tuple([self.value(i) for i in indices])
            if not _distinct(buffer):
                address: Expr = const(0, INDEX)
                for i, stride in zip(known, buffer.strides, strict=True):
                    address = address + i * stride
                known = (address,)
            lanes = max([dt.lanes(i.dtype) for i in known], default=1)
            if lanes > 1:
                var = Var("lane", INDEX)
                loops = (*loops, Loop(var, const(0, INDEX), const(lanes, INDEX), "serial", self.at))
                known = _lane(known, var)
                guards = tuple([(_lane((g,), var) or (_SOMETHING,))[0] for g in guards])
        where = loops, guards, self.kernel, self.bound, self.path, self.block
        self.accesses.append(Access(buffer, known, write, self.at, *where))


def _lane(values: tuple[Expr, ...], var: Var) -> tuple[Expr, ...] | None:
    """One lane of vectors; None where lanes are shuffled."""
    try:
        return tuple([lane(e, var, {}) for e in values])
    except Unsupported:
        return None


def _is_concurrent(s: nodes.Stmt) -> bool:
    """Whether a statement is a loop whose iterations may run at once."""
    return isinstance(s, nodes.For) and s.kind in CONCURRENT


def _given_away(s: nodes.Stmt) -> set[nodes.Buffer]:
    """The buffers that a statement hands to a call which may do anything with them."""
    if (
        not isinstance(s, nodes.Evaluate)
        or not isinstance(s.value, Call)
        or s.value.op in INTRINSICS
    ):
        return set()
    return {n.buffer for n in expr_nodes(s.value) if isinstance(n, nodes.BufferLoad)}


def _distinct(b: nodes.Buffer) -> bool:
    """Whether strides certainly give different elements different places."""
    if not b.strides:
        return True
    steps: list[tuple[int, int]] = []
    for n, s in zip(b.shape, b.strides, strict=True):
        if not (isinstance(n, IntImm) and isinstance(s, IntImm)):
            return False
        if n.value > 1:
            steps.append((s.value, n.value))
    steps.sort()
    return all(s > 0 for s, _ in steps) and all(a * n <= b for (a, n), (b, _) in pairwise(steps))
