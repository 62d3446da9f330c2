"""Random classic schedules compute what the plain programs do."""

from __future__ import annotations

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from smelt import te
from smelt.ir.errors import ScheduleError
from smelt.tir.schedule import Schedule
from tests.schedule.support import run

from .generate import schedules
from .programs import COMPUTATIONS, chain, keeps, outputs, text

EXAMPLES = 12
"""A computation; ten computations make more than a hundred schedules."""


@pytest.mark.parametrize("computation", COMPUTATIONS)
def test_random_schedules_keep_the_result(computation: str) -> None:
    done: list[str] = []
    refused: list[str] = []

    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def law(data: st.DataObject) -> None:
        s, args, log = data.draw(schedules(computation))
        note("\n".join(log))
        try:
            keeps(s, args)
            done.append("")
        except ScheduleError as e:
            # what is legal, but not shown to be so, names the call that asked for it
            first = str(e).splitlines()[0]
            note(first)
            assert first.startswith("s[")
            assert "cannot prove that" in first
            refused.append(first)

    law()
    assert len(refused) <= len(done) // 10, "\n".join(refused)


def test_a_trace_gives_the_program_again() -> None:
    args = chain()
    s = te.create_schedule(outputs(args))
    d = s.outputs[0]
    c, b = d.inputs[0], d.inputs[0].op.inputs[0]
    s[b].compute_inline()
    o, i = s[d].split(d.axis[0], factor=4)
    s[c].compute_at(s[d], o)
    s[d].parallel(o)
    s[d].unroll(i)
    sch = te.lower_schedule(s, args)
    again = Schedule(te.create_prim_func(args))
    sch.trace.apply(again)
    assert text(again.func) == text(sch.func)
    assert (run(again.func) == run(te.create_prim_func(args))).all()
