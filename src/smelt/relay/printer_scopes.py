"""Where the text of a Relay program computes its values: the blocks, and what stands in each.

A value that is used at several places stands in the innermost block around all of them: a function,
a branch, or the whole. A value used once by what stands behind it needs no line of its own only
where it is the result of a block or what `let` names. Graphs are shared and may be deep: every walk
here is a loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from smelt.relax import graph
from smelt.relax.nodes import Let, RelaxExpr, Var


class TextBlock(graph.Scope):
    """The lines between two braces: values in order, then the result.

    values  a Let stands for the line that names its value where `Layout.lets` says this block
    """

    def __init__(self, parent: TextBlock | None, result: RelaxExpr) -> None:
        """An empty block inside another one."""
        super().__init__(parent)
        self.result = result
        self.values: list[RelaxExpr] = []


class BlockTree:
    """The blocks of an expression.

    root    the block around everything
    blocks  those inside of a value: of a function its body, of a branch both sides, of a Let that
            is an operand the Let itself
    lets    the block that each Let's line stands in
    number  the n of %n, for values with a line of their own, operands first
    free    the variables that nothing here binds, in order of first use
    """

    def __init__(self, root: RelaxExpr) -> None:
        """Find them."""
        self.blocks: dict[RelaxExpr, list[TextBlock]] = {}
        self.lets: dict[RelaxExpr, TextBlock] = {}
        self.number: dict[RelaxExpr, int] = {}
        self.root = TextBlock(None, root)
        self.variables: dict[Var, None] = {}
        self._uses: Counter[RelaxExpr] = Counter()
        self._inline: set[RelaxExpr] = set()
        self._tail: set[RelaxExpr] = set()
        self._events: list[tuple[RelaxExpr, bool]] = []
        self._bound: set[Var] = set()
        self._walk(root)
        self._enter(self.root)
        order = [n for n, done in self._events if done]
        self._home = graph.placed(order, self.root, self._uses_in)
        self._fill()
        self.free = [v for v in self.variables if v not in self._bound]

    # ------------------------------------------------------------------------ what there is

    def _walk(self, root: RelaxExpr) -> None:
        """Every value once, operands first; a Let's line comes between its value and its body."""
        stack: list[tuple[RelaxExpr, int]] = [(root, 0)]
        seen: set[RelaxExpr] = set()
        used: list[RelaxExpr] = []
        while stack:
            node, state = stack.pop()
            if state:
                self._events.append((node, state == 2))
            elif node not in seen:
                seen.add(node)
                if isinstance(node, Var):
                    self.variables[node] = None
                elif not isinstance(node, graph.LEAVES):
                    stack.append((node, 2))
                    used += self._open(node, stack)
        self._uses.update(used)

    def _open(self, node: RelaxExpr, stack: list[tuple[RelaxExpr, int]]) -> list[RelaxExpr]:
        """Put what a value is made of on the stack, the first on top; it is returned, too."""
        if own := graph.binders(node):
            self.variables.update(dict.fromkeys(own))
            self._bound.update(own)
        inside = graph.parts_of(node)
        if isinstance(node, Let):
            stack += [(node.body, 0), (node, 1), (node.value, 0)]
        else:
            stack += [(c, 0) for c in reversed(inside)]
        return inside

    # ------------------------------------------------------------------------ where it stands

    def _uses_in(self, node: RelaxExpr, home: TextBlock) -> Iterator[tuple[RelaxExpr, TextBlock]]:
        """What a value uses, and in which block."""
        if isinstance(node, Let):
            block = home
            if node not in self._tail:
                block = TextBlock(home, node.body)
                self.blocks[node] = [block]
            self.lets[node] = block
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

    def _fill(self) -> None:
        """Lines in order, and the numbers of values."""
        for node, done in self._events:
            if not done:
                self.lets[node].values.append(node)
            elif node not in self._inline:
                self.number[node] = len(self.number)
                self._home[node].values.append(node)
