"""What primitives take and give back: names of loops and blocks, and sampled numbers.

Names are unique in a function, so a handle stays valid as long as the thing it names exists. A
plain string is accepted wherever a handle is.
"""

from __future__ import annotations

__all__ = ["BlockRV", "ExprRV", "LoopRV"]


class LoopRV(str):
    """The name of a loop."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"LoopRV({str(self)!r})"


class BlockRV(str):
    """The name of a block."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"BlockRV({str(self)!r})"


class ExprRV(int):
    """A sampled number. `ref` is its name in the trace, so that its uses are recorded as such."""

    ref: str = ""
