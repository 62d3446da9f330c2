"""A network laid out: every box with its place, for the page's script to draw and to fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .layers import Layers, Wire, layered
from .network import Box, Link, Network

_WIDTHS = {"kernel": 230, "block": 230, "operator": 200}
_WIDTH = 160
_PADDING = 14


Figures = Callable[[Sequence[int]], tuple[list[str], float]]


def diagram(network: Network, figures: Figures) -> dict[str, Any]:
    """What the script needs.

    figures  of some kernels: lines for their box, and how warm its colour is, 0 to 1

    boxes: parents before what is in them; "x" is the box's centre from that of its parent, "w" the
    closed box's width and "room" the opened one's. "passages" say where values (named by the box
    that they come from) pass the layers of an opened box, from a first layer on. links: source,
    target and the number of a type.
    """
    made = _Diagram(network, figures)
    width, passages = made.contents(network.boxes)
    types: dict[str, int] = {}
    links = [
        [made.number[x.source], made.number[x.target], types.setdefault(x.type, len(types))]
        for x in network.links
    ]
    return {
        "boxes": made.shown,
        "links": links,
        "types": list(types),
        "width": width,
        "passages": passages,
    }


class _Diagram:
    """Numbers boxes, and lays out every one that has something inside."""

    def __init__(self, network: Network, figures: Figures) -> None:
        self.figures = figures
        self.number: dict[Box, int] = {}
        self.parent: dict[Box, Box | None] = {}
        self.order: dict[Box, int] = {}  # among those in the same box
        self.shown: list[dict[str, Any]] = []
        self._enter(network.boxes, None)
        self.wires = self._wires(network.links)

    def _enter(self, boxes: Sequence[Box], parent: Box | None) -> None:
        for n, box in enumerate(boxes):
            self.number[box], self.parent[box], self.order[box] = len(self.number), parent, n
            self.shown.append(self._described(box, parent))
            self._enter(box.inside, box)

    def _described(self, box: Box, parent: Box | None) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "kind": box.kind,
            "label": box.label,
            "nodes": box.nodes,
            "parent": None if parent is None else self.number[parent],
            "w": _WIDTHS.get(box.kind, _WIDTH),
        }
        if box.weights:
            shown["weights"] = box.weights
        if box.launch is not None:
            shown["kernel"] = box.launch
        if box.kind in ("kernel", "block"):
            launches = [b.launch for b in (box, *box.inside) if b.launch is not None]
            shown["figures"], shown["heat"] = self.figures(launches)
        return shown

    def _around(self, box: Box) -> list[tuple[Box | None, Box]]:
        """What a box stands in, from the inside out, and in each what it is part of."""
        found: list[tuple[Box | None, Box]] = []
        at: Box | None = box
        while at is not None:
            found.append((self.parent[at], at))
            at = self.parent[at]
        return found

    def _wires(self, links: Sequence[Link]) -> dict[Box | None, dict[Box, Wire]]:
        """Per opened box and source: the part of it that gives, those that take, whether it leaves.

        A value that comes from outside has no part that gives.
        """
        wires: dict[Box | None, dict[Box, Wire]] = {}
        for link in links:
            gives, takes = dict(self._around(link.source)), dict(self._around(link.target))
            for place in {**gives, **takes}:
                giver, taker = gives.get(place), takes.get(place)
                if giver is taker:
                    continue
                source = None if giver is None else self.order[giver]
                wire = Wire(self.number[link.source], source)
                wire = wires.setdefault(place, {}).setdefault(link.source, wire)
                if taker is None:
                    wire.leaves = True
                elif self.order[taker] not in wire.targets:
                    wire.targets += (self.order[taker],)
        return wires

    def contents(self, boxes: Sequence[Box], place: Box | None = None) -> tuple[float, Any]:
        """Lay out what stands in a box, or at the top: how wide that is, and its passages."""
        rooms = []
        for box in boxes:
            shown = self.shown[self.number[box]]
            shown["room"] = shown["w"]
            if box.inside:
                width, shown["passages"] = self.contents(box.inside, box)
                shown["room"] = max(shown["w"], round(width) + 2 * _PADDING)
            rooms.append(shown["room"])
        found: Layers = layered(rooms, [*self.wires.get(place, {}).values()])
        for box, layer, side in zip(boxes, found.layer, found.side, strict=True):
            self.shown[self.number[box]] |= {"layer": layer, "x": side}
        return found.width, found.passages
