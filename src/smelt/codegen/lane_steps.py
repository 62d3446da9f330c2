"""Vector indices whose lanes stand at known distances from one another."""

from __future__ import annotations

from collections.abc import Callable

from smelt.ir import dtype as dt
from smelt.ir.expr import (
    INDEX,
    Add,
    Broadcast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Ramp,
    Sub,
    const,
)

Steps = tuple[int, ...]

_NUMBERS: dict[type[Expr], Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
}


def steps_of(index: Expr) -> tuple[Expr, Steps] | None:
    """A scalar, and what each lane adds to it; None where the distances are not known.

    broadcast(n) + ramp(0, 1, 8) // broadcast(4) is n, and (0, 0, 0, 0, 1, 1, 1, 1).
    """
    lanes = dt.lanes(index.dtype)
    match index:
        case Broadcast(value, _):
            return value, (0,) * lanes
        case Ramp(base, IntImm(value=step), _):
            return base, tuple([step * i for i in range(lanes)])
        case Add(a, b) | Sub(a, b):
            left, right = steps_of(a), steps_of(b)
            if left is None or right is None:
                return None
            combine = _NUMBERS[type(index)]
            base = left[0] + right[0] if isinstance(index, Add) else left[0] - right[0]
            return base, tuple(map(combine, left[1], right[1]))
    known = _known(index)
    return None if known is None else (const(0, INDEX), known)


def _known(e: Expr) -> Steps | None:
    """The lanes as numbers."""
    lanes = dt.lanes(e.dtype)
    match e:
        case Broadcast(IntImm(value=value), _):
            return (value,) * lanes
        case Ramp(IntImm(value=base), IntImm(value=step), _):
            return tuple([base + step * i for i in range(lanes)])
        case Add(a, b) | Sub(a, b) | Mul(a, b) | FloorDiv(a, b) | FloorMod(a, b):
            left, right = _known(a), _known(b)
            if left is None or right is None:
                return None
            if isinstance(e, FloorDiv | FloorMod) and 0 in right:
                return None
            return tuple(map(_NUMBERS[type(e)], left, right))
    return None
