"""Matches as functions of their own, called in place.

A value belongs to one match. A match is refused where something outside uses a value from its
inside, because that value would no longer be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.relax.graph import cut_out, free_vars, is_closed
from smelt.relax.nodes import Call, Constant, Function, Let, RelaxExpr, TupleGetItem, Var

from .blame import asked
from .graph import DataflowGraph, NewForms, call_function, op_name, operands, transformed, walk
from .match import Matcher, PatternBase


@dataclass(eq=False)
class Match:
    """A match whose values can be taken out of the graph together.

    root    the value it computes
    bound   the values that each pattern fits
    inside  its values, operands first, the root last
    inputs  what they need from outside, in order of first use
    """

    root: RelaxExpr
    bound: dict[PatternBase, list[Any]]
    inside: list[RelaxExpr]
    inputs: list[RelaxExpr]

    def name(self) -> str:
        """What it is made of: "nn.conv2d_nn.relu_"."""
        return "".join([f"{part}_" for part in map(_part_name, self.inside) if part])

    def op_names(self) -> list[str]:
        """The names of its operators, in order of evaluation."""
        names = [op_name(n.op) for n in self.inside if isinstance(n, Call)]
        return [n for n in names if n]

    def function(
        self, attrs: Mapping[str, Any], prefix: str, constants: bool | None = None
    ) -> tuple[Function, list[RelaxExpr]]:
        """The function that it becomes, and the inputs to call it with.

        prefix     of the names of its parameters
        constants  whether all of them stay inside; None: those that patterns ask for
        """
        given = [i for i in self.inputs if not (constants and isinstance(i, Constant))]
        if constants is False:
            given += [n for n in self.inside if isinstance(n, Constant)]
        return cut_out(self.inside, self.root, given, prefix, attrs), given


def _part_name(node: RelaxExpr) -> str:
    match node:
        case Call(op):
            own = op_name(op)
            if own is None and isinstance(op, Function):
                return str(op.attrs.get("Composite", "Function"))
            return own or str(getattr(op, "name", ""))
        case TupleGetItem(_, index):
            return f"TupleGetItem{index}"
        case Constant() | Var() | Function():
            return ""
    return type(node).__name__


class Partitioner:
    """A graph and everything that is kept to try many patterns on it."""

    def __init__(self, root: RelaxExpr) -> None:
        """Walk the graph and sort its calls by operator."""
        self.graph = DataflowGraph(root)
        self.matcher = Matcher(self.graph)
        self.place = {n: k for k, n in enumerate(self.graph.order)}
        self.by_op: dict[str, list[RelaxExpr]] = {}
        for n in reversed(self.graph.order):
            name = op_name(n.op) if isinstance(n, Call) else None
            if name is not None:
                self.by_op.setdefault(name, []).append(n)

    def candidates(self, pattern: PatternBase) -> Iterable[RelaxExpr]:
        """The values that a pattern may fit, results before what they are made of."""
        self.matcher.closed(pattern)  # looks up the names of operators
        roots = pattern.roots()
        if roots is None:
            return reversed(self.graph.order)
        lists = [self.by_op[name] for name in roots if name in self.by_op]
        if len(lists) == 1:
            return lists[0]
        return sorted([n for found in lists for n in found], key=lambda n: -self.place[n])

    def matches(
        self,
        pattern: PatternBase,
        accept: Callable[[Match], bool] = lambda m: True,
        leaves: bool = False,
    ) -> Iterator[Match]:
        """All matches that can be taken out together, results before what they are made of.

        accept  asked once a match is otherwise fine
        leaves  take whatever the pattern fits, be it by a wildcard; but variables
        """
        taken: set[RelaxExpr] = set()
        for node in self.candidates(pattern):
            if node in taken or (node is self.graph.root and isinstance(node, Function)):
                continue
            bound = self.matcher.match(pattern, node)
            found = None if bound is None else self.take(node, bound, taken, leaves)
            if found is not None and accept(found):
                taken.update([n for n in found.inside if not isinstance(n, Constant | Function)])
                yield found

    def take(
        self,
        root: RelaxExpr,
        bound: dict[PatternBase, list[Any]],
        taken: set[RelaxExpr],
        leaves: bool,
    ) -> Match | None:
        """A match, unless it overlaps with another one, or is used from outside inside."""
        members = {v for p in bound for v in p.inside(bound) if isinstance(v, RelaxExpr)}
        if leaves:
            members.add(root)
        elif isinstance(root, Constant):
            return None
        if isinstance(root, Var | Function) or root not in members or members & taken:
            return None
        gone = [n for n in members if n is not root and not isinstance(n, Constant | Var)]
        if any(u not in members for n in gone for u in self.graph.users_of(n)):
            return None
        inside, inputs = _sides(root, members)
        own = {p for n in members if isinstance(n, Function) for p in n.params}
        own |= {n.var for n in members if isinstance(n, Let)}
        inputs = [i for i in inputs if i not in own]
        if own and any(v in own for i in inputs for v in free_vars(i)):
            return None
        if any(isinstance(i, Function) for i in inputs):
            return None
        return Match(root, bound, inside, inputs)


def _sides(root: RelaxExpr, members: set[RelaxExpr]) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
    """The members below the root, operands first, and what they need from outside."""
    order = walk(root, lambda n: operands(n) if n in members else ())
    inside: list[RelaxExpr] = []
    inputs: list[RelaxExpr] = []
    for n in order:
        if n in members:
            inside.append(n)
        elif not _closed_callee(n):
            inputs.append(n)
    return inside, inputs


def _closed_callee(n: RelaxExpr) -> bool:
    """Whether a value is a function that needs nothing from around it: it goes along."""
    return isinstance(n, Function) and (is_closed(n) or not free_vars(n))


def partition(
    pattern: PatternBase,
    expr: Any,
    attrs: Mapping[str, Any] | None = None,
    check: Callable[[Any], bool] = lambda x: True,
    name: str = "",
) -> Any:
    """Every match of a pattern as a function of its own, called in place.

    expr   a function or a value; functions that a pass made are not looked into
    attrs  attributes for the functions, beside "PartitionedFromPattern"
    check  gets the value that a match computes; False refuses the match
    name   the pattern's, for messages
    """
    if not isinstance(expr, RelaxExpr):
        raise TypeMismatch(
            f"partition takes a function or a value of a graph program, not {type(expr).__name__}"
        )
    return partitioned(Partitioner(expr), pattern, attrs or {}, check, name)


def partitioned(
    graph: Partitioner,
    pattern: PatternBase,
    attrs: Mapping[str, Any],
    check: Callable[[Any], bool],
    name: str = "",
) -> RelaxExpr:
    """The same on a graph that is known; the same root where nothing matches."""

    def accept(m: Match) -> bool:
        return asked(check, m.root, m.root, m.inside, name or repr(pattern))

    made: dict[RelaxExpr, Match] = {m.root: m for m in graph.matches(pattern, accept)}
    if not made:
        return graph.graph.root
    calls: dict[RelaxExpr, tuple[Any, list[RelaxExpr], str]] = {}
    for n, (root, m) in enumerate(made.items()):
        full = {**attrs, "PartitionedFromPattern": m.name()}
        calls[root] = (*m.function(full, f"FunctionVar_{n}_"), getattr(root, "name", ""))
    return called(graph, calls)


def called(
    graph: Partitioner, calls: Mapping[RelaxExpr, tuple[Any, list[RelaxExpr], str]]
) -> RelaxExpr:
    """The root of a graph, with some values as calls: of what, on which values, and their names."""

    def replace(node: RelaxExpr, new: RelaxExpr, done: NewForms) -> RelaxExpr:
        if node not in calls:
            return new
        target, inputs, name = calls[node]
        return call_function(target, [done[i] for i in inputs], node.type, name)

    return transformed(graph.graph, replace)[graph.graph.root]
