"""Sketches for microcontrollers: no vectors, few registers, code that has to be small.

for rows of the result: for tiles of its contiguous axis:
    sums[tile] = 0                        in registers
    for the reduction: sums += x * w      the tile written out
    result[tile] = what follows           from the sums
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.expr import Expr, IntImm, Var
from smelt.rules.cost import Cost
from smelt.rules.sketch import Columns, Decision, Domain, Refusal, Site, Sketch, Space
from smelt.tir.intrin import dsp, mve_bytes
from smelt.tir.schedule import Schedule

from .cpu import nest as nests
from .cpu.analysis import guess
from .cpu.elementwise import Elementwise
from .cpu.loops import in_registers
from .cpu.nest import Axis, Nest, anchor_nest, is_one, is_zero, memory_order
from .cpu.reduce import Serial

_TILES, _ROWS = (4, 2, 1), (1, 2)
"""Results that are summed up side by side, along the contiguous axis and the one outside it: with
their operands they fit into the registers."""
_MANY_ROWS = 8
"""Of so many the last one may be by itself."""
_WHOLE = max(mve_bytes.DOT)
"""Bytes that an instruction of Helium takes."""
_LOOP = 3
"""Instructions of a turn of a loop besides its body."""
_REGISTERS, _SPILL = 13, 8
"""General registers that a program may use, and instructions that one more value costs."""


class Direct:
    """A reduction with what follows it, a few results at a time, straight from the operands."""

    name = "direct"
    version = 2

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
    """How many results are summed up side by side.

    tile, rows  along the contiguous axis of the result, and along those outside of it that are one
                in memory
    """

    settles = True

    def __init__(self, site: Site, nest: Nest) -> None:
        self.site, self.nest = site, nest
        helium = "mve" in site.machine.dot
        *self.outer, self.axis = memory_order(nest)
        self.image = _image(site, nest)
        aside = helium and _of_bytes(nest) and is_one(self.axis.steps[self.image])
        self.lanes = mve_bytes.LANES if aside else 1
        fits = [t * n for n in (self.lanes, 1) for t in _TILES if self.axis.size % (t * n) == 0]
        fits = list(dict.fromkeys(fits))
        real = [a for a in self.outer if a.size > 1]
        plain = bool(real) and nest.info.store is not None
        if plain and nests.guards(nest.values):  # borders: neighbours in a line, whose x is shared
            plain = is_zero(self.axis.steps[self.image]) and real[-1].size % 2 == 0
        self.run = real[-1:] if plain else []
        if plain and real[-1].size % 2:  # the last of all rows is by itself, not that of each line
            self.run = nests.continued(real[-1], reversed(real[:-1]))
        count = prod([a.size for a in self.run])
        even = len(self.run) > 1 or count % 2 == 0 or count > _MANY_ROWS
        rows = [r for r in _ROWS if r == 1 or (count > 1 and even and not helium)]
        self.domains = (Domain("tile", tuple(fits)), Domain("rows", tuple(rows)))
        self.reduce = self._in_order()
        self.step, self.packs = 1, False
        if "dsp" in site.machine.dot and _of_bytes(nest) and self._runs():
            self.step = dsp.LANES
        last = self.reduce[-1]
        whole = is_one(last.steps[self.image]) and last.size % _WHOLE == 0
        self.packs = helium and self.step > 1 and whole and _of_bytes(nest)

    def _runs(self) -> bool:
        """Whether bytes that are summed up follow one another in memory, four at least."""
        size = 1
        for a in reversed(self.reduce):
            step = a.steps[self.image]
            if step is None or guess(step) != size or nests.constant(a) is None:
                break
            size *= a.size
        return size >= dsp.LANES

    def _in_order(self) -> list[Axis]:
        """The axes of the reduction, those that move furthest in the image first."""

        def key(a: Axis) -> tuple[bool, int]:
            step = a.steps[self.image]
            return a.size != 1, -guess(step) if step is not None else 0

        return sorted(self.nest.reduce, key=key)

    def cost(self, columns: Columns) -> Cost:
        """Instructions of an iteration: loads that results share, a multiply-add each, a part of
        the loop's own; where four bytes are read at once, their widening, and two products."""
        tile, rows = columns["tile"], columns["rows"]
        read, words = (1, 1) if self.step == 1 else (3, 2)
        sums = np.maximum(1, tile * rows / np.where(tile % self.lanes == 0, self.lanes, 1))
        loads, values = np.zeros(len(tile)), sums + _LOOP
        for k in range(1, len(self.nest.accesses)):
            along = np.where(is_zero(self.axis.steps[k]), 1, sums / rows)
            if self.run:
                along = along * np.where(is_zero(self.run[-1].steps[k]), 1, rows)
            loads = loads + read * along
            held = (rows == 2) & (tile > 1) & (k == self.image)  # two rows at a time
            values = values + words * np.where(held, 2, 1)
        spilled = np.maximum(0, values - _REGISTERS) * _SPILL
        each = (loads + words * sums + spilled + _LOOP) / (tile * rows * self.step)
        return Cost(self.nest.every * each)

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """See the module."""
        sch, name = schedule, self.site.anchor
        epilogue = in_registers(sch, name, self.site.epilogue)
        packs = self.packs and decision["tile"] == mve_bytes.LANES
        self._pack(sch, packs)
        outer, reduce = [a.loop for a in self.outer], [a.loop for a in self.reduce]
        column = self.axis.loop
        if decision["rows"] > 1:
            outer, reduce, column = self._one_axis_of_rows(sch, epilogue)
        tiles, tile = sch.split(column, [None, decision["tile"]])
        inner = [tile]
        if decision["rows"] > 1:
            outer[-1], row = sch.split(outer[-1], [None, decision["rows"]])
            inner = [tile, row]
        if packs:
            reduce[-1], last = sch.split(reduce[-1], [None, _WHOLE])
            inner = [*inner, last]
        sch.reorder(*outer, tiles, *reduce, *inner)
        inner = inner[: len(inner) - packs]
        sch.reverse_compute_at(epilogue, tiles, preserve_unit_loops=True)
        depth = len(outer) + 1
        init = sch.decompose_reduction(name, reduce[0])
        for loop in [*inner, *sch.get_loops(init)[depth:], *_own(sch, epilogue, depth)]:
            sch.unroll(loop)

    def _one_axis_of_rows(self, sch: Schedule, epilogue: str) -> tuple[list[str], list[str], str]:
        """Make one axis of all rows; in registers the sums of neighbouring ones are neighbours,
        since an instruction may make two. Gives the loops: outer ones, the reduction's, columns."""
        store = self.nest.info.store
        assert store is not None
        dims = [store.indices.index(a.var) for a in self.run]

        def form(*i: Expr) -> list[Expr]:
            row = i[dims[0]]
            for n, a in zip(dims[1:], self.run[1:], strict=True):
                row = row * a.extent + i[n]
            return [*[x for n, x in enumerate(i) if n not in dims], row]

        behind = nests.nest_of(sch, epilogue)
        assert behind is not None
        own = [behind.spatial[d] for d in dims]
        nests.as_one(sch, epilogue, behind, [a for a in behind.axes if a not in own], own)
        order = [*[a for a in self.outer if a not in self.run], *self.reduce, self.axis]
        made = nests.as_one(sch, self.site.anchor, self.nest, order, self.run)
        sch.transform_layout(self.site.anchor, ("write", 0), form)
        loops = [a.loop for a in made.axes]
        first = len(order) - len(self.reduce) - 1
        return [*loops[:first], loops[-1]], loops[first : len(order) - 1], loops[len(order) - 1]

    def _pack(self, sch: Schedule, blocks: bool) -> None:
        """Constants in the order in which they are read.

        blocks  of so many bytes as one instruction takes, of results that are side by side
        """
        order = [*self.outer, self.axis, *self.reduce]
        if self.step == 1 or is_one(self.axis.steps[self.image]):
            order = [*self.outer, *self.reduce, self.axis]
        places = {a.var: n for n, a in enumerate(order)}
        for x in self.nest.accesses[1:]:
            known = x.buffer.name in self.site.constants
            if not known or not all(isinstance(i, Var | IntImm) for i in x.indices):
                continue
            ranks = [places.get(i, -1) if isinstance(i, Var) else -1 for i in x.indices]
            dims = sorted(range(len(ranks)), key=ranks.__getitem__)
            ends = [n for n, i in enumerate(x.indices) if i is self.reduce[-1].var]
            if blocks and ends and self.axis.var in x.indices:
                own = x.indices.index(self.axis.var)
                sch.transform_layout(self.site.anchor, x.buffer.name, _blocks(dims, own, ends[0]))
            elif dims != sorted(dims):
                sch.transform_layout(
                    self.site.anchor, x.buffer.name, lambda *i, dims=dims: [i[d] for d in dims]
                )


