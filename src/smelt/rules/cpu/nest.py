"""Loop nests: a block in its own loops, how each access moves with each of them, what it takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Add, Call, Div, Expr, IntImm, Mul, Select, Sub, Var, const
from smelt.ir.walk import free_vars
from smelt.rules.cost import flows, page_cycles
from smelt.rules.sketch import Site
from smelt.target import Machine
from smelt.tir.access import flat_offset
from smelt.tir.nodes import Block, BufferLoad, BufferStore, walk
from smelt.tir.rewrite import loads
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import INTRINSICS, TRANSCENDENTAL, expr_nodes

from .analysis import BlockInfo, analyzer_for, block_info, guess, stride_in

TOGETHER = 4
"""Vectors that accumulate side by side, so that latency does not matter."""
_HEAVY_CYCLES = 12
"""Cycles of a transcendental on a vector, roughly."""


@dataclass
class Axis:
    """A loop of a block: which variable it gives and how far each access moves with it.

    steps  elements of memory a step, the store's first; None where that is not constant
    """

    var: Var
    loop: str
    extent: Expr
    kind: str
    steps: list[Expr | None]

    @cached_property
    def size(self) -> int:
        """The extent, or a guess; 1 where there is nothing."""
        return max(1, guess(self.extent))


@dataclass
class Nest:
    """A block in its own loops, with its accesses (the store first)."""

    info: BlockInfo
    axes: list[Axis]
    accesses: list[BufferLoad | BufferStore]
    values: list[Expr]

    @property
    def spatial(self) -> list[Axis]:
        """The axes that give different elements of the result."""
        return [a for a in self.axes if a.kind == "spatial"]

    @property
    def reduce(self) -> list[Axis]:
        """The axes that are reduced."""
        return [a for a in self.axes if a.kind != "spatial"]

    @property
    def every(self) -> int:
        """Iterations of the whole nest."""
        return prod([a.size for a in self.axes])

    @property
    def moved(self) -> float:
        """Bytes of the different elements that are accessed."""
        return float(sum(map(self.bytes_of, range(len(self.accesses)))))

    def bytes_of(self, k: int) -> int:
        """Bytes of the different elements that one access meets."""
        count = prod([1 if is_zero(a.steps[k]) else a.size for a in self.axes])
        whole = prod(map(guess, self.accesses[k].buffer.shape))  # windows overlap
        return min(count, whole) * dt.bytes_of(self.accesses[k].buffer.type)

    @property
    def computed(self) -> float:
        """Cycles of the transcendentals of a vector."""
        return _HEAVY_CYCLES * sum([heavy(v) for v in self.values])

    def cycles(self, machine: Machine, vector: Axis) -> float:
        """Cycles of all iterations in vectors along an axis."""
        lanes = machine.lanes(widest(self))
        read = 0.0
        for k in range(1, len(self.accesses)):
            read += loads_along(vector.steps[k], lanes) or 0.1
        kept = is_zero(vector.steps[0]) or vector.size == 1
        wrote = 0.0 if kept else 1.0 if is_one(vector.steps[0]) else float(lanes)
        vectors = self.every / vector.size * -(-vector.size // lanes)
        summed = prod([a.size for a in self.reduce])  # in registers meanwhile
        busy = max(read / machine.loads, sum(map(worked, self.values)) / machine.multiply_adds)
        busy = max(busy, wrote / machine.stores) if summed == 1 else busy
        ends = 0.0 if summed == 1 else vectors / summed * wrote / machine.stores
        each = busy + self.computed + self.pages(machine) / TOGETHER + 1
        return vectors * each + ends + 4 * self.every / vector.size

    def traffic(self, machine: Machine, constants: Collection[str]) -> tuple[float, ...]:
        """Bytes that come from beyond each cache: all, where they do not fit into it; constants are
        not in any.
        """
        cold = [k for k, x in enumerate(self.accesses) if x.buffer.name in constants]
        known = sum([self.bytes_of(k) for k in cold])
        return tuple([max(n, known) for n in flows(self.moved, machine)])

    def pages(self, machine: Machine) -> float:
        """Cycles to find the pages of the elements of one step of the reduction."""
        found = 0.0
        for k, x in enumerate(self.accesses):
            moves = [(a.size, a.steps[k]) for a in self.reduce]
            size = dt.bytes_of(x.buffer.type)
            steps = [(n, 0 if s is None else guess(s) * size) for n, s in moves]
            found += page_cycles(steps, machine)
        return found


def is_zero(e: Expr | None) -> bool:
    """Whether a step is certainly 0."""
    return isinstance(e, IntImm) and e.value == 0


def is_one(e: Expr | None) -> bool:
    """Whether a step is certainly 1."""
    return isinstance(e, IntImm) and e.value == 1


def loads_along(step: Expr | None, lanes: int) -> float:
    """Loads for a vector along an axis: elements two apart are picked out of two vectors, those
    further apart are loaded one by one."""
    known = step.value if isinstance(step, IntImm) else None
    return {0: 0.0, 1: 1.0, 2: 3.0}.get(known if known is not None else lanes, float(lanes))


def heavy(e: Expr) -> int:
    """How many transcendental functions an expression evaluates."""
    return sum([_cost(n) >= TRANSCENDENTAL for n in expr_nodes(e)])


def _cost(e: Expr) -> int:
    known = INTRINSICS.get(e.op) if isinstance(e, Call) else None
    return 1 if known is None else known.cost


def worked(e: Expr, written_out: bool = False) -> float:
    """Additions and multiplications that an expression takes.

    written_out  whether it is known of a selection which way it goes: an average one counts
    """
    ways: list[Expr] = []
    while written_out and isinstance(e, Select):
        ways.append(e.true_value)
        e = e.false_value
    ways.append(e)
    each = [sum([_is_arithmetic(n) for n in expr_nodes(w)]) for w in ways]
    return sum(each) / len(each)


def _is_arithmetic(e: Expr) -> bool:
    return isinstance(e, Add | Sub | Mul) and dt.is_float(e.dtype)


def costly(e: Expr) -> bool:
    """Whether an expression takes longer to compute than to load."""
    return any((isinstance(n, Div) and loads(n)) or _cost(n) > 1 for n in expr_nodes(e))


def nest_of(sch: Schedule, name: str) -> Nest | None:
    """What is known of a block; None where its loops are not its variables one by one."""
    realize = sch.state.realize(name)
    loops = sch.get_loops(name)
    info = BlockInfo(realize.block)
    analyzer = analyzer_for(sch.func, info.block)
    stores, values = _stores(realize.block, analyzer)
    if not stores:
        return None
    accesses: list[BufferLoad | BufferStore] = list(stores)
    own = {s.buffer for s in stores}
    for value in values:
        accesses += [x for x in loads(value) if x.buffer not in own and x not in accesses]
    by_loop: dict[str, Var] = {}
    for i, value in zip(info.block.iter_vars, realize.values, strict=True):
        used = [v.name for v in free_vars(value)]
        if len(used) == 1:
            by_loop[used[0]] = i.var
        elif used:
            return None
    kinds = {i.var: i.kind for i in info.block.iter_vars}
    if set(by_loop) != {str(x) for x in loops}:
        return None
    steps = _steps(accesses, list(kinds), analyzer)
    axes = []
    for x in loops:
        var = by_loop[str(x)]
        extent = sch.state.loop(x).extent
        axes.append(Axis(var, x, extent, kinds[var], [s.get(var) for s in steps]))
    return Nest(info, axes, accesses, values)


def anchor_nest(site: Site) -> Nest | None:
    """What is known of a site's first block: see `nest_of`."""
    return nest_of(site.schedule, site.anchor)


