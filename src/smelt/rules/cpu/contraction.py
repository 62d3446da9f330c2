"""Contractions: matmul, batched and transposed, convolutions, grouped ones, matrix-vector.

    for batch, column tiles, row blocks: parallel
        for row tiles:
            acc[rows, vectors] = 0               in registers
            for reduction:
                acc += broadcast(A) * B          rows and vectors unrolled, lanes vectorised
            epilogue: the elementwise work after it, from registers to memory

A constant B is packed at compile time so that its panel streams; B given at run time is packed by
the kernel where enough rows use it. Row dimensions that neither operand guards are walked as one,
so that a tile may go from one image row to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import gcd, prod

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.expr import Expr
from smelt.rules.cost import (
    Array,
    Cost,
    from_others,
    own_cache,
    page_cycles,
    seconds,
    shares,
    tile_cycles,
)
from smelt.rules.sketch import Columns, Decision, Domain, Refusal, Site, Space
from smelt.target import Machine
from smelt.tir.nodes import IterVar
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import TASKS

from .analysis import block_info, certain, guess, power
from .loops import EDGES, copy_out, in_registers, parallelize, tasks_of, write_out, write_out_sums
from .panels import PACK_STEPS, PARTS, SPREAD, ask_ahead, pack, round_columns, split_groups
from .roles import (
    Axes,
    Roles,
    by_instruction,
    guarded,
    normalize,
    normalize_result,
    roles_of,
    vars_of,
)

_ROWS, _VECTORS = 14, 8
"""The largest tile of accumulators."""
_PANEL = 2
"""Vectors of a panel of constants: good for any number of rows, so that kernels for other sizes, or
for other numbers of cores, read the same."""
_TAPS = 11
"""Columns of a filter that are written out at most, so that edges are decided tap by tap."""
_FEW = 4
"""Input channels up to which they are walked outside of the filter's window."""
_USABLE = 0.75
"""The part of a cache that what is used again and again may fill."""
_AHEAD = 768
"""Bytes that could have been fetched while one waits for the first of a piece."""
_UNSEEN, _SEEN = 0.35, 4
"""How much longer it takes to read what is not asked for, where more than so many multiply-adds
stand between one line and the next: a processor looks only some hundred instructions ahead."""
_ASKED, _ALTHOUGH = 0.05, 0.15
"""How much longer it takes to read what is asked for; and the part of what short pieces cost that
is left then."""
_STEPS = (16, 128)
"""Rows of B where it stands that are walked for all columns before the next ones: so few pages are
found at once."""
_SPILLED = 1.35
"""How much longer a tile takes that wants more registers than there are."""
_AROUND = 12
"""Cycles that surround a tile's reduction: addresses, the loop, the pipeline filling."""


def _lanes(machine: Machine, columns: int) -> int:
    """Lanes for so many columns: of few those that are used; half a register where three halves
    hold them all, and go at twice the rate."""
    full = machine.lanes(4)
    half = full // 2
    if columns <= half:
        return min(full, max(_FEW, power(columns)))
    fast = half >= _FEW and machine.unit_bytes <= 4 * half
    return half if fast and full < columns <= 3 * half else full


def _in_lines(elements: int, machine: Machine) -> float:
    """How much more than some elements, which begin anywhere, the lines are that hold them."""
    return (4.0 * elements + machine.line_bytes) / (4.0 * elements)


class Contraction:
    """A register tile of sums of products."""

    name = "contraction"
    version = 1

    def open(self, site: Site) -> Space | Refusal:
        """Fits blocks that sum products of two operands, of which one has the vector axis."""
        info, behind = block_info(site.schedule, site.anchor), site.epilogue
        # sums that fill vectors are more than what is taken of them: their columns are no one axis
        taken = info if behind is None else block_info(site.schedule, behind)
        sizes = [[i.dom.extent for i in b.spatial] for b in (info, taken)]
        roles = roles_of(site.schedule, info, sizes[0] == sizes[1])
        if isinstance(roles, str):
            return Refusal(roles)
        packed = roles.plain and roles.b.buffer.name in site.constants
        state = site.schedule.state
        whole = state.scope(state.realize(site.anchor)).block.name == "root"
        return ContractionSpace(site, by_instruction(roles, site.machine, packed, packed and whole))


