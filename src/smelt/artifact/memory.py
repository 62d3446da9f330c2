"""Static memory planning: temporaries that are never alive together share bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from smelt.ir.build import maximum
from smelt.ir.expr import Expr, IntImm, Var, const
from smelt.tir.facts import analyzer_of

from .graph import Storage

ALIGNMENT = 64
"""Bytes; a cache line and the widest vector."""
C_ALIGNMENT = 8
"""Of C for microcontrollers, whose memory is precious: that of its widest type."""


@dataclass
class MemoryPlan:
    """Where each temporary stands in the workspace.

    total  bytes of the workspace
    live   the most bytes alive at one time (None where sizes are symbolic)
    """

    offsets: dict[Storage, Expr]
    total: Expr
    live: int | None


def plan_memory(
    storages: Sequence[Storage], symbols: Sequence[Var], alignment: int = ALIGNMENT
) -> MemoryPlan:
    """Place temporaries, the largest first at the lowest free offset; symbolic ones share slots.

    alignment  of those with fixed sizes, in bytes
    """
    if all(isinstance(s.bytes, IntImm) for s in storages):
        return _fixed(storages, alignment)
    return _symbolic(storages, symbols)


def _fixed(storages: Sequence[Storage], alignment: int) -> MemoryPlan:
    def rounded(s: Storage) -> int:
        return -(-s.fixed_bytes // alignment) * alignment

    placed: list[tuple[Storage, int, int]] = []
    order = sorted(storages, key=lambda s: (-s.fixed_bytes, s.first))
    for s in order:
        size = rounded(s)
        at = 0
        for _, begin, end in sorted(
            (x for x in placed if x[0].first <= s.last and s.first <= x[0].last), key=lambda x: x[1]
        ):
            if at + size <= begin:
                break
            at = max(at, end)
        placed.append((s, at, at + size))
    steps = sorted({s.first for s in storages})
    live = max(
        (sum(rounded(s) for s in storages if s.first <= n <= s.last) for n in steps), default=0
    )
    total = max([end for _, _, end in placed], default=0)
    return MemoryPlan({s: const(at) for s, at, _ in placed}, const(total), live)


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
