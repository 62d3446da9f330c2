"""Elementwise, broadcast and data-moving blocks.

for outer dimensions, in the order of the result's memory: parallel
    for the longest run of dimensions that every operand walks alike:
        vectors, unrolled, masked at the end
"""

from __future__ import annotations

from itertools import pairwise, takewhile

from smelt.ir.expr import GE, GT, LE, LT, IntImm, Select, Var
from smelt.ir.walk import free_vars
from smelt.rules.cost import Cost
from smelt.rules.sketch import Columns, Decision, Refusal, Site, Space
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import expr_nodes

from . import nest as nests
from .analysis import power
from .loops import share_out, task_domain, vectorize
from .nest import (
    Axis,
    Nest,
    anchor_nest,
    as_one,
    is_one,
    is_zero,
    memory_order,
    nest_of,
    vector_axis,
    widest,
)

_TILE = 16
"""Elements to a side of a transposed tile: a cache line of the smallest common type."""
_EXCHANGE = 9.0
"""Cycles for a vector of a tile that is exchanged in registers."""
_INTERLEAVE = 3.0
"""Cycles for a vector of rows that are stored an element of each in turn."""
_IN_TURN = (2, 4)
"""Rows of which an element each stands side by side in the result."""
_PIECES = 16
"""More pieces of a joined dimension than this are left to guards."""


class Elementwise:
    """Vectors along the contiguous dimension, tiles where an operand is turned."""

    name = "elementwise"
    version = 1

    def open(self, site: Site) -> Space | Refusal:
        """Fits a block alone that reduces nothing."""
        nest = site.read(anchor_nest)
        if len(site.blocks) > 1 or nest is None or nest.reduce or not nest.axes:
            return Refusal(
                "a reduction, several blocks, or loops that are not the block's variables"
            )
        return ElementwiseSpace(site, nest)


class ElementwiseSpace(Space):
    """Into how many tasks a block is divided."""

    def __init__(self, site: Site, nest: Nest) -> None:
        self.site, self.nest = site, nest
        self.domains = (task_domain(site.machine),)

    def cost(self, columns: Columns) -> Cost:
        """Bytes that are moved, vectors that are computed."""
        nest, machine = self.nest, self.site.machine
        axes = memory_order(nest)
        vector = vector_axis(axes)
        cycles = nest.cycles(machine, vector)
        if _selects_by_lane(nest, vector):
            cycles *= machine.lanes(widest(nest))
        elif _spread_axis(nest, axes, vector) is not None:
            cycles = _INTERLEAVE * nest.every / machine.lanes(widest(nest))
        elif _turned_axis(nest, axes, vector) is not None:
            lanes = machine.lanes(widest(nest))
            cycles = _EXCHANGE * nest.every / lanes
        pieces = _joined(nest, axes)
        launches = 1 if pieces is None else len(pieces[1])
        return Cost(cycles, nest.traffic(machine, self.site.cold), columns["tasks"], launches)

    def build(self, schedule: Schedule, decision: Decision) -> None:
        """See the module."""
        sch, name, tasks = schedule, self.site.anchor, decision["tasks"]
        nest = _flattened(sch, name, self.nest)
        axes = memory_order(nest)
        pieces = _joined(nest, axes)
        if pieces is None:
            self._piece(sch, nest, axes, tasks)
            return
        axis, sizes = pieces
        axes.remove(axis)
        sch.reorder(axis.loop, *[a.loop for a in axes])
        for part in sch.loop_partition(axis.loop, sizes):
            for block in sch.get_child_blocks(part):
                inner = nest_of(sch, block)
                if inner is not None:
                    own = max(1, round(tasks * inner.every / nest.every))
                    self._piece(sch, inner, memory_order(inner), own)

    def _piece(self, sch: Schedule, nest: Nest, axes: list[Axis], tasks: int) -> None:
        """Vectors along the contiguous axis, tiles where an operand is turned, tasks outside."""
        vector = vector_axis(axes)
        lanes = self.site.machine.lanes(widest(nest))
        spread = _spread_axis(nest, axes, vector)
        if spread is not None:
            order = [a.loop for a in axes if a is not vector and a is not spread]
            s_o, s_l = sch.split(spread.loop, [None, min(lanes, power(spread.size))])
            sch.reorder(*order, s_o, vector.loop, s_l)
            sch.unroll(vector.loop)
            sch.vectorize(s_l)
            share_out(sch, [*order, s_o], tasks)
            return
        turned = _turned_axis(nest, axes, vector)
        order = [a.loop for a in axes if a is not vector and a is not turned]
        if turned is not None:
            sch.reorder(*order, turned.loop, vector.loop)
            t_o, t_i = sch.split(turned.loop, [None, min(_TILE, turned.size)])
            v_o, v_l = sch.split(vector.loop, [None, min(lanes, power(vector.size))])
            sch.reorder(t_o, v_o, t_i, v_l)
            sch.vectorize(v_l)
            share_out(sch, [*order, t_o, v_o], tasks)
            return
        if order:
            sch.reorder(*order, vector.loop)
        order.append(vectorize(sch, vector.loop, vector.size, lanes, _unroll(nest)))
        share_out(sch, order, tasks)


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


def _joined(nest: Nest, axes: list[Axis]) -> tuple[Axis, list[int | None]] | None:
    """The axis along which several sources stand one after another, and the extents of each."""
    by_var = {a.var: a for a in axes}
    cuts: dict[Var, set[int]] = {}
    for condition in nests.guards(nest.values):
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


def _spread_axis(nest: Nest, axes: list[Axis], vector: Axis) -> Axis | None:
    """The axis along which operands are contiguous where the result has few of their rows side by
    side: an element of each row in turn."""
    if vector.size not in _IN_TURN or not is_one(vector.steps[0]):
        return None
    for a in axes:
        apart = isinstance(a.steps[0], IntImm) and a.steps[0].value == vector.size
        if a is not vector and apart and a.size >= 8 and all(map(is_one, a.steps[1:])):
            return a
    return None


def _selects_by_lane(nest: Nest, vector: Axis) -> bool:
    """Whether lanes of a vector select from different places: that is done one by one."""
    chosen = [e.condition for v in nest.values for e in expr_nodes(v) if isinstance(e, Select)]
    apart = any(a is None for a in vector.steps[1:])
    return apart and any(vector.var in free_vars(c) for c in chosen)


def _run(nest: Nest, axes: list[Axis], vector: Axis) -> list[Axis]:
    """The vector axis and those outside it that continue it in every access."""
    guarded = {v for c in nests.guards(nest.values) for v in free_vars(c)}
    dense = all(is_zero(s) or is_one(s) for s in vector.steps)
    if not dense or vector.var in guarded:
        return [vector]
    outside = [a for a in reversed(axes) if a is not vector and nests.constant(a) != 1]
    return nests.continued(vector, takewhile(lambda a: a.var not in guarded, outside))


def _unroll(nest: Nest) -> int:
    """Vectors an iteration: enough to hide the loop behind memory, one where much is computed."""
    if sum([nests.heavy(v) for v in nest.values]):
        return 1
    return 4 if len(nest.accesses) <= 4 else 2
