"""What indices in a box say of a block's variables, checked against enumeration."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.ir.build import value_of
from smelt.ir.expr import Expr, Var, const
from smelt.ir.walk import substitute
from smelt.tir.facts import Facts
from smelt.tir.nodes import PrimFunc, no_op
from smelt.tir.schedule.region import solve

V, W = Var("v"), Var("w")
EXTENTS = {V: 6, W: 4}
FORMS: list[Expr] = [V, W, V + 1, W - 2, V * 4 + W, V * 8 + W * 2, V // 2, V % 2, 5 - V, V + W]


def _facts() -> Facts:
    facts = Facts(PrimFunc((), no_op()))
    for v, n in EXTENTS.items():
        facts.bind(v, const(0), const(n))
    return facts


def _solved(indices: list[Expr], box: list[tuple[int, int]]) -> tuple[dict[Var, range], set[Var]]:
    ends = [(const(low), const(high)) for low, high in box]
    found, exact = solve(_facts(), indices, ends, EXTENTS)
    return {v: range(_number(a), _number(b) + 1) for v, (a, b) in found.items()}, exact


def _number(e: Expr) -> int:
    value = value_of(e)
    assert value is not None
    return value


@st.composite
def boxes(draw: st.DrawFn) -> tuple[list[Expr], list[tuple[int, int]]]:
    indices = draw(st.lists(st.sampled_from(FORMS), min_size=1, max_size=3))
    lows = [draw(st.integers(-2, 20)) for _ in indices]
    return indices, [(low, low + draw(st.integers(0, 9))) for low in lows]


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(boxes())
def test_what_touches_a_box_is_in_the_ranges(case: Any) -> None:
    indices, box = case
    ranges, exact = _solved(indices, box)
    points = [dict(zip(EXTENTS, at, strict=True)) for at in itertools.product(range(6), range(4))]
    touching = [
        p
        for p in points
        if all(
            low
            <= _number(_facts().simplify(substitute(e, {v: const(n) for v, n in p.items()})))
            <= high
            for e, (low, high) in zip(indices, box, strict=True)
        )
    ]
    for v, values in ranges.items():
        seen = {p[v] for p in touching}
        assert seen <= set(values)
        if v in exact and touching:
            assert seen == set(values) & set(range(EXTENTS[v]))


def test_ranges_that_several_indices_tell_meet() -> None:
    assert _solved([V, V], [(0, 3), (2, 9)]) == ({V: range(2, 4)}, {V})
    assert _solved([V, V * 4 + W], [(2, 3), (0, 15)]) == ({V: range(2, 4)}, set())
    assert _solved([V * 4 + W, V], [(9, 9), (0, 5)]) == ({V: range(2, 3), W: range(1, 2)}, set())


def test_ends_that_cannot_be_compared() -> None:
    a, b = Var("a"), Var("b")
    found, exact = solve(_facts(), [V, V], [(a, a), (b, b)], [V])
    assert (found, exact) == ({V: (a, a)}, set())
