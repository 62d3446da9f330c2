"""Blocks in several pools of memory: what is read and written most in the fastest that has room;
or where an algorithm of the user's puts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
        if whole.total <= fastest.room:
            return [PoolAllocation(fastest, at) for at in whole.offsets]
        found: dict[int, PoolAllocation] = {}
        for pool, held in self.spread().items():
            placed = self.fitting(held, pool, (algorithm, *_QUICK))
            places = [PoolAllocation(pool, at) for at in placed.offsets]
            found |= dict(zip(held, places, strict=True))
        return [found[n] for n in every]

    def spread(self) -> dict[Pool, list[int]]:
        """Which blocks go to each pool: what is read and written most first, or, if that leaves
        some without room, those first that fit into few pools."""
        fast = sorted(self.pools, key=lambda p: -p.speed)
        homes = [sum([b.size <= p.room for p in fast]) for b in self.blocks]
        cold = [-h / max(1, b.size) for h, b in zip(self.heat, self.blocks, strict=True)]
        for keys in (cold, homes):
            held: dict[Pool, list[int]] = {p: [] for p in fast}
            for n in sorted(range(len(keys)), key=lambda n: (keys[n], -self.blocks[n].size)):
                home = next((p for p in fast if self.needed([*held[p], n], p) <= p.room), None)
                if home is None:
                    break
                held[home].append(n)
            else:
                return held
        rows = [f"memory pools are too small: {self.what(n)} has no room"]
        for p in fast:
            few = self.needed([*held[p], n], p) - p.room
            rows.append(f"  {p.name} has {p.room:,} bytes: {few:,} too few")
        own = range(max(0, self.blocks[n].first), min(self.blocks[n].last + 1, len(self.steps)))
        most = max(own, key=self.live_in, default=0)
        rows.append(f"  step {most}, {self.steps[most]}, works with {self.live_in(most):,} bytes")
        whole, there = self.needed([*range(len(self.blocks))], fast[0]), sum([p.room for p in fast])
        rows.append(f"  all results take {whole:,} bytes of one memory, and there are {there:,}")
        raise CompileError("\n".join(rows))

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
            if tried[-1].total <= pool.room:
                return tried[-1]
        return min(tried, key=lambda p: p.total)

    def needed(self, held: Sequence[int], pool: Pool) -> int:
        """The bytes that some blocks take in a pool; at least so many where they are too many."""
        part = self.part(held)
        known = part.live > pool.room or part.live == sum([b.size for b in part.blocks])
        return part.live if known else self.fitting(held, pool, _QUICK).total

    def what(self, n: int) -> str:
        """A block in a message."""
        b = self.blocks[n]
        return f"{self.names[n]!r} ({b.size:,} bytes, alive in steps {max(0, b.first)} to {b.last})"

    def asked(self, algorithm: Callable[[list[BufferInfo], int], Any]) -> list[PoolAllocation]:
        """What the algorithm answers, checked."""
        infos = [BufferInfo(name, b.size, tuple(self.pools), self.alignment, b.first, b.last)
                 for name, b in zip(self.names, self.blocks, strict=True)]  # fmt: skip
        for n, info in enumerate(infos):
            info.conflicts = [infos[k] for k in sorted(self.meets[n] - {n})]
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
            known = pool in self.pools and isinstance(at, int | np.integer)
            if not known or at % self.alignment or not 0 <= at <= pool.room - self.blocks[n].size:
                return (f"{self.what(n)} is put at {at!r} of {pool!r}; legal: multiples of "
                        f"{self.alignment}, inside one of its pool_candidates")  # fmt: skip
            for k in [k for k in self.meets[n] if k < n and found[k][0] == pool]:
                low, high = self.taken(n, k, int(found[k][1]))
                if low < at < high:
                    return (f"{self.what(n)} at {at:,} of {pool.name} meets {self.what(k)} at "
                            f"{found[k][1]:,}; legal: up to {low:,}, or from {high:,}")  # fmt: skip
        return ""
