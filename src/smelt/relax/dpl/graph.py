"""What the pattern language sees of a graph program: values, what they are made of, who uses them.

Everything is iterative: a chain of 10,000 calls is no deeper than one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from smelt.ir.node import Node, ordered
from smelt.ir.types import Type
from smelt.relax.graph import is_closed, users_of
from smelt.relax.nodes import Call, Function, RelaxExpr
from smelt.relax.nodes import call as call_op

NewForms = dict[RelaxExpr, RelaxExpr]
"""By value, what stands for it."""


def op_name(op: object) -> str | None:
    """The name of an operator; None for functions, variables and everything else."""
    if isinstance(op, Node):
        return None
    found = getattr(op, "name", None)
    return found if isinstance(found, str) else None


def operands(node: RelaxExpr) -> list[RelaxExpr]:
    """What a value is made from: operands, the function called, the branches of an If."""
    match node:
        case Call(op, args):
            given = [a for a in args if a is not None]
            return [op, *given] if isinstance(op, RelaxExpr) else given
        case Function() if is_closed(node):
            return []
    return [c for c in node.children() if isinstance(c, RelaxExpr)]


def walk(
    root: RelaxExpr, inside: Callable[[RelaxExpr], Iterable[RelaxExpr]] = operands
) -> list[RelaxExpr]:
    """Every value below `root` once, operands first.

    inside  what to go on with from a value
    """
    return list(ordered([root], inside))


class DataflowGraph:
    """The values below an expression, operands first, and the users of each.

    An expression that is a function is entered even where it is a unit of its own.
    """

    def __init__(self, root: RelaxExpr) -> None:
        """Walk the graph once."""
        self.root = root

        def inside(n: RelaxExpr) -> list[RelaxExpr]:
            return [root.body] if n is root and isinstance(root, Function) else operands(n)

        self.order = walk(root, inside)
        self.users = users_of(self.order, inside)

    def users_of(self, node: RelaxExpr) -> list[RelaxExpr]:
        """The values that are made from this one, as often as it stands in them."""
        return self.users.get(node, [])


def call_function(f: Function, args: Iterable[RelaxExpr], type: Type, name: str = "") -> Call:
    """A function applied in place. `type` is that of its result."""
    return Call(cast(Any, f), tuple(args), {}, type, name)


def rebuilt(node: RelaxExpr, done: dict[RelaxExpr, RelaxExpr]) -> RelaxExpr:
    """A value on the new forms of what it is made from; where a type changed, inferred anew."""
    new = node.with_children(lambda c: done.get(c, c))
    if new is node or not isinstance(new, Call):
        return new
    assert isinstance(node, Call)
    same = all(a is b or type_of(a) is type_of(b) for a, b in zip(node.args, new.args, strict=True))
    called = cast(Any, new.op)
    if op_name(called) is not None:
        return new if same else call_op(called, *new.args, name=new.name, **new.attrs)
    if isinstance(called, Function) and called.body.type is not new.type:
        return new.replace(type=called.body.type)
    return new


def type_of(expr: Any) -> Type | None:
    """The type of a value; None for what is left out and for operators, which have none."""
    return getattr(expr, "type", None) if isinstance(expr, RelaxExpr) else None


def transformed(
    graph: DataflowGraph, replace: Callable[[RelaxExpr, RelaxExpr, NewForms], RelaxExpr]
) -> NewForms:
    """The new form of every value of a graph.

    replace  (the value, the same on new operands, the new forms so far) -> what stands for it
    """
    done: NewForms = {}
    for node in graph.order:
        done[node] = replace(node, rebuilt(node, done), done)
    return done
