"""Rows of numbers: what stands in them, and that rough times order loops as they should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from smelt import te
from smelt.ir.expr import INDEX, Var
from smelt.pipeline import lower_program
from smelt.rules.cost import Cost, seconds, terms
from smelt.rules.cpu import SKETCHES, plan
from smelt.rules.cpu.program import Plain
from smelt.rules.sketch import Scored
from smelt.search.features import LENGTH, decision_place, loop_features, part_features, sketch_place
from smelt.search.loops import Loops, loop_seconds
from smelt.target import Target, machine_of
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule

ONE = machine_of(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3"), cores=1)
TWO = ONE.replace(cores=2)


def matmul(m: int = 64, n: int = 96, k: int = 80) -> PrimFunc:
    x, w = te.placeholder((m, k), name="x"), te.placeholder((k, n), name="w")
    r = te.reduce_axis((0, k), name="r")
    y = te.compute((m, n), lambda i, j: te.sum(x[i, r] * w[r, j], axis=r), name="y")
    return te.create_prim_func([x, w, y]).with_attrs(name="main")


def tiled(rows: int, columns: int, vectors: bool, n: int = 512) -> PrimFunc:
    sch = Schedule(matmul(n, n, n))
    i, j, k = sch.get_loops("y")
    i_o, i_i = sch.split(i, [None, rows])
    j_o, j_i = sch.split(j, [None, columns])
    sch.reorder(i_o, j_o, k, i_i, j_i)
    if vectors:
        sch.vectorize(j_i)
    return lower_program(sch.func)


def spaces() -> list[tuple[str, Scored]]:
    part = plan(matmul(), TWO).parts[0]
    return [(sketch.name, scored) for sketch, scored in part.scored]


@pytest.mark.parametrize(("name", "scored"), spaces(), ids=[n for n, _ in spaces()])
def test_a_row_for_each_decision(name: str, scored: Scored) -> None:
    rows = part_features(name, scored.space, scored.columns, TWO)
    assert rows.shape == (len(scored.seconds), LENGTH)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()


@pytest.mark.parametrize(("name", "scored"), spaces(), ids=[n for n, _ in spaces()])
def test_decisions_have_different_rows(name: str, scored: Scored) -> None:
    rows = part_features(name, scored.space, scored.columns, TWO)
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    for name, scored in spaces():
        rows = part_features(name, scored.space, scored.columns, TWO)
        one = {d: column[5:6] for d, column in scored.columns.items()}
        if len(rows) > 5:
            assert (part_features(name, scored.space, one, TWO)[0] == rows[5]).all()


def test_sketches_and_their_decisions_have_places_of_their_own() -> None:
    places = [sketch_place(s.name) for s in (*SKETCHES, Plain())] + [sketch_place("bands")]
    assert max(Counter(places).values()) == 1
    domains = {
        "contraction": "flat rows vectors pack order steps prefetch chunks tasks",
        "window": "columns vectors order tasks",
        "blocks": "rows vectors kept tasks",
        "serial": "vectors tasks",
    }
    for sketch, names in domains.items():
        found = [decision_place(sketch, n) for n in names.split()]
        assert max(Counter(found).values()) == 1, sketch
    for name, scored in spaces():
        found = [decision_place(name, d.name) for d in scored.space.domains]
        assert max(Counter(found).values()) == 1, name


def test_seconds_are_made_of_the_terms() -> None:
    cost = Cost(3e6, (4e6, 2e6, 1e6), tasks=np.array([1.0, 2.0, 3.0]), launches=2)
    found = terms(cost, TWO)
    assert len(found.busy) == 4
    total = seconds(cost, TWO)
    assert (total >= np.max(np.stack(found.busy), axis=0)).all()
    assert (total <= sum(found.busy) + found.started).all()
    assert found.started[0] == 0
    assert (found.started[1:] > 0).all()


@pytest.mark.parametrize("make", [lambda: tiled(4, 16, True), lambda: tiled(8, 8, False)])
def test_a_row_of_loops(make: Callable[[], PrimFunc]) -> None:
    flat = make()
    row = loop_features(flat, TWO)
    assert row.shape == (LENGTH,)
    assert row.dtype == np.float32
    assert np.isfinite(row).all()
    assert row[0] == 1
    assert (loop_features(Loops(flat, TWO), TWO) == row).all()


def test_loops_count_the_work_of_a_product() -> None:
    totals = Loops(tiled(4, 16, True, 64), ONE).totals
    assert totals[1] == 2 * 64**3
    assert totals[2] == 16


def test_traffic_is_what_does_not_stay_near() -> None:
    """Tiles that fit into the first cache read less of the second than whole columns do."""
    near = Loops(tiled(4, 16, True), ONE).cost.traffic
    far = Loops(lower_program(matmul(512, 512, 512)), ONE).cost.traffic
    assert near[0] < far[0]
    once = 3 * 64 * 64 * 4
    small = Loops(tiled(4, 16, True, 64), ONE).cost.traffic
    assert small[1:] == (0.0, 0.0)
    assert small[0] >= once


def test_rough_times_order_schedules() -> None:
    vectors, scalars = tiled(4, 16, True), tiled(4, 16, False)
    plain = lower_program(matmul(512, 512, 512))
    assert loop_seconds(vectors, ONE) < loop_seconds(scalars, ONE) < 2 * loop_seconds(plain, ONE)
    sch = Schedule(matmul(512, 512, 512))
    sch.parallel(sch.get_loops("y")[0])
    shared = lower_program(sch.func)
    assert loop_seconds(shared, TWO) < 0.7 * loop_seconds(plain, TWO)


def test_stages_follow_each_other() -> None:
    x = te.placeholder((256, 256), name="x")
    y = te.compute((256, 256), lambda i, j: te.exp(x[i, j]), name="y")
    z = te.compute((256, 256), lambda i, j: y[j, i] + 1.0, name="z")
    both = te.create_prim_func([x, y, z]).with_attrs(name="main")
    first = te.create_prim_func([x, y]).with_attrs(name="main")
    found = Loops(lower_program(both), ONE)
    assert len(found.stages) == 2
    assert loop_seconds(found, ONE) > loop_seconds(lower_program(first), ONE)


def test_indices_of_fused_loops_and_of_data_and_symbolic_sizes() -> None:
    sch = Schedule(matmul())
    i, j, _ = sch.get_loops("y")
    fused = Loops(lower_program(_fused(sch, i, j)), ONE)
    plain = Loops(lower_program(matmul()), ONE)
    assert fused.totals[1] == plain.totals[1]
    wrote = {m.buffer.name: [s for s, _ in m.steps] for m in fused.moves if m.write}
    assert 1.0 in wrote["y"]
    size, places = Var("n", INDEX), te.placeholder((32,), "int64", name="p")
    table = te.placeholder((size, 8), name="t")
    taken = te.compute((32, 8), lambda i, j: table[places[i], j], name="g")
    row = loop_features(lower_program(te.create_prim_func([table, places, taken])), ONE)
    assert np.isfinite(row).all()


def _fused(sch: Schedule, *loops: str) -> PrimFunc:
    sch.fuse(*loops)
    return sch.func
