"""Sliding windows and other reductions whose result stays in registers: depthwise convolutions,
pooling, sums over outer dimensions.

for batch, channel vectors, rows, column tiles: parallel    or channel vectors innermost
    acc[columns, vectors] = 0                     in registers
    for kernel rows:                              only those inside the image
        acc[j] += x[j + k] * w[k]                 columns and kernel columns unrolled
    epilogue: the elementwise work after it, from registers to memory
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.expr import Expr, IntImm, Var
from smelt.ir.walk import free_vars
from smelt.rules.cost import Array, Cost, from_others, own_cache, shares
from smelt.rules.sketch import Columns, Decision, Domain, Refusal, Site, Space
from smelt.tir.schedule import Schedule

from . import nest as nests
from .analysis import guess, power, quotient_of
from .loops import EDGES, copy_out, in_registers, share_out, task_domain, write_out_sums
from .nest import Axis, Nest, anchor_nest, is_one, is_zero, stands_alone

_UNROLLED = 11
"""A kernel with more columns than this keeps its loop."""
_REUSED = 4
"""Results that use a factor from which laying it out in the kernel pays."""
_FEWEST = 4
"""Lanes below which whole groups cost more than gathering them."""
_COLUMNS, _VECTORS = 14, 8
"""The largest tile."""
_ROOM = 1.3
"""How much larger than what stays in it a cache has to be."""
_APART = 1.25
"""How much longer pieces of a line take from beyond the second cache than lines in order."""


@dataclass
class Roles:
    """The axes of a window reduction.

    nest     the block with its accesses
    vector   the result's contiguous axis
    columns  the axis that is tiled, along which windows overlap; None where there is no such
    tap      the reduce axis that moves along the columns
    """

    nest: Nest
    vector: Axis
    columns: Axis | None
    tap: Axis | None


class Window:
    """A register tile of sums, or of what else joins, along columns and vectors of the result."""

    name = "window"
    version = 1

    def open(self, site: Site) -> Space | Refusal:
        """Fits reductions with one result that start from a value."""
        nest = site.read(anchor_nest)
        roles = None if nest is None else _roles(nest)
        if nest is None or roles is None:
            return Refusal("loops that are no variables of the block, or no result")
        block = nest.info.block
        if not nest.reduce or len(block.writes) != 1 or block.init is None:
            return Refusal("no reduction to one result that starts from a value")
        if not stands_alone(site, nest):
            return Refusal("blocks that are no reduction and what follows it")
        return WindowSpace(site, roles)


class WindowSpace(Space):
    """Columns and vectors of a tile, and the tasks."""

    def __init__(self, site: Site, roles: Roles) -> None:
        self.site, self.roles = site, roles
        nest = roles.nest
        lanes = site.machine.lanes(dt.bytes_of(nest.accesses[0].buffer.type))
        self.lanes = min(lanes, power(roles.vector.size), _whole(roles, lanes))
        self.whole = -(-roles.vector.size // self.lanes)
        self.columns = roles.columns.size if roles.columns is not None else 1
        vectors = [v for v in range(1, min(self.whole, _VECTORS) + 1) if self.whole % v == 0]
        self.domains = (
            Domain("columns", tuple(range(1, min(self.columns, _COLUMNS) + 1))),
            Domain("vectors", tuple(vectors)),
            Domain("order", self._orders(), ordered=False),
            task_domain(site.machine),
        )
        self.taps = roles.tap.size if roles.tap is not None else 1
        self.weights = len(nest.accesses) > 2
        read = [k for k, x in enumerate(nest.accesses) if k and x.buffer.name not in site.constants]
        # where only channels can be divided among cores nothing is decided by it
        self.given = float(sum(map(nest.bytes_of, read))) * (len(self._orders()) > 1)
        self.loads = max([_loads(roles, k, self.lanes, site.constants)
                          for k in range(len(nest.accesses))])  # fmt: skip
        self.jumps = self.loads == self.lanes > 1
        step = roles.columns.steps[0] if roles.columns is not None else None
        size = dt.bytes_of(nest.accesses[0].buffer.type)
        # columns that are stored far apart, between which others are met: no page is remembered
        apart = step is not None and guess(step) * size >= site.machine.page_bytes
        self.planes = site.machine.page_cycles if apart else 0.0
        moving = [k for k in range(1, len(nest.accesses)) if self._slides(k)]
        self.slides = any(not is_zero(roles.vector.steps[k]) for k in moving) or not moving

    def _orders(self) -> tuple[str, ...]:
        """What is walked inside: the image for some channels, whose factors stay near then, or the
        channels, so that memory is met in order."""
        roles = self.roles
        others = [k for k in range(1, len(roles.nest.accesses)) if not self._slides(k)]
        if all(is_zero(roles.vector.steps[k]) for k in others):
            return ("channels",)
        several = roles.columns is not None and self.whole > 1
        return ("image", "channels") if several else ("image",)

    def legal(self, columns: Columns) -> Array:
        """Accumulators and the factors of the taps fit into the registers; no more accumulators
        than hide the latency."""
        w, v = columns["columns"], columns["vectors"]
        machine = self.site.machine
        held = w * v
        if self.weights and self.taps <= _UNROLLED:
            held = held + self.taps * v
        most = 1 if self.jumps else max(1, round(2 * machine.latency))
        fits = (held + 3 <= machine.vector_registers) & (w * v <= most)
        return np.asarray(fits | ((w == 1) & (v == 1)))

    def cost(self, columns: Columns) -> Cost:
        """Whole tiles, and one ragged one a row."""
        nest, w, v = self.roles.nest, columns["columns"], columns["vectors"]
        (full, tail), outer = np.divmod(self.columns, w), self.roles.vector.size * self.columns
        row = full * self._tile(w, v) + np.where(tail > 0, self._tile(tail, v), 0.0)
        rows = prod([a.size for a in nest.spatial]) / outer
        cycles = row * (self.whole // v) * rows
        cycles *= 1 + 0.002 * v + 0.001 * w  # of equals the smaller: less code
        return Cost(cycles, self._traffic(columns), columns["tasks"])

    def _traffic(self, columns: Columns) -> tuple[Array, ...]:
        """Bytes from beyond each cache: what a tile reads stays there for the next, or not, and
        what a row of tiles reads for the next row. Where the image passes by for some channels,
        the lines that these are a part of come as often as there are parts of them.
        """
        nest, machine = self.roles.nest, self.site.machine
        wide, by_image = columns["vectors"] * self.lanes, columns["order"] == "image"
        size = dt.bytes_of(nest.accesses[0].buffer.type)
        lines = -(-wide * size // machine.line_bytes) * machine.line_bytes / (wide * size)
        lines = np.where(by_image & (columns["vectors"] < self.whole), lines, 1.0)
        across = np.where(by_image, wide * lines, self.roles.vector.size)
        tile, of_tiles = self._read(wide, columns["columns"])
        row, of_rows = self._read(across, np.full(len(wide), self.columns))
        found = []
        for level, (n, share) in enumerate(
            zip(nest.traffic(machine, self.site.cold), shares(machine), strict=True)
        ):
            read = np.where(_ROOM * row <= share, n, np.maximum(of_rows, n))
            read = np.where(_ROOM * tile <= share, read, np.maximum(of_tiles, n))
            apart = np.where(by_image & (level > 0), _APART, 1.0)
            found.append(np.where(nest.moved > share, read * lines * apart, n))
            if level == own_cache(machine):  # each core takes some channels of all rows
                others = from_others(machine, columns["tasks"], ~by_image)
                found[level] = found[level] + self.given * others
        return tuple(found)

    def _read(self, wide: Array, columns: Array) -> tuple[Array, Array]:
        """Bytes that a part of the result reads, of so many channels and columns, and all parts
        together."""
        roles, nest = self.roles, self.roles.nest
        part = {id(roles.vector): wide, id(roles.columns): columns}
        sizes = [part.get(id(a), a.size if a.kind != "spatial" else 1) for a in nest.axes]
        parts = nest.every / np.prod(np.broadcast_arrays(*sizes), axis=0)
        total = np.zeros(len(wide))
        for k, access in enumerate(nest.accesses[1:], 1):
            count = np.ones(len(wide))
            for a, n in zip(nest.axes, sizes, strict=True):
                if is_zero(a.steps[k]) or (a is roles.tap and self._slides(k)):
                    continue
                overlap = a is roles.columns and roles.tap is not None
                count = count * ((n - 1) * _stride(roles) + self.taps if overlap else n)
            whole = prod(map(guess, access.buffer.shape))
            total += np.minimum(count, whole) * dt.bytes_of(access.buffer.type)
        return total, total * parts

    def _tile(self, w: Array, v: Array) -> Array:
        """Cycles of one tile: arithmetic, loads or latency, then the stores."""
        roles, machine, taps = self.roles, self.site.machine, self.taps
        rows = prod([a.size for a in roles.nest.reduce if a is not roles.tap])
        read = (w - 1) * min(_stride(roles), taps) + taps
        loads = (v if self.slides else 1) * read * self.loads
        loads = loads + (v * taps if self.weights else 0)
        busy = roles.nest.info.instructions / machine.multiply_adds + roles.nest.computed
        row = np.maximum(w * v * taps * busy, loads / machine.loads)
        row = np.maximum(row, float(machine.latency * taps)) + 2 + taps * roles.nest.pages(machine)
        ends = v / machine.stores + self.planes
        return np.asarray(rows * row + w * ends + 6)

    def _slides(self, k: int) -> bool:
        """Whether an access moves along the columns."""
        return self.roles.columns is not None and not is_zero(self.roles.columns.steps[k])

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """See the module."""
        sch, name, roles = schedule, self.site.anchor, self.roles
        epilogue = in_registers(sch, name, self.site.epilogue)
        by_image = decision["order"] == "image"
        outer, inner = self._tiled(sch, decision["columns"], decision["vectors"], by_image)
        at = outer[-1]
        sch.reverse_compute_at(epilogue, at, preserve_unit_loops=True)
        copy_out(sch, epilogue, len(outer), self.lanes)
        write_out_sums(sch, name, [a.loop for a in _tap_order(roles)], inner, len(outer))
        taps = None if roles.tap is None else value_of(roles.tap.extent)
        if roles.tap is not None and taps is not None and taps <= _UNROLLED:
            sch.unroll(roles.tap.loop)
        edges = sch.state.loop(at).extent
        if by_image and len(outer) > 1 and isinstance(edges, IntImm) and edges.value <= EDGES:
            sch.unroll(outer.pop())
        share_out(sch, outer, decision["tasks"])

    def _tiled(
        self, sch: Schedule, width: int, vectors: int, by_image: bool
    ) -> tuple[list[str], list[str]]:
        """Cut columns and vectors; returns the outer loops and the tile's loops."""
        roles = self.roles
        self._pack(sch, vectors * self.lanes)
        v_o, v_i, v_l = sch.split(roles.vector.loop, [None, vectors, self.lanes])
        order = nests.memory_order(roles.nest)
        outer = [a.loop for a in order if a is not roles.vector and a is not roles.columns]
        inner: list[str] = [v_i, v_l]
        if roles.columns is not None:
            c_o, c_i = sch.split(roles.columns.loop, [None, width])
            inner = [c_i, *inner]
            outer = [*outer[:-1], v_o, *outer[-1:], c_o] if by_image else [*outer, c_o, v_o]
        else:
            outer = [*outer, v_o]
        sch.reorder(*outer, *[a.loop for a in _tap_order(roles)], *inner)
        return outer, inner

    def _pack(self, sch: Schedule, panel: int) -> None:
        """Lay the factors out in panels of as many channels as a tile has."""
        roles, name = self.roles, self.site.anchor
        for k, x in enumerate(roles.nest.accesses[1:], 1):
            if not _packs(roles, k, self.site.constants):
                continue
            target = x.buffer.name
            if target not in self.site.constants:
                copy = sch.state.realize(sch.cache_read(name, x.buffer.name, "global"))
                target = copy.block.writes[0].buffer.name
            at = x.indices.index(roles.vector.var)

            def panels(*index: Expr, at: int = at) -> list[Expr]:
                rest = [e for d, e in enumerate(index) if d != at]
                return [index[at] // panel, *rest, index[at] % panel]

            sch.transform_layout(name, target, panels, pad_value=0.0)


def _roles(nest: Nest) -> Roles | None:
    spatial = [a for a in nest.spatial if a.size > 1] or nest.spatial
    if not spatial:
        return None
    ordered = sorted(
        spatial, key=lambda a: guess(a.steps[0]) if a.steps[0] is not None else 1 << 40
    )
    vector = next((a for a in ordered if is_one(a.steps[0])), ordered[0])
    taps = {a.var: a for a in nest.reduce}
    # the columns of a tile share loads only where their distance is known
    rest = [a for a in ordered if a is not vector and None not in a.steps]
    for a in rest:
        tap = _tap_of(nest, a, taps)
        if tap is not None:
            return Roles(nest, vector, a, tap)
    return Roles(nest, vector, rest[0] if rest else None, None)


def _tap_of(nest: Nest, axis: Axis, taps: dict[Var, Axis]) -> Axis | None:
    """The reduce axis that stands in one index with a spatial one."""
    used = [free_vars(e) for x in nest.accesses[1:] for e in x.indices]
    return next((taps[v] for vs in used if axis.var in vs for v in vs if v in taps), None)


def _tap_order(roles: Roles) -> list[Axis]:
    """The reduce axes, the columns' tap last."""
    rest = [a for a in roles.nest.reduce if a is not roles.tap]
    return rest if roles.tap is None else [*rest, roles.tap]


def _loads(roles: Roles, k: int, lanes: int, constants: Collection[str]) -> float:
    """Loads, or stores, for a vector of an access: one a lane where neighbours along the vector
    axis are no neighbours in memory."""
    step = roles.vector.steps[k]
    if is_zero(step) or (k and _packs(roles, k, constants)):
        return 1.0
    access = roles.nest.accesses[k]
    if step is None and quotient_of(access, roles.vector.var) is not None:
        # the lanes of neighbouring groups stand close together: a load and a shuffle; those of
        # narrow numbers are loaded and put in place one by one
        return 2.0 if dt.bytes_of(access.buffer.type) >= 4 else 2.0 * lanes
    return nests.loads_along(step, lanes) if k or is_one(step) else float(lanes)


def _packs(roles: Roles, k: int, constants: Collection[str]) -> bool:
    """Whether an access is to factors that are laid out in panels of the vector axis."""
    x, others = roles.nest.accesses[k], [a for a in roles.nest.spatial if a is not roles.vector]
    plain = all(isinstance(i, Var | IntImm) for i in x.indices)
    alone = all(is_zero(a.steps[k]) for a in others) and not is_zero(roles.vector.steps[k])
    if not plain or not alone or is_one(roles.vector.steps[k]):
        return False
    return x.buffer.name in constants or any(a.size > _REUSED for a in others)


def _whole(roles: Roles, lanes: int) -> int:
    """As many lanes as never stand in parts of groups: one group, or some whole ones."""
    for x in roles.nest.accesses[1:]:
        size = quotient_of(x, roles.vector.var)
        if size is not None and size % lanes and lanes % size:
            return max(size & -size, _FEWEST)
    return lanes


def _stride(roles: Roles) -> int:
    """Taps that the window moves on from one column to the next."""
    if roles.columns is None or roles.tap is None:
        return 1
    for k in range(1, len(roles.nest.accesses)):
        a, b = roles.columns.steps[k], roles.tap.steps[k]
        if isinstance(a, IntImm) and isinstance(b, IntImm) and a.value and b.value:
            return max(1, a.value // b.value)
    return 1
