"""Where blocks of memory stand that are alive at different times: the classic algorithms, and the
best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smelt.ir.config import MEMORY_ALGORITHMS

BY_SIZE, BY_CONFLICTS, SCAN, CLIMB, BEST = MEMORY_ALGORITHMS
"""The last one is the best of all others; no more of them are tried once it is the least that there
can be."""
_SWAPS = 400
"""What a climb tries."""


@dataclass(frozen=True)
class Lifetime:
    """A block: bytes, and the first and the last step in which it is alive."""

    size: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether both are alive in some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Placed:
    """Where each block begins, in bytes; the bytes of all, and how many are alive at most at one
    time, which no plan undercuts."""

    offsets: tuple[int, ...]
    total: int
    live: int

    @property
    def is_least(self) -> bool:
        """Whether it is proved that no plan takes less."""
        return self.total == self.live


def place(blocks: Sequence[Lifetime], algorithm: str = BEST) -> Placed:
    """Place blocks by one of MEMORY_ALGORITHMS."""
    if algorithm != BEST:
        order = _climbed(blocks) if algorithm == CLIMB else _order(blocks, algorithm)
        return _placed(blocks, order)
    found = _placed(blocks, _order(blocks, BY_SIZE))
    for other in (BY_CONFLICTS, SCAN, CLIMB):
        if found.is_least:
            break
        tried = place(blocks, other)
        found = tried if tried.total < found.total else found
    return found


def _order(blocks: Sequence[Lifetime], algorithm: str) -> list[int]:
    """In which order blocks are placed."""
    meets = [sum([b.meets(c) for c in blocks]) for b in blocks]
    keys = {
        BY_SIZE: lambda n: (-blocks[n].size, blocks[n].first),
        BY_CONFLICTS: lambda n: (-meets[n], -blocks[n].size, blocks[n].first),
        SCAN: lambda n: (blocks[n].first, -blocks[n].size),
    }
    return sorted(range(len(blocks)), key=keys[algorithm])


def _climbed(blocks: Sequence[Lifetime]) -> list[int]:
    """An order that swaps have improved: of a block that ends last with any before it."""
    order = _order(blocks, BY_SIZE)
    best = _placed(blocks, order)
    rng = np.random.default_rng(0)
    for _ in range(_SWAPS):
        if best.is_least or len(order) < 2:
            break
        ends = [at + blocks[n].size for n, at in enumerate(best.offsets)]
        top = order.index(int(np.argmax(ends)))
        other = int(rng.integers(len(order)))
        tried = order.copy()
        tried[top], tried[other] = tried[other], tried[top]
        found = _placed(blocks, tried)
        if found.total <= best.total:
            order, best = tried, found
    return order


def _placed(blocks: Sequence[Lifetime], order: Sequence[int]) -> Placed:
    """Each block at the lowest place that is free while it is alive."""
    offsets = [0] * len(blocks)
    done: list[int] = []
    for n in order:
        b, at = blocks[n], 0
        taken = sorted([(offsets[k], blocks[k].size) for k in done if blocks[k].meets(b)])
        for begin, size in taken:
            if at + b.size <= begin:
                break
            at = max(at, begin + size)
        offsets[n] = at
        done.append(n)
    total = max([at + b.size for at, b in zip(offsets, blocks, strict=True)], default=0)
    steps = {b.first for b in blocks}
    live = max([sum([b.size for b in blocks if b.first <= s <= b.last]) for s in steps], default=0)
    return Placed(tuple(offsets), total, live)
