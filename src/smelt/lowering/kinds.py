"""Kinds of loops: serial again, or to be unrolled."""

from __future__ import annotations

from typing import NamedTuple

from smelt.ir.expr import IntImm
from smelt.tir import nodes as tir
from smelt.tir.rewrite import Rewriter, map_stmts

MAX_STEP = "pragma_auto_unroll_max_step"
"""The annotation of a loop that gives the number of statements for the loops in it."""


def serialize(func: tir.PrimFunc, *kinds: str) -> tir.PrimFunc:
    """A program whose loops of some kinds are serial ones."""

    def serial(s: tir.For) -> tir.Stmt:
        return s.replace(kind="serial") if s.kind in kinds else s

    body = map_stmts(func.body, tir.For, serial)
    return func if body is func.body else func.replace(body=body)


class _Cost(NamedTuple):
    """Statements when unrolled loops are written out; how deep these are nested; other loops."""

    steps: int
    depth: int
    loops: bool


class _Mark(Rewriter):
    """Marks loops from the inside out."""

    def __init__(self, step: int, depth: int, extent: int) -> None:
        super().__init__()
        self.step, self.depth, self.extent = step, depth, extent
        self.costs: dict[tir.Stmt, _Cost] = {}

    def cost(self, s: tir.Stmt) -> _Cost:
        """What a rewritten statement costs."""
        if s not in self.costs:
            inner = [self.cost(x) for x in tir.sub_statements(s)]
            own = int(isinstance(s, tir.BufferStore | tir.Evaluate | tir.IfThenElse))
            steps = own + sum(c.steps for c in inner)
            depth = max([c.depth for c in inner], default=0)
            rolled = any(c.loops for c in inner)
            if isinstance(s, tir.For):
                if s.kind == "unrolled" and isinstance(s.extent, IntImm):
                    steps, depth = steps * s.extent.value, depth + 1
                else:
                    rolled = True
            self.costs[s] = _Cost(steps, depth, rolled)
        return self.costs[s]

    def visit_For(self, s: tir.For) -> tir.Stmt:
        outer = self.step
        self.step = int(s.annotations.get(MAX_STEP, outer))
        new = self.parts(s)
        if new.kind == "serial" and isinstance(new.extent, IntImm):
            inside, iterations = self.cost(new.body), new.extent.value
            small = inside.steps * iterations <= self.step and inside.depth < self.depth
            if (small and not inside.loops) or iterations <= self.extent:
                new = new.replace(kind="unrolled")
        self.step = outer
        return new


def mark_unrolled(func: tir.PrimFunc, step: int, depth: int, extent: int) -> tir.PrimFunc:
    """A program whose small serial loops are marked as unrolled.

    step    loops whose copies have at most so many statements, as long as no other loop stays
            inside; the annotation "pragma_auto_unroll_max_step" of a loop around says otherwise
    depth   so many unrolled loops inside each other at most
    extent  every loop of at most so many iterations
    """
    return _Mark(step, depth, extent).program(func)
