"""Kernels whose loops run from their ends: results then reach into operands from above."""

from __future__ import annotations

from math import prod

from smelt.ir.build import value_of
from smelt.lowering.ranges import analyzer_for
from smelt.lowering.simplify import Simplify
from smelt.tir.nodes import (
    Allocate,
    AllocateConst,
    Buffer,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    sub_statements,
    walk,
)
from smelt.tir.rewrite import loads, map_stmts, substitute_stmt
from smelt.tir.script_ops import expressions

_PLAIN = (Allocate, AllocateConst, BufferStore, Evaluate, For, IfThenElse, LetStmt, Seq)
_MANY = 1 << 62
"""Of a loop whose length is not known."""


def backwards(func: PrimFunc, result: Buffer) -> PrimFunc | None:
    """A flat program whose loops around what it stores in its dense result run backwards; None
    where their order may matter."""
    if not _free(func, result):
        return None

    def turned(s: For) -> Stmt:
        stored = any(isinstance(x, BufferStore) and x.buffer is result for x in walk(s.body))
        low, extent = value_of(s.min), value_of(s.extent)
        if not stored or low is None or extent is None:
            return s
        return s.replace(body=substitute_stmt(s.body, {s.var: s.min * 2 + (extent - 1) - s.var}))

    body = Simplify(analyzer_for(func)).stmt(map_stmts(func.body, For, turned))
    return func.replace(body=body)


def _free(func: PrimFunc, result: Buffer) -> bool:
    """Whether turns of loops share nothing: what they store are elements of the result, each once,
    and buffers of their own."""
    parts = [*walk(func.body)]
    if not all(isinstance(s, _PLAIN) for s in parts) or any(
        isinstance(s, Evaluate) and value_of(s.value) is None for s in parts
    ):
        return False
    if any(x.buffer is result for e in expressions(*parts) for x in loads(e)):
        return False
    elements = prod([value_of(e) or 0 for e in result.shape])
    return _stores(func.body, result) <= elements and _stays_inside(func.body, result)


def _stays_inside(s: Stmt, result: Buffer) -> bool:
    """Whether loops that store into the result store else only in what is allocated in them."""
    if isinstance(s, For):
        inside = [*walk(s.body)]
        stored = {x.buffer for x in inside if isinstance(x, BufferStore)}
        own = {x.buffer for x in inside if isinstance(x, Allocate)}
        if result in stored and not stored <= {result, *own}:
            return False
    return all(_stays_inside(x, result) for x in sub_statements(s))


def _stores(s: Stmt, b: Buffer) -> int:
    """How many stores into a buffer are run at most."""
    if isinstance(s, BufferStore):
        return int(s.buffer is b)
    inner = [_stores(x, b) for x in sub_statements(s)]
    if isinstance(s, For):
        extent = value_of(s.extent)
        return (_MANY if extent is None else extent) * sum(inner)
    return max(inner, default=0) if isinstance(s, IfThenElse) else sum(inner)
