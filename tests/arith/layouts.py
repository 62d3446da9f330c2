"""Random layouts: maps composed of splits, fusions, transpositions and reshapes."""

from __future__ import annotations

from math import prod

from hypothesis import strategies as st

from smelt.arith import Analyzer, IndexMap
from smelt.ir.expr import Expr, Var

Parts = list[tuple[Expr, int]]


def _divisor(draw: st.DrawFn, n: int) -> int:
    return draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))


def _shape(draw: st.DrawFn, n: int) -> list[int]:
    """Extents with a product, ones among them."""
    out: list[int] = []
    while n > 1 and len(out) < 3:
        out.append(_divisor(draw, n))
        n //= out[-1]
    return draw(st.permutations([*out, n]))


def _reshaped(draw: st.DrawFn, parts: Parts) -> Parts:
    """Digits of the row-major index."""
    total, count = parts[0][0] * 0, prod(size for _, size in parts)
    for e, size in parts:
        total = total * size + e
    out, below = [], count
    for size in _shape(draw, count):
        below //= size
        high = draw(st.booleans())
        e = total // below % size if high else total % (below * size) // below
        out.append((e, size))
    return draw(st.permutations(out))


def _split_or_fused(draw: st.DrawFn, parts: Parts) -> Parts:
    at = draw(st.integers(0, len(parts) - 1))
    e, size = parts[at]
    if draw(st.booleans()) and at + 1 < len(parts):
        f, other = parts[at + 1]
        parts[at : at + 2] = [(e * other + f, size * other)]
    else:
        d = _divisor(draw, size)
        parts[at : at + 1] = [(e // d, size // d), (e % d, d)]
    return draw(st.permutations(parts))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], IndexMap]:
    """A shape, and a bijective map of it, as written or simplified."""
    count = draw(st.sampled_from([1, 2, 4, 6, 8, 12, 16, 18, 24, 30, 36, 48, 60, 72]))
    shape = tuple(_shape(draw, count))
    inputs = [Var(f"x{a}") for a in range(len(shape))]
    parts: Parts = list(zip(inputs, shape, strict=True))
    step = draw(st.sampled_from([_reshaped, _split_or_fused]))
    for _ in range(draw(st.integers(0, 3 if step is _reshaped else 7))):
        parts = step(draw, parts)
    if draw(st.integers(0, 9)) == 0:
        e, size = parts[0]
        parts[0] = (size - 1 - e, size)
    outputs = [e for e, _ in parts]
    if draw(st.booleans()):
        an = Analyzer(dict(zip(inputs, shape, strict=True)))
        outputs = [an.simplify(e) for e in outputs]
    return shape, IndexMap(inputs, outputs)
