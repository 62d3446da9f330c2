"""Bands: blocks that hand on tiles, with a contraction among them, computed for one part of the
image after another, so that what they hand on stays near.

    for bands, some rows of tiles or a part of one: parallel
        each block's part, scheduled as a program of its own
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.errors import ScheduleError
from smelt.rules.cost import Array, Cost, flows, shares
from smelt.rules.sketch import Choice, Columns, Decision, Domain, Refusal, Site, Space
from smelt.tir.nodes import Buffer
from smelt.tir.schedule import Schedule

from .analysis import block_info, guess
from .loops import task_domain
from .tiles import link

_NEAR = 0.5
"""The part of a core's cache that what is handed on may fill."""
_FEWEST = 8
"""Tiles of a band at least: with fewer, a contraction's factors are loaded too often."""

Inside = Callable[[Site, Sequence[str]], Mapping[str, Choice]]
"""What is chosen for blocks that follow one another, by the first one's name."""


class Bands:
    """A block of blocks, each iteration of which is a band."""

    name = "bands"
    version = 1

    def __init__(self, inside: Inside) -> None:
        """Keep what chooses for the blocks of a band."""
        self.inside = inside

    def open(self, site: Site) -> Space | Refusal:
        """Fits a block with blocks inside that depend on no other iteration."""
        blocks = [str(b) for b in site.schedule.get_child_blocks(site.anchor)]
        if len(site.blocks) > 1 or not blocks:
            return Refusal("no blocks inside of one")
        alone = Site(site.schedule, (), site.machine.replace(cores=1), site.constants, warm=True)
        return BandsSpace(site, blocks, self.inside(alone, blocks))


class BandsSpace(Space):
    """Into how many tasks the bands are divided; what is chosen inside."""

    def __init__(self, site: Site, blocks: Sequence[str], inside: Mapping[str, Choice]) -> None:
        self.site, self.blocks, self.inside = site, blocks, inside
        fixed = [Domain(name, (str(c),), ordered=False) for name, c in inside.items()]
        self.domains = (task_domain(site.machine), *fixed)
        sch = site.schedule
        self.every = prod([guess(sch.state.loop(x).extent) for x in sch.get_loops(site.anchor)])

    def legal(self, columns: Columns) -> Array:
        """Every task has a band."""
        return np.asarray(columns["tasks"] <= max(1, self.every))

    def cost(self, columns: Columns) -> Cost:
        """That of a band on one core, for all of them; what is read and stored at both ends; and
        what a task hands on, in memory of its own."""
        sch, machine = self.site.schedule, self.site.machine
        seconds = sum([c.seconds for c in self.inside.values()])
        given = sch.func.buffers
        ends = sum(map(_bytes, given)) + _bytes(given[-1])
        cold = sum([_bytes(b) for b in given if b.name in self.site.cold])
        own = handed_on(sch, self.blocks) / self.every
        tasks = columns["tasks"]
        traffic = tuple([max(n, cold) + own * tasks for n in flows(ends, machine)])
        return Cost(seconds * self.every * machine.clock, traffic, tasks)

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """See the module."""
        for c in self.inside.values():
            c.space.build(schedule, c.decision)
        loops = [str(x) for x in schedule.get_loops(self.site.anchor)]
        # each task has memory of its own: there are so many whatever the sizes
        first = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
        if decision["tasks"] == 1:
            return
        tried = schedule.copy()
        try:
            task, _ = tried.split(first, [decision["tasks"], None])
            tried.parallel(task)
        except ScheduleError:  # it cannot be proved that unknown sizes may be cut
            schedule.parallel(first)
        else:
            schedule.adopt(tried)


def handed_on(sch: Schedule, blocks: Sequence[str]) -> float:
    """Bytes that blocks store for the ones behind them, but those that stay in registers."""
    far = [a for a, b in pairwise(blocks) if link(sch, a, b) is None]
    stores = [block_info(sch, b).store for b in far]
    return float(sum([_bytes(s.buffer) for s in stores if s is not None]))


def _bytes(b: Buffer) -> float:
    return float(prod(map(guess, b.shape)) * dt.bytes_of(b.type))


def band(sch: Schedule, blocks: Sequence[str], site: Site) -> str | None:
    """Let all blocks of a program be computed in bands; the block that is one. None where they do
    not end in tiles of an image, or where what they hand on stays near as it is.
    """
    near = _NEAR * next(iter(shares(site.machine)[1:2]), 0.0)
    handed = handed_on(sch, blocks)
    last = link(sch, blocks[-2], blocks[-1]) if len(blocks) > 1 else None
    tiled = [] if last is None else [v for v, size in last.digits.items() if size > 1]
    if last is None or len(tiled) != 2 or not near or handed <= near:
        return None
    axes = block_info(sch, blocks[-1]).spatial
    loops = dict(zip([i.var for i in axes], map(str, sch.get_loops(blocks[-1])), strict=True))
    extents = {v: sch.state.loop(x).extent for v, x in loops.items()}
    high, wide = [v for v in loops if v in tiled]
    counts = {v: -(-guess(extents[v]) // last.digits[v]) for v in (high, wide)}
    images = prod([guess(extents[v]) for v in last.digits if v not in tiled])
    most = max(_FEWEST, int(near * images * prod(counts.values()) / handed))
    known = value_of(extents[wide]) is not None
    rows, part = _divided(counts[high], counts[wide], most) if known else (1, counts[wide])
    outer = [x for v, x in loops.items() if v in last.digits and v not in tiled]
    split, loops[high] = sch.split(loops[high], [None, rows * last.digits[high]])
    outer.append(split)
    if part < counts[wide]:
        split, loops[wide] = sch.split(loops[wide], [None, part * last.digits[wide]])
        outer.append(split)
    sch.reorder(*outer, *[x for x in loops.values() if x not in outer])
    for b in reversed(blocks[:-1]):
        sch.compute_at(b, outer[-1])
    made = str(sch.blockize(list(blocks), False))
    for b in blocks:
        sch.localize(b)
    return made


def _divided(high: int, wide: int, most: int) -> tuple[int, int]:
    """Rows of tiles in a band, and tiles of each: at most so many tiles, in equal parts."""
    if wide > most:
        return 1, max([d for d in range(_FEWEST, most + 1) if wide % d == 0], default=wide)
    return max([d for d in range(1, most // wide + 1) if high % d == 0]), wide
