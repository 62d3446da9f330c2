"""Sketches: every decision computes the same, choices are the cheapest, what is chosen is known."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt import te
from smelt.codegen.llvm import ObjectCompiler, resolve
from smelt.codegen.llvm_text import emit_module
from smelt.ir.errors import InternalError, ScheduleError
from smelt.ir.expr import INDEX, Expr, Var
from smelt.lowering.blocks import lower_blocks
from smelt.pipeline import lower_program as lower
from smelt.rules.cost import Cost, seconds
from smelt.rules.cpu import SKETCHES, Plan, apply, plan, schedule
from smelt.rules.cpu.program import Plain
from smelt.rules.sketch import Decision, Domain, Refusal, Scored, Site, Space, best, score
from smelt.target import Machine, Target, machine_of
from smelt.tir.interpret import interpret
from smelt.tir.nodes import Allocate, PrimFunc, walk
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule
from smelt.topi.registry import get_op

from .build import (
    FAR,
    NARROW,
    NCHW,
    NHWC,
    ONE,
    TWO,
    Array,
    Order,
    close,
    data,
    laid_out,
    made,
    number,
    run_scheduled,
    written,
)  # fmt: skip


def matmul(m: Expr | int, n: int, k: int, turned: bool = False) -> PrimFunc:
    x = te.placeholder((m, k), name="x")
    w = te.placeholder((n, k) if turned else (k, n), name="w")
    r = te.reduce_axis((0, k), name="r")
    return made(x, w, te.compute(
        (m, n), lambda i, j: te.sum(x[i, r] * (w[j, r] if turned else w[r, j]), axis=r), name="y"
    ))  # fmt: skip


def conv(
    c: int, o: int, size: int, side: int, groups: int = 1, stride: int = 1, batch: int = 1,
    order: Order = NHWC,
) -> PrimFunc:  # fmt: skip
    x = te.placeholder((batch, c, size, size), name="x")
    w = te.placeholder((o, c // groups, side, side), name="w")
    pad = side // 2
    y = get_op("conv2d")(x, w, strides=(stride,) * 2, pads=(pad,) * 4, groups=groups)
    y = get_op("relu")(y)
    return laid_out(made(x, w, y), {"x": order, y.name: order}, order)


def line(c: int, o: int, size: int, taps: int, stride: int = 1) -> PrimFunc:
    """A convolution of one image of one dimension, channels last."""
    x, w = te.placeholder((1, c, size), name="x"), te.placeholder((o, c, taps), name="w")
    pad = taps // 2
    y = get_op("conv1d")(x, w, strides=(stride,), pads=(pad, pad))
    order = (0, 2, 1)
    return laid_out(made(x, w, y := get_op("relu")(y)), {"x": order, y.name: order}, order)


def columns_of_two(m: int, k: int, n: int, wide: int) -> PrimFunc:
    """Products whose columns are two axes, which go on into each other."""
    x, w = te.placeholder((m, k), name="x"), te.placeholder((k, n, wide), name="w")
    r = te.reduce_axis((0, k), name="r")
    return made(x, w, te.compute(
        (m, n, wide), lambda i, j, h: te.sum(x[i, r] * w[r, j, h], axis=r), name="y"
    ))  # fmt: skip


def softmax(m: int, n: int) -> PrimFunc:
    x = te.placeholder((m, n), name="x")
    return made(x, get_op("softmax")(x, axis=-1))


PROGRAMS: dict[str, Any] = {
    "matmul": lambda: matmul(13, 37, 19),
    "turned": lambda: matmul(9, 20, 70, turned=True),
    "1x1": lambda: conv(12, 20, 7, 1),
    "3x3": lambda: conv(5, 18, 9, 3),
    "strided": lambda: conv(6, 9, 11, 3, stride=2),
    "grouped 1x1": lambda: conv(12, 21, 5, 1, groups=3),
    "grouped 3x3": lambda: conv(8, 40, 6, 3, groups=2),
    "depthwise": lambda: conv(10, 10, 8, 3, groups=10),
    "line": lambda: line(5, 18, 70, 5),
    "1x1 over rows": lambda: conv(11, 20, 5, 1, batch=2, order=NCHW),
    "grouped 1x1 over rows": lambda: conv(12, 21, 7, 1, groups=3, batch=2, order=NCHW),
    "two axes of columns": lambda: columns_of_two(9, 18, 5, 7),
    "softmax": lambda: softmax(6, 45),
    "sum": lambda: made(x := te.placeholder((3, 500), name="x"), get_op("sum")(x, axes=(1,))),
    "outer sum": lambda: made(x := te.placeholder((50, 33), name="x"), get_op("sum")(x, axes=(0,))),
    "chain": lambda: made(x := te.placeholder((7, 90), name="x"), get_op("tanh")(x)),
}
"""Extents that no tile divides."""


def inputs(func: PrimFunc) -> list[Array]:
    outputs = written(func)
    return [data(*[number(e, {}) for e in b.shape], seed=n)
            for n, b in enumerate(func.buffers) if b not in outputs]  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=8)
@given(choice=st.data())
def test_every_decision_computes_the_same(name: str, choice: st.DataObject) -> None:
    func = PROGRAMS[name]()
    machine = choice.draw(st.sampled_from([ONE, TWO, NARROW, FAR]))
    found = plan(func, machine, choice.draw(st.sampled_from([frozenset(), frozenset({"w"})])))
    sch = found.schedule.copy()
    for part in found.parts:
        _, scored = choice.draw(st.sampled_from(part.scored))
        rank = choice.draw(st.integers(0, len(scored.order) - 1))
        scored.space.build(sch, scored.decision(rank))
    given_ = inputs(func)
    close(run_scheduled(func, sch, *given_)[0], interpreted(func, given_), 1e-4)


def interpreted(func: PrimFunc, given_: list[Array]) -> Array:
    (out,) = written(func)
    found = np.zeros([number(e, {}) for e in out.shape], out.type)
    interpret(func, *given_, found)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("machine", [ONE, TWO, NARROW])
def test_the_cheapest_is_built(name: str, machine: Machine) -> None:
    found = plan(PROGRAMS[name](), machine, frozenset({"w"}))
    built = apply(found, strict=True)
    assert not built.failed
    for part, text in zip(found.parts, built.chosen, strict=True):
        every = [s.at(r) for _, s in part.scored for r in range(len(s.order))]
        assert part.choices[0].seconds == min(every)
        assert text == str(part.choices[0])
    assert built.seconds == pytest.approx(sum([p.seconds for p in found.parts]))


SKETCH_OF = {
    "matmul": "contraction", "1x1": "contraction", "3x3": "contraction", "strided": "contraction",
    "grouped 3x3": "contraction", "1x1 over rows": "contraction",
    "grouped 1x1 over rows": "contraction", "two axes of columns": "contraction",
    "line": "contraction", "depthwise": "window", "sum": "lanes", "chain": "elementwise",
    "softmax": "rows",
}  # fmt: skip


@pytest.mark.parametrize("name", SKETCH_OF)
def test_programs_get_their_sketch(name: str) -> None:
    (part,) = plan(PROGRAMS[name](), ONE, frozenset({"w"})).parts
    assert part.choices[0].sketch.name == SKETCH_OF[name]


def test_rows_are_walked_as_one() -> None:
    """Tiles of 8 in an image of 7 by 7: the last tile is ragged, not each row's."""
    (part,) = plan(conv(64, 64, 7, 1), ONE, frozenset({"w"})).parts
    scored = dict(part.scored)[part.choices[0].sketch]
    flat = [scored.decision(r) for r in range(len(scored.order))]
    assert any(d["flat"] == 2 and d["rows"] == 8 for d in flat)
    sch = part.site.schedule.copy()
    wanted = next(d for d in flat if d["flat"] == 2 and d["rows"] == 8)
    scored.space.build(sch, wanted)
    func = conv(64, 64, 7, 1)
    given_ = inputs(func)
    close(run_scheduled(func, sch, *given_)[0], interpreted(func, given_), 1e-4)


