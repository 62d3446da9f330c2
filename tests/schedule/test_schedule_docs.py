"""Every primitive does what its docstring says."""

from __future__ import annotations

import pytest

from smelt.tir.equal import assert_structural_equal
from smelt.tir.schedule import Schedule, Trace

from .moves import PRIMITIVES
from .support import axpy, documented, program, same


def test_every_primitive_is_documented() -> None:
    assert {name for name, *_ in documented()} == PRIMITIVES


@pytest.mark.parametrize("case", list(documented()), ids=lambda c: c[0])
def test_docstring(case: tuple[str, str, str, str]) -> None:
    _, before, step, after = case
    func = program(before)
    sch = Schedule(func)
    eval(f"sch.{step}", {"sch": sch, "axpy": axpy()})
    anew = step.startswith(("transform_layout", "precompute"))
    expected = Schedule(program(after, None if anew else func)).func
    assert_structural_equal(sch.func, expected)
    if not anew and not step.startswith(("unsafe", "annotate_buffer")):
        same(sch, func)
    again = Schedule(func)
    Trace.from_text(str(sch.trace)).apply(again)
    assert_structural_equal(again.func, sch.func)
