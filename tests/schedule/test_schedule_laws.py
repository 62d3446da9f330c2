"""Random schedules on random programs keep the interpreter's result, and their traces replay."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smelt.ir.errors import ScheduleError
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule, Trace

from .support import chain, conv, matmul, same, softmax

SIZES = st.integers(1, 9)


@st.composite
def funcs(draw: Any) -> PrimFunc:
    """A small program."""
    kind = draw(st.sampled_from(["matmul", "relu", "chain", "softmax", "conv"]))
    if kind in ("matmul", "relu"):
        return matmul(draw(SIZES), draw(SIZES), draw(SIZES), relu=kind == "relu")
    if kind == "chain":
        return chain(draw(SIZES), draw(SIZES))
    if kind == "softmax":
        return softmax(draw(SIZES), draw(SIZES))
    return conv(
        1,
        draw(st.integers(1, 3)),
        draw(st.integers(3, 6)),
        draw(st.integers(3, 6)),
        draw(st.integers(1, 5)),
        stride=draw(st.integers(1, 2)),
    )


STEPS = [
    "split",
    "split",
    "fuse",
    "reorder",
    "parallel",
    "vectorize",
    "unroll",
    "compute_at",
    "reverse_compute_at",
    "compute_inline",
    "reverse_compute_inline",
    "cache_read",
    "cache_write",
    "decompose_reduction",
    "rfactor",
    "set_scope",
    "blockize",
    "loop_partition",
    "merge",
    "add_unit_loop",
    "layout",
    "pad_einsum",
    "decompose_padding",
    "reindex",
    "block_layout",
    "reorder_block_iter_var",
]


def step(draw: Any, s: Schedule, kind: str) -> None:
    """One random call of a primitive."""
    loops = list(s.state.index.loops)
    blocks = [b for b in s.state.index.blocks if b != "root"]
    block, other = draw(st.sampled_from(blocks)), draw(st.sampled_from(blocks))
    nest = s.get_loops(other)
    loop = draw(st.sampled_from(nest or loops))
    factor = draw(st.integers(1, 5))
    match kind:
        case "split":
            s.split(
                loop, draw(st.sampled_from([[None, factor], [factor, None], [2, None, factor]]))
            )
        case "fuse":
            k = draw(st.integers(0, max(0, len(nest) - 2)))
            s.fuse(*nest[k : k + 2])
        case "reorder":
            s.reorder(*draw(st.permutations(nest)))
        case "parallel" | "vectorize" | "unroll" | "add_unit_loop" | "blockize":
            getattr(s, kind)(loop)
        case "compute_at" | "reverse_compute_at":
            getattr(s, kind)(block, loop, draw(st.booleans()))
        case "compute_inline" | "reverse_compute_inline":
            getattr(s, kind)(block)
        case "cache_read" | "cache_write":
            getattr(s, kind)(block, 0, "global")
        case "decompose_reduction" | "decompose_padding":
            getattr(s, kind)(other, loop)
        case "rfactor":
            s.rfactor(loop, draw(st.integers(-1, 1)))
        case "set_scope":
            s.set_scope(block, 0, "local")
        case "loop_partition":
            s.loop_partition(loop, [factor, None])
        case "merge":
            s.merge(loop, draw(st.sampled_from(loops)))
        case "layout":
            rank = len(s.state.realize(block).block.writes[0].region)
            axis = draw(st.integers(0, rank - 1))
            s.transform_layout(
                block,
                ("write", 0),
                lambda *i: (*i[:axis], i[axis] // factor, *i[axis + 1 :], i[axis] % factor),
            )
        case "pad_einsum":
            s.pad_einsum(block, [factor] * len(s.state.realize(block).values))
        case "reindex":
            s.reindex(block, (draw(st.sampled_from(["read", "write"])), 0))
        case "block_layout":
            n = len(s.state.realize(block).values)
            s.transform_block_layout(block, lambda *i: (*i[n // 2 :], *i[: n // 2]))
        case "reorder_block_iter_var":
            n = len(s.state.realize(block).values)
            s.reorder_block_iter_var(block, draw(st.permutations(range(n))))


def outputs_keep_their_shape(s: Schedule, func: PrimFunc) -> bool:
    """Whether the parameters are laid out as before."""
    return [b.fixed_shape() for b in s.func.buffers] == [b.fixed_shape() for b in func.buffers]


@given(funcs(), st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_schedules_keep_the_result(func: PrimFunc, data: Any) -> None:
    s = Schedule(func)
    done = 0
    for _ in range(data.draw(st.integers(1, 14))):
        before = s.copy()
        try:
            step(data.draw, s, data.draw(st.sampled_from(STEPS)))
        except ScheduleError:
            continue
        if not outputs_keep_their_shape(s, func):
            s = before
            continue
        done += 1
    same(s, func)
    again = Schedule(func)
    Trace.from_text(str(s.trace)).apply(again)
    assert script(again.func) == script(s.func)
