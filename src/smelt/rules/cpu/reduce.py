"""Reductions: sums, extremes, products, logical ones and tuples such as argmax.

Where the result's contiguous dimension is kept, vectors run along it and accumulate in registers.
Where the contiguous dimension is reduced, every lane of some vectors accumulates for itself:

    for rows: parallel
        partial[vectors, lanes] = 0
        for k: partial += x                 the tail masked
        lanes[l] = sum of the vectors, then the sum of the lanes in two steps
"""

from __future__ import annotations

from math import prod

from smelt.ir import dtype as dt
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import Add, And, IntImm, Max, Min, Mul, Or
from smelt.ir.walk import free_vars
from smelt.target import Machine
from smelt.tir.nodes import BufferStore
from smelt.tir.schedule import Schedule

from . import elementwise
from .analysis import block_info
from .elementwise import Axis, Nest
from .window import accumulate

_VECTORS = 4
"""Vectors that accumulate side by side, so that latency does not matter."""
_STEP = 4
"""Lanes that are joined in one step."""


def schedule_reduce(sch: Schedule, machine: Machine) -> bool:
    """One reduction with elementwise work around it."""

    return elementwise.schedule_around(sch, machine, reduce_block)


def reduce_block(sch: Schedule, name: str, epilogue: str | None, machine: Machine) -> bool:
    """One reduction at the root, and the elementwise block that follows it."""
    _chunks(sch, name, machine)
    nest = elementwise.nest_of(sch, name)
    if nest is None:
        return False
    if epilogue is not None and block_info(sch, name).store is None:
        return False
    if len(nest.info.block.writes) > 1 or not _joins(nest):
        _serial(sch, name, nest, machine)
        if epilogue is not None:
            elementwise.schedule_nest(sch, epilogue, machine)
        return True
    if not _contiguous(nest.reduce, nest) and _contiguous(nest.spatial, nest):
        return accumulate(sch, name, epilogue, machine)
    return _rows(sch, name, nest, epilogue, machine)


def _joins(nest: Nest) -> bool:
    """Whether the reduction is one that rfactor takes apart."""
    body = nest.info.block.body
    return isinstance(body, BufferStore) and isinstance(
        body.value, Add | Mul | Min | Max | And | Or
    )


def _contiguous(axes: list[Axis], nest: Nest) -> bool:
    """Whether operands are contiguous along one of some axes."""
    for a in axes:
        moves = [s for s in a.steps[1:] if not elementwise.is_zero(s)]
        if a.size > 1 and moves and all(elementwise.is_one(s) for s in moves):
            return True
    return False


def _chunks(sch: Schedule, name: str, machine: Machine) -> None:
    """Cut the reduction into chunks for the cores where the result alone gives too few tasks."""
    nest = elementwise.nest_of(sch, name)
    if nest is None or machine.cores == 1 or not _joins(nest) or not nest.reduce:
        return
    tasks = min(machine.cores * 4, int(nest.cost() / elementwise.TASK_BYTES))
    rows = prod([a.size for a in nest.spatial])
    first = max(nest.reduce, key=lambda a: a.size)
    if rows * 2 > tasks or tasks < 2 or first.size < tasks or len(nest.info.block.writes) > 1:
        return
    outer, _ = sch.split(first.loop, [tasks, None])
    partial = sch.rfactor(outer, 0)
    reduce_block(sch, partial, None, machine)


def _rows(sch: Schedule, name: str, nest: Nest, epilogue: str | None, machine: Machine) -> bool:
    """Reduce along the contiguous axis: lanes first, row by row."""
    cost = nest.cost()
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
    elementwise.share_out(sch, rows, cost, machine)
    return True


def _serial(sch: Schedule, name: str, nest: Nest, machine: Machine) -> None:
    """Any reduction, of tuples too: lanes are different results, accumulated in registers."""
    axes = elementwise.memory_order(nest)
    if not axes or nest.info.block.init is None:
        return
    vector = next((a for a in reversed(axes) if _contiguous([a], nest)), axes[-1])
    outer = [a.loop for a in axes if a is not vector]
    reduce = [a.loop for a in nest.reduce]
    params = set(sch.func.buffers)
    copies = []
    for b in [w.buffer for w in nest.info.block.writes]:
        if b in params or sch.get_consumers(name):
            copies.append(sch.cache_write(name, b.name, "local"))
        else:
            sch.set_scope(name, b.name, "local")
    lanes = min(machine.lanes(elementwise.widest(nest)), 1 << max(0, vector.size.bit_length() - 1))
    vectors = max(1, min(_VECTORS, vector.size // lanes))
    tiles, several, lane = sch.split(vector.loop, [None, vectors, lanes])
    sch.reorder(*outer, tiles, *reduce, several, lane)
    for c in copies:
        sch.reverse_compute_at(c, tiles, preserve_unit_loops=True)
        loops = sch.get_loops(c)[len(outer) + 1 :]
        long = max(loops, key=lambda x: elementwise.guess(sch.state.loop(x).extent))
        sch.reorder(*[x for x in loops if x != long], long)
        into_vectors(sch, long, lanes)
    elementwise.write_out_sums(sch, name, reduce, [several, lane], len(outer) + 1)
    elementwise.share_out(sch, [*outer, tiles], nest.cost() * 4, machine)


# --------------------------------------------------------------------------------------- lanes


def into_lanes(sch: Schedule, name: str, machine: Machine) -> list[str]:
    """Take a reduction along contiguous elements apart: partial results a lane, joined in steps.

    Returns the new blocks in order; the block itself joins the last of them. None are made where
    the axis is short or not contiguous.
    """
    nest = _merged(sch, name)
    if nest is None or not _joins(nest) or not nest.reduce or len(nest.info.block.writes) > 1:
        return []
    k = next((a for a in reversed(nest.reduce) if _contiguous([a], nest)), None)
    if k is None:
        return []
    lanes = machine.lanes(elementwise.widest(nest))
    fixed = elementwise.constant(k)
    while fixed is not None and lanes > fixed:
        lanes //= 2
    if lanes < _STEP:
        return []
    vectors = _VECTORS
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
    nest = elementwise.nest_of(sch, name)
    if nest is None or len(nest.reduce) < 2:
        return nest
    inner = next((a for a in reversed(nest.reduce) if _contiguous([a], nest)), None)
    if inner is None:
        return nest
    rest = [a for a in nest.reduce if a is not inner and elementwise.constant(a) != 1]

    def step(a: Axis) -> int:
        return min([elementwise.guess(s) for s in a.steps[1:] if s is not None], default=0)

    run = elementwise.continued(inner, sorted(rest, key=step), 1)
    if len(run) == 1:
        return nest
    try:
        return elementwise.as_one(sch, name, nest, [a for a in nest.axes if a not in run], run)
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
