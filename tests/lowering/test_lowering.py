"""Every pass from scheduled programs to flat loops keeps the interpreter's result."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smelt import te
from smelt.codegen.llvm import resolve
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import INDEX, Ramp, Shuffle, Var, const
from smelt.lowering.lower import lower
from smelt.pipeline import LOWER
from smelt.rules.cpu import schedule
from smelt.target import Target, machine_of
from smelt.tir.nodes import Allocate, BufferStore, walk
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import NO_PARTITION
from tests.schedule.support import matmul, softmax

from .programs import BUILDERS, argmax, every_pass_keeps_the_result

LAW = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
SIZES = {
    "matmul": (37, 51, 29),
    "dense": (5, 33, 8),
    "conv": (1, 3, 6, 7, 5),
    "pool": (3, 7, 9),
    "softmax": (5, 13),
    "argmax": (4, 11),
    "concat": (5, 3, 6),
    "elementwise": (6, 7),
    "transposed": (6, 7),
    "interleaved": (3, 67),
}
MACHINE = machine_of(resolve(Target("llvm -mcpu=x86-64-v3")), 2)


@pytest.mark.parametrize("name", list(BUILDERS))
def test_plain_programs(name: str) -> None:
    func = BUILDERS[name](*SIZES[name])
    every_pass_keeps_the_result(func, {}, func)


@pytest.mark.parametrize("name", list(BUILDERS))
def test_default_schedules(name: str) -> None:
    func = BUILDERS[name](*SIZES[name])
    every_pass_keeps_the_result(schedule(func, MACHINE).func, {}, func)


def test_a_buffer_whose_places_are_counted_keeps_its_size() -> None:
    """Two accesses that look like neighbours: what they count changes between them."""
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    kept = T.alloc_buffer((8,), "float32")
    n = T.alloc_buffer((1,), "int64")
    with T.block("run"):
        T.reads(A[0:8])
        T.writes(C[0:8], kept[0:8], n[0:1])
        n[0] = 0
        for i in range(8):
            kept[n[0]] = A[i] * 2.0
            n[0] = n[0] + 1
            C[i] = kept[n[0] - 1]
"""
    func = parse(text)
    every_pass_keeps_the_result(func, {}, func)


def test_rows_stored_in_turn_are_stored_at_once() -> None:
    func = BUILDERS["interleaved"](3, 64)
    flat = lower(schedule(func, MACHINE).func, LOWER)
    stores = [s for s in walk(flat.body) if isinstance(s, BufferStore)]
    (place,) = [s.indices[0] for s in stores if isinstance(s.value, Shuffle)]
    assert isinstance(place, Ramp)
    assert (place.stride, place.lanes) == (const(1, INDEX), 64)


@settings(LAW, max_examples=25)
@given(st.data())
def test_default_schedules_of_any_size(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(BUILDERS)))
    sizes = [data.draw(st.integers(1, 19)) for _ in SIZES[name]]
    if name == "conv":
        sizes = [1, sizes[1] % 5 + 1, sizes[2] % 7 + 3, sizes[3] % 7 + 3, sizes[4]]
    func = BUILDERS[name](*sizes)
    every_pass_keeps_the_result(schedule(func, MACHINE).func, {}, func)


@pytest.mark.parametrize("n", [1, 7, 16, 35])
@pytest.mark.parametrize("name", ["matmul", "dense", "softmax", "argmax", "concat", "transposed"])
def test_sizes_known_at_run_time(name: str, n: int) -> None:
    size = Var("n", "int64")
    rest = SIZES[name][1:]
    func = BUILDERS[name](size, *rest)
    every_pass_keeps_the_result(schedule(func, MACHINE).func, {"n": n}, func)
    every_pass_keeps_the_result(func, {"n": n}, func)


# ------------------------------------------------------------------------------ random schedules


@st.composite
def scheduled(draw: Any) -> tuple[Schedule, Any]:
    """A program and a schedule made of what rules are made of."""
    name = draw(st.sampled_from(sorted(BUILDERS)))
    func = BUILDERS[name](*SIZES[name]) if name != "matmul" else matmul(9, 11, 6)
    s = Schedule(func)
    for _ in range(draw(st.integers(1, 6))):
        try:
            _step(draw, s)
        except ScheduleError:
            continue
    return s, func


