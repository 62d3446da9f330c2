"""Einsum as transposes, products and sums."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.values import product

from .registry import onnx_op


@onnx_op("Einsum", since=12)
def einsum(g: Build, first: Value, *rest: Value, equation: str) -> Value:
    """Operands are joined from left to right; a letter goes when nothing later needs it."""
    terms, out = _terms(g, equation, (first, *rest))
    operands = [_diagonals(g, x, t) for x, t in zip((first, *rest), terms, strict=True)]
    value, have = operands[0]
    for k, (x, letters) in enumerate(operands[1:]):
        later = set(out).union(*terms[k + 2 :])
        value, have = _join(g, value, have, x, letters, later)
    value, have = _summed(g, value, have, set(out))
    if set(have) != set(out):
        g.malformed(f"equation={equation!r}: the result names an index that no operand has")
    return _transposed(g, value, have, out)


def _terms(g: Build, equation: str, xs: Sequence[Value]) -> tuple[list[str], str]:
    """One letter per dimension for each operand and the result, the dots written out."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(xs):
        g.malformed(f"equation={equation!r} has {len(terms)} operands, the node {len(xs)}")
    free = [c for c in ascii_letters if c not in equation]
    most = max(
        [x.rank - len(t.replace("...", "")) for t, x in zip(terms, xs, strict=True) if "..." in t],
        default=0,
    )
    dots = "".join(free[:most])
    full = []
    for t, x in zip(terms, xs, strict=True):
        missing = x.rank - len(t.replace("...", ""))
        full.append(t.replace("...", dots[most - missing :] if "..." in t else ""))
        if len(full[-1]) != x.rank:
            g.malformed(
                f"equation={equation!r}: the term {t!r} for an operand of {x.rank} dimensions"
            )
    if not arrow:
        together = "".join(full)
        return full, dots + "".join(
            sorted([c for c in set(together) - set(dots) if together.count(c) == 1])
        )
    return full, out.replace("...", dots)


def _diagonals(g: Build, x: Value, letters: str) -> tuple[Value, str]:
    """An operand whose dimensions all have different letters."""
    for c in dict.fromkeys(letters):
        while letters.count(c) > 1:
            last = letters.rindex(c)
            x = g.call("diagonal", x, axes=(letters.index(c), last))
            letters = letters[:last] + letters[last + 1 :]
    return x, letters


def _summed(g: Build, x: Value, have: str, keep: set[str]) -> tuple[Value, str]:
    """The sum over the letters that nothing needs."""
    gone = tuple([k for k, c in enumerate(have) if c not in keep])
    if not gone:
        return x, have
    return g.call("sum", x, axes=gone, keepdims=False), "".join([c for c in have if c in keep])


def _transposed(g: Build, x: Value, have: str, want: str) -> Value:
    return x if have == want else moves.transpose(g, x, [have.index(c) for c in want])


def _without_ones(g: Build, x: Value, have: str, y: Value, other: str) -> tuple[Value, str]:
    """Extents of 1 that broadcast against the other operand are left out."""
    ones = tuple(
        [
            k
            for k, c in enumerate(have)
            if c in other and x.shape[k] == 1 and y.shape[other.index(c)] != 1
        ]
    )
    return (
        (moves.squeeze(g, x, ones), "".join([c for k, c in enumerate(have) if k not in ones]))
        if ones
        else (x, have)
    )


def _join(g: Build, a: Value, in_a: str, b: Value, in_b: str, later: set[str]) -> tuple[Value, str]:
    """Two operands as one matrix product, or as a product of elements where nothing is summed."""
    (a, in_a), (b, in_b) = _without_ones(g, a, in_a, b, in_b), _without_ones(g, b, in_b, a, in_a)
    a, in_a = _summed(g, a, in_a, later | set(in_b))
    b, in_b = _summed(g, b, in_b, later | set(in_a))
    both = [c for c in in_a if c in in_b]
    batch = "".join([c for c in both if c in later])
    inner = "".join([c for c in both if c not in later])
    rows, columns = (
        "".join([c for c in in_a if c not in both]),
        "".join([c for c in in_b if c not in both]),
    )
    out = batch + rows + columns
    if not inner:
        a = moves.expand_dims(
            g, _transposed(g, a, in_a, batch + rows), range(len(batch + rows), len(out))
        )
        b = moves.expand_dims(
            g, _transposed(g, b, in_b, batch + columns), range(len(batch), len(batch + rows))
        )
        return g.call("multiply", a, b), out
    a, b = _as_wide(g, a, in_a, inner, b, in_b), _as_wide(g, b, in_b, inner, a, in_a)

    def matrices(x: Value, have: str, *groups: str) -> tuple[Value, list[list[Any]]]:
        """An operand with a dimension for each group of letters, and the extents behind these."""
        size = dict(zip(have, x.shape, strict=True))
        front, parts = [size[c] for c in batch], [[size[c] for c in p] for p in groups]
        x = _transposed(g, x, have, batch + "".join(groups))
        return moves.reshape(g, x, (*front, *map(product, parts))), parts

    a, (left, _) = matrices(a, in_a, rows, inner)
    b, (_, right) = matrices(b, in_b, inner, columns)
    made = g.call("matmul", a, b)
    return moves.reshape(g, made, (*made.shape[: len(batch)], *left, *right)), out


def _as_wide(g: Build, x: Value, have: str, shared: str, y: Value, other: str) -> Value:
    """An operand repeated along letters that it shares with another one, where it may be 1."""
    want = [
        y.shape[other.index(c)] if c in shared else e for c, e in zip(have, x.shape, strict=True)
    ]
    return moves.broadcast_to(g, x, want)
