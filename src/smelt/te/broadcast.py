"""Numpy's broadcasting: tensors of different shapes, element by element.

Of two extents known only at run time, n and m, either may be 1: the result has
select(n == 1, m, n) elements, and an operand is read at select(n == 1, 0, i). That they are equal
or one of them is 1 is noted, for a check at entry; graphs are compiled for equal ones too
(artifact.variants).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from smelt.arith import Analyzer
from smelt.ir.build import equal, is_const, select, value_of
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import EQ, INDEX, Expr, ExprLike, IntImm, Select, Var, const
from smelt.runtime.entered import holding

if TYPE_CHECKING:
    from .tensor import Tensor

EQUATIONS = "size_equations"
"""The attribute of a function with extents (as text) that have to be equal, who says so, and
whether one of them may be 1 instead."""

LEAST = "size_least"
"""The attribute of a function with extents (as text) that must not be negative, and whose."""


class Pair(NamedTuple):
    """Two extents that have to be equal; `either`: unless one of them is 1."""

    a: Expr
    b: Expr
    either: bool


Pairs = list[Pair]

_NOTED: ContextVar[Pairs | None] = ContextVar("noted", default=None)


def noting() -> AbstractContextManager[Pairs]:
    """Collect the pairs of extents that are taken to be equal meanwhile."""
    return holding(_NOTED, [])


def take_equal(a: Expr, b: Expr, either: bool = False) -> None:
    """Note that two extents have to be equal (`either`: or one 1), which only the run can tell."""
    pairs, pair = _NOTED.get(), Pair(a, b, either)
    if pairs is not None and a is not b and pair not in pairs:
        pairs.append(pair)


def simple(e: Expr) -> Expr:
    """An extent in its shortest form, so that types read well and proofs find equal ones."""
    return e if isinstance(e, IntImm | Var) else _simplified(e)


@lru_cache(4096)
def _simplified(e: Expr) -> Expr:
    return Analyzer().simplify(e)


def describe(shape: Sequence[ExprLike]) -> str:
    """A shape as people write it."""
    return f"[{', '.join(map(str, shape))}]"


def joined(a: Expr, b: Expr) -> Expr:
    """The extent that two extents have together, of which either may be 1.

    It is the first of its parts, the extents that were joined, that is not 1:
    select(k == 1, select(m == 1, n, m), k). Parts stand in the order of their names, so that equal
    sets of parts are one expression.
    """
    if a is b or value_of(b) == 1:
        return a
    if value_of(a) == 1 or is_const(simple(a - b), 0):
        return b
    every = list(dict.fromkeys([*parts(a), *parts(b)]))
    for x, y in combinations(every, 2):
        take_equal(x, y, either=_may_repeat(x) or _may_repeat(y))
    if known := [e for e in every if isinstance(e, IntImm)]:
        return known[0]
    *rest, result = sorted(every, key=str)
    for e in reversed(rest):
        result = select(_is_one(e), result, e)
    return result


def _is_one(e: Expr) -> Expr:
    return simple(equal(e, 1))


def _may_repeat(e: Expr) -> bool:
    """Whether an extent may be 1."""
    return not is_const(_is_one(e), 0)


def parts(e: Expr) -> list[Expr]:
    """The extents that were joined in an extent."""
    found = []
    while isinstance(e, Select) and isinstance(e.condition, EQ) and e.condition.a is e.false_value:
        found.append(e.false_value)
        e = e.true_value
    return [*found, e]


def broadcast_shapes(**shapes: Sequence[Expr]) -> tuple[Expr, ...]:
    """The common shape by numpy's rule: aligned at the end, an extent 1 repeats.

    That extents which are not both known are equal, or one of them 1, is noted (`take_equal`).
    """
    rank = max([len(s) for s in shapes.values()])
    out: list[Expr] = [const(1, INDEX)] * rank
    for shape in shapes.values():
        for d, e in enumerate(shape, rank - len(shape)):
            have, new = value_of(out[d]), value_of(e)
            if have is not None and new is not None and have != new and 1 not in (have, new):
                text = " and ".join([f"{n} {describe(s)}" for n, s in shapes.items()])
                raise TypeMismatch(
                    f"{text} do not broadcast: extents {have} and {new} of dimension "
                    f"{d - rank} have to be equal or 1"
                )
            out[d] = joined(out[d], e)
    return tuple(out)


def place(extent: Expr, out: Expr, i: Expr) -> Expr:
    """Where a dimension of an operand is read for the place `i` of a result's dimension."""
    if extent is out:
        return i
    known, zero = value_of(extent), const(0, INDEX)
    if known is not None:
        return zero if known == 1 else i
    return i if is_const(simple(extent - out), 0) else select(_is_one(extent), zero, i)


def repeated(index: Expr, extent: Expr) -> Var | None:
    """The variable i where a dimension of this extent is read at the `place` of i; else None."""
    match index:
        case Select(condition, IntImm(_, 0), Var() as i) if condition is _is_one(extent):
            return i
    return None


def at(x: Tensor, shape: Sequence[Expr], point: Sequence[Expr]) -> Expr:
    """The element of `x` that broadcasting puts at `point` of a result of that shape."""
    skip = len(shape) - len(x.shape)
    return x[tuple([
        place(e, out, i) for e, out, i in zip(x.shape, shape[skip:], point[skip:], strict=True)
    ])]  # fmt: skip
