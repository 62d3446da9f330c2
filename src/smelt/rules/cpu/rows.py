"""Several reductions over the same dimensions: softmax, layer_norm, instance_norm.

Along the contiguous dimension, row by row:

    for rows: parallel
        maximum of the row              lanes first
        powers[k] = exp(x[k] - maximum) in a buffer of one row
        sum of the powers               lanes first
        result[k] = powers[k] / sum

Along another one, the same for as many neighbouring rows as a vector has lanes.
"""

from __future__ import annotations

from math import prod

from smelt.ir.expr import IntImm, Var
from smelt.ir.walk import free_vars
from smelt.rules.cost import Cost
from smelt.rules.sketch import Choice, Columns, Decision, Refusal, Site, Space
from smelt.target import Machine
from smelt.tir.nodes import Buffer, BufferLoad
from smelt.tir.schedule import Schedule

from . import nest as nests
from .analysis import analyzer_for, block_info, guess, power, stride_of
from .elementwise import Elementwise
from .loops import share_out, task_domain, vectorize
from .nest import Axis, Nest, is_one, nest_of
from .reduce import (
    Lanes,
    Serial,
    along,
    cheapest,
    finish_lanes,
    inner_loops,
    into_lanes,
    into_vectors,
)
from .window import Window

BLOCKS = (Elementwise(), Window(), Lanes(), Serial())
"""For a block by itself."""


class Rows:
    """Several reductions over the same dimensions, with elementwise work around them."""

    name = "rows"
    version = 1

    def open(self, site: Site) -> Space | Refusal:
        """Fits blocks that follow one another, of which the last makes what others read."""
        sch, blocks = site.schedule, site.blocks
        nest = nest_of(sch, blocks[-1])
        if len(blocks) < 2 or nest is None or nest.reduce or not nest.axes:
            return Refusal("no elementwise block behind reductions")
        before = blocks[:-1]
        if any(str(c) not in blocks for b in before for c in sch.get_consumers(b)):
            return Refusal("something else reads what is handed on")
        made = {w.buffer for b in before for w in sch.state.realize(b).block.writes}
        rows = _rows(nest, made)
        if rows is None:
            return Refusal("the reductions' results have other dimensions than rows")
        inside = [b for b in before if _follows_rows(sch, b, rows)]
        apart = [cheapest(Site(sch, (b,), site.machine, site.constants), BLOCKS)
                 for b in before if b not in inside]  # fmt: skip
        if not inside or None in apart:
            return Refusal("no reduction has a result a row")
        return RowsSpace(site, nest, rows, inside, [c for c in apart if c is not None])


class RowsSpace(Space):
    """Into how many tasks the rows are divided."""

    def __init__(
        self, site: Site, nest: Nest, rows: list[Axis], inside: list[str], apart: list[Choice]
    ) -> None:
        self.site, self.nest, self.rows, self.inside, self.apart = site, nest, rows, inside, apart
        self.domains = (task_domain(site.machine),)
        self.axes = nests.memory_order(nest)
        self.beside = nests.vector_axis(self.axes) in rows

    def cost(self, columns: Columns) -> Cost:
        """Every block's vectors; what they hand on stays near."""
        machine, sch = self.site.machine, self.site.schedule
        cycles = 0.0
        for b in (*self.inside, self.site.blocks[-1]):
            nest = nest_of(sch, b)
            if nest is not None and nest.axes:
                cycles += nest.cycles(machine, self._vector(nest))
        others = sum([c.seconds for c in self.apart])
        return Cost(
            cycles, self.nest.traffic(machine, self.site.cold), columns["tasks"], others=others
        )

    def _vector(self, nest: Nest) -> Axis:
        """The axis that vectors of a block run along."""
        if self.beside:
            return next((a for a in nest.spatial if is_one(a.steps[0])), nest.axes[-1])
        return along(nest) if nest.reduce else nests.vector_axis(nests.memory_order(nest))

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """See the module."""
        for choice in self.apart:
            choice.space.build(schedule, choice.decision)
        place = _beside if self.beside else _along
        rows = [a for a in self.axes if a in self.rows]
        outer = place(schedule, [*self.inside, self.site.blocks[-1]], self.nest, rows,
                      self.site.machine)  # fmt: skip
        share_out(schedule, outer, decision["tasks"])


