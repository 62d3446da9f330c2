"""Buffers get the strides that storage_align has asked for, on both ways down from blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import te
from smelt.ir.module import IRModule
from smelt.lowering.blocks import lower_blocks
from smelt.tir import nodes as tir
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule
from tests.schedule.support import chain, same

from .programs import every_pass_keeps_the_result


def _in_steps(func: PrimFunc) -> PrimFunc:
    made: Any = IRModule({"main": func})
    for name in ("LowerInitBlock", "PlanAndUpdateBufferAllocationLocation", "ConvertBlocksToOpaque",
                 "CompactBufferAllocation", "LowerOpaqueBlock"):  # fmt: skip
        made = getattr(smelt.tir.transform, name)()(made)
    found: PrimFunc = made["main"]
    return found


WAYS = pytest.mark.parametrize("lowered", [lower_blocks, _in_steps])


def _strides(func: PrimFunc) -> list[str]:
    found = [s.buffer for s in tir.walk(func.body) if isinstance(s, tir.Allocate)]
    return sorted(f"{b.name} {', '.join(map(script, b.strides))}" for b in found)


@WAYS
def test_rows_are_padded(lowered: Callable[[PrimFunc], PrimFunc]) -> None:
    func = chain(12, 10)
    s = Schedule(func)
    s.storage_align("B", 0, 0, 8, 3)
    s.storage_align("C", 0, 0, 16, 0)
    assert _strides(lowered(s.func)) == ["B 11, 1", "C 16, 1"]
    every_pass_keeps_the_result(s.func, {}, func)


def test_compiled_code_keeps_to_them() -> None:
    func = chain(12, 10)
    s = Schedule(func)
    s.storage_align("B", 0, 0, 8, 3)
    s.vectorize(s.get_loops("C")[1])
    s.parallel(s.get_loops("B")[0])
    a, d = np.random.default_rng(0).random((12, 10), "float32"), np.zeros((12, 10), "float32")
    smelt.build(s)["main"](a, d)
    assert np.array_equal(d, (a + 1) * 2 - 3)


@WAYS
def test_a_tile_is_padded_and_so_is_each_dimension(lowered: Callable[[PrimFunc], PrimFunc]) -> None:
    func = chain(12, 10)
    s = Schedule(func)
    s.compute_at("B", s.get_loops("C")[0])
    s.storage_align("B", 0, 1, 4, 1)
    s.storage_align("B", "B", -2, 8, 4)
    assert 'T.block_attr({"buffer_dim_align": [[0, 1, 4, 1], [0, 0, 8, 4]]})' in script(s.func)
    assert "B 12, 1" in _strides(lowered(s.func))
    every_pass_keeps_the_result(s.func, {}, func)
    s.storage_align("B", 0, 1, 4, 2)
    assert "B 20, 2" in _strides(lowered(s.func))
    same(Schedule(s.func), func)
    every_pass_keeps_the_result(s.func, {}, func)


def test_rows_of_unknown_length_are_padded() -> None:
    m, n = te.size_var("m"), te.size_var("n")
    func = chain(m, n)
    s = Schedule(func)
    s.storage_align("B", 0, 0, 8, 1)
    assert _strides(lower_blocks(s.func))[0] == "B n + (1 - n) % 8, 1"
    for sizes in ({"m": 3, "n": 7}, {"m": 1, "n": 9}):
        every_pass_keeps_the_result(s.func, sizes, func)
