"""Any block whose loops are its variables: tiles at two levels.

    for outer tiles: parallel
        for register tiles of an outer one
            acc[rows, columns, vectors] = 0          in registers
            for the reduction:                       short dimensions of it written out
                acc = combine(acc, value)            the tile unrolled, lanes vectorised
            epilogue: what follows, from registers to memory

The vector axis is any dimension of the result; the register tile may have several others, so that
operands that several results share are loaded once. The space is composed of rules, each of which
brings its own domains, its share of the cost, and its steps of the schedule: see `Rule`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.expr import EQ, GE, GT, LE, LT, NE, Call, Cast, Expr, Max, Min, Mul, Select, Var
from smelt.rules.cost import Array, Cost, Counts, shares
from smelt.rules.sketch import Columns, Decision, Domain, Refusal, Site, Space
from smelt.tir.nodes import BufferLoad
from smelt.tir.rewrite import loads
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import expr_nodes

from . import nest as nests
from .analysis import analyzer_for, power
from .footprint import accesses_of, bytes_met, vector_loads
from .loops import in_registers, share_out, task_domain, write_out, write_out_sums
from .nest import Axis, Nest, anchor_nest, is_one, is_zero, loads_along

_SIZES = (1, 2, 3, 4, 6, 8)
"""Elements of a register tile along a dimension, or vectors of them."""
_TILED = 3
"""So many dimensions beside the vectors' may be tiled, those that share most."""
_OUTER = (4, 16, 64)
"""Register tiles of an outer tile along a dimension."""
_WRITTEN = 16
"""Steps of a reduction that are written out at most."""
_CODE = 160
"""Operations on vectors that are written out at most."""
_ROOM = 0.75
"""The part of a cache that a tile may fill."""
_UNSURE = 1.15
"""How much longer than predicted it may take: a sketch that knows the block is preferred."""


