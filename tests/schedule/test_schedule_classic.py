"""The classic tir.Schedule: its methods and parameters, handles, random variables, traces."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from smelt import te
from smelt.arith import IndexMap
from smelt.ir.errors import ScheduleError
from smelt.ir.module import IRModule
from smelt.tir.equal import assert_structural_equal
from smelt.tir.nodes import Block, For, PrimFunc
from smelt.tir.printer import script
from smelt.tir.schedule import AXIS_SEPARATOR, BlockRV, ExprRV, Instruction, LoopRV, Schedule, Trace

from .programs import argmax, stencil
from .support import axpy, chain, conv, matmul, program, run, same

CLASSIC = """
__init__(mod, *, seed=None, debug_mask='none', error_render_level='detail', enable_check=True)
work_on(func_name)
copy()
seed(seed)
fork_seed()
show(style=None, black_format=False)
get(rand_var_or_sref)
get_sref(rand_var_or_stmt)
remove_rv(rand_var)
sample_categorical(candidates, probs, decision=None)
sample_perfect_tile(loop, n, max_innermost_factor=16, decision=None)
sample_partitioned_tile(loop, n, partition_pos=0, innerpart_factor=1, decision=None)
sample_compute_location(block, decision=None)
get_block(name, func_name=None)
get_loops(block)
get_child_blocks(block_or_loop)
get_producers(block)
get_consumers(block)
get_output_blocks(scope_block='root')
merge(*loops)
fuse(*loops, preserve_unit_iters=True)
split(loop, factors, preserve_unit_iters=True, disable_predication=False)
loop_partition(loop, factors, preserve_unit_iters=True)
reorder(*ordered_loops)
reorder_block_iter_var(block, new_order)
add_unit_loop(block_or_loop)
parallel(loop)
vectorize(loop)
bind(loop, thread_axis)
unroll(loop)
cache_read(block, read_buffer_index, storage_scope, consumer_blocks=None)
cache_write(block, write_buffer_index, storage_scope, consumer_blocks=None)
reindex_cache_read(block, read_buffer_index, storage_scope, index_map)
reindex_cache_write(block, write_buffer_index, storage_scope, index_map)
cache_inplace(block, read_buffer_index, storage_scope)
cache_index(block, storage_scope, cse_thresh=0)
reindex(block, buffer)
read_at(loop, block, read_buffer_index, storage_scope)
write_at(loop, block, write_buffer_index, storage_scope)
set_scope(block, buffer_index, storage_scope)
storage_align(block, buffer_index, axis, factor, offset)
unsafe_set_dtype(block, buffer_index, dtype)
compute_at(block, loop, preserve_unit_loops=False, index=-1)
reverse_compute_at(block, loop, preserve_unit_loops=False, index=-1)
compute_inline(block)
reverse_compute_inline(block)
decompose_reduction(block, loop)
rfactor(loop, factor_axis)
blockize(target, preserve_unit_iters=True)
tensorize(block_or_loop, tensor_intrin, preserve_unit_iters=True)
annotate(block_or_loop, ann_key, ann_val)
unannotate(block_or_loop, ann_key)
transform_layout(block, buffer, index_map, pad_value=None, assume_injective_transform=False)
transform_block_layout(block, index_map)
set_axis_separator(block, buffer, axis_separators=None)
decompose_padding(block, loop)
can_decompose_padding(block, loop)
pad_einsum(block, padding)
rolling_buffer(block, write_buffer_index)
enter_postproc()
unsafe_hide_buffer_access(block, buf_type, buf_index_array)
annotate_buffer_access(block, buffer_index, buf_type, gen_new_ranges)
"""
"""Methods of the classic class, by name, parameters and defaults."""

PROPERTIES = ("mod", "state", "trace", "func_working_on")


@pytest.mark.parametrize("line", CLASSIC.split("\n")[1:-1], ids=lambda s: s.split("(")[0])
def test_method(line: str) -> None:
    name, params = line.split("(", 1)
    found = inspect.signature(getattr(Schedule, name))
    plain = [p.replace(annotation=p.empty) for p in found.parameters.values()][1:]
    assert str(inspect.Signature(plain)) == "(" + params


def test_properties() -> None:
    s = Schedule(matmul())
    assert all(hasattr(s, name) for name in PROPERTIES)
    assert s.func_working_on == "main"
    assert s.mod["main"] is s.func


# ----------------------------------------------------------------------------------------- handles


def test_handles_and_names_are_the_same() -> None:
    by_handle, by_name = Schedule(matmul(8, 8, 8)), Schedule(matmul(8, 8, 8))
    block = by_handle.get_block(name="C", func_name="main")
    i, j, k = by_handle.get_loops(block=block)
    outer, inner = by_handle.split(loop=j, factors=[None, ExprRV(4)])
    by_handle.reorder(i, outer, k, inner)
    by_name.split("j", (None, 4))
    by_name.reorder("i", "j_0", "k", "j_1")
    assert script(by_handle.func) == script(by_name.func)


def test_get_and_get_sref() -> None:
    s = Schedule(matmul(8, 8, 8))
    block, (i, j, _) = s.get_block("C"), s.get_loops("C")
    assert isinstance(s.get(block), Block)
    assert isinstance(s.get(i), For)
    assert s.get(s.sample_categorical([7], [1.0])) == 7
    ref = s.get_sref(block)
    assert ref.stmt is s.get(block)
    above = ref.parent
    assert above is not None
    assert above.stmt is s.get("k")
    s.annotate(block, "note", 1)
    assert s.get(ref) is s.get(block), "a reference follows the program"
    root = s.get_sref("root")
    assert root.parent is None
    assert s.get_sref(s.get(j)).rv == j  # type: ignore[arg-type]


def two_functions() -> IRModule:
    """Two functions with blocks and loops of the same names."""
    return IRModule({"f": chain(4, 6).with_attrs(name="f"), "g": chain(5, 3).with_attrs(name="g")})


def test_handles_know_their_function() -> None:
    s = Schedule(two_functions())
    a, b = s.get_block("B", func_name="f"), s.get_block("B", func_name="g")
    assert s.func_working_on == "g"
    i, _ = s.get_loops(a)
    assert s.func_working_on == "f"
    s.parallel(i)
    s.unroll(s.get_loops(b)[0])
    kinds = {n: s.mod[n].body.block.body.stmts[0].kind for n in "fg"}
    assert kinds == {"f": "parallel", "g": "unrolled"}
    again = Schedule(two_functions())
    Trace.from_text(str(s.trace)).apply(again)
    for n in "fg":
        assert_structural_equal(again.mod[n], s.mod[n])
    with pytest.raises(ScheduleError, match="different functions"):
        s.merge(s.get_loops(a)[0], s.get_loops(b)[0])


def test_a_removed_handle_is_refused() -> None:
    s = Schedule(matmul())
    block = s.get_block("C")
    s.remove_rv(block)
    with pytest.raises(ScheduleError, match="has been removed"):
        s.get_loops(block)
    assert s.get_loops(s.get_block("C")) == ["i", "j", "k"]


def test_debug_mask_verifies_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[PrimFunc] = []
    monkeypatch.setattr("smelt.tir.schedule.primitive.verify", seen.append)
    s = Schedule(matmul(), debug_mask="all", enable_check=False)
    s.get_loops("C")
    s.split("i", [None, 8])
    assert seen == [s.func]


def test_scalar_annotations_of_all_kinds() -> None:
    s = Schedule(chain(te.size_var("m"), 8))
    m = s.func.params[-1]
    values = [1, 2.5, "x", None, True, [1, [2]], {"a": {"b": 1}}, m * 2, np.int64(3), (1, 2)]  # type: ignore[operator]
    for k, value in enumerate(values):
        s.annotate("B", f"note{k}", value)
    again = Schedule(chain(te.size_var("m"), 8))
    Trace.from_text(str(s.trace)).apply(again)
    assert_structural_equal(again.func, s.func)
    notes = s.get("B").annotations  # type: ignore[union-attr]
    assert [notes[f"note{k}"] for k in (0, 1, 2, 3, 4, 5, 8, 9)] == [
        1, 2.5, "x", None, True, [1, [2]], 3, [1, 2],
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------ traces


def sampled() -> Schedule:
    """A schedule with decisions, one of which nothing uses, and a part behind enter_postproc."""
    s = Schedule(matmul(16, 16, 16), seed=5)
    block = s.get_block("C")
    i, j, _ = s.get_loops(block)
    s.get_loops(block)
    tile = s.sample_perfect_tile(i, n=2, max_innermost_factor=8)
    s.sample_categorical([1, 2], [0.5, 0.5])
    s.split(i, tile)
    s.split(j, [None, tile[1] * 2])
    s.enter_postproc()
    s.parallel("i_0")
    return s


def kinds(trace: Trace) -> list[str]:
    """The primitives of a trace."""
    return [i.kind.name for i in trace.insts]


def test_trace_is_python_and_json() -> None:
    s = sampled()
    lines = s.trace.as_python()
    assert lines[0] == 'b0 = sch.get_block(name="C")'
    assert lines == str(s.trace).splitlines()
    assert len(s.trace.as_python(remove_postproc=True)) == len(lines) - 2
    again = Schedule(matmul(16, 16, 16))
    Trace.apply_json_to_schedule(s.trace.as_json(), again)
    assert script(again.func) == script(s.func)


def test_trace_simplified_drops_what_nothing_uses() -> None:
    s = sampled()
    assert kinds(s.trace.simplified(remove_postproc=True)) == [
        "get_block", "get_loops", "sample_perfect_tile", "split", "split",
    ]  # fmt: skip
    again = Schedule(matmul(16, 16, 16))
    s.trace.simplified().apply(again)
    assert script(again.func) == script(s.func)


def test_trace_with_another_decision() -> None:
    s = sampled()
    inst = next(i for i in s.trace.insts if i.kind.name == "sample_perfect_tile")
    assert s.trace.get_decision(inst) == s.trace.decisions[inst]
    other = s.trace.with_decision(inst, [8, 2], remove_postproc=True)
    again = Schedule(matmul(16, 16, 16))
    other.apply_to_schedule(again)
    extents = [s_.extent.value for s_ in (again.get(n) for n in ("i_0", "i_1", "j_1"))]  # type: ignore[union-attr]
    assert extents == [8, 2, 4], "what was computed from a sample follows it"
    third = Schedule(matmul(16, 16, 16))
    asked: list[str] = []

    def decide(i: Instruction, inputs: list[Any], attrs: list[Any], decision: Any) -> Any:
        asked.append(i.kind.name)
        return [4, 4] if i.kind.name == "sample_perfect_tile" else decision

    s.trace.apply_to_schedule(third, remove_postproc=True, decision_provider=decide)
    assert asked == ["sample_perfect_tile", "sample_categorical"]
    assert third.get("i_1").extent.value == 4  # type: ignore[union-attr]
    assert third.get("i_0").kind == "serial"  # type: ignore[union-attr]


def test_trace_append_and_pop() -> None:
    s = sampled()
    last = s.trace.pop()
    assert last is not None
    assert last.kind.name == "parallel"
    s.trace.append(last)
    assert s.trace.insts[-1] is last
    assert Trace().pop() is None
    sample = Trace.from_text("v0 = sch.sample_categorical(candidates=[1, 2], probs=[1.0, 0.0])")
    more = Trace()
    more.append(sample.insts[0], decision=1)
    assert more.get_decision(more.insts[0]) == 1
    assert more.insts[0].inputs == {}
    assert set(more.insts[0].attrs) == {"candidates", "probs"}


def test_text_with_unusual_names_survives() -> None:
    s = Schedule(matmul())
    s.annotate("C", 'a "quoted" key \\ \n ü 🙂', float("inf"))
    again = Schedule(matmul())
    Trace.from_text(str(s.trace)).apply(again)
    assert_structural_equal(again.func, s.func)


# --------------------------------------------------------------------------------- some primitives


def test_index_maps_of_both_kinds() -> None:
    func = chain(8, 6)
    by_function, by_map = Schedule(func), Schedule(func)
    by_function.transform_layout("B", "B", lambda i, j: (j, i // 4, i % 4))
    by_map.transform_layout(
        "B", by_map.func.body.block.alloc_buffers[0],  # type: ignore[attr-defined]
        IndexMap.from_func(lambda i, j: (j, i // 4, i % 4)),
    )  # fmt: skip
    assert script(by_function.func) == script(by_map.func)
    same(by_function, func)


@pytest.mark.parametrize("kind", [lambda f: f, IndexMap.from_func], ids=["function", "map"])
def test_an_axis_separator_in_an_index_map(kind: Callable[[Any], Any]) -> None:
    func = chain(8, 6)
    s = Schedule(func)
    index_map = kind(lambda i, j: [i // 4, AXIS_SEPARATOR, j, i % 4])
    s.transform_layout("B", ("write", 0), index_map)
    assert "axis_separators=[1]" in script(s.func)
    same(s, func)


def test_padding_by_a_function_of_the_new_indices() -> None:
    func = chain(5, 6)
    s = Schedule(func)
    s.transform_layout("D", "D", lambda i, j: (i, j // 4, j % 4), lambda i, j, k: i * 10 + k)
    found = run(s.func)
    np.testing.assert_array_equal(found[:, 1, 2:], np.arange(5)[:, None] * 10 + np.array([2, 3]))
    again = Schedule(func)
    Trace.from_text(str(s.trace)).apply(again)
    assert_structural_equal(again.func, s.func)


def test_a_map_that_only_the_caller_knows_to_be_injective() -> None:
    s = Schedule(chain(4, 4))
    with pytest.raises(ScheduleError, match="cannot prove"):
        s.transform_layout("B", "B", lambda i, j: (i * 4 + j * 5,))
    s.transform_layout("B", "B", lambda i, j: (i * 4 + j * 5,), assume_injective_transform=True)


def test_unknown_divisors_without_a_guard() -> None:
    n = te.size_var("n")
    func = chain(n, 4)
    s = Schedule(func)
    s.split("i", [None, 8], disable_predication=True)
    assert "T.where" not in script(s.func)
    same(s, func, {"n": 16})


def test_loops_of_one_iteration_stay_out_of_bindings() -> None:
    s = Schedule(chain(4, 4))
    a, b = s.split("i", [4, 1], preserve_unit_iters=False)
    assert s.get_loops("B") == [a, b, "j"]
    assert "v_i = T.axis.spatial(4, i_0)" in script(s.func)


def test_the_rest_of_a_partition_is_one_more_loop() -> None:
    func = chain(13, 4)
    s = Schedule(func)
    assert len(s.loop_partition("i", [2, 8])) == 3
    same(s, func)


def test_predicates_move_with_their_block() -> None:
    func = conv(1, 2, 5, 6, 3)
    s = Schedule(func)
    s.decompose_padding("pad", s.get_loops("pad")[0])
    rows = s.get_loops("conv")[1]
    s.cache_write("conv", 0, "global")
    copied = s.get_block("pad")
    assert s.get_producers("conv") == ["pad_pad_const", copied]
    s.reverse_compute_at("badd", s.get_loops("conv_global")[1])
    same(s, func)
    assert rows == "k_1"


def test_tuple_reductions_are_factored() -> None:
    func = argmax(5, 24)
    s = Schedule(func)
    outer, inner = s.split(s.get_loops("best")[1], [None, 4])
    first = s.rfactor(inner, 0)
    s.parallel(s.get_loops(first)[2])
    same(s, func)
    assert outer == "k_0"
    ordered = Schedule(argmax(5, 24, ties=False))
    outer, _ = ordered.split("k", [None, 4])
    ordered.rfactor(outer, 1)
    same(ordered, argmax(5, 24, ties=False))


@pytest.mark.parametrize("tile", [1, 2, 3])
def test_rolling_windows(tile: int) -> None:
    func = stencil(9, 5)
    s = Schedule(func)
    outer, _ = s.split("i_1", [None, tile])
    s.compute_at("B", outer, preserve_unit_loops=True)
    s.rolling_buffer("B", 0)
    assert s.get("B").writes[0].buffer.fixed_shape() == (tile + 2, 5)  # type: ignore[union-attr]
    same(s, func)
    with pytest.raises(ScheduleError, match="cannot be parallel"):
        s.parallel(outer)


TILE = """
for i, j in T.grid(4, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = {value}
"""


def tile(value: str) -> Schedule:
    """A row of eight columns, stored in a way of its own."""
    return Schedule(program(TILE.format(value=value)))


@pytest.mark.parametrize(
    "value",
    [
        "C[vi, vj] + A[vi, 0] * B[0, vj]",
        "A[vi, 0] * B[0, vj] + C[vi, vj]",
        "B[vi, vj] * A[vi, vi] + C[vi, vj]",
        "B[vj, vi] * A[vi, 0] + C[vi, vj]",
    ],
)
def test_tensorize_in_any_order_and_place(value: str) -> None:
    s = tile(value)
    func = s.func
    s.tensorize("j", axpy())
    assert "T.ramp" in script(s.func)
    same(s, func)


def test_tensorize_a_nest_in_another_order() -> None:
    described = program("""
for k, j, i in T.grid(2, 8, 4):
    with T.block("D"):
        wk, wj, wi = T.axis.remap("RSS", [k, j, i])
        C[wi, wj] = C[wi, wj] + A[wi, wk] * B[wk, wj]
""")
    written = program("""
for i, j in T.grid(4, 8):
    C[i, j] = C[i, j] + A[i, 0] * B[0, j] + A[i, 1] * B[1, j]
""")
    func = matmul(8, 16, 4)
    s = Schedule(func)
    tiles = [s.split(x, [None, n]) for x, n in zip(s.get_loops("C"), (4, 8, 2), strict=True)]
    s.reorder(*[t[0] for t in tiles], *[t[1] for t in tiles])
    pair = (described.with_attrs(name="tile"), written.with_attrs(name="tile"))
    s.tensorize(tiles[0][1], pair)
    same(s, func)
    assert s.get("C_o").init is not None  # type: ignore[union-attr]


def test_blocks_side_by_side_become_one() -> None:
    func = chain(6, 4)
    s = Schedule(func)
    s.compute_at("B", "i_1")
    outer = s.blockize(["B", "C"])
    assert s.get_loops(outer) == ["i_1"]
    assert s.get_child_blocks(outer) == ["B", "C"]
    same(s, func)
    s.parallel("i_1")
    same(s, func)


def test_kinds_of_handles() -> None:
    s = Schedule(chain(4, 4))
    assert isinstance(s.get_block("B"), BlockRV)
    assert all(isinstance(x, LoopRV) for x in s.get_loops("B"))
    assert s.cache_index("B", "local") == []
    read, write = Schedule(
        program(
            "for i in range(4):\n    with T.block('B'):\n        v = T.axis.spatial(4, i)\n"
            "        B[v] = B[v] + A[v]"
        )
    ).cache_inplace("B", "B", "local")
    assert (read, write) == ("B_local", "B_local_1")
