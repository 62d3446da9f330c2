"""Which values of a graph function stand in which block of its text, and in which order.

A function, a closure and a side of a branch are blocks. A value stands in the innermost block
around all its uses, so that what two sides share is computed before the branch.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from smelt.ir.errors import Unsupported
from smelt.ir.node import Node, postorder

from .adt import Constructor, Match
from .graph import LEAVES, Scope, operands, parts_of, placed, regions, uses_of
from .nodes import Call, Constant, Function, Let, RelaxExpr
from .updates import STARTS, earlier_readers

_DEEPEST = 90
"""How deep blocks may be nested: Python's parser takes 100 levels, the module's class included."""

MET, LINE, DONE = range(3)
"""Of a value: first seen; of a Let: where its line stands; all that a value is made of is done."""


def walked(
    root: RelaxExpr, tail: Container[RelaxExpr] | None = None
) -> Iterator[tuple[RelaxExpr, int]]:
    """The values of an expression and their stages, operands first.

    tail  Lets whose line stands behind their value, otherwise in front of it; None: all
    """
    seen: set[RelaxExpr] = set()
    earlier = earlier_readers(root)
    stack: list[tuple[RelaxExpr, int]] = [(root, MET)]
    while stack:
        node, stage = stack.pop()
        if stage == MET:
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, Let):
                first = [(node, LINE), (node.value, MET)]
                stack += [(node, DONE), (node.body, MET)]
                stack += first if tail is None or node in tail else reversed(first)
            elif not isinstance(node, LEAVES):
                stack.append((node, DONE))
                stack += [(c, MET) for c in reversed(parts_of(node))]
                stack += [(c, MET) for c in reversed(earlier.get(node, ()))]
        yield node, stage


class TextBlock(Scope):
    """The statements of a function, a closure or a side of a branch.

    steps   values in order of evaluation; (Let, True) where its variable gets its value
    result  the value of the block
    """

    def __init__(self, parent: TextBlock | None, result: RelaxExpr) -> None:
        """No statements yet."""
        super().__init__(parent)
        self.result = result
        self.steps: list[tuple[RelaxExpr, bool]] = []


class BlockTree:
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
        self.inner: dict[Node, list[TextBlock]] = {}
        self.tail: set[Let] = set()
        self.named: set[Let] = set()
        self.uses = uses_of(f.body, parts_of)
        for node in self.uses:
            told = node.op if isinstance(node, Call) else node
            if isinstance(told, Match | Constructor):
                raise Unsupported(f"a {type(told).__name__} has no text form; astext() has Relay's")
        self._mark_tail([f.body, *[r for n in self.uses for r in regions(n)]])
        order = list(walked(f.body, self.tail))
        met = [n for n, stage in order if stage == MET]
        self.constants = [n for n in met if isinstance(n, Constant) and not is_number(n)]
        self.constants += [c for _, c in f.attrs.get(STARTS, ()) if c not in self.constants]
        self.root = TextBlock(None, f.body)
        block = placed([n for n, stage in order if stage == DONE], self.root, self._uses)
        for node, stage in order:
            if stage != MET:
                block[node].steps.append((node, stage == LINE))
        for b in [self.root, *[b for blocks in self.inner.values() for b in blocks]]:
            while isinstance(b.result, Let) and b.result in self.tail:  # what stands below names
                b.result = b.result.body

    def _mark_tail(self, roots: Sequence[RelaxExpr]) -> None:
        for node in roots:
            while isinstance(node, Let) and self.uses[node] == 1:
                value = node.value
                if isinstance(value, Function):
                    if self.uses[value] == 1 and node.var.type is value.type:
                        self.named.add(node)
                    elif any(n is node.var for n in postorder(value.body)):
                        break  # the variable has to be declared before the function
                self.tail.add(node)
                node = node.body

    def _uses(self, node: RelaxExpr, block: TextBlock) -> Iterator[tuple[RelaxExpr, TextBlock]]:
        """What a value uses stands in its block; the results of blocks inside, in these."""
        if inside := regions(node):
            if block.depth >= _DEEPEST:
                raise Unsupported(
                    f"a block in {_DEEPEST} others has no text form: Python reads no more"
                )
            self.inner[node] = [TextBlock(block, r) for r in inside]
            yield from [(b.result, b) for b in self.inner[node]]
        yield from [(o, block) for o in operands(node)]


def is_number(node: RelaxExpr) -> bool:
    """Whether a value is printed as R.const(...): a number that bears no name."""
    return isinstance(node, Constant) and not node.name and node.data.ndim == 0
