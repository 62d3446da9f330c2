"""Reductions: sums, extremes, products, logical ones and tuples such as argmax.

Where the result's contiguous dimension is kept, vectors run along it and accumulate in registers
(`window`, and `Serial` for tuples). Where the contiguous dimension is reduced, every lane of some
vectors accumulates for itself:

    for rows: parallel
        partial[vectors, lanes] = 0
        for k: partial += x                 the tail masked
        lanes[l] = sum of the vectors, then the sum of the lanes in two steps

Few results of many elements are reduced in chunks, for the cores, whose partial results are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from smelt.ir import dtype as dt
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import Add, And, IntImm, Max, Min, Mul, Or
from smelt.ir.walk import free_vars
from smelt.rules.cost import Cost
from smelt.rules.sketch import Choice, Columns, Decision, Domain, Refusal, Site, Sketch, Space, best
from smelt.target import Machine
from smelt.tir.nodes import BufferStore
from smelt.tir.schedule import Schedule

from . import nest as nests
from .analysis import guess
from .loops import share_out, task_domain, write_out_sums
from .nest import TOGETHER, Axis, Nest, anchor_nest, is_one, is_zero, memory_order, nest_of, widest
from .window import Window

_STEP = 4
"""Lanes that are joined in one step."""
_CHUNKS = (8, 32)
"""Chunks that a long reduction is cut into."""


class NestSpace(Space):
    """A nest whose only decision is the number of tasks."""

    def __init__(self, site: Site, nest: Nest, vector: Axis) -> None:
        self.site, self.nest, self.vector = site, nest, vector
        rows = prod([a.size for a in nest.spatial])
        self.domains = (task_domain(site.machine) if rows > 1 else Domain("tasks", (1,)),)

    def cost(self, columns: Columns) -> Cost:
        """Vectors along one axis."""
        machine = self.site.machine
        traffic = self.nest.traffic(machine, self.site.cold)
        return Cost(self.nest.cycles(machine, self.vector), traffic, columns["tasks"])


class Lanes:
    """Every lane of some vectors accumulates for itself, row by row."""

    name = "lanes"
    version = 1

    def open(self, site: Site) -> Space | Refusal:
        """Fits reductions along contiguous elements that can be taken apart."""
        nest = site.read(anchor_nest)
        if nest is None or not nest.reduce:
            return Refusal("no reduction whose loops are variables of the block")
        if not nests.stands_alone(site, nest):
            return Refusal("blocks that are no reduction and what follows it")
        if len(nest.info.block.writes) > 1 or not _joins(nest):
            return Refusal("a reduction that cannot be taken apart")
        return LanesSpace(site, nest, along(nest))


class LanesSpace(NestSpace):
    """See `Lanes`."""

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """See the module."""
        sch, name, epilogue = schedule, self.site.anchor, self.site.epilogue
        machine = self.site.machine
        blocks = into_lanes(sch, name, machine)
        last = epilogue or name
        _, reduce = inner_loops(sch, last, 0)
        rows = [x for x in sch.get_loops(last) if x not in reduce]
        if reduce and rows:
            sch.reorder(*rows, *reduce)
        before = [*blocks, name][: len(blocks) + (1 if epilogue is not None else 0)]
        if rows:
            for b in reversed(before):
                sch.compute_at(b, rows[-1])
        for b in (*blocks, name):
            finish_lanes(sch, b, len(rows), machine)
        share_out(sch, rows, decision["tasks"])


class Serial:
    """Any reduction, of tuples too: lanes are different results, accumulated in registers."""

    name = "serial"
    version = 1

    def open(self, site: Site) -> Space | Refusal:
        """Fits reductions that start from a value."""
        nest = site.read(anchor_nest)
        if nest is None or len(site.blocks) > 1 or not nest.reduce:
            return Refusal("no reduction whose loops are variables of the block")
        axes = memory_order(nest)
        if not axes or nest.info.block.init is None:
            return Refusal("a reduction that does not start from a value")
        vector = next((a for a in reversed(axes) if contiguous([a], nest)), axes[-1])
        return SerialSpace(site, nest, vector)


class SerialSpace(NestSpace):
    """See `Serial`."""

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """Copies of the results in registers, a tile of vectors."""
        sch, name, nest, vector = schedule, self.site.anchor, self.nest, self.vector
        outer = [a.loop for a in memory_order(nest) if a is not vector]
        reduce = [a.loop for a in nest.reduce]
        params = set(sch.func.buffers)
        copies = []
        for b in [w.buffer for w in nest.info.block.writes]:
            if b in params or sch.get_consumers(name):
                copies.append(sch.cache_write(name, b.name, "local"))
            else:
                sch.set_scope(name, b.name, "local")
        most = self.site.machine.lanes(widest(nest))
        lanes = min(most, 1 << max(0, vector.size.bit_length() - 1))
        vectors = max(1, min(TOGETHER, vector.size // lanes))
        tiles, several, lane = sch.split(vector.loop, [None, vectors, lanes])
        sch.reorder(*outer, tiles, *reduce, several, lane)
        for c in copies:
            sch.reverse_compute_at(c, tiles, preserve_unit_loops=True)
            loops = sch.get_loops(c)[len(outer) + 1 :]
            long = max(loops, key=lambda x: guess(sch.state.loop(x).extent))
            sch.reorder(*[x for x in loops if x != long], long)
            into_vectors(sch, long, lanes)
        write_out_sums(sch, name, reduce, [several, lane], len(outer) + 1)
        share_out(sch, [*outer, tiles], decision["tasks"])


class Chunks:
    """A long reduction to few results in chunks for the cores, joined at the end."""

    name = "chunks"
    version = 1

    def open(self, site: Site) -> Space | Refusal:
        """Fits reductions that can be taken apart, where the results alone give too few tasks."""
        nest = site.read(anchor_nest)
        if nest is None or not nest.reduce or site.machine.cores == 1:
            return Refusal("no reduction whose loops are variables of the block, or one core")
        if not nests.stands_alone(site, nest):
            return Refusal("blocks that are no reduction and what follows it")
        if len(nest.info.block.writes) > 1 or not _joins(nest):
            return Refusal("a reduction that cannot be taken apart")
        longest = max(nest.reduce, key=lambda a: a.size)
        counts = [c for c in _CHUNKS if c <= longest.size]
        if prod([a.size for a in nest.spatial]) >= _CHUNKS[0] or not counts:
            return Refusal("results enough for all cores")
        parts = {c: p for c in counts if (p := _chunked(site, longest.loop, c)) is not None}
        return ChunksSpace(site, longest.loop, parts) if parts else Refusal("no chunks fit")


class ChunksSpace(Space):
    """How many chunks; what each is computed by is settled."""

    def __init__(self, site: Site, loop: str, parts: dict[int, tuple[Choice, Choice]]) -> None:
        self.site, self.loop, self.parts = site, loop, parts
        self.domains = (Domain("chunks", tuple(parts)),)

    def cost(self, columns: Columns) -> Cost:
        """Both parts, one after the other."""
        table = {c: a.seconds + b.seconds for c, (a, b) in self.parts.items()}
        return Cost(0.0, others=[table[c] for c in columns["chunks"].tolist()])

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """Take the reduction apart, then schedule the parts."""
        outer, _ = schedule.split(self.loop, [decision["chunks"], None])
        schedule.rfactor(outer, 0)
        for choice in self.parts[decision["chunks"]]:
            choice.space.build(schedule, choice.decision)


def _chunked(site: Site, loop: str, count: int) -> tuple[Choice, Choice] | None:
    """The best for the chunks, and for what joins them; None where there is none."""
    sch = site.schedule.copy()
    outer, _ = sch.split(loop, [count, None])
    partial = sch.rfactor(outer, 0)
    parts = (Site(sch, (partial,), site.machine, site.constants),
             Site(sch, site.blocks, site.machine, site.constants))  # fmt: skip
    first, second = (cheapest(p, (Window(), Lanes(), Serial())) for p in parts)
    if first is None or second is None or first.decision["tasks"] == 1:
        return None  # nothing is gained on one core
    return first, second


def cheapest(site: Site, sketches: Sequence[Sketch]) -> Choice | None:
    """The cheapest decision of some sketches; None where none fits."""
    found = []
    for sketch in sketches:
        space = sketch.open(site)
        if not isinstance(space, Refusal):
            found.append(best(sketch, space, site.machine))
    return min([c for c in found if c is not None], key=lambda c: c.seconds, default=None)


def _joins(nest: Nest) -> bool:
    """Whether the reduction is one that rfactor takes apart."""
    body = nest.info.block.body
    return isinstance(body, BufferStore) and isinstance(
        body.value, Add | Mul | Min | Max | And | Or
    )


def along(nest: Nest) -> Axis:
    """The reduced axis along which operands are contiguous, else the last one."""
    return next((a for a in reversed(nest.reduce) if contiguous([a], nest)), nest.reduce[-1])


def contiguous(axes: list[Axis], nest: Nest) -> bool:
    """Whether operands are contiguous along one of some axes."""
    for a in axes:
        moves = [s for s in a.steps[1:] if not is_zero(s)]
        if a.size > 1 and moves and all(is_one(s) for s in moves):
            return True
    return False


# --------------------------------------------------------------------------------------- lanes


def into_lanes(sch: Schedule, name: str, machine: Machine) -> list[str]:
    """Take a reduction along contiguous elements apart: partial results a lane, joined in steps.

    Returns the new blocks in order; the block itself joins the last of them. None are made where
    the axis is short or not contiguous.
    """
    nest = _merged(sch, name)
    if nest is None or not _joins(nest) or not nest.reduce or len(nest.info.block.writes) > 1:
        return []
    k = next((a for a in reversed(nest.reduce) if contiguous([a], nest)), None)
    if k is None:
        return []
    lanes = machine.lanes(widest(nest))
    fixed = nests.constant(k)
    while fixed is not None and lanes > fixed:
        lanes //= 2
    if lanes < _STEP:
        return []
    vectors = TOGETHER
    while fixed is not None and vectors > 1 and fixed < 2 * vectors * lanes:
        vectors //= 2
    _, lane = sch.split(k.loop, [None, vectors * lanes])
    found = [_factored(sch, lane)]
    if vectors > 1:
        found.append(_joined(sch, name, vectors, lanes))
    if lanes > _STEP:
        found.append(_joined(sch, name, lanes // _STEP, _STEP))
    return found


def _factored(sch: Schedule, loop: str) -> str:
    partial = sch.rfactor(loop, -1)
    sch.set_scope(partial, 0, "local")
    return partial


def _joined(sch: Schedule, name: str, count: int, width: int) -> str:
    """Join `count` vectors of `width` partial results into one."""
    loop = sch.get_loops(name)[-1]
    _, lane = sch.split(loop, [count, width])
    return _factored(sch, lane)


def _merged(sch: Schedule, name: str) -> Nest | None:
    """The nest with reduced axes that follow one another in memory made one."""
    nest = nest_of(sch, name)
    if nest is None or len(nest.reduce) < 2:
        return nest
    inner = next((a for a in reversed(nest.reduce) if contiguous([a], nest)), None)
    if inner is None:
        return nest
    rest = [a for a in nest.reduce if a is not inner and nests.constant(a) != 1]

    def step(a: Axis) -> int:
        return min([guess(s) for s in a.steps[1:] if s is not None], default=0)

    run = nests.continued(inner, sorted(rest, key=step), 1)
    if len(run) == 1:
        return nest
    try:
        return nests.as_one(sch, name, nest, [a for a in nest.axes if a not in run], run)
    except ScheduleError:
        return nest


def inner_loops(sch: Schedule, name: str, depth: int) -> tuple[list[str], list[str]]:
    """The loops around a block below some depth: those of spatial variables, those of reduced."""
    over = [value for i, value in sch.state.realize(name).bindings if i.kind != "spatial"]
    reduced = {v.name for value in over for v in free_vars(value)}
    loops = sch.get_loops(name)[depth:]
    return [x for x in loops if x not in reduced], [x for x in loops if x in reduced]


def finish_lanes(sch: Schedule, name: str, depth: int, machine: Machine) -> None:
    """Vectors along the lanes inside the reduction, short loops written out."""
    spatial, reduce = inner_loops(sch, name, depth)
    if not reduce:
        return
    if spatial:
        sch.reorder(*reduce, *spatial)
    init = sch.decompose_reduction(name, reduce[0])
    fresh = sch.get_loops(init)[depth:]
    buffer = sch.state.realize(name).block.writes[0].buffer
    lanes = machine.lanes(dt.bytes_of(buffer.type))
    for last in [*fresh[-1:], *spatial[-1:]]:
        into_vectors(sch, last, lanes)
    for x in reduce:
        extent = sch.state.loop(x).extent
        if isinstance(extent, IntImm) and extent.value <= 2 * _STEP:
            sch.unroll(x)


def into_vectors(sch: Schedule, loop: str, lanes: int) -> None:
    """A loop in the lanes of vectors, which are unrolled where their number is known."""
    extent = sch.state.loop(loop).extent
    if not isinstance(extent, IntImm) or extent.value > lanes:
        several, loop = sch.split(loop, [None, lanes])
        if isinstance(extent, IntImm):
            sch.unroll(several)
    sch.vectorize(loop)
