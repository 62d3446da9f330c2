"""Where values of a program with branches are computed.

A region is a function's body, a branch, or the value of a clause. A value belongs to the innermost
region that holds all its uses and knows all its variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from smelt.ir.node import Node, postorder
from smelt.relax.adt import Clause, Constructor, Match, PatternVar
from smelt.relax.host_ops import is_host_call
from smelt.relax.nodes import (
    Call,
    Constant,
    Function,
    GlobalVar,
    If,
    Let,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
)

__all__ = ["Scope", "is_operator", "operands", "regions_of"]

LEAVES = (Var, Constant, GlobalVar, Constructor)
"""Values that need no computation."""


class Scope:
    """What the functions of a module know: free variables, and functions that call themselves.

    kernels  functions of the module that count as operators
    """

    def __init__(self, kernels: frozenset[str]) -> None:
        """Nothing read yet."""
        self.kernels = kernels
        self.own: dict[Var, Function] = {}
        self.self_of: dict[Function, Var] = {}
        self.branches: set[Node] = set()
        self._needed: dict[Node, list[RelaxExpr]] = {}
        self._free: dict[Node, frozenset[Var]] = {}
        self._reach: dict[Node, dict[Node, None]] = {}

    def read(self, f: Function) -> None:
        """Learn the variables of a function."""
        for node in postorder(f):
            if isinstance(node, If):
                self.branches.update((node.then_branch, node.else_branch))
            if isinstance(node, Let) and isinstance(node.value, Function):
                self.own[node.var] = node.value
                self.self_of[node.value] = node.var
        for node in postorder(f):
            self._free[node] = self._free_of(node)

    def _free_of(self, node: Node) -> frozenset[Var]:
        if isinstance(node, Var):
            return frozenset({node})
        found = [self._free[c] for c in node.children() if c in self._free]
        whole = frozenset().union(*found) if found else _NOTHING
        match node:
            case Function(params):
                return whole.difference(params)
            case Let(var):
                return whole - {var}
            case Clause(lhs):
                return whole.difference(
                    [p.var for p in postorder(lhs) if isinstance(p, PatternVar)]
                )
        return whole

    def free(self, node: Node) -> frozenset[Var]:
        """The variables of a value that nothing in it binds."""
        return self._free[node]

    def reach(self, root: RelaxExpr) -> dict[Node, None]:
        """Everything below the root of a region, its inner regions included."""
        if root not in self._reach:
            self._reach[root] = dict.fromkeys(
                [n for n in postorder(root) if isinstance(n, RelaxExpr)]
            )
        return self._reach[root]

    def place(
        self, root: RelaxExpr, known: Callable[[Node], bool], visible: Callable[[Var], bool]
    ) -> list[RelaxExpr]:
        """The values that the region of `root` computes itself, operands first.

        known    whether a value is computed already, around the region
        visible  whether a variable may be used here
        """
        inside: dict[Node, None] = {}
        lets: set[Var] = set()

        def add(start: RelaxExpr) -> None:
            for node in _below(start, lambda n: n in inside or known(n), self):
                inside[node] = None
                if isinstance(node, Let):
                    lets.add(node.var)

        add(root)
        while True:
            count: dict[Node, int] = {}
            for node in inside:
                for region in regions_of(node):
                    for n in self._whole(region, lambda n: n in inside or known(n)):
                        count[n] = count.get(n, 0) + 1
            shared = {
                n for n, times in count.items()
                if times > 1 and n not in self.branches and not isinstance(n, LEAVES)
                and all(visible(v) or v in lets for v in self.free(n))
            }  # fmt: skip
            if not shared:
                break
            for n in self._outermost(root, shared):
                add(n)
        self._needed = {n: operands(n, self) + self._used(n, inside, known) for n in inside}
        return _sorted(root, inside, self)

    def _used(
        self, node: Node, inside: Mapping[Node, None], known: Callable[[Node], bool]
    ) -> list[RelaxExpr]:
        """What the regions of a value use of the region around."""
        found: dict[RelaxExpr, None] = {}

        def stop(n: Node) -> bool:
            if n in inside and isinstance(n, RelaxExpr):
                found[n] = None
                return True
            return known(n)

        for region in regions_of(node):
            for _ in self._whole(region, stop):
                pass
        return [n for n in found if n is not node]

    def _whole(self, root: RelaxExpr, stop: Callable[[Node], bool]) -> Iterator[RelaxExpr]:
        """Everything below a root, inner regions included, up to where it stops."""
        stack, seen = [root], set()
        while stack:
            node = stack.pop()
            if node not in seen and not stop(node):
                seen.add(node)
                yield node
                stack += [c for c in node.children() if isinstance(c, RelaxExpr)]
                stack += [c.rhs for c in node.clauses] if isinstance(node, Match) else []

    def _outermost(self, root: RelaxExpr, shared: set[Node]) -> list[RelaxExpr]:
        """Of some values below a root those that are not below another one of them."""
        tops: list[RelaxExpr] = []
        below: set[Node] = set()
        for node in reversed(self.reach(root)):
            if node in shared and node not in below:
                assert isinstance(node, RelaxExpr)
                tops.append(node)
                below.update(self._whole(node, below.__contains__))
        return tops

    def needed(self, node: Node) -> list[RelaxExpr]:
        """What has to be computed before a value of the region placed last: its operands, and what
        its regions use."""
        return self._needed[node]


_NOTHING: frozenset[Var] = frozenset()


def operands(node: Node, scope: Scope) -> list[RelaxExpr]:
    """The operands of a value; its regions are not entered."""
    match node:
        case Call(op, args):
            given = [a for a in args if a is not None]
            called = isinstance(op, RelaxExpr) and not isinstance(op, GlobalVar | Constructor)
            return [op, *given] if called else given  # type: ignore[list-item]
        case Tuple(items):
            return list(items)
        case TupleGetItem(value):
            return [value]
        case If(condition):
            return [condition]
        case Match(data):
            return [data]
        case Let(body=body):
            return [body]
        case Var() if node in scope.own:
            return [scope.own[node]]
    return []


def regions_of(node: Node) -> list[RelaxExpr]:
    """The roots of the regions of a value."""
    match node:
        case If(_, yes, no):
            return [yes.body, no.body]
        case Match(_, clauses):
            return [c.rhs for c in clauses]
        case Function(body=body):
            return [body]
    return []


def is_operator(node: Node, scope: Scope) -> bool:
    """Whether a value is computed by an operator, as a part of a compiled segment."""
    if isinstance(node, TupleGetItem):
        return is_operator(node.value, scope)
    if not isinstance(node, Call) or is_host_call(node):
        return False
    if isinstance(node.op, GlobalVar):
        return node.op.name in scope.kernels
    return not isinstance(node.op, RelaxExpr)


def _below(start: RelaxExpr, stop: Callable[[Node], bool], scope: Scope) -> Iterator[RelaxExpr]:
    stack, seen = [start], set()
    while stack:
        node = stack.pop()
        if node not in seen and not stop(node):
            seen.add(node)
            yield node
            stack += operands(node, scope)


def _sorted(root: RelaxExpr, inside: Mapping[Node, None], scope: Scope) -> list[RelaxExpr]:
    """The values of a region in an order in which they can be computed."""
    done: dict[RelaxExpr, None] = {}
    begun: set[Node] = set()
    stack: list[tuple[RelaxExpr, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            done[node] = None
        elif node not in begun and node in inside:
            begun.add(node)
            stack.append((node, True))
            stack += [(n, False) for n in reversed(scope.needed(node))]
    return list(done)
