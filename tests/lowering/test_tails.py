"""Tiles of an unknown number of places: the last one begins earlier, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt import te
from smelt.ir.expr import INDEX, Var
from smelt.ir.walk import free_vars
from smelt.lowering.partition import partition_loops
from smelt.pipeline import LOWER
from smelt.tir.nodes import For, IfThenElse, PrimFunc, walk
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule

from .programs import arrays, close, every_pass_keeps_the_result, result

PARTITION = next(n for n, step in enumerate(LOWER) if step.fn is partition_loops)


def window(taps: int, stride: int, pad: int) -> PrimFunc:
    """Sums of products along a padded row of unknown length, several columns each."""
    n = Var("n", INDEX)
    x, w = te.placeholder((n, 3), name="X"), te.placeholder((taps, 3, 4), name="W")
    t, c = te.reduce_axis((0, taps), "t"), te.reduce_axis((0, 3), "c")

    def product(i: Any, j: Any) -> Any:
        at = i * stride + t - pad
        inside = te.if_then_else(te.all_of(at >= 0, at < n), x[at, c], 0.0)
        return te.sum(inside * w[t, c, j], axis=[t, c])

    places = (n + 2 * pad - taps) // stride + 1
    return te.create_prim_func([n, x, w, te.compute((places, 4), product, name="Y")], "window")


def tiled(func: PrimFunc, size: int, parallel: bool) -> Schedule:
    """A tile of sums in registers, as the rules make it."""
    sch = Schedule(func)
    i, j, t, c = sch.get_loops("Y")
    copy = sch.cache_write("Y", 0, "local")
    outer, inner = sch.split(i, [None, size])
    sch.reorder(outer, t, c, inner, j)
    sch.reverse_compute_at(copy, outer, preserve_unit_loops=True)
    init = sch.decompose_reduction("Y", t)
    for block in (init, copy):
        *rows, columns = sch.get_loops(block)[1:]
        for loop in rows:
            sch.unroll(loop)
        sch.vectorize(columns)
    sch.unroll(inner)
    sch.vectorize(j)
    if parallel:
        sch.parallel(outer)
    return sch


@settings(max_examples=12)
@given(
    size=st.integers(2, 9),
    taps=st.sampled_from([1, 2, 3, 5]),
    stride=st.sampled_from([1, 2, 3]),
    parallel=st.booleans(),
    more=st.integers(0, 30),
)
def test_every_length_computes_the_same(
    size: int, taps: int, stride: int, parallel: bool, more: int
) -> None:
    func = window(taps, stride, taps // 2)
    every_pass_keeps_the_result(tiled(func, size, parallel).func, {"n": 1 + more}, func)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(("taps", "stride"), [(1, 1), (3, 1), (5, 2)])
def test_no_sum_asks_whether_its_place_exists(taps: int, stride: int, parallel: bool) -> None:
    func = tiled(window(taps, stride, taps // 2), 8, parallel).func
    for step in LOWER[: PARTITION + 1]:
        func = step.fn(func)
    tiles = [s for s in walk(func.body) if isinstance(s, For) and "i_0" in s.var.name]
    (loop,) = tiles
    assert isinstance(loop.body, IfThenElse)
    assert isinstance(loop.body.else_body, IfThenElse)
    for whole in (loop.body.then_body, loop.body.else_body.then_body):
        for sums in [s for s in walk(whole) if isinstance(s, For) and s.var.name.startswith("c")]:
            asked = [s.condition for s in walk(sums) if isinstance(s, IfThenElse)]
            unknown = [c for c in asked if "n" in {v.name for v in free_vars(c)}]
            assert len(unknown) <= (stride > 1), script(whole)


IN_PLACE = """
@T.prim_func
def main(n: T.int64, C: T.Buffer((n,), "float32")):
    for v in range((n + 3) // 4):
        for k in range(3):
            for i in T.unroll(4):
                if v * 4 + i < n:
                    C[v * 4 + i] = C[v * 4 + i] + 1.0
"""
SHIFTED = """
@T.prim_func
def main(n: T.int64, C: T.Buffer((n,), "float32"), D: T.Buffer((n,), "float32")):
    for v in range((n + 3) // 4):
        for k in range(3):
            for i in T.unroll(4):
                if v * 4 + i < n:
                    D[v * 4 + i] = T.float32(v)
"""


@pytest.mark.parametrize("n", [1, 4, 7])
def test_what_stays_computes_the_same(n: int) -> None:
    func = parse(SHIFTED)
    given_ = arrays(func, {"n": n})
    close(result(partition_loops(func), given_), result(func, given_), script(func))


@pytest.mark.parametrize("text", [IN_PLACE, SHIFTED])
def test_what_cannot_begin_earlier_stays(text: str) -> None:
    """Sums that would be added twice; values that the number of the tile decides."""
    func = parse(text)
    assert "n > 4" not in script(partition_loops(func))
