"""One walk over loads and stores: in the order of the text, with what is around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from smelt.ir.build import equal, is_const, logical_not
from smelt.ir.expr import INDEX, Call, Expr, IntImm, Var, const
from smelt.ir.walk import substitute

from . import nodes
from .script_ops import PREFETCH

Guards = tuple[Expr, ...]
"""Conditions under which a place is reached."""

Path = tuple[tuple[nodes.Stmt, int], ...]
"""The way to a statement: the compound statements around it, and which part of each."""

L = TypeVar("L")


def flat_offset(b: nodes.Buffer, indices: Sequence[Expr]) -> Expr:
    """How far an element of a buffer is from its first one in memory, in elements."""
    total: Expr = const(0, INDEX)
    step: Expr = const(1, INDEX)
    for d in range(len(indices) - 1, -1, -1):
        total = total + indices[d] * (b.strides[d] if b.strides else step)
        step = step * b.shape[d]
    return total


class AccessWalk(Generic[L]):
    """Calls `access` for every load and store of a statement. Override what should be known more.

    values  what block variables and let bindings stand for
    nest    the loops around the place, outermost first, as `loop` makes them
    guards  the conditions around the place
    at      the statement that is walked
    """

    def __init__(self) -> None:
        """Nothing is around the place."""
        self.values: dict[Var, Expr] = {}
        self.nest: tuple[L, ...] = ()
        self.guards: Guards = ()
        self.path: Path = ()
        self.at: nodes.Stmt

    # ------------------------------------------------------------------------- what is found

    def access(self, buffer: nodes.Buffer, indices: tuple[Expr, ...] | None, write: bool) -> None:
        """An element is loaded or stored; indices None: any of them."""

    def allocate(self, buffers: Iterable[nodes.Buffer]) -> None:
        """Buffers live in what comes next."""

    def loop(self, s: nodes.For) -> None:
        """A loop, whose bounds have been read."""
        raise NotImplementedError

    def repeat(self, s: nodes.While) -> None:
        """A loop whose condition has been read."""
        self.inside(s, 0, s.body)

    def effect(self, s: nodes.Evaluate) -> None:
        """An expression evaluated for its effect; a hint accesses nothing."""
        if not (isinstance(s.value, Call) and s.value.op == PREFETCH):
            self.read(s.value)

    # ---------------------------------------------------------------------------- statements

    def stmt(self, s: nodes.Stmt) -> None:
        """One statement and what is in it."""
        self.at = s
        match s:
            case nodes.Seq(stmts):
                for n, x in enumerate(stmts):
                    self.inside(s, n, x)
            case nodes.For():
                self.read(s.min)
                self.read(s.extent)
                self.loop(s)
            case nodes.While(condition):
                self.read(condition)
                self.repeat(s)
            case nodes.IfThenElse(condition, yes, no):
                self.read(condition)
                known = self.condition(condition)
                self.inside(s, 0, yes, known)
                if no is not None:
                    self.inside(s, 1, no, logical_not(known))
            case nodes.LetStmt(var, value, body):
                self.read(value)
                self.values[var] = substitute(value, self.values)
                self.stmt(body)
            case nodes.Allocate(buffer) | nodes.AllocateConst(buffer):
                self.allocate([buffer])
                self.stmt(s.body)
            case nodes.AssertStmt(condition):
                self.read(condition)
            case nodes.Evaluate():
                self.effect(s)
            case nodes.BufferStore():
                for e in (*s.indices, s.value):
                    self.read(e)
                self.access(s.buffer, s.indices, True)
            case nodes.BlockRealize():
                self.realize(s)

    def inside(self, s: nodes.Stmt, part: int, body: nodes.Stmt, *guards: Expr) -> None:
        """A part of a compound statement, and the conditions under which it is reached."""
        path, outside = self.path, self.guards
        self.path = (*path, (s, part))
        self.guards = (*outside, *[g for g in guards if not is_const(g, 1)])
        self.stmt(body)
        self.path, self.guards = path, outside

    def nested(self, loop: L, s: nodes.For | nodes.While, *guards: Expr) -> None:
        """The body of a loop."""
        outside = self.nest
        self.nest = (*outside, loop)
        self.inside(s, 0, s.body, *guards)
        self.nest = outside

    def realize(self, s: nodes.BlockRealize) -> None:
        """A block: its predicate guards it, its init runs where the reduction begins."""
        for e in (*s.values, s.predicate):
            self.read(e)
        first: list[Expr] = []
        for it, value in s.bindings:
            self.values[it.var] = self.binding(value)
            if it.kind == "reduce":
                first.append(equal(self.values[it.var], self.value(it.dom.min)))
        predicate = self.condition(s.predicate)
        self.allocate(s.block.alloc_buffers)
        if s.block.init is not None:
            self.inside(s, 0, s.block.init, predicate, *first)
        self.inside(s, 1, s.block.body, predicate)

    # --------------------------------------------------------------------------- expressions

    def value(self, e: Expr) -> Expr:
        """An expression in terms of loops."""
        return substitute(e, self.values) if self.values else e

    def condition(self, e: Expr) -> Expr:
        """A condition in terms of loops."""
        return self.value(e)

    def binding(self, e: Expr) -> Expr:
        """What a block variable stands for."""
        return self.value(e)

    def read(self, root: Expr) -> None:
        """The loads in an expression; those in a branch of if_then_else under its condition."""
        outside = self.guards
        seen: set[tuple[Expr, Guards]] = set()
        stack = [(root, outside)]
        while stack:
            place = stack.pop()
            if place not in seen:
                seen.add(place)
                e, self.guards = place
                stack += [(x, (*place[1], *more)) for x, more in reversed(self.parts(e))]
        self.guards = outside

    def parts(self, e: Expr) -> list[tuple[Expr, Guards]]:
        """What is in an expression, and the conditions under which it is needed."""
        match e:
            case nodes.BufferLoad(buffer, indices):
                self.access(buffer, indices, False)
                return [(i, ()) for i in indices]
            case Call(op="if_then_else", args=(IntImm(_, value), yes, no)):
                return [(yes if value else no, ())]
            case Call(op="if_then_else", args=(c, yes, no)):
                known = self.condition(c)
                return [(c, ()), (yes, (known,)), (no, (logical_not(known),))]
        return [(c, ()) for c in e.children() if isinstance(c, Expr)]
