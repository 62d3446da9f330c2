"""What may run at once in a program: every access to what is written there, and where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from smelt.ir import dtype as dt
from smelt.ir.build import equal, is_const, logical_not
from smelt.ir.errors import Unsupported
from smelt.ir.expr import INDEX, Call, Expr, IntImm, Var, const
from smelt.ir.walk import substitute
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


Path = tuple[tuple[nodes.Stmt, int], ...]
"""The way from a kernel to a statement in it: compound statements, and which part of each."""


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


class ParallelAccesses:
    """All accesses in loops whose iterations may run at once, to buffers that are written there.

    accesses  in the order of the text
    private   the loops of which each iteration will have a block's own buffer for itself
    """

    def __init__(self, func: nodes.PrimFunc) -> None:
        """Walk the program; nothing is looked at outside of concurrent loops."""
        self.func = func
        self.accesses: list[Access] = []
        self.made: dict[nodes.Buffer, int] = {}
        self.owned: set[nodes.Buffer] = set()
        self.written: set[nodes.Buffer] = set()
        for s in _concurrent_loops(func.body):
            self.written |= {x.buffer for x in nodes.walk(s) if isinstance(x, nodes.BufferStore)}
            self.written |= {b for x in nodes.walk(s) for b in _given_away(x)}
        self.values: dict[Var, Expr] = {}
        self.loops: tuple[Loop, ...] = ()
        self.guards: tuple[Expr, ...] = ()
        self.kernel: Kernel | None = None
        self.bound: frozenset[str] = frozenset()
        self.path: Path = ()
        self.block: nodes.BlockRealize | None = None
        self.at: nodes.Stmt = func.body
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
        if b not in self.owned or loop.kind == "vectorized":
            return False
        return all(loop in a.loops for a in self.accesses if a.buffer is b) and not any(
            b in _used(s) for s in _outside(self.func.body, loop.source)
        )

    # -------------------------------------------------------------------------- statements

    def stmt(self, s: nodes.Stmt) -> None:
        """One statement and what is in it."""
        if isinstance(s, nodes.Seq):
            for n, x in enumerate(s.stmts):
                self.inside(s, n, x)
            return
        self.at = s
        match s:
            case nodes.For():
                self.loop(s)
            case nodes.While(condition, body):
                self.read(condition)
                iteration = Var("turn", INDEX)
                many = Var("turns", INDEX)
                self.nested(Loop(iteration, const(0, INDEX), many, "serial", s), s, body)
            case nodes.IfThenElse(condition, yes, no):
                self.read(condition)
                known = self.value(condition)
                self.guarded(known, s, 0, yes)
                if no is not None:
                    self.guarded(logical_not(known), s, 1, no)
            case nodes.LetStmt(var, value, body):
                self.read(value)
                self.values[var] = self.value(value)
                self.stmt(body)
            case nodes.Allocate(buffer, body):
                self.made[buffer] = len(self.loops)
                self.stmt(body)
            case nodes.AssertStmt(condition):
                self.read(condition)
            case nodes.Evaluate(value):
                self.effect(s, value)
            case nodes.BufferStore():
                for e in (*s.indices, s.value):
                    self.read(e)
                self.access(s.buffer, s.indices, True)
            case nodes.BlockRealize():
                self.realize(s)

    def inside(self, s: nodes.Stmt, part: int, body: nodes.Stmt) -> None:
        """A part of a compound statement."""
        path = self.path
        if self.kernel is not None:
            self.path = (*path, (s, part))
        self.stmt(body)
        self.path = path

    def guarded(self, condition: Expr, s: nodes.Stmt, part: int, body: nodes.Stmt) -> None:
        """A part that is executed under a condition."""
        guards = self.guards
        self.guards = (*guards, condition)
        self.inside(s, part, body)
        self.guards = guards

    def loop(self, s: nodes.For) -> None:
        """A loop; one that is bound to an axis takes the axis' place."""
        self.read(s.min)
        self.read(s.extent)
        low, iterations = self.value(s.min), self.value(s.extent)
        if s.kind != "thread_binding":
            kind = s.kind if s.kind in CONCURRENT else "serial"
            self.nested(Loop(s.var, low, iterations, kind, s), s, s.body)
            return
        outermost = self.kernel is None
        if outermost:
            self.enter(s)
        assert self.kernel is not None
        axis, bound = self.kernel.axes[str(s.thread)], self.bound
        self.values[s.var] = axis.var if is_const(low, 0) else low + axis.var
        self.bound = bound | {str(s.thread)}
        self.stmt(s.body)
        self.bound = bound
        if outermost:
            self.loops = self.loops[: -len(self.kernel.axes)]
            self.kernel, self.path = None, ()

    def nested(self, loop: Loop, s: nodes.Stmt, body: nodes.Stmt) -> None:
        """The body of a loop."""
        loops = self.loops
        self.loops = (*loops, loop)
        self.inside(s, 0, body)
        self.loops = loops

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
        self.loops = (*self.loops, *axes.values())
        self.bound = frozenset()

    def effect(self, s: nodes.Evaluate, value: Expr) -> None:
        """A barrier, or a call that may do anything with the buffers that it is given."""
        if threads.barrier_scope(s) is not None:
            if self.kernel is not None:
                self.kernel.barriers.append(self.path)
            return
        self.read(value)
        for b in _given_away(s):
            self.access(b, None, True)

    def realize(self, s: nodes.BlockRealize) -> None:
        """A block, its variables replaced by what they stand for."""
        for e in (*s.values, s.predicate):
            self.read(e)
        first: list[Expr] = []
        for it, value in s.bindings:
            self.values[it.var] = self.value(value)
            if it.kind == "reduce":
                first.append(equal(self.values[it.var], self.value(it.dom.min)))
        block, guards = self.block, self.guards
        self.block = s
        if not is_const(s.predicate, 1):
            self.guards = (*guards, self.value(s.predicate))
        for b in s.block.alloc_buffers:
            self.made[b] = len(self.loops)
            self.owned.add(b)
        if s.block.init is not None:
            inside = self.guards
            self.guards = (*inside, *[c for c in first if not is_const(c, 1)])
            self.inside(s, 0, s.block.init)
            self.guards = inside
        self.inside(s, 1, s.block.body)
        self.block, self.guards = block, guards

    # -------------------------------------------------------------------------- expressions

    def value(self, e: Expr) -> Expr:
        """An expression in terms of loops."""
        return substitute(e, self.values)

    def read(self, root: Expr) -> None:
        """The loads in an expression, those in a branch of if_then_else under its condition."""
        if not self.loops:
            return
        stack: list[tuple[Expr, tuple[Expr, ...]]] = [(root, self.guards)]
        outside = self.guards
        while stack:
            e, self.guards = stack.pop()
            match e:
                case nodes.BufferLoad(buffer, indices):
                    self.access(buffer, indices, False)
                    stack += [(i, self.guards) for i in indices]
                case Call(op="if_then_else", args=(condition, yes, no)):
                    known = self.value(condition)
                    stack += [
                        (no, (*self.guards, logical_not(known))),
                        (yes, (*self.guards, known)),
                        (condition, self.guards),
                    ]
                case _:
                    stack += [(c, self.guards) for c in e.children() if isinstance(c, Expr)]
        self.guards = outside

    def access(self, b: nodes.Buffer, indices: tuple[Expr, ...] | None, writes: bool) -> None:
        """Remember an access, if it may meet another one."""
        if b not in self.written or all(x.kind == "serial" for x in self.loops):
            return
        loops, guards, known = self.loops, self.guards, None
        if indices is not None:
            known = tuple([self.value(i) for i in indices])
            if not _distinct(b):
                address: Expr = const(0, INDEX)
                for i, stride in zip(known, b.strides, strict=True):
                    address = address + i * stride
                known = (address,)
            lanes = max([dt.lanes(i.dtype) for i in known], default=1)
            if lanes > 1:
                var = Var("lane", INDEX)
                loops = (*loops, Loop(var, const(0, INDEX), const(lanes, INDEX), "serial", self.at))
                known = _lane(known, var)
                guards = tuple([(_lane((g,), var) or (_SOMETHING,))[0] for g in guards])
        where = loops, guards, self.kernel, self.bound, self.path, self.block
        self.accesses.append(Access(b, known, writes, self.at, *where))


