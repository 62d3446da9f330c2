"""Linear systems over the integers, checked against enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.arith import (
    IntConstraints,
    IntConstraintsTransform,
    solve_linear_equations,
    solve_linear_inequalities,
)
from smelt.ir.build import equal
from smelt.ir.expr import Expr, Var, const, text_of
from tests.arith.oracle import evaluate, law, points

x, y, z, n = (Var(name) for name in "xyzn")
BOX = {x: (-3, 7), y: (-3, 6), z: (-2, 4)}


def combination(draw: st.DrawFn) -> Expr:
    e: Expr = const(draw(st.integers(-6, 6)))
    for v in (x, y, z):
        e = e + v * draw(st.integers(-3, 3))
    return e


def inside(c: IntConstraints, at: Mapping[Var, int]) -> bool:
    """Whether an assignment satisfies ranges and relations."""
    for v, (low, extent) in c.ranges.items():
        first = evaluate(low, at)
        if not first <= at[v] < first + evaluate(extent, at):
            return False
    return all(evaluate(r, at) for r in c.relations)


def image(t: Mapping[Var, Expr], at: Mapping[Var, int]) -> dict[Var, int]:
    return {v: evaluate(e, at) for v, e in t.items()}


def same_solutions(t: IntConstraintsTransform) -> None:
    """Each given solution has its counterpart, and each new one is a given one."""
    for p in points(BOX):
        if inside(t.src, p):
            q = image(t.dst_to_src, p)
            assert inside(t.dst, q)
            assert image(t.src_to_dst, q) == {v: p[v] for v in t.src.variables}
    span = range(-4, 5)
    for values in itertools.product(span, repeat=len(t.dst.variables)):
        q = dict(zip(t.dst.variables, values, strict=True))
        if inside(t.dst, q):
            p = image(t.src_to_dst, q)
            assert inside(t.src, p)
            assert image(t.dst_to_src, p) == q


@law
@given(st.data(), st.booleans())
def test_equations(data: st.DataObject, bounded: bool) -> None:
    count = data.draw(st.integers(1, 3))
    draw = st.composite(lambda draw: equal(combination(draw), draw(st.integers(-4, 4))))
    equations = [data.draw(draw()) for _ in range(count)]
    same_solutions(solve_linear_equations(equations, [x, y, z], BOX if bounded else None))


@law
@given(st.data(), st.booleans())
def test_inequalities(data: st.DataObject, deskew: bool) -> None:
    count = data.draw(st.integers(1, 3))
    draw = st.composite(lambda draw: combination(draw) <= draw(st.integers(-4, 8)))
    conditions = [data.draw(draw()) for _ in range(count)]
    solved = solve_linear_inequalities(conditions, [x, y, z], {x: BOX[x], z: BOX[z]}, deskew)
    given_ones = IntConstraints((x, y, z), {}, tuple(conditions))
    for p in points(BOX):
        wanted = inside(given_ones, p)
        if isinstance(solved, IntConstraints):
            assert inside(solved, p) == wanted
        else:
            q = image(solved.dst_to_src, p)
            mapped = image(solved.src_to_dst, q)
            assert (inside(solved.dst, q) and mapped == p) == wanted


def test_solved_equations() -> None:
    t = solve_linear_equations([equal(x + y, 20), equal(x - y, 10)], [x, y])
    assert {v.name: text_of(e) for v, e in t.src_to_dst.items()} == {"x": "15", "y": "5"}
    assert (t.dst.variables, t.dst.relations) == ((), ())
    t = solve_linear_equations(equal(x * 2 + y * 4, 7), [x, y])
    assert [text_of(e) for e in t.dst.relations] == ["0"]
    t = solve_linear_equations(equal(x * 3 + y, n), [x, y], {x: (0, n)})
    (new,) = t.dst.variables
    assert text_of(t.src_to_dst[y]) == "n - n0 * 3"
    assert [text_of(e) for e in t.dst.ranges[new]] == ["0", "n"]


def test_solved_inequalities() -> None:
    s = solve_linear_inequalities([x + y < 10, x >= 0, y >= x, y <= 8], [x, y])
    assert isinstance(s, IntConstraints)
    assert {v.name: [text_of(e) for e in r] for v, r in s.ranges.items()} == {
        "x": ["0", "5"],
        "y": ["x", "min(9 - x, 8) - x + 1"],
    }
    assert s.relations == ()
    s = solve_linear_inequalities([x >= n, y * y < 5], [x, y])
    assert isinstance(s, IntConstraints)
    assert sorted(text_of(e) for e in s.relations) == ["n < x + 1", "y * y < 5"]


def test_types_and_ranges() -> None:
    a, b = Var("a", "int32"), Var("b", "int32")
    t = solve_linear_equations(equal(a + b, 4), [a, b])
    assert {e.dtype for e in t.src_to_dst.values()} == {"int32"}
    with pytest.raises(ValueError, match="the unknowns are int32 and int64; legal: all int64, or"):
        solve_linear_equations(equal(x, 3), [a, x])
    with pytest.raises(ValueError, match=r"the range of x has no end; legal: \(low, extent\)"):
        solve_linear_inequalities(x < 3, [x], {x: (0, None)})
