"""The arithmetic of a program as it is written, before a schedule: what a kernel has to do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from smelt.arith import Analyzer
from smelt.ir.build import value_of
from smelt.ir.expr import FOLDS, GE, GT, LE, LT, Call, Compare, Expr, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir import nodes as tir
from smelt.tir.analysis.accesses import operations
from smelt.tir.facts import conjuncts
from smelt.tir.script_ops import expr_nodes

_POINTS = 1 << 20
"""Iterations of a window that are looked at one by one, at most."""

Guard = tuple[tuple[Expr, ...], Expr]
"""The indices of an element, and what holds where it is no padding."""


def flops(func: tir.PrimFunc) -> Expr:
    """Operations on elements in one run; a multiply-add counts two.

    A reduction counts what it reads inside the padding of an operand: a kernel leaves out the
    rest. A loop whose end depends on other things than sizes counts as one iteration.
    """
    padded: dict[tir.Buffer, Guard] = {}
    for s in tir.walk(func.body):
        match s:
            case tir.BufferStore(buffer, Call(op="if_then_else", args=(inside, _, _)), indices):
                padded[buffer] = indices, inside
    sizes = frozenset([p for p in func.params if isinstance(p, Var)])
    return _Counter(sizes, padded).count(func.body, {}, {})


@dataclass(frozen=True)
class _Counter:
    sizes: frozenset[Var]
    padded: Mapping[tir.Buffer, Guard]

    def count(self, s: tir.Stmt, loops: Mapping[Var, Expr], bound: Mapping[Var, Expr]) -> Expr:
        """The operations of a statement; loops: around it; bound: the variables of its block."""
        if isinstance(s, tir.BufferStore):
            own = sum([lanes * n for lanes, n in operations(s.value).items()])
            return self.times(s, loops, bound) * own if own else const(0)
        if isinstance(s, tir.For):
            loops = {**loops, s.var: s.extent if self.known(s.extent) else const(1)}
        elif isinstance(s, tir.BlockRealize):
            bound = {**bound, **{i.var: value for i, value in s.bindings}}
        total: Expr = const(0)
        for part in tir.sub_statements(s):
            total = total + self.count(part, loops, bound)
        return total

    def known(self, e: Expr) -> bool:
        """Whether an extent is an expression of sizes."""
        loads = [n for n in expr_nodes(e) if isinstance(n, tir.BufferLoad)]
        return not loads and self.sizes.issuperset(free_vars(e))

    def times(
        self, s: tir.BufferStore, loops: Mapping[Var, Expr], bound: Mapping[Var, Expr]
    ) -> Expr:
        """How often a store is executed where it counts."""
        windows: dict[frozenset[Var], list[Expr]] = {}
        for c in self.conditions(s):
            inside = substitute(c, bound)
            windows.setdefault(frozenset(free_vars(inside)), []).append(inside)
        left, total = dict(loops), const(1)
        for variables, conditions in windows.items():
            if variables and variables <= left.keys():
                extents = {v: value_of(left[v]) for v in variables}
                points = _points(conditions, {v: n for v, n in extents.items() if n is not None})
                if points is not None and None not in extents.values():
                    left = {v: e for v, e in left.items() if v not in variables}
                    total = total * points
        for e in left.values():
            total = total * e
        return total

    def conditions(self, s: tir.BufferStore) -> list[Expr]:
        """What holds where a reduction reads no padding."""
        loads = [n for n in expr_nodes(s.value) if isinstance(n, tir.BufferLoad)]
        if all(x.buffer is not s.buffer for x in loads):
            return []
        found = []
        for x in loads:
            if x.buffer in self.padded:
                indices, inside = self.padded[x.buffer]
                read = zip(indices, x.indices, strict=True)
                places = {v: e for v, e in read if isinstance(v, Var)}
                found += conjuncts(substitute(inside, places))
        return found


def _points(conditions: Sequence[Expr], extents: Mapping[Var, int]) -> int | None:
    """How many iterations fulfil linear conditions; None where they are others, or too many."""
    shape = tuple(extents.values())
    if math.prod(shape) > _POINTS:
        return None
    holds, places = np.ones(shape, bool), np.indices(shape, sparse=True)
    for c in conditions:
        form = Analyzer().linear(c.a - c.b, extents) if isinstance(c, Compare) else None
        if not isinstance(c, LT | LE | GT | GE) or form is None:
            return None
        terms = [*[form[0].get(v, const(0)) for v in extents], form[1]]
        numbers = [n for n in map(value_of, terms) if n is not None]
        if len(numbers) < len(terms):
            return None
        total = np.full(shape, numbers[-1])
        for factor, place in zip(numbers[:-1], places, strict=True):
            total += factor * place
        holds &= FOLDS[type(c)](total, 0)
    return int(holds.sum())
