"""Elementwise, broadcast and data-moving groups; the nests that the other rules build on.

for outer dimensions, in the order of the result's memory: parallel
    for the longest run of dimensions that every operand walks alike:
        vectors, unrolled, masked at the end
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from math import prod

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import GE, GT, INDEX, LE, LT, Call, Div, Expr, IntImm, Mul, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.target import Machine
from smelt.tir.nodes import Block, BufferLoad, BufferStore, walk
from smelt.tir.rewrite import loads
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import INTRINSICS, TRANSCENDENTAL, expr_nodes

from .analysis import BlockInfo, analyzer_for, block_info, flat_offset, step_of, stride_in

TASK_BYTES = 64 << 10
"""Memory traffic (or as much arithmetic) that a task should have at least."""
_TASKS = 4
"""Tasks a core, so that claiming them evens out."""
_UNKNOWN = 64
"""The extent assumed where it is symbolic."""
_TILE = 16
"""Elements to a side of a transposed tile: a cache line of the smallest common type."""
_PIECES = 16
"""More pieces of a joined dimension than this are left to guards."""
_WRITTEN_OUT = 64
"""Iterations of a loop after the reduction that are written out at most."""
_HEAVY_BYTES = 8
"""A transcendental costs as much time as moving its element so many times."""


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

    @property
    def size(self) -> int:
        """The extent, or a guess."""
        return guess(self.extent)


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

    def cost(self) -> float:
        """Bytes moved by the whole nest, arithmetic counted as such."""
        total, every = 0.0, prod([a.size for a in self.axes])
        for k, access in enumerate(self.accesses):
            count = prod([1 if is_zero(a.steps[k]) else a.size for a in self.axes])
            total += count * dt.bytes_of(access.buffer.type)
        widest = max([dt.bytes_of(x.buffer.type) for x in self.accesses], default=4)
        return total + every * widest * _HEAVY_BYTES * sum([heavy(v) for v in self.values])


def guess(e: Expr) -> int:
    """The value of an expression, symbolic sizes taken as a typical one."""
    if isinstance(e, IntImm):
        return e.value
    sizes: dict[Var, Expr] = {v: const(_UNKNOWN, INDEX) for v in free_vars(e)}
    found = Analyzer().simplify(substitute(e, sizes))
    return found.value if isinstance(found, IntImm) else _UNKNOWN


def is_zero(e: Expr | None) -> bool:
    """Whether a step is certainly 0."""
    return isinstance(e, IntImm) and e.value == 0


def is_one(e: Expr | None) -> bool:
    """Whether a step is certainly 1."""
    return isinstance(e, IntImm) and e.value == 1


def heavy(e: Expr) -> int:
    """How many transcendental functions an expression evaluates."""
    return sum([_cost(n) >= TRANSCENDENTAL for n in expr_nodes(e)])


def _cost(e: Expr) -> int:
    known = INTRINSICS.get(e.op) if isinstance(e, Call) else None
    return 1 if known is None else known.cost


def costly(e: Expr) -> bool:
    """Whether an expression takes longer to compute than to load."""
    return any((isinstance(n, Div) and loads(n)) or _cost(n) > 1 for n in expr_nodes(e))


# ------------------------------------------------------------------------------------- reading


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
        offset = analyzer.simplify(flat_offset(access))
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
    if not costly(info.store.value):
        return True
    made = _iterations(info.block)
    used = 0.0
    for c in sch.get_consumers(name):
        block = sch.state.realize(c).block
        places = sum([x.buffer is info.store.buffer for x in loads(block.body)])
        used += _iterations(block) * places
    return used <= made * 1.5


def _iterations(block: Block) -> float:
    return prod([float(guess(i.dom.extent)) for i in block.iter_vars])


# ---------------------------------------------------------------------------------------- the rule


def schedule_elementwise(sch: Schedule, machine: Machine) -> bool:
    """A group without reductions."""
    inline_blocks(sch)
    for b in sch.get_child_blocks("root"):
        if not block_info(sch, b).is_reduction:
            schedule_nest(sch, b, machine)
    return True


def schedule_around(
    sch: Schedule, machine: Machine, rule: Callable[[Schedule, str, str | None, Machine], bool]
) -> bool:
    """A group with one reduction, which the rule schedules with the elementwise block behind it;
    False where there are others, or the rule does not fit."""
    inline_blocks(sch)
    blocks = sch.get_child_blocks("root")
    anchors = [b for b in blocks if block_info(sch, b).is_reduction]
    if len(anchors) != 1:
        return False
    at = blocks.index(anchors[0])
    behind = blocks[at + 1 :]
    if len(behind) > 1 or not rule(sch, anchors[0], behind[0] if behind else None, machine):
        return False
    for b in blocks[:at]:
        schedule_nest(sch, b, machine)
    return True


def schedule_nest(sch: Schedule, name: str, machine: Machine) -> bool:
    """One elementwise block in loops of its own. False where nothing could be done."""
    nest = nest_of(sch, name)
    if nest is None or nest.reduce or not nest.axes:
        return False
    nest = _flattened(sch, name, nest)
    axes = memory_order(nest)
    pieces = _joined(nest, axes)
    if pieces is None:
        _schedule_piece(sch, nest, axes, machine)
        return True
    axis, sizes = pieces
    axes.remove(axis)
    sch.reorder(axis.loop, *[a.loop for a in axes])
    for part in sch.loop_partition(axis.loop, sizes):
        for block in sch.get_child_blocks(part):
            inner = nest_of(sch, block)
            if inner is not None:
                _schedule_piece(sch, inner, memory_order(inner), machine)
    return True


def _flattened(sch: Schedule, name: str, nest: Nest) -> Nest:
    """The nest with dimensions that every operand walks like one made one."""
    axes = memory_order(nest)
    joined = _joined(nest, axes)
    rest = [a for a in axes if joined is None or a is not joined[0]]
    if not rest:
        return nest
    vector = vector_axis(rest)
    run = _run(nest, rest, vector)
    if len(run) == 1 or _turned_axis(nest, rest, vector) is not None:
        return nest
    return as_one(sch, name, nest, [a for a in axes if a not in run], run)


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


def _joined(nest: Nest, axes: list[Axis]) -> tuple[Axis, list[int | None]] | None:
    """The axis along which several sources stand one after another, and the extents of each."""
    by_var = {a.var: a for a in axes}
    cuts: dict[Var, set[int]] = {}
    for condition in _guards(nest.values):
        if not isinstance(condition, LT | LE | GT | GE):
            continue
        a, b = condition.a, condition.b
        if isinstance(a, Var) and a in by_var and isinstance(b, IntImm):
            at = b.value + (1 if isinstance(condition, LE | GT) else 0)
            if 0 < at < by_var[a].size:
                cuts.setdefault(a, set()).add(at)
    if not cuts:
        return None
    var = max(cuts, key=lambda v: len(cuts[v]))
    if len(cuts[var]) >= _PIECES:
        return None
    edges = [0, *sorted(cuts[var])]
    sizes: list[int | None] = [b - a for a, b in pairwise(edges)]
    return by_var[var], [*sizes, None]


def _guards(values: list[Expr]) -> list[Expr]:
    """The conditions of guarded values."""
    nodes = [n for v in values for n in expr_nodes(v)]
    found = [n.args[0] for n in nodes if isinstance(n, Call) and n.op == "if_then_else"]
    return list(dict.fromkeys(found))


def _schedule_piece(sch: Schedule, nest: Nest, axes: list[Axis], machine: Machine) -> None:
    """Vectors along the contiguous axis, tiles where an operand is turned, tasks outside."""
    vector = vector_axis(axes)
    turned = _turned_axis(nest, axes, vector)
    order = [a.loop for a in axes if a is not vector and a is not turned]
    lanes = machine.lanes(widest(nest))
    if turned is not None:
        sch.reorder(*order, turned.loop, vector.loop)
        t_o, t_i = sch.split(turned.loop, [None, min(_TILE, turned.size)])
        v_o, v_l = sch.split(vector.loop, [None, min(lanes, power(vector.size))])
        sch.reorder(t_o, v_o, t_i, v_l)
        sch.vectorize(v_l)
        share_out(sch, [*order, t_o, v_o], nest.cost(), machine)
        return
    if order:
        sch.reorder(*order, vector.loop)
    order.append(vectorize(sch, vector.loop, vector.size, lanes, _unroll(nest)))
    share_out(sch, order, nest.cost(), machine)


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


def _turned_axis(nest: Nest, axes: list[Axis], vector: Axis) -> Axis | None:
    """Another axis along which an operand is contiguous that jumps along the vector axis."""
    for k in range(1, len(nest.accesses)):
        step = vector.steps[k]
        if is_zero(step) or is_one(step):
            continue
        for a in axes:
            if a is not vector and is_one(a.steps[k]) and a.size >= 4 and vector.size >= 4:
                return a
    return None


def _run(nest: Nest, axes: list[Axis], vector: Axis) -> list[Axis]:
    """The vector axis and those outside it that continue it in every access."""
    guarded = {v for c in _guards(nest.values) for v in free_vars(c)}
    dense = all(is_zero(s) or is_one(s) for s in vector.steps)
    if not dense or vector.var in guarded:
        return [vector]
    outside = [a for a in reversed(axes) if a is not vector and constant(a) != 1]
    return continued(vector, takewhile(lambda a: a.var not in guarded, outside))


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


def _unroll(nest: Nest) -> int:
    """Vectors an iteration: enough to hide the loop behind memory, one where much is computed."""
    if sum([heavy(v) for v in nest.values]):
        return 1
    return 4 if len(nest.accesses) <= 4 else 2


def power(n: int) -> int:
    """The smallest power of two that is not below n."""
    return 1 << max(0, n - 1).bit_length()


def write_out(sch: Schedule, tile: Sequence[str]) -> None:
    """The loops of a register tile, if any: the last one in vectors, the others unrolled."""
    for loop in tile[:-1]:
        sch.unroll(loop)
    for loop in tile[-1:]:
        sch.vectorize(loop)


def in_registers(sch: Schedule, name: str, epilogue: str | None) -> str:
    """Keep a block's results in registers; the block that moves them to memory: the one behind it,
    or a copy."""
    if epilogue is None:
        return sch.cache_write(name, 0, "local")
    sch.set_scope(name, 0, "local")
    return epilogue


def write_out_sums(
    sch: Schedule, name: str, reduce: Sequence[str], tile: Sequence[str], depth: int
) -> None:
    """The loops of a register tile inside those of a reduction, and of what starts its sums."""
    if reduce:
        init = sch.decompose_reduction(name, reduce[0])
        write_out(sch, sch.get_loops(init)[depth:])
    write_out(sch, tile)


def copy_out(sch: Schedule, name: str, depth: int, lanes: int) -> None:
    """A block from registers to memory: columns unrolled, the contiguous axis in vectors."""
    fresh = sch.get_loops(name)[depth:]
    vector = _contiguous_loop(sch, name, fresh) or fresh[-1]
    others = [x for x in fresh if x != vector]
    if others:
        sch.reorder(*others, vector)
    extent = sch.state.loop(vector).extent
    if isinstance(extent, IntImm) and extent.value > lanes:
        wide, vector = sch.split(vector, [None, lanes])
        others.append(wide)
    for x in others:
        extent = sch.state.loop(x).extent
        if isinstance(extent, IntImm) and extent.value <= _WRITTEN_OUT:
            sch.unroll(x)  # the others run over a result that is wider than the tile
    sch.vectorize(vector)


def _contiguous_loop(sch: Schedule, name: str, fresh: Sequence[str]) -> str | None:
    """The loop among the innermost ones along which a block's result is contiguous."""
    info = block_info(sch, name)
    if info.store is None:
        return None
    analyzer = analyzer_for(sch.func, info.block)
    for i, value in sch.state.realize(name).bindings:
        if step_of(info.store, i.var, analyzer) == 1:
            used = [x for x in fresh if x in {v.name for v in free_vars(value)}]
            real = [x for x in used if guess(sch.state.loop(x).extent) > 1]
            if real or used:
                return (real or used)[-1]
    return None


