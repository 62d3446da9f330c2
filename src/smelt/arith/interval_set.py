"""Intervals of integers with symbolic ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from smelt.ir.build import maximum, minimum
from smelt.ir.expr import Expr, ExprLike, IntImm, convert

E = TypeVar("E")


def of_either(fold: Callable[[E, E], E], a: E | None, b: E | None) -> E | None:
    """What a function makes of two ends; where one of them is missing, the other one."""
    return b if a is None else a if b is None else fold(a, b)


def of_both(fold: Callable[[E, E], E], a: E | None, b: E | None) -> E | None:
    """What a function makes of two ends; None where one of them is missing."""
    return None if a is None or b is None else fold(a, b)


@dataclass(frozen=True, eq=False)
class IntervalSet:
    """The integers from min_value to max_value, both included; an end None: without end."""

    min_value: Expr | None
    max_value: Expr | None

    def __post_init__(self) -> None:
        """Numbers are expressions."""
        for name in ("min_value", "max_value"):
            if isinstance(end := getattr(self, name), int):
                object.__setattr__(self, name, convert(end))

    @staticmethod
    def of(low: ExprLike | None, high: ExprLike | None) -> IntervalSet:
        """From numbers or expressions."""
        return IntervalSet(
            None if low is None else convert(low), None if high is None else convert(high)
        )

    @staticmethod
    def everything() -> IntervalSet:
        """All integers."""
        return IntervalSet(None, None)

    @staticmethod
    def nothing() -> IntervalSet:
        """No integer."""
        return IntervalSet.of(0, -1)

    @staticmethod
    def single_point(value: ExprLike) -> IntervalSet:
        """Just one value."""
        return IntervalSet.of(value, value)

    @staticmethod
    def from_range(low: ExprLike, extent: ExprLike) -> IntervalSet:
        """low, ..., low + extent - 1."""
        return IntervalSet.of(low, convert(low) + extent - 1)

    def is_everything(self) -> bool:
        """Whether there are no ends."""
        return self.min_value is None and self.max_value is None

    def is_nothing(self) -> bool:
        """Whether the ends are constants, the last below the first."""
        low, high = self.min_value, self.max_value
        return isinstance(low, IntImm) and isinstance(high, IntImm) and high.value < low.value

    def is_single_point(self) -> bool:
        """Whether both ends are the same expression."""
        return self.min_value is not None and self.min_value is self.max_value

    def union(self, other: IntervalSet) -> IntervalSet:
        """The smallest interval that holds both."""
        if self.is_nothing() or other.is_nothing():
            return other if self.is_nothing() else self
        return IntervalSet(
            of_both(minimum, self.min_value, other.min_value),
            of_both(maximum, self.max_value, other.max_value),
        )

    def intersect(self, other: IntervalSet) -> IntervalSet:
        """What lies in both."""
        return IntervalSet(
            of_either(maximum, self.min_value, other.min_value),
            of_either(minimum, self.max_value, other.max_value),
        )


IntSet = IntervalSet
