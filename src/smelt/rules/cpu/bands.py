"""Bands: blocks that hand on tiles, a contraction among them, are computed a part of the image after
another, so that what they hand on stays near.

    for bands of rows of tiles, or parts of such a row: parallel
        every block's part, scheduled as a program of its own
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.errors import ScheduleError
from smelt.rules.cost import Cost, flows, shares
from smelt.rules.sketch import Choice, Columns, Decision, Domain, Refusal, Site, Space
from smelt.tir.nodes import Buffer
from smelt.tir.schedule import Schedule

from .analysis import block_info, guess
from .loops import share_out, task_domain
from .tiles import link

_NEAR = 0.5
"""The part of a core's cache that what is handed on may fill."""
_FEWEST = 8
"""Tiles of a band: with fewer, a contraction's factors are loaded too often."""

Inside = Callable[[Site, Sequence[str]], list[Choice]]
"""What is chosen for blocks, one after another."""


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

    def __init__(self, site: Site, blocks: Sequence[str], inside: Sequence[Choice]) -> None:
        self.site, self.blocks, self.inside = site, blocks, inside
        fixed = [Domain(c.space.site.anchor, (str(c),), ordered=False) for c in inside]
        self.domains = (task_domain(site.machine), *fixed)

    def cost(self, columns: Columns) -> Cost:
        """That of a band on one core, for all of them; what is read and stored at both ends; and
        the memory of each task, which is another one's."""
        sch, machine = self.site.schedule, self.site.machine
        loops = [sch.state.loop(x) for x in sch.get_loops(self.site.anchor)]
        every = prod([guess(x.extent) for x in loops])
        seconds = sum([c.seconds for c in self.inside])
        given = sch.func.buffers
        ends = sum(map(_bytes, given)) + _bytes(given[-1])
        own = handed_on(sch, self.blocks) / every
        tasks = columns["tasks"]
        traffic = tuple([n + own * tasks for n in flows(ends, machine)])
        return Cost(seconds * every * machine.clock, traffic, tasks)

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """See the module."""
        for c in self.inside:
            c.space.build(schedule, c.decision)
        share_out(schedule, [str(x) for x in schedule.get_loops(self.site.anchor)], decision["tasks"])


def handed_on(sch: Schedule, blocks: Sequence[str]) -> float:
    """Bytes of what blocks, but the last of them, store for others in memory."""
    made = [block_info(sch, b).store for b in blocks[:-1]]
    far = [b for b, then in zip(blocks, blocks[1:], strict=False) if link(sch, b, then) is None]
    return float(sum([_bytes(s.buffer) for b, s in zip(blocks, made, strict=False)
                      if s is not None and b in far]))  # fmt: skip


def _bytes(b: Buffer) -> float:
    return float(prod(map(guess, b.shape)) * dt.bytes_of(b.type))


def band(sch: Schedule, blocks: Sequence[str], site: Site) -> str | None:
    """Let blocks, all of a program, be computed in bands; the block that is one. None where they do
    not end in tiles, or what they hand on stays near as it is.
    """
    near = shares(site.machine)[1:2]
    last = link(sch, blocks[-2], blocks[-1]) if len(blocks) > 1 else None
    if last is None or not near or handed_on(sch, blocks) <= near[0] * _NEAR:
        return None
    loops = {i.var: x for i, x in zip(block_info(sch, blocks[-1]).spatial,
                                      sch.get_loops(blocks[-1]), strict=True)}  # fmt: skip
    tiled = [v for v, size in last.digits.items() if size > 1]
    tiled.sort(key=lambda v: list(loops).index(v))
    if len(tiled) != 2:
        return None
    (high, wide), sizes = ([loops[v] for v in tiled], [last.digits[v] for v in tiled])
    counts = [-(-guess(sch.state.loop(x).extent) // n) for x, n in zip((high, wide), sizes, strict=True)]
    outer = [x for v, x in loops.items() if v in last.digits and v not in tiled]
    tile = handed_on(sch, blocks) / prod(counts) / prod([guess(sch.state.loop(x).extent) for x in outer])
    most = max(_FEWEST, int(near[0] * _NEAR / tile))
    rows, part = _divided(counts, most, value_of(sch.state.loop(wide).extent) is not None)
    split, inner = sch.split(high, [None, rows * sizes[0]])
    outer.append(split)
    left = [inner, wide]
    if part < counts[1]:
        split, left[1] = sch.split(wide, [None, part * sizes[1]])
        outer.append(split)
    rest = [x for v, x in loops.items() if v not in last.digits]
    sch.reorder(*outer, *left, *rest)
    for b in reversed(blocks[:-1]):
        sch.compute_at(b, outer[-1])
    made = sch.blockize(list(blocks), False)
    for b in blocks:
        sch.localize(b)
    return str(made)


def _divided(counts: Sequence[int], most: int, known: bool) -> tuple[int, int]:
    """Rows of a band, and tiles of a row: at most so many tiles, in equal parts."""
    high, wide = counts
    if wide > most and known:
        return 1, max([d for d in range(1, most + 1) if wide % d == 0])
    rows = most // wide if known else 1
    return max([d for d in range(1, max(1, rows) + 1) if high % d == 0]), wide
