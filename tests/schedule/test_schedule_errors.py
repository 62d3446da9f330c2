"""The texts of schedule errors: what was asked, where it fails, what is legal."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from smelt import te
from smelt.ir.errors import ScheduleError
from smelt.ir.module import IRModule
from smelt.tir.nodes import Block, PrimFunc
from smelt.tir.printer import script
from smelt.tir.schedule import BlockRV, LoopRV, Schedule, Trace

from .moves import PRIMITIVES
from .programs import argmax, guarded
from .refusals import (
    ALIASED,
    BESIDE,
    CHANGED,
    DIFFERENCE,
    HOLES,
    ODD,
    ONCE,
    OPAQUE,
    PADDED,
    REMADE,
    REPEATED,
    SCALED,
    SCRATCH,
    SHARED,
    STENCIL,
    TILES,
    UNEVEN,
)
from .support import axpy, chain, conv, matmul, program, softmax


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


def rows(text: str) -> Callable[[], PrimFunc]:
    """A program from its statements."""
    return lambda: program(text)


def tiled(s: Schedule) -> LoopRV:
    """A matrix product of 16 columns whose inner loop is what `axpy` does."""
    i, j, k = s.get_loops("C")
    _, inner = s.split(j, [None, 8])
    s.reorder(i, k, inner)
    return inner


@functools.cache
def three_steps() -> tuple[PrimFunc, PrimFunc]:
    """An instruction of three blocks."""
    func = chain(4, 4).with_attrs(name="three_steps")
    return func, func


def grouped(s: Schedule) -> None:
    """A copy and a part of a reduction in one block, over which the reduction goes on."""
    copy = s.cache_read("C", "A", "global")
    outer, _ = s.split("k", [None, 4])
    s.compute_at(copy, outer)
    s.blockize([copy, "C"])


def removed(s: Schedule) -> None:
    """A handle is used after it has been removed."""
    block = s.get_block("C")
    s.remove_rv(block)
    s.get_loops(block)


def stale(s: Schedule) -> None:
    """A statement of an older version of the program."""
    block = s.get("C")
    s.annotate("C", "note", 1)
    assert isinstance(block, Block)
    s.get_sref(block)


def ragged() -> PrimFunc:
    """A block that runs for a part of its domain only."""
    return guarded(8, 6)


LOOPS: dict[str, Case] = {
    "lost_loop": (
        matmul,
        then(lambda s: s.split("i", [None, 8]), lambda s: s.split("i", [None, 4])),
    ),
    "split_zero": (matmul, lambda s: s.split("i", [None, 0])),
    "split_too_small": (matmul, lambda s: s.split("i", [4, 8])),
    "split_symbolic": (symbolic, lambda s: s.split("i", [4, 8])),
    "split_symbolic_factor": (
        symbolic,
        lambda s: s.split("i", [None, s.func.params[-1] - 3]),  # type: ignore[operator]
    ),
    "split_no_list": (matmul, lambda s: s.split("i", 8)),  # type: ignore[arg-type]
    "split_without_guard": (matmul, lambda s: s.split("i", [None, 8], disable_predication=True)),
    "split_annotated": (
        matmul,
        then(lambda s: s.annotate(LoopRV("i"), "note", 1), lambda s: s.split("i", [None, 4])),
    ),
    "fuse": (matmul, lambda s: s.fuse("j", "i")),
    "fuse_nothing": (matmul, lambda s: s.fuse()),
    "reorder": (chain, lambda s: s.reorder("i", "j_1")),
    "reorder_twice": (chain, lambda s: s.reorder("i", "i")),
    "reorder_opaque": (rows(OPAQUE), lambda s: s.reorder("j", "i")),
    "reorder_block_iter_var": (matmul, lambda s: s.reorder_block_iter_var("C", [0, 1, 1])),
    "add_unit_loop": (matmul, lambda s: s.add_unit_loop("x")),
    "loop_partition": (matmul, lambda s: s.loop_partition("i", [30, 8])),
    "loop_partition_symbolic": (symbolic, lambda s: s.loop_partition("i", [30, 8])),
    "merge": (stencil, lambda s: s.merge("i", "j")),
    "merge_stencil": (
        lambda: program(
            STENCIL.replace("B = T.alloc_buffer((8,))", "").replace("range(7)", "range(8)")
        ),
        lambda s: s.parallel(s.merge("i", "j")),
    ),
    "merge_remade": (rows(REMADE), lambda s: s.merge("i", "j")),
    "parallel": (matmul, lambda s: s.parallel("k")),
    "parallel_again": (matmul, then(lambda s: s.parallel("i"), lambda s: s.parallel("i"))),
    "parallel_guarded": (rows(ONCE), lambda s: s.parallel("i")),
    "vectorize": (symbolic, lambda s: s.vectorize("j")),
    "unroll": (matmul, then(lambda s: s.vectorize("j"), lambda s: s.unroll("j"))),
    "bind": (matmul, lambda s: s.bind("i", "threadIdx.w")),
    "bind_twice": (
        matmul,
        then(lambda s: s.bind("i", "blockIdx.x"), lambda s: s.bind("j", "blockIdx.x")),
    ),
    "bind_inside": (
        matmul,
        then(lambda s: s.bind("j", "blockIdx.x"), lambda s: s.bind("i", "blockIdx.x")),
    ),
    "annotate": (matmul, lambda s: s.annotate("i", "what", {1})),
    "annotate_loop": (matmul, lambda s: s.annotate("C", "what", s.state.loop("i").var)),
    "unannotate": (matmul, lambda s: s.unannotate(LoopRV("i"), "what")),
}

MOTION: dict[str, Case] = {
    "compute_at": (chain, lambda s: s.compute_at("D", "i")),
    "compute_at_outside": (softmax, lambda s: s.compute_at("top", "i_3")),
    "compute_at_index": (chain, lambda s: s.compute_at("B", "i_1", index=7)),
    "compute_at_guarded": (rows(ODD), lambda s: s.compute_at("B", "i_1")),
    "compute_at_overwritten": (rows(SCRATCH), lambda s: s.compute_at("C", "j")),
    "compute_at_changed": (rows(CHANGED), lambda s: s.compute_at("B", "k")),
    "reverse_compute_at": (stencil, lambda s: s.reverse_compute_at("C", "i")),
    "reverse_compute_at_unfinished": (
        lambda: matmul(relu=True),
        lambda s: s.reverse_compute_at("D", "k"),
    ),
    "reverse_compute_at_lost": (rows(PADDED), lambda s: s.reverse_compute_at("P", "i")),
    "compute_inline": (lambda: matmul(relu=True), lambda s: s.compute_inline("C")),
    "compute_inline_guarded": (ragged, lambda s: s.compute_inline("B")),
    "reverse_compute_inline": (
        lambda: conv(1, 1, 3, 3, 1),
        lambda s: s.reverse_compute_inline("badd"),
    ),
    "reverse_compute_inline_guarded": (ragged, lambda s: s.reverse_compute_inline("C")),
    "sample_compute_location": (matmul, lambda s: s.sample_compute_location("C")),
}

MEMORY: dict[str, Case] = {
    "cache_read": (matmul, lambda s: s.cache_read("C", 2, "local")),
    "cache_read_consumer": (chain, lambda s: s.cache_read("B", "A", "local", ["D"])),
    "cache_write": (
        matmul,
        then(lambda s: s.decompose_reduction("C", "k"), lambda s: s.cache_write("C", 0, "local")),
    ),
    "cache_write_holes": (rows(HOLES), lambda s: s.cache_write("B", 0, "local")),
    "cache_write_unfinished": (
        lambda: matmul(4, 4, 8),
        then(grouped, lambda s: s.cache_write("C", 0, "local")),
    ),
    "cache_inplace": (chain, lambda s: s.cache_inplace("B", 0, "local")),
    "cache_index": (rows(TILES), lambda s: s.cache_index(s.blockize("i_1"), "local")),
    "read_at": (chain, lambda s: s.read_at("i", "C", 0, "shared")),
    "write_at": (matmul, lambda s: s.write_at("k", "C", 0, "shared")),
    "reindex": (stencil, lambda s: s.reindex("C", ("read", 0))),
    "reindex_cache_read": (
        matmul,
        lambda s: s.reindex_cache_read("C", "A", "local", lambda i, j, k: (i, j)),
    ),
    "reindex_cache_read_map": (
        chain,
        lambda s: s.reindex_cache_read("B", 0, "local", lambda i, j: (i + j,)),
    ),
    "reindex_cache_write": (
        ragged,
        lambda s: s.reindex_cache_write("B", 0, "local", lambda i, j: (j, i)),
    ),
    "compute_inline_parameter": (chain, lambda s: s.compute_inline("D")),
    "set_scope": (matmul, lambda s: s.set_scope("C", 0, "local")),
    "storage_align": (matmul, lambda s: s.storage_align("C", 0, 0, 8, 1)),
    "storage_align_factor": (chain, lambda s: s.storage_align("B", 0, 2, 0, 1)),
    "unsafe_set_dtype": (chain, lambda s: s.unsafe_set_dtype("B", 0, "float12")),
    "set_axis_separator": (chain, lambda s: s.set_axis_separator("B", ("write", 0), [2, 1])),
    "transform_layout": (
        matmul,
        lambda s: s.transform_layout("C", ("write", 0), lambda i, j: (i + j,)),
    ),
    "transform_layout_negative": (
        matmul,
        lambda s: s.transform_layout("C", "C", lambda i, j: (i - 1, j)),
    ),
    "transform_layout_arguments": (
        matmul,
        lambda s: s.transform_layout("C", ("write", 0), lambda i: (i,)),
    ),
    "transform_layout_padding": (
        matmul,
        lambda s: s.transform_layout("C", "C", lambda i, j: (i, j), "zero"),
    ),
    "transform_layout_buffer": (
        matmul,
        lambda s: s.transform_layout("C", ("inout", 0), lambda i, j: (j, i)),
    ),
    "precompute": (chain, lambda s: s.precompute("C")),
    "precompute_shared": (rows(SHARED), lambda s: s.precompute("B")),
    "precompute_largest": (softmax, lambda s: s.precompute("top")),
    "localize": (chain, lambda s: s.localize("B")),
    "transform_block_layout": (
        matmul,
        lambda s: s.transform_block_layout("C", lambda i, j, k: (i, j * 29 + k)),
    ),
    "transform_block_layout_gaps": (
        chain,
        lambda s: s.transform_block_layout("B", lambda i, j: (i * 16 + j,)),
    ),
    "rolling_buffer": (stencil, lambda s: s.rolling_buffer("B", 0)),
    "rolling_buffer_parallel": (
        stencil,
        then(lambda s: (s.compute_at("B", "j"), s.unroll("j")), lambda s: s.rolling_buffer("B", 0)),
    ),
    "rolling_buffer_no_overlap": (
        chain,
        then(lambda s: s.compute_at("B", "i_1"), lambda s: s.rolling_buffer("B", 0)),
    ),
    "annotate_buffer_access": (chain, lambda s: s.annotate_buffer_access("B", 0, "read", [(0, 4)])),
    "unsafe_hide_buffer_access": (chain, lambda s: s.unsafe_hide_buffer_access("B", "inout", [0])),
}

BLOCKS: dict[str, Case] = {
    "decompose_reduction": (
        matmul,
        then(lambda s: s.reorder("k", "j"), lambda s: s.decompose_reduction("C", "j")),
    ),
    "decompose_reduction_again": (rows(REPEATED), lambda s: s.decompose_reduction("B", "i")),
    "decompose_reduction_continued": (
        lambda: matmul(4, 4, 8),
        then(grouped, lambda s: s.decompose_reduction("C", "k_1")),
    ),
    "rfactor": (matmul, lambda s: s.rfactor("j", 0)),
    "rfactor_alone": (rows(BESIDE), lambda s: s.rfactor("k", 0)),
    "rfactor_axis": (matmul, lambda s: s.rfactor("k", 5)),
    "rfactor_order": (
        lambda: argmax(4, 8, ties=False),
        then(lambda s: s.split("k", [None, 4]), lambda s: s.rfactor("k_1", 0)),
    ),
    "rfactor_blocks": (
        lambda: chain(4, 4),
        then(lambda s: s.compute_at("B", "i_1"), lambda s: s.rfactor("i_1", 0)),
    ),
    "rfactor_unknown": (rows(DIFFERENCE), lambda s: s.rfactor("k", 0)),
    "pad_einsum": (softmax, lambda s: s.pad_einsum("top", [4, 4])),
    "decompose_padding": (matmul, lambda s: s.decompose_padding("C", "i")),
    "blockize": (chain, then(lambda s: s.compute_at("B", "i_1"), lambda s: s.blockize("i_1"))),
    "blockize_apart": (chain, lambda s: s.blockize(["B", "D"])),
    "blockize_uneven": (rows(UNEVEN), lambda s: s.blockize("j")),
    "tensorize": (lambda: matmul(4, 4, 4), lambda s: s.tensorize("j", three_steps())),
    "tensorize_init": (
        lambda: matmul(4, 8, 1),
        lambda s: s.tensorize("j", axpy(), preserve_unit_iters=False),
    ),
    "tensorize_value": (rows(SCALED), lambda s: s.tensorize("j", axpy())),
    "tensorize_extent": (
        lambda: matmul(4, 12, 4),
        lambda s: (s.reorder("i", "k", "j"), s.tensorize("j", axpy())),
    ),
    "tensorize_overlap": (rows(ALIASED), lambda s: s.tensorize("j", axpy())),
    "tensorize_guard": (lambda: matmul(4, 12, 4), lambda s: s.tensorize(tiled(s), axpy())),
}

NAMES: dict[str, Case] = {
    "inlined_block": (chain, then(lambda s: s.compute_inline("B"), lambda s: s.get_loops("B"))),
    "get_block": (matmul, lambda s: s.get_block("D")),
    "get_producers": (matmul, lambda s: s.get_producers("D")),
    "get_consumers": (matmul, lambda s: s.get_consumers("D")),
    "get_output_blocks": (matmul, lambda s: s.get_output_blocks("main")),
    "block_is_no_loop": (matmul, lambda s: s.get_child_blocks(BlockRV("i"))),
    "sample_perfect_tile": (symbolic, lambda s: s.sample_perfect_tile("i", 2)),
    "sample_perfect_tile_decision": (
        matmul,
        lambda s: s.sample_perfect_tile("i", 2, decision=[4, 8]),
    ),
    "sample_categorical": (matmul, lambda s: s.sample_categorical([1, 2], [1.0])),
    "sample_perfect_tile_limit": (matmul, lambda s: s.sample_perfect_tile("i", 2, 0)),
    "sample_categorical_weights": (matmul, lambda s: s.sample_categorical([1, 2], [0.5, -0.5])),
    "sample_partitioned_tile_zero": (matmul, lambda s: s.sample_partitioned_tile("i", 2, 1, 0)),
    "sample_partitioned_tile": (matmul, lambda s: s.sample_partitioned_tile("i", 2, 1, 2)),
    "sample_partitioned_tile_decision": (
        chain,
        lambda s: s.sample_partitioned_tile("i", 2, 1, 2, decision=[3, 5]),
    ),
    "sample_partitioned_tile_factor": (
        chain,
        lambda s: s.sample_partitioned_tile("i", 2, 1, 2, decision=[4, 3]),
    ),
    "cache_read_memory": (matmul, lambda s: s.cache_read("C", 0, "wmma.matrix_a")),
    "set_scope_memory": (chain, lambda s: s.set_scope("B", 0, "register")),
    "work_on": (matmul, lambda s: s.work_on("other")),
    "removed": (matmul, removed),
    "stale_sref": (matmul, stale),
    "debug_mask": (matmul, lambda s: Schedule(s.func, debug_mask="some")),
    "error_render_level": (matmul, lambda s: Schedule(s.func, error_render_level="loud")),
    "fast": (matmul, lambda s: Schedule(s.func, error_render_level="fast").parallel("k")),
    "none": (matmul, lambda s: Schedule(s.func, error_render_level="none").parallel("k")),
    "trace_unknown": (
        matmul,
        lambda s: Trace.from_text('sch.spilt(loop="i", factors=[None, 8])').apply(s),
    ),
    "trace_syntax": (matmul, lambda s: Trace.from_text("sch.split(loop=")),
    "trace_scalar": (
        matmul,
        lambda s: Trace.from_text('sch.split(loop="i", factors=[None, q])').apply(s),
    ),
    "trace_decision": (
        matmul,
        lambda s: (s.split("i", [None, 8]), s.trace.with_decision(s.trace.insts[0], [1])),
    ),
    "trace_instruction": (
        matmul,
        lambda s: s.trace.get_decision(Trace.from_text("sch.enter_postproc()").insts[0]),
    ),
}

ABOUT_ARGUMENTS = set(NAMES) | {
    "add_unit_loop", "annotate", "annotate_loop", "fuse_nothing", "lost_loop", "split_no_list",
}  # fmt: skip
"""Errors about what was given, not about a place in the program."""

CASES = LOOPS | MOTION | MEMORY | BLOCKS | NAMES


@pytest.mark.parametrize("case", CASES)
def test_error(case: str, golden: Callable[[str], None]) -> None:
    make, step = CASES[case]
    sch = Schedule(make())
    with pytest.raises(ScheduleError) as caught:
        step(sch)
    golden(str(caught.value))


def standing(s: Schedule) -> tuple[Any, ...]:
    """All that a primitive may change."""
    states = [(n, x.func, list(x.history), set(x.names), set(x.block_names))
              for n, x in s._states.items()]  # fmt: skip
    trace = (str(s.trace), s.trace._count, dict(s.trace._names), list(s.trace._values))
    return states, trace, s.func_working_on, s._removed, s._depth, s.random.getstate()


class Watched(Schedule):
    """Knows how things stood after its last step that was no failure."""

    before: tuple[Any, ...]


def watched(name: str) -> Callable[..., Any]:
    """A primitive that takes note of how things stand behind it."""
    step = getattr(Schedule, name)

    @functools.wraps(step)
    def run(s: Watched, *args: Any, **kwargs: Any) -> Any:
        result = step(s, *args, **kwargs)
        if not s._depth:
            s.before = standing(s)
        return result

    return run


for _name in {*PRIMITIVES, "remove_rv"}:
    setattr(Watched, _name, watched(_name))


def go_on(s: Schedule) -> None:
    """A few steps that any program takes."""
    block = s.get_child_blocks("root")[0]
    s.annotate(block, "chosen", s.sample_categorical([1, 2, 3, 4, 5], [0.2] * 5))
    loops = s.state.index.loops.values()
    for loop in [x for x in loops if x.kind == "serial" and not x.annotations][:1]:
        s.split(loop.var.name, [None, 3])
    s.add_unit_loop(block)


@pytest.mark.parametrize("case", CASES)
def test_a_failing_primitive_leaves_all_as_it_was(case: str) -> None:
    make, step = CASES[case]
    func = make()
    s = Watched(func)
    s.before = standing(s)
    with pytest.raises(ScheduleError):
        step(s)
    assert standing(s) == s.before
    fresh = Schedule(func)
    Trace(s.trace.insts).apply(fresh)
    assert script(fresh.func) == script(s.func)
    for x in (s, fresh):
        go_on(x)
    assert script(fresh.func) == script(s.func)
    assert fresh.trace == s.trace


def test_a_failing_primitive_leaves_the_function_that_is_worked_on() -> None:
    s = Schedule(IRModule({"one": matmul(), "two": chain()}))
    s.work_on("two")
    block = s.get_block("B")
    s.work_on("one")
    before = standing(s)
    with pytest.raises(ScheduleError, match="factor 0 given"):
        s.storage_align(block, 0, 0, 0, 1)
    assert standing(s) == before


def test_a_callback_that_fails_leaves_all_as_it_was() -> None:
    s = Schedule(matmul())
    before = standing(s)
    with pytest.raises(ZeroDivisionError):
        s.transform_layout("C", "A", lambda i, k: (i, 1 // 0))
    assert standing(s) == before


def texts() -> dict[str, str]:
    """The golden texts of errors."""
    folder = Path(__file__).parent / "golden"
    return {f.stem.removeprefix("error_"): f.read_text() for f in folder.glob("error_*.txt")}


def test_every_primitive_has_an_error_text() -> None:
    called = {text.split("(", 1)[0] for text in texts().values()}
    assert PRIMITIVES - called == {"enter_postproc"}, "which can never fail"


def test_error_texts_belong_to_cases_and_say_what_is_legal() -> None:
    assert set(texts()) == set(CASES)
    silent = {name for name, text in texts().items() if "legal: " not in text and name != "none"}
    assert {name for name in silent if "s of main: " not in texts()[name]} == {"trace_syntax"}


def test_error_texts_mark_the_program() -> None:
    unmarked = {name for name, text in texts().items() if "@T.prim_func" not in text}
    assert unmarked <= ABOUT_ARGUMENTS
    assert all("^^^" in texts()[name] for name in set(CASES) - unmarked)


def test_every_refusal_in_the_source_says_what_is_legal() -> None:
    folder = Path(inspect.getfile(Schedule)).parent
    silent = [
        f"{path.name}:{call.lineno}"
        for path in folder.glob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("fail", "cannot_prove", "demand")
        and "legal" not in {k.arg for k in call.keywords}
    ]
    assert not silent


def test_a_block_must_not_use_loops_around_it(golden: Callable[[str], None]) -> None:
    func = program(
        "for i in range(4):\n    with T.block('B'):\n        v = T.axis.spatial(4, i)\n"
        "        B[v] = A[i]"
    )
    with pytest.raises(ScheduleError) as caught:
        Schedule(func)
    golden(str(caught.value))
