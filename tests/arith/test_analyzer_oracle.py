"""Laws of the Analyzer, checked by exhaustive evaluation over small boxes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from smelt.arith import Analyzer, Answer, ConstIntBound
from smelt.ir.expr import EQ, Expr, Var
from tests.arith.oracle import Box, boxes, conditions, defined, evaluate, integers, law, points


def analyzer(box: Box) -> Analyzer:
    return Analyzer(dict(box.items()))


@st.composite
def cases(draw: st.DrawFn, boolean: bool = False) -> tuple[Box, Expr]:
    box = draw(boxes())
    n = Var("n")
    box[n] = (1, draw(st.integers(1, 4)))
    make = conditions if boolean else integers
    return box, make(draw, box, draw(st.integers(1, 3)), n)


def same(e: Expr, simple: Expr, box: Box) -> None:
    """Both have one value wherever the first one has one."""
    for p in points(box):
        value = defined(e, p)
        assert value is None or int(evaluate(simple, p)) == int(value), (e, simple, p)


@law
@given(cases())
def test_simplify_keeps_the_value(case: tuple[Box, Expr]) -> None:
    box, e = case
    an = analyzer(box)
    simple = an.simplify(e)
    same(e, simple, box)
    assert an.rewrite_simplify(e) is an.canonical_simplify(e) is simple


@law
@given(cases(boolean=True))
def test_simplify_keeps_conditions(case: tuple[Box, Expr]) -> None:
    box, e = case
    same(e, analyzer(box).simplify(e), box)


@law
@given(cases())
def test_simplify_without_ranges(case: tuple[Box, Expr]) -> None:
    box, e = case
    an = Analyzer()
    an.assume_positive(list(box)[-1])
    same(e, an.simplify(e), box)


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
        value = defined(e, p)
        if p[a] < p[n] and value is not None:
            assert evaluate(simple, p) == value, (e, simple, p)


@law
@given(cases())
def test_bounds_and_residue_hold(case: tuple[Box, Expr]) -> None:
    box, e = case
    an = analyzer(box)
    low, high = an.bounds(e)
    bound, modular = an.const_int_bound(e), an.modular_set(e)
    assert bound == ConstIntBound.of(low, high)
    for p in points(box):
        v = defined(e, p)
        if v is not None:
            assert low is None or low <= v
            assert high is None or v <= high
            m = modular.coeff
            assert (v - modular.base) % m == 0 if m else v == modular.base


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
        values = [defined(c, p) for p in inside]
        assert all(bool(v) == (answer is Answer.YES) for v in values if v is not None)


@law
@given(cases(), st.data())
def test_equality_is_sound(case: tuple[Box, Expr], data: st.DataObject) -> None:
    box, e = case
    other = data.draw(st.composite(lambda draw: integers(draw, box, 2))())
    an = analyzer(box)
    answer = an.prove(EQ(e, other))
    equal = an.can_prove_equal(e, other)
    for p in points(box):
        x, y = defined(e, p), defined(other, p)
        if x is not None and y is not None:
            assert x == y or not equal
            assert answer is Answer.UNKNOWN or (x == y) == (answer is Answer.YES)


@law
@given(cases(boolean=True), st.data())
def test_assumptions_are_sound(case: tuple[Box, Expr], data: st.DataObject) -> None:
    box, fact = case
    e = data.draw(st.composite(lambda draw: integers(draw, box, 2))())
    c = data.draw(st.composite(lambda draw: conditions(draw, box, 1))())
    an = analyzer(box)
    with an.constraint_scope(fact):
        simple, low_high, answer = an.simplify(e), an.bounds(e), an.prove(c)
    for p in points(box):
        v, truth = defined(e, p), defined(c, p)
        if not defined(fact, p):
            continue
        if v is not None:
            assert evaluate(simple, p) == v
            assert low_high[0] is None or low_high[0] <= v
            assert low_high[1] is None or v <= low_high[1]
        if truth is not None:
            assert answer is Answer.UNKNOWN or bool(truth) == (answer is Answer.YES)


@law
@given(cases())
def test_interval_contains_every_value(case: tuple[Box, Expr]) -> None:
    box, e = case
    a, b, c, n = box
    an = Analyzer({c: box[c]})
    an.assume_positive(n)
    ends = an.int_set(e, {a: (b, n), b: box[b]})
    for p in points({b: box[b], c: box[c], n: box[n]}):
        for value in range(p[b], p[b] + p[n]):
            v = defined(e, {**p, a: value})
            q = {c: p[c], n: p[n]}
            if v is not None:
                assert ends.min_value is None or evaluate(ends.min_value, q) <= v
                assert ends.max_value is None or v <= evaluate(ends.max_value, q)


@law
@given(cases())
def test_interval_of_bound_variables(case: tuple[Box, Expr]) -> None:
    box, e = case
    a, b, c, n = box
    an = Analyzer({b: box[b], a: (0, n), c: (b, 3)})
    ends = an.int_set(e)
    for p in points({b: box[b], n: box[n]}):
        for q in points({a: (0, p[n]), c: (p[b], 3)}):
            v = defined(e, {**p, **q})
            if v is not None:
                assert ends.min_value is None or evaluate(ends.min_value, {n: p[n]}) <= v
                assert ends.max_value is None or v <= evaluate(ends.max_value, {n: p[n]})


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
            truth = defined(cond, q)
            if truth is not None:
                inside = (low is None or evaluate(low, q) <= value) and (
                    high is None or value < evaluate(high, q)
                )
                assert inside == bool(truth), (cond, low, high, q)
