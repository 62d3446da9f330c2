"""How errors show a program: the one place that knows the printer."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from smelt.ir.node import Node
from smelt.tir.nodes import BlockRealize, For, PrimFunc, Stmt, sub_statements

__all__ = ["outline", "show"]


def show(func: PrimFunc, mark: Mapping[Node, str]) -> str:
    """The program as text, the marked nodes underlined with their notes."""
    for module in ("smelt.tir.printer", "smelt.tir.script"):
        try:
            script = importlib.import_module(module).script
        except (ImportError, AttributeError):
            continue
        return str(script(func, mark=mark))
    return outline(func, mark)


def outline(func: PrimFunc, mark: Mapping[Node, str]) -> str:
    """Only the loops and blocks of a program, one a line."""
    lines: list[str] = [f"{func.name}:"]
    stack: list[tuple[Stmt, int]] = [(func.body, 1)]
    while stack:
        stmt, depth = stack.pop()
        head = _head(stmt)
        if head is not None:
            lines.append("    " * depth + head)
            note = mark.get(stmt) or (mark.get(stmt.block) if isinstance(stmt, BlockRealize) else None)
            if note:
                lines.append("    " * depth + "^" * len(head) + " " + note)
            depth += 1
        stack.extend((s, depth) for s in reversed(sub_statements(stmt)))
    return "\n".join(lines)


def _head(stmt: Stmt) -> str | None:
    if isinstance(stmt, For):
        extent = getattr(stmt.extent, "value", getattr(stmt.extent, "name", "..."))
        return f"for {stmt.var.name} in {stmt.kind}({extent}):"
    if isinstance(stmt, BlockRealize) and stmt.block.name != "root":
        return f"block {stmt.block.name}({', '.join(i.var.name for i in stmt.block.iter_vars)})"
    return None
