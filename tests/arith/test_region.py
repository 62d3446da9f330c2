"""Regions and bounds that conditions imply, checked against enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.arith import (
    Analyzer,
    IntervalSet,
    deduce_bound,
    detect_clip_bound,
    detect_linear_equation,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
)
from smelt.ir.build import all_of, equal, select
from smelt.ir.expr import Expr, Var, text_of
from tests.arith.oracle import Box, boxes, conditions, defined, evaluate, law, points

i, j, k, n, x = (Var(name) for name in "ijknx")


def ends(s: IntervalSet) -> tuple[str | None, str | None]:
    low, high = (None if e is None else text_of(e) for e in (s.min_value, s.max_value))
    return low, high


Region = list[tuple[Expr, Expr]]


@st.composite
def regions(draw: st.DrawFn) -> tuple[Box, Region, Expr]:
    box: Box = {i: (draw(st.integers(-2, 2)), 4), j: (0, draw(st.sampled_from([1, 2, 3, 4])))}
    region: Region = []
    for _ in range(draw(st.integers(1, 2))):
        low = i * draw(st.integers(-1, 4)) + j * draw(st.integers(0, 4)) + draw(st.integers(-2, 2))
        region.append((low, (i * 0 + 1) * draw(st.integers(1, 4))))
    condition = i * 4 + j < draw(st.integers(1, 20)) if draw(st.booleans()) else all_of()
    return box, region, condition


def touched(box: Box, region: Region, condition: Expr) -> set[tuple[int, ...]]:
    out: set[tuple[int, ...]] = set()
    for p in points(box):
        if evaluate(condition, p):
            firsts = [(evaluate(low, p), evaluate(extent, p)) for low, extent in region]
            out.update(itertools.product(*[range(a, a + size) for a, size in firsts]))
    return out


def span(s: IntervalSet) -> range:
    assert s.min_value is not None
    assert s.max_value is not None
    return range(evaluate(s.min_value, {}), evaluate(s.max_value, {}) + 1)


@law
@given(regions())
def test_regions(case: tuple[Box, Region, Expr]) -> None:
    cells = touched(*case)
    box, region, condition = case
    upper = [span(s) for s in estimate_region_upper_bound(region, box, condition)]
    assert all(x in s for cell in cells for x, s in zip(cell, upper, strict=True))
    for estimate in (estimate_region_strict_bound, estimate_region_lower_bound):
        exact = estimate(region, box, condition)
        if exact is not None:
            assert cells == set(itertools.product(*[span(s) for s in exact]))


def test_estimates() -> None:
    tile: Any = [(i * 8 + j, 3), (x, 4)]
    strict = estimate_region_strict_bound(tile, {i: 4, j: 8})
    assert strict is not None
    assert [ends(s) for s in strict] == [("0", "33"), ("x", "x + 3")]
    gaps: Any = [(i * 8 + j * 3, 2)]
    assert estimate_region_strict_bound(gaps, {i: 4, j: 2}) is None
    assert [ends(s) for s in estimate_region_upper_bound(gaps, {i: 4, j: 2})] == [("0", "28")]
    an = Analyzer()
    an.assume_positive(n)
    whole = estimate_region_lower_bound([(i * n + j, 1)], {i: 4, j: n}, analyzer=an)
    assert whole is not None
    assert [ends(s) for s in whole] == [("0", "n * 4 - 1")]
    assert estimate_region_strict_bound([(i, j + 1)], {i: 4, j: 2}) is None


@law
@given(boxes(), st.data())
def test_deduced_bounds_suffice(box: Box, data: st.DataObject) -> None:
    a, b, c = box
    condition = data.draw(st.composite(lambda draw: conditions(draw, box, 2))())
    found = deduce_bound(a, condition, {c: box[c]}, {b: box[b]})
    if found.is_nothing():
        return
    for p in points({b: box[b], c: box[c]}):
        for value in range(-15, 15):
            q = {**p, a: value}
            inside = (
                found.min_value is None or evaluate(found.min_value, {c: p[c]}) <= value
            ) and (found.max_value is None or value <= evaluate(found.max_value, {c: p[c]}))
            if inside:
                assert defined(condition, q) is None or evaluate(condition, q)


@pytest.mark.parametrize(
    ("condition", "low", "high"),
    [
        (x + j * 2 < 20, None, "13"),
        (x - j >= n, "n + 3", None),
        (all_of(x * 4 + j < n, x >= 0), "0", "n // 4 - 1"),
        (equal(x, n), "n", "n"),
        (equal(x, j), "3", "0"),
        (x * x < 4, "0", "-1"),
    ],
)
def test_deduce_bound(condition: Expr, low: str | None, high: str | None) -> None:
    found = deduce_bound(x, condition, {n: (1, None)}, {j: 4})
    assert ends(found) == (low, high)
    if (low, high) == ("0", "-1"):
        assert found.is_nothing()


def test_clip_bound() -> None:
    def clip(c: Any) -> list[str | None]:
        return [None if e is None else text_of(e) for e in detect_clip_bound(c, [x, j])]

    assert clip(all_of(x >= 2, x * 2 < 11, j < n)) == ["2", "5", None, "n - 1"]
    assert clip(x + j < 4) == []
    assert clip(n < 4) == []
    assert clip(True) == [None, None, None, None]


def test_linear_equation() -> None:
    form = detect_linear_equation(x * n + j * 4 + k - 3, [x, j, i])
    assert [text_of(e) for e in form] == ["n", "4", "0", "k - 3"]
    assert detect_linear_equation(x * j, [x, j]) == []
    assert detect_linear_equation(select(x < 3, x, j), [x]) == []


def test_interval_sets() -> None:
    everything, nothing = IntervalSet.everything(), IntervalSet.nothing()
    assert everything.is_everything()
    assert not nothing.is_everything()
    assert nothing.is_nothing()
    assert not everything.is_nothing()
    assert IntervalSet.single_point(n).is_single_point()
    a, b = IntervalSet.of(0, 7), IntervalSet.from_range(4, 8)
    assert ends(a.union(b)) == ("0", "11")
    assert ends(a.intersect(b)) == ("4", "7")
    assert ends(a.union(nothing)) == ends(nothing.union(a)) == ("0", "7")
    assert a.union(everything).is_everything()
    assert ends(a.intersect(everything)) == ("0", "7")
    assert ends(a.intersect(IntervalSet.of(None, n))) == ("0", "min(7, n)")


def test_interval_sets_as_domains() -> None:
    an = Analyzer({i: IntervalSet.of(2, 9), j: IntervalSet.of(None, 5)})
    assert an.bounds(i + j) == (None, 14)
    assert an.bounds(i) == (2, 9)
    an.bind(k, IntervalSet.of(n, n + 3))
    assert an.can_prove(k - n < 4)
    assert ends(an.int_set(k * 2)) == ("n * 2", "n * 2 + 6")
    assert ends(an.int_set(i - j)) == ("2 - j", "9 - j")
    assert ends(an.int_set(x + 1, {x: IntervalSet.of(None, n)})) == (None, "n + 1")
