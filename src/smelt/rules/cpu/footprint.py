"""What a tile of a nest meets: elements of buffers, loads of vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.expr import Expr, Var
from smelt.ir.walk import free_vars
from smelt.rules.cost import Array, Counts
from smelt.tir.nodes import Buffer, BufferLoad, BufferStore

from .analysis import guess
from .nest import Nest, is_zero, loads_along

Sizes = Mapping[Var, Counts]
"""Elements of a tile by axis; axes that are missing have one."""


@dataclass(frozen=True)
class Dim:
    """An index of an access: the axes that move it, by how many elements a step.

    steps  by axis; None: the index is not linear, each combination may be another element
    base   the constant part, where all else is steps; None: it is data, or unknown
    """

    axes: tuple[Var, ...]
    steps: tuple[int, ...] | None
    base: int | None
    extent: int

    def span(self, sizes: Sizes, spread: int = 0) -> Array:
        """Different indices in a tile; spread: how far apart the constants of several are."""
        every = np.asarray(_product([sizes.get(v, 1) for v in self.axes]), float)
        if self.steps is None:
            return np.asarray(np.minimum(every, self.extent))
        reach: Counts = 1.0 + spread
        for v, step in zip(self.axes, self.steps, strict=True):
            reach = reach + abs(step) * (np.asarray(sizes.get(v, 1)) - 1)
        return np.asarray(np.minimum(np.minimum(every * (1 + spread), reach), self.extent))


@dataclass(frozen=True)
class Access:
    """One access of a nest, index by index; number: its place among the nest's accesses."""

    number: int
    buffer: Buffer
    dims: tuple[Dim, ...]

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return dt.bytes_of(self.buffer.type)

    @property
    def shape(self) -> tuple[tuple[tuple[Var, ...], tuple[int, ...] | None], ...]:
        """What accesses have in common that differ by constants only."""
        return tuple([(d.axes, d.steps) for d in self.dims])


def accesses_of(nest: Nest, analyzer: Analyzer) -> list[Access]:
    """The accesses of a nest, the store first."""
    own = [a.var for a in nest.axes]
    return [_access(n, x, own, analyzer) for n, x in enumerate(nest.accesses)]


def _access(
    number: int, x: BufferLoad | BufferStore, own: Sequence[Var], analyzer: Analyzer
) -> Access:
    dims = []
    for index, extent in zip(x.indices, x.buffer.shape, strict=True):
        used = tuple([v for v in own if v in free_vars(index)])
        steps, base = _linear(index, used, analyzer)
        dims.append(Dim(used, steps, base, max(1, guess(extent))))
    return Access(number, x.buffer, tuple(dims))


def _linear(
    index: Expr, used: Sequence[Var], analyzer: Analyzer
) -> tuple[tuple[int, ...] | None, int | None]:
    """The steps of an index, and its constant part."""
    if not used:
        return (), value_of(analyzer.simplify(index))
    found = analyzer.linear(analyzer.simplify(index), list(used))
    if found is None or free_vars(found[1]) & set(used):
        return None, None
    steps = [value_of(found[0][v]) if v in found[0] else 0 for v in used]
    known = [s for s in steps if s is not None]
    if len(known) < len(steps):
        return None, None
    return tuple(known), value_of(analyzer.simplify(found[1]))


def grouped(accesses: Iterable[Access], apart: Var | None = None) -> list[list[Access]]:
    """Accesses to a buffer that differ by constants, together: they meet the same elements.

    apart  an axis in whose indices the constants have to be equal, too
    """
    groups: dict[object, list[Access]] = {}
    for x in accesses:
        known = all(d.base is not None for d in x.dims)
        along = tuple([d.base for d in x.dims if apart in d.axes]) if apart is not None else ()
        key = (x.buffer, x.shape, along) if known else x.number
        groups.setdefault(key, []).append(x)
    return list(groups.values())


def elements(group: Sequence[Access], sizes: Sizes, without: Var | None = None) -> Array:
    """Different elements of a buffer that a group of accesses meets in a tile.

    without  an axis whose indices do not count
    """
    each: list[Array] = []
    for n, d in enumerate(group[0].dims):
        bases = [b for x in group if (b := x.dims[n].base) is not None]
        spread = max(bases) - min(bases) if bases else 0
        inside = {v: s for v, s in sizes.items() if v is not without}
        each.append(d.span(inside, spread))
    box = _product(each)
    alone = [_product([d.span({v: s for v, s in sizes.items() if v is not without})
                       for d in x.dims]) for x in group]  # fmt: skip
    return np.asarray(np.minimum(box, sum(alone)))


def vector_loads(
    nest: Nest, accesses: Sequence[Access], sizes: Sizes, vector: Var, vectors: Counts, lanes: int
) -> Array:
    """Loads of a tile whose results are so many vectors along an axis; what several results read
    alike is loaded once."""
    (axis,) = [a for a in nest.axes if a.var is vector]
    total = np.asarray(0.0)
    for group in grouped(accesses[1:], vector):
        step = axis.steps[group[0].number]
        # of vectors that begin at different elements each is a load of its own
        count = elements(group, sizes, vector)
        each = 1.0 if is_zero(step) else np.asarray(vectors) * loads_along(step, lanes)
        total = total + count * each
    return total


def bytes_met(accesses: Sequence[Access], sizes: Sizes, line: int = 1) -> list[Array]:
    """Bytes of each group of accesses in a tile, in whole lines along the last dimension."""
    found = []
    for group in grouped(accesses):
        met = elements(group, sizes) * group[0].size
        last = group[0].dims[-1].span(sizes) * group[0].size if group[0].dims else np.asarray(line)
        found.append(met * np.maximum(1.0, line / np.maximum(last, 1.0)))
    return found


def _product(values: Sequence[Counts]) -> Counts:
    return prod(values) if values else 1.0
