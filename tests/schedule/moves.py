"""Random calls of every primitive, on whatever a schedule holds."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, TypeVar

from smelt.ir.errors import ScheduleError
from smelt.tir.nodes import BlockRealize, For, Seq
from smelt.tir.schedule import AXIS_SEPARATOR, LoopRV, Schedule

from .support import axpy

__all__ = ["LAST", "MOVES", "PRIMITIVES", "QUERIES", "Sight"]

T = TypeVar("T")

PRIMITIVES = {
    name
    for name, method in inspect.getmembers(Schedule, inspect.isfunction)
    if getattr(method, "is_primitive", False)
}
"""Everything that a trace can hold."""

QUERIES = {
    "get_block", "get_loops", "get_child_blocks", "get_producers", "get_consumers",
    "get_output_blocks", "work_on",
}  # fmt: skip
"""Primitives that change no program."""

LAST = {"unsafe_hide_buffer_access", "annotate_buffer_access"}
"""Primitives after which nobody checks what the caller has said."""


class Sight:
    """What a move chooses from: a loop, blocks, the loops around one of them, numbers."""

    def __init__(self, random: Random, s: Schedule) -> None:
        self.random, self.s = random, s
        blocks = [b for b in s.state.index.blocks if b != "root"]
        loops = list(s.state.index.loops)
        self.block = self.pick(blocks)
        self.other = self.pick(blocks)
        self.nest = s.get_loops(self.other)
        self.loop: str = self.pick([*self.nest] or loops or ["none"])
        self.any_loop = self.pick(loops or ["none"])
        self.factor = self.number(1, 5)

    def pick(self, items: Sequence[T]) -> T:
        """One of some things."""
        return self.random.choice(items)

    def number(self, low: int, high: int) -> int:
        """A number, both ends included."""
        return self.random.randint(low, high)

    def shuffled(self, items: Iterable[T]) -> list[T]:
        """The same things in another order."""
        out = list(items)
        self.random.shuffle(out)
        return out

    @property
    def size(self) -> int:
        """The number of variables of the block."""
        return len(self.s.state.realize(self.block).values)

    @property
    def rank(self) -> int:
        """The number of dimensions that the block writes."""
        return len(self.s.state.realize(self.block).block.writes[0].region)

    def find(self, fits: Callable[[BlockRealize], bool]) -> str:
        """A block that a condition holds for, if there is one."""
        names = [n for n, b in self.s.state.index.blocks.items() if n != "root" and fits(b)]
        return self.pick(names or [self.block])

    def pair(self) -> tuple[str, str]:
        """A block and one that reads what it makes, if there are such blocks."""
        s = self.s.state
        pairs = [
            (n, c.block.name)
            for n, b in s.index.blocks.items()
            if n != "root"
            for c in s.consumers(b)
        ]
        return self.pick(pairs or [(self.block, self.other)])

    def loop_of(self, block: str) -> str:
        """A loop around a block."""
        return self.pick([*self.s.get_loops(block)] or ["none"])

    def neighbours(self) -> tuple[str, str]:
        """Two loops one after the other, if there are such loops."""
        pairs = [
            (a.var.name, b.var.name)
            for x in self.s.state.index.order
            if isinstance(x, Seq)
            for a, b in itertools.pairwise(x.stmts)
            if isinstance(a, For) and isinstance(b, For)
        ]
        return self.pick(pairs or [(self.loop, self.any_loop)])

    def flag(self) -> bool:
        """Yes or no."""
        return self.random.random() < 0.5

    def scope(self) -> str:
        """A memory: with threads one that all of them see."""
        if any(x.thread for x in self.s.state.index.loops.values()):
            return "global"
        return self.pick(["global", "local", "shared"])


Move = Callable[[Schedule, Sight], Any]


def _localize(s: Schedule, x: Sight) -> None:
    s.blockize(LoopRV(x.loop) if x.flag() else [x.block])
    s.localize(x.block)


def _split(s: Schedule, x: Sight) -> None:
    factors = x.pick([[None, x.factor], [x.factor, None], [2, None, x.factor]])
    s.split(x.loop, factors, preserve_unit_iters=x.flag(), disable_predication=False)


def _fuse(s: Schedule, x: Sight) -> None:
    k = x.number(0, max(0, len(x.nest) - 2))
    s.fuse(*x.nest[k : k + 2], preserve_unit_iters=x.flag())


def _layout(s: Schedule, x: Sight) -> None:
    axis, cut = x.number(0, x.rank - 1), x.flag()
    pad = x.pick([None, 0.0, "undef"])

    def blocked(*i: Any) -> list[Any]:
        parts = [*i[:axis], i[axis] // x.factor, *i[axis + 1 :], i[axis] % x.factor]
        return [parts[0], AXIS_SEPARATOR, *parts[1:]] if cut else parts

    s.transform_layout(x.block, ("write", 0), blocked, pad)


def _block_layout(s: Schedule, x: Sight) -> None:
    n = x.size
    s.transform_block_layout(x.block, lambda *i: (*i[n // 2 :], *i[: n // 2]))


def _reindexed(write: bool) -> Move:
    def move(s: Schedule, x: Sight) -> None:
        take = s.reindex_cache_write if write else s.reindex_cache_read
        region = s.state.realize(x.block).block
        buffers = region.writes if write else region.reads
        rank = len(buffers[0].region) if buffers else 1
        order = x.shuffled(range(x.size))[:rank]
        take(x.block, 0, x.scope(), lambda *i: [i[k] for k in order])

    return move


def _compute_at(s: Schedule, x: Sight) -> None:
    producer, consumer = x.pair()
    s.compute_at(producer, x.loop_of(consumer), x.flag(), x.pick([-1, -2]))


def _reverse_compute_at(s: Schedule, x: Sight) -> None:
    producer, consumer = x.pair()
    s.reverse_compute_at(consumer, x.loop_of(producer), x.flag(), x.pick([-1, -2]))


def _rolling(s: Schedule, x: Sight) -> None:
    producer, consumer = x.pair()
    if x.flag():
        s.compute_at(producer, x.loop_of(consumer), x.flag())
    s.rolling_buffer(producer, 0)


def _updates(b: BlockRealize) -> bool:
    return any(r.buffer is w.buffer for r in b.block.reads for w in b.block.writes)


def _pads(b: BlockRealize) -> bool:
    return getattr(getattr(b.block.body, "value", None), "op", "") == "if_then_else"


def _decompose_padding(s: Schedule, x: Sight) -> None:
    block = x.find(_pads)
    loop = x.loop_of(block)
    legal = s.can_decompose_padding(block, loop)
    try:
        s.decompose_padding(block, loop)
    except ScheduleError:
        assert not legal
        raise
    assert legal


def _tensorize(s: Schedule, x: Sight) -> None:
    """Where there is a matrix product, its rows of eight columns."""
    block = x.find(lambda b: b.block.name == "C" and len(b.values) == 3)
    loops = s.get_loops(block)
    if len(loops) == 3 and x.flag():
        i, j, k = loops
        _, inner = s.split(j, [None, 8])
        s.reorder(i, k, inner)
        s.decompose_reduction(block, k)
        x.loop = inner
    s.tensorize(x.loop, axpy(), preserve_unit_iters=x.flag())


def _bind(s: Schedule, x: Sight) -> None:
    own = [b for f in s.state.index.blocks.values() for b in f.block.alloc_buffers]
    if all(b.scope == "global" for b in own):
        s.bind(x.loop, "blockIdx.x")


def _tiled(s: Schedule, x: Sight) -> None:
    s.split(x.loop, s.sample_perfect_tile(x.loop, n=x.number(1, 3)))


def _parted(s: Schedule, x: Sight) -> None:
    s.split(x.loop, s.sample_partitioned_tile(x.loop, n=2, partition_pos=1, innerpart_factor=2))


MOVES: dict[str, Move] = {
    "split": _split,
    "fuse": _fuse,
    "reorder": lambda s, x: s.reorder(*x.shuffled(x.nest)),
    "reorder_block_iter_var": lambda s, x: s.reorder_block_iter_var(
        x.block, x.shuffled(range(x.size))
    ),
    "add_unit_loop": lambda s, x: s.add_unit_loop(
        LoopRV(x.loop) if x.flag() else s.get_block(x.block)
    ),
    "loop_partition": lambda s, x: s.loop_partition(x.loop, [x.factor, None], x.flag()),
    "merge": lambda s, x: s.merge(*x.neighbours()),
    "parallel": lambda s, x: s.parallel(x.loop),
    "vectorize": lambda s, x: s.vectorize(x.loop),
    "unroll": lambda s, x: s.unroll(x.loop),
    "bind": _bind,
    "annotate": lambda s, x: s.annotate(LoopRV(x.loop), "note", [x.factor, "text", None, True]),
    "unannotate": lambda s, x: s.unannotate(LoopRV(x.loop), "note"),
    "compute_at": _compute_at,
    "reverse_compute_at": _reverse_compute_at,
    "compute_inline": lambda s, x: s.compute_inline(x.block),
    "reverse_compute_inline": lambda s, x: s.reverse_compute_inline(x.pair()[1]),
    "cache_read": lambda s, x: s.cache_read(x.block, 0, x.scope()),
    "cache_write": lambda s, x: s.cache_write(x.block, 0, x.scope()),
    "cache_inplace": lambda s, x: s.cache_inplace(x.find(_updates), 0, x.scope()),
    "cache_index": lambda s, x: s.cache_index(x.block, x.scope(), x.factor - 1),
    "read_at": lambda s, x: s.read_at(x.loop, x.other, 0, x.scope()),
    "write_at": lambda s, x: s.write_at(x.loop, x.other, 0, x.scope()),
    "reindex": lambda s, x: s.reindex(x.block, (x.pick(["read", "write"]), 0)),
    "reindex_cache_read": _reindexed(False),
    "reindex_cache_write": _reindexed(True),
    "set_scope": lambda s, x: s.set_scope(x.block, 0, x.scope()),
    "storage_align": lambda s, x: s.storage_align(x.block, 0, 0, x.factor, 1),
    "unsafe_set_dtype": lambda s, x: s.unsafe_set_dtype(x.block, 0, "float64"),
    "decompose_reduction": lambda s, x: s.decompose_reduction(x.other, x.loop),
    "rfactor": lambda s, x: s.rfactor(x.loop, x.number(-1, 1)),
    "blockize": lambda s, x: s.blockize(
        x.pick([LoopRV(x.loop), [x.block], [x.block, x.other]]), x.flag()
    ),
    "localize": _localize,
    "tensorize": _tensorize,
    "precompute": lambda s, x: s.precompute(x.block),
    "transform_layout": _layout,
    "transform_block_layout": _block_layout,
    "set_axis_separator": lambda s, x: s.set_axis_separator(
        x.block, ("write", 0), x.pick([[], [1]])
    ),
    "pad_einsum": lambda s, x: s.pad_einsum(x.block, [x.factor] * x.size),
    "decompose_padding": _decompose_padding,
    "rolling_buffer": _rolling,
    "enter_postproc": lambda s, x: s.enter_postproc(),
    "sample_categorical": lambda s, x: s.annotate(
        LoopRV(x.loop), "sampled", s.sample_categorical([1, 2, 4], [0.2, 0.3, 0.5]) * 2
    ),
    "sample_perfect_tile": _tiled,
    "sample_partitioned_tile": _parted,
    "sample_compute_location": lambda s, x: s.compute_at(
        x.block, s.sample_compute_location(x.block)
    ),
    "unsafe_hide_buffer_access": lambda s, x: s.unsafe_hide_buffer_access(x.block, "read", [0]),
    "annotate_buffer_access": lambda s, x: s.annotate_buffer_access(
        x.block,
        0,
        "write",
        lambda *i: [(0, 1)] * len(s.state.realize(x.block).block.writes[0].region),
    ),
}
"""How to call each primitive."""
