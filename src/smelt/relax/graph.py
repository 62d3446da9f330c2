"""The mechanics of graphs: what values are made of, where they stand, how they are made anew.

Graphs are shared and may be deep: every walk here is a loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import methodcaller
from typing import Any, Self, TypeVar

from smelt.ir.module import as_function
from smelt.ir.node import Node, ordered, postorder

from .adt import Clause, Constructor, Match, PatternVar
from .nodes import (
    Call,
    Constant,
    Function,
    GlobalVar,
    If,
    Let,
    MatchCast,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
)

N = TypeVar("N", bound=Node)
S = TypeVar("S", bound="Scope")
T = TypeVar("T")

LEAVES = (Var, Constant, GlobalVar, Constructor)
"""Values that need no computation."""

_NAMES = (GlobalVar, Constructor)
"""What may be called without being a value."""
_EMPTY = (*LEAVES, Function)
"""Values without operands."""
_OF_PARTS = (Constant, Call, Tuple, TupleGetItem, MatchCast)
"""Values that follow from their operands alone."""
_OPEN = (Function, If, Match)
"""Values with scopes inside."""


# ------------------------------------------------------------------------- what values are made of


def operands(node: Node) -> list[RelaxExpr]:
    """What has to be computed before a value, in its own scope; what it calls by name is not."""
    if isinstance(node, Call):  # first, and by no pattern: most values are
        given = [a for a in node.args if a is not None]
        named = not isinstance(node.op, RelaxExpr) or isinstance(node.op, _NAMES)
        return given if named else [node.op, *given]  # type: ignore[list-item]
    if isinstance(node, _EMPTY):
        return []
    match node:
        case Let(_, value, body):
            return [value, body]
        case If(inner) | Match(inner) | TupleGetItem(inner):
            return [inner]
    return [c for c in node.children() if isinstance(c, RelaxExpr)]


def regions(node: Node) -> list[RelaxExpr]:
    """The values of scopes inside a value: of a function, of branches, of clauses."""
    match node:
        case Function(_, body):
            return [body]
        case If(_, yes, no):
            return [yes.body, no.body]
        case Match(_, clauses):
            return [c.rhs for c in clauses]
    return []


def parts_of(node: Node) -> list[RelaxExpr]:
    """The values that a value is made of, those of scopes inside behind its operands."""
    own = operands(node)
    return own + regions(node) if isinstance(node, _OPEN) else own


def binders(node: Node) -> list[Var]:
    """The variables that a function, a Let, a clause, or a Match with its clauses binds itself."""
    match node:
        case Function(params):
            return list(params)
        case Let(var):
            return [var]
        case Clause(lhs):
            return [p.var for p in postorder(lhs) if isinstance(p, PatternVar)]
        case Match(_, clauses):
            return [v for c in clauses for v in binders(c)]
    return []


def function_of(c: Call) -> Function:
    """A function that is one call: a parameter for each operand that is given."""
    given = {n: Var(f"p{n}", a.type) for n, a in enumerate(c.args) if a is not None}
    args = tuple([given.get(n) for n in range(len(c.args))])
    return Function(tuple(given.values()), c.replace(args=args))


def cut_out(
    inside: Iterable[RelaxExpr],
    result: RelaxExpr,
    inputs: Sequence[RelaxExpr],
    prefix: str,
    attrs: Mapping[str, Any],
) -> Function:
    """The function that a part of a graph becomes.

    inside  its values, operands first, the result among them
    inputs  what they need: the parameters <prefix>0, <prefix>1, ...
    """
    params = tuple([Var(f"{prefix}{n}", i.type) for n, i in enumerate(inputs)])
    done: dict[Node, RelaxExpr] = dict(zip(inputs, params, strict=True))
    for node in inside:
        done.setdefault(node, node.with_children(lambda c: done.get(c, c)))
    return Function(params, done[result], dict(attrs))


def free_vars(root: Node) -> list[Var]:
    """The variables of an expression that nothing in it binds, in order of first use."""
    bound: set[Node] = set()
    found: list[Var] = []
    for node in postorder(root):
        if isinstance(node, Var):
            found.append(node)
        else:
            bound.update(binders(node))
    return [v for v in found if v not in bound]


def needed_vars(root: Node) -> dict[Node, frozenset[Var]]:
    """Of everything in an expression the variables that nothing in it binds."""
    found: dict[Node, frozenset[Var]] = {}
    for node in postorder(root):
        if isinstance(node, Var):
            found[node] = frozenset([node])
            continue
        whole = frozenset().union(*[found[c] for c in node.children()])
        own = binders(node)
        found[node] = whole.difference(own) if own else whole
        if isinstance(node, Let) and not isinstance(node.value, Function):
            found[node] |= found[node.value]  # only functions may name themselves
    return found


@as_function.register
def _(e: RelaxExpr) -> Function:
    return e if isinstance(e, Function) else Function(tuple(free_vars(e)), e)


def made_of(root: Node, given: Iterable[Node]) -> set[Node]:
    """What of an expression is computed from some values, and these."""
    found = set(given)
    for node in postorder(root):
        if not found.isdisjoint(node.children()):
            found.add(node)
    return found


def fixed_values(root: Node, given: Iterable[RelaxExpr] = ()) -> list[RelaxExpr]:
    """What of an expression follows from constants and some given values, operands first."""
    known: set[Node] = set(given)
    found: list[RelaxExpr] = []
    for node in postorder(root):
        closure = isinstance(node, Call) and isinstance(node.op, RelaxExpr)
        if not isinstance(node, _OF_PARTS) or closure:
            continue
        if known.issuperset(operands(node)):
            known.add(node)
            found.append(node)
    return found


# --------------------------------------------------------------------------------------- uses


def uses_of(
    root: Any, parts: Callable[[Any], Iterable[Any]] = methodcaller("children")
) -> Counter[Any]:
    """How often each part of an expression is one of another part; the root counts once more.

    parts  what something is made of directly
    """
    used = [root]
    for node in ordered([root], parts):
        used += parts(node)
    return Counter(used)


def users_of(nodes: Iterable[T], parts: Callable[[T], Iterable[T]]) -> dict[T, list[T]]:
    """What is made of each of some nodes, as often as it is."""
    found: dict[T, list[T]] = {}
    for node in nodes:
        found.setdefault(node, [])
        for part in parts(node):
            found.setdefault(part, []).append(node)
    return found


class Leaders(dict[Any, Any]):
    """Groups that are being merged: of each member the one that it follows, or itself."""

    def find(self, member: Any) -> Any:
        """The member that stands for a group."""
        while self[member] != member:
            self[member] = self[self[member]]
            member = self[member]
        return member


# --------------------------------------------------------------------------------------- scopes


class Scope:
    """Where values may stand: the body of a function, a side of a branch, the value of a clause."""

    def __init__(self, parent: Self | None) -> None:
        """A scope inside another one."""
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1

    def common(self, other: Self) -> Self:
        """The innermost scope around two."""
        a, b = self, other
        while a is not b:
            if a.depth < b.depth:
                a, b = b, a
            assert a.parent is not None
            a = a.parent
        return a


def placed(
    order: Sequence[RelaxExpr],
    root: S,
    uses: Callable[[RelaxExpr, S], Iterable[tuple[RelaxExpr, S]]],
) -> dict[RelaxExpr, S]:
    """The scope that each value stands in: the innermost one around all its uses.

    order  the values, operands first, the last one in the scope `root`
    uses   (a value, its scope) -> what it uses, and in which scope: its own, or one inside
    """
    home = dict.fromkeys(order[-1:], root)
    for node in reversed(order):  # users before operands: each use draws a value outwards
        for part, scope in uses(node, home[node]):
            before = home.get(part)
            home[part] = scope if before is None else before.common(scope)
    return home


# ---------------------------------------------------------------------------------- made anew


def rebuilding(root: Any, done: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """(everything in an expression, the same on new parts), parts before wholes.

    done  the new forms: who asks for the pairs enters them
    """
    for node in postorder(root):
        yield node, node.with_children(lambda c: done.get(c, c))


def on_parts(node: N, done: Mapping[Any, Any]) -> N:
    """A value on the new forms of its parts, those of scopes inside included."""

    def part(c: Any) -> Any:
        holds = isinstance(c, Function | Clause) and c not in done  # the value of a scope inside
        return c.with_children(part) if holds else done.get(c, c)

    return node.with_children(part)


def transform(root: Any, fn: Callable[[Any, Any], RelaxExpr | None]) -> Any:
    """An expression with every value in it replaced, operands first.

    fn  gets (the old value, the same on new operands); None keeps the latter
    """
    done: dict[Node, Any] = {}
    for node, new in rebuilding(root, done):
        if isinstance(new, TupleGetItem) and isinstance(new.value, Tuple):
            new = new.value.items[new.index]
        given = fn(node, new) if isinstance(node, RelaxExpr) else None
        done[node] = new if given is None else given
    return done[root]


def bind(root: Any, bound: Mapping[Var, RelaxExpr]) -> Any:
    """An expression with values in place of variables; a Function loses the parameters bound."""
    done: dict[Any, Any] = dict(bound)
    for node, new in rebuilding(root, done):
        if isinstance(node, Function) and any(p in bound for p in node.params):
            rest = tuple([p for p in node.params if p not in bound])
            new = node.replace(params=rest, body=new.body)
        done.setdefault(node, new)
    return done[root]


# ---------------------------------------------------------------------------- whose functions are

_UNITS = ("Compiler", "Composite", "Primitive", "primitive")
_CLOSED = (*_UNITS, "Codegen", "PartitionedFromPattern")


def is_foreign(f: Function) -> bool:
    """Whether another compiler gets a function."""
    return bool(f.attrs.get("Compiler"))


def is_unit(f: Function) -> bool:
    """Whether a function stays one piece where it is compiled: a kernel, or another compiler's.

    It is not fused with others, put in the place of its calls, lifted out of its caller or named.
    """
    return any(f.attrs.get(name) for name in _UNITS)


def is_closed(f: Function) -> bool:
    """Whether a pass made a function of a part of a graph: patterns do not look inside.

    What is only meant for another compiler, or only taken out by a pattern, is no unit: where
    nothing else becomes of it, it is compiled as the part of its caller that it was.
    """
    return any(f.attrs.get(name) for name in _CLOSED)
