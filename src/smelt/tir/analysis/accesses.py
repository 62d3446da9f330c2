"""Every load, store and piece of arithmetic of a program, with the loops and conditions around it.

Indices are in terms of loop variables that begin at zero; block variables and let bindings are
replaced by what they stand for, and the lanes of vectors are a loop of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.build import is_const, value_of
from smelt.ir.errors import Unsupported
from smelt.ir.walk import free_vars
from smelt.tir.access import AccessWalk, Guards
from smelt.tir.facts import Facts
from smelt.tir.interpret_lanes import lane
from smelt.tir.intrin.registry import Instruction
from smelt.tir.named_calls import NAMED_CALLS
from smelt.tir.script_ops import expr_nodes

from .. import nodes

_OPAQUE = "smelt."
_ZERO = expr.const(0, expr.INDEX)


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


class Accesses(AccessWalk[nodes.For]):
    """What a program does, statement by statement.

    loops     in the order of the text
    accesses  one per load and store; equal loads of one statement count once, unless they stand
              under different conditions
    work      arithmetic: one per statement that has any, and per number of lanes
    lanes     the loop that stands for the lanes of vectors, by their number
    """

    def __init__(self, func: nodes.PrimFunc) -> None:
        """Walk the program once. What is counted is counted for sizes of 1 and more."""
        super().__init__()
        self.facts = Facts(func, least=1)
        self.loops: list[Loop] = []
        self.accesses: list[Access] = []
        self.work: list[Work] = []
        self.lanes: dict[int, nodes.For] = {}
        self.stmt(func.body)

    # --------------------------------------------------------------------------- statements

    def stmt(self, s: nodes.Stmt) -> None:
        """One statement, and the arithmetic of a store."""
        super().stmt(s)
        if isinstance(s, nodes.BufferStore):
            for width, count in operations(s.value).items():
                self.work.append(Work(count, self._with_lanes(width), self.guards))

    def loop(self, s: nodes.For) -> None:
        """A loop from zero of fixed extent: what it has less in some iterations is a guard."""
        low, extent = self.value(s.min), self.value(s.extent)
        guards: list[expr.Expr] = []
        var = s.var
        moving = free_vars(extent) & {x.var for x in self.nest}
        if moving or not is_const(low, 0):
            var = expr.Var(s.var.name, s.var.type)
            self.values[s.var] = low + var
        if moving:
            ends = self.facts.relax(extent, self.nest)
            most = expr.Var(f"extent_{s.var.name}", expr.INDEX) if ends is None else ends[1]
            guards = _below(var, extent)
            extent = most
        self.nested(self._from_zero(var, extent), s, *guards)

    def repeat(self, s: nodes.While) -> None:
        """A loop whose number of iterations is a new size."""
        iterations = expr.Var("turns", expr.INDEX)
        self.facts.analyzer.assume_positive(iterations)
        self.nested(self._from_zero(expr.Var("turn", expr.INDEX), iterations), s)

    def nested(self, loop: nodes.For, s: nodes.For | nodes.While, *guards: expr.Expr) -> None:
        """The body of a loop."""
        self.loops.append(Loop(s, (*self.nest, loop), (*self.guards, *guards)))
        super().nested(loop, s, *guards)

    def _from_zero(self, var: expr.Var, extent: expr.Expr) -> nodes.For:
        self.facts.bind(var, _ZERO, extent)
        return nodes.For(var, _ZERO, extent, nodes.no_op())

    # -------------------------------------------------------------------------- expressions

    def value(self, e: expr.Expr) -> expr.Expr:
        """An expression in terms of the loops; one lane of a vector."""
        e = super().value(e)
        lanes = dt.lanes(e.dtype)
        return e if lanes == 1 else lane(e, self._lane(lanes).var, {})

    def binding(self, e: expr.Expr) -> expr.Expr:
        """What a block variable stands for, simplified."""
        return self.facts.simplify(self.value(e))

    def condition(self, e: expr.Expr) -> expr.Expr:
        """A condition in terms of the loops; one of shuffled lanes is an unknown."""
        try:
            return self.value(e)
        except Unsupported:
            return expr.Var("condition", "bool")

    def _lane(self, lanes: int) -> nodes.For:
        if lanes not in self.lanes:
            extent = expr.const(lanes, expr.INDEX)
            self.lanes[lanes] = self._from_zero(expr.Var("lane", expr.INDEX), extent)
        return self.lanes[lanes]

    def _with_lanes(self, lanes: int) -> tuple[nodes.For, ...]:
        return self.nest if lanes == 1 else (*self.nest, self._lane(lanes))

    def parts(self, e: expr.Expr) -> list[tuple[expr.Expr, Guards]]:
        """What is in an expression; to an opaque call a buffer's element is where the buffer is."""
        if not (isinstance(e, expr.Call) and e.op.startswith(_OPAQUE)):
            return super().parts(e)
        for a in e.args:
            if isinstance(a, nodes.BufferLoad):
                nothing = (None,) * a.buffer.rank
                self.accesses.append(Access(a.buffer, nothing, self.nest, self.guards, False, True))
        given = [a.indices if isinstance(a, nodes.BufferLoad) else (a,) for a in e.args]
        return [(x, ()) for items in given for x in items]

    def access(
        self, buffer: nodes.Buffer, indices: tuple[expr.Expr, ...] | None, write: bool
    ) -> None:
        """Remember an access."""
        assert indices is not None
        lanes = max([dt.lanes(i.dtype) for i in indices], default=1)
        known = tuple([self._index(i) for i in indices])
        self.accesses.append(Access(buffer, known, self._with_lanes(lanes), self.guards, write))

    def _index(self, e: expr.Expr) -> expr.Expr | None:
        """An index in terms of loops; None where it depends on data, or on shuffled lanes."""
        try:
            e = self.value(e)
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
