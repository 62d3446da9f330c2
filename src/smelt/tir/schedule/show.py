"""How errors show a program: the one place that knows the printer."""

from __future__ import annotations

from collections.abc import Mapping

from smelt.ir.expr import Expr
from smelt.ir.node import Node
from smelt.tir.nodes import PrimFunc, Stmt
from smelt.tir.printer import script


def show(func: PrimFunc, mark: Mapping[Node, str]) -> str:
    """The program as text, the marked nodes underlined with their notes."""
    return script(func, mark=mark)


def show_expr(e: Expr) -> str:
    """An expression as text."""
    return script(e).strip()


def show_first(node: Node) -> str:
    """An expression, or the first line of a statement."""
    text = script(node).strip() if isinstance(node, Expr | Stmt) else str(node)
    return text.splitlines()[0]
