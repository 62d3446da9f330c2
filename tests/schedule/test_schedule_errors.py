"""The texts of schedule errors: what was asked, where it fails, what is legal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from smelt import te
from smelt.ir.errors import ScheduleError
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import BlockRV, LoopRV, Schedule, Trace

from .support import chain, conv, matmul, program, softmax

STENCIL = """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        v = T.axis.spatial(8, i)
        B[v] = A[v] + 1.0
for j in range(7):
    with T.block("C"):
        w = T.axis.spatial(7, j)
        C[w] = B[w] + B[w + 1]
"""


def symbolic() -> PrimFunc:
    """A chain of rows of unknown length."""
    return chain(te.size_var("m"), te.size_var("n"))


def stencil() -> PrimFunc:
    """C[i] = B[i] + B[i + 1]."""
    return program(STENCIL)


def then(first: Callable[[Schedule], Any], second: Callable[[Schedule], Any]) -> Any:
    """Two steps; the second fails."""

    def both(s: Schedule) -> None:
        first(s)
        second(s)

    return both


Case = tuple[Callable[[], PrimFunc], Callable[[Schedule], Any]]

CASES: dict[str, Case] = {
    "lost_loop": (
        matmul,
        then(lambda s: s.split("i", [None, 8]), lambda s: s.split("i", [None, 4])),
    ),
    "inlined_block": (
        chain,
        then(lambda s: s.compute_inline("B"), lambda s: s.get_loops("B")),
    ),
    "get_block": (matmul, lambda s: s.get_block("D")),
    "split_zero": (matmul, lambda s: s.split("i", [None, 0])),
    "split_too_small": (matmul, lambda s: s.split("i", [4, 8])),
    "split_symbolic": (symbolic, lambda s: s.split("i", [4, 8])),
    "fuse": (matmul, lambda s: s.fuse("j", "i")),
    "reorder": (chain, lambda s: s.reorder("i", "j_1")),
    "reorder_twice": (chain, lambda s: s.reorder("i", "i")),
    "reorder_block_iter_var": (matmul, lambda s: s.reorder_block_iter_var("C", [0, 1, 1])),
    "add_unit_loop": (matmul, lambda s: s.add_unit_loop("x")),
    "parallel": (matmul, lambda s: s.parallel("k")),
    "parallel_again": (matmul, then(lambda s: s.parallel("i"), lambda s: s.parallel("i"))),
    "merge_stencil": (
        lambda: program(
            STENCIL.replace("B = T.alloc_buffer((8,))", "").replace("range(7)", "range(8)")
        ),
        lambda s: s.parallel(s.merge("i", "j")),
    ),
    "vectorize": (symbolic, lambda s: s.vectorize("j")),
    "unroll": (matmul, then(lambda s: s.vectorize("j"), lambda s: s.unroll("j"))),
    "bind": (matmul, lambda s: s.bind("i", "threadIdx.w")),
    "bind_twice": (
        matmul,
        then(lambda s: s.bind("i", "blockIdx.x"), lambda s: s.bind("j", "blockIdx.x")),
    ),
    "annotate": (matmul, lambda s: s.annotate("i", "what", {1})),
    "unannotate": (matmul, lambda s: s.unannotate(LoopRV("i"), "what")),
    "loop_partition": (matmul, lambda s: s.loop_partition("i", [30, 8])),
    "merge": (stencil, lambda s: s.merge("i", "j")),
    "compute_at": (chain, lambda s: s.compute_at("D", "i")),
    "compute_at_outside": (softmax, lambda s: s.compute_at("top", "i_3")),
    "reverse_compute_at": (stencil, lambda s: s.reverse_compute_at("C", "i")),
    "reverse_compute_at_unfinished": (
        lambda: matmul(relu=True),
        lambda s: s.reverse_compute_at("D", "k"),
    ),
    "compute_inline": (lambda: matmul(relu=True), lambda s: s.compute_inline("C")),
    "reverse_compute_inline": (
        lambda: conv(1, 1, 3, 3, 1),
        lambda s: s.reverse_compute_inline("badd"),
    ),
    "cache_read": (matmul, lambda s: s.cache_read("C", 2, "local")),
    "cache_write": (
        matmul,
        then(lambda s: s.decompose_reduction("C", "k"), lambda s: s.cache_write("C", 0, "local")),
    ),
    "set_scope": (matmul, lambda s: s.set_scope("C", 0, "local")),
    "decompose_reduction": (
        matmul,
        then(lambda s: s.reorder("k", "j"), lambda s: s.decompose_reduction("C", "j")),
    ),
    "rfactor": (matmul, lambda s: s.rfactor("j", 0)),
    "transform_layout": (
        matmul,
        lambda s: s.transform_layout("C", ("write", 0), lambda i, j: (i + j,)),
    ),
    "transform_block_layout": (
        matmul,
        lambda s: s.transform_block_layout("C", lambda i, j, k: (i, j * 29 + k)),
    ),
    "reindex": (stencil, lambda s: s.reindex("C", ("read", 0))),
    "pad_einsum": (softmax, lambda s: s.pad_einsum("top", [4, 4])),
    "decompose_padding": (matmul, lambda s: s.decompose_padding("C", "i")),
    "blockize": (chain, then(lambda s: s.compute_at("B", "i_1"), lambda s: s.blockize("i_1"))),
    "tensorize": (
        lambda: matmul(4, 4, 4),
        lambda s: s.tensorize("j", (chain(4, 4), chain(4, 4))),
    ),
    "storage_align": (matmul, lambda s: s.storage_align("C", 0, 0, 8, 1)),
    "unsafe_set_dtype": (chain, lambda s: s.unsafe_set_dtype("B", 0, "float12")),
    "annotate_buffer_access": (
        chain,
        lambda s: s.annotate_buffer_access("B", 0, "read", [(0, 4)]),
    ),
    "sample_perfect_tile": (symbolic, lambda s: s.sample_perfect_tile("i", 2)),
    "sample_categorical": (matmul, lambda s: s.sample_categorical([1, 2], [1.0])),
    "sample_compute_location": (matmul, lambda s: s.sample_compute_location("C")),
    "sample_partitioned_tile": (matmul, lambda s: s.sample_partitioned_tile("i", 2, 1, 2)),
    "work_on": (matmul, lambda s: s.work_on("other")),
    "block_is_no_loop": (matmul, lambda s: s.get_child_blocks(BlockRV("i"))),
    "trace_unknown": (
        matmul,
        lambda s: Trace.from_text('sch.spilt(loop="i", factors=[None, 8])').apply(s),
    ),
    "trace_syntax": (matmul, lambda s: Trace.from_text("sch.split(loop=")),
}


@pytest.mark.parametrize("case", CASES)
def test_error(case: str, golden: Callable[[str], None]) -> None:
    make, step = CASES[case]
    sch = Schedule(make())
    with pytest.raises(ScheduleError) as caught:
        step(sch)
    golden(str(caught.value))


def test_a_block_must_not_use_loops_around_it(golden: Callable[[str], None]) -> None:
    func = program(
        "for i in range(4):\n    with T.block('B'):\n        v = T.axis.spatial(4, i)\n"
        "        B[v] = A[i]"
    )
    with pytest.raises(ScheduleError) as caught:
        Schedule(func)
    golden(str(caught.value))
