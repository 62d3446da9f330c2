"""Blocks in several pools of memory: what is read and written most in the fastest that has room;
or where an algorithm of the user's puts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from smelt.ir.errors import CompileError
from smelt.ir.memory_pools import BufferInfo, Pool, PoolAllocation
from smelt.runtime.packed import get_global_func

from .placing import BY_CONFLICTS, BY_SIZE, SCAN, Placed, Placing, place

Algorithm = str | Callable[[list[BufferInfo], int], Any]
"""One of MEMORY_ALGORITHMS, or a function of the blocks and of the most bytes that are alive at
once; it gives a PoolAllocation of each block, as a mapping or in their order. With a single pool
the places alone will do."""
CUSTOM = "tir.usmp.custom_algorithm"
_QUICK = (BY_SIZE, BY_CONFLICTS, SCAN)


def algorithm_of(config: Mapping[str, Any], default: str) -> Algorithm:
    """How memory is planned after a PassContext's config. Raises InputError."""
    custom = config.get(CUSTOM)
    if isinstance(custom, str):
        custom = get_global_func(f"tir.usmp.algo.{custom}")
    found: Algorithm = custom or config.get("tir.usmp.algorithm", default)
    return found


def spread(
    sizes: Sequence[int], heat: Sequence[float], pools: Sequence[Pool],
    needed: Callable[[Sequence[int], Pool], int], said: Callable[[int], tuple[str, str]],
) -> dict[Pool, list[int]]:  # fmt: skip
    """Which blocks go to each pool, by number.

    heat    about how many bytes are read and written of each
    needed  the bytes that some blocks take in a pool; fewer than its size where they fit
    said    what a block is, and what a message about it ends with

    Raises CompileError where a block finds no room.
    """
    fast = sorted(pools, key=lambda p: -p.speed)
    hot = [(-h / max(1, size), -size) for h, size in zip(heat, sizes, strict=True)]
    homes = [sum([p.size is None or size <= p.size for p in pools]) for size in sizes]
    keys: tuple[Callable[[int], Any], ...] = (
        hot.__getitem__, lambda n: (homes[n], hot[n]), lambda n: -sizes[n]
    )  # fmt: skip
    for key in keys:
        held: dict[Pool, list[int]] = {p: [] for p in fast}
        for n in sorted(range(len(sizes)), key=key):
            home = next((p for p in fast if _lacks(needed, held[p], n, p) <= 0), None)
            if home is None:
                break
            held[home].append(n)
        else:
            return held
    what, end = said(n)
    rows = [f"\n  {p.name} has {p.size or 0:,} bytes, {_lacks(needed, held[p], n, p):,} too few"
            for p in fast]  # fmt: skip
    raise CompileError(f"{what} finds no room beside the others{''.join(rows)}{end}")


def _lacks(needed: Callable[[Sequence[int], Pool], int], held: Sequence[int], n: int, p: Pool
           ) -> int:  # fmt: skip
    """How many bytes are missing for one more block."""
    return 0 if p.size is None else needed([*held, n], p) - p.size


