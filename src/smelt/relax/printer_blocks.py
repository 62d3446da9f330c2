"""Which values of a graph function stand in which block of its text, and in which order.

A function, a closure and a side of a branch are blocks. A value stands in the innermost block
around all its uses, so that what two sides share is computed before the branch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from smelt.ir.errors import Unsupported
from smelt.ir.node import Node, postorder

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

__all__ = ["Block", "Layout", "operands"]

_LEAVES = (Var, Constant, GlobalVar)
_DEEPEST = 90
"""How deep blocks may be nested: Python's parser takes 100 levels, the module's class included."""


class Block:
    """The statements of a function, a closure or a side of a branch.

    steps   values in order of evaluation; a Let stands where its variable gets its value
    result  the value of the block
    """

    def __init__(self, parent: Block | None, result: RelaxExpr) -> None:
        """No statements yet."""
        self.parent, self.result = parent, result
        self.depth: int = 0 if parent is None else parent.depth + 1
        if self.depth > _DEEPEST:
            raise Unsupported(
                f"a block in {_DEEPEST} others has no text form: Python reads no more"
            )
        self.steps: list[tuple[RelaxExpr, bool]] = []


class Layout:
    """The blocks of one function.

    root       that of its body
    inner      those of a closure, or of the sides of a branch
    uses       how often a value is an operand
    tail       Lets whose body is the rest of their block
    named      of these, those that a nested `def` writes: the value is a function
    constants  in order of use
    """

    def __init__(self, f: Function) -> None:
        """Find the blocks and fill them."""
        self.inner: dict[Node, list[Block]] = {}
        self.constants: list[Constant] = []
        self.tail: set[Let] = set()
        self.named: set[Let] = set()
        self.uses = self._count(f.body)
        self._mark_tail(f.body)
        order = list(self._order(f.body))
        self.root = Block(None, f.body)
        self.block: dict[Node, Block] = {f.body: self.root}
        for node, binding in reversed(order):
            if not binding:
                self._place(node)
        for node, binding in order:
            self.block[node].steps.append((node, binding))
        self._settle(self.root)
        for blocks in self.inner.values():
            for b in blocks:
                self._settle(b)

    def _count(self, root: RelaxExpr) -> Counter[Node]:
        """How often each value is used, functions' results included."""
        uses: Counter[Node] = Counter([root])
        roots, stack, seen = [root], [root], set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, Constant):
                continue
            below = [*operands(node), *_regions(node)]
            roots += _regions(node)
            uses.update(below)
            stack += below
        self._roots = roots
        return uses

    def _mark_tail(self, root: RelaxExpr) -> None:
        for node in self._roots:
            while isinstance(node, Let) and self.uses[node] == 1:
                value = node.value
                if isinstance(value, Function):
                    if self.uses[value] == 1 and node.var.type is value.type:
                        self.named.add(node)
                    elif any(n is node.var for n in postorder(value.body)):
                        break  # the variable has to be declared before the function
                self.tail.add(node)
                node = node.body

    def _order(self, root: RelaxExpr) -> Iterator[tuple[RelaxExpr, bool]]:
        """Values operands first; (Let, True) where the variable has its value, or is declared."""
        seen: set[Node] = set()
        stack: list[tuple[RelaxExpr, int]] = [(root, 0)]
        while stack:
            node, stage = stack.pop()
            if stage:
                yield node, stage == 2
            elif node not in seen:
                seen.add(node)
                if isinstance(node, Constant) and not is_number(node):
                    self.constants.append(node)
                elif isinstance(node, Let):
                    first = [(node, 2), (node.value, 0)]
                    stack += [(node, 1), (node.body, 0)]
                    stack += first if node in self.tail else reversed(first)
                elif not isinstance(node, _LEAVES):
                    stack.append((node, 1))
                    stack += [(c, 0) for c in reversed([*operands(node), *_regions(node)])]

    def _place(self, node: RelaxExpr) -> None:
        """What a value uses stands in its block, or in one around it."""
        block = self.block[node]
        regions = _regions(node)
        if regions:
            self.inner[node] = [Block(block, r) for r in regions]
            for b in self.inner[node]:
                self._use(b.result, b)
        for o in operands(node):
            self._use(o, block)

    def _use(self, node: RelaxExpr, block: Block) -> None:
        if isinstance(node, _LEAVES):
            return
        found: Block | None = self.block.get(node, block)
        while found is not block:
            assert found is not None
            if found.depth > block.depth:
                found = found.parent
            else:
                assert block.parent is not None
                block = block.parent
        self.block[node] = block

    def _settle(self, block: Block) -> None:
        """The result is what stands below the names of the block."""
        while isinstance(block.result, Let) and block.result in self.tail:
            block.result = block.result.body


def operands(node: RelaxExpr) -> list[RelaxExpr]:
    """What a value is computed from, what it calls included; sides of branches are none."""
    match node:
        case Call(op, args):
            given = [a for a in args if a is not None]
            called = isinstance(op, RelaxExpr) and not isinstance(op, GlobalVar)
            return [op, *given] if called else given  # type: ignore[list-item]
        case Tuple(items):
            return list(items)
        case TupleGetItem(value) | MatchCast(value):
            return [value]
        case If(condition):
            return [condition]
        case Let(_, value, body):
            return [value, body]
        case Function() | Var() | Constant() | GlobalVar():
            return []
    raise Unsupported(f"a {type(node).__name__} has no text form; astext() has Relay's")


def is_number(node: RelaxExpr) -> bool:
    """Whether a value is printed as R.const(...): a number that bears no name."""
    return isinstance(node, Constant) and not node.name and node.data.ndim == 0


def _regions(node: RelaxExpr) -> list[RelaxExpr]:
    """The results of the blocks that belong to a value."""
    match node:
        case Function(body=body):
            return [body]
        case If(_, yes, no):
            return [yes.body, no.body]
    return []
