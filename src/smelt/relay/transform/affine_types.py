"""What integers stand for, and the rules that make operators on floats operators on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smelt.ir.errors import Unsupported
from smelt.relax.nodes import Constant, RelaxExpr

from ..dialect import const, make, registering


class NotInteger(Unsupported):
    """A call that has no integer form; the message says why."""


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
        """The scale and the zero point, as operators of qnn take them."""
        return self.scale, self.zero_point

    @property
    def one(self) -> bool:
        """Whether one scale and one zero point serve all elements."""
        return all(_count(v) == 1 for v in (self.scale, self.zero_point))

    def same(self, other: Any) -> bool:
        """Whether other integers stand for the same numbers."""
        return (
            isinstance(other, TensorAffineType)
            and self.dtype == other.dtype
            and (self.one or self.axis == other.axis)
            and same_numbers(self.scale, other.scale)
            and same_numbers(self.zero_point, other.zero_point)
        )


class TupleAffineType:
    """The types of a tuple's items."""

    def __init__(self, types: Sequence[TensorAffineType]) -> None:
        """Keep them."""
        self.types = list(types)


AffineType = TensorAffineType | TupleAffineType

Rule = Callable[[Any, dict[Any, Any]], Sequence[Any]]

RULES: dict[str, Rule] = {}
"""Operator: what makes its calls integer ones."""

OPTIONAL: set[str] = set()
"""Operators that become integer ones only where optional_qnn_ops names them."""


def register_fake_quantization_to_integer(
    op_name: str, func: Rule | None = None, level: int = 10
) -> Any:
    """Say what a call of an operator becomes between qnn.dequantize and qnn.quantize.

    func   (call, types) -> [expression of integers, its TensorAffineType or TupleAffineType].
           The call's operands are integers already; types[operand] says what they stand for.
           types.get(call) is the type that the quantized result will have, where that is settled.
           Raising NotInteger leaves the operator in floats. A decorator where it is None
    level  there for the classic signature: what is registered last counts
    """

    def enter(fn: Rule) -> None:
        RULES[op_name] = fn
        OPTIONAL.discard(op_name)

    return registering("register_fake_quantization_to_integer", op_name, enter, func)


def register_optional_fake_quantization_to_integer(
    op_name: str, func: Rule | None = None, level: int = 10
) -> Any:
    """The same for an operator that is left in floats unless optional_qnn_ops names it."""

    def enter(fn: Rule) -> Rule:
        register_fake_quantization_to_integer(op_name, fn, level)
        OPTIONAL.add(op_name)
        return fn

    return enter if func is None else enter(func)


# -------------------------------------------------------------------------------------- numbers


def array(x: RelaxExpr | None) -> np.ndarray[Any, Any] | None:
    """The numbers of a constant scale or zero point, at least one dimension."""
    return np.asarray(x.data).reshape(-1) if isinstance(x, Constant) else None


def same_numbers(a: RelaxExpr, b: RelaxExpr) -> bool:
    """Whether two scales or zero points are equal; a vector of one number is that number."""
    x, y = array(a), array(b)
    return a is b or (
        x is not None
        and y is not None
        and len({len(x), len(y)} - {1}) <= 1
        and bool(np.all(x == y))
    )


def times(a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    """A product of scales; of one number and a vector: a vector."""
    if isinstance(a, Constant) and isinstance(b, Constant):
        x, y = (
            np.asarray(v.data) if v.data.size > 1 else np.asarray(v.data).reshape(())
            for v in (a, b)
        )
        return const(np.asarray(x * y, np.float32))
    return make("multiply", a, b)


def _count(x: RelaxExpr) -> int:
    data = array(x)
    if data is not None:
        return len(data)
    shape: Any = getattr(x.type, "shape", None)
    return 1 if shape == () else 0
