"""Laws of the Analyzer, checked by exhaustive evaluation over small boxes."""

from __future__ import annotations

import os

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from smelt.arith import Analyzer, Answer
from smelt.ir.expr import Expr, Var
from tests.arith.oracle import Box, boxes, conditions, evaluate, integers, points

EXAMPLES = int(os.environ.get("SMELT_EXAMPLES", "150"))
law = settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=tuple(Phase)[:3] if EXAMPLES > 500 else tuple(Phase),
)


def analyzer(box: Box) -> Analyzer:
    return Analyzer(dict(box.items()))


@st.composite
def cases(draw: st.DrawFn, boolean: bool = False) -> tuple[Box, Expr]:
    box = draw(boxes())
    n = Var("n")
    box[n] = (1, draw(st.integers(1, 4)))
    make = conditions if boolean else integers
    return box, make(draw, box, draw(st.integers(1, 3)), n)


@law
@given(cases())
def test_simplify_keeps_the_value(case: tuple[Box, Expr]) -> None:
    box, e = case
    simple = analyzer(box).simplify(e)
    for p in points(box):
        assert evaluate(e, p) == evaluate(simple, p), (e, simple, p)


@law
@given(cases(boolean=True))
def test_simplify_keeps_conditions(case: tuple[Box, Expr]) -> None:
    box, e = case
    simple = analyzer(box).simplify(e)
    for p in points(box):
        assert bool(evaluate(e, p)) == bool(evaluate(simple, p)), (e, simple, p)


@law
@given(cases())
def test_simplify_without_ranges(case: tuple[Box, Expr]) -> None:
    box, e = case
    an = Analyzer()
    an.assume_positive(list(box)[-1])
    simple = an.simplify(e)
    for p in points(box):
        assert evaluate(e, p) == evaluate(simple, p), (e, simple, p)


@law
@given(cases())
def test_symbolic_extents(case: tuple[Box, Expr]) -> None:
    box, e = case
    a, b, c, n = box
    an = Analyzer({b: box[b], c: box[c]})
    an.assume_positive(n)
    an.bind(a, 0, n)
    simple = an.simplify(e)
    for p in points(box):
        if p[a] < p[n]:
            assert evaluate(e, p) == evaluate(simple, p), (e, simple, p)


@law
@given(cases())
def test_bounds_and_residue_hold(case: tuple[Box, Expr]) -> None:
    box, e = case
    an = analyzer(box)
    low, high = an.bounds(e)
    m, r = an.modular(e)
    for p in points(box):
        v = evaluate(e, p)
        assert low is None or low <= v
        assert high is None or v <= high
        assert (v - r) % m == 0 if m else v == r


@law
@given(cases(boolean=True), st.booleans())
def test_prove_is_sound(case: tuple[Box, Expr], symbolic: bool) -> None:
    box, c = case
    an = analyzer(box)
    a, _, _, n = box
    if symbolic:
        an = Analyzer({v: d for v, d in box.items() if v not in (a, n)})
        an.assume_positive(n)
        an.bind(a, 0, n)
    answer = an.prove(c)
    inside = [p for p in points(box) if not symbolic or p[a] < p[n]]
    if answer is not Answer.UNKNOWN:
        assert all(bool(evaluate(c, p)) == (answer is Answer.YES) for p in inside)


@law
@given(cases(boolean=True), st.data())
def test_assumptions_are_sound(case: tuple[Box, Expr], data: st.DataObject) -> None:
    box, fact = case
    e = data.draw(st.composite(lambda draw: integers(draw, box, 2))())
    c = data.draw(st.composite(lambda draw: conditions(draw, box, 1))())
    an = analyzer(box)
    with an.assume(fact):
        simple, low_high, answer = an.simplify(e), an.bounds(e), an.prove(c)
    for p in points(box):
        if evaluate(fact, p):
            v = evaluate(e, p)
            assert evaluate(simple, p) == v
            assert low_high[0] is None or low_high[0] <= v
            assert low_high[1] is None or v <= low_high[1]
            assert answer is Answer.UNKNOWN or bool(evaluate(c, p)) == (answer is Answer.YES)


@law
@given(cases())
def test_interval_contains_every_value(case: tuple[Box, Expr]) -> None:
    box, e = case
    a, b, c, n = box
    an = Analyzer({c: box[c]})
    an.assume_positive(n)
    ends = an.interval(e, {a: (b, n), b: box[b]})
    if ends is None:
        return
    for p in points({b: box[b], c: box[c], n: box[n]}):
        for value in range(p[b], p[b] + p[n]):
            v = evaluate(e, {**p, a: value})
            for bv in range(*_span(box[b])):
                q = {**p, b: bv}
                assert evaluate(ends[0], {**q, a: 99}) <= v <= evaluate(ends[1], {**q, a: 99})


def _span(d: tuple[int, int]) -> tuple[int, int]:
    return d[0], d[0] + d[1]


@law
@given(cases(boolean=True))
def test_solved_bounds_are_exact(case: tuple[Box, Expr]) -> None:
    box, cond = case
    a = next(iter(box))
    solved = analyzer(box).solve_bounds(cond, a)
    if solved is None:
        return
    low, high = solved
    for p in points({v: d for v, d in box.items() if v is not a}):
        for value in range(-20, 20):
            q = {**p, a: value}
            inside = (low is None or evaluate(low, q) <= value) and (
                high is None or value < evaluate(high, q)
            )
            assert inside == bool(evaluate(cond, q)), (cond, low, high, q)
