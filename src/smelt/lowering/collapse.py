"""Parallel loops as tasks for threads: nested ones become one. Of an unknown number of iterations,
or where its annotation "tasks" asks for it, each task gets a range.

for i in parallel(3):                  for t in parallel(12):
    if i < 2:                              i = t // 4
        for j in parallel(4): A(i, j)      if i < 2: j = t % 4; A(i, j)
    else:                           ->     else:     k = t % 4; B(i, k)
        for k in parallel(4): B(i, k)

for i in parallel(n):                  for t in parallel(min(n * m, 32)):
    for j in parallel(m): A(i, j)          begin, end = the part t of 0 .. n * m
                                    ->     for i in range(begin // m, ceildiv(end, m)):
                                               for j in range(max(0, begin - i * m),
                                                              min(m, end - i * m)): A(i, j)

An iteration may be a few vectors: to start a task for each, and to divide for the loops' variables,
would take longer.
"""

from __future__ import annotations

from smelt.ir.build import ceildiv, maximum, minimum, value_of
from smelt.ir.errors import CompileError
from smelt.ir.expr import Expr, Var, const
from smelt.ir.walk import free_vars
from smelt.tir.nodes import For, IfThenElse, LetStmt, PrimFunc, Stmt
from smelt.tir.rewrite import Rewriter
from smelt.tir.script_ops import SHARED_OUT, TASKS


def collapse_parallel(func: PrimFunc) -> PrimFunc:
    """Join parallel loops whose bodies are parallel loops, or branches between such; share out
    those of an unknown number of iterations in ranges."""
    return _Collapse().program(func)


class _Collapse(Rewriter):
    def visit_For(self, s: For) -> Stmt:
        if s.kind != "parallel":
            return super().visit_For(s)
        inner = _inner_extent(s)
        count = s.extent if inner is None else s.extent * inner
        if value_of(count) is None or SHARED_OUT in s.annotations:
            return _in_ranges(s, count)
        if inner is None:
            return s
        one = Var(f"{s.var.name}_fused", s.var.type)
        return For(one, const(0, one.type), count, _at(s, one), "parallel")


def _inner_extent(s: For) -> Expr | None:
    """The iterations of all parallel loops inside of one, for each of its own; None where there are
    none, or not as many for each."""
    found = _common_extent(s.body)
    return None if found is None or s.var in free_vars(found) else found


def _common_extent(s: Stmt) -> Expr | None:
    """The iterations of the parallel loops at the leaves of some branches, where they agree."""
    if isinstance(s, For) and s.kind == "parallel":
        inner = _inner_extent(s)
        return s.extent if inner is None else s.extent * inner
    if not isinstance(s, IfThenElse) or s.else_body is None:
        return None
    a, b = _common_extent(s.then_body), _common_extent(s.else_body)
    return a if a is not None and a is b else None


def _at(s: Stmt, place: Expr) -> Stmt:
    """The iteration of the loops at the leaves that has a number."""
    if isinstance(s, IfThenElse) and s.else_body is not None:
        return IfThenElse(s.condition, _at(s.then_body, place), _at(s.else_body, place))
    assert isinstance(s, For)
    inner = _inner_extent(s)
    if inner is None:
        return LetStmt(s.var, s.min + place, s.body)
    return LetStmt(s.var, s.min + place // inner, _at(s.body, place % inner))


def _in_ranges(s: For, count: Expr) -> Stmt:
    """Loops of so many iterations together as tasks."""
    most = s.annotations.get(SHARED_OUT, TASKS)
    if not isinstance(most, int) or most < 1:
        raise CompileError(
            f"the loop {s.var.name} is annotated with {SHARED_OUT!r}: {most!r}; legal: how many "
            "tasks it is divided into at most, an integer from 1"
        )
    task, begin, end = (Var(n, s.var.type) for n in ("task", "begin", "end"))
    tasks = minimum(count, const(most, count.dtype))
    body = _within(s, begin, end)
    body = LetStmt(begin, task * count // tasks, LetStmt(end, (task + 1) * count // tasks, body))
    return For(task, const(0, task.type), tasks, body, "parallel")


def _within(s: Stmt, begin: Expr, end: Expr) -> Stmt:
    """The iterations of the loops at the leaves whose numbers are from begin to end."""
    if isinstance(s, IfThenElse) and s.else_body is not None:
        then, other = (_within(x, begin, end) for x in (s.then_body, s.else_body))
        return IfThenElse(s.condition, then, other)
    assert isinstance(s, For)
    others = {k: v for k, v in s.annotations.items() if k != SHARED_OUT}
    inner = _inner_extent(s)
    if inner is None:
        first, last, body = begin, end, s.body
    else:
        first, last = begin // inner, ceildiv(end, inner)
        low, high = (Var(n, s.var.type) for n in ("low", "high"))
        before = (s.var - s.min) * inner
        body = LetStmt(high, minimum(inner, end - before), _within(s.body, low, high))
        body = LetStmt(low, maximum(const(0, low.type), begin - before), body)
    return For(s.var, s.min + first, last - first, body, "serial", annotations=others)
