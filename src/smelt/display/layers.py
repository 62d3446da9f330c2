"""Boxes in layers: who stands below whom, in which order, and how far to the side.

A box stands in a layer below all that it reads. A wire is all that one box gives to others; where
it passes a layer it has a place of its own there, so that no line runs through a box. Heights are
not known here: they change as boxes are opened.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_GAP = 28.0  # between boxes side by side
_PASSAGE = 14.0  # what a wire takes where it passes a layer
_SWEEPS = 6
_STRAIGHT = 8.0  # how much more a straight run is wanted than a short way round


@dataclass(slots=True)
class Wire:
    """What goes from one box to others; boxes are numbers.

    source   None: it comes from outside
    targets  whom it goes to
    leaves   whether it goes outside too
    """

    key: Hashable
    source: int | None
    targets: tuple[int, ...] = ()
    leaves: bool = False


@dataclass(slots=True)
class Layers:
    """Where everything stands. Sides are centres, 0 in the middle of the whole.

    layer     per box, from 0
    side      per box
    passages  per wire: the first layer that it passes, and its side in that and those below
    """

    layer: list[int]
    side: list[float]
    passages: dict[Hashable, tuple[int, list[float]]] = field(default_factory=dict)
    width: float = 0.0


@dataclass(eq=False, slots=True)
class _Spot:
    """A box, or a wire's passage, in its layer."""

    width: float
    side: float = 0.0
    above: list[tuple[_Spot, float]] = field(default_factory=list)
    below: list[tuple[_Spot, float]] = field(default_factory=list)


def layered(widths: Sequence[float], wires: Sequence[Wire]) -> Layers:
    """The layers of boxes, given in an order in which all that a box reads stands before it."""
    layer = _depths(len(widths), wires)
    depth = max(layer, default=-1) + 1
    boxes = [_Spot(w) for w in widths]
    rows: list[list[_Spot]] = [[] for _ in range(depth)]
    for box, n in zip(boxes, layer, strict=True):
        rows[n].append(box)
    passing: dict[Hashable, tuple[int, list[_Spot]]] = {}
    for wire in wires:
        first = 0 if wire.source is None else layer[wire.source] + 1
        last = depth if wire.leaves else max([layer[t] for t in wire.targets], default=first)
        spots = [_Spot(_PASSAGE) for _ in range(first, last)]
        for n, spot in enumerate(spots, first):
            rows[n].append(spot)
        passing[wire.key] = (first, spots)
        _tie(spots, _STRAIGHT)
        source = [] if wire.source is None else [boxes[wire.source]]
        _tie([*source, *spots[:1]], 1.0)
        for t in wire.targets:
            if layer[t] > first:
                _tie([spots[layer[t] - first - 1], boxes[t]], 1.0)
            else:
                _tie([*source, boxes[t]], _STRAIGHT)
    _arrange(rows)
    edges = [s.side + sign * s.width / 2 for row in rows for s in row for sign in (-1, 1)]
    low, high = min(edges, default=0.0), max(edges, default=0.0)
    middle = (low + high) / 2
    passages = {
        key: (first, [round(s.side - middle, 1) for s in spots])
        for key, (first, spots) in passing.items()
        if spots
    }
    return Layers(layer, [round(b.side - middle, 1) for b in boxes], passages, high - low)


def _depths(count: int, wires: Iterable[Wire]) -> list[int]:
    """The layer of every box: as high as possible, but what reads nothing just above its reader."""
    read: list[list[int]] = [[] for _ in range(count)]
    users: list[list[int]] = [[] for _ in range(count)]
    for wire in wires:
        for t in wire.targets:
            if wire.source is not None:
                read[t].append(wire.source)
                users[wire.source].append(t)
    layer = [0] * count
    for n in range(count):
        layer[n] = max([layer[s] + 1 for s in read[n]], default=0)
    for n in range(count):
        if users[n] and not read[n]:
            layer[n] = min([layer[u] for u in users[n]]) - 1
    return layer


def _tie(chain: Sequence[_Spot], weight: float) -> None:
    for a, b in pairwise(chain):
        a.below.append((b, weight))
        b.above.append((a, weight))


def _arrange(rows: Sequence[list[_Spot]]) -> None:
    """Order every row by what its spots are tied to, then give each its side."""
    for row in rows:
        _spread(row, [0.0] * len(row), [1.0] * len(row))
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            wished = [_wish(s.above if down else s.below, s.side) for s in row]
            order = sorted(range(len(row)), key=wished.__getitem__)
            row[:] = [row[n] for n in order]
            _settle(row, down)
    for down in (True, False, True):
        for row in rows if down else reversed(rows):
            _settle(row, down=None)


def _settle(row: list[_Spot], down: bool | None) -> None:
    """Move a row's spots to where they want to be, in their order; down None: by all ties."""
    ties = [s.above + s.below if down is None else s.above if down else s.below for s in row]
    wished = [_wish(t, s.side) for t, s in zip(ties, row, strict=True)]
    _spread(row, wished, [sum([w for _, w in t]) or 0.1 for t in ties])


def _wish(ties: Sequence[tuple[_Spot, float]], otherwise: float) -> float:
    total = sum([w for _, w in ties])
    return sum([s.side * w for s, w in ties]) / total if total else otherwise


def _spread(row: Sequence[_Spot], wished: Sequence[float], weights: Sequence[float]) -> None:
    """Sides as near to the wished ones as spots that must not overlap can have (least squares).

    Less the room that those before take, sides have only to grow: neighbours that do not are
    pooled at their mean, until all do.
    """
    offsets, at = [], 0.0
    for n, s in enumerate(row):
        at += 0.0 if n == 0 else (row[n - 1].width + s.width) / 2 + _GAP
        offsets.append(at)
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for wish, offset, weight in zip(wished, offsets, weights, strict=True):
        mean, heavy, members = wish - offset, weight, 1
        while pools and pools[-1][0] >= mean:
            m, w, k = pools.pop()
            mean, heavy = (mean * heavy + m * w) / (heavy + w), heavy + w
            members += k
        pools.append((mean, heavy, members))
    sides = [mean for mean, _, members in pools for _ in range(members)]
    for s, side, offset in zip(row, sides, offsets, strict=True):
        s.side = side + offset
