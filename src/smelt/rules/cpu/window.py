"""Sliding windows without a contraction: depthwise convolutions and pooling.

for batch, rows, channel vectors, column tiles: parallel
    acc[columns, vectors] = 0                     in registers
    for kernel rows:                              only those inside the image
        acc[j] += x[j + k] * w[k]                 columns and kernel columns unrolled
    epilogue: the elementwise work after it, from registers to memory
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from math import prod

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.expr import Expr, FloorDiv, IntImm, Var
from smelt.ir.walk import free_vars
from smelt.target import Machine
from smelt.tir.nodes import BufferLoad, BufferStore
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import expr_nodes

from . import elementwise
from .analysis import block_info
from .elementwise import Axis, Nest

_UNROLLED = 11
"""A kernel with more columns than this keeps its loop."""
_EDGES = 3
"""So few tiles of columns are written out: each has edges of its own."""
_FEWEST = 4
"""Lanes below which whole groups cost more than gathering them."""
_PORTS = 2
_LATENCY = 4
_MOST = _PORTS * _LATENCY
"""Accumulators that hide the latency; more would only make more code."""


@dataclass
class Roles:
    """The axes of a window reduction.

    nest     the block with its accesses
    vector   the result's contiguous axis
    columns  the axis that is tiled, along which windows overlap; None where there is no such
    tap      the reduce axis that moves along the columns
    """

    nest: Nest
    vector: Axis
    columns: Axis | None
    tap: Axis | None


def is_window(sch: Schedule, name: str) -> bool:
    """Whether an operand is read at a position plus a tap."""
    info = block_info(sch, name)
    spatial = {i.var for i in info.spatial}
    taps = {i.var for i in info.reduce}
    used = [free_vars(e) for x in info.reads for e in x.indices]
    return any(v & spatial and v & taps for v in used)


def schedule_windows(sch: Schedule, machine: Machine, constants: frozenset[str]) -> bool:
    """One window reduction with elementwise work around it.

    constants  parameters that may be laid out anew
    """

    return elementwise.schedule_around(sch, machine, partial(accumulate, constants=constants))


def accumulate(
    sch: Schedule,
    name: str,
    epilogue: str | None,
    machine: Machine,
    constants: frozenset[str] = frozenset(),
) -> bool:
    """A reduction with its results in registers, and the elementwise block after it."""
    nest = elementwise.nest_of(sch, name)
    roles = None if nest is None else _roles(nest)
    if nest is None or roles is None:
        return False
    if len(nest.info.block.writes) != 1 or nest.info.block.init is None:
        return False
    epilogue = elementwise.in_registers(sch, name, epilogue)
    outer, inner = _tile(sch, name, roles, machine, constants)
    at = outer[-1]
    sch.reverse_compute_at(epilogue, at, preserve_unit_loops=True)
    lanes = machine.lanes(dt.bytes_of(nest.accesses[0].buffer.type))
    elementwise.copy_out(sch, epilogue, len(outer), lanes)
    reduce = [a.loop for a in _tap_order(roles)]
    elementwise.write_out_sums(sch, name, reduce, inner, len(outer))
    taps = None if roles.tap is None else value_of(roles.tap.extent)
    if roles.tap is not None and taps is not None and taps <= _UNROLLED:
        sch.unroll(roles.tap.loop)
    edges = sch.state.loop(at).extent
    if len(outer) > 1 and isinstance(edges, IntImm) and edges.value <= _EDGES:
        sch.unroll(outer.pop())
    elementwise.share_out(sch, outer, _work(nest), machine)
    return True


def _work(nest: Nest) -> float:
    """Bytes moved, each result's taps counted as reads from near memory."""
    taps = prod([a.size for a in nest.reduce])
    results = prod([a.size for a in nest.spatial])
    return results * 4 * (2 + taps / 2)


def _roles(nest: Nest) -> Roles | None:
    spatial = [a for a in nest.spatial if a.size > 1] or nest.spatial
    if not spatial:
        return None
    ordered = sorted(
        spatial, key=lambda a: elementwise.guess(a.steps[0]) if a.steps[0] is not None else 1 << 40
    )
    vector = next((a for a in ordered if elementwise.is_one(a.steps[0])), ordered[0])
    taps = {a.var: a for a in nest.reduce}
    rest = [a for a in ordered if a is not vector]
    for a in rest:
        tap = _tap_of(nest, a, taps)
        if tap is not None:
            return Roles(nest, vector, a, tap)
    return Roles(nest, vector, rest[0] if rest else None, None)


def _tap_of(nest: Nest, axis: Axis, taps: dict[Var, Axis]) -> Axis | None:
    """The reduce axis that stands in one index with a spatial one."""
    used = [free_vars(e) for x in nest.accesses[1:] for e in x.indices]
    return next((taps[v] for vs in used if axis.var in vs for v in vs if v in taps), None)


def _tap_order(roles: Roles) -> list[Axis]:
    """The reduce axes, the columns' tap last."""
    rest = [a for a in roles.nest.reduce if a is not roles.tap]
    return rest if roles.tap is None else [*rest, roles.tap]


