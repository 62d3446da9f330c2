"""What rules ask of a schedule: questions that leave no trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from smelt.ir.build import value_of
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import Expr
from smelt.ir.walk import free_vars
from smelt.tir.nodes import BlockRealize, For
from smelt.tir.schedule import BlockRV, LoopRV, Schedule

SPATIAL, REDUCE, MIXED = "spatial", "reduce", "mixed"


def realize(sch: Schedule, block: str) -> BlockRealize | None:
    """A block where it is executed; None where the program has none (any more)."""
    try:
        return sch.state.realize(block)
    except ScheduleError:
        return None


def loops(sch: Schedule, block: str) -> list[For]:
    """The loops around a block, outermost first."""
    return list(sch.state.loops_above(sch.state.realize(block)))


def kind(b: BlockRealize, loop: For) -> str:
    """What a block's variables do with a loop: spatial, reduce, or neither of the two alone."""
    kinds = {i.kind for i, v in b.bindings if loop.var in free_vars(v)}
    if kinds == {"spatial"}:
        return SPATIAL
    return REDUCE if kinds == {"reduce"} else MIXED


def extent(e: Expr) -> int | None:
    """A constant extent; None: it is symbolic."""
    found = value_of(e)
    return None if found is None else int(found)


def is_output(sch: Schedule, block: str) -> bool:
    """Whether a block writes a parameter of the function."""
    params = set(sch.func.buffers)
    return any(w.buffer in params for w in sch.state.realize(block).block.writes)


def is_spatial(b: BlockRealize) -> bool:
    """Whether a block has no reduction."""
    return all(i.kind == "spatial" for i in b.block.iter_vars)


def consumers(sch: Schedule, block: str) -> list[str]:
    """The blocks that read what a block writes."""
    return [c.block.name for c in sch.state.consumers(sch.state.realize(block))]


def producers(sch: Schedule, block: str) -> list[str]:
    """The blocks that write what a block reads."""
    return [c.block.name for c in sch.state.producers(sch.state.realize(block))]


def spatial_size(b: BlockRealize) -> int:
    """How many results a block has; 0: unknown."""
    sizes = [extent(i.dom.extent) for i in b.block.iter_vars if i.kind == "spatial"]
    return 0 if None in sizes else prod([n for n in sizes if n is not None])


def reads_again(b: BlockRealize) -> bool:
    """Whether a block with a reduction reads some of its operands for several results: tiles of
    loops then keep them near."""
    spatial = {i.var for i in b.block.iter_vars if i.kind == "spatial"
               and extent(i.dom.extent) != 1}  # fmt: skip
    if is_spatial(b) or not spatial:
        return False
    written = {w.buffer for w in b.block.writes}
    for r in b.block.reads:
        used = {v for x in r.region for v in free_vars(x.min)}
        if r.buffer not in written and spatial - used:
            return True
    return False


def leaves(sch: Schedule) -> list[str]:
    """The blocks without blocks inside them, in order."""
    return [n for n in post_order(sch) if not sch.state.blocks_in(sch.state.realize(n).block)]


def post_order(sch: Schedule) -> list[str]:
    """All blocks, those inside a block before it; the root is the last."""
    return list(_inside(sch, sch.state.realize("root")))


def _inside(sch: Schedule, b: BlockRealize) -> Iterator[str]:
    for child in sch.state.blocks_in(b.block):
        yield from _inside(sch, child)
    yield b.block.name


def attempt(sch: Schedule, change: Callable[[Schedule], object]) -> Schedule | None:
    """A copy of a schedule with a change; None where the change is refused."""
    copied = sch.copy()
    try:
        change(copied)
    except ScheduleError:
        return None
    return copied


def block_rv(sch: Schedule, name: str) -> BlockRV:
    """A block's handle, as rules get it: recorded, so that traces can use it."""
    return sch.get_block(name)


def loop_name(x: For) -> LoopRV:
    """A loop's handle."""
    return LoopRV(x.var.name)