def vectorize(sch: Schedule, loop: str, size: int, lanes: int, unroll: int) -> str:
    """Cut a loop into vectors, several to an iteration; returns the loop over the iterations."""
    lanes = min(lanes, power(size))
    vectors = -(-size // lanes)
    if vectors <= unroll:
        unroll = vectors
    elif size % lanes == 0:
        unroll = max([u for u in range(1, unroll + 1) if vectors % u == 0])
    outer, several, lane = sch.split(loop, [None, unroll, lanes])
    sch.unroll(several)
    sch.vectorize(lane)
    return outer


def share_out(sch: Schedule, loops: Sequence[str], cost: float, machine: Machine) -> None:
    """Make the outermost loops (a perfect nest) parallel, in tasks that are worth starting.

    A symbolic size may turn out to be 1: there have to be tasks enough without it, where the other
    loops have so many iterations.
    """
    want = min(machine.cores * _TASKS, int(cost / TASK_BYTES))
    if machine.cores == 1 or want < 2:
        return
    real = [x for x in loops if guess(sch.state.loop(x).extent) > 1]
    if not real:
        return
    extents = [sch.state.loop(x).extent for x in real]
    first, count, used = real[0], certain(extents[0]), 1
    while (
        count < want
        and used < len(real)
        and sch.state.loop(first).body is sch.state.loop(real[used])
    ):
        first = sch.fuse(first, real[used])
        count *= certain(extents[used])
        used += 1
    if all(isinstance(e, IntImm) for e in extents[:used]):
        if count > want:
            first, _ = sch.split(first, [want, None])
    elif count >= want:
        first, _ = sch.split(first, [None, _divisor(count, want)])
    elif cost < TASK_BYTES * guess(sch.state.loop(first).extent):
        first, _ = sch.split(first, [want, None])
    sch.parallel(first)


def certain(extent: Expr) -> int:
    """The iterations that a loop has at least: a factor of its extent, 1 for a symbolic size."""
    if isinstance(extent, IntImm):
        return extent.value
    return certain(extent.a) * certain(extent.b) if isinstance(extent, Mul) else 1


def _divisor(count: int, parts: int) -> int:
    """The largest divisor of a count that leaves so many parts of it."""
    return next(d for d in range(count // parts, 0, -1) if count % d == 0)