class ContractionSpace(Space):
    """Tile, packing, and how far the result is divided among cores."""

    def __init__(self, site: Site, roles: Roles) -> None:
        self.site, self.roles = site, roles
        fit = roles.fit
        self.lanes = _lanes(site.machine, self.columns) if fit is None else fit.lanes
        constant = roles.b.buffer.name in site.constants
        packs = ("none",) if not roles.plain else ("ahead",) if constant else ("none", "kernel")
        if (roles.group or fit is not None) and not constant:
            packs = ("none",)
        rows = min(_ROWS, self._extent(self.row_groups))
        vectors = tuple(range(1, min(_VECTORS, -(-self.columns // self.lanes)) + 1))
        self.settles = packs == ("ahead",) and not roles.group
        if packs == ("ahead",):
            vectors = vectors[: _PANEL + (self.lanes < site.machine.lanes(4))][-1:]
        chunks = tuple(range(TASKS + 1)) if site.machine.cores > 1 else (0,)
        several = self.groups > 1 or self.columns > vectors[-1] * self.lanes
        both = several and bool(roles.rows) and not self.guarded
        orders = ("columns", "rows") if both else ("columns",)
        self.domains = (
            Domain("flat", tuple(range(max(1, len(self.row_groups)), 0, -1))),
            Domain("rows", tuple(range(1, rows + 1))),
            Domain("vectors", vectors),
            Domain("pack", packs, ordered=False),
            Domain("order", orders, ordered=False),
            Domain("steps", (0, *_STEPS) if self._in_blocks and "none" in packs else (0,)),
            Domain("prefetch", self._ahead(packs)),
            Domain("chunks", chunks),
        )

    # ---- what is known of the site --------------------------------------------------------------

    @cached_property
    def columns(self) -> int:
        """Elements along the vector axis; of one group where there are some."""
        return self.roles.group or self._extent([*self.roles.wide, self.roles.vector])

    @cached_property
    def groups(self) -> int:
        """Into how many groups the vector axis is divided."""
        return guess(self.roles.vector.dom.extent) // self.roles.group if self.roles.group else 1

    @cached_property
    def row_groups(self) -> list[IterVar]:
        """The row axes that may be walked as one, the innermost first."""
        found = self.roles.rows[-1:]
        for i in reversed(self.roles.rows[:-1]):
            if not self._joins(i, found[0]):
                break
            found.insert(0, i)
        return found[::-1]

    @cached_property
    def static(self) -> bool:
        """Whether the number of rows is known."""
        return all(value_of(i.dom.extent) is not None for i in self.row_groups)

    @cached_property
    def guarded(self) -> bool:
        """Whether rows at the edges are computed otherwise: the image is padded there."""
        rows = self.roles.rows
        return bool(rows) and guarded(self.roles.info, {rows[-1].var})

    @property
    def _registers(self) -> int:
        """Registers for a tile: integers that are no vectors share theirs with addresses."""
        store, machine = self.roles.info.store, self.site.machine
        shared = store is not None and dt.is_int(store.buffer.type) and machine.lanes(4) == 1
        return machine.vector_registers // (2 if shared else 1)

    @property
    def _fetches(self) -> bool:
        """Whether there are caches to fetch into, the steps of the reduction are in order, and B
        is more than what these caches hold anyway."""
        near = shares(self.site.machine)[1:2]
        b_bytes = 4 * self.roles.elements(self.roles.b.buffer)
        return bool(near) and not self._few and b_bytes > near[0] / 4

    def _ahead(self, packs: Sequence[str]) -> tuple[int, ...]:
        """Whether, and how, B may be asked for ahead of time."""
        if not self._fetches:
            return (0,)
        far = packs == ("ahead",) and len(self.site.machine.caches) > 1
        return (0, 1, SPREAD) if far else (0, 1)

    @property
    def _in_blocks(self) -> bool:
        """Whether the reduction may go in blocks, their sums added in memory: it is one axis, of
        many steps that are about as many pages, and all axes are the block's."""
        roles = self.roles
        lengths = [value_of(i.dom.extent) for i in roles.reduce]
        known = len(lengths) == 1 and (lengths[0] or 0) >= 2 * _STEPS[-1]
        plain = roles.as_given and roles.fit is None
        return known and plain and not self.guarded and self._jumps

    @property
    def _jumps(self) -> bool:
        """Whether rows of B where it stands are far from each other: nothing is fetched ahead."""
        reduce, b = self.roles.reduce, self.roles.b
        step = self.roles.step(b, reduce[-1]) if reduce else 0
        return self._pages() > 0 and 4 * (step or 0) >= self.site.machine.page_bytes / 2

    @property
    def _few(self) -> bool:
        """Whether so few input channels are summed that they are walked outside of the window."""
        reduce = self.roles.reduce
        return len(reduce) > 1 and guess(reduce[-1].dom.extent) <= _FEW

    def _joins(self, outer: IterVar, inner: IterVar) -> bool:
        """Whether two row axes may be walked as one: A goes on where the inner one ends, nothing
        is guarded, and the result's places are variables."""
        store = self.roles.info.store
        assert store is not None
        own = [i.var for i in self.roles.info.spatial]
        extent = value_of(inner.dom.extent)
        if extent is None or value_of(outer.dom.extent) is None or list(store.indices) != own:
            return False
        step, wide = (self.roles.step(self.roles.a, i) for i in (inner, outer))
        if extent > 1 and (step is None or wide != step * extent):
            return False
        return not guarded(self.roles.info, {outer.var, inner.var})

    @cached_property
    def _shared_pixels(self) -> int:
        """Elements of A that wait in registers for the next taps, where taps are written out and
        rows move by as much as taps do."""
        taps, rows = self.roles.reduce[-2:-1], self.roles.rows[-1:]
        steps = {self.roles.step(self.roles.a, i) for i in [*taps, *rows]}
        shared = self._taps_written_out(edges=False) and len(steps) == 1 and None not in steps
        return guess(taps[0].dom.extent) - 1 if shared and rows else 0

    def _extent(self, axes: Sequence[IterVar]) -> int:
        return prod([guess(i.dom.extent) for i in axes])

    # ---- the cost -------------------------------------------------------------------------------

    def legal(self, columns: Columns) -> Array:
        """Accumulators, a row of B and a broadcast element fit into the registers."""
        r, v = columns["rows"], columns["vectors"]
        registers = self._registers
        fits = (r * v <= max(1, registers - 4)) & (r * v + v + 1 <= registers - (r > 1))
        fits |= (r == 1) & (v == 1)
        rows, chunks = self._rows(columns), np.maximum(1, columns["chunks"])
        tiles = -(-rows // r)
        # a chunk of several tiles does not know where its edges are: lines have nothing else
        if self.guarded:
            fits &= (chunks == 1) | (self._every(columns) == 1)
        spread = columns["prefetch"] == SPREAD
        fits &= ~spread | ((tiles > 1) & (tiles <= PARTS) & (columns["order"] == "columns"))
        fits &= ~spread | ((self._every(columns) == 1) & (chunks == 1))
        by_columns = columns["steps"] > 0
        ragged = (rows % r != 0) | (not self.static)
        fits &= ~ragged | (chunks == 1) | (chunks == tiles) | by_columns
        fetched = np.where(columns["pack"] == "none", self.columns > v * self.lanes, True)
        fits &= (columns["prefetch"] == 0) | ((columns["pack"] != "kernel") & fetched)
        alone = (columns["pack"] == "none") & (columns["order"] == "columns")
        alone &= (columns["flat"] == 1) & (chunks <= -(-self.columns // (v * self.lanes)))
        fits &= ~by_columns | alone
        return np.asarray(fits & ((tiles % chunks == 0) | by_columns))

    def _rows(self, columns: Columns) -> Array:
        """Rows that are tiled together."""
        return self._by_flat(columns, lambda flat: self._extent(self.row_groups[:flat]))

    def _every(self, columns: Columns) -> Array:
        """How often there are so many."""
        return self._by_flat(columns, self._around)

    def _around(self, flat: int, size: Callable[[Expr], int] = guess) -> int:
        joined = self.row_groups[:flat]
        return prod([size(i.dom.extent) for i in self.roles.rows if i not in joined])

    def _by_flat(self, columns: Columns, count: Callable[[int], int]) -> Array:
        """A count for each number of row axes that are walked as one."""
        table = [count(f) for f in range(len(self.row_groups) + 1)]
        return np.array(table)[np.minimum(columns["flat"], len(self.row_groups))]

    def cost(self, columns: Columns) -> Cost:
        """Full and ragged tiles, the panels of B and the rows of A that pass through the caches."""
        machine, roles, lanes = self.site.machine, self.roles, self.lanes
        r, v, packed = columns["rows"], columns["vectors"], columns["pack"]
        rows, need = self._rows(columns), -(-self.columns // lanes)
        every = self._every(columns)
        outside = self._extent(roles.batch) * self._extent(roles.columns) * self.groups
        steps = self._extent(roles.reduce)
        loads = np.where(packed == "none", self._unpacked_loads(), 1.0)
        ahead = columns["prefetch"] > 0
        block, blocks = self._blocks(columns)
        found = [np.where(block == n, self._pages(n), 0.0) for n in (*_STEPS, steps)]
        pages = np.where(packed == "none", np.maximum.reduce(found), 0.0)
        full_r, rest_r = np.divmod(rows, r)
        if not self.static:  # of the last tile an eighth is too much, on average (see tails)
            full_r, rest_r = rows / r + (r - 1) / (8 * r), 0 * r
        full_v = (need - 1) // v
        last_v = need - full_v * v
        # vectors of an operand that is not packed are masked in every step, where they are ragged
        ragged = (packed == "none") & (self.columns % lanes > 0)
        masked = np.where(ragged, machine.masked, 1.0)
        each = roles.info.instructions if roles.fit is None else 1
        total = np.zeros(len(r))
        for count, height, width, slow in (
            (full_r * full_v, r, v, 1.0), (full_v * (rest_r > 0), rest_r, v, 1.0),
            (full_r, r, last_v, masked), (rest_r > 0, rest_r, last_v, masked),
        ):  # fmt: skip
            read = height + width * (loads + ahead * 4 * lanes / machine.line_bytes)
            step = tile_cycles(machine, height * width * each, read, 1.0, lanes) + pages
            ends = height * width / machine.stores + _AROUND
            added = height * width / machine.loads + _AROUND  # to what is in memory
            total += count * (steps * step * slow + ends + (blocks - 1) * (ends + added))
        # ragged edges cost code, branches and half-used vectors
        total *= 1 + 0.02 * (rest_r > 0) + 0.01 * (last_v < v)
        apart = 4 * (roles.step(roles.a, roles.rows[-1]) or 0) if roles.rows else 0
        near = machine.cache(1)
        if apart and apart % near.way == 0:  # rows share its sets
            total *= np.where(r > near.ways, 1.1, 1.0)
        # of equals, about eight rows: few passes over B, and few enough streams of A; the last
        # registers are those that addresses and masks are wanted for
        held = r * v - self._registers / 2
        most = held - self._registers / 4
        total *= 1 + 0.002 * abs(r - 8) + 0.005 * np.maximum(0, held) + 0.02 * np.maximum(0, most)
        spilled = r * v + v + 1 + self._shared_pixels > self._registers
        total *= np.where(spilled & (r > 1), _SPILLED, 1.0)
        total = total * every * outside
        copied = (
            4.0
            * self._extent([roles.vector, *roles.wide, *roles.columns])
            * steps
            * self._extent([i for i in roles.batch if i.var in vars_of(roles.b)])
        )
        tasks = self._tasks(columns, -(-need // v))
        alone, shared = (self._packing(copied, t) for t in (False, True))
        first = np.where(columns["chunks"] > 0, shared, alone) * (packed == "kernel")
        traffic = self._traffic(columns, rows * every, copied, tasks)
        return Cost(total, traffic, tasks, others=first)

    def _blocks(self, columns: Columns) -> tuple[Array, Array]:
        """Steps of the reduction that are walked at a time, and how often."""
        steps = self._extent(self.roles.reduce)
        block = np.where(columns["steps"] > 0, columns["steps"], steps)
        return block, -(-steps // block)

    def _tasks(self, columns: Columns, wide: Array) -> Array:
        """Pieces for cores: the loops outside the row tiles, and the chunks of these; where the
        reduction goes in blocks, chunks of the column tiles. The one size that is not known, such
        as the batch, may be 1; of several, as of images, the others will not be."""
        roles, chunks = self.roles, columns["chunks"]
        alone = len([i for i in roles.rows if value_of(i.dom.extent) is None]) < 2
        every = self._by_flat(columns, lambda flat: self._around(flat, certain if alone else guess))
        in_blocks = columns["steps"] > 0
        wide, every = np.where(in_blocks, 1, wide), np.where(in_blocks, 1, every)
        batch = [certain(i.dom.extent) for i in roles.batch]
        around: list[Array | int] = [certain(i.dom.extent) for i in roles.columns]
        around += [self.groups, wide]
        outside = [np.where(columns["order"] == "rows", 1, n) for n in around]
        return np.where(chunks == 0, 1, tasks_of([*batch, *outside, every, chunks]))

    def _unpacked_loads(self) -> float:
        """Loads for a vector of B where it stands: its elements, or lines that it straddles."""
        step = self.roles.step(self.roles.b, self.roles.vector)
        if step != 1:
            return 1.0 if step == 0 else float(self.lanes)
        row = self.roles.step(self.roles.b, self.roles.reduce[-1]) if self.roles.reduce else 0
        return 1.0 if row is not None and row * 4 % self.site.machine.line_bytes == 0 else 1.6

    def _crowded(self, size: int, level: int) -> bool:
        """Whether rows of B where it stands push each other out of a cache: their distance has them
        share few of its sets. Places in the last one are scattered by the processor."""
        step = self.roles.step(self.roles.b, self.roles.reduce[-1]) if self.roles.reduce else 0
        caches = self.site.machine.caches
        if not step or level + 1 == len(caches):
            return False
        ways = caches[level].ways
        way = size // ways
        return self._extent(self.roles.reduce) > ways * (way // gcd(4 * step, way))

    def _pages(self, most: int = 1 << 40) -> float:
        """Cycles to find the page of a row of B where it stands, of so many at most in turn."""
        roles = self.roles
        steps = [(min(most, guess(i.dom.extent)), 4 * (roles.step(roles.b, i) or 0))
                 for i in roles.reduce]  # fmt: skip
        return page_cycles(steps, self.site.machine)

    def _packing(self, b_bytes: float, shared: bool) -> float:
        """Seconds to lay B out in panels before all else: loads and stores, shuffles where columns
        lie apart; what is written comes from afar before, and goes back there."""
        turned = self.roles.step(self.roles.b, self.roles.vector) != 1
        machine = self.site.machine
        vectors = b_bytes / 4 / self.lanes
        cycles = vectors * (1 / machine.loads + 1 / machine.stores) * (1 + 2 * turned)
        moved = tuple([3 * b_bytes * (2 * b_bytes > size) for size in shares(machine)])
        steps = self._extent(self.roles.reduce)
        tasks = -(-steps // PACK_STEPS) if shared else 1
        return float(seconds(Cost(cycles, moved, tasks), machine))

    def _traffic(
        self, columns: Columns, rows: Array, b_bytes: float, tasks: Array
    ) -> tuple[Array, ...]:
        """Bytes from beyond each cache: B again for each row tile where what is read of it between
        two of them does not stay, A likewise for each column tile, the result once.

        The columns of one group are a part of a line in A and in the result: where these do not
        stay, the rest of it comes along in vain.
        """
        roles, machine = self.roles, self.site.machine
        by_rows = columns["order"] == "rows"
        block, blocks = self._blocks(columns)
        panel = 4.0 * block * columns["vectors"] * self.lanes
        scattered = columns["pack"] == "none"
        met = vars_of(roles.a)
        axes = self._extent([i for i in roles.axes if i.var in met])
        a_bytes = 4.0 * min(roles.elements(roles.a.buffer), axes)
        c_bytes = 4.0 * self._extent(roles.info.spatial)
        passes = -(-self.columns // (columns["vectors"] * self.lanes))
        tiles = -(-rows // columns["rows"])
        read, wrote = 1.0, 1.0
        if roles.group:
            read = _in_lines(guess(roles.reduce[-1].dom.extent), machine)
            wrote = _in_lines(self.columns, machine)
        # nothing is fetched ahead where every row of a panel stands on a page of its own
        piece = 4.0 * columns["vectors"] * self.lanes
        few = (block <= _STEPS[0]) & (columns["steps"] > 0)  # which are met in order
        piece = np.where(few, 4.0 * self.columns / np.maximum(1, columns["chunks"]), piece)
        short = 1.0 + _AHEAD / piece
        apart = scattered & self._jumps
        between = columns["rows"] * machine.line_bytes / (4 * self.lanes)
        unseen = _UNSEEN * np.clip(between / _SEEN - 1, 0, 1) * self._fetches
        known = np.where(apart, _ALTHOUGH * (short - 1), _ASKED)
        known = np.where(columns["prefetch"] == SPREAD, 0.0, known)
        unknown = np.where(apart, short - 1, unseen)
        pieces = 1 + np.where(columns["prefetch"], known, unknown)
        found = []
        for level, share in enumerate(shares(machine)):
            size = share * _USABLE
            # rows of an unpacked B lie apart and push each other out of the nearest cache; what a
            # tile reads of A is too little for a place in it
            passing = np.where(by_rows | (level > 0), a_bytes / tiles, 0.0)
            kept = np.where(by_rows, b_bytes, panel) + passing
            stays = kept * np.where(scattered & (level == 0), 4.0, 1.0) <= size
            stays &= ~(scattered & self._crowded(int(share), level))
            of_b = np.where(stays, b_bytes, b_bytes * tiles) * np.where(level, pieces, 1.0)
            again = (a_bytes / blocks + panel <= size) | (
                by_rows & (a_bytes / tiles + panel <= size)
            )
            of_a = np.where(again, a_bytes, a_bytes * passes * np.where(by_rows, 1.0, read))
            of_c = c_bytes * np.where(by_rows, 1.0, wrote)
            of_c = of_c * np.where(c_bytes + b_bytes / blocks > size, 2 * blocks - 1, 1.0)
            inside = a_bytes + c_bytes > size
            cold = 1.0 if roles.b.buffer.name in self.site.cold or b_bytes > size else 0.0
            found.append(of_b * np.where(stays, cold, 1.0) + (of_a + of_c) * inside)
            if level == own_cache(machine):  # every core reads all rows for its columns
                others = from_others(machine, tasks, by_rows, machine.cores)
                found[level] = found[level] + np.where(inside, 0.0, a_bytes * others)
        return tuple([np.asarray(x, float) for x in found])

    # ---- the schedule ---------------------------------------------------------------------------

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """See the module."""
        sch, name, site, roles = schedule, self.site.anchor, self.site, self.roles
        flat, rows, vectors = decision["flat"], decision["rows"], decision["vectors"]
        wide = vectors * self.lanes
        joined = self.row_groups[:flat][::-1]
        axes = normalize(sch, name, roles, joined)
        if decision["steps"]:
            self._build_in_blocks(sch, axes, decision)
            return
        if decision["pack"] != "none" and roles.group:
            split_groups(sch, name, roles)
        epilogue = in_registers(sch, name, site.epilogue)
        normalize_result(sch, name, roles, epilogue, joined)
        if roles.fit is not None and self.columns % self.lanes:
            round_columns(sch, name, axes.vector, self.lanes)
        if decision["pack"] != "none":
            copied = decision["pack"] == "kernel"
            copies = pack(sch, site.anchor, roles, wide, self.lanes, copied)
            for loop in copies if decision["chunks"] else ():
                sch.parallel(loop)
        j_o, *inner = sch.split(axes.vector, [None, vectors, self.lanes])
        tiled = list(axes.rows)
        if tiled and rows > 1:
            tiled[-1], within = sch.split(tiled[-1], [None, rows])
            inner.insert(0, within)
        tiles = value_of(sch.state.loop(tiled[-1]).extent) if tiled else 1
        chunks = decision["chunks"]
        if chunks > 1 and tiles not in (None, chunks):
            tiled[-1:] = sch.split(tiled[-1], [chunks, None])
        apart = tiled if chunks > 1 and tiles in (None, chunks) else tiled[:-1]
        if decision["order"] == "rows":
            batch = axes.batch[: len(self.roles.batch)]
            behind = [*axes.batch[len(batch) :], *axes.columns, j_o]
            outer, shared = [*batch, *tiled, *behind], [*batch, *apart]
        else:
            around = [*axes.batch, *axes.columns, j_o]
            outer, shared = [*around, *tiled], [*around, *apart]
        reduce = self._reduce_order(axes.reduce)
        sch.reorder(*outer, *reduce, *inner, *axes.dot)
        sch.reverse_compute_at(epilogue, outer[-1], preserve_unit_loops=True)
        copy_out(sch, epilogue, len(outer), self.lanes)
        intrin = roles.fit.tile().name if roles.fit else ""
        write_out_sums(sch, name, reduce, inner, len(outer), intrin)
        edges = self.guarded and tiles is not None and 1 < tiles <= EDGES
        if self._taps_written_out(edges):
            sch.unroll(axes.reduce[-2])
        if edges:
            sch.unroll(tiled[-1])
        if decision["prefetch"]:
            parts = -(-self._extent(self.row_groups[:flat]) // rows)
            ask_ahead(sch, roles, site.machine, decision, (j_o, reduce[-1]), wide, parts)
        if chunks:
            parallelize(sch, shared)

    def _build_in_blocks(self, sch: Schedule, axes: Axes, decision: Decision) -> None:
        """So many steps of the reduction for all columns of a task before the next ones: a tile's
        sums are added to the result, or to what the epilogue reads, in memory."""
        name, epilogue, (steps,) = self.site.anchor, self.site.epilogue, axes.reduce
        part = sch.rfactor(sch.split(steps, [None, decision["steps"]])[0], 0)
        sch.set_scope(part, 0, "local")
        spatial = [i.var for i in self.roles.info.spatial]
        variables = [*spatial, self.roles.reduce[0].var]  # whose loop is now over blocks
        axes = Axes.of(self.roles, dict(zip(variables, sch.get_loops(name), strict=True)))
        (block,), tiled = axes.reduce, list(axes.rows)
        j_o, *inner = [
            str(x) for x in sch.split(axes.vector, [None, decision["vectors"], self.lanes])
        ]
        tiles = guess(sch.state.loop(j_o).extent)
        each = -(-tiles // max(1, decision["chunks"]))
        task, j_o = [str(x) for x in sch.split(j_o, [None, each])]
        if tiled:
            tiled[-1], within = sch.split(tiled[-1], [None, decision["rows"]])
            inner.insert(0, within)
        shared = [*axes.batch, *axes.columns, task]
        outer = [*shared, block, j_o, *tiled]
        sch.reorder(*outer, *inner)
        sch.compute_at(part, outer[-1], preserve_unit_loops=True)
        _, *fresh, step = [str(x) for x in sch.get_loops(part)[len(outer) :]]
        vector = fresh.pop(spatial.index(self.roles.vector.var))
        tile = [*fresh, *[str(x) for x in sch.split(vector, [None, self.lanes])]]
        sch.reorder(step, *tile)
        write_out_sums(sch, part, [step], tile, len(outer))
        if decision["prefetch"]:
            ask_ahead(sch, self.roles, self.site.machine, decision, (j_o, step))
        started = sch.decompose_reduction(name, block)
        write_out(sch, sch.get_loops(started)[-2:])
        write_out(sch, inner)
        if epilogue is not None:
            sch.reverse_compute_at(epilogue, task, preserve_unit_loops=True)
            copy_out(sch, epilogue, len(shared), self.lanes, unrolled=False)
        if decision["chunks"]:
            parallelize(sch, shared)

    def _taps_written_out(self, edges: bool) -> bool:
        """Whether a filter's columns are: where edges are most of the work their conditions are
        then known for each tap; few channels are too little work for a loop."""
        taps = self.roles.reduce[-2:-1]
        short = bool(taps) and all(guess(i.dom.extent) <= _TAPS for i in taps)
        return short and (edges or self._few)

    def _reduce_order(self, loops: list[str]) -> list[str]:
        """Few input channels go outside the filter's window, many inside."""
        if self._few:
            return [loops[-1], *loops[:-1]]
        return loops
