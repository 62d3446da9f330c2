"""`ScopeBuilder`: nested bindings and branches, written as blocks.

sb = relay.ScopeBuilder()
with sb.if_scope(cond):
    t = sb.let("t", relay.add(x, x))
    sb.ret(t)
with sb.else_scope():
    sb.ret(x)
body = sb.get()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from smelt.ir.errors import CompileError
from smelt.relax.nodes import RelaxExpr, Var, let_values

from . import dialect
from .expr import If, RelayVar


class _Scope:
    """The bindings of one block, and what it returns."""

    def __init__(self) -> None:
        self.bindings: list[tuple[Var, RelaxExpr]] = []
        self.result: RelaxExpr | None = None


class ScopeBuilder:
    """Collects bindings in order; `get` gives them as nested Lets around what `ret` was given."""

    def __init__(self) -> None:
        """One open block."""
        self._scopes = [_Scope()]
        self._waiting: tuple[RelaxExpr, RelaxExpr] | None = None

    def let(self, var: Var | str, value: Any) -> Var:
        """Name a value; gives the variable."""
        made = dialect.value(value, "ScopeBuilder.let: the value")
        if isinstance(var, str):
            var = RelayVar(var, made.type)
        self._open("let").bindings.append((var, made))
        return var

    def ret(self, value: Any) -> None:
        """The value of the block."""
        scope = self._open("ret")
        scope.result = dialect.value(value, "ScopeBuilder.ret: the value")

    @contextmanager
    def if_scope(self, cond: Any) -> Iterator[None]:
        """The block of the true branch; an else_scope has to follow."""
        self._open("if_scope")
        condition = dialect.value(cond, "ScopeBuilder.if_scope: the condition")
        self._scopes.append(_Scope())
        yield
        self._waiting = condition, self._closed(self._scopes.pop(), "if_scope")

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The block of the false branch, which ends the block around both."""
        if self._waiting is None:
            raise CompileError("ScopeBuilder: else_scope without an if_scope before it")
        condition, yes = self._waiting
        self._waiting = None
        self._scopes.append(_Scope())
        yield
        no = self._closed(self._scopes.pop(), "else_scope")
        self.ret(If(condition, yes, no))

    def type_of(self, expr: RelaxExpr) -> Any:
        """The type of a value."""
        return expr.checked_type

    def get(self) -> RelaxExpr:
        """The whole expression."""
        if self._waiting is not None:
            raise CompileError("ScopeBuilder: if_scope without an else_scope after it")
        return self._closed(self._scopes[0], "the builder")

    def _open(self, what: str) -> _Scope:
        if self._waiting is not None:
            raise CompileError(f"ScopeBuilder: {what} between if_scope and else_scope")
        scope = self._scopes[-1]
        if scope.result is not None:
            raise CompileError(f"ScopeBuilder: {what} after ret; a block ends with ret")
        return scope

    def _closed(self, scope: _Scope, what: str) -> RelaxExpr:
        if scope.result is None:
            raise CompileError(f"ScopeBuilder: {what} has no ret; every block ends with one")
        return let_values(scope.bindings, scope.result)
