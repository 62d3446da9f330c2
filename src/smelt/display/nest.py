"""The loop nest as boxes in boxes: one for each loop, block and branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from smelt.ir.node import Node
from smelt.tir.analysis import Level
from smelt.tir.nodes import BlockRealize, For, IterVar, While
from smelt.tir.printer import Line

from .amounts import Amounts
from .element import Html, element
from .source import highlighted

_CLAUSES = {"T.reads(": "reads", "T.writes(": "writes", "T.where(": "where"}


@dataclass(slots=True)
class Item:
    """A line and the lines that stand inside it. The lines first ... last are its text."""

    line: Line
    first: int
    last: int
    inside: list[Item] = field(default_factory=list)


def nest(
    lines: Sequence[Line], levels: Mapping[Node, Level], amounts: Amounts, prefix: str
) -> tuple[Html, dict[int, str]]:
    """Draw what stands in the body of a function, given the lines of its text.

    Gives the boxes, and for every line the name of the innermost box that holds it.
    """
    drawn = _Drawing(levels, amounts, prefix)
    content = [drawn.item(i) for head in _items(lines) for i in head.inside]
    return element("div", content, class_="nest"), drawn.boxes


def _items(lines: Sequence[Line]) -> list[Item]:
    """The lines as a tree, by their indentation."""
    top: list[Item] = []
    stack: list[Item] = []
    for n, line in enumerate(lines):
        if line.note:
            continue
        while stack and stack[-1].line.depth >= line.depth:
            stack.pop()
        item = Item(line, n, n)
        (stack[-1].inside if stack else top).append(item)
        for around in stack:
            around.last = n
        stack.append(item)
    return top


class _Drawing:
    """Draws one function's boxes."""

    def __init__(self, levels: Mapping[Node, Level], amounts: Amounts, prefix: str) -> None:
        self.levels, self.amounts, self.prefix = levels, amounts, prefix
        self.boxes: dict[int, str] = {}
        self.count = 0

    def item(self, i: Item) -> Html:
        """A box, or a line of code where nothing stands inside."""
        if not i.inside:
            return element("code", highlighted(i.line.text), class_="stmt")
        self.count += 1
        name = f"{self.prefix}-b{self.count}"
        for n in range(i.first, i.last + 1):
            self.boxes[n] = name
        kind, head = self.head(i)
        return element(
            "details",
            element("summary", head),
            self.inside(i),
            class_=f"box {kind}",
            id=name,
            data_first=i.first + 1,
            data_last=i.last + 1,
            open=True,
        )

    def head(self, i: Item) -> tuple[str, list[Html]]:
        """The kind of a box, for its colour, and what stands on its edge."""
        node, text = i.line.node, i.line.text.rstrip(":")
        level = self.levels.get(node) if node is not None else None
        if isinstance(node, For) and level is not None:
            kind = node.kind.split("_")[0]
            label = node.thread if node.thread is not None else node.kind
            return f"loop {kind}", [
                _chip(label, "kind"),
                element("b", level.name),
                _chip(f"× {self.amounts.count(level.extent)}", "extent"),
                *self.trips(level),
                self.amounts.fit(level),
            ]
        if isinstance(node, While) and level is not None:
            return "branch", [_chip("while", "kind"), _code(text), self.amounts.fit(level)]
        if isinstance(node, BlockRealize):
            return "block", [_chip("block", "kind"), element("b", node.block.name)]
        if text == "with T.init()":
            return "init", [_chip("init", "kind"), element("span", "where the reduction begins")]
        first, _, rest = text.partition(" ")
        return "branch", [_chip(first, "kind"), *([_code(rest)] if rest else [])]

    def trips(self, level: Level) -> Iterator[Html]:
        """How often the body runs in all, where that is more than the extent says."""
        total = self.amounts.count(level.trips, level.exact_trips)
        if total != self.amounts.count(level.extent):
            yield _chip(f"{total} in all", "trips")

    def inside(self, i: Item) -> Iterator[Html]:
        """What stands in a box: clauses of blocks as rows of their own."""
        for x in i.inside:
            row = _clause(x.line)
            yield self.item(x) if row is None or x.inside else row


def _clause(line: Line) -> Html | None:
    """A block's iteration variable, region or predicate."""
    if isinstance(line.node, IterVar):
        return _row(line.node.kind, line.text)
    for start, label in _CLAUSES.items():
        if line.text.startswith(start):
            return _row(label, line.text[len(start) : -1])
    return None


def _row(label: str, text: str) -> Html:
    return element("div", element("span", label, class_="label"), _code(text), class_="clause")


def _chip(text: str, kind: str) -> Html:
    return element("span", text, class_=kind)


def _code(text: str) -> Html:
    return element("code", highlighted(text))
