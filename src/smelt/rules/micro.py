"""Sketches for microcontrollers: no vectors, few registers, code that has to be small.

for rows of the result: for tiles of its contiguous axis:
    sums[tile] = 0                        in registers
    for the reduction: sums += x * w      the tile written out
    result[tile] = what follows           from the sums
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smelt.rules.cost import Cost
from smelt.rules.sketch import Columns, Decision, Domain, Refusal, Site, Sketch, Space
from smelt.tir.schedule import Schedule

from .cpu import nest as nests
from .cpu.elementwise import Elementwise
from .cpu.loops import in_registers
from .cpu.nest import Nest, anchor_nest, is_zero, memory_order
from .cpu.reduce import Serial

_TILES = (4, 2, 1)
"""Results that are summed up side by side: with their operands they fit into the registers."""
_LOOP = 3
"""Instructions of a turn of a loop besides its body."""


class Direct:
    """A reduction with what follows it, a few results at a time, straight from the operands."""

    name = "direct"
    version = 1

    def open(self, site: Site) -> Space | Refusal:
        """Fits reductions that start from a value, of one result."""
        nest = site.read(anchor_nest)
        if nest is None or not nest.reduce or not memory_order(nest):
            return Refusal("no reduction whose loops are variables of the block")
        if nest.info.block.init is None or len(nest.info.block.writes) > 1:
            return Refusal("a reduction that does not start from a value, or has several results")
        if not nests.stands_alone(site, nest):
            return Refusal("blocks that are no reduction and what follows it")
        return DirectSpace(site, nest)


class DirectSpace(Space):
    """How many results are summed up side by side."""

    settles = True

    def __init__(self, site: Site, nest: Nest) -> None:
        self.site, self.nest = site, nest
        self.axis = memory_order(nest)[-1]
        fits = [t for t in _TILES if self.axis.size % t == 0]
        self.domains = (Domain("tile", tuple(fits)),)

    def cost(self, columns: Columns) -> Cost:
        """Instructions of an iteration: loads that the results of a tile do not share, a
        multiply-add each, and a part of the loop's own."""
        tile = columns["tile"]
        loads = np.zeros(len(tile))
        for k in range(1, len(self.nest.accesses)):
            loads = loads + (1 / tile if is_zero(self.axis.steps[k]) else 1.0)
        return Cost(self.nest.every * (loads + 1 + _LOOP / tile))

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """See the module."""
        sch, name = schedule, self.site.anchor
        epilogue = in_registers(sch, name, self.site.epilogue)
        *outer, _ = [a.loop for a in memory_order(self.nest)]
        reduce = [a.loop for a in self.nest.reduce]
        tiles, tile = sch.split(self.axis.loop, [None, decision["tile"]])
        sch.reorder(*outer, tiles, *reduce, tile)
        sch.reverse_compute_at(epilogue, tiles, preserve_unit_loops=True)
        depth = len(outer) + 1
        init = sch.decompose_reduction(name, reduce[0])
        for loop in [tile, *sch.get_loops(init)[depth:], *_own(sch, epilogue, depth)]:
            sch.unroll(loop)


def _own(sch: Schedule, name: str, depth: int) -> Sequence[str]:
    return [str(x) for x in sch.get_loops(name)[depth:]]


SKETCHES: tuple[Sketch, ...] = (Direct(), Serial(), Elementwise())
"""What is tried for a target without vectors and caches."""
