"""What integers stand for, where operators on floats become operators on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import Unsupported
from smelt.relax.compose.common import array_of
from smelt.relax.compose.operands import const
from smelt.relax.nodes import Call, Constant, RelaxExpr, call, tensor_type_of


class NotInteger(Unsupported):
    """A call that has no integer form; the message says why."""


class NoForm(NotInteger):
    """A call that no rule is about."""


class TensorAffineType:
    """Integers q of a type that stand for scale * (q - zero_point).

    scale, zero_point  expressions: scalars, or vectors along the axis
    """

    def __init__(self, scale: RelaxExpr, zero_point: RelaxExpr, dtype: str, axis: int = -1) -> None:
        """Keep all four."""
        self.scale, self.zero_point, self.dtype, self.axis = scale, zero_point, dtype, axis

    def __repr__(self) -> str:
        return f"TensorAffineType({self.scale}, {self.zero_point}, {self.dtype!r}, {self.axis})"

    @property
    def numbers(self) -> tuple[RelaxExpr, RelaxExpr]:
        """The scale and the zero point, as operators on quantized tensors take them."""
        return self.scale, self.zero_point

    @property
    def one(self) -> bool:
        """Whether one scale and one zero point serve all elements."""
        return all(_count(v) == 1 for v in self.numbers)

    def same(self, other: Any) -> bool:
        """Whether other integers stand for the same numbers."""
        if not isinstance(other, TensorAffineType) or self.dtype != other.dtype:
            return False
        along = self.one or self.axis == other.axis
        return along and all(map(same_numbers, self.numbers, other.numbers))

    def moved(self, axis: int) -> TensorAffineType:
        """The same along another axis."""
        return TensorAffineType(*self.numbers, self.dtype, axis)


class TupleAffineType:
    """The types of a tuple's items."""

    def __init__(self, types: Sequence[TensorAffineType]) -> None:
        """Keep them."""
        self.types = list(types)


AffineType = TensorAffineType | TupleAffineType


class Types(dict[Any, Any]):
    """What each value stands for; `words` say how operators on integers are written."""

    def __init__(self, words: Any) -> None:
        """Nothing is known yet."""
        super().__init__()
        self.words = words


Rule = Callable[[Call, Any], Sequence[Any]]
"""(a call on integers, Types) -> the expression of integers and what they stand for."""


# -------------------------------------------------------------------------------------- numbers


def array(x: RelaxExpr | None) -> np.ndarray[Any, Any] | None:
    """The numbers of a constant scale or zero point, at least one dimension; integers as int64."""
    data = array_of(x)
    if data is None:
        return None
    return data.reshape(-1).astype(np.int64 if dt.is_int(dt.from_numpy(data.dtype)) else data.dtype)


def same_numbers(a: RelaxExpr, b: RelaxExpr) -> bool:
    """Whether two scales or zero points are equal; a vector of one number is that number."""
    x, y = array(a), array(b)
    if a is b or x is None or y is None:
        return a is b
    return len({len(x), len(y)} - {1}) <= 1 and bool(np.all(x == y))


def times(a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    """A product of scales; of one number and a vector: a vector."""
    x, y = (v.reshape(()) if v is not None and v.size == 1 else v for v in (array(a), array(b)))
    if x is None or y is None:
        return call("multiply", a, b)
    return const(np.asarray(x * y, np.float32))


def _count(x: RelaxExpr) -> int:
    if isinstance(x, Constant):
        return int(x.data.size)
    return 1 if tensor_type_of(x).shape == () else 0
