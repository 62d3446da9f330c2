"""Where the text of a Relay program computes its values: the blocks, and what stands in each.

A value that is used at several places stands in the innermost block around all of them: a function,
a branch, or the whole. A value used once by what stands behind it needs no line of its own only
where it is the result of a block or what `let` names. Graphs are shared and may be deep: every walk
here is a loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from smelt.relax import graph
from smelt.relax.nodes import Let, RelaxExpr, Var
from smelt.relax.printer_blocks import DONE, LINE, MET, TextBlock, walked


class BlockTree:
    """The blocks of an expression.

    root    the block around everything
    blocks  those inside of a value: of a function its body, of a branch both sides, of a Let that
            is an operand the Let itself
    number  the n of %n, for values with a line of their own, operands first
    free    the variables that nothing here binds, in order of first use
    """

    def __init__(self, root: RelaxExpr) -> None:
        """Find them."""
        self.blocks: dict[RelaxExpr, list[TextBlock]] = {}
        self._lets: dict[RelaxExpr, TextBlock] = {}
        self.number: dict[RelaxExpr, int] = {}
        self.root = TextBlock(None, root)
        self.variables: dict[Var, None] = {}
        self._uses = graph.uses_of(root, graph.parts_of)
        self._inline: set[RelaxExpr] = set()
        self._tail: set[RelaxExpr] = set()
        order = list(walked(root))
        bound: set[Var] = set()
        for node, stage in order:
            if stage == MET:
                own = graph.binders(node)
                bound.update(own)
                self.variables.update(dict.fromkeys([node] if isinstance(node, Var) else own))
        self._enter(self.root)
        done = [n for n, stage in order if stage == DONE]
        home = graph.placed(done, self.root, self._uses_in)
        for node, stage in order:
            if stage == LINE:
                self._lets[node].steps.append((node, True))
            elif stage == DONE and node not in self._inline:
                self.number[node] = len(self.number)
                home[node].steps.append((node, False))
        self.free = [v for v in self.variables if v not in bound]

    def _uses_in(self, node: RelaxExpr, home: TextBlock) -> Iterator[tuple[RelaxExpr, TextBlock]]:
        """What a value uses, and in which block."""
        if isinstance(node, Let):
            block = home
            if node not in self._tail:
                block = TextBlock(home, node.body)
                self.blocks[node] = [block]
            self._lets[node] = block
            if self._uses[node.value] == 1:
                self._inline.add(node.value)
            block.result = node.body
            yield node.value, block
            yield self._enter(block)
            return
        yield from [(c, home) for c in graph.operands(node)]
        if inside := graph.regions(node):
            self.blocks[node] = [TextBlock(home, b) for b in inside]
            yield from map(self._enter, self.blocks[node])

    def _enter(self, block: TextBlock) -> tuple[RelaxExpr, TextBlock]:
        """A block's result; a Let there continues the block."""
        result = block.result
        if self._uses[result] <= 1:
            self._inline.add(result)
            if isinstance(result, Let):
                self._tail.add(result)
        return result, block
