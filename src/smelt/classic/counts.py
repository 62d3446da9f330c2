"""Counting: nodes, arithmetic, bytes; and what has effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from smelt.ir import dtype as dt
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import INDEX, Call, Expr, Var, const
from smelt.ir.module import IRModule
from smelt.ir.walk import free_vars
from smelt.tir import nodes
from smelt.tir.analysis.footprint import footprint
from smelt.tir.interpret_expr import known_number
from smelt.tir.script_ops import expr_nodes, expressions
from smelt.tir.script_ops import is_pure as is_pure
from smelt.tir.threads import BARRIER


@dataclass(frozen=True)
class Counts:
    """How many nodes of each class a program has; equal expressions of a statement count once."""

    statements: Mapping[str, int]
    expressions: Mapping[str, int]

    @property
    def total(self) -> int:
        """All nodes."""
        return sum(self.statements.values()) + sum(self.expressions.values())


def count_nodes(program: nodes.PrimFunc | nodes.Stmt | Expr) -> Counts:
    """The statements and expressions of a program by class name: "For", "BufferStore", "Add"."""
    statements: Counter[str] = Counter()
    found: Counter[str] = Counter()
    if isinstance(program, Expr):
        found.update(type(n).__name__ for n in expr_nodes(program))
        return Counts(statements, found)
    for s in nodes.walk(program.body if isinstance(program, nodes.PrimFunc) else program):
        statements[type(s).__name__] += 1
        found.update(type(n).__name__ for n in expressions(s))
    return Counts(statements, found)


def estimate_flops(
    program: nodes.PrimFunc | IRModule, sizes: Mapping[str, int] | None = None
) -> float:
    """Arithmetic operations on elements in one run, at most; a multiply-add counts two.

    sizes  of symbolic sizes by name; a TypeMismatch names those that are missing
    """
    if isinstance(program, IRModule):
        funcs = [f for f in program.functions.values() if isinstance(f, nodes.PrimFunc)]
        return float(sum(estimate_flops(f, sizes) for f in funcs))
    work = footprint(program).total.operations
    return float(_number(work, sizes, f"the arithmetic of {program.name}"))


def calculate_allocated_bytes(
    func: nodes.PrimFunc, sizes: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The bytes of intermediate buffers that are alive at one time, at most, by scope.

    sizes  of symbolic sizes by name; a TypeMismatch names those that are missing
    """
    return dict(_alive(func.body, sizes))


def _alive(s: nodes.Stmt, sizes: Mapping[str, int] | None) -> Counter[str]:
    """The most bytes of each scope alive in a statement."""
    inside = [_alive(x, sizes) for x in nodes.sub_statements(s)]
    found: Counter[str] = Counter()
    for part in inside:
        found |= part
    own = s.alloc_buffers if isinstance(s, nodes.Block) else ()
    if isinstance(s, nodes.Allocate):
        own = (s.buffer,)
    for b in own:
        found[b.scope] += _bytes(b, sizes)
    return found


def _bytes(b: nodes.Buffer, sizes: Mapping[str, int] | None) -> int:
    bits: Expr = const(dt.bits(b.type), INDEX)
    for e in b.shape:
        bits = bits * e
    return -(-_number(bits, sizes, f"the size of {b.name}") // 8)


def _number(e: Expr, sizes: Mapping[str, int] | None, what: str) -> int:
    """An expression of sizes as a number."""
    free = {v for v in free_vars(e) if isinstance(v, Var)}
    missing = sorted(v.name for v in free if v.name not in (sizes or {}))
    if missing:
        raise TypeMismatch(
            f"{what} depends on {', '.join(missing)}; say sizes={{{missing[0]!r}: ...}}"
        )
    found = known_number(e, {v: (sizes or {})[v.name] for v in free})
    if found is None:
        raise TypeMismatch(f"{what} is not a number: {e}")
    return found


# -------------------------------------------------------------------------------------- effects


def is_pure_function(func: nodes.PrimFunc) -> bool:
    """Whether a program changes nothing outside: it stores in buffers of its own only.

    Programs that can fail an assertion, or call what is not known, are not pure.
    """
    own: set[nodes.Buffer] = set()
    for s in nodes.walk(func.body):
        own.update(s.alloc_buffers if isinstance(s, nodes.Block) else ())
        if isinstance(s, nodes.Allocate):
            own.add(s.buffer)
    for s in nodes.walk(func.body):
        if isinstance(s, nodes.AssertStmt) or (
            isinstance(s, nodes.BufferStore) and s.buffer not in own
        ):
            return False
    return all(_harmless(e) for s in nodes.walk(func.body) for e in nodes.own_exprs(s))


def _harmless(e: Expr) -> bool:
    return is_pure(e) or (isinstance(e, Call) and e.op == BARRIER)
