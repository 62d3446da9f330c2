"""What the printer of C asks of expressions: which integers fit, and what is used twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from smelt.ir import dtype as dt
from smelt.ir.expr import (
    Add,
    And,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    Select,
    Sub,
    Var,
)
from smelt.ir.node import ordered
from smelt.tir.script_ops import operands

Range = tuple[int, int]
_LAZY = "if_then_else"


class Ranges:
    """What values integer expressions may have, by their types and by the loops around them.

    Not smelt.arith's bounds: those take int32 and int64 for unbounded, and here it is asked
    whether they wrap.

    loops  the least and the largest value of loop variables that are known
    """

    def __init__(self) -> None:
        """No loop is known."""
        self.loops: dict[Var, Range] = {}
        self._found: dict[Expr, Range] = {}

    def enter(self, var: Var, least: int, most: int) -> None:
        """A loop begins, whose variable has these values."""
        if self.loops.get(var, (least, most)) != (least, most):
            self._found.clear()  # another loop has had the same variable
        self.loops[var] = least, most

    def fits(self, e: Expr) -> bool:
        """Whether the result of an operator certainly has its type, before it wraps."""
        low, high = dt.limits(e.dtype)
        least, most = self._raw(e)
        return low <= least and most <= high

    def of(self, e: Expr) -> Range:
        """The least and the largest value that an integer may have."""
        if e not in self._found:
            self._found[e] = self._raw(e) if self.fits(e) else dt.limits(e.dtype)
        return self._found[e]

    def _raw(self, e: Expr) -> Range:
        match e:
            case IntImm(value=value):
                return value, value
            case Var():
                return self.loops.get(e) or dt.limits(e.dtype)
            case Cast(value=value) if dt.is_int(value.dtype) or value.dtype == "bool":
                return self.of(value)
            case Add(a, b):
                (p, q), (r, s) = self.of(a), self.of(b)
                return p + r, q + s
            case Sub(a, b):
                (p, q), (r, s) = self.of(a), self.of(b)
                return p - s, q - r
            case Mul(a, b):
                found = [x * y for x in self.of(a) for y in self.of(b)]
                return min(found), max(found)
            case Min(a, b) | Max(a, b):
                pick = min if isinstance(e, Min) else max
                (p, q), (r, s) = self.of(a), self.of(b)
                return pick(p, r), pick(q, s)
            case Select(_, a, b) | Call(_, "if_then_else", (_, a, b)):
                (p, q), (r, s) = self.of(a), self.of(b)
                return min(p, r), max(q, s)
            case FloorDiv(a, IntImm(value=by)) if by > 0:
                p, q = self.of(a)
                return p // by, q // by
            case FloorMod(_, IntImm(value=by)) if by > 0:
                return 0, by - 1
        return dt.limits(e.dtype)


def shared(roots: Sequence[Expr]) -> list[Expr]:
    """What some expressions, evaluated one after another, use more than once, operands first.

    Only what is evaluated in any case: not what stands on one side of a choice alone.
    """
    every = [*ordered([*roots], operands)]
    uses = Counter([*roots, *[c for e in every for c in operands(e)]])
    sure = {*ordered([*roots], _surely)}
    return [e for e in every if uses[e] > 1 and e in sure and _is_worth_a_name(e)]


def _surely(e: Expr) -> list[Expr]:
    """The operands that are evaluated whenever it is."""
    lazy = isinstance(e, And | Or | Select) or (isinstance(e, Call) and e.op == _LAZY)
    return operands(e)[:1] if lazy else operands(e)


def _is_worth_a_name(e: Expr) -> bool:
    if e.dtype == "handle" or e.constant or isinstance(e, Var):
        return False
    if isinstance(e, Cast) and not _is_worth_a_name(e.value):
        return False
    unknown = [c for c in operands(e) if not c.constant]
    return len(unknown) > 1 or not all(isinstance(c, Var) for c in unknown)
