"""Statements of operators that are no tensor expressions: recurrences, counts known at run time.

They make the bodies that `te.extern` takes; a variable of the program is an element of a tensor
that the operator keeps to itself.
"""

from __future__ import annotations

from collections.abc import Callable

from smelt.ir.build import select
from smelt.ir.expr import INDEX, Expr, ExprLike, Var, cast, const, convert
from smelt.te.tensor import Tensor
from smelt.tir.nodes import BufferStore, For, IfThenElse, Stmt
from smelt.tir.nodes import seq as seq


def loop(name: str, extent: ExprLike, body: Callable[[Var], Stmt], begin: ExprLike = 0) -> Stmt:
    """for name in range(begin, begin + extent): body(name)."""
    v = Var(name, INDEX)
    return For(v, convert(begin, INDEX), convert(extent, INDEX), body(v))


def when(condition: Expr, then: Stmt, otherwise: Stmt | None = None) -> Stmt:
    """if condition: then, else: otherwise."""
    return IfThenElse(condition, then, otherwise)


def _places(indices: tuple[ExprLike, ...]) -> tuple[Expr, ...]:
    found = [convert(i, INDEX) for i in indices]
    return tuple([i if i.dtype == INDEX else cast(INDEX, i) for i in found])


def at(t: Tensor, *indices: ExprLike) -> Expr:
    """An element."""
    return t[_places(indices)]


def put(t: Tensor, value: ExprLike, *indices: ExprLike) -> Stmt:
    """t[indices] = value, converted to the element type of t."""
    e = convert(value)
    if e.dtype == "bool" and t.dtype != "bool":
        e = select(e, const(1, t.dtype), const(0, t.dtype))
    return BufferStore(t, e if e.dtype == t.dtype else cast(t.dtype, e), _places(indices))


def add(t: Tensor, value: ExprLike, *indices: ExprLike) -> Stmt:
    """t[indices] += value."""
    return put(t, at(t, *indices) + value, *indices)