def _step(draw: Any, s: Schedule) -> None:
    blocks = [b for b in s.state.index.blocks if b != "root"]
    block = draw(st.sampled_from(blocks))
    nest = s.get_loops(block)
    if not nest:
        return
    loop = draw(st.sampled_from(nest))
    kind = draw(st.sampled_from(["split", "split", "reorder", "compute_at", "reverse_compute_at",
                                 "vectorize", "unroll", "parallel", "inline", "local",
                                 "decompose"]))  # fmt: skip
    match kind:
        case "split":
            s.split(loop, [None, draw(st.integers(2, 5))])
        case "reorder":
            s.reorder(*draw(st.permutations(nest)))
        case "compute_at" | "reverse_compute_at":
            getattr(s, kind)(draw(st.sampled_from(blocks)), loop)
        case "vectorize" | "unroll":
            getattr(s, kind)(nest[-1])
        case "parallel":
            s.parallel(nest[0])
        case "inline":
            s.compute_inline(block)
        case "local":
            s.set_scope(block, 0, "local")
        case "decompose":
            s.decompose_reduction(block, loop)


@LAW
@given(scheduled())
def test_random_schedules(pair: Any) -> None:
    s, func = pair
    every_pass_keeps_the_result(s.func, {}, func)


# ------------------------------------------------------------------------------- known past bugs


def test_the_second_buffer_of_a_tuple_reduction_keeps_what_its_block_carries() -> None:
    """Nothing but the block itself uses the values of argmax: they live as long as the places."""
    func = argmax(3, 20)
    s = Schedule(func)
    block = s.get_child_blocks("root")[0]
    s.split(s.get_loops(block)[1], [None, 6])
    flat = every_pass_keeps_the_result(s.func, {}, func)
    assert "best" in str(flat.body)


def test_a_vectorised_loop_around_a_serial_reduction() -> None:
    func = matmul(5, 16, 7)
    s = Schedule(func)
    i, j, k = s.get_loops("C")
    j_o, j_i = s.split(j, [None, 8])
    s.reorder(i, j_o, k, j_i)
    s.vectorize(j_i)
    every_pass_keeps_the_result(s.func, {}, func)


@pytest.mark.parametrize("whole", [False, True])
def test_conditions_that_are_little_of_a_loop_do_not_copy_it(whole: bool) -> None:
    x = te.placeholder((32,), name="x")
    inside = te.compute(
        (34,), lambda i: te.if_then_else(te.all_of(i >= 1, i < 33), x[i - 1], 0.0), name="pad"
    )
    y = te.compute((32,), lambda i: inside[i] + inside[i + 1] * 2.0 + inside[i + 2], name="y")
    func = te.create_prim_func([x, y])
    s = Schedule(func)
    i, lanes = s.split(s.get_loops("y")[0], [None, 4])
    s.compute_at("pad", i)
    if whole:
        s.annotate(s.get_loops("pad")[-1], NO_PARTITION, True)
    s.vectorize(lanes)
    flat = every_pass_keeps_the_result(s.func, {}, func)
    text = script(flat)
    assert (text.count("y[") == 1) == whole
    assert NO_PARTITION not in text


def test_a_ragged_reader_leaves_a_buffer_inside_its_loop() -> None:
    """Its last tile reads, under a condition, nothing but what this iteration has made."""
    x = te.placeholder((52,), name="x")
    twice = te.compute((52,), lambda t: x[t] * 2.0, name="twice")
    y = te.compute((4, 13), lambda i, j: twice[i * 13 + j] + 1.0, name="y")
    func = te.create_prim_func([x, y])
    s = Schedule(func)
    i, j = s.get_loops("y")
    s.compute_at("twice", i)
    _, lanes = s.split(j, [None, 8])
    s.vectorize(lanes)
    flat = every_pass_keeps_the_result(s.func, {}, func)
    (buffer,) = [a.buffer for a in walk(flat.body) if isinstance(a, Allocate)]
    assert buffer.fixed_shape() == (16,)


def test_large_intermediates_are_handed_in() -> None:
    func = softmax(3, 9000)
    flat = every_pass_keeps_the_result(Schedule(func).func, {}, func)
    assert flat.attrs["workspaces"] >= 1


def test_of_two_vectorised_loops_the_inner_one_is_the_vector() -> None:
    func = matmul(4, 8, 3, relu=True)
    s = Schedule(func)
    i, _ = s.get_loops("D")
    s.compute_at("C", i)
    s.vectorize(s.get_loops("D")[-1])
    s.vectorize(i)
    every_pass_keeps_the_result(s.func, {}, func)
