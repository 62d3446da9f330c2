"""Every load, store and piece of arithmetic of a program, with the loops and conditions around it.

Indices are in terms of loop variables that begin at zero; block variables and let bindings are
replaced by what they stand for, and the lanes of vectors are a loop of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.build import equal, is_const, logical_not, value_of
from smelt.ir.errors import Unsupported
from smelt.ir.walk import free_vars, substitute
from smelt.tir.facts import Facts
from smelt.tir.interpret_lanes import lane
from smelt.tir.intrin.registry import Instruction
from smelt.tir.named_calls import NAMED_CALLS
from smelt.tir.script_ops import expr_nodes

from .. import nodes

_OPAQUE = "smelt."


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A loop of the program, and the loops from zero that stand for it and for those around it.

    source  the statement: a For or a While, whose number of iterations is a new symbolic size
    nest    outermost first, this loop last
    """

    source: nodes.For | nodes.While
    nest: tuple[nodes.For, ...]
    guards: tuple[expr.Expr, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """A load or a store.

    indices  None where an index depends on data
    nest     the loops around it, lanes included
    whole    an opaque call is given the buffer: what it does with it is not known
    copies   loops over accesses that are alike (see `rerolled`), around it besides the nest
    times    how many accesses it stands for, in each iteration of the nest
    """

    buffer: nodes.Buffer
    indices: tuple[expr.Expr | None, ...]
    nest: tuple[nodes.For, ...]
    guards: tuple[expr.Expr, ...]
    write: bool
    whole: bool = False
    copies: tuple[nodes.For, ...] = ()
    times: int = 1


@dataclass(frozen=True, slots=True)
class Work:
    """Arithmetic of one statement: so many operations on elements each time it runs."""

    operations: int
    nest: tuple[nodes.For, ...]
    guards: tuple[expr.Expr, ...]


class Accesses:
    """What a program does, statement by statement.

    loops     in the order of the text
    accesses  one per load and store; equal loads of one statement count once, unless they stand
              under different conditions
    work      arithmetic: one per statement that has any, and per number of lanes
    lanes     the loop that stands for the lanes of vectors, by their number
    """

    def __init__(self, func: nodes.PrimFunc) -> None:
        """Walk the program once. What is counted is counted for sizes of 1 and more."""
        self.facts = Facts(func, least=1)
        self.loops: list[Loop] = []
        self.accesses: list[Access] = []
        self.work: list[Work] = []
        self.lanes: dict[int, nodes.For] = {}
        self._values: dict[expr.Var, expr.Expr] = {}
        self._nest: tuple[nodes.For, ...] = ()
        self._guards: tuple[expr.Expr, ...] = ()
        self._stmt(func.body)

    # --------------------------------------------------------------------------- statements

    def _stmt(self, s: nodes.Stmt) -> None:
        match s:
            case nodes.Seq(stmts):
                for x in stmts:
                    self._stmt(x)
            case nodes.For():
                self._loop(s)
            case nodes.While(condition, body):
                self._read(condition)
                iterations = expr.Var("turns", expr.INDEX)
                self.facts.analyzer.assume_positive(iterations)
                self._inside(
                    s,
                    nodes.For(
                        expr.Var("turn", expr.INDEX),
                        expr.const(0, expr.INDEX),
                        iterations,
                        nodes.no_op(),
                    ),
                    body,
                )
            case nodes.IfThenElse(condition, yes, no):
                self._read(condition)
                known = self._condition(condition)
                self._guarded(known, yes)
                if no is not None:
                    self._guarded(logical_not(known), no)
            case nodes.LetStmt(var, value, body):
                self._read(value)
                self._values[var] = substitute(value, self._values)
                self._stmt(body)
            case nodes.Allocate(_, body):
                self._stmt(body)
            case nodes.AssertStmt(value) | nodes.Evaluate(value):
                self._read(value)
            case nodes.BufferStore():
                self._store(s)
            case nodes.BlockRealize():
                self._block(s)

    def _loop(self, s: nodes.For) -> None:
        """A loop from zero of fixed extent: what it has less in some iterations is a guard."""
        self._read(s.min)
        self._read(s.extent)
        low, extent = self._value(s.min), self._value(s.extent)
        guards = self._guards
        var = s.var
        moving = free_vars(extent) & {x.var for x in self._nest}
        if moving or not is_const(low, 0):
            var = expr.Var(s.var.name, s.var.type)
            self._values[s.var] = low + var
        if moving:
            ends = self.facts.relax(extent, self._nest)
            most = expr.Var(f"extent_{s.var.name}", expr.INDEX) if ends is None else ends[1]
            self._guards = (*guards, *_below(var, extent))
            extent = most
        self._inside(s, nodes.For(var, expr.const(0, expr.INDEX), extent, nodes.no_op()), s.body)
        self._guards = guards

    def _inside(self, source: nodes.For | nodes.While, loop: nodes.For, body: nodes.Stmt) -> None:
        self.facts.bind(loop.var, loop.min, loop.extent)
        outside = self._nest
        self._nest = (*outside, loop)
        self.loops.append(Loop(source, self._nest, self._guards))
        self._stmt(body)
        self._nest = outside

    def _guarded(self, condition: expr.Expr, body: nodes.Stmt) -> None:
        guards = self._guards
        self._guards = (*guards, condition)
        self._stmt(body)
        self._guards = guards

    def _block(self, s: nodes.BlockRealize) -> None:
        """A block: its predicate guards it, its init runs where the reduction begins."""
        for value in (*s.values, s.predicate):
            self._read(value)
        first: list[expr.Expr] = []
        for it, value in s.bindings:
            self._values[it.var] = self.facts.simplify(self._value(value))
            if it.kind == "reduce":
                first.append(equal(self._values[it.var], self._value(it.dom.min)))
        guards = self._guards
        self._guards = (*guards, self._value(s.predicate))
        if s.block.init is not None:
            within = self._guards
            self._guards = (*within, *first)
            self._stmt(s.block.init)
            self._guards = within
        self._stmt(s.block.body)
        self._guards = guards

    def _store(self, s: nodes.BufferStore) -> None:
        for e in (*s.indices, s.value):
            self._read(e)
        lanes = max(dt.lanes(e.dtype) for e in (s.value, *s.indices))
        self._access(s.buffer, s.indices, lanes, self._guards, write=True)
        for width, count in operations(s.value).items():
            nest = self._nest if width == 1 else (*self._nest, self._lane(width))
            self.work.append(Work(count, nest, self._guards))

    # -------------------------------------------------------------------------- expressions

    def _value(self, e: expr.Expr) -> expr.Expr:
        """An expression in terms of the loops; one lane of a vector."""
        e = substitute(e, self._values)
        lanes = dt.lanes(e.dtype)
        return e if lanes == 1 else lane(e, self._lane(lanes).var, {})

    def _condition(self, e: expr.Expr) -> expr.Expr:
        """A condition in terms of the loops; one of shuffled lanes is an unknown."""
        try:
            return self._value(e)
        except Unsupported:
            return expr.Var("condition", "bool")

    def _lane(self, lanes: int) -> nodes.For:
        if lanes not in self.lanes:
            loop = nodes.For(
                expr.Var("lane", expr.INDEX),
                expr.const(0, expr.INDEX),
                expr.const(lanes, expr.INDEX),
                nodes.no_op(),
            )
            self.facts.bind(loop.var, loop.min, loop.extent)
            self.lanes[lanes] = loop
        return self.lanes[lanes]

    def _read(self, root: expr.Expr) -> None:
        """The loads in an expression; those in a branch of if_then_else under its condition."""
        seen: set[tuple[expr.Expr, tuple[expr.Expr, ...]]] = set()
        stack: list[tuple[expr.Expr, tuple[expr.Expr, ...]]] = [(root, self._guards)]
        while stack:
            e, guards = stack.pop()
            if (e, guards) in seen:
                continue
            seen.add((e, guards))
            match e:
                case nodes.BufferLoad(buffer, indices):
                    self._access(buffer, indices, dt.lanes(e.dtype), guards, write=False)
                    stack += [(i, guards) for i in indices]
                case expr.Call(op="if_then_else", args=(condition, yes, no)):
                    stack.append((condition, guards))
                    for side, holds in self._branches(condition, yes, no):
                        stack.append((side, (*guards, *holds)))
                case expr.Call(op=op, args=args) if op.startswith(_OPAQUE):
                    stack += [(a, guards) for a in self._given(args)]
                case _:
                    stack += [(c, guards) for c in e.children() if isinstance(c, expr.Expr)]

    def _branches(
        self, c: expr.Expr, yes: expr.Expr, no: expr.Expr
    ) -> list[tuple[expr.Expr, tuple[expr.Expr, ...]]]:
        """The values that if_then_else may evaluate, each with its condition."""
        if isinstance(c, expr.IntImm):
            return [(yes if c.value else no, ())]
        known = self._condition(c)
        return [(yes, (known,)), (no, (logical_not(known),))]

    def _given(self, args: Sequence[expr.Expr]) -> list[expr.Expr]:
        """The arguments of an opaque call: a buffer's element stands for where the buffer is."""
        rest: list[expr.Expr] = []
        for a in args:
            if isinstance(a, nodes.BufferLoad):
                b = a.buffer
                nothing = (None,) * b.rank
                self.accesses.append(Access(b, nothing, self._nest, self._guards, False, True))
                rest += a.indices
            else:
                rest.append(a)
        return rest

    def _access(
        self,
        buffer: nodes.Buffer,
        indices: tuple[expr.Expr, ...],
        lanes: int,
        guards: tuple[expr.Expr, ...],
        write: bool,
    ) -> None:
        nest = self._nest if lanes == 1 else (*self._nest, self._lane(lanes))
        known = tuple([self._index(i) for i in indices])
        self.accesses.append(Access(buffer, known, nest, guards, write))

    def _index(self, e: expr.Expr) -> expr.Expr | None:
        """An index in terms of loops; None where it depends on data, or on shuffled lanes."""
        try:
            e = self._value(e)
        except Unsupported:
            return None
        if any(isinstance(n, nodes.BufferLoad) for n in expr_nodes(e)):
            return None
        return self.facts.simplify(e)


def operations(root: expr.Expr) -> dict[int, int]:
    """Arithmetic on elements in an expression, by the lanes of the operation.

    A fused multiply-add counts two, an instruction what its meaning does. Index arithmetic,
    comparisons, choices and conversions count nothing.
    """
    counts: dict[int, int] = {}
    seen: set[expr.Expr] = set()
    stack = [root]
    while stack:
        e = stack.pop()
        if e in seen or isinstance(e, nodes.BufferLoad | expr.Compare | expr.And | expr.Or):
            continue
        seen.add(e)
        match e:
            case expr.Call(op="if_then_else", args=(_, yes, no)) | expr.Select(_, yes, no):
                stack += [yes, no]
                continue
            case expr.Call(op=op) if op in NAMED_CALLS and (meant := Instruction.called_by(e)):
                counts[1] = counts.get(1, 0) + _meant(meant)
            case expr.Binary() | expr.Call():
                lanes = dt.lanes(e.dtype)
                fused = isinstance(e, expr.Call) and e.op == "fma"
                counts[lanes] = counts.get(lanes, 0) + (2 if fused else 1)
        stack += [c for c in e.children() if isinstance(c, expr.Expr)]
    return counts


@cache
def _meant(instruction: Instruction) -> int:
    """The arithmetic of an instruction's meaning: a flat program of fixed loops."""
    total = 0
    for w in Accesses(instruction.meaning).work:
        iterations = [value_of(x.extent) for x in w.nest]
        total += w.operations * math.prod([1 if n is None else n for n in iterations])
    return total


def _below(v: expr.Var, end: expr.Expr) -> list[expr.Expr]:
    """v < end, as one condition for each side of a minimum."""
    return [*_below(v, end.a), *_below(v, end.b)] if isinstance(end, expr.Min) else [v < end]
