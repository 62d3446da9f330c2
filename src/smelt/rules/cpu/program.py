"""From a program to sites, and from sites to the cheapest schedule of all.

Elementwise intermediates are inlined; then every reduction with the elementwise block behind it is
a site, and so is what stands between contractions, block by block or row by row. Of a recurrence,
whose steps follow one another, the blocks of one step are sites likewise. Costs of sites add up, so
each is decided alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.errors import InternalError, ScheduleError
from smelt.ir.expr import Expr, Var
from smelt.rules.cost import Cost
from smelt.rules.sketch import (
    Choice,
    Columns,
    Decision,
    Refusal,
    Scored,
    Site,
    Sketch,
    Space,
    score,
)
from smelt.target import Machine
from smelt.tir.nodes import Block, BlockRealize, BufferLoad, PrimFunc, walk
from smelt.tir.rewrite import loads
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import expr_nodes

from . import nest as nests
from .analysis import BlockInfo, block_info, guess
from .bands import Bands, band
from .blocks import Blocks, Chain, chain_of
from .contraction import Contraction
from .elementwise import Elementwise
from .generic import Generic
from .loops import share_out, task_domain
from .reduce import Chunks, Lanes, Serial
from .rows import Rows
from .tiles import Tiles, link
from .window import Window

SKETCHES: tuple[Sketch, ...] = (
    Contraction(), Window(), Lanes(), Chunks(), Serial(), Rows(), Tiles(), Blocks(), Elementwise(),
)  # fmt: skip
"""Every way to schedule a site; the cheapest decision of all that fit is the default."""
SEARCHED: tuple[Sketch, ...] = (Generic(),)
"""Further ways that a search looks at, whose costs are less certain."""
UNTILED: tuple[Sketch, ...] = (Window(), Lanes(), Serial(), Elementwise())
"""For programs that are compiled without optimization."""


_LONG, _OFTEN = 8, 4
"""Values of more than so many steps behind a load that are used more often are stored, even if each
step is cheap."""
_WORTH = 1.25
"""Blocks by themselves hand on whole results in memory: they have to be so much faster."""


class Plain:
    """What no sketch fits stays as it is written; its outer loops may be shared out."""

    name = "plain"
    version = 1

    def open(self, site: Site) -> Space | Refusal:
        """Fits everything."""
        return PlainSpace(site)


class PlainSpace(Space):
    """Into how many tasks the loops are divided."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.nest = site.read(nests.anchor_nest) if len(site.blocks) == 1 else None
        self.domains = (task_domain(site.machine),) if self.nest is not None else ()

    def cost(self, columns: Columns) -> Cost:
        """Element by element."""
        if self.nest is None:
            return Cost(0.0)
        return Cost(self.nest.every * float(len(self.nest.accesses)), tasks=columns["tasks"])

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """Share the outer loops out."""
        if self.nest is not None:
            share_out(schedule, [a.loop for a in self.nest.spatial], decision["tasks"])


@dataclass(frozen=True)
class Part:
    """A site with every sketch that was opened on it.

    scored   spaces with their decisions, by sketch
    refused  why the other sketches do not fit, by name
    """

    site: Site
    scored: tuple[tuple[Sketch, Scored], ...]
    refused: tuple[tuple[str, str], ...]

    @cached_property
    def choices(self) -> list[Choice]:
        """The best decision of each sketch, the cheapest first; of equals the first by name."""
        found = [s.choice(sketch) for sketch, s in self.scored if len(s.order)]
        return sorted(found, key=lambda c: (c.seconds, c.sketch.name))

    @cached_property
    def searched(self) -> list[tuple[Sketch, Scored]]:
        """Further sketches that fit, where none does that was made for such blocks."""
        if any(isinstance(k, Contraction | Rows | Tiles | Blocks | Bands) for k, _ in self.scored):
            return []
        opened = [(k, k.open(self.site)) for k in SEARCHED]
        found = [(k, score(s, self.site.machine)) for k, s in opened if isinstance(s, Space)]
        return [(k, s) for k, s in found if len(s.order)]

    @property
    def fits(self) -> bool:
        """Whether a sketch knows the site; else it stays as it is written."""
        return bool(self.choices) and not isinstance(self.choices[0].sketch, Plain)

    @property
    def seconds(self) -> float:
        """What it is predicted to take."""
        return self.choices[0].seconds if self.choices else float("inf")


