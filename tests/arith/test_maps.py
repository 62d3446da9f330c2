"""Iterator maps and index maps, checked against enumeration."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.arith import (
    Analyzer,
    IndexMap,
    detect_iter_map,
    inverse_affine_map,
    is_bijective,
    normalize_iter_values,
    subspace_divide,
)
from smelt.arith.index_map import text_of
from smelt.ir.build import all_of
from smelt.ir.expr import Expr, Var
from tests.arith.oracle import evaluate, points

i, j, k, n = (Var(name) for name in "ijkn")


@pytest.mark.parametrize(
    ("indices", "extents", "predicate", "answer"),
    [
        ([i * 16 + j], (7, 16, 1), None, True),
        ([i * 16 + j, k], (7, 16, 3), i * 16 + j < 100, True),
        ([i, j, k], (7, 16, 3), i * 16 + j < 100, False),
        ([(i * 12 + j) // 8, (i * 12 + j) % 8], (4, 12, 1), None, True),
        ([(i * 12 + j) // 5, (i * 12 + j) % 5], (4, 12, 1), None, False),
        ([i // 4, i % 4, k + 2, j], (8, 3, 3), None, True),
        ([i * 2 + k, j], (4, 3, 3), None, False),
        ([i * 2, j], (4, 3, 1), None, False),
        ([i, j], (4, 3, 3), None, False),
        ([i, i], (4, 1, 1), None, False),
        ([i % 4, i // 2], (8, 1, 1), None, False),
        ([i * j], (4, 3, 1), None, False),
        ([(i * 3 + j) * 5 + k], (2, 3, 5), None, True),
        ([i, j], (8, 3, 1), i < 5, True),
    ],
)
def test_bijective(
    indices: list[Expr], extents: tuple[int, int, int], predicate: Expr | None, answer: bool
) -> None:
    domains = dict(zip((i, j, k), extents, strict=True))
    assert is_bijective(indices, domains, predicate) == answer


def test_overlap_is_no_map_and_unused_iterators_are() -> None:
    assert detect_iter_map([i * 2 + k, j], {i: 4, j: 3, k: 3}) is None
    found = detect_iter_map([i, j], {i: 4, j: 3, k: 3})
    assert found is not None
    assert not found.bijective


def test_symbolic_fuse_and_split() -> None:
    an = Analyzer()
    an.assume_positive(n)
    assert is_bijective([i * n + j], {i: 4, j: n}, analyzer=an)
    assert is_bijective([(i * n + j) // n, j], {i: 4, j: n}, analyzer=an)


def test_inverse_of_a_map_with_first_values() -> None:
    found = detect_iter_map([(i - 2) * 3 + j], {i: (2, 4), j: 3}, bijective=True)
    assert found is not None
    y = Var("y")
    back = inverse_affine_map(found, [y])
    for a, b in itertools.product(range(2, 6), range(3)):
        assert evaluate(back[i], {y: (a - 2) * 3 + b}) == a
        assert evaluate(back[j], {y: (a - 2) * 3 + b}) == b


def test_subspace_divide() -> None:
    got = subspace_divide([(i * 16 + j) // 4, (i * 16 + j) % 4, k], {i: 7, j: 16, k: 3}, [j], k < 2)
    assert got is not None
    parts, outer, inner = got
    assert [[text_of(e) for e in part] for part in parts] == [
        ["i", "7", "j // 4", "4"],
        ["0", "1", "j % 4", "4"],
        ["k", "3", "0", "1"],
    ]
    assert text_of(outer) == "k < 2"
    assert text_of(inner) == "1"
    assert subspace_divide([i * 16 + j], {i: 7, j: 16}, [i]) is None
    assert subspace_divide([i * 16 + j], {i: 7, j: 16}, [j], i * 16 + j < 100) is None


def test_normalize() -> None:
    got = normalize_iter_values(
        [(i * 16 + j) // 16, (i * 16 + j) % 8], {i: 7, j: 16}, all_of(j < 8)
    )
    assert [text_of(e) for e in got] == ["i", "j"]


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], IndexMap]:
    """A shape, and a map of transposes, splits and fusions of it."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12]), min_size=1, max_size=3)))
    inputs = tuple(Var(f"x{a}") for a in range(len(shape)))
    parts: list[tuple[Expr, int]] = list(zip(inputs, shape, strict=True))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(parts) - 1))
        e, size = parts[at]
        if draw(st.booleans()) and at + 1 < len(parts):
            f, other = parts[at + 1]
            parts[at : at + 2] = [(e * other + f, size * other)]
        else:
            d = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
            parts[at : at + 1] = [(e // d, size // d), (e % d, d)]
        parts = list(draw(st.permutations(parts)))
    return shape, IndexMap(inputs, tuple(e for e, _ in parts))


@settings(max_examples=100, deadline=None)
@given(layouts())
def test_inverse_of_random_layouts(case: tuple[tuple[int, ...], IndexMap]) -> None:
    shape, there = case
    back = there.inverse(shape)
    box = {v: (0, size) for v, size in zip(there.inputs, shape, strict=True)}
    extents = [evaluate(e, {}) for e in there.map_shape(shape)]
    seen = set()
    for p in points(box):
        out = [evaluate(o, p) for o in there.outputs]
        assert all(0 <= o < extent for o, extent in zip(out, extents, strict=True))
        seen.add(tuple(out))
        q = dict(zip(back.inputs, out, strict=True))
        assert [evaluate(o, q) for o in back.outputs] == list(p.values())
    assert len(seen) == len(list(points(box)))


def test_index_map() -> None:
    blocked = IndexMap.from_func(lambda n, c, h, w: (n, c // 16, h, w, c % 16), 4)
    assert str(blocked) == "lambda n, c, h, w: (n, c // 16, h, w, c % 16)"
    assert blocked == IndexMap.from_func(lambda a, b, c, d: (a, b // 16, c, d, b % 16))
    assert [text_of(e) for e in blocked.map_shape((2, 50, 7, 7))] == ["2", "4", "7", "7", "16"]
    assert [text_of(e) for e in blocked.map_indices((i, j * 16 + 3, 0, 0))] == [
        "i",
        "j",
        "0",
        "0",
        "3",
    ]
    back, padding = blocked.non_surjective_inverse((2, 50, 7, 7))
    assert str(back) == "lambda i0, i1, i2, i3, i4: (i0, i1 * 16 + i4, i2, i3)"
    assert text_of(padding) == "i1 * 16 + i4 >= 50"
    with pytest.raises(ValueError, match="cannot be shown to be a bijection on"):
        blocked.inverse((2, 50, 7, 7))
    with pytest.raises(ValueError, match="takes 4 indices, 2 given"):
        blocked.map_shape((1, 2))


def test_symbolic_index_map() -> None:
    an = Analyzer()
    an.assume_positive(n)
    flat = IndexMap.from_func(lambda a, b: a * n + b)
    assert str(flat.inverse((7, n), an)) == "lambda i0: (i0 // n, i0 % n)"
