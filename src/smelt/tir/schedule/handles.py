"""What primitives take and give back: names of loops and blocks, and sampled numbers.

Names are unique in a function, so a handle stays valid as long as the thing it names exists. A
plain string is accepted wherever a handle is. `func` is the function that a handle belongs to, so
that handles of several functions of a module can be used in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from smelt.tir.nodes import Block, For


class _Name(str):
    """The name of something in a function."""

    __slots__ = ("func",)

    func: str

    def __new__(cls, name: str, func: str = "") -> Self:
        """A handle by its name; `func` is "" for the function worked on."""
        self = str.__new__(cls, name)
        self.func = func
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class LoopRV(_Name):
    """The name of a loop."""

    __slots__ = ()


class BlockRV(_Name):
    """The name of a block."""

    __slots__ = ()


class ExprRV(int):
    """A sampled number, or one computed from sampled numbers.

    ref      its name in the trace, or its expression over such names, so that a replay with other
             decisions computes it anew
    made_of  the samples that it was computed from
    """

    ref: str = ""
    made_of: tuple[ExprRV, ...] = ()

    def _joined(self, symbol: str, other: Any, value: Any, reflected: bool = False) -> Any:
        if not isinstance(value, int):
            return value
        own, its = self.ref, getattr(other, "ref", "") or str(int(other))
        a, b = (its, own) if reflected else (own, its)
        new = ExprRV(value)
        new.ref = f"({a} {symbol} {b})"
        new.made_of = self._samples() + (other._samples() if isinstance(other, ExprRV) else ())
        return new

    def _samples(self) -> tuple[ExprRV, ...]:
        return self.made_of or (self,)

    def __add__(self, other: Any) -> Any:
        return self._joined("+", other, int.__add__(self, other))

    def __radd__(self, other: Any) -> Any:
        return self._joined("+", other, int.__radd__(self, other), True)

    def __sub__(self, other: Any) -> Any:
        return self._joined("-", other, int.__sub__(self, other))

    def __rsub__(self, other: Any) -> Any:
        return self._joined("-", other, int.__rsub__(self, other), True)

    def __mul__(self, other: Any) -> Any:
        return self._joined("*", other, int.__mul__(self, other))

    def __rmul__(self, other: Any) -> Any:
        return self._joined("*", other, int.__rmul__(self, other), True)

    def __floordiv__(self, other: Any) -> Any:
        return self._joined("//", other, int.__floordiv__(self, other))

    def __rfloordiv__(self, other: Any) -> Any:
        return self._joined("//", other, int.__rfloordiv__(self, other), True)

    def __mod__(self, other: Any) -> Any:
        return self._joined("%", other, int.__mod__(self, other))

    def __rmod__(self, other: Any) -> Any:
        return self._joined("%", other, int.__rmod__(self, other), True)


@dataclass(frozen=True)
class StmtSRef:
    """Where a loop or block stands in the program as it is now: read only.

    rv      the handle
    lookup  finds the statement; it raises where the program has lost it
    """

    rv: LoopRV | BlockRV
    lookup: Callable[[], For | Block]
    above: Callable[[], StmtSRef | None]

    @property
    def stmt(self) -> For | Block:
        """The loop or block."""
        return self.lookup()

    @property
    def parent(self) -> StmtSRef | None:
        """The loop or block around it; None for the root block."""
        return self.above()
