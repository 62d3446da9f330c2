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

    def __new__(cls, name: str = "", func: str = "") -> Self:
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


_Method = Callable[[Any, Any], Any]


def _operator(symbol: str, compute: _Method, reflected: _Method) -> tuple[_Method, _Method]:
    """The methods of an operator of ExprRV, from those of int."""

    def method(self: Any, other: Any) -> Any:
        return self._joined(symbol, other, compute(self, other))

    def swapped(self: Any, other: Any) -> Any:
        return self._joined(symbol, other, reflected(self, other), True)

    return method, swapped


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

    __add__, __radd__ = _operator("+", int.__add__, int.__radd__)
    __sub__, __rsub__ = _operator("-", int.__sub__, int.__rsub__)
    __mul__, __rmul__ = _operator("*", int.__mul__, int.__rmul__)
    __floordiv__, __rfloordiv__ = _operator("//", int.__floordiv__, int.__rfloordiv__)
    __mod__, __rmod__ = _operator("%", int.__mod__, int.__rmod__)


@dataclass(frozen=True)
class StmtSRef:
    """Where a loop or block stands in the program as it is now: read only.

    rv        the handle
    schedule  finds the statement; it raises where the program has lost it
    """

    rv: LoopRV | BlockRV
    schedule: Any

    @property
    def stmt(self) -> For | Block:
        """The loop or block."""
        found: For | Block = self.schedule.get(self.rv)
        return found

    @property
    def parent(self) -> StmtSRef | None:
        """The loop or block around it; None for the root block."""
        around = self.schedule.state.above(self.stmt)
        return next((self.schedule._sref(up) for up in around if isinstance(up, For | Block)), None)
