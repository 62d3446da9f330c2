"""Contractions: matmul, batched and transposed, convolutions, grouped ones, matrix-vector.

    for batch, column tiles, row blocks: parallel
        for row tiles:
            acc[rows, vectors] = 0               in registers
            for reduction:
                acc += broadcast(A) * B          rows and vectors unrolled, lanes vectorised
            epilogue: the elementwise work after it, from registers to memory

A constant B is packed at compile time so that its panel streams; B given at run time is packed by
the kernel where enough rows use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from smelt.arith import Analyzer
from smelt.ir.build import value_of
from smelt.ir.expr import Call, Expr, IntImm, Var
from smelt.ir.walk import free_vars
from smelt.target import Machine
from smelt.tir.nodes import BufferLoad, IterVar
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import expr_nodes

from .analysis import BlockInfo, analyzer_for, block_info, step_of
from .elementwise import certain, copy_out, in_registers, write_out_sums
from .tiles import register_tile

PARALLEL_SECONDS = 4e-6
"""Below this, starting threads costs more than they save."""
_FLOPS, _BYTES = 256e9, 100e9
"""What a core does in a second, roughly: multiply-adds, bytes from outside its own caches."""
_TASKS = 8
"""Tasks a core, so that claiming them evens out."""
_PACK_ROWS = 24
"""Rows from which packing B at run time pays."""
_PACK_STEPS = 16
"""Rows of B that one task packs."""
_MANY_ROWS, _MANY_ROWS_UNALIGNED = 256, 48
"""Rows from which panels pay in any case: B's rows start at cache lines, or do not."""
_DOT_ROWS = 4
"""Rows from which columns of B that lie apart are better gathered than summed one by one."""
_LINE = 64
_UNKNOWN = 64
"""The extent assumed where it is symbolic."""


@dataclass
class Roles:
    """Who is who in a contraction, and for what processor."""

    a: BufferLoad
    b: BufferLoad
    batch: list[IterVar]
    rows: list[IterVar]
    columns: list[IterVar]
    vector: IterVar
    reduce: list[IterVar]
    analyzer: Analyzer
    machine: Machine


def roles_of(sch: Schedule, info: BlockInfo, machine: Machine) -> Roles | None:
    """Sort the operands and iteration variables; None where the block does not fit."""
    product = info.product()
    if product is None or info.store is None or not info.spatial:
        return None
    analyzer = analyzer_for(sch.func, info.block)
    left, right = product
    in_left, in_right = _vars(left), _vars(right)
    vector = _vector_var(info, analyzer)
    if vector.var in in_left and vector.var in in_right:
        return None
    a, b = (left, right) if vector.var in in_right else (right, left)
    in_a, in_b = (in_left, in_right) if b is right else (in_right, in_left)
    batch = [i for i in info.spatial if i.var in in_a and i.var in in_b]
    rows = [i for i in info.spatial if i.var in in_a and i.var not in in_b]
    columns = [i for i in info.spatial if i.var in in_b and i.var not in in_a and i is not vector]
    rest = [i for i in info.spatial if i.var not in in_a and i.var not in in_b]
    return Roles(a, b, batch + rest, rows, columns, vector, info.reduce, analyzer, machine)


def _vars(load: BufferLoad) -> set[Var]:
    return {v for i in load.indices for v in free_vars(i)}


def _vector_var(info: BlockInfo, analyzer: Analyzer) -> IterVar:
    """The spatial variable along which the result is contiguous."""
    assert info.store is not None
    for i in reversed(info.spatial):
        if step_of(info.store, i.var, analyzer) == 1 and value_of(i.dom.extent) != 1:
            return i
    return info.spatial[-1]


def schedule_contraction(
    sch: Schedule, name: str, epilogue: str | None, machine: Machine, constants: frozenset[str]
) -> bool:
    """Schedule the block `name` and the elementwise block after it. False where it does not fit."""
    info = block_info(sch, name)
    roles = roles_of(sch, info, machine)
    if roles is None:
        return False
    variables = [i.var for i in info.block.iter_vars]
    loops: dict[Var, str] = dict(zip(variables, sch.get_loops(name), strict=True))
    row_loop, rows = _row_loop(sch, roles, loops, info)
    if _is_dot(roles, rows, constants):
        return False
    mr, nv = _tile(roles, rows)
    lanes = machine.lanes(4)
    _pack(sch, name, roles, nv * lanes, constants, rows)
    epilogue = in_registers(sch, name, epilogue)
    j_o, j_v, j_l = sch.split(loops[roles.vector.var], [None, nv, lanes])
    i_o: str | None = row_loop
    i_i: str | None = None
    if row_loop is not None and mr > 1:
        i_o, i_i = sch.split(row_loop, [None, mr])
    tiled = i_i is not None
    batch = [loops[i.var] for i in roles.batch]
    columns = [loops[i.var] for i in roles.columns]
    other_rows = [loops[i.var] for i in roles.rows if i.var in loops and loops[i.var] != row_loop]
    reduce = _reduce_order(roles, loops)
    outer = [*batch, *columns, j_o, *other_rows, *([i_o] if i_o is not None else [])]
    inner = [*([i_i] if i_i is not None else []), j_v, j_l]
    sch.reorder(*outer, *reduce, *inner)
    outer = _chunk(sch, outer, roles, tiled)
    at = outer[-1]
    sch.reverse_compute_at(epilogue, at, preserve_unit_loops=True)
    copy_out(sch, epilogue, len(outer), lanes)
    write_out_sums(sch, name, reduce, inner, len(outer))
    _unroll_taps(sch, roles, loops)
    _parallel(sch, outer, roles)
    return True