@dataclass
class Tile:
    """What decisions with the same vector axis say, as arrays.

    vector    the axis along which vectors lie
    register  elements of a register tile, by axis of the result; those along the vector axis
              are whole vectors
    vectors   of a register tile along the vector axis
    written   steps of the reduction that are written out, by axis
    outer     elements of an outer tile, by axis of the result; missing: all
    tasks     pieces for cores
    """

    space: GenericSpace
    columns: Columns
    vector: Axis
    register: dict[Var, Counts] = field(default_factory=dict)
    vectors: Counts = 1
    written: dict[Var, Counts] = field(default_factory=dict)
    outer: dict[Var, Counts] = field(default_factory=dict)
    tasks: Counts = 1

    @property
    def accumulators(self) -> Counts:
        """Vectors of results in a register tile."""
        rows = [n for v, n in self.register.items() if v is not self.vector.var]
        return self.vectors * prod(rows)

    @property
    def count(self) -> Array:
        """Register tiles of the whole result."""
        return self._number(self.register)

    @property
    def steps(self) -> Counts:
        """Times that the loop over the reduction turns, for a tile."""
        found: Counts = 1.0
        for a in self.space.nest.reduce:
            found = found * -(-a.size // np.asarray(self.written.get(a.var, 1)))
        return found

    def _number(self, sizes: Mapping[Var, Counts]) -> Array:
        total = np.asarray(1.0)
        for a in self.space.nest.spatial:
            total = total * -(-a.size // np.asarray(sizes.get(a.var, a.size)))
        return total


@dataclass
class Built:
    """A schedule on the way.

    outer, middle, reduce, written, inner  loops that end up in this order, by axis
    lanes                                  the loop over the lanes of a vector, the innermost
    copies                                 blocks that take results from registers to memory
    """

    schedule: Schedule
    space: GenericSpace
    vector: Axis
    outer: dict[Var, str]
    middle: dict[Var, str] = field(default_factory=dict)
    reduce: dict[Var, str] = field(default_factory=dict)
    written: dict[Var, str] = field(default_factory=dict)
    inner: dict[Var, str] = field(default_factory=dict)
    lanes: str = ""
    copies: list[str] = field(default_factory=list)


class Rule:
    """A part of a space. Rules of one's own inherit from it and overwrite what they need.

    The names of its domains begin with the rule's name, so that rules do not get in each other's
    way.
    """

    name = "rule"

    def domains(self, space: GenericSpace) -> tuple[Domain, ...]:
        """The decisions that it brings; a space is their product over all rules."""
        return ()

    def shape(self, tile: Tile) -> None:
        """Set what its decisions say of the tile."""

    def legal(self, tile: Tile) -> Array | bool:
        """Which decisions can be built."""
        return True

    def cost(self, tile: Tile, cost: Cost) -> Cost:
        """The cost of the rules before it, with its own share."""
        return cost

    def split(self, built: Built, decision: Decision) -> None:
        """Cut loops; called before they are put in order."""

    def finish(self, built: Built, decision: Decision) -> None:
        """What is done once the loops are in order and results stand in registers."""


class Registers(Rule):
    """Vectors along a dimension, several of them, and rows of several others, all written out."""

    name = "tile"

    def domains(self, space: GenericSpace) -> tuple[Domain, ...]:
        """The vector axis, then elements (or vectors) along each dimension."""
        found = [Domain("tile.vector", tuple(range(len(space.candidates))), ordered=False)]
        for n, a in enumerate(space.tiled):
            sizes = [s for s in _SIZES if s <= a.size]
            found.append(Domain(f"tile.{n}", tuple(sizes)))
        return tuple(found)

    def shape(self, tile: Tile) -> None:
        """Sizes by axis; axes that are not tiled have one element a tile."""
        space = tile.space
        tile.register = {a.var: 1 for a in space.nest.spatial}
        for n, a in enumerate(space.tiled):
            tile.register[a.var] = tile.columns[f"tile.{n}"]
        tile.vectors = tile.register[tile.vector.var]
        tile.register[tile.vector.var] = tile.vectors * space.lanes(tile.vector)

    def legal(self, tile: Tile) -> Array | bool:
        """Results and what they are made of fit into registers; no more vectors than there are."""
        space, held = tile.space, np.asarray(tile.accumulators * len(tile.space.results))
        whole = -(-tile.vector.size // space.lanes(tile.vector))
        few = held + 3 <= space.site.machine.vector_registers
        code = held * prod(tile.written.values()) * max(1.0, space.work) <= _CODE
        fits = np.asarray((few & code) | (held <= len(space.results)))
        return fits & (np.asarray(tile.vectors) <= whole)

    def cost(self, tile: Tile, cost: Cost) -> Cost:
        """Cycles: the busiest unit or the longest chain, and what surrounds a tile."""
        space, machine = tile.space, tile.space.site.machine
        lanes = space.lanes(tile.vector)
        sizes = {**tile.register, **tile.written}
        read = vector_loads(space.nest, space.accesses, sizes, tile.vector.var, tile.vectors, lanes)
        done = tile.accumulators * prod(tile.written.values())
        busy = np.maximum(done * space.work / machine.multiply_adds, read / machine.loads)
        busy = busy + done * space.nest.computed
        if space.nest.reduce:
            busy = np.maximum(busy, float(machine.latency) * prod(tile.written.values()))
        wrote = 1.0 if is_one(tile.vector.steps[0]) else float(lanes)
        ends = tile.accumulators * wrote * len(space.results) / machine.stores
        pages = space.nest.pages(machine) * prod(tile.written.values())
        if space.nest.reduce:
            each = tile.steps * (busy + pages + 2.0) + ends + 8.0
        else:
            each = np.maximum(busy, ends) + 2.0
        crowded = 1 + 0.002 * np.asarray(tile.accumulators)  # of equals the smaller: less code
        return replace(cost, cycles=cost.cycles + tile.count * each * crowded)

    def split(self, built: Built, decision: Decision) -> None:
        """Cut rows, then vectors."""
        sch, space = built.schedule, built.space
        for n, a in enumerate(space.tiled):
            size = decision[f"tile.{n}"]
            if a is built.vector:
                continue
            if size > 1:
                built.outer[a.var], built.inner[a.var] = sch.split(built.outer[a.var], [None, size])
        vectors = decision[f"tile.{space.tiled.index(built.vector)}"]
        var, lanes = built.vector.var, space.lanes(built.vector)
        cut = sch.split(built.outer[var], [None, vectors, lanes])
        built.outer[var], built.inner[var], built.lanes = cut


class Steps(Rule):
    """Short dimensions of the reduction are written out, so that steps share what they load."""

    name = "steps"

    def domains(self, space: GenericSpace) -> tuple[Domain, ...]:
        """How many of them."""
        return (Domain("steps.written", tuple(range(len(space.short) + 1))),)

    def shape(self, tile: Tile) -> None:
        """All of an axis, or one step."""
        for n, a in enumerate(tile.space.short):
            tile.written[a.var] = np.where(tile.columns["steps.written"] > n, a.size, 1)

    def split(self, built: Built, decision: Decision) -> None:
        """They stand inside of the others."""
        for a in built.space.short[: decision["steps.written"]]:
            built.written[a.var] = built.reduce.pop(a.var)


class Caches(Rule):
    """Outer tiles, so that what register tiles read stays near, and what comes from afar."""

    name = "outer"

    def domains(self, space: GenericSpace) -> tuple[Domain, ...]:
        """Register tiles along dimensions; 0: all."""
        near = shares(space.site.machine)
        moved = space.nest.moved
        found = []
        for n, a in enumerate(space.tiled):
            known = nests.constant(a) is not None and bool(near) and moved > near[0]
            sizes = [s for s in _OUTER if known and 2 * s <= a.size] if space.nest.reduce else []
            found.append(Domain(f"outer.{n}", (0, *sizes[-1:])))
        return tuple(found)

    def shape(self, tile: Tile) -> None:
        """Elements by axis."""
        for n, a in enumerate(tile.space.tiled):
            times = tile.columns[f"outer.{n}"]
            size = np.where(times > 0, times * np.asarray(tile.register[a.var]), a.size)
            tile.outer[a.var] = np.minimum(size, a.size)

    def legal(self, tile: Tile) -> Array | bool:
        """There is more than one tile."""
        fits = np.asarray(True)
        for n, a in enumerate(tile.space.tiled):
            times = np.asarray(tile.columns[f"outer.{n}"])
            fits = fits & ((times == 0) | (times * np.asarray(tile.register[a.var]) < a.size))
        return fits

    def cost(self, tile: Tile, cost: Cost) -> Cost:
        """Bytes from beyond each cache: what a tile meets that stays there, for each of them."""
        space, machine = tile.space, tile.space.site.machine
        reduced = {a.var: a.size for a in space.nest.reduce}
        line = machine.line_bytes
        small = self._again(tile, {**tile.register, **reduced}, tile.register, line)
        large = self._again(tile, {**tile.outer, **reduced}, tile.outer, line)
        found = []
        compulsory = space.nest.traffic(machine, space.site.cold)
        for least, size in zip(compulsory, shares(machine), strict=True):
            fits_small, fits_large = (m <= _ROOM * size for m, _ in (small, large))
            every = sum(bytes_met(space.accesses, {a.var: a.size for a in space.nest.axes}))
            again = np.where(fits_large, large[1], np.where(fits_small, small[1], small[1] * 1.5))
            found.append(np.where(every <= size, least, np.maximum(least, again)))
        return replace(cost, traffic=tuple(found))

    def _again(
        self, tile: Tile, sizes: Mapping[Var, Counts], own: Mapping[Var, Counts], line: int
    ) -> tuple[Array, Array]:
        """Bytes that a tile meets, and those that all tiles do which stand one after another."""
        met = bytes_met(tile.space.accesses, sizes, line)
        total = np.asarray(sum(met))
        return total, total * tile._number(own)

    def split(self, built: Built, decision: Decision) -> None:
        """Cut what is left outside."""
        for n, a in enumerate(built.space.tiled):
            size = decision[f"outer.{n}"]
            if size:
                cut = built.schedule.split(built.outer[a.var], [None, size])
                built.outer[a.var], built.middle[a.var] = cut


class Cores(Rule):
    """Outer tiles shared out among cores."""

    name = "tasks"

    def domains(self, space: GenericSpace) -> tuple[Domain, ...]:
        """How many pieces."""
        rows = prod([a.size for a in space.nest.spatial])
        return (task_domain(space.site.machine) if rows > 1 else Domain("tasks", (1,)),)

    def shape(self, tile: Tile) -> None:
        """So many."""
        tile.tasks = tile.columns["tasks"]

    def legal(self, tile: Tile) -> Array | bool:
        """Each has a tile."""
        tasks = np.asarray(tile.tasks)
        return np.asarray((tasks <= tile._number(tile.outer or tile.register)) | (tasks == 1))

    def cost(self, tile: Tile, cost: Cost) -> Cost:
        """See `seconds`."""
        return replace(cost, tasks=tile.tasks)

    def finish(self, built: Built, decision: Decision) -> None:
        """The outermost loops."""
        share_out(built.schedule, list(built.outer.values()), decision["tasks"])


RULES: tuple[Rule, ...] = (Steps(), Registers(), Caches(), Cores())
"""What a space is composed of, in order."""


class Generic:
    """Tiles at two levels of any block; rules: what its space is composed of."""

    name = "generic"
    version = 1

    def __init__(self, rules: Sequence[Rule] = RULES) -> None:
        self.rules = tuple(rules)

    def open(self, site: Site) -> Space | Refusal:
        """Fits blocks whose loops are their variables and whose results stand at these."""
        nest = site.read(anchor_nest)
        if nest is None or not nest.spatial:
            return Refusal("loops that are no variables of the block, or no dimensions")
        if not nests.stands_alone(site, nest):
            return Refusal("blocks that are no result and what follows it")
        block = nest.info.block
        if nest.reduce and block.init is None:
            return Refusal("a reduction that does not start from a value")
        own = {a.var for a in nest.spatial}
        for x in nest.accesses[: len(block.writes)]:
            if set(x.indices) != own or len(x.indices) != len(own):
                return Refusal("results whose places are no variables")
        return GenericSpace(site, nest, self.rules)


class GenericSpace(Space):
    """What rules leave to be decided."""

    def __init__(self, site: Site, nest: Nest, rules: Sequence[Rule]) -> None:
        self.site, self.nest, self.rules = site, nest, tuple(rules)
        self.results = [w.buffer for w in nest.info.block.writes]
        self.accesses = accesses_of(nest, analyzer_for(site.schedule.func, nest.info.block))
        self.work = sum([operations(v) for v in nest.values])
        self.axes = nests.memory_order(nest)
        self.candidates = _vector_axes(nest, self.axes, site.machine.lanes(nests.widest(nest)))
        self.tiled = self._tiled()
        self.short = _short(nest)
        self.domains = tuple([d for r in self.rules for d in r.domains(self)])

    def lanes(self, vector: Axis) -> int:
        """Elements of a vector along an axis."""
        return min(self.site.machine.lanes(nests.widest(self.nest)), power(vector.size))

    def _tiled(self) -> list[Axis]:
        """The axes that tiles may have several elements of: those along which vectors may lie, and
        of the others those that most operands do not move with."""
        rest = [a for a in self.axes if a not in self.candidates and a.size > 1]

        def kept(a: Axis) -> int:
            return sum([is_zero(s) for s in a.steps[1:]])

        return [*self.candidates, *sorted(rest, key=kept, reverse=True)[:_TILED]]

    def _tiles(self, columns: Columns) -> list[tuple[Array, Tile]]:
        """By vector axis the rows of the columns, and what they say."""
        found = []
        for n, axis in enumerate(self.candidates):
            rows = np.flatnonzero(np.asarray(columns["tile.vector"]) == n)
            tile = Tile(self, {k: np.asarray(v)[rows] for k, v in columns.items()}, axis)
            for rule in self.rules:
                rule.shape(tile)
            found.append((rows, tile))
        return found

    def legal(self, columns: Columns) -> Array:
        """What all rules allow."""
        fits = np.ones(len(columns["tile.vector"]), bool)
        for rows, tile in self._tiles(columns):
            for rule in self.rules:
                fits[rows] &= rule.legal(tile)
        return fits

    def cost(self, columns: Columns) -> Cost:
        """The sum of what rules say."""
        count = len(columns["tile.vector"])
        cycles, tasks = np.zeros(count), np.ones(count)
        traffic = [np.zeros(count) for _ in self.site.machine.caches]
        for rows, tile in self._tiles(columns):
            cost = Cost(0.0)
            for rule in self.rules:
                cost = rule.cost(tile, cost)
            cycles[rows], tasks[rows] = cost.cycles, cost.tasks
            for level, moved in enumerate(cost.traffic):
                traffic[level][rows] = moved
        return Cost(_UNSURE * cycles, tuple([_UNSURE * t for t in traffic]), tasks)

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """See the module."""
        sch, name = schedule, self.site.anchor
        vector = self.candidates[decision["tile.vector"]]
        built = Built(sch, self, vector, {a.var: a.loop for a in self.axes})
        built.reduce = {a.var: a.loop for a in self.nest.reduce}
        built.copies = self._copies(sch)
        self._vectors_last(sch, vector)
        for rule in self.rules:
            rule.split(built, decision)
        outer = [*built.outer.values(), *built.middle.values()]
        reduce = [*built.reduce.values(), *built.written.values()]
        ordered = {v: x for v, x in built.inner.items() if v is not vector.var}
        inner = [*ordered.values(), built.inner[vector.var], built.lanes]
        sch.reorder(*outer, *reduce, *inner)
        for c in built.copies:
            sch.reverse_compute_at(c, outer[-1], preserve_unit_loops=True)
            self._copy_out(sch, c, len(outer), vector)
        write_out_sums(sch, name, reduce, inner, len(outer))
        for x in built.written.values():
            sch.unroll(x)
        for rule in self.rules:
            rule.finish(built, decision)

    def _copies(self, sch: Schedule) -> list[str]:
        """Results in registers: the blocks that take them to memory."""
        name = self.site.anchor
        if len(self.results) == 1:
            return [in_registers(sch, name, self.site.epilogue)]
        return [sch.cache_write(name, b.name, "local") for b in self.results]

    def _vectors_last(self, sch: Schedule, vector: Axis) -> None:
        """What stands in registers has vectors along its last dimension."""
        name = self.site.anchor
        for n, w in enumerate(sch.state.realize(name).block.writes):
            at = self.nest.accesses[n].indices.index(vector.var)
            if at == len(self.nest.accesses[n].indices) - 1:
                continue

            def last(*i: Expr, at: int = at) -> list[Expr]:
                return [*[e for d, e in enumerate(i) if d != at], i[at]]

            sch.transform_layout(name, w.buffer.name, last)

    def _copy_out(self, sch: Schedule, name: str, depth: int, vector: Axis) -> None:
        """From registers to memory, in the vectors that results stand in."""
        at = self.nest.accesses[0].indices.index(vector.var)
        fresh = [str(x) for x in sch.get_loops(name)[depth:]]
        wide = fresh.pop(at)
        several, lane = sch.split(wide, [None, self.lanes(vector)])
        sch.reorder(*fresh, several, lane)
        write_out(sch, [*fresh, several, lane])


def _vector_axes(nest: Nest, axes: Sequence[Axis], lanes: int) -> list[Axis]:
    """The axes of the result along which vectors may lie: the one along which it is contiguous, and
    the one along which operands are loaded most easily, where that is easier."""
    own = nests.vector_axis(list(axes))

    def read(a: Axis) -> float:
        """Loads of a vector; what is small is shared by many results."""
        return sum([nest.bytes_of(k) * loads_along(s, lanes) for k, s in enumerate(a.steps) if k])

    long = [a for a in axes if a.size >= min(lanes, own.size)]
    other = min(reversed(long), key=read, default=own)
    return [own] if read(other) >= read(own) else [own, other]


def _short(nest: Nest) -> list[Axis]:
    """The axes of the reduction that may be written out, the innermost first."""
    found: list[Axis] = []
    for a in sorted(nest.reduce, key=lambda a: a.size):
        whole = prod([x.size for x in found]) * a.size
        if nests.constant(a) is not None and a.size > 1 and whole <= _WRITTEN:
            found.append(a)
    return found


_PORTS = 1.5
"""How many more instructions on vectors start in a cycle than multiplications."""
_FREE = (BufferLoad, Var, Cast)
_LIGHT = (LT, LE, GT, GE, EQ, NE, Select, Call)
"""What other units do than those that multiply and add."""


def operations(e: Expr) -> float:
    """Instructions on vectors that an expression takes of those units that multiply and add,
    roughly: a product that is added is one with the sum, extremes of floats ask for what is no
    number."""
    total, products, light = 0.0, 0, 0
    inside = {n for x in loads(e) for i in x.indices for n in expr_nodes(i)}
    for n in expr_nodes(e):
        if n in inside or isinstance(n, _FREE) or not n.children():
            continue
        if isinstance(n, Mul) and dt.is_float(n.dtype):
            products += 1  # one with a sum
        elif isinstance(n, Max | Min) and dt.is_float(n.dtype):
            total += 2.0
        else:
            light += isinstance(n, _LIGHT)
            total += not isinstance(n, _LIGHT)
    return max(total, float(products), (total + light) / _PORTS)
