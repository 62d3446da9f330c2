"""Where the text of a Relay program computes its values: the blocks, and what stands in each.

A value that is used at several places stands in the innermost block around all of them: a function,
a branch, or the whole. A value used once by what stands behind it needs no line of its own only
where it is the result of a block or what `let` names. Graphs are shared and may be deep: every walk
here is a loop.
"""

from __future__ import annotations

from collections import Counter

from smelt.ir.node import postorder
from smelt.relax.adt import Constructor, Match, PatternVar, bodies, operands
from smelt.relax.nodes import Constant, Function, GlobalVar, Let, RelaxExpr, Var

__all__ = ["Block", "Layout", "is_word"]


def is_word(node: object) -> bool:
    """Whether a value is written where it is used: names and constants."""
    return isinstance(node, Var | Constant | GlobalVar | Constructor)


class Block:
    """The lines between two braces: values in order, then the result.

    values  a Let stands for the line that names its value where `Layout.lets` says this block
    """

    __slots__ = ("depth", "outer", "result", "values")

    def __init__(self, outer: Block | None, result: RelaxExpr) -> None:
        """An empty block inside another one."""
        self.outer, self.result = outer, result
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.values: list[RelaxExpr] = []


def _common(a: Block, b: Block) -> Block:
    """The innermost block around two."""
    while a is not b:
        if a.depth >= b.depth:
            assert a.outer is not None
            a = a.outer
        else:
            assert b.outer is not None
            b = b.outer
    return a


class Layout:
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
        self.blocks: dict[RelaxExpr, list[Block]] = {}
        self.lets: dict[RelaxExpr, Block] = {}
        self.number: dict[RelaxExpr, int] = {}
        self.root = Block(None, root)
        self.variables: dict[Var, None] = {}
        self._home: dict[RelaxExpr, Block] = {}
        self._uses: Counter[RelaxExpr] = Counter()
        self._inline: set[RelaxExpr] = set()
        self._tail: set[RelaxExpr] = set()
        self._events: list[tuple[RelaxExpr, bool]] = []
        self._bound: set[Var] = set()
        self._walk(root)
        self._place()
        self._fill()
        self.free = [v for v in self.variables if v not in self._bound]

    # ------------------------------------------------------------------------ what there is

    def _walk(self, root: RelaxExpr) -> None:
        """Every value once, operands first; a Let's line comes between its value and its body."""
        stack: list[tuple[RelaxExpr, int]] = [(root, 0)]
        seen: set[RelaxExpr] = set()
        while stack:
            node, state = stack.pop()
            if state:
                self._events.append((node, state == 2))
            elif node not in seen:
                seen.add(node)
                if isinstance(node, Var):
                    self.variables[node] = None
                elif not is_word(node):
                    stack.append((node, 2))
                    self._open(node, stack)

    def _open(self, node: RelaxExpr, stack: list[tuple[RelaxExpr, int]]) -> None:
        """Put what a value is made of on the stack, the first on top."""
        if isinstance(node, Let):
            self._bind(node.var)
            self._uses.update((node.value, node.body))
            stack += [(node.body, 0), (node, 1), (node.value, 0)]
            return
        if isinstance(node, Function):
            for p in node.params:
                self._bind(p)
        if isinstance(node, Match):
            for pattern in [p for c in node.clauses for p in postorder(c.lhs)]:
                if isinstance(pattern, PatternVar):
                    self._bind(pattern.var)
        inside = [*operands(node), *bodies(node)]
        self._uses.update(inside)
        stack += [(c, 0) for c in reversed(inside)]

    def _bind(self, v: Var) -> None:
        self.variables[v] = None
        self._bound.add(v)

    # ------------------------------------------------------------------------ where it stands

    def _place(self) -> None:
        """Users before operands: each use draws a value into a block around it."""
        self._enter(self.root)
        for node, done in reversed(self._events):
            if not done:
                continue
            home = self._home[node]
            if isinstance(node, Let):
                block = home
                if node not in self._tail:
                    block = Block(home, node.body)
                    self.blocks[node] = [block]
                self.lets[node] = block
                self._use(node.value, block)
                if self._uses[node.value] == 1:
                    self._inline.add(node.value)
                block.result = node.body
                self._enter(block)
                continue
            for c in operands(node):
                self._use(c, home)
            if bodies(node):
                self.blocks[node] = [Block(home, b) for b in bodies(node)]
                for block in self.blocks[node]:
                    self._enter(block)

    def _enter(self, block: Block) -> None:
        """A block's result; a Let there continues the block."""
        result = block.result
        self._use(result, block)
        if self._uses[result] <= 1:
            self._inline.add(result)
            if isinstance(result, Let):
                self._tail.add(result)

    def _use(self, node: RelaxExpr, block: Block) -> None:
        known = self._home.get(node)
        self._home[node] = block if known is None else _common(known, block)

    def _fill(self) -> None:
        """Lines in order, and the numbers of values."""
        for node, done in self._events:
            if not done:
                self.lets[node].values.append(node)
            elif node not in self._inline:
                self.number[node] = len(self.number)
                self._home[node].values.append(node)
