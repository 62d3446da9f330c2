"""Products with integers of few bits that stand in words, in blocks of the reduction.

    for panels of columns: parallel
        for tiles of columns, of rows:
            total[rows, vectors] = 0              on the stack
            for blocks of the reduction:
                sums[rows, vectors] = 0           in registers
                for words: for vectors: for digits, written out:
                    sums += broadcast(A) * digits of words
                total += sums * scale
            what follows, from the stack to memory

Words, scales and zeros stand in panels of columns, the same ones whatever else is chosen. Many rows
use digits again: they are kept as floats then, a tile of columns at a time.

Where rows are bytes, so are digits, and products are added in 16 bits for a run of words:

            for runs of words: short[rows, vectors] = 0
                for words: for digits, vectors, written out:
                    short += bytes of A * digits of words
                sums += pairs of short
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.expr import Expr, Var
from smelt.rules.cost import Array, Cost, shares, tile_cycles
from smelt.rules.sketch import Columns, Decision, Domain, Refusal, Site, Space
from smelt.tir.nodes import BufferLoad, IterVar
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import PREFETCH
from smelt.topi.blocks import PANEL

from .analysis import BlockInfo, block_info, guess
from .loops import copy_out, in_registers, task_domain, write_out, write_out_sums

_ROWS = 6
"""Rows of a tile at most."""
_DIGIT = 0.8
"""What a vector of digits takes beside the multiply-adds, in these: a mask and a conversion, for
which processors have more units."""
_CROWDED = 0.02
"""How much longer a tile takes for each vector of sums beyond half of the registers."""
_AHEAD = 3072
"""Bytes of words that are asked for ahead of time: a processor sees only some vectors of them."""
_PIECES = 0.4
"""How much longer constants take to come, for each further piece that the rows of a panel are taken
in (measured)."""
_AROUND = 12
"""Cycles that surround a tile's reduction, and a block's."""


@dataclass(frozen=True)
class Chain:
    """Blocks that multiply in blocks of the reduction, and the constants that the last one reads.

    digits  makes numbers of words; "": the block that multiplies does
    sums    sums products with them in each block
    total   sums these over all blocks, times their scales
    short   where products of bytes are summed in 16 bits, which `sums` adds up; "": they are not
    """

    digits: str
    sums: str
    total: str
    rows: str
    words: BufferLoad
    scales: tuple[BufferLoad, ...]
    column: Var
    short: str = ""

    @property
    def anchor(self) -> str:
        """The block that multiplies."""
        return self.short or self.sums

    @property
    def blocks(self) -> tuple[str, ...]:
        """Those that are scheduled together, in order."""
        return (self.short or self.digits, self.sums, self.total)


def chain_of(sch: Schedule, name: str, constants: frozenset[str]) -> Chain | None:
    """The chain in which a block multiplies, if there is one, of constants in words."""
    info = block_info(sch, name)
    product, adder = info.product(), _reader(sch, name)
    if product is None or info.store is None or adder is None:
        return None
    if info.store.buffer.type == "int16":
        return _of_bytes(sch, info, product, adder, constants)
    rows, digits = [_maker(sch, name, x) for x in product]
    if not rows or not digits:
        return None
    words = block_info(sch, digits).reads
    known = {x.buffer.name for x in words} <= constants and len({x.buffer for x in words}) == 1
    found = _total(sch, info, adder, constants)
    if found is None or not known:
        return None
    return Chain(digits, name, adder, rows, words[0], *found)


def _of_bytes(
    sch: Schedule, info: BlockInfo, product: tuple[BufferLoad, BufferLoad], sums: str,
    constants: frozenset[str],
) -> Chain | None:  # fmt: skip
    """The same of a block that sums products of bytes in 16 bits, for runs of words."""
    words, adder = product[0], _reader(sch, sums)
    rows = _maker(sch, info.name, product[1])
    whole = block_info(sch, sums)
    if adder is None or not rows or words.buffer.name not in constants or len(whole.reduce) != 2:
        return None
    found = _total(sch, whole, adder, constants)
    if found is None or len(info.reduce) != 3 or not dt.is_int(product[1].dtype):
        return None
    return Chain("", sums, adder, rows, words, *found, short=info.name)


def _reader(sch: Schedule, name: str) -> str | None:
    """The only block that reads a block's result; None: there are others."""
    readers = [str(c) for c in sch.get_consumers(name)]
    return readers[0] if len(readers) == 1 else None


