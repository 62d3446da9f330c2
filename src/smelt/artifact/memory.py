"""Static memory planning: temporaries that are never alive together share bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from smelt.ir.build import maximum
from smelt.ir.expr import Expr, IntImm, Var, const
from smelt.ir.memory_pools import Pool
from smelt.tir.facts import analyzer_of

from .graph import Storage, number_of
from .placing import APART, BY_SIZE, Lifetime, Reach
from .pools import Algorithm, Allocating

ALIGNMENT = 64
"""Bytes; a cache line and the widest vector."""
_ALONE = Pool("workspace")
C_ALIGNMENT = 8
"""Of C for microcontrollers, whose memory is precious: that of its widest type."""


@dataclass
class MemoryPlan:
    """Where each temporary stands in the workspace.

    total  bytes of the workspace, in all pools
    live   the most bytes in use at one time (None where sizes are symbolic)
    pool   of each temporary, and bytes of each pool, where sizes are numbers
    """

    offsets: dict[Storage, Expr]
    total: Expr
    live: int | None
    pool: Mapping[Storage, Pool] = field(default_factory=dict)
    bytes: Mapping[Pool, int] = field(default_factory=dict)

    def behind(self, a: Storage, b: Storage) -> int:
        """How many bytes a storage begins behind another one, both of fixed sizes; far in
        another pool."""
        if self.pool[a] != self.pool[b]:
            return APART
        return number_of(self.offsets[a]) - number_of(self.offsets[b])


def aligned(size: int, alignment: int) -> int:
    """The next multiple of an alignment."""
    return -(-size // alignment) * alignment


def aligned_bytes(size: int) -> np.ndarray:
    """Memory of this process from a multiple of ALIGNMENT on, all zeros."""
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    return raw[-raw.ctypes.data % ALIGNMENT :][:size]


def plan_memory(
    storages: Sequence[Storage],
    symbols: Sequence[Var],
    alignment: int = ALIGNMENT,
    algorithm: Algorithm = BY_SIZE,
    near: Mapping[tuple[Storage, Storage], Reach] | None = None,
    pools: Sequence[Pool] = (),
    heat: Mapping[Storage, int] | None = None,
    steps: Sequence[str] = (),
) -> MemoryPlan:
    """Place temporaries; those of symbolic sizes share slots.

    alignment, algorithm  of those with fixed sizes; bytes, and see Algorithm
    near                  those of fixed sizes that may overlap
    pools                 where those stand; none: in one of any size
    heat                  about how many bytes are read and written of each
    steps                 the names of the steps
    """
    if not all(isinstance(s.bytes, IntImm) for s in storages):
        return _symbolic(storages, symbols)

    blocks = [Lifetime(aligned(s.fixed_bytes, alignment), s.first, s.last) for s in storages]
    numbers = {s: n for n, s in enumerate(storages)}
    pairs = {
        (numbers[operand], numbers[result]): Reach(*[aligned(n, alignment) for n in reach])
        for (operand, result), reach in (near or {}).items()
    }
    names = [s.name or "result" for s in storages]
    hot = [(heat or {}).get(s, 0) for s in storages]
    pools = pools or (_ALONE,)
    placing = Allocating(blocks, pairs, pools, names, hot, steps, alignment)
    places = dict(zip(storages, placing.allocated(algorithm), strict=True))
    ends = {p: max([at.byte_offset + b.size for at, b in zip(places.values(), blocks, strict=True)
                    if at.pool_info == p], default=0) for p in pools}  # fmt: skip
    offsets = {s: const(at.byte_offset) for s, at in places.items()}
    homes = {s: at.pool_info for s, at in places.items()}
    return MemoryPlan(offsets, const(sum(ends.values())), placing.live, homes, ends)


def _symbolic(storages: Sequence[Storage], symbols: Sequence[Var]) -> MemoryPlan:
    """Slots that grow to their largest user; one whose size surely suffices is preferred."""
    analyzer = analyzer_of(dict.fromkeys(symbols, 0))
    slots: list[Expr] = []
    free_from: list[int] = []
    slot_of: dict[Storage, int] = {}
    for s in sorted(storages, key=lambda s: s.first):
        size = analyzer.simplify((s.bytes + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT)
        idle = [i for i, last in enumerate(free_from) if last < s.first]
        fits = [i for i in idle if analyzer.can_prove(slots[i] >= size)]
        grows = [i for i in idle if analyzer.can_prove(slots[i] <= size)]
        if fits:
            slot = fits[0]
        elif grows:
            slot = grows[-1]
            slots[slot] = size
        elif idle:
            slot = idle[0]
            slots[slot] = maximum(slots[slot], size)
        else:
            slot = len(slots)
            slots.append(size)
            free_from.append(-1)
        free_from[slot] = s.last
        slot_of[s] = slot
    *starts, total = accumulate(
        slots, lambda at, size: analyzer.simplify(at + size), initial=const(0)
    )
    return MemoryPlan({s: starts[i] for s, i in slot_of.items()}, total, None)
