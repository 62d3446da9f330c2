"""Which expressions depend on some variables."""

from __future__ import annotations

from collections.abc import Container

from smelt.ir.expr import Expr, IntImm, Var
from smelt.ir.node import Node, postorder


class Dependence:
    """Tells, and remembers, whether an expression depends on one of some variables."""

    __slots__ = ("_known", "_variables")

    def __init__(self, variables: Container[Expr]) -> None:
        """Of these variables."""
        self._variables = variables
        self._known: dict[Node, bool] = {}

    def __call__(self, e: Node) -> bool:
        """Whether the expression depends on them."""
        kind = type(e)
        if kind is Var:
            return e in self._variables
        if kind is IntImm:
            return False
        known = self._known
        found = known.get(e)
        if found is None:
            try:
                found = known[e] = any(known[c] for c in e.children())
            except KeyError:
                for part in postorder(e):
                    known[part] = part in self._variables or any(known[c] for c in part.children())
                found = known[e]
        return found