def _is_dot(roles: Roles, rows: int, constants: frozenset[str]) -> bool:
    """Whether results are sums along memory: B's columns lie apart, nobody lays them out anew, and
    neighbours in the reduction are neighbours in both operands."""
    if not roles.reduce or rows >= _DOT_ROWS or roles.b.buffer.name in constants:
        return False
    last = roles.reduce[-1]
    if _extent(last.dom.extent) < _LINE:
        return False
    steps = [step_of(x, last.var, roles.analyzer) for x in (roles.a, roles.b)]
    return steps == [1, 1] and step_of(roles.b, roles.vector.var, roles.analyzer) != 1


def _extent(e: Expr) -> int:
    return e.value if isinstance(e, IntImm) else _UNKNOWN


def _row_loop(
    sch: Schedule, roles: Roles, loops: dict[Var, str], info: BlockInfo
) -> tuple[str | None, int]:
    """The loop to tile for rows, neighbours fused where memory allows, and its extent."""
    if not roles.rows:
        return None, 1
    group = [roles.rows[-1]]
    for i in reversed(roles.rows[:-1]):
        if not _fusable(i, group[0], roles, info):
            break
        group.insert(0, i)
    extent = prod([_extent(i.dom.extent) for i in group])
    if len(group) == 1:
        return loops[group[0].var], extent
    order = [loops[i.var] for i in group]
    everything = [loops[i.var] for i in info.block.iter_vars if i not in group]
    before = [x for x in everything if x in {loops[i.var] for i in (*roles.batch, *roles.columns)}]
    after = [x for x in everything if x not in before]
    sch.reorder(*before, *order, *after)
    fused = sch.fuse(*order)
    for i in group:
        loops[i.var] = fused
    return fused, extent


def _fusable(outer: IterVar, inner: IterVar, roles: Roles, info: BlockInfo) -> bool:
    """Whether two row variables walk through A and the result like one."""
    extent = value_of(inner.dom.extent)
    if extent is None or value_of(outer.dom.extent) is None or info.store is None:
        return False
    for access in (roles.a, info.store):
        step, wide = (step_of(access, i.var, roles.analyzer) for i in (inner, outer))
        if step is None or wide != step * extent:
            return False
    return not _guarded(info, {outer.var, inner.var})


def _guarded(info: BlockInfo, variables: set[Var]) -> bool:
    """Whether a condition in the block's body mentions some variables."""
    assert info.store is not None
    return any(
        isinstance(e, Call) and e.op == "if_then_else" and free_vars(e.args[0]) & variables
        for e in expr_nodes(info.store.value)
    )


def _tile(roles: Roles, rows: int) -> tuple[int, int]:
    step = step_of(roles.a, roles.rows[-1].var, roles.analyzer) if roles.rows else 0
    columns = _extent(roles.vector.dom.extent)
    return register_tile(rows, columns, roles.machine, 4 * (step or 0))


