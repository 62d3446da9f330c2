"""What the bodies of Relay's operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smelt.ir.build import value_of
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import Expr
from smelt.ir.types import TensorType
from smelt.relax.nodes import RelaxExpr, call

__all__ = ["axes_of", "dtype_of", "extents", "normal_axis", "numbers", "pad_numbers", "rank_of",
           "reshaped", "shape_of", "to_layout", "turned"]  # fmt: skip

Attrs = dict[str, Any]


def shape_of(x: RelaxExpr) -> tuple[Expr, ...]:
    """A tensor's extents."""
    t = x.type
    if not isinstance(t, TensorType):
        raise TypeMismatch("an operand is a tuple; take one of its items")
    return t.shape


def extents(x: RelaxExpr) -> tuple[int | None, ...]:
    """A tensor's extents as numbers, None where they are symbolic."""
    return tuple([value_of(e) for e in shape_of(x)])


def rank_of(x: RelaxExpr) -> int:
    """The number of dimensions."""
    return len(shape_of(x))


def dtype_of(x: RelaxExpr) -> str:
    """A tensor's element type."""
    shape_of(x)
    return x.type.dtype  # type: ignore[attr-defined, no-any-return]


def normal_axis(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < rank:
        raise TypeMismatch(
            f"axis={axis}; a tensor of {rank} dimensions has axes {-rank} to {rank - 1}"
        )
    return axis % rank


def axes_of(axis: Any, rank: int, exclude: bool = False) -> tuple[int, ...]:
    """Axes given as None (all), a number or several; exclude: those not given."""
    if axis is None:
        given = tuple(range(rank)) if not exclude else ()
    else:
        many = axis if isinstance(axis, tuple | list) else (axis,)
        given = tuple([normal_axis(int(a), rank) for a in many])
    return tuple([a for a in range(rank) if a not in given]) if exclude else given


def numbers(name: str, count: int) -> Callable[[Any], tuple[int, ...]]:
    """What brings an attribute of `count` numbers, or one for all, into the form of a tuple."""

    def prepare(value: Any) -> tuple[int, ...]:
        many = tuple(value) if isinstance(value, tuple | list) else (value,) * count
        if len(many) == 1:
            many = many * count
        if len(many) != count:
            raise TypeMismatch(f"{name}={value}; {count} numbers, or one for all, are legal")
        return tuple([int(v) for v in many])

    return prepare


def pad_numbers(value: Any, count: int) -> tuple[int, ...]:
    """padding as numbers before, then behind each of `count` spatial dimensions.

    One number counts for all sides, one a dimension for both of its sides.
    """
    many = tuple(value) if isinstance(value, tuple | list) else (value,)
    if len(many) == 1:
        many = many * (2 * count)
    if len(many) == count:
        many = many * 2
    if len(many) != 2 * count:
        raise TypeMismatch(
            f"padding={value}; 1, {count} or {2 * count} numbers are legal for {count} "
            "spatial dimensions"
        )
    return tuple([int(v) for v in many])


def turned(x: RelaxExpr, have: str, want: str) -> RelaxExpr:
    """A tensor with its dimensions in another order, both given as letters: NHWC, NCHW."""
    if have == want:
        return x
    if sorted(have) != sorted(want):
        raise TypeMismatch(f"the layout {have!r} cannot be seen as {want!r}")
    return call("transpose", x, axes=tuple([have.index(c) for c in want]))


def to_layout(layout: str, legal: Sequence[str], what: str) -> str:
    """A layout's letters, checked."""
    if sorted(layout) not in [sorted(known) for known in legal]:
        raise TypeMismatch(f"{what}={layout!r}; legal: the letters of {', '.join(legal)}")
    return layout


def reshaped(x: RelaxExpr, shape: Sequence[Any]) -> RelaxExpr:
    """A tensor with another shape of as many elements."""
    return call("reshape", x, shape=tuple(shape))
