"""Nested parallel loops become one, so that all their iterations are shared out among the threads.

for i in parallel(3):                  for t in parallel(12):
    if i < 2:                              i = t // 4
        for j in parallel(4): A(i, j)      if i < 2: j = t % 4; A(i, j)
    else:                           ->     else:     k = t % 4; B(i, k)
        for k in parallel(4): B(i, k)
"""

from __future__ import annotations

from smelt.ir.expr import Expr, Var, const
from smelt.tir.nodes import For, IfThenElse, LetStmt, PrimFunc, Stmt
from smelt.tir.rewrite import map_stmts


def collapse_parallel(func: PrimFunc) -> PrimFunc:
    """Join parallel loops whose bodies are parallel loops, or branches between such."""
    return func.replace(body=map_stmts(func.body, For, _collapsed))


def _collapsed(s: For) -> Stmt:
    extent = _common_extent(s.body) if s.kind == "parallel" else None
    if extent is None:
        return s
    iteration = Var(f"{s.var.name}_{extent[1]}", s.var.type)
    inner = _with_values(s.body, iteration % extent[0])
    body = LetStmt(s.var, s.min + iteration // extent[0], inner)
    return For(iteration, const(0), s.extent * extent[0], body, "parallel")


def _common_extent(s: Stmt) -> tuple[Expr, str] | None:
    """The extent of the parallel loops at the leaves of some branches, where they agree."""
    if isinstance(s, For):
        return (s.extent, s.var.name) if s.kind == "parallel" else None
    if not isinstance(s, IfThenElse) or s.else_body is None:
        return None
    a, b = _common_extent(s.then_body), _common_extent(s.else_body)
    return a if a is not None and b is not None and a[0] is b[0] else None


def _with_values(s: Stmt, value: Expr) -> Stmt:
    """The leaves' bodies with their variables bound."""
    if isinstance(s, IfThenElse) and s.else_body is not None:
        return IfThenElse(
            s.condition, _with_values(s.then_body, value), _with_values(s.else_body, value)
        )
    assert isinstance(s, For)
    return LetStmt(s.var, s.min + value, s.body)