def _maker(sch: Schedule, name: str, x: BufferLoad) -> str:
    """The block that makes what a block loads; "": it is a parameter."""
    stores = {p: block_info(sch, p).store for p in map(str, sch.get_producers(name))}
    return next((p for p, s in stores.items() if s is not None and s.buffer is x.buffer), "")


def _total(
    sch: Schedule, info: BlockInfo, name: str, constants: frozenset[str]
) -> tuple[tuple[BufferLoad, ...], Var] | None:
    """The constants that a block reads which adds up all of a block's sums, and its columns."""
    last = block_info(sch, name)
    if len(last.reduce) != 1 or last.store is None or info.store is None:
        return None
    own = [i.var for i in last.spatial]
    at = (*own[:-1], last.reduce[0].var, own[-1])
    places = [tuple(x.indices) for x in last.reads if x.buffer is info.store.buffer]
    others = [x for x in last.reads if x.buffer.name in constants]
    pairs = all(len(x.indices) == 2 and {*x.indices} == {*at[-2:]} for x in others)
    if list(last.store.indices) != own or places != [at] or not (pairs and others):
        return None
    return tuple(others), own[-1]


class Blocks:
    """A register tile of sums in blocks."""

    name = "blocks"
    version = 1

    def open(self, site: Site) -> Space | Refusal:
        """Fits a chain of digits, sums and their total."""
        if len(site.blocks) < 3:
            return Refusal("no digits of words, summed in blocks")
        for name in site.blocks[:2]:
            chain = chain_of(site.schedule, name, site.constants)
            if chain is not None and site.blocks[:3] == chain.blocks:
                return self._opened(site, chain)
        return Refusal("no digits of words, summed in blocks")

    def _opened(self, site: Site, chain: Chain) -> Space | Refusal:
        if not chain.short:
            return BlocksSpace(site, chain)
        found = [names for on, *names in _BYTES if on in site.machine.dot]
        if not found:
            return Refusal("no instruction that multiplies bytes and adds in 16 bits")
        return BytesSpace(site, chain, *found[0])