@pytest.mark.parametrize("groups", [1, 4])
def test_pixels_in_rows_fill_vectors(groups: int) -> None:
    """Of an image of 12 by 12 in NCHW order all rows are one vector axis: none is masked."""
    (part,) = plan(conv(64, 64, 12, 1, groups, order=NCHW), ONE, frozenset({"w"})).parts
    assert part.choices[0].sketch.name == "contraction"
    sch = part.site.schedule.copy()
    part.choices[0].space.build(sch, part.choices[0].decision)
    text = emit_module([lower(sch.func)])
    assert "<16 x float>" in text
    assert "masked" not in text


def test_padded_rows_are_not_cut_in_chunks() -> None:
    """The tiles of a chunk would not know which of them are at the edge."""
    (part,) = plan(conv(16, 16, 64, 3), TWO, frozenset({"w"})).parts
    scored = next(s for sketch, s in part.scored if sketch.name == "contraction")
    assert {scored.decision(r)["chunks"] for r in range(len(scored.order))} == {0, 1}


@pytest.mark.parametrize(("size", "taps", "stride"), [(2400, 3, 1), (800, 9, 1), (3200, 5, 2)])
def test_padded_lines_are(size: int, taps: int, stride: int) -> None:
    """There is nothing else that cores could share; wherever the edges are, and of any chunk."""
    func = line(8, 16, size, taps, stride)
    (part,) = plan(func, TWO, frozenset({"w"})).parts
    assert part.choices[0].decision["chunks"] > 1
    scored = dict(part.scored)[part.choices[0].sketch]
    found = [scored.decision(r) for r in range(len(scored.order))]
    given_ = inputs(func)
    wanted = interpreted(func, given_)
    for chunks in sorted({d["chunks"] for d in found}):
        sch = part.site.schedule.copy()
        scored.space.build(sch, next(d for d in found if d["chunks"] == chunks))
        close(run_scheduled(func, sch, *given_)[0], wanted, 1e-4)


