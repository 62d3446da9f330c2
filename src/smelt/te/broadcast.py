"""Numpy's broadcasting: tensors of different shapes, element by element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from smelt.ir.build import value_of
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import INDEX, Binary, Expr, ExprLike, IntImm, Var, const

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["at", "broadcast_shapes", "describe", "noting", "show", "take_equal"]

Pairs = list[tuple[Expr, Expr]]

_NOTED: ContextVar[Pairs | None] = ContextVar("noted", default=None)


@contextmanager
def noting() -> Iterator[Pairs]:
    """Collect the pairs of extents that are taken to be equal meanwhile."""
    pairs: Pairs = []
    token = _NOTED.set(pairs)
    try:
        yield pairs
    finally:
        _NOTED.reset(token)


def take_equal(a: Expr, b: Expr) -> None:
    """Note that two extents have to be equal, which only the run can tell."""
    pairs = _NOTED.get()
    if pairs is not None and a is not b and (a, b) not in pairs:
        pairs.append((a, b))


def show(e: ExprLike) -> str:
    """An extent as people write it."""
    if isinstance(e, IntImm):
        return str(e.value)
    if isinstance(e, Var):
        return e.name
    if isinstance(e, Binary):
        return f"({show(e.a)} {e.symbol} {show(e.b)})"
    return str(e)


def describe(shape: Sequence[ExprLike]) -> str:
    """A shape as people write it."""
    return f"[{', '.join([show(e) for e in shape])}]"


def broadcast_shapes(**shapes: Sequence[Expr]) -> tuple[Expr, ...]:
    """The common shape by numpy's rule: aligned at the end, an extent 1 repeats.

    Extents that are not both known are taken to be equal (`take_equal` notes it).
    """
    rank = max([len(s) for s in shapes.values()])
    out: list[Expr] = [const(1, INDEX)] * rank
    for shape in shapes.values():
        for d, e in enumerate(shape, rank - len(shape)):
            have, new = value_of(out[d]), value_of(e)
            if have == 1:
                out[d] = e
            elif new is not None and new != 1:
                if have is not None and have != new:
                    text = " and ".join([f"{n} {describe(s)}" for n, s in shapes.items()])
                    raise TypeMismatch(
                        f"{text} do not broadcast: extents {have} and {new} of dimension "
                        f"{d - rank} have to be equal or 1"
                    )
                if have is None:
                    take_equal(out[d], e)
                out[d] = e
            elif new is None:
                take_equal(out[d], e)
    return tuple(out)


def at(x: Tensor, shape: Sequence[Expr], point: Sequence[Expr]) -> Expr:
    """The element of `x` that broadcasting puts at `point` of a result of that shape."""
    skip = len(shape) - len(x.shape)
    zero = const(0, INDEX)
    index = []
    for e, out, i in zip(x.shape, shape[skip:], point[skip:], strict=True):
        index.append(zero if value_of(e) == 1 and value_of(out) != 1 else i)
    return x[tuple(index)]