def _rows(nest: Nest, made: set[Buffer]) -> list[Axis] | None:
    """The axes that the results of the reductions have; None where they are not simply those."""
    by_var = {a.var: a for a in nest.spatial}
    real = {a.var for a in nest.spatial if a.size > 1}
    found: set[Var] | None = None
    for x in nest.accesses[1:]:
        if x.buffer not in made or not isinstance(x, BufferLoad):
            continue
        used = {v for i in x.indices for v in free_vars(i)}
        if used >= real:
            continue
        if any(not isinstance(i, Var | IntImm) for i in x.indices):
            return None
        found = used if found is None else found | used
    if found is None or not real - found:
        return None
    return [a for v, a in by_var.items() if v in found]


def _follows_rows(sch: Schedule, name: str, rows: list[Axis]) -> bool:
    """Whether a block is computed row by row: everything that is made from what was loaded."""
    have = prod([guess(i.dom.extent) for i in block_info(sch, name).spatial])
    return have >= prod([a.size for a in rows])


def _columns(nest: Nest, rows: list[Axis]) -> list[str]:
    """The loops inside a row."""
    return [a.loop for a in nests.memory_order(nest) if a not in rows]


def _along(
    sch: Schedule, given: list[str], nest: Nest, rows: list[Axis], machine: Machine
) -> list[str]:
    """Row by row, vectors along the row."""
    blocks: list[str] = []
    for b in given:
        if block_info(sch, b).is_reduction:
            blocks += into_lanes(sch, b, machine)
        blocks.append(b)
    outer, columns = [a.loop for a in rows], _columns(nest, rows)
    if len(outer) + len(columns) > 1:
        sch.reorder(*outer, *columns)
    if outer:
        for b in reversed(blocks[:-1]):
            sch.compute_at(b, outer[-1])
    lanes = machine.lanes(nests.widest(nest))
    for b in blocks:
        spatial, reduce = inner_loops(sch, b, len(outer))
        if reduce:
            finish_lanes(sch, b, len(outer), machine)
        elif spatial:
            size = guess(sch.state.loop(spatial[-1]).extent)
            vectorize(sch, spatial[-1], size, lanes, 2)
    return outer


def _beside(
    sch: Schedule, given: list[str], nest: Nest, rows: list[Axis], machine: Machine
) -> list[str]:
    """Neighbouring rows in the lanes of vectors."""
    vector = rows[-1]
    lanes = min(machine.lanes(nests.widest(nest)), power(vector.size))
    several = max(1, min(4, vector.size // lanes))
    tile, lane = sch.split(vector.loop, [None, several * lanes])
    outer = [*[a.loop for a in rows[:-1]], tile]
    sch.reorder(*outer, *_columns(nest, rows), lane)
    for b in reversed(given[:-1]):
        sch.compute_at(b, tile)
    for b in given:
        _lanes_inside(sch, b, len(outer), vector, several * lanes, lanes)
    return outer


def _lanes_inside(
    sch: Schedule, name: str, depth: int, vector: Axis, width: int, lanes: int
) -> None:
    """Vectors along the rows of a tile, inside everything else."""
    spatial, reduce = inner_loops(sch, name, depth)
    lane = next((x for x in reversed(_by_step(sch, name, spatial)) if _size(sch, x) <= width), None)
    if lane is None:
        return
    others = [x for x in spatial if x != lane]
    sch.reorder(*others, *reduce, lane)
    if reduce:
        init = sch.get_loops(sch.decompose_reduction(name, reduce[0]))[depth:]
        into_vectors(sch, init[-1], lanes)
    into_vectors(sch, lane, lanes)


def _size(sch: Schedule, loop: str) -> int:
    return guess(sch.state.loop(loop).extent)


def _by_step(sch: Schedule, name: str, loops: list[str]) -> list[str]:
    """Loops in the order of the result's memory, the contiguous one last."""
    info = block_info(sch, name)
    if info.store is None:
        return loops
    analyzer = analyzer_for(sch.func, info.block)
    step: dict[str, int] = {}
    for i, value in sch.state.realize(name).bindings:
        stride = stride_of(info.store, i.var, analyzer)
        for v in free_vars(value):
            step[v.name] = guess(stride) if stride is not None else 1 << 40
    return sorted(loops, key=lambda x: -step.get(x, 0))
