"""Where values of a program with branches are computed.

A region is a function's body, a branch, or the value of a clause. A value belongs to the innermost
region that holds all its uses and knows all its variables; where that is a function inside another,
which may be called many times, to the region around it that knows all its variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from smelt.ir.node import Node, ordered, postorder
from smelt.relax import graph
from smelt.relax.graph import LEAVES, needed_vars, parts_of, regions
from smelt.relax.host_ops import is_host_call
from smelt.relax.nodes import Call, Function, GlobalVar, Let, RelaxExpr, TupleGetItem, Var


class FunctionTable:
    """What the functions of a module know: free variables, and functions that call themselves.

    kernels  functions of the module that count as operators
    """

    def __init__(self, kernels: frozenset[str]) -> None:
        """Nothing read yet."""
        self.kernels = kernels
        self.own: dict[Var, Function] = {}
        self.self_of: dict[Function, Var] = {}
        self._needed: dict[Node, list[RelaxExpr]] = {}
        self._free: dict[Node, frozenset[Var]] = {}

    def read(self, f: Function) -> None:
        """Learn the variables of a function."""
        for node in postorder(f):
            if isinstance(node, Let) and isinstance(node.value, Function):
                self.own[node.var] = node.value
                self.self_of[node.value] = node.var
        self._free.update(needed_vars(f))

    def operands(self, node: Node) -> list[RelaxExpr]:
        """The operands of a value; of a name, what it stands for. Regions are not entered."""
        if isinstance(node, Let):
            return [node.body]
        if isinstance(node, Var):
            return [self.own[node]] if node in self.own else []
        return graph.operands(node)

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
            for node in _below(start, self.operands, lambda n: n in inside or known(n)):
                inside[node] = None
                if isinstance(node, Let):
                    lets.add(node.var)

        add(root)
        while True:
            count: dict[Node, int] = {}
            for node in inside:
                often = 2 if isinstance(node, Function) else 1  # the body of a loop, mostly
                for region in regions(node):
                    for n in _below(region, parts_of, lambda n: n in inside or known(n)):
                        count[n] = count.get(n, 0) + often
            shared = {
                n for n, times in count.items()
                if times > 1 and not isinstance(n, LEAVES)
                and all(visible(v) or v in lets for v in self._free[n])
            }  # fmt: skip
            if not shared:
                break
            for n in self._outermost(root, shared):
                add(n)
        self._needed = {n: self.operands(n) + self._used(n, inside, known) for n in inside}
        needed = {n: [m for m in found if m in inside] for n, found in self._needed.items()}
        return list(ordered([root], needed.__getitem__)) if inside else []

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

        for region in regions(node):
            for _ in _below(region, parts_of, stop):
                pass
        return [n for n in found if n is not node]

    def _outermost(self, root: RelaxExpr, shared: set[Node]) -> list[RelaxExpr]:
        """Of some values below a root those that are not below another one of them."""
        tops: list[RelaxExpr] = []
        below: set[Node] = set()
        for node in reversed(list(postorder(root))):
            if isinstance(node, RelaxExpr) and node in shared and node not in below:
                tops.append(node)
                below.update(_below(node, parts_of, below.__contains__))
        return tops

    def needed(self, node: Node) -> list[RelaxExpr]:
        """What has to be computed before a value of the region placed last: its operands, and what
        its regions use."""
        return self._needed[node]


def is_operator(node: Node, scope: FunctionTable) -> bool:
    """Whether a value is computed by an operator, as a part of a compiled segment."""
    if isinstance(node, TupleGetItem):
        return is_operator(node.value, scope)
    if not isinstance(node, Call) or is_host_call(node):
        return False
    if isinstance(node.op, GlobalVar):
        return node.op.name in scope.kernels
    return not isinstance(node.op, RelaxExpr)


def _below(
    start: RelaxExpr,
    parts: Callable[[RelaxExpr], Iterable[RelaxExpr]],
    stop: Callable[[Node], bool],
) -> Iterator[RelaxExpr]:
    """A value and everything below it, up to where it stops."""
    stack, seen = [start], set()
    while stack:
        node = stack.pop()
        if node not in seen and not stop(node):
            seen.add(node)
            yield node
            stack += parts(node)
