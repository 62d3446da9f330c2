"""Scalar and vector expressions as text: precedence and constants in one place."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from smelt.ir import expr
from smelt.ir.build import is_const
from smelt.ir.node import float_key
from smelt.ir.text import data_text
from smelt.ir.text import quoted as quoted

from . import script_ops
from .nodes import ADDRESS, BufferLoad, Reduce

_CONSTANT = (expr.IntImm, expr.FloatImm)
_DEFAULT = (expr.INDEX, "float32", "bool")


@lru_cache(maxsize=1000)
def constant(e: expr.Expr, bare: bool = True) -> str:
    """A constant; `bare` leaves out a default type."""
    match e:
        case expr.IntImm("bool", value) if value in (0, 1):
            return str(bool(value)) if bare else f"T.bool({bool(value)})"
        case expr.IntImm(kind, value):
            return str(value) if bare and kind == expr.INDEX else f"T.{kind}({value})"
        case expr.FloatImm(kind, value) if not math.isfinite(value):
            odd_nan = math.isnan(value) and float_key(value) != float_key(math.nan)
            text = f"nan:{float_key(value).hex()}" if odd_nan else str(value)
            return f'T.{kind}("{text}")'
        case expr.FloatImm("float32", value):
            short = str(np.float32(value)) if abs(value) < 3.5e38 else repr(value)
            short = short if expr.const(float(short)) is e else repr(value)
            if expr.const(float(short)) is not e:
                return f'T.FloatImm("float32", {value!r})'
            return short if bare else f"T.float32({short})"
        case expr.FloatImm(kind, value):
            return f"T.{kind}({value!r})"
    raise TypeError(type(e).__name__)


_DEEPEST, _LONGEST = 400, 4000
"""How deep an expression of the text may be, and how many characters long. A bracket counts as
_BRACKET operators in a row: Python's parser takes 200 brackets in each other, and 1000 operators.
What is used in several places is printed as often, so that length has no bound of its own."""
_BRACKET = 8


class ExprPrinter:
    """Prints expressions, each distinct one once.

    name     gives variables and buffers names
    fresh    gives a name for a part of an expression that is too deep for Python's parser
    pending  such parts, by name: they have to stand before what is printed next
    """

    def __init__(self, name: Callable[[Any], str], fresh: Callable[[], str] | None = None) -> None:
        """Start with nothing printed."""
        self.name, self.fresh = name, fresh
        self.memo: dict[expr.Expr, tuple[str, int]] = {}
        self.depths: dict[expr.Expr, int] = {}
        self.pending: list[tuple[str, str]] = []

    def forget(self) -> None:
        """What names mean changes here."""
        self.memo.clear()
        self.depths.clear()

    def text(self, e: expr.Expr) -> str:
        """One expression. Iterative: what stands inside is printed first."""
        memo = self.memo
        found = memo.get(e)
        if found is not None:
            return found[0]
        stack = [e]
        while stack:
            node = stack[-1]
            if node in memo:
                stack.pop()
                continue
            inside = script_ops.operands(node)
            missing = [c for c in inside if c not in memo]
            if missing:
                missing.reverse()
                stack += missing
                continue
            stack.pop()
            printed = _ONE.get(type(node), ExprPrinter.other)(self, node)
            memo[node] = self.shortened(node, inside, printed) if inside else (printed, node.level)
        return memo[e][0]

    def shortened(self, e: expr.Expr, inside: list[expr.Expr], text: str) -> tuple[str, int]:
        """An expression; one that has become too deep or too long gets a name of its own."""
        first, level = inside[0], e.level
        in_row = level < expr.ATOM and self.memo[first][1] >= level
        depth = self.depths.get(first, 0) + (1 if in_row else _BRACKET)
        for c in inside[1:]:
            depth = max(depth, self.depths.get(c, 0) + _BRACKET)
        if (depth < _DEEPEST and len(text) < _LONGEST) or self.fresh is None:
            self.depths[e] = depth
            return text, level
        name = self.fresh()
        self.pending.append((name, text))
        return name, expr.ATOM

    def tuple_text(self, items: tuple[expr.Expr, ...]) -> str:
        """A tuple of expressions."""
        return "(" + ", ".join(map(self.text, items)) + (",)" if len(items) == 1 else ")")

    def indices(self, items: tuple[expr.Expr, ...]) -> str:
        """What stands between brackets."""
        return ", ".join([self.text(i) for i in items]) or "()"

    def end_text(self, low: expr.Expr, extent: expr.Expr) -> str:
        """low + extent, added where both are plain index constants."""
        if (
            type(low) is expr.IntImm
            and type(extent) is expr.IntImm
            and low.type == extent.type == expr.INDEX
        ):
            return str(low.value + extent.value)
        return self.text(expr.Add(low, extent))

    def operand(self, e: expr.Expr, expected: str | None, level: int = 0) -> str:
        """An expression where the reader expects a type: a constant of another one says so."""
        if isinstance(e, _CONSTANT):
            return typed_constant(e, expected)
        text = self.text(e)
        return text if self.memo[e][1] >= level else f"({text})"

    def data(self, value: Any, *, ordered: bool = True) -> str:
        """Plain data of attributes and annotations, with expressions in it."""
        return data_text(value, self._datum, ordered=ordered)

    def _datum(self, value: Any) -> str:
        if isinstance(value, expr.IntImm):
            return f"T.{value.type}({value.value})"
        return self.operand(value, "") if isinstance(value, expr.Expr) else quoted(str(value))

    # ------------------------------------------------------------------------- one node each

    def other(self, e: expr.Expr) -> str:
        """A node of no known class, for the texts of errors."""
        return f"<{type(e).__name__}>"

    def infix(self, e: expr.Binary) -> str:
        """a op b: operators of one level associate to the left, comparisons do not."""
        left = self.left(e.a, e.b, e.level + (e.level == expr.COMPARISON))
        return f"{left} {e.symbol} {self.right(e.a, e.b, e.level + 1)}"

    def prefix(self, e: expr.Binary) -> str:
        """T.max(a, b)."""
        return f"T.{e.symbol}({self.pair(e.a, e.b)})"

    def negation(self, e: expr.Not) -> str:
        """not a."""
        return f"not {self.operand(e.a, None, expr.NEGATION)}"

    def select(self, e: expr.Select) -> str:
        """T.select(condition, a, b)."""
        return f"T.select({self.text(e.condition)}, {self.pair(e.true_value, e.false_value)})"

    def load(self, e: BufferLoad) -> str:
        """A[i, j]."""
        return f"{self.name(e.buffer)}[{self.indices(e.indices)}]"

    def call(self, e: expr.Call) -> str:
        """T.exp(x); T.call("float32", "name", x) where type or name is not a known one."""
        known = script_ops.INTRINSICS.get(e.op)
        if known is not None and script_ops.inferred_dtype(e.op, e.args) == e.type:
            head = [self.text(e.args[0])] if e.op == "if_then_else" else []
            values = e.args[len(head) :]
            kinds = [a.dtype for a in values if not isinstance(a, _CONSTANT)]
            expected = kinds[0] if kinds else "float32" if known.operands == "float" else None
            args = head + [self.operand(a, expected) for a in values]
            return f"T.{e.op}({', '.join(args)})"
        args = [self.text(a) for a in e.args]
        if known is not None and known.result == "given" and len(args) == known.arity:
            return f"T.{e.op}({', '.join([quoted(e.type), *args])})"
        if e.op in script_ops.NAMED_CALLS and args and isinstance(e.args[0], expr.StringImm):
            return f"T.{e.op}({', '.join([quoted(e.type), *args])})"
        if e.op == ADDRESS:
            return f"T.address_of({args[0]})"
        if e.op == script_ops.EXTERN:
            return f"T.call_extern({', '.join([quoted(e.type), *args])})"
        effects = *script_ops.HOST_INTRINSICS, *script_ops.DEVICE_INTRINSICS
        if (e.type == "int32" and e.op in effects) or (e.type, e.op) == ("bool", "assume"):
            return f"T.{e.op}({', '.join(args)})"
        return f"T.call({', '.join([quoted(e.type), quoted(e.op), *args])})"

    def pair(self, a: expr.Expr, b: expr.Expr) -> str:
        """Two operands of one type: two constants of a default type stand bare."""
        both = isinstance(a, _CONSTANT) and isinstance(b, _CONSTANT) and a.dtype == b.dtype
        first = constant(a) if both and a.dtype in _DEFAULT else self.left(a, b, 0)
        return f"{first}, {self.right(a, b, 0)}"

    def left(self, a: expr.Expr, b: expr.Expr, level: int) -> str:
        """The first of two operands: a constant is bare only where the other one tells its type."""
        tells = isinstance(a, _CONSTANT) and not isinstance(b, _CONSTANT)
        return self.operand(a, b.dtype if tells else None, level)

    def right(self, a: expr.Expr, b: expr.Expr, level: int) -> str:
        """The second of two operands: a constant is bare where it has the first one's type."""
        return self.operand(b, a.dtype if isinstance(b, _CONSTANT) else None, level)

    def reduce(self, e: Reduce) -> str:
        """A reduction of a tensor expression (printed for the reader only)."""
        axes = ", ".join([self.name(i.var) for i in e.axis])
        where = "" if is_const(e.condition, 1) else f", where={self.text(e.condition)}"
        init = f", init={self.text(e.init[e.index])}" if e.init else ""
        source = self.text(e.sources[e.index])
        return f"T.reduce({e.combiner.name!r}, {source}, [{axes}]{where}{init})"