class BlocksSpace(Space):
    """The tile, whether digits are kept, and into how many tasks the columns are divided."""

    settles = True

    def __init__(self, site: Site, chain: Chain) -> None:
        self.site, self.chain = site, chain
        self.info = block_info(site.schedule, chain.total)
        self.outer, (columns,) = self.info.spatial[:-1], self.info.spatial[-1:]
        self.columns = guess(columns.dom.extent)
        self.lanes = site.machine.lanes(4)
        whole = -(-self.columns // self.lanes) * self.lanes
        self.panel = min(PANEL, whole)
        self.row = next((i for i in reversed(self.outer) if guess(i.dom.extent) > 1), None)
        inner = [guess(i.dom.extent) for i in block_info(site.schedule, chain.anchor).reduce]
        self.count = guess(self.info.reduce[0].dom.extent)
        self.words, self.digits = inner[:2]
        self.steps = self.count * self.words * self.digits
        vectors = self.panel // self.lanes
        self.known = self.row is None or value_of(self.row.dom.extent) is not None
        self.domains = (
            Domain("rows", tuple(range(1, min(_ROWS, self._extent(self.row)) + 1))),
            Domain("vectors", tuple([v for v in range(1, vectors + 1) if vectors % v == 0])),
            Domain("kept", (0, 1) if self.known and self.row is not None else (0,)),
            task_domain(site.machine),
        )

    def _extent(self, row: IterVar | None) -> int:
        return 1 if row is None else guess(row.dom.extent)

    def legal(self, columns: Columns) -> Array:
        """The sums of a block, the words and a broadcast element fit into registers; every task has
        a panel."""
        held = (columns["rows"] + 1) * columns["vectors"] + 1
        fits = (held < self.site.machine.vector_registers) | (columns["vectors"] == 1)
        return np.asarray(fits & (columns["tasks"] <= -(-self.columns // self.panel)))

    def cost(self, columns: Columns) -> Cost:
        """Tiles of rows and columns; digits once for each tile, or for all of them.

        An unknown number of rows may be one: that counts as half of those that it is taken for.
        """
        machine, v, kept = self.site.machine, columns["vectors"], columns["kept"] > 0
        every = prod([guess(i.dom.extent) for i in self.outer if i is not self.row])
        rows = self._extent(self.row)
        cycles = every * self._cycles(columns, rows)
        if not self.known:
            cycles = (cycles + every * rows / 2 * self._cycles(columns, 1)) / 2
        once = self._vectors * self.steps * (_DIGIT / machine.multiply_adds + 1 / machine.stores)
        tiles = -(-rows // columns["rows"]) * every
        cycles = cycles + np.where(kept, once, 0.0 * v)
        return Cost(cycles, self._traffic(columns, tiles), columns["tasks"])

    @property
    def _vectors(self) -> int:
        """Vectors of columns."""
        return -(-self.columns // self.panel) * (self.panel // self.lanes)

    def _cycles(self, columns: Columns, rows: int) -> Array:
        """Of tiles for so many rows."""
        machine, v, kept = self.site.machine, columns["vectors"], columns["kept"] > 0
        r = np.minimum(columns["rows"], rows)
        tiles = -(-rows // r) * self._vectors / v
        made = np.where(kept, 0.0, _DIGIT * v / machine.multiply_adds)
        read = r + v * np.where(kept, 1.0, 1.0 / self.digits)
        step = tile_cycles(machine, r * v, read, 1.0, self.lanes) + made
        step *= 1 + _CROWDED * np.maximum(0, r * v - machine.vector_registers / 2)
        block = 3 * r * v / machine.stores + _AROUND / 4
        return np.asarray(tiles * (self.steps * step + self.count * block + _AROUND))

    def _traffic(self, columns: Columns, tiles: Array) -> tuple[Array, ...]:
        """Bytes from beyond each cache: words and scales once, a tile's digits for each tile of
        rows, all of A for each tile of columns."""
        each = self.columns * self.count
        scales = sum([dt.bytes_of(x.buffer.type) for x in self.chain.scales])
        width = columns["vectors"] * self.lanes
        pieces = 1 + _PIECES * (self.panel / width - 1)
        constants = each * (4 * self.words + scales) * pieces
        kept = columns["kept"] > 0
        digits = 4.0 * self.steps * width
        a_bytes = 4.0 * self.steps * self._extent(self.row)
        found, near = [], shares(self.site.machine)
        for size in near[:-1]:
            tile = np.where(kept, digits, constants * width / self.columns)
            again = np.where(tile > size / 2, tile * tiles * self.columns / width, 0.0)
            rows = np.where(a_bytes + tile > size, a_bytes * self.columns / width, a_bytes)
            found.append(constants + again + rows)
        return (*found, *[np.asarray(constants + a_bytes) for _ in near[-1:]])  # from memory: once

    # ---- the schedule ---------------------------------------------------------------------------

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """See the module."""
        sch, chain, site = schedule, self.chain, self.site
        rows, vectors = decision["rows"], decision["vectors"]
        self._lay_out(sch)
        self._digits(sch, decision)
        behind = site.blocks[3] if len(site.blocks) > 3 else None
        epilogue = in_registers(sch, chain.total, behind)
        given = dict(zip([i.var for i in self.info.block.iter_vars],
                         map(str, sch.get_loops(chain.total)), strict=True))  # fmt: skip
        (block,) = [given[i.var] for i in self.info.reduce]
        outer = [given[i.var] for i in self.outer]
        several = self.panel // (vectors * self.lanes)
        panel, tile, *inner = sch.split(given[self.chain.column],
                                        [None, several, vectors, self.lanes])  # fmt: skip
        if self.row is not None and rows > 1:
            place = outer.index(given[self.row.var])
            outer[place], within = sch.split(outer[place], [None, rows])
            inner.insert(0, within)
        around = [panel, tile, *outer]
        sch.reorder(*around, block, *inner)
        sch.reverse_compute_at(epilogue, around[-1], preserve_unit_loops=True)
        copy_out(sch, epilogue, len(around), self.lanes)
        self._sums(sch, block, len(around), decision)
        self._keep(sch, tile, decision)
        write_out_sums(sch, chain.total, [block], inner, len(around))
        if decision["tasks"] > 1:
            self._share(sch, panel, decision)

    def _digits(self, sch: Schedule, decision: Decision) -> None:
        """Digits are made where they are used, unless they are kept."""
        if not decision["kept"]:
            sch.compute_inline(self.chain.digits)

    def _lay_out(self, sch: Schedule) -> None:
        """Words, scales and zeros in panels of columns."""
        reader = self.chain.blocks[0]
        columns = block_info(sch, reader).spatial[-2 if self.chain.short else -1]
        for block, load, column in [
            (reader, self.chain.words, columns.var),
            *[(self.chain.total, x, self.chain.column) for x in self.chain.scales],
        ]:
            at = list(load.indices).index(column)
            fill = 0.0 if dt.is_float(load.buffer.type) else 0

            whole = at if self.chain.short and block == reader else len(load.indices) - 1

            def panels(*i: Expr, at: int = at, whole: int = whole) -> list[Expr]:
                others = [e for d, e in enumerate(i) if d != at]
                return [i[at] // self.panel, *others[:whole], i[at] % self.panel, *others[whole:]]

            sch.transform_layout(block, load.buffer.name, panels, pad_value=fill)

    def _sums(self, sch: Schedule, block: str, depth: int, decision: Decision) -> None:
        """The sums of a block, in registers."""
        (word, digit), others, wide, lane = self._inside(sch, self.chain.sums, block, depth, 0)
        tile = [*others, wide, digit, lane]
        sch.reorder(word, *tile)
        write_out_sums(sch, self.chain.sums, [word], tile, depth + 1)
        if not decision["kept"]:
            self._ask_ahead(sch, word)

    def _inside(
        self, sch: Schedule, name: str, loop: str, depth: int, behind: int
    ) -> tuple[list[str], list[str], str, str]:
        """Compute a block at a loop, in registers: its loops, those of columns in vectors.

        behind  how many axes of the result stand behind the columns
        """
        info = block_info(sch, name)
        sch.compute_at(name, loop, preserve_unit_loops=True)
        sch.set_scope(name, 0, "local")
        fresh = [str(x) for x in sch.get_loops(name)[depth + 1 :]]
        own = dict(zip([i.var for i in info.block.iter_vars], fresh, strict=True))
        spatial = [own[i.var] for i in info.spatial]
        column = spatial.pop(-1 - behind)
        wide, lane = map(str, sch.split(column, [None, self.lanes]))
        return [own[i.var] for i in info.reduce], spatial, wide, lane

    def _ask_ahead(self, sch: Schedule, word: str) -> None:
        """Later words are asked for."""
        machine, words = self.site.machine, self.chain.words.buffer
        if machine.caches:
            ahead = -(-_AHEAD // (4 * self.panel))
            sch.annotate(word, PREFETCH, {words.name: [ahead, 1, machine.line_bytes]})

    def _keep(self, sch: Schedule, tile: str, decision: Decision) -> None:
        """The digits of a tile of columns, as floats, before its rows."""
        if not decision["kept"]:
            return
        name = self.chain.digits
        sch.compute_at(name, tile, preserve_unit_loops=True)
        *_, digit, column = [str(x) for x in sch.get_loops(name)]
        wide, lane = sch.split(column, [None, self.lanes])
        sch.reorder(wide, digit, lane)
        write_out(sch, [wide, digit, lane])

    def _share(self, sch: Schedule, panel: str, decision: Decision) -> None:
        """Panels for cores; where digits are kept, each task has memory for them."""
        if not decision["kept"]:
            sch.parallel(panel)
            return
        task, _ = sch.split(panel, [decision["tasks"], None])
        sch.parallel(task)


_BYTES = (
    ("avx512bw", "x86.avx512.vpmaddubsw", "x86.avx512.vpmaddwd"),
    ("avx2", "x86.avx2.vpmaddubsw", "x86.avx2.vpmaddwd"),
    ("sse4.1", "x86.ssse3.pmaddubsw", "x86.sse.pmaddwd"),
)
"""What processors have: by a feature, the instructions that multiply bytes and that add pairs."""
_OTHERS = 1.5
"""Operations of other kinds that start in a cycle, for each multiply-add."""


class BytesSpace(BlocksSpace):
    """The same where rows are bytes: sums of 16 bits within those of 32."""

    def __init__(self, site: Site, chain: Chain, multiply: str, add: str) -> None:
        super().__init__(site, chain)
        runs, _ = block_info(site.schedule, chain.sums).reduce
        self.runs = guess(runs.dom.extent)
        self.intrinsics = f"{multiply}.digits{8 // self.digits}", f"{add}.sum"
        self.domains = tuple([replace(d, values=(0,)) if d.name == "kept" else d
                              for d in self.domains])  # fmt: skip

    def _cycles(self, columns: Columns, rows: int) -> Array:
        """Of tiles for so many rows."""
        machine, v = self.site.machine, columns["vectors"]
        r = np.minimum(columns["rows"], rows)
        tiles = -(-rows // r) * self._vectors / v
        products, each = r * v * self.digits, v * self.digits
        word = tile_cycles(machine, (2 * products + 1.5 * each) / _OTHERS, products + v, 0.0,
                           self.lanes)  # fmt: skip
        run = tile_cycles(machine, 3 * r * v / _OTHERS, 0.0, 1.0, self.lanes)
        block = 6 * r * v / machine.stores / _OTHERS + _AROUND / 4
        inner = self.runs * (self.words * word + run)
        return np.asarray(tiles * (self.count * (inner + block) + _AROUND))

    def _digits(self, sch: Schedule, decision: Decision) -> None:
        """Instructions make them."""

    def _sums(self, sch: Schedule, block: str, depth: int, decision: Decision) -> None:
        """The sums of a block, and of its runs, in registers."""
        multiply, add = self.intrinsics
        (run, half), others, wide, lane = self._inside(sch, self.chain.sums, block, depth, 0)
        sch.reorder(run, *others, wide, lane, half)
        write_out_sums(sch, self.chain.sums, [run], [*others, wide, lane], depth + 1, add)
        reduce, others, wide, lane = self._inside(sch, self.chain.short, run, depth + 1, 1)
        word, digit, pair = reduce
        *others, half = others
        sch.reorder(word, wide, *others, digit, lane, half, pair)
        init = sch.decompose_reduction(self.chain.short, word)
        *tile, columns, halves = sch.get_loops(init)[depth + 2 :]
        write_out(sch, [*map(str, tile), str(sch.fuse(columns, halves))])
        for loop in (wide, *others):
            sch.unroll(loop)
        sch.tensorize(digit, multiply)
        self._ask_ahead(sch, word)