def stands_alone(site: Site, nest: Nest) -> bool:
    """Whether a site is one block, or a block and what is made of each of its results."""
    if site.epilogue is None or len(site.blocks) > 2:
        return len(site.blocks) == 1
    info, store = block_info(site.schedule, site.epilogue), nest.info.store
    if store is None or not info.is_elementwise():
        return False
    places = [x.indices for x in info.reads if x.buffer is store.buffer]
    return places == [tuple([i.var for i in info.spatial])]


def _stores(block: Block, analyzer: Analyzer) -> tuple[list[BufferStore], list[Expr]]:
    """All stores of a block and what they store, where its variables' ranges decide guards."""
    stores = [s for s in walk(block.body) if isinstance(s, BufferStore)]
    values = [analyzer.simplify(s.value) for s in stores]
    for x in walk(block.body):
        if not isinstance(x, BufferStore):
            values += [c for c in x.children() if isinstance(c, Expr) and loads(c)]
    return stores, values


def _steps(
    accesses: list[BufferLoad | BufferStore], variables: list[Var], analyzer: Analyzer
) -> list[dict[Var, Expr | None]]:
    """How far each variable moves each access."""
    out: list[dict[Var, Expr | None]] = []
    zero = const(0, INDEX)
    for access in accesses:
        offset = analyzer.simplify(flat_offset(access.buffer, access.indices))
        used = free_vars(offset)
        found: dict[Var, Expr | None] = {v: zero for v in variables if v not in used}
        inside = [v for v in variables if v in used]
        whole = analyzer.linear(offset, inside) if inside else None
        if whole is not None and not free_vars(whole[1]) & set(inside):
            found.update({v: whole[0].get(v, zero) for v in inside})
        else:
            found.update({v: stride_in(offset, v, analyzer) for v in inside})
        out.append(found)
    return out