def _pack(
    sch: Schedule, name: str, roles: Roles, panel: int, constants: frozenset[str], rows: int
) -> None:
    """Lay B out in panels: [batch, column tile, reduction, columns of a tile]."""
    buffer = roles.b.buffer
    dims = roles.b.indices
    if not all(isinstance(i, Var) for i in dims):
        return
    constant = buffer.name in constants
    if not constant and not _worth_packing(roles, rows, panel):
        return
    copy = None if constant else sch.cache_read(name, buffer.name, "global")
    target = buffer.name if constant else _factor(block_info(sch, name), roles)
    kept = [d for d, v in enumerate(dims) if v in {i.var for i in (*roles.batch, *roles.columns)}]
    order = {i.var: n for n, i in enumerate(roles.reduce)}
    inner = sorted([d for d, v in enumerate(dims) if v in order], key=lambda d: order[dims[d]])  # type: ignore[index]
    at = dims.index(roles.vector.var)

    def panels(*index: Expr) -> list[Expr]:
        outer, within = [[index[d] for d in dims] for dims in (kept, inner)]
        return [*outer, index[at] // panel, *within, index[at] % panel]

    sch.transform_layout(name, target, panels, pad_value=0.0 if constant else "undef")
    if copy is not None:
        _copy_panels(sch, copy, [*kept, *inner], at, panel, roles.machine)


def _worth_packing(roles: Roles, rows: int, panel: int) -> bool:
    """Whether enough rows use a B given at run time that laying it out in panels pays.

    Columns that are no neighbours in memory always cost more. Otherwise panels are read in place,
    unless many rows of A pass over them, or their vectors straddle cache lines, or a panel outgrows
    the second-level cache.
    """
    if rows < _PACK_ROWS or not roles.reduce:
        return False
    if step_of(roles.b, roles.vector.var, roles.analyzer) != 1:
        return True
    step = step_of(roles.b, roles.reduce[-1].var, roles.analyzer)
    straddles = step is None or step * 4 % _LINE != 0
    steps = prod([_extent(i.dom.extent) for i in roles.reduce])
    many = _MANY_ROWS_UNALIGNED if straddles else _MANY_ROWS
    return rows >= many or steps * panel * 4 > roles.machine.cache(2).size // 2


def _copy_panels(
    sch: Schedule, copy: str, others: list[int], at: int, panel: int, machine: Machine
) -> None:
    """The packing of a B given at run time: panels in parallel, columns in vectors.

    Where B's columns are not neighbours in memory, as many reduction steps as a vector has lanes
    are written out, so that lowering exchanges rows and columns in registers.
    """
    loops = sch.get_loops(copy)
    lanes = machine.lanes(4)
    tile, wide, lane = sch.split(loops[at], [None, panel // lanes, lanes])
    order = [loops[d] for d in others]
    info = block_info(sch, copy)
    step = step_of(info.reads[0], info.spatial[at].var, analyzer_for(sch.func, info.block))
    inner = [wide, lane]
    last = value_of(sch.state.loop(order[-1]).extent) if order else None
    if step != 1 and last is not None and last % lanes == 0:
        outer, steps = sch.split(order[-1], [None, lanes])
        order[-1] = outer
        inner = [wide, steps, lane]
        sch.unroll(steps)
    neighbours = len(inner) == 2
    if neighbours and order:
        # rows of B are read from end to end, their pieces go to the panels; a task has several
        block, row = sch.split(order[-1], [None, _PACK_STEPS])
        sch.reorder(*order[:-1], block, row, tile, *inner)
        shared = [*order[:-1], block]
    else:
        sch.reorder(*order[:-1], tile, *order[-1:], *inner)
        shared = [*order[:-1], tile]
    sch.vectorize(lane)
    if machine.cores > 1:
        for loop in shared:
            sch.parallel(loop)


def _factor(info: BlockInfo, roles: Roles) -> str:
    """The name of the buffer that B is read from now."""
    product = info.product()
    assert product is not None
    return next(x.buffer.name for x in product if x.buffer.name != roles.a.buffer.name)


def _reduce_order(roles: Roles, loops: Mapping[Var, str]) -> list[str]:
    """Few input channels go outside the kernel's window, many inside."""
    order = [loops[i.var] for i in roles.reduce]
    last = roles.reduce[-1] if roles.reduce else None
    if last is not None and len(order) > 1 and _extent(last.dom.extent) <= 4:
        return [order[-1], *order[:-1]]
    return order


def _unroll_taps(sch: Schedule, roles: Roles, loops: Mapping[Var, str]) -> None:
    """The kernel's columns are written out, so that the edges' conditions are known per tap."""
    if len(roles.reduce) < 2:
        return
    window = roles.reduce[:-1]
    last = window[-1]
    if _extent(last.dom.extent) <= 11:
        sch.unroll(loops[last.var])


def _chunk(sch: Schedule, outer: list[str], roles: Roles, tiled: bool) -> list[str]:
    """Cut the row tiles into blocks where the loops outside give too few tasks."""
    tasks = prod([certain(sch.state.loop(x).extent) for x in outer[:-1]])
    last = _extent(sch.state.loop(outer[-1]).extent)
    want = roles.machine.cores * _TASKS
    if _alone(roles) or not tiled or tasks >= want // 2 or last < 2:
        return outer
    need = min(last, -(-want // tasks))
    chunks = next(c for c in range(need, last + 1) if last % c == 0)
    block, tile = sch.split(outer[-1], [chunks, None])
    return [*outer[:-1], block, tile]


def _alone(roles: Roles) -> bool:
    """Whether one core is there, or done before threads would have started.

    It takes about as long as its multiply-adds, or as the bytes of B from beyond its caches.
    """
    every = (*roles.batch, *roles.rows, *roles.columns, roles.vector, *roles.reduce)
    flops = 2.0 * prod([_extent(i.dom.extent) for i in every])
    moved = 4.0 * prod(map(_extent, roles.b.buffer.shape))
    seconds = max(flops / _FLOPS, moved / _BYTES)
    return roles.machine.cores == 1 or seconds < PARALLEL_SECONDS


def _parallel(sch: Schedule, outer: list[str], roles: Roles) -> None:
    """Outer loops become parallel until there are tasks enough."""
    if _alone(roles):
        return
    tasks = 1
    for x in outer[:-1] if len(outer) > 1 else outer:
        sch.parallel(x)
        tasks *= certain(sch.state.loop(x).extent)
        if tasks >= roles.machine.cores * _TASKS:
            break
