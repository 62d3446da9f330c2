"""The numbers of a candidate that a learned model sees.

A decision of a sketch is known by its closed form and by its values; a program that was scheduled
by hand, or by a template, by its loops. Both fill the same row: what their costs are made of stands
in the same places.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import numpy as np

from smelt.rules.cost import Array, Cost, terms
from smelt.rules.sketch import Columns, Domain, Space
from smelt.target import Machine
from smelt.tir.nodes import PrimFunc

from .loops import ACCESS_NUMBERS, Loops

VERSION = 1
"""Changes whenever a column means something else: rows of different versions are not mixed."""

_LEVELS = 4
"""Levels of memory beyond the first cache."""
_SKETCHES, _SLOTS = 28, 35
"""Places for the names of sketches, and for the decisions of one."""
_NAMES = 61
"""Numbers for values that have names."""
_ACCESSES, _NESTED = 6, 8
"""Accesses and loops of a program that have columns of their own."""

_MACHINE = 1
_COST = _MACHINE + 7
_SKETCH = _COST + 2 * (_LEVELS + 1) + 5
_DECISION = _SKETCH + _SKETCHES
_TOTALS = _DECISION + _SLOTS
_ACCESS = _TOTALS + 8
_NEST = _ACCESS + ACCESS_NUMBERS * _ACCESSES
LENGTH = _NEST + 2 * _NESTED
"""Columns of a row: its kind, the machine, the cost; sketch and decisions; loops and accesses."""


def part_features(sketch: str, space: Space, columns: Columns, machine: Machine) -> Array:
    """A row for each decision of a sketch's space; float32.

    columns  the decisions' values by domain, as `Scored` has them
    """
    count = len(next(iter(columns.values()))) if columns else 1
    rows = np.zeros((count, LENGTH), np.float32)
    _machine(rows, machine)
    with np.errstate(divide="ignore", invalid="ignore"):
        _cost(rows, space.cost(columns), machine)
    rows[:, _SKETCH + sketch_place(sketch)] = 1.0
    for d in space.domains:
        rows[:, _DECISION + decision_place(sketch, d.name)] += _values(d, columns[d.name])
    return rows


def sketch_place(sketch: str) -> int:
    """The column, of those for sketches, that a name has in every version."""
    return crc32(sketch.encode()) % _SKETCHES


def decision_place(sketch: str, domain: str) -> int:
    """The column, of those for decisions, that a sketch's domain has in every version."""
    return crc32(f"{sketch}.{domain}".encode()) % _SLOTS


def loop_features(flat: PrimFunc | Loops, machine: Machine) -> Array:
    """The row of a lowered program: what its loops and accesses are; float32."""
    found = flat if isinstance(flat, Loops) else Loops(flat, machine)
    rows = np.zeros((1, LENGTH), np.float32)
    rows[:, 0] = 1.0
    _machine(rows, machine)
    _cost(rows, found.cost, machine)
    row: Array = rows[0]
    _put(row, _TOTALS, 8, _logs(found.totals))
    for n, numbers in enumerate(found.access_numbers(_ACCESSES)):
        _put(row, _ACCESS + ACCESS_NUMBERS * n, ACCESS_NUMBERS, _logs(numbers))
    trips, touched = found.levels(_NESTED)
    _put(row, _NEST, _NESTED, _logs(trips))
    _put(row, _NEST + _NESTED, _NESTED, _logs(touched))
    return row


def _machine(rows: Array, machine: Machine) -> None:
    """Its width, its cores, its caches."""
    sizes = [machine.cache(level).size for level in (1, 2, 3)]
    few = [machine.lanes(4), machine.vector_registers, machine.cores]
    _put(rows, _MACHINE, 7, _logs([*few, *sizes, machine.memory_all / machine.clock]))


def _cost(rows: Array, cost: Cost, machine: Machine) -> None:
    """Counts, and what part each has in the sum of seconds."""
    found = terms(cost, machine)
    counts = [cost.cycles, *_padded(cost.traffic), cost.tasks, cost.launches]
    total = np.maximum(sum(found.busy) + found.started, 1e-12)
    parts = [found.busy[0], *_padded(found.busy[1:])]
    tasks = np.asarray(cost.tasks, float)
    even = 1 / (found.share * np.minimum(tasks, machine.cores))
    columns = [
        *_logs(counts), *[p / total for p in parts], found.started / total, even,
        np.asarray(np.ceil(tasks / machine.cores) / np.maximum(1, tasks / machine.cores)),
    ]  # fmt: skip
    for n, c in enumerate(columns):
        rows[:, _COST + n] = c


def _padded(levels: Iterable[Array | float]) -> list[Array | float]:
    """A number for each level; where there are more, those of memory are the last."""
    given = list(levels)
    if len(given) > _LEVELS:
        given = [*given[: _LEVELS - 1], given[-1]]
    return [*given[:-1], *[0.0] * (_LEVELS - len(given)), *given[-1:]]


def _logs(values: Iterable[Array | float]) -> list[Array]:
    return [np.log2(1.0 + np.maximum(0.0, np.asarray(v, float))) for v in values]


def _put(rows: Array, at: int, most: int, values: Iterable[Array | float]) -> None:
    """Numbers in a stretch of columns that has room for so many."""
    for n, v in enumerate(list(values)[:most]):
        rows[..., at + n] = v


def _values(domain: Domain, column: Array) -> Array:
    """Magnitudes of a scale; of what has no order the name's number, which is the same for every
    kernel. One more where it is there at all."""
    if domain.ordered and not isinstance(domain.values[0], str):
        return np.asarray(1.0 + np.log2(1.0 + np.maximum(0, np.asarray(column, float))))
    numbers = np.zeros(len(column))
    for v in domain.values:
        numbers[np.asarray(column) == v] = crc32(str(v).encode()) % _NAMES
    return 1.0 + numbers
