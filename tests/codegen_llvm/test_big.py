"""Random programs: LLVM against the interpreter and against the C printer."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

from smelt.lowering.blocks import lower_blocks
from smelt.lowering.finish import finish
from smelt.lowering.flatten import flatten_buffers
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script
from tests.codegen_c.build import run_c
from tests.tir_text.generate import arguments, programs

from .build import Array, run_llvm, same

LAW = settings(max_examples=1200, deadline=None, suppress_health_check=list(HealthCheck))


def _interpreted(func: PrimFunc) -> list[Array]:
    out: list[Array] = arguments(func, 5)
    with np.errstate(all="ignore"):
        interpret(func, *out)
    return out


def _native(func: PrimFunc) -> list[Array]:
    out: list[Array] = arguments(func, 5)
    assert run_llvm(func, *out, ordered=True) == 0
    return out


def _same(a: list[Array], b: list[Array], func: PrimFunc) -> None:
    same([x.reshape(-1) for x in a], [x.reshape(-1) for x in b], script(func), signs=False)


# The emitter runs loops marked as vectorised one turn after the other: random ones carry values.


@LAW
@given(programs(flat=True))
def test_flat_programs(func: PrimFunc) -> None:
    low = flatten_buffers(func)
    _same(_native(low), _interpreted(func), low)


@LAW
@given(programs(flat=True))
def test_flat_programs_with_fused_multiply_adds(func: PrimFunc) -> None:
    low = finish(flatten_buffers(func))
    _same(_native(low), _interpreted(low), low)


@LAW
@given(programs(flat=False))
def test_block_programs(func: PrimFunc) -> None:
    low = flatten_buffers(lower_blocks(func))
    _same(_native(low), _interpreted(func), low)


@settings(LAW, max_examples=10)
@given(programs(flat=True))
def test_the_c_printer_agrees(func: PrimFunc) -> None:
    low = flatten_buffers(func)
    found = arguments(low, 5)
    assert run_c(low, *found) == 0
    _same(_native(low), found, low)