def as_one(sch: Schedule, name: str, nest: Nest, kept: list[Axis], run: list[Axis]) -> Nest:
    """The nest with some dimensions, which follow one another in memory, made one."""
    own = [i.var for i in nest.info.block.iter_vars]
    places = [own.index(a.var) for a in kept]
    flat = [(own.index(a.var), guess(a.extent)) for a in run]

    def index(*i: Expr) -> list[Expr]:
        whole: Expr = i[flat[0][0]]
        for d, extent in flat[1:]:
            whole = whole * extent + i[d]
        return [*[i[d] for d in places], whole]

    sch.transform_block_layout(name, index)
    found = nest_of(sch, name)
    assert found is not None
    return found


def memory_order(nest: Nest) -> list[Axis]:
    """The axes, those that move furthest in the result first."""

    def key(a: Axis) -> tuple[bool, int]:
        step = a.steps[0]
        return a.size != 1, -guess(step) if step is not None else -1

    return sorted(nest.spatial, key=key)


def guards(values: list[Expr]) -> list[Expr]:
    """The conditions of guarded values."""
    nodes = [n for v in values for n in expr_nodes(v)]
    found = [n.args[0] for n in nodes if isinstance(n, Call) and n.op == "if_then_else"]
    return list(dict.fromkeys(found))


def widest(nest: Nest) -> int:
    """Bytes of the widest element in an access or a value computed on the way."""
    sizes = [dt.bytes_of(x.buffer.type) for x in nest.accesses]
    return max([1, *sizes])


def vector_axis(axes: list[Axis]) -> Axis:
    """The axis along which the result is contiguous; the last one where there is none."""
    for a in reversed(axes):
        if is_one(a.steps[0]) and a.size > 1:
            return a
    return axes[-1]


def continued(inner: Axis, outside: Iterable[Axis], first: int = 0) -> list[Axis]:
    """An axis and those outside it, the nearest first, that go on where it ends in every access.

    first  the number of the first access that counts
    """
    run, extent = [inner], constant(inner)
    for a in outside:
        if extent is None or not continues(a.steps[first:], inner.steps[first:], extent):
            break
        run.insert(0, a)
        size = constant(a)
        extent = None if size is None else extent * size
    return run


def constant(a: Axis) -> int | None:
    """The extent of an axis, where it is a number."""
    return a.extent.value if isinstance(a.extent, IntImm) else None


def continues(outer: Sequence[Expr | None], inner: Sequence[Expr | None], extent: int) -> bool:
    """Whether each access goes on with an outer axis where so many steps of an inner one end."""
    for wide, step in zip(outer, inner, strict=True):
        if not isinstance(wide, IntImm) or not isinstance(step, IntImm):
            return False
        if wide.value != step.value * extent:
            return False
    return True
