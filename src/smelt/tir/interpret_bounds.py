"""Ranges of integer expressions in the interpreter's source, as pairs (lowest, highest)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from smelt.ir import dtype as dt
from smelt.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    Binary,
    Call,
    Cast,
    Compare,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)

from .interpret_math import wrap_range
from .script_ops import expr_nodes, operands

__all__ = ["Bounds", "Interval", "unknown_nodes"]

Interval = tuple[int, int]
_FLIP: dict[type[Expr], type[Compare]] = {LT: GT, GT: LT, LE: GE, GE: LE, EQ: EQ}
_NEGATED: dict[type[Expr], type[Compare]] = {LT: GE, GE: LT, GT: LE, LE: GT}


def unknown_nodes(root: Expr, known: Mapping[Expr, object]) -> Iterator[Expr]:
    """The nodes of an expression that are not in a table yet, operands first.

    The table has to have a node in it before the next one is asked for.
    """
    stack = [root]
    while stack:
        e = stack[-1]
        if e in known:
            stack.pop()
            continue
        parts = [c for c in operands(e) if c not in known]
        if parts:
            stack += parts
        else:
            stack.pop()
            yield e


class Bounds:
    """What is known about integers at one place of a program."""

    def __init__(self) -> None:
        """Start knowing nothing but the types."""
        self.facts: dict[Expr, Interval] = {}
        self.memo: dict[Expr, Interval | None] = {}

    def forget(self, var: Var) -> None:
        """Drop what is known about a variable: it is bound anew."""
        self.memo = {}
        self.facts = {
            e: i for e, i in self.facts.items() if not any(n is var for n in expr_nodes(e))
        }

    def of(self, e: Expr) -> Interval | None:
        """The range of an integer expression; None for other values."""
        if e not in self.memo:
            for node in unknown_nodes(e, self.memo):
                self.memo[node] = self.one(node)
        return self.memo[e]

    def inside(self, e: Expr, low: int, high: int) -> bool:
        """Whether an expression is certainly in low ... high."""
        found = self.of(e)
        return found is not None and low <= found[0] and found[1] <= high

    def one(self, e: Expr) -> Interval | None:
        """The range of a node whose operands are known."""
        if dt.is_float(e.dtype) or e.dtype == "handle":
            return None
        low, high = wrap_range(dt.scalar(e.dtype))
        found = self.raw(e)
        if found is None or found[0] < low or found[1] > high:
            found = (low, high)
        fact = self.facts.get(e)
        if fact is not None:
            found = (max(found[0], fact[0]), min(found[1], fact[1]))
        return found

    def raw(self, e: Expr) -> Interval | None:
        """The range before wrapping; None where only the type says something."""
        match e:
            case IntImm(_, value):
                return value, value
            case Var():
                return self.facts.get(e)
            case Compare():
                return 0, 1
            case Binary(a, b):
                x, y = self.of(a), self.of(b)
                return None if x is None or y is None else _combine(e, x, y)
            case Cast(_, value) if not dt.is_float(value.dtype):
                return self.of(value)
            case Select(_, a, b) | Call(_, "if_then_else", (_, a, b)):
                x, y = self.of(a), self.of(b)
                return None if x is None or y is None else (min(x[0], y[0]), max(x[1], y[1]))
            case Call(_, "likely", (a,)):
                return self.of(a)
        return None

    @contextmanager
    def assuming(self, condition: Expr) -> Iterator[None]:
        """Facts that hold where a condition does."""
        facts, memo = self.facts, self.memo
        self.facts, self.memo = dict(facts), {}
        stack = [condition]
        while stack:
            c = stack.pop()
            if isinstance(c, And):
                stack += [c.a, c.b]
            elif isinstance(c, Call) and c.op == "likely":
                stack.append(c.args[0])
            elif isinstance(c, Compare) and type(c) in _FLIP:
                self.learn(type(c), c.a, c.b)
                self.learn(_FLIP[type(c)], c.b, c.a)
        try:
            yield
        finally:
            self.facts, self.memo = facts, memo

    @contextmanager
    def assuming_not(self, condition: Expr) -> Iterator[None]:
        """Facts that hold where a condition does not."""
        if type(condition) in _NEGATED and isinstance(condition, Compare):
            condition = _NEGATED[type(condition)](condition.a, condition.b)
            with self.assuming(condition):
                yield
        else:
            yield

    def learn(self, cls: type[Expr], a: Expr, b: Expr) -> None:
        """a < b (or >, <=, >=, ==) bounds a."""
        if isinstance(a, IntImm):
            return
        x, y = self.of(a), self.of(b)
        if x is None or y is None:
            return
        low = y[0] + (cls is GT) if cls in (GT, GE, EQ) else x[0]
        high = y[1] - (cls is LT) if cls in (LT, LE, EQ) else x[1]
        self.facts[a] = (max(x[0], low), min(x[1], high))
        self.memo = {}


def _combine(e: Binary, x: Interval, y: Interval) -> Interval | None:
    """The range of an operation from those of its operands."""
    match e:
        case Add():
            return x[0] + y[0], x[1] + y[1]
        case Sub():
            return x[0] - y[1], x[1] - y[0]
        case Mul():
            products = [p * q for p in x for q in y]
            return min(products), max(products)
        case Min():
            return min(x[0], y[0]), min(x[1], y[1])
        case Max():
            return max(x[0], y[0]), max(x[1], y[1])
        case FloorDiv() if y[0] > 0:
            quotients = [p // q for p in x for q in y]
            return min(quotients), max(quotients)
        case FloorMod() if y[0] > 0:
            return x if x[0] >= 0 and x[1] < y[0] else (0, y[1] - 1)
        case TruncDiv() | Div() if y[0] > 0 and x[0] >= 0:
            return x[0] // y[1], x[1] // y[0]
        case TruncMod() if y[0] > 0 and x[0] >= 0:
            return 0, min(x[1], y[1] - 1)
    return None
