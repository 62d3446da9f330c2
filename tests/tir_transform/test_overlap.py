"""Overlapping turns: the result stays, or the pass says why it cannot promise that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smelt.ir.errors import CompileError
from smelt.tir import transform as t
from smelt.tir.nodes import Allocate, PrimFunc, walk
from smelt.tir.schedule import Schedule
from smelt.tir.verify import verify

from .support import arguments, program, result, same

LAW = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
STORES = (
    "B[0] = A[i] + 1.0",
    "B[0] = B[0] * 2.0",
    "C[j] = B[0] + A[i + j]",
    "D[i] = B[0] + 3.0",
    "D[i] = C[1] + B[0]",
    "D[i + 1] = B[0]",
    "D[i] = D[i] + 1.0",
    "E[0] = E[0] + B[0]",
    "E[0] = E[0] + D[i]",
    "D[i + 2] = D[i] + C[0]",
)


@st.composite
def pipelines(draw: Any) -> tuple[PrimFunc, int]:
    """A loop with some statements, a stage and a place for each, and the value of n."""
    stores = [STORES[0], *draw(st.lists(st.sampled_from(STORES), min_size=1, max_size=3))]
    stages = [draw(st.integers(0, 2)) for _ in stores]
    order = draw(st.permutations(range(len(stores))))
    if draw(st.booleans()):
        stages, order = sorted(stages), list(range(len(stores)))
    low, turns = draw(st.integers(0, 1)), draw(st.integers(0, 5))
    end = draw(st.sampled_from([f"{low + turns}", f"n + {low}"]))
    lines = [
        'def main(A: T.Buffer((10,), "float32"), D: T.Buffer((10,), "float32"),'
        ' E: T.Buffer((1,), "float32"), n: T.int64):',
        f"    for i in T.serial({low}, {end}, annotations="
        f'{{"software_pipeline_stage": {stages}, "software_pipeline_order": {list(order)}}}):',
        '        B = T.allocate((1,), "float32")',
        '        C = T.allocate((2,), "float32")',
    ]
    for s in stores:
        if "j" in s:
            lines += ["        for j in range(2):", "            " + s]
        else:
            lines.append("        " + s)
    return program("\n".join(lines)), turns


@LAW
@given(pipelines())
def test_a_pipeline_keeps_the_result_or_is_refused(made: tuple[PrimFunc, int]) -> None:
    func, n = made
    given = arguments(func, size=n)
    if any(np.isnan(a).any() for a in result(func, given)):
        return  # something is read before it is written
    try:
        new = t.InjectSoftwarePipeline()(func)
    except CompileError as e:
        refused = str(e)
    else:
        refused = ""
    if refused:
        assert "cannot prove" in refused
        return
    same(verify(new), func, given)
    assert "software_pipeline" not in str([getattr(s, "annotations", {}) for s in walk(new.body)])


def test_three_stages_with_a_symbolic_extent() -> None:
    func = program(
        """
        def main(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32"), n: T.int64):
            for i in T.serial(n, annotations={"software_pipeline_stage": [0, 1, 2]}):
                B = T.allocate((1,), "float32")
                C = T.allocate((1,), "float32")
                B[0] = A[i] * 2.0
                C[0] = B[0] + 1.0
                D[i] = C[0] - A[i]
        """
    )
    new = t.InjectSoftwarePipeline()(func)
    assert sorted(s.buffer.shape[0] for s in walk(new.body) if isinstance(s, Allocate)) == [2, 2]
    for n in range(9):
        same(new, func, arguments(func, size=n))


def test_a_block_asks_for_double_buffers() -> None:
    func = program(
        """
        def main(A: T.Buffer((6, 8), "float32"), C: T.Buffer((6, 8), "float32")):
            B = T.alloc_buffer((6, 8))
            for i in range(6):
                for j in range(8):
                    with T.block("B"):
                        v, w = T.axis.remap("SS", [i, j])
                        T.reads(A[v, w])
                        T.writes(B[v, w])
                        B[v, w] = A[v, w] + 1.0
                for k in range(8):
                    with T.block("C"):
                        x, y = T.axis.remap("SS", [i, k])
                        T.reads(B[x, y])
                        T.writes(C[x, y])
                        C[x, y] = B[x, 7 - y] * 2.0
        """
    )
    sch = Schedule(func)
    sch.annotate("B", "double_buffer_scope", 0)
    steps = (
        t.PlanAndUpdateBufferAllocationLocation(),
        t.ConvertBlocksToOpaque(),
        t.CompactBufferAllocation(),
        t.LowerOpaqueBlock(),
        t.InjectDoubleBuffer(),
    )
    new = sch.func
    for p in steps:
        new = verify(p(new))
        same(new, func, arguments(func))
    (allocate,) = [s for s in walk(new.body) if isinstance(s, Allocate)]
    assert allocate.buffer.fixed_shape() == (2, 8)
    assert not allocate.annotations


HEAD = 'def main(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):\n'
ERRORS = [
    (
        "for i in T.serial(8, annotations={'software_pipeline_stage': [0]}):\n"
        "        D[i] = A[i]\n        D[i] = D[i] + 1.0",
        "InjectSoftwarePipeline: software_pipeline_stage of the loop i has 1 entries; the body has "
        "2 statements",
    ),
    (
        "for i in T.serial(8, annotations={'software_pipeline_stage': ['a']}):\n"
        "        D[i] = A[i]",
        "InjectSoftwarePipeline: software_pipeline_stage of the loop i is ['a']; legal: a list of "
        "integers from 0, one for each statement of its body",
    ),
    (
        "for i in T.serial(8, annotations={'software_pipeline_stage': [0, 0],"
        " 'software_pipeline_order': [0, 0]}):\n        D[i] = A[i]\n        D[i] = D[i] + 1.0",
        "InjectSoftwarePipeline: software_pipeline_order of the loop i is [0, 0]; legal: each of "
        "0 ... 1 once",
    ),
    (
        "for i in T.parallel(8, annotations={'software_pipeline_stage': [0]}):\n"
        "        D[i] = A[i]",
        "InjectSoftwarePipeline: the loop i is parallel; legal: serial",
    ),
    (
        "for i in T.serial(8, annotations={'software_pipeline_stage': [0]}):\n"
        "        assert i < 8, 'inside'",
        "InjectSoftwarePipeline: a statement in the loop i has an effect other than storing, so "
        "that it cannot run at another time",
    ),
    (
        "for i in T.serial(1, 8, annotations={'software_pipeline_stage': [0, 1]}):\n"
        "        D[i] = D[i - 1] + A[i]\n        D[i] = D[i] * 2.0",
        "InjectSoftwarePipeline: cannot prove that the statements of the loop i may change places: "
        "both touch D, 1 iterations apart",
    ),
    (
        "for i in range(8):\n"
        "        B = T.allocate((1,), 'float32', annotations={'double_buffer_scope': 1})\n"
        "        D[i] = A[i]\n        B[0] = A[i]",
        "InjectDoubleBuffer: the loop i has no statements that fill B and others behind them that "
        "use it",
    ),
]


@pytest.mark.parametrize(("body", "text"), ERRORS)
def test_the_texts_of_errors(body: str, text: str) -> None:
    func = program(HEAD + "    " + body)
    make = t.InjectDoubleBuffer if "DoubleBuffer" in text else t.InjectSoftwarePipeline
    with pytest.raises(CompileError) as caught:
        make()(func)
    assert str(caught.value) == text