def test_more_cores_are_not_slower() -> None:
    for name in PROGRAMS:
        one, two = (plan(PROGRAMS[name](), m).seconds for m in (ONE, TWO))
        assert two <= one * 1.0001, name


def test_a_small_kernel_stays_on_one_core() -> None:
    assert "parallel" not in script(schedule(PROGRAMS["chain"](), TWO).func)
    assert "parallel" in script(schedule(matmul(256, 256, 256), TWO).func)


# ------------------------------------------------------------------------------------------ costs


def test_seconds_of_a_cost() -> None:
    machine = ONE.replace(cores=4)
    one = float(seconds(Cost(4e6), machine))
    assert one == pytest.approx(4e6 / machine.clock)
    four = float(seconds(Cost(4e6, tasks=4), machine))
    assert one / 4 < four < one / 3
    five = float(seconds(Cost(4e6, tasks=5), machine))
    assert five > one * 2 / 5  # one core has two of them
    assert float(seconds(Cost(0.0, tasks=2), machine)) >= machine.launch
    near = machine.caches[1]
    moved = float(seconds(Cost(0.0, (1e6,)), machine))
    assert moved == pytest.approx(1e6 / (near.bytes_per_cycle * machine.clock))
    cold = float(seconds(Cost(0.0, (0.0, 0.0, 1e9)), ONE))
    assert cold == pytest.approx(1e9 / ONE.memory)


# ----------------------------------------------------------------------------------------- search


class Bowl(Space):
    """The least of a sum of squares; some decisions are not legal."""

    def __init__(self, count: int, size: int) -> None:
        self.domains = tuple([Domain(f"d{n}", tuple(range(size))) for n in range(count)])

    def legal(self, columns: Any) -> Any:
        return columns["d0"] != 3

    def cost(self, columns: Any) -> Cost:
        return Cost(sum([(columns[d.name] - 3.0 - n) ** 2 for n, d in enumerate(self.domains)]))

    def build(self, schedule: Schedule, decision: Decision) -> None:
        raise ScheduleError("a bowl is no schedule")


def least(space: Space) -> Decision:
    scored = score(space, ONE)
    assert isinstance(scored, Scored)
    return scored.decision(0)


