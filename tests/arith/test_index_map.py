"""Index maps, checked against enumeration."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.arith import AXIS_SEPARATOR, Analyzer, Answer, IndexMap
from smelt.ir.expr import Expr, Var, text_of
from tests.arith.layouts import layouts
from tests.arith.oracle import Box, evaluate, law, points

i, j, n = (Var(name) for name in "ijn")
BLOCKED = IndexMap.from_func(lambda n, c, h, w: (n, c // 16, h, w, c % 16))


def texts(items: Any) -> list[str]:
    return [text_of(e) for e in items]


def box(m: IndexMap, shape: tuple[int, ...]) -> Box:
    return {v: (0, size) for v, size in zip(m.inputs, shape, strict=True)}


def numbers(shape: tuple[Expr, ...]) -> tuple[int, ...]:
    return tuple(evaluate(e, {}) for e in shape)


@law
@given(layouts())
def test_inverse_of_random_layouts(case: tuple[tuple[int, ...], IndexMap]) -> None:
    shape, there = case
    back = there.inverse(shape)
    extents = numbers(there.map_shape(shape))
    seen = set()
    for p in points(box(there, shape)):
        out = tuple(evaluate(o, p) for o in there.outputs)
        assert all(0 <= o < extent for o, extent in zip(out, extents, strict=True))
        seen.add(out)
        q = dict(zip(back.inputs, out, strict=True))
        assert [evaluate(o, q) for o in back.outputs] == list(p.values())
    assert len(seen) == len(list(points(box(there, shape))))
    assert there.bijective(shape) is Answer.YES


@pytest.mark.parametrize(
    ("fn", "shape", "back"),
    [
        # an extent of 1, and a sum that is both divided and reduced
        (
            lambda a, b, c: (
                ((a * 6 + b) * 6 + c) // 4 // 3,
                ((a * 6 + b) * 6 + c) // 4 % 3,
                ((a * 6 + b) * 6 + c) % 4,
            ),
            (1, 6, 6),
            "lambda i0, i1, i2: (0, i0 * 2 + (i1 * 4 + i2) // 6, (i1 * 4 + i2) % 6)",
        ),
        # the same, resolved in part by hand
        (
            lambda b, c: (b // 2, (b % 2 * 6 + c) // 4, (b * 6 + c) % 4),
            (6, 6),
            "lambda i0, i1, i2: (i0 * 2 + (i1 * 4 + i2) // 6, (i1 * 4 + i2) % 6)",
        ),
        (lambda a, b: (b, a), (3, 4), "lambda i0, i1: (i1, i0)"),
        (lambda a: (7 - a,), (8,), "lambda i0: (7 - i0,)"),
        (lambda a: ((7 - a) // 4, a % 4), (8,), "lambda i0, i1: (i1 - i0 * 4 + 4,)"),
        (lambda a, b: (a * 4 + b,), (0, 4), "lambda i0: (0, i0)"),
    ],
)
def test_inverse(fn: Any, shape: tuple[int, ...], back: str) -> None:
    assert str(IndexMap.from_func(fn).inverse(shape)) == back


def test_symbolic_inverse() -> None:
    an = Analyzer()
    an.assume_positive(n)
    flat = IndexMap.from_func(lambda a, b: a * n + b)
    assert str(flat.inverse((7, n), an)) == "lambda i0: (i0 // n, i0 % n)"
    tiled = IndexMap.from_func(lambda a, b: (a // 4, b, a % 4))
    assert str(tiled.inverse((n * 4, n), an)) == "lambda i0, i1, i2: (i0 * 4 + i2, i1)"


PADDING = "; legal with padding: non_surjective_inverse"


@pytest.mark.parametrize(
    ("fn", "shape", "message"),
    [
        (
            lambda a, b: (a * 2 + b,),
            (3, 3),
            "is no bijection on (3, 3): 9 elements do not fit into 7 places",
        ),
        (lambda a, b: (a + b, b), (3, 3), "is no bijection on (3, 3): nothing goes to (0, 1)"),
        (
            lambda a, b: (a, a % 2 * 3 + b // 2),
            (3, 4),
            "is no bijection on (3, 4): (0, 0) and (0, 1) both go to (0, 0)",
        ),
        (lambda a: (3 - a * 2,), (3,), "is no bijection on (3,): (2,) goes to (-1,)"),
        (
            lambda a: (a // 16, a % 16),
            (50,),
            "is no bijection on (50,): nothing goes to (3, 2)" + PADDING,
        ),
        (
            lambda a: (a // 16, a % 16),
            (50_000_001,),
            "is no bijection on (50000001,): the indices reach (3125000, 15), which is 50000016 "
            "places for 50000001 elements" + PADDING,
        ),
        (
            lambda a, b, c: (a, b // 16, c, b % 16),
            (8, 50, 3136),
            "is no bijection on (8, 50, 3136): the indices reach (7, 3, 3135, 15), which is "
            "1605632 places for 1254400 elements" + PADDING,
        ),
        (
            lambda a: (a % 2, a % 3),
            (6,),
            "cannot be shown to be a bijection on (6,): a is divided at 2 and at 3",
        ),
        (
            lambda a: (a // 16, a % 16),
            (n,),
            "cannot be shown to be a bijection on (n,): padding is needed for a of n values"
            + PADDING,
        ),
        (
            lambda a, b: (a * b,),
            (n, 4),
            "cannot be shown to be a bijection on (n, 4): a * b is a product of iterators",
        ),
    ],
)
def test_what_is_no_bijection(fn: Any, shape: tuple[Any, ...], message: str) -> None:
    m = IndexMap.from_func(fn)
    an = Analyzer()
    an.assume_positive(n)
    with pytest.raises(ValueError, match="bijection") as error:
        m.inverse(shape, an)
    assert str(error.value) == f"{m} {message}"
    surely = Answer.NO if "is no" in message else Answer.UNKNOWN
    assert m.bijective(shape, an) is surely


@st.composite
def paddings(draw: st.DrawFn) -> tuple[tuple[int, ...], IndexMap]:
    """Blocks that do not divide, with an offset, of one index or of two fused ones."""
    shape = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=2)))
    inputs = [Var(f"x{a}") for a in range(len(shape))]
    e: Expr = inputs[0] if len(shape) == 1 else inputs[0] * shape[1] + inputs[1]
    e = e + draw(st.sampled_from([0, 0, 1, 3, 5, 9]))
    c = draw(st.integers(2, 6))
    outputs = [e // c, e % c]
    if draw(st.booleans()):
        d = draw(st.integers(2, 3))
        outputs = [e // (c * d), e // c % d, e % c]
    return shape, IndexMap(inputs, draw(st.permutations(outputs)))


@law
@given(paddings())
def test_non_surjective_inverse(case: tuple[tuple[int, ...], IndexMap]) -> None:
    shape, there = case
    back, padding = there.non_surjective_inverse(shape)
    reached = {}
    for p in points(box(there, shape)):
        reached[tuple(evaluate(o, p) for o in there.outputs)] = list(p.values())
    inner = numbers(there.padded_shape(shape))
    assert all(
        max(column) < size for column, size in zip(zip(*reached, strict=True), inner, strict=True)
    )
    for q in points(box(back, inner)):
        at = tuple(q.values())
        assert bool(evaluate(padding, q)) == (at not in reached)
        if at in reached:
            assert [evaluate(o, q) for o in back.outputs] == reached[at]


def test_whole_blocks() -> None:
    back, padding = BLOCKED.non_surjective_inverse((2, 50, 7, 7))
    assert str(back) == "lambda i0, i1, i2, i3, i4: (i0, i1 * 16 + i4, i2, i3)"
    assert text_of(padding) == "i1 * 16 + i4 >= 50"
    assert texts(BLOCKED.padded_shape((2, 50, 7, 7))) == ["2", "4", "7", "7", "16"]
    back, padding = BLOCKED.non_surjective_inverse((2, 5, 7, 7))
    assert str(back) == "lambda i0, i1, i2, i3, i4: (i0, i4, i2, i3)"
    assert text_of(padding) == "i4 >= 5"
    assert texts(BLOCKED.padded_shape((2, 5, 7, 7))) == ["2", "1", "7", "7", "16"]
    assert texts(BLOCKED.map_shape((2, 5, 7, 7))) == ["2", "1", "7", "7", "5"]


def test_symbolic_padding() -> None:
    an = Analyzer()
    an.assume_positive(n)
    m = IndexMap.from_func(lambda a: (a // 16, a % 16))
    back, padding = m.non_surjective_inverse((n,), an)
    assert (str(back), text_of(padding)) == (
        "lambda i0, i1: (i0 * 16 + i1,)",
        "n < i0 * 16 + i1 + 1",
    )
    assert texts(m.padded_shape((n,), an)) == ["(n + 15) // 16", "16"]


@pytest.mark.parametrize("method", ["non_surjective_inverse", "padded_shape"])
def test_no_inverse_with_padding(method: str) -> None:
    with pytest.raises(ValueError, match=r"not even with padding: no binding uses i // 512"):
        getattr(IndexMap.from_func(lambda i: i % 512), method)((1024,))


def test_forwards() -> None:
    assert str(BLOCKED) == "lambda n, c, h, w: (n, c // 16, h, w, c % 16)"
    assert IndexMap.from_func(lambda a, b, c, d: (a, b // 16, c, d, b % 16)) == BLOCKED
    assert texts(BLOCKED.map_shape((2, 50, 7, 7))) == ["2", "4", "7", "7", "16"]
    assert texts(BLOCKED.map_indices((i, j * 16 + 3, 0, 0))) == ["i", "j", "0", "0", "3"]
    assert BLOCKED.initial_indices == BLOCKED.inputs
    assert BLOCKED.final_indices == BLOCKED.outputs
    assert IndexMap.identity(2).inverse((3, n)) == IndexMap.identity(2)


def test_meaning_and_text() -> None:
    a = IndexMap.from_func(lambda x: ((x * 4 + 3) // 4, x % 2))
    b = IndexMap.from_func(lambda y: (y, y - y // 2 * 2))
    assert a != b
    assert a.is_equivalent_to(b)
    assert not a.is_equivalent_to(IndexMap.from_func(lambda y: (y, y % 3)))
    assert not a.is_equivalent_to(IndexMap.from_func(lambda y: (y,)))
    assert not a.is_equivalent_to(IndexMap.from_func(lambda y: (y, AXIS_SEPARATOR, y % 2)))


def test_axis_separators() -> None:
    m = IndexMap.from_func(lambda n, c: (n, c // 4, AXIS_SEPARATOR, c % 4))
    assert m.axis_separators == (2,)
    assert len(m.outputs) == 3
    assert str(m) == "lambda n, c: (n, c // 4, AXIS_SEPARATOR, c % 4)"
    assert m != IndexMap.from_func(lambda n, c: (n, c // 4, c % 4))


def test_functions_of_any_number_of_indices() -> None:
    m = IndexMap.from_func(lambda n, *rest: (*rest, n), ndim=3)
    assert str(m) == "lambda n, rest0, rest1: (rest0, rest1, n)"
    with pytest.raises(ValueError, match=r"takes \*rest: say with ndim how many indices"):
        IndexMap.from_func(lambda *rest: rest)
    with pytest.raises(ValueError, match="takes 2 indices, the buffer has 3"):
        IndexMap.from_func(lambda a, b: a + b, ndim=3)
    with pytest.raises(ValueError, match="takes 4 indices, 2 given"):
        BLOCKED.map_shape((1, 2))
    with pytest.raises(ValueError, match="the extent -1; legal: 0 or more"):
        BLOCKED.inverse((1, 16, -1, 2))
    with pytest.raises(ValueError, match=r"the extent of a // b in .* is not bounded"):
        IndexMap.from_func(lambda a, b: (a // b,)).map_shape((n, n))
