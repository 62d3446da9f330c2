"""What a schedule costs in seconds on a machine, from counts that sketches give in closed form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from smelt.target import Machine

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Counts: TypeAlias = Array | float


@dataclass(frozen=True)
class Cost:
    """Counts of a whole kernel, a number for each decision.

    cycles    of one core, were everything in its nearest cache: the sum over all tiles of the
              busiest unit or the longest chain
    traffic   bytes that come from beyond the first cache, beyond the second, ...; the last are
              those from memory
    tasks     pieces of equal work that cores take one by one; 1: the kernel runs on one core
    launches  parallel loops that are started one after another
    others    seconds of parts that are chosen already
    """

    cycles: Counts
    traffic: tuple[Counts, ...] = ()
    tasks: Counts = 1
    launches: Counts = 1
    others: Counts | list[float] = 0.0


_UNEVEN = 0.1
"""How much longer the last core takes where each has one task."""
_OVERLAP = 0.2
"""The part of what is not the bottleneck that adds to it."""


@dataclass(frozen=True)
class Terms:
    """What the time of a kernel on all cores is made of, a number for each decision.

    share    of the work, what the last core to end does
    busy     seconds of the computation, then of each level's traffic; they overlap
    started  seconds to start loops and to claim tasks
    """

    share: Array
    busy: list[Array]
    started: Array


def terms(cost: Cost, machine: Machine) -> Terms:
    """The parts that `seconds` adds up."""
    tasks = np.asarray(cost.tasks, float)
    together = np.minimum(tasks, machine.cores)
    share = np.ceil(tasks / together) / tasks
    # cores are not equally fast all the time
    share *= np.where(tasks > 1, 1 + _UNEVEN * together / tasks, 1.0)
    parts = [np.asarray(cost.cycles) / machine.clock * share]
    for level, crossing in enumerate(cost.traffic):
        if level + 1 < len(machine.caches):
            near = machine.caches[level + 1]
            parts.append(np.asarray(crossing) / (near.bytes_per_cycle * machine.clock) * share)
        else:
            all_cores = np.asarray(crossing) / machine.memory_all
            parts.append(np.maximum(np.asarray(crossing) / machine.memory * share, all_cores))
    started = np.where(tasks > 1, cost.launches * machine.launch + tasks * machine.task, 0.0)
    return Terms(share, parts, started)


def seconds(cost: Cost, machine: Machine) -> Array:
    """The time of a kernel on all cores of a machine."""
    found = terms(cost, machine)
    stacked = np.stack(np.broadcast_arrays(*found.busy))
    longest = stacked.max(axis=0)
    total = longest + _OVERLAP * (stacked.sum(axis=0) - longest)
    return np.asarray(total + found.started + np.asarray(cost.others))


def flows(moved: float, machine: Machine) -> tuple[float, ...]:
    """Bytes from beyond each cache of what is touched once: all of them where they do not fit."""
    return tuple([moved * (n == 0 or moved > size) for n, size in enumerate(shares(machine))])


def own_cache(machine: Machine) -> int:
    """The farthest cache that cores have for themselves; -1: there is none."""
    return max([n for n, c in enumerate(machine.caches) if c.cores <= 1], default=-1)


def from_others(machine: Machine, tasks: Counts, by_rows: Array, readers: Counts = 1) -> Array:
    """How often bytes that kernels before have written come from another core's caches. Each core
    has written some rows, and reads the same ones again where tasks are rows, too.

    readers  cores that read all rows, where tasks are something else
    """
    # what one core reads alone it reads so by any sketch: it decides nothing
    apart = readers * (1 - 1 / machine.cores)
    return np.where((np.asarray(tasks) > 1) & ~by_rows, apart, 0.0)


def page_cycles(steps: Iterable[tuple[int, int]], machine: Machine) -> float:
    """Cycles to find the page of an element, on average, of an operand that is read in steps.

    steps  of nested loops: iterations, and the bytes from one to the next
    """
    found = [(count, min(1.0, size / machine.page_bytes)) for count, size in steps]
    pages = prod([max(1.0, count * part) for count, part in found])
    each = machine.page_cycles * (pages > machine.pages)
    each += machine.far_page_cycles * (pages > machine.far_pages)
    return each * max([part for _, part in found], default=0.0)


def shares(machine: Machine) -> list[float]:
    """Bytes of each cache that a core has where all that may be used work."""
    return [c.size / max(1, min(c.cores, machine.cores)) for c in machine.caches]


def tile_cycles(
    machine: Machine, multiply_adds: Counts, loads: Counts, chain: Counts, lanes: int
) -> Array:
    """Cycles of a step: the busiest unit, or the longest chain of dependent multiply-adds.

    multiply_adds, loads  vectors of so many lanes of float32
    chain                 multiply-adds on the same accumulator
    """
    rate = machine.multiply_adds * machine.vector_bytes / max(4 * lanes, machine.unit_bytes)
    units = [
        np.asarray(multiply_adds) / rate,
        np.asarray(loads) / machine.loads,
        np.asarray(chain) * float(machine.latency),
    ]
    return np.asarray(np.maximum.reduce(np.broadcast_arrays(*units)))
