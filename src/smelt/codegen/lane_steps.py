"""Vector indices whose lanes stand at known distances from one another."""

from __future__ import annotations

from smelt.ir import expr

Steps = tuple[int, ...]


def steps_of(index: expr.Expr) -> tuple[expr.Expr, Steps] | None:
    """A scalar, and what each lane adds to it; None where the distances are not known.

    broadcast(n) + ramp(0, 1, 8) // broadcast(4) is n, and (0, 0, 0, 0, 1, 1, 1, 1).
    """
    match index:
        case expr.Broadcast(value, lanes):
            return value, (0,) * lanes
        case expr.Ramp(base, expr.IntImm(value=step), lanes):
            return base, tuple([step * i for i in range(lanes)])
        case expr.Add(a, b) | expr.Sub(a, b):
            left, right = steps_of(a), steps_of(b)
            if left is None or right is None:
                return None
            combine = expr.FOLDS[type(index)]
            base = left[0] + right[0] if isinstance(index, expr.Add) else left[0] - right[0]
            return base, tuple(map(combine, left[1], right[1]))
        case expr.Mul(a, b) | expr.FloorDiv(a, b) | expr.FloorMod(a, b):
            x, y = _known(a), _known(b)
            divides = not isinstance(index, expr.Mul)
            if x is not None and y is not None and not (divides and 0 in y):
                return expr.const(0, expr.INDEX), tuple(map(expr.FOLDS[type(index)], x, y))
    return None


def _known(e: expr.Expr) -> Steps | None:
    """The lanes as numbers."""
    found = steps_of(e)
    if found is None or not isinstance(found[0], expr.IntImm):
        return None
    return tuple([found[0].value + step for step in found[1]])
