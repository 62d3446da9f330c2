"""An operand of a contraction laid out in panels: [batch, column tile, reduction, its columns], and
asked for before it is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.ir.build import value_of
from smelt.ir.expr import Expr
from smelt.rules.sketch import Decision
from smelt.target import Machine
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import PREFETCH

from .analysis import analyzer_for, block_info, step_of
from .roles import Roles

PACK_STEPS = 16
"""Rows of B that one task packs."""
_NEARBY, _FAR, _SLOWLY = (4096, 1), (16384, 2), 7
"""Bytes of a packed operand that are asked for ahead of time, and in which cache: further ahead
where so many rows of a tile use each of them."""
SPREAD, PARTS = 2, 4
"""The way to prefetch that asks for parts of the next panel in so few row tiles: memory is never
idle then; of more of them the first one, which waits, is little."""


def pack(
    sch: Schedule, anchor: str, roles: Roles, panel: int, lanes: int, copied: bool
) -> list[str]:
    """Lay B out in panels of so many columns; the loops of the copy that may be parallel, if any.

    copied  whether the kernel does it itself
    """
    buffer, dims = roles.b.buffer, roles.b.indices
    target, copy = buffer.name, None
    if copied:
        copy = sch.cache_read(anchor, buffer.name, "global")
        target = sch.state.realize(copy).block.writes[0].buffer.name
    if roles.wide:
        form, dims = _as_one(roles, dims)
        sch.transform_layout(anchor, target, form)
        if copy is not None:
            sch.transform_block_layout(copy, form)
    order = {i.var: n for n, i in enumerate(roles.reduce)}
    inner = sorted([d for d, v in enumerate(dims) if v in order], key=lambda d: order[dims[d]])  # type: ignore[index]
    at, last = dims.index(roles.vector.var), [dims.index(i.var) for i in roles.dots]
    if roles.group:
        inner, last = ([d + (d > at) for d in some] for some in (inner, last))
        at += 1
    kept = [d for d in range(len(dims) + bool(roles.group)) if d not in [*inner, at, *last]]

    def panels(*index: Expr) -> list[Expr]:
        outer, within, group = [[index[d] for d in which] for which in (kept, inner, last)]
        return [*outer, index[at] // panel, *within, index[at] % panel, *group]

    pad = 0.0 if copy is None else "undef"
    sch.transform_layout(anchor, target, panels, pad_value=pad)
    return [] if copy is None else _copy(sch, copy, [*kept, *inner], at, panel, lanes)


def split_groups(sch: Schedule, anchor: str, roles: Roles) -> None:
    """Give the groups of B's columns a dimension: those of each are padded to whole panels."""
    at, size = roles.b.indices.index(roles.vector.var), roles.group
    sch.transform_layout(
        anchor, roles.b.buffer.name, lambda *i: [*i[:at], i[at] // size, i[at] % size, *i[at + 1 :]]
    )


def round_columns(sch: Schedule, anchor: str, vector: str, lanes: int) -> None:
    """Sum as many columns as fill vectors, those that a constant B has not of zeros; what takes the
    sums from registers takes the others."""
    before = set(map(str, sch.get_child_blocks("root")))
    sch.pad_einsum(anchor, [lanes if x == vector else 1 for x in sch.get_loops(anchor)])
    rounded, taken = [b for b in map(str, sch.get_child_blocks("root")) if b not in before]
    sch.precompute(rounded)
    sch.compute_inline(taken)
    sch.set_scope(anchor, 0, "local")


def _as_one(
    roles: Roles, dims: Sequence[Expr]
) -> tuple[Callable[..., list[Expr]], tuple[Expr, ...]]:
    """B's dimensions with those that are walked as one in one, and what stands where then."""
    *wide, vector = [*roles.wide, roles.vector]
    places = [dims.index(i.var) for i in wide]
    at = dims.index(vector.var)
    kept = [d for d in range(len(dims)) if d not in places]

    def form(*index: Expr) -> list[Expr]:
        flat = index[places[0]]
        for d, i in zip([*places[1:], at], [*wide[1:], vector], strict=True):
            flat = flat * i.dom.extent + index[d]
        return [flat if d == at else index[d] for d in kept]

    return form, tuple([dims[d] for d in kept])


def _copy(
    sch: Schedule, copy: str, others: Sequence[int], at: int, panel: int, lanes: int
) -> list[str]:
    """The packing of a B given at run time, columns in vectors; the loops that may be parallel.

    Where B's columns are not neighbours in memory, as many reduction steps as a vector has
    lanes are written out, so that lowering exchanges rows and columns in registers.
    """
    loops = sch.get_loops(copy)
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
    if len(inner) == 2 and order:
        # rows of B are read from end to end, their pieces go to the panels; a task has several
        block, row = sch.split(order[-1], [None, PACK_STEPS])
        sch.reorder(*order[:-1], block, row, tile, *inner)
        shared: list[str] = [*order[:-1], block]
    else:
        sch.reorder(*order[:-1], tile, *order[-1:], *inner)
        shared = [*order[:-1], tile]
    sch.vectorize(lane)
    return shared


def ask_ahead(
    sch: Schedule, roles: Roles, machine: Machine, decision: Decision, loops: tuple[str, str],
    panel: int = 0, parts: int = 0,
) -> None:  # fmt: skip
    """Ask for what comes later of B: of the next column tile in each of its rows, of its panel, or
    of the next panel.

    loops  over column tiles, and over the steps of the reduction
    panel  columns of a panel, where there are panels
    parts  row tiles, each of which asks for a part of the next panel
    """
    name, line, (tiles, steps) = roles.b.buffer.name, machine.line_bytes, loops
    if decision["pack"] == "none":
        sch.annotate(tiles, PREFETCH, {name: [1, 1, line]})
    elif decision["prefetch"] == SPREAD:
        ahead = machine.cores if decision["chunks"] else 1  # others take those between
        sch.annotate(tiles, PREFETCH, {name: [ahead, 2, line, parts]})
    else:
        bytes_, cache = _FAR if decision["rows"] >= _SLOWLY else _NEARBY
        sch.annotate(steps, PREFETCH, {name: [max(1, bytes_ // (4 * panel)), cache, line]})
