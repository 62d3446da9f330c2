"""How operators are drawn: `@draws("Add", "Sub")` registers fn(d, op), which adds a node to `d`."""

from __future__ import annotations

from collections.abc import Callable

from .draw import Draw

__all__ = ["TABLE", "WEIGHTS", "draws"]

Drawer = Callable[[Draw, str], object]
TABLE: dict[str, Drawer] = {}
WEIGHTS: dict[str, float] = {}


def draws(*ops: str, weight: float = 1.0) -> Callable[[Drawer], Drawer]:
    """Register how operators are drawn; `weight` says how often, compared with others."""

    def register(fn: Drawer) -> Drawer:
        for op in ops:
            TABLE[op], WEIGHTS[op] = fn, weight
        return fn

    return register
