"""Walks over statements under the field's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from smelt.ir.expr import Expr, ExprLike, Var, convert
from smelt.ir.node import Node, ordered
from smelt.ir.walk import substitute as substitute_expr

from .nodes import Buffer, Stmt
from .rewrite import Rewriter, substitute_stmt


def post_order_visit(stmt: Node, fvisit: Callable[[Any], None]) -> None:
    """Call `fvisit` on every statement, block and expression below a node, children first.

    What is used in several places is visited once. Iterative.
    """
    for node in ordered([stmt], _below):
        fvisit(node)


def pre_order_visit(stmt: Node, fvisit: Callable[[Any], bool | None]) -> None:
    """Call `fvisit` on a node before its children; where it returns False they are left out."""
    seen: set[Node] = set()
    stack = [stmt]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if fvisit(node) is not False:
                stack.extend(reversed(list(_below(node))))


def _below(node: Node) -> Iterator[Node]:
    """Statements, blocks and expressions directly in a node; buffers are not entered."""
    for c in node.children():
        if isinstance(c, Stmt | Expr):
            yield c
        elif not isinstance(c, Buffer):
            yield from _below(c)


def substitute(node: Stmt | Expr, vmap: Mapping[Var, ExprLike]) -> Stmt | Expr:
    """A statement or an expression with variables replaced."""
    values = {v: convert(e, v.type) for v, e in vmap.items()}
    if isinstance(node, Stmt):
        return substitute_stmt(node, values)
    return substitute_expr(node, values)


Change = Callable[[Any], Stmt | Expr | None]


def ir_transform(
    stmt: Stmt,
    preorder: Change | None,
    postorder: Change | None,
    only_enable: Iterable[str] | None = None,
) -> Stmt:
    """A statement rebuilt.

    preorder     called before a node's children: what it returns stands for the node, whose
                 children are left alone; None goes on into them
    postorder    called on a node whose children are rebuilt; None keeps it
    only_enable  names of the classes that both are called on, e.g. ["tir.For"]; None: all
    """
    names = None if only_enable is None else {n.removeprefix("tir.") for n in only_enable}
    return _Transform(preorder, postorder, names).stmt(stmt)


class _Transform(Rewriter):
    def __init__(self, before: Change | None, after: Change | None, names: set[str] | None) -> None:
        super().__init__()
        self.before, self.after, self.names = before, after, names

    def wanted(self, node: Node, change: Change | None) -> Any:
        """What a function makes of a node; None where it is not asked or changes nothing."""
        if change is None or (self.names is not None and type(node).__name__ not in self.names):
            return None
        return change(node)

    def changed(self, node: Any, inside: Callable[[Any], Any]) -> Any:
        """A node that one of the functions has changed, or whose parts are rebuilt."""
        made = self.wanted(node, self.before)
        if made is None:
            rebuilt = inside(node)
            made = self.wanted(rebuilt, self.after)
            made = rebuilt if made is None else made
        return made

    def stmt(self, s: Stmt) -> Stmt:
        made: Stmt = self.changed(s, super().stmt)
        return made

    def visit_expr(self, e: Expr) -> Expr:
        made: Expr = self.changed(e, super().visit_expr)
        return made
