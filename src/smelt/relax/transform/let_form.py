"""Programs with names: every value bound by a Let (A-normal form), or what scopes share.

A scope is the body of a function or one side of a branch. A value stands in the innermost scope
that holds all of its uses, behind the scopes that its variables come from.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from smelt.ir.module import IRModule
from smelt.ir.node import Node, ordered, postorder
from smelt.relax.adt import Constructor, Match, bodies, operands
from smelt.relax.nodes import (
    Constant,
    Function,
    GlobalVar,
    If,
    Let,
    RelaxExpr,
    Var,
)

from .normal_form import is_recursive
from .rewriting import map_functions, uses_of

__all__ = ["anf_expression", "to_anf", "to_basic_blocks"]

_ATOMS = (Var, Constant, Let, GlobalVar, Constructor)
"""What needs no name."""

MakeVar = Callable[[str, Any], Var]


def to_anf(mod: IRModule, variable: MakeVar = Var) -> IRModule:
    """Every value that is computed gets a name; operands are variables and constants.

    variable  makes the variables: a dialect's own class
    """
    return map_functions(mod, lambda f: _named(f, variable, everything=True))


def to_basic_blocks(mod: IRModule, variable: MakeVar = Var) -> IRModule:
    """Values that are used in several scopes get a name in the scope around them."""
    return map_functions(mod, lambda f: _named(f, variable, everything=False))


def anf_expression(e: RelaxExpr, variable: MakeVar = Var) -> RelaxExpr:
    """An expression in A-normal form; of a function, its body."""
    if isinstance(e, Function):
        return _named(e, variable, everything=True)
    return _named(Function((), e), variable, everything=True).body


class _Scope:
    """The body of a function, a side of a branch, or what stands below a Let."""

    def __init__(self, parent: _Scope | None) -> None:
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.bindings: list[tuple[Var, RelaxExpr]] = []


def _common(a: _Scope, b: _Scope) -> _Scope:
    """The innermost scope around two."""
    while a is not b:
        if a.depth >= b.depth:
            assert a.parent is not None
            a = a.parent
        else:
            assert b.parent is not None
            b = b.parent
    return a


def _parts(node: RelaxExpr) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
    """(what a value needs in its own scope, the bodies of scopes inside)."""
    inside = [node.value, node.body] if isinstance(node, Let) else bodies(node)
    return operands(node), inside


class _Form:
    """The scopes of one function, and the order in which values are needed."""

    def __init__(self, root: Function, everything: bool) -> None:
        self.root, self.everything = root, everything
        self.scope: dict[Node, _Scope] = {}
        self.inside: dict[tuple[Node, int], _Scope] = {}
        self.crossing: set[Node] = set()
        uses = uses_of(root)
        lets = [n for n in postorder(root) if isinstance(n, Let)]
        self.bound = {n.value for n in lets if uses[n.value] == 1 or is_recursive(n)}
        parts: list[RelaxExpr] = [root]
        self.order = list(ordered(parts, lambda n: chain(*_parts(n))))
        self._place()

    def _place(self) -> None:
        """Every value's scope: wholes first, so that all uses of a part are known."""
        self.scope[self.root] = _Scope(None)
        for node in reversed(self.order):
            own = self.scope[node]
            here, bodies = _parts(node)
            for part in here:
                self._use(part, own)
            if isinstance(node, Let):
                # what the body alone uses may use the variable: a scope inside this one
                self._use(node.value, own)
                inner = self.inside[node, 1] = _Scope(own)
                self._use(node.body, inner)
                continue
            for i, body in enumerate(bodies):
                inner = self.inside[node, i] = _Scope(own)
                self._use(body, inner)

    def _use(self, part: RelaxExpr, scope: _Scope) -> None:
        before = self.scope.get(part)
        if before is None:
            self.scope[part] = scope
        elif before is not scope:
            self.scope[part] = _common(before, scope)
            self.crossing.add(part)

    def named(self, node: RelaxExpr) -> bool:
        """Whether a value gets a name."""
        if isinstance(node, _ATOMS) or node in self.bound:
            return False
        if isinstance(node, Function) and any(
            node.attrs.get(k) for k in ("Primitive", "Composite")
        ):
            return False
        return self.everything or node in self.crossing


def _named(f: Function, variable: MakeVar, everything: bool) -> Function:
    form = _Form(f, everything)
    done: dict[Node, Any] = {}
    count = 0
    for node in form.order:
        if node is f:
            continue
        new = _rebuilt(node, form, done)
        if isinstance(node, Let) or not form.named(node):
            done[node] = new
            continue
        v = variable(f"x{count}", new.type)
        count += 1
        form.scope[node].bindings.append((v, new))
        done[node] = v
    body = _closed(done[f.body], form.inside[f, 0])
    return f if body is f.body else f.replace(body=body)


def _rebuilt(node: RelaxExpr, form: _Form, done: dict[Node, Any]) -> RelaxExpr:
    """A value on the new forms of its parts; the bodies of scopes inside are closed."""
    match node:
        case If(condition, yes, no, t):
            first = _closed(done[yes.body], form.inside[node, 0])
            second = _closed(done[no.body], form.inside[node, 1])
            if first is yes.body and second is no.body and done[condition] is condition:
                return node
            return If(done[condition], yes.replace(body=first), no.replace(body=second), t)
        case Function(body=body):
            inner = _closed(done[body], form.inside[node, 0])
            return node if inner is body else node.replace(body=inner)
        case Let(var, value, body):
            inner = _closed(done[body], form.inside[node, 1])
            if inner is body and done[value] is value:
                return node
            return Let(var, done[value], inner)
        case Match(data, clauses, complete, t):
            sides = [
                c.replace(rhs=_closed(done[c.rhs], form.inside[node, i]))
                for i, c in enumerate(clauses)
            ]
            same = all(a.rhs is b.rhs for a, b in zip(sides, clauses, strict=True))
            if same and done[data] is data:
                return node
            return Match(done[data], tuple(sides), complete, t)
    return node.with_children(lambda c: done.get(c, c))


def _closed(result: RelaxExpr, scope: _Scope) -> RelaxExpr:
    """A result behind the names that its scope binds."""
    for var, value in reversed(scope.bindings):
        result = Let(var, value, result)
    return result
