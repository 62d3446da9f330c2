"""Tiles of tiles: loops of results and of reductions, nested by turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from smelt.ir.errors import CompileError, ScheduleError
from smelt.tir.nodes import For
from smelt.tir.schedule import BlockRV, LoopRV, Schedule

from . import blocks
from .rules import TILED, ScheduleRule

_LEGAL = ("no", "may", "must")


@dataclass(frozen=True)
class ReuseType:
    """Whether operands, or results, are kept near in copies.

    req     "no", "may" (as a design beside others), "must"
    levels  positions in the structure, from 1 on, where copies are made
    scope   memory of the copies
    """

    req: str = "no"
    levels: Sequence[int] = field(default_factory=list)
    scope: str = "global"

    def __post_init__(self) -> None:
        """Check what is given."""
        if self.req not in _LEGAL:
            raise CompileError(f"ReuseType: req is {self.req!r}; legal: {', '.join(_LEGAL)}")

    def as_dict(self) -> dict[str, object]:
        """As plain data."""
        return {"req": self.req, "levels": list(self.levels), "scope": self.scope}


class MultiLevelTiling(ScheduleRule):
    """Tiles a block that reads operands again and again, by a structure such as "SSRSRS".

    Each S is a level of the loops over results, each R one of the reduction's; sizes are sampled.
    """

    def __init__(
        self,
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: ReuseType | None = None,
        reuse_write: ReuseType | None = None,
        filter_fn: Callable[[object, Sequence[LoopRV]], bool] | None = None,
    ) -> None:
        """filter_fn: (block, loops) -> whether to tile it. Raises CompileError."""
        if not structure or {*structure} - {*"SR"}:
            raise CompileError(f"MultiLevelTiling: structure is {structure!r}; legal: letters S "
                               'and R, such as "SSRSRS"')  # fmt: skip
        if tile_binds or vector_load_lens:
            raise CompileError("MultiLevelTiling: tile_binds and vector_load_lens are for GPUs; "
                               "leave them out")  # fmt: skip
        self.structure, self.filter_fn = structure, filter_fn
        self.max_innermost_factor = max_innermost_factor or 64
        self.reuse_read, self.reuse_write = reuse_read or ReuseType(), reuse_write or ReuseType()
        for who in (self.reuse_read, self.reuse_write):
            if bad := [n for n in who.levels if not 1 <= n <= len(structure)]:
                raise CompileError(f"MultiLevelTiling: level {bad[0]}; legal: 1 to "
                                   f"{len(structure)}, places in {structure}")  # fmt: skip

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule with tiles: one design, and one for each way to keep things near."""
        if not self._fits(sch, block):
            return [sch]
        tiled = sch.copy()
        try:
            levels = self._tile(tiled, block)
        except ScheduleError:
            return [sch]
        made = self._with_writes(tiled, block, levels)
        return [s for m in made for s in self._with_reads(m, block, levels)] or [sch]

    def _fits(self, sch: Schedule, block: BlockRV) -> bool:
        b = blocks.realize(sch, block)
        if b is None or not b.block.iter_vars or TILED in b.block.annotations:
            return False
        nest = blocks.loops(sch, block)
        known = all(blocks.extent(x.extent) is not None and x.kind == "serial" for x in nest)
        pure = all(blocks.kind(b, x) != blocks.MIXED for x in nest)
        if self.filter_fn is not None:
            return known and pure and self.filter_fn(b.block, [blocks.loop_name(x) for x in nest])
        return known and pure and blocks.reads_again(b)

    def _tile(self, sch: Schedule, block: BlockRV) -> list[list[LoopRV]]:
        """The loops of each level. Raises ScheduleError."""
        b = sch.state.realize(block)
        levels: list[list[LoopRV]] = [[] for _ in self.structure]
        for x in blocks.loops(sch, block):
            places = self._places("S" if blocks.kind(b, x) == blocks.SPATIAL else "R")
            for at, made in zip(places, self._split(sch, x, len(places)), strict=True):
                levels[at].append(made)
        flat = [x for level in levels for x in level]
        if len(flat) > 1:
            sch.reorder(*flat)
        sch.annotate(block, TILED, self.structure)
        return levels

    def _places(self, letter: str) -> list[int]:
        return [n for n, k in enumerate(self.structure) if k == letter]

    def _split(self, sch: Schedule, loop: For, count: int) -> list[LoopRV]:
        name = blocks.loop_name(loop)
        if count == 1:
            return [name]
        if not count:
            raise ScheduleError(f"the structure {self.structure} has no level for {name}")
        factors = sch.sample_perfect_tile(name, count, self.max_innermost_factor)
        return sch.split(name, factors)

    def _with_writes(
        self, sch: Schedule, block: BlockRV, levels: Sequence[Sequence[LoopRV]]
    ) -> list[Schedule]:
        """Designs where what uses the results, or a copy of them, goes into the tiles."""
        reuse = self.reuse_write
        if reuse.req == "no":
            return [sch]
        users = blocks.consumers(sch, block)
        made = [] if reuse.req == "must" else [sch]
        for level in reuse.levels:
            at = next((x[-1] for x in reversed(levels[:level]) if x), None)
            if at is None:
                continue
            move = partial(_finish_at, block=block, at=at, user=users[0] if len(users) == 1 else "",
                           scope=reuse.scope)  # fmt: skip
            if len(users) == 1 or reuse.req == "must":
                made.append(blocks.attempt(sch, move) or sch)
        return list({str(m.trace): m for m in made}.values()) or [sch]

    def _with_reads(
        self, sch: Schedule, block: BlockRV, levels: Sequence[Sequence[LoopRV]]
    ) -> list[Schedule]:
        """Designs where operands are copied near."""
        reuse = self.reuse_read
        if reuse.req == "no":
            return [sch]
        made = [] if reuse.req == "must" else [sch]
        for level in reuse.levels:
            at = next((x[-1] for x in reversed(levels[:level]) if x), None)
            if at is None:
                continue
            copied = blocks.attempt(sch, partial(_read_at, block=block, at=at, scope=reuse.scope))
            if copied is not None:
                made.append(copied)
        return made or [sch]


def _finish_at(sch: Schedule, block: BlockRV, at: LoopRV, user: str, scope: str) -> None:
    """Move the user of a block's result, or a copy of the result, behind its tile."""
    mover = sch.get_block(user) if user else sch.cache_write(block, 0, scope)
    sch.reverse_compute_at(mover, at, preserve_unit_loops=True)


def _read_at(sch: Schedule, block: BlockRV, at: LoopRV, scope: str) -> None:
    """Copy each operand of a block in front of its tile."""
    b = sch.state.realize(block).block
    written = {w.buffer for w in b.writes}
    for n, r in enumerate(b.reads):
        if r.buffer not in written:
            sch.compute_at(sch.cache_read(block, n, scope), at, preserve_unit_loops=True)
