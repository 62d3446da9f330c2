"""Tiles that are transformed: blocks that follow one another, of which each reads what the one
before it makes all along short dimensions, and at its own place along the others.

    for tiles, pieces of the vector axis: parallel
        a block with guards: its part of the tile for the whole piece, in local memory
        for vectors of the piece:
            the other blocks' parts of the tile; what selections depend on is written out
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from smelt.ir.build import value_of
from smelt.ir.expr import Expr, FloorDiv, FloorMod, Select, Var
from smelt.ir.walk import free_vars
from smelt.rules.cost import Cost, flows
from smelt.rules.sketch import Columns, Decision, Refusal, Site, Space
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import NO_PARTITION, expr_nodes

from . import nest as nests
from .analysis import analyzer_for, block_info
from .loops import share_out, task_domain
from .nest import Nest, nest_of

_SHORT = 8
"""The longest dimension that is written out."""
_PIECE = 4
"""Vectors that a guard is asked for once."""
_GUARDED = 6.0
"""Cycles that this takes, roughly."""


@dataclass(frozen=True)
class Link:
    """How a block reads what the one before it makes.

    own      by variable of the block: the variable of the one before that has the same value
    digits   by variable of the block: m, where it counts elements of tiles as (v // m, v % m)
    """

    own: Mapping[Var, Var]
    digits: Mapping[Var, int]


class Tiles:
    """Blocks that hand on tiles, in registers."""

    name = "tiles"
    version = 1

    def open(self, site: Site) -> Space | Refusal:
        """Fits a chain of blocks, each the only reader of the one before it."""
        found = [nest_of(site.schedule, b) for b in site.blocks]
        if len(found) < 2 or any(n is None or n.reduce or not n.axes for n in found):
            return Refusal("a block alone, or a reduction")
        chain = [n for n in found if n is not None]
        links = [link(site.schedule, a, b) for a, b in pairwise(site.blocks)]
        known = [x for x in links if x is not None]
        if len(known) < len(links):
            return Refusal("blocks that do not hand on tiles")
        space = TilesSpace(site, chain, known)
        if space.vector.var not in space.shared:
            return Refusal("vectors that would lie across tiles")
        if value_of(space.vector.extent) is None:
            return Refusal("vectors along an unknown size")
        if space.has_long_tiles(known):
            return Refusal("tiles too large for registers")
        return space


def link(sch: Schedule, first: str, then: str) -> Link | None:
    """How a block hands on tiles to another one; None where it does not."""
    made, info = block_info(sch, first), block_info(sch, then)
    if made.store is None or info.store is None or made.reduce or info.reduce:
        return None
    if [str(c) for c in sch.get_consumers(first)] != [then]:
        return None
    reads = [x for x in info.reads if x.buffer is made.store.buffer]
    analyzer = analyzer_for(sch.func, info.block)
    axes = [i.var for i in info.spatial]
    own: dict[Var, Var] = {}
    digits: dict[Var, int] = {}
    inner = 0
    for d, (i, at) in enumerate(zip(made.spatial, made.store.indices, strict=False)):
        start = analyzer.simplify(at - i.var)
        if free_vars(start) & {x.var for x in made.spatial}:
            return None
        places = list(dict.fromkeys([analyzer.simplify(x.indices[d] - start) for x in reads]))
        tiles = _quotients(places[0], set(axes)) if len(places) == 1 else None
        if len(places) > 1 or i.var in _deciding(made.store.value):
            if (value_of(i.dom.extent) or _SHORT + 1) > _SHORT:
                return None
            inner += len(places) > 1
        elif tiles is None:
            return None
        elif isinstance(places[0], Var):
            own[places[0]] = i.var
        else:
            digits.update(tiles)
    return Link(own, digits) if inner else None


def _deciding(value: Expr) -> set[Var]:
    """What the selections of a value depend on."""
    chosen = [e.condition for e in expr_nodes(value) if isinstance(e, Select)]
    return {v for c in chosen for v in free_vars(c)}


def _quotients(place: Expr, axes: Set[Var]) -> dict[Var, int] | None:
    """By axis the number m, where a place depends on v // m, or 1, where on v; None elsewhere."""
    found: dict[Var, int] = {}
    stack = [place]
    while stack:
        e = stack.pop()
        if not free_vars(e) & axes:
            continue
        if isinstance(e, Var):
            if found.setdefault(e, 1) != 1:
                return None
        elif isinstance(e, FloorDiv) and isinstance(e.a, Var):
            size = value_of(e.b)
            if size is None or found.setdefault(e.a, size) != size:
                return None
        elif isinstance(e, FloorMod | FloorDiv):
            return None
        else:
            stack += [c for c in e.children() if isinstance(c, Expr)]
    return found


class TilesSpace(Space):
    """Into how many tasks the tiles are divided."""

    def __init__(self, site: Site, chain: Sequence[Nest], links: Sequence[Link]) -> None:
        self.site, self.chain, self.last = site, chain, chain[-1]
        self.axes = nests.memory_order(self.last)
        self.vector = nests.vector_axis(self.axes)
        self.digits = links[-1].digits if len(links) == 1 else {}
        self.shared = {a.var: a.var for a in self.axes}
        for x in reversed(links):
            self.shared = {v: x.own[s] for v, s in self.shared.items() if s in x.own}
        self.lanes = site.machine.lanes(nests.widest(self.last))
        vectors = -(-self.vector.size // self.lanes)
        self.several = max([v for v in range(1, _PIECE + 1) if vectors % v == 0])
        self.domains = (task_domain(site.machine),)

    def has_long_tiles(self, links: Sequence[Link]) -> bool:
        """Whether a dimension that stays inside of a tile is long, or of unknown size."""
        shared = set(self.shared)
        for x, n in zip(reversed(links), reversed(self.chain), strict=False):
            inside = [a for a in n.axes if a.var in x.own and a.var not in shared]
            if any((value_of(a.extent) or _SHORT + 1) > _SHORT for a in inside):
                return True
            shared = {x.own[v] for v in shared}
        return False

    def cost(self, columns: Columns) -> Cost:
        """Arithmetic of every block, loads and stores of the tiles, bytes at both ends."""
        machine, cycles, moved = self.site.machine, 0.0, 0.0
        made = {n.accesses[0].buffer for n in self.chain[:-1]}
        for n in self.chain:
            ends = [x.buffer not in made for x in n.accesses]
            vectors = n.every / self.vector.size * -(-self.vector.size // self.lanes)
            work = sum([nests.worked(v, written_out=True) for v in n.values])
            cycles += vectors * max(
                work / machine.multiply_adds, sum(ends[1:]) / machine.loads, 1 / machine.stores
            )
            if nests.guards(n.values):
                cycles += _GUARDED * vectors / self.several
            moved += sum([n.bytes_of(k) * (1 + (k == 0)) for k, end in enumerate(ends) if end])
        return Cost(cycles, flows(moved, machine), columns["tasks"])

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """See the module."""
        sch, (*before, last) = schedule, self.site.blocks
        outer, inner = self._outside(sch)
        piece, each, lane = sch.split(self.vector.loop, [None, self.several, self.lanes])
        outer.append(piece)
        sch.reorder(*outer, each, *inner, lane)
        for b in reversed(before):
            self._inside(sch, b, piece, each, len(outer))
        _write_out(sch, last, inner, lane)
        if inner:
            sch.annotate(inner[0], NO_PARTITION, True)
        share_out(sch, outer, decision["tasks"])

    def _outside(self, sch: Schedule) -> tuple[list[str], list[str]]:
        """The last block's loops over tiles, and those inside of one."""
        outer: list[str] = []
        inner: list[str] = []
        for a in self.axes:
            size = 1 if a.var in self.shared else self.digits.get(a.var, 0)
            if size > 1:
                o, i = sch.split(a.loop, [None, size])
                outer.append(o)
                inner.append(i)
            elif a is not self.vector:
                (outer if size else inner).append(a.loop)
        return outer, inner

    def _inside(self, sch: Schedule, name: str, piece: str, each: str, depth: int) -> None:
        """Compute a block where the next one wants its tile; where that is guarded, for all vectors
        of a piece, so that there are few branches."""
        store = block_info(sch, name).store
        guarded = store is not None and bool(nests.guards([store.value]))
        sch.compute_at(name, piece if guarded else each)
        sch.set_scope(name, 0, "local")
        *others, wide = [str(x) for x in sch.get_loops(name)[depth + (not guarded) :]]
        if guarded and self.several > 1:
            _, wide = sch.split(wide, [None, self.lanes])
        if guarded and others:
            sch.annotate(others[0], NO_PARTITION, True)
        _write_out(sch, name, others, wide)


def _write_out(sch: Schedule, name: str, loops: Sequence[str], lane: str) -> None:
    """The last loop in vectors, and those of the others unrolled that selections depend on."""
    store = block_info(sch, name).store
    used = set() if store is None else _deciding(store.value)
    bound = [e for i, e in sch.state.realize(name).bindings if i.var in used]
    asked = {v.name for e in bound for v in free_vars(e)}
    for x in loops:
        if x in asked:
            sch.unroll(x)
    sch.vectorize(lane)
