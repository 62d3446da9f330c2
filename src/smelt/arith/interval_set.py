"""Intervals of integers with symbolic ends."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.ir.build import maximum, minimum
from smelt.ir.expr import Expr, ExprLike, IntImm, convert


@dataclass(frozen=True, eq=False)
class IntervalSet:
    """The integers from min_value to max_value, both included; an end None: without end."""

    min_value: Expr | None
    max_value: Expr | None

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
            None
            if self.min_value is None or other.min_value is None
            else minimum(self.min_value, other.min_value),
            None
            if self.max_value is None or other.max_value is None
            else maximum(self.max_value, other.max_value),
        )

    def intersect(self, other: IntervalSet) -> IntervalSet:
        """What lies in both."""
        lows = [e for e in (self.min_value, other.min_value) if e is not None]
        highs = [e for e in (self.max_value, other.max_value) if e is not None]
        return IntervalSet(
            maximum(lows[0], lows[-1]) if lows else None,
            minimum(highs[0], highs[-1]) if highs else None,
        )