@dataclass(frozen=True)
class Plan:
    """A program with its elementwise blocks inlined, and its parts.

    body    the algorithm that stands in place of an operator's own; "": none does
    failed  what could not be done to the program, which should not happen
    """

    schedule: Schedule
    parts: tuple[Part, ...]
    body: str = ""
    failed: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """What it is predicted to take."""
        return sum([p.seconds for p in self.parts])


@dataclass(frozen=True)
class Scheduled:
    """A program with its default schedule.

    chosen   the algorithm, where it is not the operator's own; per part the sketch and its decision
    failed   choices that could not be built, which should not happen, with the error's first line
    seconds  what the cheapest are predicted to take; None where sizes are symbolic
    """

    schedule: Schedule
    chosen: tuple[str, ...]
    failed: tuple[str, ...] = ()
    seconds: float | None = None


def plan(
    func: PrimFunc,
    machine: Machine,
    constants: frozenset[str] = frozenset(),
    sketches: Sequence[Sketch] = SKETCHES,
) -> Plan:
    """The parts of a program with everything that may be chosen for them.

    constants  names of parameters whose values are known at compile time, so that they may be laid
               out anew
    """
    whole = _precomputed(Schedule(func), constants)
    looked = whole.copy()  # questions stand in traces
    blocks = [str(b) for b in looked.get_child_blocks("root")]
    products = [b for b in blocks if is_contraction(block_info(looked, b))]
    chains = [c for b in products if (c := chain_of(looked, b, constants)) is not None]
    tiles = _handed_on(looked, blocks) + [b for c in chains for b in (c.digits, c.rows) if b]
    kept = frozenset([*_operands(looked, products), *tiles])
    plans: list[Plan] = []
    for keep in (frozenset[str](), kept) if kept and not tiles else (kept,):
        sch = whole.copy()
        inline_blocks(sch, keep)
        site = Site(sch.copy(), (), machine, constants)
        plans.append(Plan(sch, tuple(_Partition(site, sketches).parts())))
        if tiles and not chains and any(isinstance(s, Tiles) for s in sketches):
            plans[-1] = _in_bands(plans[-1], site, sketches)
    return min(plans, key=lambda p: p.seconds)


def _in_bands(whole: Plan, site: Site, sketches: Sequence[Sketch]) -> Plan:
    """The program a part of the image after another, where that keeps near what is handed on and
    is predicted to take no longer; else as it is."""
    sch = whole.schedule.copy()
    blocks = [str(b) for b in sch.get_child_blocks("root")]
    try:
        made = band(sch, blocks, site)
    except ScheduleError as e:
        return replace(whole, failed=(f"bands of {', '.join(blocks)}: {str(e).splitlines()[0]}",))
    if made is None:
        return whole

    def inside(alone: Site, names: Sequence[str]) -> dict[str, Choice]:
        parts = _Partition(alone, sketches).of_blocks(names)
        return {p.site.anchor: p.choices[0] for p in parts}

    part = _Partition(replace(site, schedule=sch.copy()), (Bands(inside),)).part([made])
    banded = Plan(sch, (part,))
    return banded if banded.seconds <= whole.seconds else whole


def apply(chosen: Plan, strict: bool = False) -> Scheduled:
    """Build the cheapest choice of each part.

    strict  whether a choice that cannot be built is an InternalError; else the next one is taken
            and the failure recorded
    """
    sch = chosen.schedule.copy()
    if strict and chosen.failed:
        raise InternalError(chosen.failed[0])
    names, failed = [chosen.body] if chosen.body else [], [*chosen.failed]
    for part in chosen.parts:
        for choice in [*part.choices, _plain(part.site)]:
            tried = sch.copy()
            try:
                choice.space.build(tried, choice.decision)
            except ScheduleError as e:
                where = f"{choice} of {', '.join(part.site.blocks)}: {str(e).splitlines()[0]}"
                if strict:
                    raise InternalError(f"a sketch fits and cannot be built: {where}\n{e}") from e
                failed.append(where)
                continue
            sch.adopt(tried)
            names.append(str(choice))
            break
    known = not any(isinstance(p, Var) for p in sch.func.params) and not failed
    return Scheduled(sch, tuple(names), tuple(failed), chosen.seconds if known else None)


