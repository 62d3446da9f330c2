"""Numbers of the run that become extents, as operators of the graph compute them: int64 scalars.

A number that cannot be told, as with steps of 0, is -1: whoever makes extents of it refuses it.
"""

from __future__ import annotations

from smelt.ir import dtype as dt

from ..nodes import RelaxExpr, call
from .common import cast_to, dtype_of, scalar

UNTOLD = "-1: none is right, as with steps of 0"
"""For messages about numbers of steps."""

_MOST = 2**63 - 1
_MOST_EXACT = 2.0**53
"""From here on floats do not tell whole numbers apart."""


def _number(value: int) -> RelaxExpr:
    return scalar(value, "int64")


def range_type(dtype: str) -> str:
    """The element type in which ranges of numbers of a type are computed."""
    return "float64" if dt.is_float(dtype) else "int64"


def steps_between(first: RelaxExpr, last: RelaxExpr, step: RelaxExpr) -> RelaxExpr:
    """How many of first, first + step, ... come before last; 0 where it lies the other way.

    All are int64 or float64. -1: the step is 0, or the number is no legal one.
    """
    if dtype_of(first) == "float64":
        return _float_steps(first, last, step)
    forward = call("greater", step, _number(0))
    low, high = (call("where", forward, a, b) for a, b in ((first, last), (last, first)))
    size = call("abs", call("maximum", step, _number(-_MOST)))
    way = call("subtract", high, low)
    more = call("divide", call("subtract", way, _number(1)), call("maximum", size, _number(1)))
    ahead, overflown = call("less", low, high), call("less", way, _number(1))
    wrong = call("logical_and", ahead, overflown)
    wrong = call("logical_or", wrong, call("equal", step, _number(0)))
    count = call("where", ahead, call("add", more, _number(1)), _number(0))
    return call("where", wrong, _number(-1), count)


def _float_steps(first: RelaxExpr, last: RelaxExpr, step: RelaxExpr) -> RelaxExpr:
    count = call("ceil", call("divide", call("subtract", last, first), step))
    size = call("abs", count)  # not a number, where the step is 0 or an operand is not finite
    told = call("less", size, scalar(_MOST_EXACT, "float64"))
    kept = call("where", told, count, scalar(0.0, "float64"))
    whole = cast_to(call("maximum", kept, scalar(0.0, "float64")), "int64")
    return call("where", told, whole, _number(-1))


def clamped(place: RelaxExpr, extent: RelaxExpr, step: RelaxExpr, before: bool) -> RelaxExpr:
    """Where a slice begins or ends, counted from the front; negative places count from the end.

    before  whether a slice backwards may begin or end in front of all elements
    """
    forward, zero = call("greater", step, _number(0)), _number(0)
    most = call("where", forward, extent, call("subtract", extent, _number(1)))
    least = call("where", forward, zero, _number(-1)) if before else zero
    front = call("where", call("less", place, zero), call("add", place, extent), place)
    return call("minimum", call("maximum", front, least), most)


def completed_extents(wanted: RelaxExpr, total: RelaxExpr, own: RelaxExpr | None) -> RelaxExpr:
    """The extents that a vector asks for: -1 is what remains of a number of elements.

    own  the extents that a 0 copies; None: it is an extent
    """
    if own is not None:
        wanted = call("where", call("equal", wanted, _number(0)), own, wanted)
    is_open = call("equal", wanted, _number(-1))
    closed = call("where", is_open, _number(1), wanted)
    known = call("prod", closed, axes=(0,), keepdims=False)
    rest = call("divide", total, call("maximum", known, _number(1)))
    count = call("sum", cast_to(is_open, "int64"), axes=(0,), keepdims=False)
    rest = call("where", call("less", count, _number(2)), rest, _number(-1))
    return call("where", is_open, rest, wanted)