def typed_constant(e: expr.IntImm | expr.FloatImm, expected: str | None) -> str:
    """A constant where the reader expects a type; None: no particular one."""
    if e.type != expected:
        return constant(e, bare=False)
    if e.type in ("bool", "float32") or not math.isfinite(e.value):
        return constant(e)
    return repr(e.value)


_ONE: dict[type[expr.Expr], Callable[[ExprPrinter, Any], str]] = {
    **{o.node: ExprPrinter.infix if o.python else ExprPrinter.prefix for o in expr.OPERATORS},
    expr.Var: lambda p, e: p.name(e),
    expr.IntImm: lambda p, e: constant(e),
    expr.FloatImm: lambda p, e: constant(e),
    expr.Not: ExprPrinter.negation,
    BufferLoad: ExprPrinter.load,
    expr.Call: ExprPrinter.call,
    Reduce: ExprPrinter.reduce,
    expr.StringImm: lambda p, e: quoted(e.value),
    expr.Select: ExprPrinter.select,
    expr.Cast: lambda p, e: f'T.cast("{e.type}", {p.text(e.value)})',
    expr.Ramp: lambda p, e: f"T.ramp({p.pair(e.base, e.stride)}, {e.lanes})",
    expr.Broadcast: lambda p, e: f"T.broadcast({p.text(e.value)}, {e.lanes})",
    expr.Shuffle: lambda p, e: f"T.shuffle({p.text(e.a)}, {p.text(e.b)}, {e.indices!r})",
}