def _plain(site: Site) -> Choice:
    sketch = Plain()
    space = PlainSpace(site)
    return Choice(sketch, space, score(space, site.machine).decision(0), float("inf"))


class _Partition:
    """Cuts a program into parts."""

    def __init__(self, whole: Site, sketches: Sequence[Sketch]) -> None:
        self.whole, self.sch, self.sketches = whole, whole.schedule, sketches

    def parts(self) -> list[Part]:
        """Of the whole program."""
        return self.of_blocks([str(b) for b in self.sch.get_child_blocks("root")])

    def of_blocks(self, names: Sequence[str]) -> list[Part]:
        """Of blocks that follow one another."""
        found: list[Part] = []
        run: list[str] = []
        chains = self._chains(names)
        inside = {b for n, c in chains.items() for b in c.blocks if b != n}
        blocks = [b for b in names if b not in inside]
        while blocks:
            name = blocks.pop(0)
            if steps_of(self.sch, name):
                found += [*self._between(run), *self._steps(name)]
                run = []
            elif name in chains:
                found += [*self._between(run), self._chained(chains[name], blocks)]
                run = []
            elif is_contraction(block_info(self.sch, name)):
                found += [*self._between(run), *self._anchored(name, blocks)]
                run = []
            else:
                run.append(name)
        return [*found, *self._between(run)]

    def _chains(self, names: Sequence[str]) -> dict[str, Chain]:
        """What multiplies in blocks of the reduction, by the block that sums one of these."""
        if not any(isinstance(s, Blocks) for s in self.sketches):
            return {}
        found = {b: chain_of(self.sch, b, self.whole.constants) for b in names}
        return {b: c for b, c in found.items() if c is not None}

    def _chained(self, chain: Chain, behind: list[str]) -> Part:
        """A product in blocks, and the block behind it where that belongs to it."""
        after = [b for b in behind if _is_epilogue(self.sch, chain.total, b)]
        for b in after:
            behind.remove(b)
        return self.part([*chain.blocks, *after])

    def part(self, blocks: Sequence[str]) -> Part:
        """Some blocks that are scheduled together."""
        site = replace(self.whole, blocks=tuple(blocks), _known={})
        scored, refused = [], []
        for sketch in self.sketches:
            space = sketch.open(site)
            if isinstance(space, Refusal):
                refused.append((sketch.name, space.reason))
                continue
            scored.append((sketch, score(space, site.machine)))
            if space.settles:
                break
        if not any(len(s.order) for _, s in scored):
            sketch = Plain()
            scored = [(sketch, score(PlainSpace(site), site.machine))]
        return Part(site, tuple(scored), tuple(refused))

    def _anchored(self, name: str, behind: list[str]) -> list[Part]:
        """A reduction, and the block behind it where that belongs to it: it is taken from there."""
        alone = [self.part([name])]
        if not behind or not _is_epilogue(self.sch, name, behind[0]):
            return alone
        together, alone = self.part([name, behind[0]]), [*alone, self.part([behind[0]])]
        behind.pop(0)
        return [together] if together.fits and together.seconds <= _seconds(alone) else alone

    def _between(self, names: list[str]) -> list[Part]:
        """Blocks that follow one another: row by row, or each by itself."""
        single: list[Part] = []
        left = list(names)
        while left:
            run = self._linked(left)
            together = self.part(run) if len(run) > 1 else None
            if together is not None and together.fits:
                single.append(together)
                left = left[len(run) :]
            else:
                single += self._anchored(left.pop(0), left)
        if len(names) < 2 or not any(block_info(self.sch, b).is_reduction for b in names):
            return single
        rows = self.part(names)
        return [rows] if rows.fits and rows.seconds <= _WORTH * _seconds(single) else single

    def _linked(self, names: Sequence[str]) -> list[str]:
        """The first of some blocks, and those behind it to which tiles are handed on."""
        run = [names[0]]
        for b in names[1:]:
            if link(self.sch, run[-1], b) is None:
                break
            run.append(b)
        return run

    def _steps(self, name: str) -> list[Part]:
        """The blocks of one step of a recurrence."""
        found = []
        for inner in self.sch.get_child_blocks(name):
            for b in self.sch.get_child_blocks(inner) or [inner]:
                found.append(self.part([str(b)]))
        return found


def _seconds(parts: Sequence[Part]) -> float:
    return sum([p.seconds for p in parts])


