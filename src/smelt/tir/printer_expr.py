"""Scalar and vector expressions as text: precedence and constants in one place."""

# ruff: noqa: E701 (one case a line)

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from smelt.ir.expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    Add,
    And,
    Binary,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    const,
)
from smelt.ir.node import float_key

from .nodes import Buffer, BufferLoad, Reduce
from .script_ops import INTRINSICS, expr_nodes, inferred_dtype

__all__ = ["ExprPrinter", "constant", "quoted"]

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _ATOM = range(1, 8)
_INFIX: dict[type[Expr], int] = {
    Or: _OR,
    And: _AND,
    EQ: _COMPARE,
    NE: _COMPARE,
    LT: _COMPARE,
    LE: _COMPARE,
    GT: _COMPARE,
    GE: _COMPARE,
    Add: _SUM,
    Sub: _SUM,
    Mul: _PRODUCT,
    Div: _PRODUCT,
    FloorDiv: _PRODUCT,
    FloorMod: _PRODUCT,
}
_PREFIX: dict[type[Expr], str] = {
    Min: "min",
    Max: "max",
    TruncDiv: "truncdiv",
    TruncMod: "truncmod",
}
_DEFAULT = (INDEX, "float32", "bool")


def constant(e: Expr, bare: bool = True) -> str:
    """A constant; `bare` leaves out a default type."""
    match e:
        case IntImm("bool", value) if value in (0, 1):
            return str(bool(value)) if bare else f"T.bool({bool(value)})"
        case IntImm(kind, value):
            return str(value) if bare and kind == INDEX else f"T.{kind}({value})"
        case FloatImm(kind, value) if not math.isfinite(value):
            odd_nan = math.isnan(value) and float_key(value) != float_key(math.nan)
            text = f"nan:{float_key(value).hex()}" if odd_nan else str(value)
            return f'T.{kind}("{text}")'
        case FloatImm("float32", value):
            short = str(np.float32(value)) if abs(value) < 3.5e38 else repr(value)
            short = short if const(float(short)) is e else repr(value)
            if const(float(short)) is not e:
                return f'T.FloatImm("float32", {value!r})'
            return short if bare else f"T.float32({short})"
        case FloatImm(kind, value):
            return f"T.{kind}({value!r})"
    raise TypeError(type(e).__name__)


class ExprPrinter:
    """Prints expressions; `name` gives the names of variables and buffers."""

    def __init__(self, name: Callable[[Var | Buffer], str]) -> None:
        """Start with an empty memo."""
        self.name = name
        self.memo: dict[Expr, tuple[str, int]] = {}

    def text(self, e: Expr) -> str:
        """One expression."""
        for node in expr_nodes(e):
            if node not in self.memo:
                self.memo[node] = self.one(node)
        return self.memo[e][0]

    def tuple_text(self, items: tuple[Expr, ...]) -> str:
        """A tuple of expressions."""
        return "(" + ", ".join(map(self.text, items)) + (",)" if len(items) == 1 else ")")

    def indices(self, items: tuple[Expr, ...]) -> str:
        """What stands between brackets."""
        return ", ".join(map(self.text, items)) or "()"

    def end_text(self, low: Expr, extent: Expr) -> str:
        """low + extent, added where both are plain index constants."""
        if (
            isinstance(low, IntImm)
            and isinstance(extent, IntImm)
            and low.type == extent.type == INDEX
        ):
            return str(low.value + extent.value)
        return self.text(Add(low, extent))

    def operand(self, e: Expr, expected: str | None, level: int = 0) -> str:
        """An expression where the reader expects a type: a constant of another one says so."""
        if isinstance(e, IntImm | FloatImm):
            return constant(e, bare=e.type == expected)
        text = self.text(e)
        return text if self.memo[e][1] >= level else f"({text})"

    def one(self, e: Expr) -> tuple[str, int]:
        """The text of an expression and how tightly it binds."""
        cls = type(e)
        if cls in _INFIX:
            return self.infix(e), _INFIX[cls]
        if cls in _PREFIX:
            assert isinstance(e, Binary)
            return f"T.{_PREFIX[cls]}({self.pair(e.a, e.b)})", _ATOM
        # fmt: off
        match e:
            case Var():                 text = self.name(e)
            case IntImm() | FloatImm(): text = constant(e)
            case StringImm(value):      text = quoted(value)
            case Not(a):                return f"not {self.operand(a, None, _NOT)}", _NOT
            case BufferLoad(b, ix):     text = f"{self.name(b)}[{self.indices(ix)}]"
            case Select(c, a, b):       text = f"T.select({self.text(c)}, {self.pair(a, b)})"
            case Cast(kind, value):     text = f'T.cast("{kind}", {self.text(value)})'
            case Ramp(base, step, n):   text = f"T.ramp({self.pair(base, step)}, {n})"
            case Broadcast(value, n):   text = f"T.broadcast({self.text(value)}, {n})"
            case Shuffle(a, b, ix):     text = f"T.shuffle({self.text(a)}, {self.text(b)}, {ix!r})"
            case Call():                text = self.call(e)
            case Reduce():              text = self.reduce(e)
            case _:                     text = f"<{cls.__name__}>"
        # fmt: on
        return text, _ATOM

    def infix(self, e: Expr) -> str:
        """a op b: operators of one level associate to the left, comparisons do not."""
        assert isinstance(e, Binary)
        level = _INFIX[type(e)]
        left = self.left(e.a, e.b, level + 1 if level == _COMPARE else level)
        return f"{left} {e.symbol} {self.operand(e.b, e.a.dtype, level + 1)}"

    def pair(self, a: Expr, b: Expr) -> str:
        """Two operands of one type."""
        both = (
            isinstance(a, IntImm | FloatImm)
            and isinstance(b, IntImm | FloatImm)
            and a.type == b.type
        )
        first = self.operand(a, a.dtype) if both else self.left(a, b, 0)
        return f"{first}, {self.operand(b, a.dtype)}"

    def left(self, a: Expr, b: Expr, level: int) -> str:
        """The first of two operands: a constant is bare only where the other one tells its type."""
        return self.operand(a, None if isinstance(b, IntImm | FloatImm) else b.dtype, level)

    def call(self, e: Call) -> str:
        """T.exp(x); T.call("float32", "name", x) where type or name is not a known one."""
        if e.op in INTRINSICS and inferred_dtype(e.op, e.args) == e.type:
            head = [self.text(e.args[0])] if e.op == "if_then_else" else []
            values = e.args[len(head) :]
            known = [a.dtype for a in values if not isinstance(a, IntImm | FloatImm)]
            args = head + [self.operand(a, known[0] if known else a.dtype) for a in values]
            return f"T.{e.op}({', '.join(args)})"
        args = [self.text(a) for a in e.args]
        if e.op.startswith("smelt.") and e.type == "int32":
            return f"T.{e.op}({', '.join(args)})"
        return f"T.call({', '.join([quoted(e.type), quoted(e.op), *args])})"

    def reduce(self, e: Reduce) -> str:
        """A reduction of a tensor expression (printed for the reader only)."""
        axes = ", ".join([self.name(i.var) for i in e.axis])
        return f"T.reduce({e.combiner.name!r}, {self.text(e.sources[e.index])}, [{axes}])"


def quoted(value: object) -> str:
    """A text in double quotes where that needs no escapes."""
    text = repr(value)
    plain = text[0] == "'" and '"' not in text and "\\" not in text
    return f'"{text[1:-1]}"' if plain else text