def _blocks(dims: Sequence[int], own: int, last: int) -> Callable[..., list[Expr]]:
    """A layout: some dimensions in an order, then blocks of two of them."""
    sizes = {own: mve_bytes.LANES, last: _WHOLE}

    def layout(*i: Expr) -> list[Expr]:
        ahead = [i[d] // sizes[d] if d in sizes else i[d] for d in dims]
        return [*ahead, i[own] % sizes[own], i[last] % sizes[last]]

    return layout


def _image(site: Site, nest: Nest) -> int:
    """The number of the first access that is no constant; 0, the result, where all are."""
    every = range(1, len(nest.accesses))
    found = [n for n in every if nest.accesses[n].buffer.name not in site.constants]
    return next(iter(found), 0)


def _of_bytes(nest: Nest) -> bool:
    """Whether products are of two operands of 8 bits."""
    types = [x.buffer.type for x in nest.accesses[1:]]
    return len(types) == 2 and all(dt.is_int(t) and dt.bits(t) == 8 for t in types)


def _own(sch: Schedule, name: str, depth: int) -> Sequence[str]:
    return [str(x) for x in sch.get_loops(name)[depth:]]


SKETCHES: tuple[Sketch, ...] = (Direct(), Serial(), Elementwise())
"""What is tried for a target without vectors and caches."""