def _tile(
    sch: Schedule, name: str, roles: Roles, machine: Machine, constants: frozenset[str]
) -> tuple[list[str], list[str]]:
    """Cut columns and vectors; returns the outer loops and the tile's loops."""
    nest = roles.nest
    lanes = machine.lanes(dt.bytes_of(nest.accesses[0].buffer.type))
    lanes = min(lanes, elementwise.power(roles.vector.size), _whole(roles, lanes))
    columns = roles.columns.size if roles.columns is not None else 1
    taps = roles.tap.size if roles.tap is not None else 1
    step = _stride(roles)
    rows = prod([a.size for a in nest.reduce if a is not roles.tap])
    weights = len(nest.accesses) > 2
    jumps = _jumps(roles)
    whole, registers = -(-roles.vector.size // lanes), machine.vector_registers
    most = 1 if jumps else _MOST
    width, vectors = window_tile(columns, whole, rows, taps, step, weights, registers, most)
    _pack(sch, name, roles, vectors * lanes, constants)
    v_o, v_i, v_l = sch.split(roles.vector.loop, [None, vectors, lanes])
    order = elementwise.memory_order(nest)
    outer = [a.loop for a in order if a is not roles.vector and a is not roles.columns]
    inner: list[str] = [v_i, v_l]
    if roles.columns is not None:
        c_o, c_i = sch.split(roles.columns.loop, [None, width])
        inner = [c_i, *inner]
        outer = [*outer[:-1], v_o, *outer[-1:], c_o]
    else:
        outer = [*outer, v_o]
    sch.reorder(*outer, *[a.loop for a in _tap_order(roles)], *inner)
    return outer, inner


def _pack(sch: Schedule, name: str, roles: Roles, panel: int, constants: frozenset[str]) -> None:
    """Lay the factors out in panels of as many channels as a tile has."""
    for k, x in enumerate(roles.nest.accesses[1:], 1):
        plain = all(isinstance(i, Var | IntImm) for i in x.indices)
        moves = [a for a in roles.nest.spatial if not elementwise.is_zero(a.steps[k])]
        if not plain or moves != [roles.vector] or elementwise.is_one(roles.vector.steps[k]):
            continue
        if x.buffer.name in constants:
            target = x.buffer.name
        elif any(a.size > 4 for a in roles.nest.spatial if a is not roles.vector):
            copy = sch.state.realize(sch.cache_read(name, x.buffer.name, "global"))
            target = copy.block.writes[0].buffer.name
        else:
            continue
        at = x.indices.index(roles.vector.var)

        def panels(*index: Expr, at: int = at) -> list[Expr]:
            rest = [e for d, e in enumerate(index) if d != at]
            return [index[at] // panel, *rest, index[at] % panel]

        sch.transform_layout(name, target, panels, pad_value=0.0)


def _jumps(roles: Roles) -> bool:
    """Whether neighbours along the vector axis are not neighbours in memory."""
    for k, step in enumerate(roles.vector.steps):
        window = k == 0 or any(
            not elementwise.is_zero(a.steps[k]) for a in roles.nest.spatial if a is not roles.vector
        )
        if not window or elementwise.is_zero(step) or elementwise.is_one(step):
            continue
        access = roles.nest.accesses[k]
        # the lanes of neighbouring groups stand close together: one load and a shuffle
        if _group(access, roles.vector.var) is None:
            return True
    return False


def _whole(roles: Roles, lanes: int) -> int:
    """As many lanes as never stand in parts of groups: one group, or some whole ones."""
    for x in roles.nest.accesses[1:]:
        size = _group(x, roles.vector.var)
        if size is not None and size % lanes and lanes % size:
            return max(size & -size, _FEWEST)
    return lanes


def _group(x: BufferLoad | BufferStore, v: Var) -> int | None:
    """The divisor c where an access mentions a variable only as v // c."""
    found: set[int] = set()
    for index in x.indices:
        if index is v:
            return None
        for e in expr_nodes(index):
            if v not in e.children():
                continue
            if not (isinstance(e, FloorDiv) and isinstance(e.b, IntImm)):
                return None
            found.add(e.b.value)
    return found.pop() if len(found) == 1 else None


def _stride(roles: Roles) -> int:
    """Taps that the window moves on from one column to the next."""
    if roles.columns is None or roles.tap is None:
        return 1
    for k in range(1, len(roles.nest.accesses)):
        a, b = roles.columns.steps[k], roles.tap.steps[k]
        if isinstance(a, IntImm) and isinstance(b, IntImm) and a.value and b.value:
            return max(1, a.value // b.value)
    return 1


@cache
def window_tile(
    columns: int,
    vectors: int,
    rows: int,
    taps: int,
    step: int,
    weights: bool,
    registers: int,
    most: int = _MOST,
) -> tuple[int, int]:
    """Columns and vectors of the tile with the least cycles for a row of the result.

    columns, vectors  extents of the result's row
    rows, taps        extents of the kernel
    step              columns of the operand from one result to the next, in taps
    weights           whether the taps have factors
    most              accumulators of a tile
    """
    found: list[tuple[float, int, int]] = []
    for v in [v for v in range(1, min(vectors, 8) + 1) if vectors % v == 0]:
        for w in range(1, min(columns, 14) + 1):
            held = w * v + (taps * v if weights and taps <= _UNROLLED else 0)
            if held + 3 > registers or w * v > most:
                continue
            full, tail = divmod(columns, w)
            cycles = full * _cycles(w, v, rows, taps, step, weights)
            cycles += _cycles(tail, v, rows, taps, step, weights) if tail else 0
            found.append((cycles * (vectors // v), w, v))
    least = min([f[0] for f in found], default=0.0)
    near = [f for f in found if f[0] <= least * 1.04]
    _, width, wide = min(near, key=lambda f: (f[2], f[1]), default=(0.0, 1, 1))
    return width, wide


def _cycles(w: int, v: int, rows: int, taps: int, step: int, weights: bool) -> float:
    """Cycles of one tile: arithmetic, loads or latency, then the stores."""
    read = (w - 1) * min(step, taps) + taps
    loads = v * (read + (taps if weights else 0))
    row = max(w * v * taps / _PORTS, loads / _PORTS, float(_LATENCY * taps)) + 2
    return rows * row + w * v + 6
