"""Affine iterator maps, checked against enumeration."""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.arith import (
    Analyzer,
    IterMapLevel,
    IterMapResult,
    detect_iter_map,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
)
from smelt.ir.build import all_of, equal
from smelt.ir.expr import Expr, IntImm, Var, const, text_of
from tests.arith.oracle import Box, evaluate, law, points

i, j, k, n = (Var(name) for name in "ijkn")


def _sum(draw: st.DrawFn, box: Box) -> Expr:
    """Mostly a sum whose terms fit each other."""
    e: Expr = const(draw(st.integers(-4, 6)) if draw(st.integers(0, 3)) == 0 else 0)
    step = 1
    order = draw(st.permutations(list(box)))
    for v in order[: draw(st.integers(1, len(order)))]:
        e = v * step + e
        step *= box[v][1] if draw(st.integers(0, 9)) else draw(st.integers(2, 3))
    return e


def _digit(draw: st.DrawFn, box: Box) -> Expr:
    e: Expr = draw(st.sampled_from(list(box)))
    if draw(st.booleans()):
        e = _sum(draw, box)
    for _ in range(draw(st.integers(0, 2))):
        d = draw(st.sampled_from([2, 3, 4, 6]))
        e = e // d if draw(st.booleans()) else e % d
    return e


@st.composite
def maps(draw: st.DrawFn) -> tuple[Box, list[Expr], Expr]:
    """Iterators, some bindings and a predicate, many of them no affine maps."""
    box: Box = {
        Var(f"v{k}"): (draw(st.sampled_from([0, 0, 2, -3])), draw(st.sampled_from([1, 2, 3, 4, 6])))
        for k in range(draw(st.integers(1, 3)))
    }
    if draw(st.booleans()):
        bindings = []
        for v, (low, extent) in box.items():
            d = draw(st.sampled_from([d for d in range(1, extent + 1) if extent % d == 0]))
            bindings += [(v - low) // d, (v - low) % d]
    else:
        bindings = [_digit(draw, box) for _ in range(draw(st.integers(1, 3)))]
        if draw(st.booleans()):
            bindings[0] = bindings[0] * draw(st.sampled_from([2, 3, -1])) + _digit(draw, box)
    conditions = []
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        e, bound = _sum(draw, box), draw(st.integers(0, 30))
        conditions.append(e < bound if draw(st.booleans()) else e >= bound // 4)
    return box, draw(st.permutations(bindings)), all_of(conditions)


def values(items: list[Expr], at: dict[Var, int]) -> tuple[int, ...]:
    return tuple(evaluate(e, at) for e in items)


@law
@given(maps(), st.sampled_from(list(IterMapLevel)))
def test_what_is_found_is_so(case: tuple[Box, list[Expr], Expr], level: IterMapLevel) -> None:
    box, bindings, predicate = case
    found = detect_iter_map(bindings, box, predicate, level)
    if found.errors:
        assert found.indices == ()
        return
    assert isinstance(found.padding_predicate, Expr)
    iterations = [p for p in points(box) if evaluate(predicate, p)]
    if not iterations:
        return
    images = [values(bindings, p) for p in iterations]
    written = [normalize_iter_map_to_expr(total) for total in found.indices]
    splits = [normalize_iter_map_to_expr(s) for total in found.indices for s in total.args]
    digits: dict[tuple[int, ...], tuple[int, ...]] = {}
    for p, image in zip(iterations, images, strict=True):
        assert values(written, p) == image
        assert not evaluate(found.padding_predicate, p)
        if level <= IterMapLevel.INJECTIVE:
            assert digits.setdefault(image, values(splits, p)) == values(splits, p)
    padded = not isinstance(found.padding_predicate, IntImm)
    if level <= IterMapLevel.SURJECTIVE and not padded:
        columns = [sorted(set(c)) for c in zip(*images, strict=True)]
        for total, column in zip(found.indices, columns, strict=True):
            step = evaluate(total.args[-1].scale, {}) if total.args else 1
            assert column == list(range(column[0], column[-1] + 1, step))
        assert len(set(images)) == prod(map(len, columns))
    if level is IterMapLevel.BIJECTIVE:
        assert not padded
        assert len(set(images)) == len(images)
        _inverts(box, found, iterations, images)


def _inverts(
    box: Box, found: IterMapResult, iterations: list[dict[Var, int]], images: list[tuple[int, ...]]
) -> None:
    names = [Var(f"y{k}") for k in range(len(found.indices))]
    back = inverse_affine_iter_map(found.indices, names)
    for p, image in zip(iterations, images, strict=True):
        q = dict(zip(names, image, strict=True))
        for v in box:
            if v in back:
                assert evaluate(back[v], q) == p[v]
            else:
                assert len({x[v] for x in iterations}) == 1


@law
@given(maps())
def test_simplified_bindings_are_equal(case: tuple[Box, list[Expr], Expr]) -> None:
    box, bindings, predicate = case
    simple = iter_map_simplify(bindings, box, predicate)
    for p in points(box):
        if evaluate(predicate, p):
            assert values(list(simple), p) == values(bindings, p)


def bijective(bindings: list[Any], iters: Any, predicate: Any = True, **more: Any) -> str | None:
    """None where a map is shown to be bijective, else why not."""
    found = detect_iter_map(bindings, iters, predicate, require_bijective=True, **more)
    return found.errors[0] if found.errors else None


@pytest.mark.parametrize(
    ("bindings", "extents", "predicate", "error"),
    [
        ([i * 16 + j], (7, 16, 1), True, None),
        ([i * 16 + j, k], (7, 16, 3), i * 16 + j < 100, None),
        ([i * 16 + j - 3, k], (7, 16, 3), all_of(i * 16 + j < 100, i * 16 + j >= 3), None),
        ([(i * 16 + j) * 3 + k], (7, 16, 3), i * 16 + j < 100, None),
        ([(i * 12 + j) // 8, (i * 12 + j) % 8], (4, 12, 1), True, None),
        ([i // 4, i % 4, k + 2, j], (8, 3, 3), True, None),
        ([(i * 3 + j) * 5 + k], (2, 3, 5), True, None),
        ([i, j], (8, 3, 1), i < 5, None),
        ([i, j], (8, 3, 1), equal(i, 5), None),
        ([7 - i, j], (8, 3, 1), True, None),
        ([j, k], (1, 3, 5), True, None),
        ([i, j, k], (7, 16, 3), i * 16 + j < 100, "padding is needed for i * 16 + j of 100 values"),
        (
            [(i * 12 + j) // 5, (i * 12 + j) % 5],
            (4, 12, 1),
            True,
            "padding is needed for i * 12 + j of 48 values",
        ),
        ([i * 2 + k, j], (4, 3, 3), True, "i * 2 + k: i * 2 should step by 3"),
        ([i * 2, j], (4, 3, 1), True, "i * 2: i * 2 should step by 1"),
        ([i, j], (4, 3, 3), True, "no binding uses k"),
        ([i, i], (4, 1, 1), True, "i is used 2 times"),
        ([i % 4, i // 2], (8, 1, 1), True, "i // 2 % 2 is used 2 times"),
        ([i % 2, i // 3], (6, 1, 1), True, "i is divided at 2 and at 3"),
        ([i * j], (4, 3, 1), True, "i * j is a product of iterators"),
        ([i // (j + 1), j], (4, 3, 1), True, "i // (j + 1) has a divisor that varies"),
        ([i // n, j], (4, 3, 1), True, "the divisor n is not shown to be positive"),
        ([i, j], (8, 3, 1), i < j, None),
        ([i, j], (8, 3, 1), i * i < 20, "the predicate i * i < 20 is no bound of a sum"),
        ([i, j], (8, 3, 1), i < 0, "the predicate is never true"),
    ],
)
def test_bijective(
    bindings: list[Expr], extents: tuple[int, int, int], predicate: Any, error: str | None
) -> None:
    found = bijective(bindings, dict(zip((i, j, k), extents, strict=True)), predicate)
    if predicate is True or "j" not in text_of(predicate) or "*" in text_of(predicate):
        assert (found or "").startswith(error or "")
        assert (found is None) == (error is None)
    else:
        assert found is not None


@pytest.mark.parametrize(
    ("bindings", "level", "found"),
    [
        ([i, j], "bijective", False),
        ([i, j], "surjective", True),
        ([i * 2, j], "surjective", True),
        ([i * 4 + j], "surjective", False),
        ([i * 4 + j], "injective", True),
        ([i * 2 + k, j], "injective", False),
        ([i * 2 + k, j], "NoCheck", True),
        ([i * j], "no_check", False),
        ([i, j, k], 0, True),
    ],
)
def test_levels(bindings: list[Expr], level: str, found: bool) -> None:
    result = detect_iter_map(bindings, {i: 4, j: 3, k: 3}, check_level=level)
    assert (not result.errors) == found


def test_a_level_that_is_none() -> None:
    legal = "legal: bijective, surjective, injective, no_check"
    with pytest.raises(ValueError, match=f"check_level is 'onto'; {legal}"):
        detect_iter_map([i], {i: 4}, check_level="onto")


def test_padding_predicate() -> None:
    found = detect_iter_map([(i * 7 + j) // 16, (i * 7 + j) % 16], {i: 7, j: 7})
    assert text_of(found.padding_predicate) == "i * 7 + j >= 49"
    found = detect_iter_map([(i + 3) // 4, (i + 3) % 4], {i: 10})
    assert text_of(found.padding_predicate) == "i < 0 or i >= 10"


def test_parts_of_a_map() -> None:
    found = detect_iter_map([i * 16 + j, (k - 2) // 2], {i: 7, j: 16, k: (2, 6)}, i * 16 + j < 100)
    (fused,), (half,) = (total.args for total in found.indices)
    assert text_of(fused.extent) == "100"
    assert text_of(normalize_iter_map_to_expr(fused.source)) == "i * 16 + j"
    assert (text_of(half.lower_factor), text_of(half.extent), half.source.source) == ("2", "3", k)
    assert text_of(normalize_iter_map_to_expr(half.source)) == "k - 2"
    assert fused.source.variables() == {i, j}


def test_symbolic_fuse_and_split() -> None:
    an = Analyzer()
    an.assume_positive(n)
    assert bijective([i * n + j], {i: 4, j: n}, analyzer=an) is None
    assert bijective([(i * n + j) // n, j], {i: 4, j: n}, analyzer=an) is None
    assert bijective([i // n, i % n, j], {i: n * 8, j: n}, analyzer=an) is None
    fused = (i * n + j) // (n * 2)
    assert bijective([fused, (i * n + j) % (n * 2)], {i: 4, j: n}, analyzer=an) is None
    assert bijective([i * n + j], {i: n, j: (n, n)}, analyzer=an) is None
    assert bijective([i * n + j], {i: 4, j: n + 1}, analyzer=an) is not None


def test_bounds_of_one_sum_make_one_mark() -> None:
    an = Analyzer()
    an.bind(n, (10, None))
    e = i * 16 + j
    bounds = all_of(e >= 3, e < n, e < 100)
    found = detect_iter_map([e, k], {i: 7, j: 16, k: 3}, bounds, "bijective", analyzer=an)
    (fused,) = found.indices[0].args
    assert text_of(fused.extent) == "min(n, 100) - 3"
    assert text_of(normalize_iter_map_to_expr(fused.source)) == "i * 16 + j - 3"
    assert {s.source.source for s in fused.source.parts} == {i, j}


def test_types_of_iterators() -> None:
    s, t = Var("s", "int32"), Var("t", "int32")
    found = detect_iter_map([s * 4 + t], {s: 3, t: 4}, check_level="bijective")
    (total,) = found.indices
    assert normalize_iter_map_to_expr(total).dtype == "int32"
    assert bijective([s, i], {s: 3, i: 4}) == (
        "the iterators are int32 and int64; legal: all int64, or all int32"
    )


def test_inverse_of_a_map_with_first_values() -> None:
    found = detect_iter_map([(i - 2) * 3 + j], {i: (2, 4), j: 3}, require_bijective=True)
    y = Var("y")
    back = inverse_affine_iter_map(found.indices, [y])
    for a, b in itertools.product(range(2, 6), range(3)):
        assert evaluate(back[i], {y: (a - 2) * 3 + b}) == a
        assert evaluate(back[j], {y: (a - 2) * 3 + b}) == b
    with pytest.raises(ValueError, match="the map has 1 indices, 2 values given"):
        inverse_affine_iter_map(found.indices, [y, y])


@pytest.mark.parametrize(
    ("binding", "predicate", "text"),
    [
        ((i * 16 + j) // 16, True, "i"),
        ((i * 16 + j) % 8, j < 8, "j"),
        (((i * 16 + j) // 12 * 12 + (i * 16 + j) % 12) // 4, True, "i * 4 + j // 4"),
        ((i * 6 + k) // 4 // 3 * 6 + ((i * 6 + k) // 4 % 3 * 4 + (i * 6 + k) % 4) // 2, True, None),
        (i * i, True, "i * i"),
    ],
)
def test_simplify(binding: Expr, predicate: Any, text: str | None) -> None:
    (got,) = iter_map_simplify([binding], {i: 7, j: 16, k: 6}, predicate)
    assert text_of(got) == (text or "i * 3 + k // 2")
