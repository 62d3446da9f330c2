"""Divisions of iteration spaces, checked against enumeration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.arith import Analyzer, IterMark, normalize_iter_map_to_expr, subspace_divide
from smelt.ir.build import all_of
from smelt.ir.expr import Expr, Var, text_of
from smelt.ir.walk import free_vars
from tests.arith.oracle import Box, evaluate, law, points

i, j, k, n = (Var(name) for name in "ijkn")


def source(mark: IterMark) -> Expr:
    assert not isinstance(mark.source, Var)
    return normalize_iter_map_to_expr(mark.source)


@st.composite
def spaces(draw: st.DrawFn) -> tuple[Box, list[Expr], set[Var], Expr]:
    """Iterators, bindings that are digits of fused ones, the inner iterators, a predicate."""
    box: Box = {
        Var(f"v{k}"): (draw(st.sampled_from([0, 0, 2])), draw(st.sampled_from([1, 2, 3, 4, 6])))
        for k in range(draw(st.integers(1, 4)))
    }
    parts: list[tuple[Expr, int]] = [(v - low, extent) for v, (low, extent) in box.items()]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(parts) - 1))
        e, size = parts[at]
        if draw(st.booleans()) and at + 1 < len(parts):
            f, other = parts[at + 1]
            parts[at : at + 2] = [(e * other + f, size * other)]
        else:
            d = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
            parts[at : at + 1] = [(e // d, size // d), (e % d, d)]
    bindings = [e + draw(st.sampled_from([0, 0, 3])) for e, _ in draw(st.permutations(parts))]
    names = list(box)
    inner = set(names[draw(st.integers(0, len(names))) :])
    about = draw(st.sampled_from(names))
    predicate = about < draw(st.integers(1, 5)) if draw(st.booleans()) else all_of()
    return box, bindings, inner, predicate


@law
@given(spaces())
def test_outer_and_inner_make_the_index(case: tuple[Box, list[Expr], set[Var], Expr]) -> None:
    box, bindings, inner, predicate = case
    got = subspace_divide(bindings, box, inner, predicate)
    if got.errors:
        assert got.indices == ()
        return
    assert not free_vars(got.outer_predicate) & inner
    assert free_vars(got.inner_predicate) <= inner
    for e, (high, low) in zip(bindings, got.indices, strict=True):
        outer, inside = source(high), source(low)
        assert not free_vars(outer) & inner
        assert free_vars(inside) <= inner
        size, count = evaluate(low.extent, {}), evaluate(high.extent, {})
        lows, highs = set(), set()
        for p in points(box):
            x, y = evaluate(outer, p), evaluate(inside, p)
            assert evaluate(e, p) == x * size + y
            highs.add(x - evaluate(high.low, {}))
            lows.add(y - evaluate(low.low, {}))
            both = evaluate(got.outer_predicate, p) and evaluate(got.inner_predicate, p)
            assert bool(evaluate(predicate, p)) == bool(both)
        assert (highs, lows) == (set(range(count)), set(range(size)))


def test_subspace_divide() -> None:
    got = subspace_divide([(i * 16 + j) // 4, (i * 16 + j) % 4, k], {i: 7, j: 16, k: 3}, [j], k < 2)
    assert [
        [text_of(e) for e in (source(high), high.extent, source(low), low.extent)]
        for high, low in got.indices
    ] == [["i", "7", "j // 4", "4"], ["0", "1", "j % 4", "4"], ["k", "3", "0", "1"]]
    assert text_of(got.outer_predicate) == "k < 2"
    assert text_of(got.inner_predicate) == "1"


def test_symbolic_division() -> None:
    an = Analyzer()
    an.assume_positive(n)
    got = subspace_divide([i * (n * 4) + j * 4 + k], {i: 7, j: n, k: 4}, [j, k], analyzer=an)
    ((high, low),) = got.indices
    assert [text_of(e) for e in (source(high), high.extent)] == ["i", "7"]
    assert [text_of(e) for e in (source(low), low.extent)] == ["j * 4 + k", "n * 4"]


@pytest.mark.parametrize(
    ("bindings", "inner", "predicate", "error"),
    [
        ([i * 16 + j], [i], True, "in i * 16 + j the inner iterators are not the inner part"),
        ([i * 16 + j], [j], i * 16 + j < 100, "i * 16 + j < 100 is about outer and inner iterator"),
        ([(i * 16 + j) // 7, (i * 16 + j) % 7], [j], True, "(i * 16 + j) // 7 mixes outer and inn"),
        ([i // 3, i % 3, j], [j], True, "padding is needed: i >= 7"),
        ([i * 2, j], [j], True, "i * 2 does not step by 1, the number of values below it"),
        ([i, j], [k], True, "k is no iterator"),
    ],
)
def test_what_cannot_be_divided(
    bindings: list[Expr], inner: list[Var], predicate: bool | Expr, error: str
) -> None:
    (reason,) = subspace_divide(bindings, {i: 7, j: 16}, inner, predicate).errors
    assert error in reason