def test_small_spaces_are_scored_whole() -> None:
    scored = score(Bowl(3, 8), ONE)
    assert len(scored.order) == 7 * 8 * 8
    assert str(scored.decision(0)) == "d0=2 d1=4 d2=5"


def test_large_spaces_are_descended() -> None:
    assert str(least(Bowl(6, 32))) in (
        "d0=2 d1=4 d2=5 d3=6 d4=7 d5=8",
        "d0=4 d1=4 d2=5 d3=6 d4=7 d5=8",
    )
    assert least(Bowl(6, 32)) == least(Bowl(6, 32))


class Hopeless:
    """Fits everything, costs nothing, and cannot be built."""

    name, version = "hopeless", 1

    def open(self, site: Site) -> Space | Refusal:
        return Bowl(1, 3)


def test_what_fits_and_cannot_be_built_is_told() -> None:
    func = PROGRAMS["chain"]()
    found = plan(func, ONE, sketches=[Hopeless(), *SKETCHES])
    assert best(Hopeless(), Bowl(1, 3), ONE) is not None
    with pytest.raises(InternalError, match=r"a sketch fits and cannot be built: hopeless\(d0=2\)"):
        apply(found, strict=True)
    built = apply(found)
    assert built.failed == ("hopeless(d0=2) of tanh: a bowl is no schedule",)
    assert built.chosen[0].startswith("elementwise")
    assert built.seconds is None
    given_ = inputs(func)
    close(run_scheduled(func, built.schedule, *given_)[0], np.tanh(given_[0]), 1e-5)


def test_without_a_sketch_a_program_stays_as_it_is() -> None:
    func = PROGRAMS["chain"]()
    found = plan(func, ONE, sketches=[])
    assert isinstance(found, Plan)
    assert isinstance(found.parts[0].choices[0].sketch, Plain)
    assert apply(found).chosen == ("plain(tasks=1)",)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("m", "prefetch"), [(2, 0), (10, 1)])
def test_what_is_far_is_asked_for(m: int, constant: bool, prefetch: int) -> None:
    """Where so much is computed between two lines that the processor does not see the next one."""
    names = frozenset({"w"} if constant else ())
    (part,) = plan(matmul(m, 1200, 900), ONE, names).parts
    if constant or prefetch:
        assert bool(part.choices[0].decision["prefetch"]) == bool(prefetch)
    text = script(lower(schedule(matmul(m, 1200, 900), ONE, names).func))
    assert ("prefetch" in text) == bool(part.choices[0].decision["prefetch"])
    (near,) = plan(matmul(m, 48, 64), ONE, names).parts
    assert near.choices[0].decision["prefetch"] == 0


@pytest.mark.parametrize(("rows", "prefetch"), [(5, 1), (9, 2), (12, 2), (200, 1)])
def test_few_row_tiles_ask_for_parts_of_the_next_panel(rows: int, prefetch: int) -> None:
    (part,) = plan(matmul(rows, 768, 768), NARROW, frozenset({"w"})).parts
    chosen = next(c for c in part.choices if c.sketch.name == "contraction")
    assert chosen.decision["prefetch"] == prefetch
    sch = part.site.schedule.copy()
    chosen.space.build(sch, chosen.decision)
    assert ("shift_right(r, 1)" in script(lower(sch.func))) == (prefetch == 2)


BATCHES: dict[str, tuple[Any, Any]] = {"rows": (2, 7), "symbolic": (1, Var("m"))}


