"""Where blocks of memory stand that are alive at different times: the classic algorithms, and the
best of them.

An operand and a result of a kernel may overlap, see `overlap`: blocks by two that meet in one step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

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
    """Where each block begins, in bytes; the bytes of all, and how many are in use at least at one
    time, which no plan undercuts."""

    offsets: tuple[int, ...]
    total: int
    live: int

    @property
    def is_least(self) -> bool:
        """Whether it is proved that no plan takes less."""
        return self.total == self.live


APART = 1 << 60
"""More bytes than there are."""


class Reach(NamedTuple):
    """How far an operand and a result may overlap, where the result is alive from the operand's
    last step on: the operand begins `far` bytes behind the result at least, or, where the kernel
    runs backwards, the result `back` bytes behind the operand."""

    far: int
    back: int = APART


Near = Mapping[tuple[int, int], Reach]
"""By the numbers of the operand's and the result's block."""


def place(blocks: Sequence[Lifetime], algorithm: str = BEST, near: Near | None = None) -> Placed:
    """Place blocks by one of MEMORY_ALGORITHMS; kernels run backwards only where that is better."""
    near = near or {}
    ahead = Placing(blocks, {pair: Reach(reach.far) for pair, reach in near.items()})
    both = Placing(blocks, near)
    found = ahead.by(algorithm)
    if found.total > both.live:
        tried = both.by(algorithm)
        found = tried if tried.total < found.total else found
    return replace(found, live=both.live)


@dataclass(frozen=True)
class Placing:
    """Blocks to place."""

    blocks: Sequence[Lifetime]
    near: Near

    @cached_property
    def meets(self) -> list[frozenset[int]]:
        """For each block those that it meets, by number."""
        every = [*enumerate(self.blocks)]
        return [frozenset([k for k, c in every if b.meets(c)]) for b in self.blocks]

    def by(self, algorithm: str) -> Placed:
        """By an algorithm."""
        if algorithm != BEST:
            return self.climbed() if algorithm == CLIMB else self.placed(self.order(algorithm))
        found = self.by(BY_SIZE)
        for other in (BY_CONFLICTS, SCAN, CLIMB):
            if found.is_least:
                break
            tried = self.by(other)
            found = tried if tried.total < found.total else found
        return found

    def order(self, algorithm: str) -> list[int]:
        """In which order blocks are placed."""
        blocks = self.blocks
        keys = {
            BY_SIZE: lambda n: (-blocks[n].size, blocks[n].first),
            BY_CONFLICTS: lambda n: (-len(self.meets[n]), -blocks[n].size, blocks[n].first),
            SCAN: lambda n: (blocks[n].first, -blocks[n].size),
        }
        return sorted(range(len(blocks)), key=keys[algorithm])

    def climbed(self) -> Placed:
        """In an order that swaps have improved: of a block that ends last with any other one."""
        order = self.order(BY_SIZE)
        best = self.placed(order)
        rng = np.random.default_rng(0)
        for _ in range(_SWAPS):
            if best.is_least or len(order) < 2:
                break
            ends = [at + b.size for at, b in zip(best.offsets, self.blocks, strict=True)]
            top = order.index(int(np.argmax(ends)))
            other = int(rng.integers(len(order)))
            tried = order.copy()
            tried[top], tried[other] = tried[other], tried[top]
            found = self.placed(tried)
            if found.total <= best.total:
                order, best = tried, found
        return best

    def placed(self, order: Sequence[int]) -> Placed:
        """Each block where all have the least extent, at the lowest such place; below the others
        where a result has to stand before its operand."""
        offsets: dict[int, int] = {}
        low, high = 0, 0
        for n in order:
            size = self.blocks[n].size
            taken = [self.taken(n, k, offsets[k]) for k in self.meets[n] if k in offsets]
            free = [at for at in {low, 0, *[end for ends in taken for end in ends]}
                    if not any(begin < at < end for begin, end in taken)]  # fmt: skip
            at = min(free, key=lambda at: (max(high, at + size) - min(low, at), at < 0, abs(at)))
            offsets[n] = at
            low, high = min(low, at), max(high, at + size)
        offsets = {n: at - low for n, at in offsets.items()}
        return Placed(tuple([offsets[n] for n in range(len(offsets))]), high - low, self.live)

    def taken(self, n: int, k: int, at: int) -> tuple[int, int]:
        """Where a block may not begin, because of another one: only at the ends or outside."""
        begin, end = at - self.blocks[n].size, at + self.blocks[k].size
        if (n, k) in self.near:
            far, back = self.near[n, k]
            return max(begin, at - back), min(end, at + far)
        if (k, n) in self.near:
            far, back = self.near[k, n]
            return max(begin, at - far), min(end, at + back)
        return begin, end

    @cached_property
    def live(self) -> int:
        """The most bytes that are in use in one step, at least."""
        return max([self.live_in(s) for s in {b.first for b in self.blocks}], default=0)

    def live_in(self, step: int) -> int:
        """How many bytes are in use in a step, at least."""
        sizes = {n: b.size for n, b in enumerate(self.blocks) if b.first <= step <= b.last}
        most = sum(sizes.values())
        results = {k for _, k in self.near if self.blocks[k].first == step}
        for k in results:
            own = {n: reach for (n, r), reach in self.near.items() if r == k}
            apart = sum([sizes[n] for n in own])
            both = max([
                max(sizes[k], sizes[n],
                    min(sizes[n] + r.far, sizes[k] + r.back, sizes[n] + sizes[k]))
                for n, r in own.items()
            ])  # fmt: skip
            most -= apart + sizes[k] - max(apart, both)
        return most