def _lane(values: tuple[Expr, ...], var: Var) -> tuple[Expr, ...] | None:
    """One lane of vectors; None where lanes are shuffled."""
    try:
        return tuple([lane(e, var, {}) for e in values])
    except Unsupported:
        return None


def _concurrent_loops(body: nodes.Stmt) -> Iterator[nodes.For]:
    """The outermost loops whose iterations may run at once."""
    stack = [body]
    while stack:
        s = stack.pop()
        if isinstance(s, nodes.For) and s.kind in CONCURRENT:
            yield s
        else:
            stack.extend(nodes.sub_statements(s))


def _given_away(s: nodes.Stmt) -> set[nodes.Buffer]:
    """The buffers that a statement hands to a call which may do anything with them."""
    if (
        not isinstance(s, nodes.Evaluate)
        or not isinstance(s.value, Call)
        or s.value.op in INTRINSICS
    ):
        return set()
    return {n.buffer for n in expr_nodes(s.value) if isinstance(n, nodes.BufferLoad)}


def _used(s: nodes.Stmt) -> set[nodes.Buffer]:
    """The buffers that a statement itself uses."""
    found = {s.buffer} if isinstance(s, nodes.BufferStore) else set()
    for e in () if isinstance(s, nodes.Block) else s.children():
        if isinstance(e, Expr):
            found |= {n.buffer for n in expr_nodes(e) if isinstance(n, nodes.BufferLoad)}
    return found


def _outside(body: nodes.Stmt, loop: nodes.Stmt) -> Iterator[nodes.Stmt]:
    """The statements of a program that are not in a loop."""
    stack = [body]
    while stack:
        s = stack.pop()
        if s is not loop:
            yield s
            stack.extend(nodes.sub_statements(s))


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
