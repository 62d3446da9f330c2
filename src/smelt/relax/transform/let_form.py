"""Programs with names: every value bound by a Let (A-normal form), or what scopes share.

A scope is the body of a function or one side of a branch. A value stands in the innermost scope
that holds all of its uses, behind the scopes that its variables come from.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator
from typing import Any

from smelt.ir.module import IRModule
from smelt.ir.node import Node, ordered, postorder
from smelt.relax.nodes import Function, Let, RelaxExpr, Var, let_values

from .. import graph
from .normal_form import is_recursive
from .rewriting import map_functions

_ATOMS = (*graph.LEAVES, Let)
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


class _Scope(graph.Scope):
    """The body of a function, a side of a branch, or what stands below a Let."""

    def __init__(self, parent: _Scope | None) -> None:
        super().__init__(parent)
        self.bindings: list[tuple[Var, RelaxExpr]] = []


class _Form:
    """The scopes of one function, and the order in which values are needed.

    inside    the scopes inside a value, in the order of their values
    crossing  values that are used in several scopes
    """

    def __init__(self, root: Function, everything: bool) -> None:
        self.root, self.everything = root, everything
        self.inside: dict[Node, list[_Scope]] = {}
        self.crossing: set[Node] = set()
        uses = graph.uses_of(root)
        lets = [n for n in postorder(root) if isinstance(n, Let)]
        self.bound = {n.value for n in lets if uses[n.value] == 1 or is_recursive(n)}
        roots: list[RelaxExpr] = [root]
        self.order = list(ordered(roots, graph.parts_of))
        self._first: dict[RelaxExpr, _Scope] = {}
        self.scope = graph.placed(self.order, _Scope(None), self._uses)

    def _uses(self, node: RelaxExpr, own: _Scope) -> Iterator[tuple[RelaxExpr, _Scope]]:
        """What a value uses, and in which scope."""
        here, inside = graph.operands(node), graph.regions(node)
        if isinstance(node, Let):
            # what the body alone uses may use the variable: a scope inside this one
            here, inside = [node.value], [node.body]
        self.inside[node] = [_Scope(own) for _ in inside]
        used = [*[(part, own) for part in here], *zip(inside, self.inside[node], strict=True)]
        for part, scope in used:
            if self._first.setdefault(part, scope) is not scope:
                self.crossing.add(part)
            yield part, scope

    def named(self, node: RelaxExpr) -> bool:
        """Whether a value gets a name."""
        if isinstance(node, _ATOMS) or node in self.bound:
            return False
        if isinstance(node, Function) and graph.is_unit(node):
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
    body = let_values(form.inside[f][0].bindings, done[f.body])
    return f if body is f.body else f.replace(body=body)


def _rebuilt(node: RelaxExpr, form: _Form, done: dict[Node, Any]) -> RelaxExpr:
    """A value on the new forms of its parts; the bodies of scopes inside are closed."""
    inside = [node.body] if isinstance(node, Let) else graph.regions(node)
    scopes = zip(inside, form.inside[node], strict=True)
    closed = {b: let_values(s.bindings, done[b]) for b, s in scopes}
    return graph.on_parts(node, ChainMap(closed, done))
