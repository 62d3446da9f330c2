"""A printed trace is the whole schedule: its replay gives the same machine code, to the letter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from smelt import te
from smelt.codegen.llvm_text import emit_module
from smelt.pipeline import lower_program as lower
from smelt.rules.cpu import schedule
from smelt.target import Machine, Target, machine_of
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule, Trace

from .support import conv, matmul

WIDE = machine_of(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver5"), cores=2)
NARROW = machine_of(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3"), cores=1)

KERNELS: dict[str, tuple[Callable[[], PrimFunc], Machine]] = {
    "matmul": (lambda: matmul(32, 48, 16), WIDE),
    "matmul_odd_relu": (lambda: matmul(13, 21, 9, relu=True), NARROW),
    "matmul_rows": (lambda: matmul(te.size_var("m"), 32, 16), WIDE),
    "conv": (lambda: conv(1, 8, 8, 8, 16), WIDE),
    "conv_stride": (lambda: conv(stride=2), NARROW),
    "conv_pointwise": (lambda: conv(kernel=1), NARROW),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_replayed_kernels_have_the_same_text(kernel: str) -> None:
    make, machine = KERNELS[kernel]
    made = schedule(make(), machine)
    assert len(made.trace) > 3
    again = Schedule(make())
    Trace.from_text(str(made.trace)).apply(again)
    first, second = (emit_module([lower(s.func)]) for s in (made, again))
    assert first == second
    assert "define" in first
