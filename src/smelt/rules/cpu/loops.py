"""Steps that several sketches build with: register tiles, vectors, tasks for cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import IntImm
from smelt.ir.walk import free_vars
from smelt.rules.cost import Array
from smelt.rules.sketch import Domain
from smelt.target import Machine
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import SHARED_OUT, TASKS

from .analysis import analyzer_for, block_info, certain, guess, power, step_of

EDGES = 3
"""So few tiles of columns are written out: each has edges of its own."""
_WITHOUT = 4
"""The part of the tasks that there are to be where the largest of unknown sizes is 1."""
_WRITTEN_OUT = 64
"""Iterations of a loop after the reduction that are written out at most."""


def write_out(sch: Schedule, tile: Sequence[str]) -> None:
    """The loops of a register tile, if any: the last one in vectors, the others unrolled."""
    for loop in tile[:-1]:
        sch.unroll(loop)
    for loop in tile[-1:]:
        sch.vectorize(loop)


def in_registers(sch: Schedule, name: str, epilogue: str | None) -> str:
    """Keep a block's results in registers; the block that moves them to memory: the one behind it,
    or a copy."""
    if epilogue is None:
        copy = sch.cache_write(name, 0, "local")
        if sch.state.scope(sch.state.realize(name)).block.name != "root":
            sch.localize(copy)  # it runs over a part of the buffer
        return copy
    sch.set_scope(name, 0, "local")
    return epilogue


def write_out_sums(
    sch: Schedule, name: str, reduce: Sequence[str], tile: Sequence[str], depth: int,
    intrin: str = "",
) -> None:  # fmt: skip
    """The loops of a register tile inside those of a reduction, and of what starts its sums.

    intrin  what adds several products to every lane of a vector of the tile
    """
    for loop in [*reduce, *(tile if intrin else ())][:1]:
        init = sch.decompose_reduction(name, loop)
        write_out(sch, sch.get_loops(init)[depth:])
    if not intrin:
        write_out(sch, tile)
        return
    for loop in tile[:-1]:
        sch.unroll(loop)
    sch.tensorize(tile[-1], intrin)


def copy_out(sch: Schedule, name: str, depth: int, lanes: int, unrolled: bool = True) -> None:
    """A block from registers to memory: columns unrolled, the contiguous axis in vectors.

    unrolled  False: from memory, where there is more than registers hold
    """
    fresh = sch.get_loops(name)[depth:]
    vector = _contiguous_loop(sch, name, fresh) or fresh[-1]
    others = [x for x in fresh if x != vector]
    if others:
        sch.reorder(*others, vector)
    store = block_info(sch, name).store
    if store is not None and dt.is_int(store.buffer.type):
        lanes *= max(1, 4 // dt.bytes_of(store.buffer.type))  # whole registers of narrow results
    extent = sch.state.loop(vector).extent
    if isinstance(extent, IntImm) and extent.value > lanes:
        wide, vector = sch.split(vector, [None, lanes])
        others.append(wide)
    for x in others if unrolled else ():
        extent = sch.state.loop(x).extent
        if isinstance(extent, IntImm) and extent.value <= _WRITTEN_OUT:
            sch.unroll(x)  # the others run over a result that is wider than the tile
    sch.vectorize(vector)


def _contiguous_loop(sch: Schedule, name: str, fresh: Sequence[str]) -> str | None:
    """The loop among the innermost ones along which a block's result is contiguous."""
    info = block_info(sch, name)
    if info.store is None:
        return None
    analyzer = analyzer_for(sch.func, info.block)
    for i, value in sch.state.realize(name).bindings:
        if step_of(info.store, i.var, analyzer) == 1:
            used = [x for x in fresh if x in {v.name for v in free_vars(value)}]
            real = [x for x in used if guess(sch.state.loop(x).extent) > 1]
            if real or used:
                return (real or used)[-1]
    return None


def vectorize(sch: Schedule, loop: str, size: int, lanes: int, unroll: int) -> str:
    """Cut a loop into vectors, several to an iteration; returns the loop over the iterations."""
    lanes = min(lanes, power(size))
    vectors = -(-size // lanes)
    if vectors <= unroll:
        unroll = vectors
    elif size % lanes == 0:
        unroll = max([u for u in range(1, unroll + 1) if vectors % u == 0])
    outer, several, lane = sch.split(loop, [None, unroll, lanes])
    sch.unroll(several)
    sch.vectorize(lane)
    return outer


def tasks_of(extents: Sequence[Array | int]) -> Array:
    """The tasks that `parallelize` makes of nested loops with so many iterations."""
    tasks: Any = np.array(1)
    for e in extents:
        tasks = np.where(tasks >= TASKS, tasks, tasks * e)
    return np.asarray(tasks)


def parallelize(sch: Schedule, loops: Sequence[str]) -> None:
    """Outer loops become parallel until there are tasks enough."""
    tasks = 1
    for x in loops:
        if tasks >= TASKS:
            break
        sch.parallel(x)
        tasks *= certain(sch.state.loop(x).extent)


def task_domain(machine: Machine) -> Domain:
    """How many tasks a block may be divided into; 1: it is not."""
    counts = [1 << k for k in range(1, TASKS.bit_length())]
    return Domain("tasks", (1, *counts) if machine.cores > 1 else (1,))


def share_out(sch: Schedule, loops: Sequence[str], tasks: int) -> None:
    """Make the outermost loops (a perfect nest) parallel, in about so many tasks.

    A symbolic size may turn out to be 1: there are to be some tasks without it, too, where the
    other loops have so many iterations. Where it cannot be proved that they may be cut as one loop,
    each iteration is a task.
    """
    real = [x for x in loops if guess(sch.state.loop(x).extent) > 1]
    if tasks < 2 or not real:
        return
    used: list[str] = []
    count, largest = 1, 1
    for x in real:
        whole = not used or sch.state.loop(used[-1]).body is sch.state.loop(x)
        if not whole or count // largest >= (tasks if largest == 1 else tasks // _WITHOUT):
            break
        used.append(x)
        extent = sch.state.loop(x).extent
        count *= guess(extent)
        largest = max(largest, guess(extent) // certain(extent))
    tried = sch.copy()
    try:
        if largest > 1:
            tried.annotate(used[0], SHARED_OUT, tasks)
            for x in used:
                tried.parallel(x)
        else:
            first = tried.fuse(*used) if len(used) > 1 else used[0]
            if count > tasks:
                first, _ = tried.split(first, [tasks, None])
            tried.parallel(first)
    except ScheduleError:  # it cannot be proved that they may be cut as one loop
        parallelize(sch, real[:1])
        return
    sch.adopt(tried)
