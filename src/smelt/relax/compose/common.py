"""What the bodies of Relay's operators share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import Expr
from smelt.ir.types import TensorType, TupleType
from smelt.relax.nodes import Constant, RelaxExpr, Tuple, TupleGetItem, call, constant

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


def array_of(x: RelaxExpr | None) -> np.ndarray[Any, Any] | None:
    """The array of an operand that is a constant; None: it is not."""
    return x.data.view(np.ndarray) if isinstance(x, Constant) else None


def number_of(x: RelaxExpr | None) -> Any:
    """The number that a constant of one element holds; None: the operand is no such constant."""
    data = array_of(x)
    return None if data is None or data.size != 1 else data.reshape(-1)[0].item()


def sizes(x: RelaxExpr) -> tuple[int, ...]:
    """The integers of a constant operand."""
    data = array_of(x)
    assert data is not None
    return tuple([int(v) for v in data.reshape(-1)])


def index_vector(values: Any) -> Constant:
    """Indices known when the program is made, as an operand."""
    return constant(np.asarray(values, "int64"))


def scalar(value: float | bool, dtype: str) -> Constant:
    """One number as an operand."""
    return constant(np.asarray(value, dt.to_numpy(dtype)))


def filled(like: RelaxExpr, value: float) -> RelaxExpr:
    """A tensor of one number, of the shape and type of another one."""
    return call("full", shape=shape_of(like), value=value, dtype=dtype_of(like))


def cast_to(x: RelaxExpr, dtype: str | None) -> RelaxExpr:
    """A tensor as an element type; "" and None: as it is."""
    return x if not dtype or dtype_of(x) == dtype else call("cast", x, dtype=dtype)


def count_of(x: RelaxExpr) -> Any:
    """The number of elements."""
    shape_of(x)
    return x.type.elements()  # type: ignore[attr-defined]


def items_of(data: RelaxExpr) -> list[RelaxExpr]:
    """The items of an operand that is a tuple."""
    if isinstance(data, Tuple):
        return list(data.items)
    if not isinstance(data.type, TupleType):
        raise TypeMismatch("the operand is one tensor; a tuple of tensors is legal")
    return [TupleGetItem(data, i) for i in range(len(data.type.items))]


def along(x: RelaxExpr, axis: int, begin: Any, end: Any, step: int = 1) -> RelaxExpr:
    """The elements from begin up to end of one axis."""
    return sliced(x, (axis,), [(begin, end)], (step,))


def sliced(
    x: RelaxExpr, axes: Sequence[int], ends: Iterable[tuple[Any, Any]], steps: Sequence[int] = ()
) -> RelaxExpr:
    """Every step-th element from begin up to end of each of the axes; steps of 1 where none are
    given."""
    begin, end = zip(*ends, strict=True) if axes else ((), ())
    steps = tuple(steps) or (1,) * len(axes)
    return call("strided_slice", x, axes=tuple(axes), begin=begin, end=end, strides=steps)


def legal(condition: bool, message: str) -> None:
    """A rule of an operator; the message says what breaks it and what would be right."""
    if not condition:
        raise TypeMismatch(message)


def divisible(what: str, e: Any, by: int) -> None:
    """The rule that a size, where it is known, is a multiple of a number."""
    known = value_of(e)
    legal(known is None or known % by == 0, f"{what} is {known}; it has to be a multiple of {by}")


def one_of(name: str, value: Any, *known: Any) -> None:
    """An attribute that has one of a few values."""
    legal(value in known, f"{name}={value!r}; legal: {', '.join([repr(k) for k in known])}")


def forbidden(**given: tuple[Any, Any]) -> None:
    """Attributes that have one legal value here: name=(value, the legal one)."""
    for name, (value, usual) in given.items():
        legal(value == usual, f"{name}={value!r} is not supported; legal: {usual!r}")


def to_layout(layout: str, legal: Sequence[str], what: str) -> str:
    """A layout's letters, checked."""
    if sorted(layout) not in [sorted(known) for known in legal]:
        raise TypeMismatch(f"{what}={layout!r}; legal: the letters of {', '.join(legal)}")
    return layout


def reshaped(x: RelaxExpr, shape: Sequence[Any]) -> RelaxExpr:
    """A tensor with another shape of as many elements."""
    return call("reshape", x, shape=tuple(shape))


def flat(x: RelaxExpr) -> RelaxExpr:
    """All elements as one dimension."""
    return reshaped(x, (count_of(x),))


def is_vector(name: str, x: RelaxExpr, data: RelaxExpr, axis: int) -> None:
    """The rule that an operand is a vector along an axis of the data."""
    legal(rank_of(x) == 1, f"{name} has {rank_of(x)} dimensions; one is legal")
    count, have = extents(x)[0], extents(data)[normal_axis(axis, rank_of(data))]
    legal(
        count == have or None in (count, have),
        f"{name} has {count} elements, axis={axis} of the data has {have}; they have to be equal",
    )


def against(vector: RelaxExpr, data: RelaxExpr, axis: int) -> RelaxExpr:
    """A vector in a shape that broadcasts along an axis of the data."""
    behind = rank_of(data) - normal_axis(axis, rank_of(data)) - 1
    return reshaped(vector, (shape_of(vector)[0], *(1,) * behind)) if behind else vector
