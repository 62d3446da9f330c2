"""What the turns of a loop hand on to each other survives the placing of buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smelt.lowering.blocks import lower_blocks
from smelt.tir import transform as t
from smelt.tir.nodes import Allocate, Block, For, PrimFunc, walk
from smelt.tir.verify import verify

from .support import arguments, program, result, same

FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
HEAD = 'def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), n: T.int64):\n'


def alone(first: str, then: str) -> PrimFunc:
    """Two blocks in one loop, of which the first makes B and the second uses it."""
    return program(
        HEAD
        + f"""
            B = T.alloc_buffer((10,))
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    {first}
                with T.block("C"):
                    w = T.axis.spatial(8, i)
                    C[w] = {then}
        """
    )


HANDED_ON = [
    ("B[v] = A[v]", "B[w] + T.if_then_else(w > 0, B[w - 1], 0.0)"),
    ("if v % 4 == 0:\n                        B[v // 4] = A[v]", "B[w // 4]"),
    ("B[v + 1] = A[v] + T.if_then_else(v > 0, B[v], 0.0)", "B[w + 1]"),
    ("B[v % 2] = A[v]", "T.if_then_else(w > 0, B[0] + B[1], 0.0)"),
]
LOCAL = [
    ("B[v] = A[v]", "B[w] * 2.0"),
    ("if v < n:\n                        B[v] = A[v]", "T.if_then_else(w < n, B[w], 0.0)"),
]


@pytest.mark.parametrize(("first", "then"), HANDED_ON + LOCAL)
def test_a_loop_may_hand_values_on(first: str, then: str) -> None:
    func = verify(alone(first, then))
    placed = verify(t.PlanAndUpdateBufferAllocationLocation()(func))
    for size in (3, 8):
        given = arguments(func, size=size)
        assert result(func, given)
        same(placed, func, given)
        same(lower_blocks(func), func, given)
    loop = next(s for s in walk(placed.body) if isinstance(s, For))
    inside = [b for s in walk(loop.body) if isinstance(s, Block) for b in s.alloc_buffers]
    assert bool(inside) == ((first, then) in LOCAL)
    made = lower_blocks(func).body
    assert isinstance(made, For) == bool(inside) or isinstance(made, Allocate)


STORES = ("B[v]", "B[v + 1]", "B[v % 3]", "B[v // 2]", "B[8 - v]")
READS = ("B[w]", "B[w + 1]", "B[w % 3]", "B[w // 2]", "B[8 - w]", "B[0]", "B[w - 1]")


@st.composite
def programs(draw: Any) -> PrimFunc:
    """A block that stores and one that loads somewhere, with conditions now and then."""
    store = f"{draw(st.sampled_from(STORES))} = A[v] + 1.0"
    if draw(st.integers(0, 2)) == 0:
        store = f"if v % {draw(st.integers(2, 3))} == 0:\n                        {store}"
    parts = []
    for _ in range(2):
        read, least = draw(st.sampled_from(READS)), draw(st.integers(1, 3))
        parts.append(f"T.if_then_else(w >= {least}, {read}, 0.0)")
    return alone(store, " + ".join(parts))


@FEW
@given(programs())
def test_placing_and_lowering_keep_the_result(func: PrimFunc) -> None:
    given = arguments(func)
    if any(np.isnan(a).any() for a in result(func, given)):
        return  # something is read that nobody has written
    same(verify(t.PlanAndUpdateBufferAllocationLocation()(func)), func, given)
    same(lower_blocks(func), func, given)


def test_a_scalar_parameter_may_be_zero_or_negative() -> None:
    func = program(
        HEAD
        + """
            for i in range(8):
                if n > 0:
                    A[i] = 1.0
                if n - 1 >= 0 or i > 3:
                    C[i] = 2.0
        """
    )
    new = t.Simplify()(func)
    for n in (-2, 0, 3):
        same(new, func, arguments(func, size=n))