@pytest.mark.parametrize("shape", BATCHES)
@pytest.mark.parametrize("after", ["nothing", "relu"])
@pytest.mark.parametrize("machine", [ONE, TWO, NARROW])
def test_sums_in_blocks(shape: str, after: str, machine: Machine) -> None:
    """Where rows of B are pages apart, so many of them are walked at a time."""
    (b, m), n, k = BATCHES[shape], 531, 300
    x, w = te.placeholder((b, m, k), name="x"), te.placeholder((b, k, n), name="w")
    r = te.reduce_axis((0, k), name="r")
    y = te.compute((b, m, n), lambda h, i, j: te.sum(x[h, i, r] * w[h, r, j], axis=r), name="y")
    func = made(x, w, y if after == "nothing" else get_op(after)(y))
    (part,) = plan(func, machine).parts
    scored = next(s for sketch, s in part.scored if sketch.name == "contraction")
    found = [scored.decision(rank) for rank in range(len(scored.order))]
    p, q = data(b, 7, k), data(b, k, n)
    expected = np.matmul(p, q)
    if after == "relu":
        expected = np.maximum(expected, 0)
    for steps in (16, 128):
        for chunks in {d["chunks"] for d in found}:
            wanted = [d for d in found if d["steps"] == steps and d["chunks"] == chunks]
            if not wanted or chunks not in (0, 1, 5):
                continue
            sch = part.site.schedule.copy()
            scored.space.build(sch, wanted[0])
            close(run_scheduled(func, sch, p, q, sizes={"m": 7})[0], expected, 1e-4)
    assert {d["steps"] for d in found} == {0, 16, 128}


def test_rows_that_stand_close_are_not_cut_in_blocks() -> None:
    (part,) = plan(matmul(7, 100, 300), ONE).parts
    scored = next(s for sketch, s in part.scored if sketch.name == "contraction")
    assert {scored.decision(r)["steps"] for r in range(len(scored.order))} == {0}


@pytest.mark.parametrize(("columns", "pack"), [(2048, "kernel"), (2040, "none")])
def test_rows_that_share_the_sets_of_a_cache_are_packed(columns: int, pack: str) -> None:
    """Rows that lie a power of two apart push each other out."""
    (part,) = plan(matmul(1000, columns, 60), ONE, frozenset()).parts
    chosen = next(c for c in part.choices if c.sketch.name == "contraction")
    assert chosen.decision["pack"] == pack


@pytest.mark.parametrize("rows", [1, 3, 20])
@pytest.mark.parametrize("constant", [True, False])
def test_sums_of_any_number_of_columns_stay_in_registers(rows: int, constant: bool) -> None:
    names = frozenset({"w"} if constant else ())
    for n in range(1, 90):
        sch = schedule(matmul(rows, n, 70), ONE, names)
        inside = [s.buffer for s in walk(lower_blocks(sch.func).body) if isinstance(s, Allocate)]
        held = [prod([number(e, {}) for e in b.shape]) for b in inside if b.scope == "local"]
        assert sum(held) <= ONE.vector_registers * ONE.lanes(4), (n, inside)


def test_a_dimension_of_one_does_not_end_a_walk_over_rows() -> None:
    """[steps, 1, features], as recurrences and single sentences have them."""
    x, w = te.placeholder((60, 1, 64), name="x"), te.placeholder((64, 96), name="w")
    r = te.reduce_axis((0, 64), name="r")
    y = te.compute((60, 1, 96), lambda i, j, k: te.sum(x[i, j, r] * w[r, k], axis=r), name="y")
    (part,) = plan(made(x, w, y), ONE, frozenset({"w"})).parts
    assert part.choices[0].decision["rows"] > 4


@pytest.mark.parametrize(("channels", "stored"), [(16, True), (1, False)])
def test_long_values_that_are_used_often_are_stored(channels: int, stored: bool) -> None:
    """The places that a grid names are the same for all channels."""
    x = te.placeholder((1, channels, 9, 9), name="x")
    grid = te.placeholder((1, 5, 5, 2), name="grid")
    func = made(x, grid, get_op("grid_sample")(x, grid))
    names = [b for part in plan(func, ONE).parts for b in part.site.blocks]
    assert any("sample_index" in str(b) for b in names) == stored
    given_ = inputs(func)
    close(run_scheduled(func, schedule(func, ONE), *given_)[0], interpreted(func, given_), 1e-4)


def test_constants_are_laid_out_alike_for_all_sizes() -> None:
    """Kernels for several numbers of rows and of cores read the same weights."""
    for n in (10, 24, 37, 200):
        shapes = set()
        for m in (1, 7, 64):
            for machine in (ONE, TWO):
                sch = schedule(matmul(m, n, 50), machine, frozenset({"w"}))
                shapes.add(tuple([number(e, {}) for e in sch.func.buffers[1].shape]))
        assert len(shapes) == 1, shapes