def is_contraction(info: BlockInfo) -> bool:
    """Whether a block sums products of two different operands, neither of which slides alone."""
    product = info.product()
    return product is not None and product[0] is not product[1]


def steps_of(sch: Schedule, name: str) -> list[str]:
    """The steps inside a block: blocks whose iterations follow one another."""
    inside = [s for s in walk(sch.state.realize(name).block.body) if isinstance(s, BlockRealize)]
    return [s.block.name for s in inside if any(i.kind == "opaque" for i in s.block.iter_vars)]


def _operands(sch: Schedule, names: Sequence[str]) -> list[str]:
    """The blocks that compute an operand of a contraction from several values, or in whole groups
    for an instruction."""
    found = []
    for name in names:
        grouped = in_groups(block_info(sch, name))
        for p in sch.get_producers(name):
            info = block_info(sch, p)
            if info.store is None or info.reduce:
                continue
            if grouped or len(loads(info.store.value)) > 1:
                found.append(str(p))
    return found


_GROUPS = (2, 4, 8)


def in_groups(info: BlockInfo) -> bool:
    """Whether a block sums products of narrow integers over an axis as long as a group."""
    product = info.product()
    if product is None or value_of(info.reduce[-1].dom.extent) not in _GROUPS:
        return False
    return all(dt.is_int(x.dtype) and dt.bits(x.dtype) <= 16 for x in product)


def _handed_on(sch: Schedule, blocks: Sequence[str]) -> list[str]:
    """The blocks that hand on tiles to the one behind them."""
    return [a for a, b in pairwise(blocks) if link(sch, a, b) is not None]


def _precomputed(sch: Schedule, constants: Collection[str]) -> Schedule:
    """The program without what is made of constants alone: that is when the model is compiled."""
    looked = sch.copy()
    blocks = {str(b): block_info(looked, b) for b in looked.get_child_blocks("root")}
    for b, info in sorted(blocks.items(), key=lambda v: not v[1].reduce):  # of what is as given
        read = {x.buffer.name for x in info.reads}
        if len(read) != 1 or not read <= set(constants):
            continue
        tried = sch.copy()
        try:
            tried.precompute(str(b))
        except ScheduleError:
            continue
        sch = tried
    return sch


def _is_epilogue(sch: Schedule, name: str, behind: str) -> bool:
    """Whether a block is the only one that uses a reduction's result, element by element."""
    info, made = block_info(sch, behind), block_info(sch, name)
    if not made.reduce or [str(c) for c in sch.get_consumers(name)] != [behind]:
        return False
    if not info.is_elementwise() or made.store is None:
        return False
    reads: list[tuple[Expr, ...]] = [x.indices for x in info.reads if x.buffer is made.store.buffer]
    ranks = [i.var for i in info.spatial]
    return len(reads) == 1 and list(reads[0]) == ranks


# ---------------------------------------------------------------------------------------- inlining


def inline_blocks(sch: Schedule, keep: frozenset[str] = frozenset()) -> None:
    """Compute every elementwise intermediate where it is used, but none many times over."""
    outputs = set(sch.get_output_blocks())
    for b in sch.get_child_blocks("root"):
        if b in outputs or b in keep:
            continue
        info = block_info(sch, b)
        if info.is_reduction or not _worth_inlining(sch, b, info):
            continue
        try:
            sch.compute_inline(b)
        except ScheduleError:
            continue


def _worth_inlining(sch: Schedule, name: str, info: BlockInfo) -> bool:
    """Whether computing each element where it is used costs no more than storing it."""
    if info.store is None:
        return False
    costly = nests.costly(info.store.value)
    if not costly and _steps_behind_loads(info.store.value) <= _LONG:
        return True
    made = _iterations(info.block)
    used = 0.0
    for c in sch.get_consumers(name):
        block = sch.state.realize(c).block
        places = sum([x.buffer is info.store.buffer for x in loads(block.body)])
        used += _iterations(block) * places
    return used <= made * (1.5 if costly else _OFTEN)


def _steps_behind_loads(value: Expr) -> int:
    """How many operations work on what has been loaded; places and guards are none of them."""
    found: set[Expr] = set()
    for e in expr_nodes(value):
        if isinstance(e, BufferLoad) or any(c in found for c in e.children()):
            found.add(e)
    return len(found)


def _iterations(block: Block) -> float:
    return prod([float(guess(i.dom.extent)) for i in block.iter_vars])