@dataclass(frozen=True)
class Allocating(Placing):
    """Blocks to place in pools.

    names  of the blocks, steps: of the steps
    heat   about how many bytes are read and written of each block
    """

    pools: Sequence[Pool]
    names: Sequence[str]
    heat: Sequence[float]
    steps: Sequence[str]
    alignment: int

    def allocated(self, algorithm: Algorithm) -> list[PoolAllocation]:
        """The place of each block. Raises CompileError."""
        if callable(algorithm):
            return self.asked(algorithm)
        every = [*range(len(self.blocks))]
        fastest = max(self.pools, key=lambda p: p.speed)
        whole = self.fitting(every, fastest, (algorithm,))
        if fastest.size is None or whole.total <= fastest.size:
            return [PoolAllocation(fastest, at) for at in whole.offsets]
        sizes, found = [b.size for b in self.blocks], {}
        held = spread(sizes, self.heat, self.pools, self.needed, self.said)
        for pool, numbers in held.items():
            placed = self.fitting(numbers, pool, (algorithm, *_QUICK))
            for n, at in zip(numbers, placed.offsets, strict=True):
                found[n] = PoolAllocation(pool, at)
        return [found[n] for n in every]

    def part(self, held: Sequence[int]) -> Placing:
        """Some of the blocks, which may overlap each other as before."""
        own = {n: k for k, n in enumerate(held)}
        near = {(own[a], own[b]): reach for (a, b), reach in self.near.items()
                if a in own and b in own}  # fmt: skip
        return Placing([self.blocks[n] for n in held], near)

    def fitting(self, held: Sequence[int], pool: Pool, algorithms: Sequence[str]) -> Placed:
        """By the first algorithm whose plan fits into a pool, or by the one that takes least."""
        part, tried = self.part(held), list[Placed]()
        for algorithm in algorithms:
            tried.append(place(part.blocks, algorithm, part.near))
            if pool.size is None or tried[-1].total <= pool.size:
                return tried[-1]
        return min(tried, key=lambda p: p.total)

    def needed(self, held: Sequence[int], pool: Pool) -> int:
        """The bytes that some blocks take in a pool; at least so many where they are too many."""
        least = self.part(held).live
        too_many = pool.size is not None and least > pool.size
        return least if too_many else self.fitting(held, pool, _QUICK).total

    def what(self, n: int) -> str:
        """A block in a message."""
        b = self.blocks[n]
        return f"{self.names[n]!r} ({b.size:,} bytes, alive in steps {max(0, b.first)} to {b.last})"

    def said(self, n: int) -> tuple[str, str]:
        """A block in a message, and the step of its life that needs most."""
        b, end = self.blocks[n], len(self.steps)
        most = max(range(max(0, b.first), min(b.last + 1, end)), key=self.live_in, default=0)
        text = f"\n  step {most}, {self.steps[most]}, works on {self.live_in(most):,} bytes at once"
        return f"memory pools are too small: {self.what(n)}", text

    # ---- by an algorithm of the user's ------------------------------------------------------

    @cached_property
    def conflicts(self) -> list[list[int]]:
        """For each block the others that it meets."""
        return [sorted(numbers - {n}) for n, numbers in enumerate(self.meets)]

    def asked(self, algorithm: Callable[[list[BufferInfo], int], Any]) -> list[PoolAllocation]:
        """What the algorithm answers, checked."""
        infos = [BufferInfo(name, b.size, tuple(self.pools), self.alignment, b.first, b.last)
                 for name, b in zip(self.names, self.blocks, strict=True)]  # fmt: skip
        for info, others in zip(infos, self.conflicts, strict=True):
            info.conflicts = [infos[k] for k in others]
        answer = algorithm(infos, self.live)
        if isinstance(answer, Mapping):
            answer = [answer.get(info) for info in infos]
        places = answer if isinstance(answer, Iterable) else ()
        found = [at if isinstance(at, tuple) and len(at) == 2 else (self.pools[0], at)
                 for at in places]  # fmt: skip
        if said := self.wrong(found):
            name = getattr(algorithm, "__name__", type(algorithm).__name__)
            raise CompileError(f"{CUSTOM} {name}: {said}")
        return [PoolAllocation(pool, int(at)) for pool, at in found]

    def wrong(self, found: Sequence[tuple[Any, Any]]) -> str:
        """What is wrong with an answer; "" where nothing is."""
        if len(found) != len(self.blocks):
            return f"it gives {len(found)} places; legal: one for each of {len(self.blocks)} blocks"
        for n, (pool, at) in enumerate(found):
            if pool not in self.pools:
                return f"{self.what(n)} stands in {pool!r}; legal: its pool_candidates"
            if not isinstance(at, int | np.integer) or at < 0 or at % self.alignment:
                return f"{self.what(n)} begins at {at!r}; legal: multiples of {self.alignment}"
            end = int(at) + self.blocks[n].size
            if pool.size is not None and end > pool.size:
                return f"{self.what(n)} ends at {end:,}, and {pool.name} has {pool.size:,} bytes"
            for k in [k for k in self.conflicts[n] if k < n and found[k][0] == pool]:
                low, high = self.taken(n, k, int(found[k][1]))
                if low < at < high:
                    return (f"{self.what(n)} at {at:,} of {pool.name} meets {self.what(k)} at "
                            f"{found[k][1]:,}; legal: up to {low:,}, or from {high:,}")  # fmt: skip
        return ""