@pytest.mark.parametrize(("channels", "groups"), [(24, 4), (26, 2), (95, 5)])
def test_the_columns_of_a_group_fill_vectors(channels: int, groups: int) -> None:
    """Padded with zeros, so that no sum is masked."""
    func = conv(channels, channels, 6, 1, groups)
    sch = schedule(func, ONE, frozenset({"w"}))
    (w,) = (b for b in sch.func.buffers if b.name == "w")
    assert number(w.shape[-1], {}) % 8 == 0
    assert number(w.shape[-1], {}) >= channels // groups or number(w.shape[-2], {}) > 1


@pytest.mark.parametrize(
    ("columns", "lanes"),
    [(4, 4), (7, 8), (8, 8), (9, 16), (16, 16), (17, 8), (24, 8), (25, 16), (100, 16)],
)
def test_few_columns_take_narrow_vectors(columns: int, lanes: int) -> None:
    """Where the processor's units are half a register wide."""
    machine = machine_of(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4"), cores=1)
    assert machine.unit_bytes == machine.vector_bytes // 2
    part = plan(matmul(40, columns, 30), machine, frozenset({"w"})).parts[0]
    spaces = {sketch.name: scored.space for sketch, scored in part.scored}
    assert spaces["contraction"].lanes == lanes  # type: ignore[attr-defined]
    wide = plan(matmul(40, columns, 30), ONE, frozenset({"w"})).parts[0]
    (scored,) = (s for sketch, s in wide.scored if sketch.name == "contraction")
    assert scored.space.lanes == (16 if columns > 8 else lanes)  # type: ignore[attr-defined]


def test_symbolic_rows_are_those_of_their_stage() -> None:
    """Late in a network there are few: its schedules and algorithms are chosen for these."""
    found = []
    for m in (Var("n", INDEX) // 16, 14, 224):
        (part,) = plan(matmul(m, 64, 96), ONE, frozenset({"w"})).parts
        found.append(part.seconds)
    assert found[0] == pytest.approx(found[1], rel=0.2)
    assert found[2] > 10 * found[1]


def test_few_channels_share_pixels_in_registers() -> None:
    """Three taps of six pixels read eight, which wait in registers beside twelve sums."""
    (part,) = plan(conv(3, 32, 222, 3), NARROW.replace(cores=1), frozenset({"w"})).parts
    assert part.choices[0].decision["rows"] in (4, 5)


def test_accumulators_stay_in_registers() -> None:
    """Also where a branch has two loops with many of them behind it."""
    chosen = plan(conv(96, 24, 56, 1), NARROW.replace(cores=1), frozenset({"w"}))
    assert str(chosen.parts[0].choices[0]).startswith("contraction(flat=2 rows=6 vectors=2")
    made = lower(apply(chosen, strict=True).schedule.func)
    target = resolve(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3"))
    text = ObjectCompiler(target).assembly(emit_module([made], target))
    assert text.count("vfmadd") > 12
    assert not re.findall(r"\(%r[sb]p\), %ymm|%ymm\d+, -?\d*\(%r[sb]p\)", text)


@pytest.mark.parametrize("length", [31, 32, 33, 34, 37, 45, 150])
@pytest.mark.parametrize("machine", [ONE, NARROW])
def test_turns_of_a_sum_are_written_out(length: int, machine: Machine) -> None:
    """Where four, three or two of them come out even, and where none do."""
    func = matmul(7, 21, length)
    x, w = data(7, length), data(length, 21)
    (found,) = run_scheduled(func, schedule(func, machine), x, w)
    close(found, x @ w)
    text = emit_module([lower(schedule(func, machine).func)])
    written_out = max([n for n in (1, 2, 3, 4) if f".t{n - 1} = " in text], default=1)
    assert written_out == {32: 4, 33: 3, 34: 2, 45: 3, 150: 3}.get(length, 1)
