"""Expressions of the text form: from Python's syntax tree to nodes, without folding.

What is written is what is built: `i + 0` stays an addition. Only numbers among themselves are
computed (`16 * 8`), as are names that the surrounding Python program defines.
"""

# ruff: noqa: E701, RET503 (one case a line; fail() does not return)

from __future__ import annotations

import ast
import math
import operator
import struct
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import ParseError
from smelt.ir.expr import (
    EQ,
    GE,
    GT,
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
    convert,
    matched,
)

from .nodes import Buffer, BufferLoad, IterVar, Range
from .script_ops import DTYPE_NAMES, HOST_INTRINSICS, INTRINSICS, inferred_dtype

__all__ = ["ExprParser", "Source"]

_BINARY: dict[type[ast.operator], type[Binary]] = {
    ast.Add: Add,
    ast.Sub: Sub,
    ast.Mult: Mul,
    ast.Div: Div,
    ast.FloorDiv: FloorDiv,
    ast.Mod: FloorMod,
}
_NUMBERS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: dict[type[ast.cmpop], type[Binary]] = {
    ast.Eq: EQ,
    ast.NotEq: NE,
    ast.Lt: LT,
    ast.LtE: LE,
    ast.Gt: GT,
    ast.GtE: GE,
}
_CALLS: dict[str, type[Binary]] = {
    "min": Min,
    "max": Max,
    "truncdiv": TruncDiv,
    "truncmod": TruncMod,
}
_MISSING = object()


class Source:
    """A text being parsed, for the positions in errors."""

    def __init__(self, text: str, path: str, first_line: int = 1, indent: int = 0) -> None:
        """Remember the text; line numbers begin at `first_line`, columns after `indent`."""
        self.lines = text.splitlines()
        self.path, self.first_line, self.indent = path, first_line, indent

    def error(self, node: ast.AST | tuple[int, int], message: str) -> NoReturn:
        """Raise a ParseError that shows the place."""
        if isinstance(node, tuple):
            line, column, width = node[0], node[1], 1
        else:
            line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
            same_line = getattr(node, "end_lineno", line) == line
            width = getattr(node, "end_col_offset", column + 1) - column if same_line else 1
        text = self.lines[line - 1] if line - 1 < len(self.lines) else ""
        width = max(1, min(width, len(text) - column))
        where = f"{self.path}:{self.first_line + line - 1}:{self.indent + column + 1}"
        raise ParseError(f"{where}: {message}\n  {text}\n  {' ' * column}{'^' * width}")


class ExprParser:
    """Parses expressions in a stack of scopes; unknown names come from `env` (Python values)."""

    def __init__(self, source: Source, env: Mapping[str, Any]) -> None:
        """Start with one empty scope."""
        self.source, self.env = source, env
        self.scopes: list[dict[str, Var | Buffer]] = [{}]

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        """Raise a ParseError at a node."""
        self.source.error(node, message)

    # ------------------------------------------------------------------------------- names

    def define(self, name: str, value: Var | Buffer) -> None:
        """Bind a name in the innermost scope."""
        self.scopes[-1][name] = value

    def lookup(self, node: ast.Name) -> Any:
        """What a name stands for: of the program, else of the Python program around it."""
        for scope in reversed(self.scopes):
            if node.id in scope:
                return scope[node.id]
        found = self.env.get(node.id, _MISSING)
        if found is _MISSING:
            known = ", ".join(dict.fromkeys(n for s in self.scopes for n in s)) or "none"
            self.fail(node, f"'{node.id}' is not defined here; defined: {known}")
        if isinstance(found, np.generic):
            return found.item()
        return found

    # ------------------------------------------------------------------------- expressions

    def expr(self, node: ast.expr, expected: str | None = None) -> Expr:
        """An expression; a bare number takes the expected type."""
        value = self.value(node)
        if isinstance(value, str):
            return StringImm(value)
        if isinstance(value, bool | int | float):
            return self.number(node, value, expected)
        if isinstance(value, IterVar):
            return value.var
        if not isinstance(value, Expr):
            self.fail(node, f"expected a value, got {_describe(value)}")
        return value

    def number(self, node: ast.expr, value: float | bool, expected: str | None) -> Expr:
        """A bare number as a constant."""
        if (
            expected is not None
            and isinstance(value, float)
            and dt.is_int(expected)
            and not value.is_integer()
        ):
            self.fail(node, f"{value} is not a value of {expected}")
        return const(value, expected)

    def value(self, node: ast.expr) -> Any:
        """An expression, or a Python number, text or tuple."""
        # fmt: off
        match node:
            case ast.Constant(value):           return value
            case ast.Name():                    return self.lookup(node)
            case ast.BinOp():                   return self.chain(node)
            case ast.UnaryOp():                 return self.unary(node)
            case ast.BoolOp(op, values):        return self.logical(op, values)
            case ast.Compare():                 return self.compare(node)
            case ast.Subscript():               return self.load(node)
            case ast.Call():                    return self.call(node)
            case ast.Tuple(elts):               return tuple([self.value(e) for e in elts])
            case ast.Attribute():               return self.attribute(node)
            case ast.IfExp(c, a, b):            return self.choice(c, a, b)
        # fmt: on
        self.fail(node, f"{type(node).__name__} is not part of the script language")

    def attribute(self, node: ast.Attribute) -> Any:
        """A Python value's attribute, e.g. cfg.size or A.shape."""
        base = self.value(node.value)
        if hasattr(base, node.attr) and not node.attr.startswith("_"):
            return getattr(base, node.attr)
        self.fail(node, f"{_describe(base)} has no attribute '{node.attr}'")

    def chain(self, node: ast.BinOp) -> Any:
        """a + b + c + ...: the left spine is walked, not recursed into."""
        spine: list[ast.BinOp] = []
        at: ast.expr = node
        while isinstance(at, ast.BinOp):
            spine.append(at)
            at = at.left
        left = self.value(at)
        for part in reversed(spine):
            left = self.binary(part, left, self.value(part.right))
        return left

    def binary(self, node: ast.BinOp, a: Any, b: Any) -> Any:
        """One operator on two values."""
        if _is_number(a) and _is_number(b):
            try:
                return _NUMBERS[type(node.op)](a, b)
            except (KeyError, ArithmeticError) as e:
                self.fail(node, f"cannot compute this: {e}")
        cls = _BINARY.get(type(node.op))
        if cls is None:
            self.fail(
                node,
                f"the operator {type(node.op).__name__} is not part of the script language; "
                "use T.pow, T.bitwise_and, T.shift_left, ...",
            )
        return self.matched(node, cls, a, b)

    def matched(self, node: ast.expr, cls: type[Binary], a: Any, b: Any) -> Expr:
        """`cls(a, b)` with bare numbers in the other operand's type, nothing folded."""
        for x in (a, b):
            if not (_is_number(x) or isinstance(x, Expr | IterVar)):
                self.fail(node, f"expected a value, got {_describe(x)}")
        try:
            x, y = matched(_plain(a), _plain(b))
        except (TypeError, KeyError):
            self.fail(node, f"no operation on {_type_of(a)} and {_type_of(b)}")
        if cls is FloorDiv and dt.is_float(x.dtype):
            return Call(x.dtype, "floor", (Div(x, y),))
        return cls(x, y)

    def unary(self, node: ast.UnaryOp) -> Any:
        """-x and not x."""
        value = self.value(node.operand)
        if isinstance(node.op, ast.USub):
            if _is_number(value):
                return -value
            return self.matched(node, Sub, const(0, dt.scalar(_type_of(value))), value)
        if isinstance(node.op, ast.Not):
            return (not value) if _is_number(value) else Not(self.expr(node.operand))
        self.fail(node, "only - and not can stand before a value; use T.bitwise_not")

    def logical(self, op: ast.boolop, values: list[ast.expr]) -> Any:
        """a and b and c, from the left."""
        cls = And if isinstance(op, ast.And) else Or
        left = self.value(values[0])
        for node in values[1:]:
            left = self.matched(
                node, cls, left if isinstance(left, Expr) else const(bool(left)), self.value(node)
            )
        return left

    def compare(self, node: ast.Compare) -> Any:
        """a < b; a chain a < b < c is the conjunction."""
        left, result = self.value(node.left), None
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            cls = _COMPARE.get(type(op))
            if cls is None:
                self.fail(
                    node, f"the comparison {type(op).__name__} is not part of the script language"
                )
            if _is_number(left) and _is_number(right):
                left = const(left)
            part = self.matched(node, cls, left, right)
            result = part if result is None else And(result, part)
            left = right
        return result

    def choice(self, c: ast.expr, a: ast.expr, b: ast.expr) -> Expr:
        """a if c else b, as T.if_then_else."""
        x, y = self.pair(a, b)
        return Call(x.dtype, "if_then_else", (self.expr(c), x, y))

    def pair(self, a: ast.expr, b: ast.expr) -> tuple[Expr, Expr]:
        """Two operands of one type."""
        joined = self.matched(a, Add, *self.explicit(self.value(a), self.value(b)))
        assert isinstance(joined, Binary)
        return joined.a, joined.b

    def explicit(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Two bare numbers as two constants of one default type."""
        if _is_number(a) and _is_number(b):
            kind = "float32" if isinstance(a, float) or isinstance(b, float) else None
            return const(a, kind), const(b, kind)
        return a, b

    # ------------------------------------------------------------------------------- loads

    def load(self, node: ast.Subscript) -> Any:
        """buffer[indices], or a Python sequence's element."""
        base = self.value(node.value)
        if isinstance(base, Buffer):
            return BufferLoad(base, self.indices(base, node))
        index = self.value(node.slice)
        if isinstance(base, tuple | list | dict) and isinstance(index, int | str):
            return base[index]  # type: ignore[index]
        self.fail(node, f"{_describe(base)} cannot be indexed")

    def indices(self, buffer: Buffer, node: ast.Subscript) -> tuple[Expr, ...]:
        """The indices between brackets, as many as the buffer has dimensions."""
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(items) != buffer.rank:
            self.fail(
                node, f"{buffer.name} has {buffer.rank} dimensions, {len(items)} indices given"
            )
        return tuple([self.expr(i) for i in items])

    def interval(self, node: ast.AST, low: Any, high: Any) -> Range:
        """The Range low:high; `low + x` as the upper end gives the extent x."""
        if _is_number(low) and _is_number(high):
            return Range(const(low), const(high - low))
        begin, end = matched(_plain(low), _plain(high))
        if isinstance(end, Add) and end.a is begin:
            return Range(begin, end.b)
        return Range(begin, end - begin)

    # ------------------------------------------------------------------------------- calls

    def script_name(self, node: ast.expr) -> str | None:
        """ "block" for T.block, "axis.spatial" for T.axis.spatial, None for anything else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        return ".".join(reversed(parts)) if isinstance(node, ast.Name) and node.id == "T" else None

    def call(self, node: ast.Call) -> Any:
        """T.something(...)."""
        name = self.script_name(node.func)
        if name is None:
            if isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1:
                return float(self.value(node.args[0]))
            self.fail(node, "only functions of T can be called")
        args = node.args
        if node.keywords:
            self.fail(node, f"T.{name} takes no keywords here")
        if name in _CALLS:
            self.count(node, 2)
            a, b = self.pair(args[0], args[1])
            return _CALLS[name](a, b)
        if dt_name(name):
            return self.typed(node, name)
        special: Callable[[ast.Call], Expr] | None = getattr(self, "call_" + name, None)
        if special is not None:
            return special(node)
        if name in INTRINSICS:
            return self.intrinsic(node, name)
        if name in HOST_INTRINSICS:
            return Call("int32", name, tuple([self.expr(a) for a in args]))
        self.fail(
            node.func,
            f"T has no value '{name}'; an intrinsic that is not listed is written "
            f'T.call("dtype", "{name}", ...)',
        )

    def count(self, node: ast.Call, n: int) -> None:
        """Check the number of arguments."""
        if len(node.args) != n:
            self.fail(
                node, f"T.{self.script_name(node.func)} takes {n} operands, {len(node.args)} given"
            )

    def intrinsic(self, node: ast.Call, name: str) -> Expr:
        """A pure intrinsic whose type follows from its operands."""
        self.count(node, INTRINSICS[name])
        head = [self.expr(node.args[0])] if name == "if_then_else" else []
        values = [self.value(a) for a in node.args[len(head) :]]
        known = [v.dtype for v in map(_plain, values) if isinstance(v, Expr)]
        exprs = [
            self.number(a, v, known[0] if known else None) if _is_number(v) else self.expr(a)
            for a, v in zip(node.args[len(head) :], values, strict=True)
        ]
        args = tuple(head + exprs)
        kind = inferred_dtype(name, args)
        if kind is None:
            self.fail(
                node, f'T.{name} does not tell its type; write T.call("dtype", "{name}", ...)'
            )
        return Call(kind, name, args)

    def typed(self, node: ast.Call, kind: str) -> Expr:
        """T.float16(1.5), T.int32(3), T.float32("inf"); of an expression: the conversion."""
        self.count(node, 1)
        value = self.value(node.args[0])
        if isinstance(value, Expr | IterVar):
            return Cast(kind, self.expr(node.args[0]))
        if dt.is_float(kind):
            if isinstance(value, str) and value.startswith("nan:"):
                return FloatImm(kind, struct.unpack("<d", bytes.fromhex(value[4:]))[0])
            number = float(value)
            return const(number, kind) if math.isfinite(number) else FloatImm(kind, number)
        if isinstance(value, float) and not value.is_integer():
            self.fail(node, f"{value} is not a value of {kind}")
        return IntImm(kind, int(value))

    def text_arg(self, node: ast.expr) -> str:
        """An argument that must be a text."""
        value = self.value(node)
        if not isinstance(value, str):
            self.fail(node, f"expected a text, got {_describe(value)}")
        return value

    def dtype_arg(self, node: ast.expr) -> str:
        """An argument that must be the name of an element type."""
        text = self.text_arg(node)
        try:
            dt.lanes(text)
        except TypeError as e:
            self.fail(node, str(e))
        return text

    def int_arg(self, node: ast.expr) -> int:
        """An argument that must be a number known here."""
        value = self.value(node)
        if not isinstance(value, int):
            self.fail(node, f"expected an integer, got {_describe(value)}")
        return value

    def call_FloatImm(self, node: ast.Call) -> Expr:
        """T.FloatImm("float32", 0.1): a double that is not rounded."""
        return FloatImm(self.dtype_arg(node.args[0]), float(self.value(node.args[1])))

    def call_call(self, node: ast.Call) -> Expr:
        """T.call("float32", "name", ...): any intrinsic."""
        if len(node.args) < 2:
            self.fail(node, "T.call takes a type, a name and operands")
        kind, name = self.dtype_arg(node.args[0]), self.text_arg(node.args[1])
        return Call(kind, name, tuple([self.expr(a) for a in node.args[2:]]))

    def call_cast(self, node: ast.Call) -> Expr:
        """T.cast("float32", x)."""
        self.count(node, 2)
        kind, value = self.dtype_arg(node.args[0]), self.expr(node.args[1])
        return Cast(dt.vector(kind, dt.lanes(value.dtype)) if dt.lanes(kind) == 1 else kind, value)

    def call_select(self, node: ast.Call) -> Expr:
        """T.select(c, a, b)."""
        self.count(node, 3)
        a, b = self.pair(node.args[1], node.args[2])
        return Select(self.expr(node.args[0]), a, b)

    def call_ramp(self, node: ast.Call) -> Expr:
        """T.ramp(base, stride, lanes)."""
        self.count(node, 3)
        base, stride = self.pair(node.args[0], node.args[1])
        return Ramp(base, stride, self.int_arg(node.args[2]))

    def call_broadcast(self, node: ast.Call) -> Expr:
        """T.broadcast(value, lanes)."""
        self.count(node, 2)
        return Broadcast(self.expr(node.args[0]), self.int_arg(node.args[1]))

    def call_shuffle(self, node: ast.Call) -> Expr:
        """T.shuffle(a, b, (0, 1, ...))."""
        self.count(node, 3)
        lanes = self.value(node.args[2])
        if not isinstance(lanes, tuple) or not all(isinstance(i, int) for i in lanes):
            self.fail(node.args[2], "expected a tuple of lane numbers")
        return Shuffle(self.expr(node.args[0]), self.expr(node.args[1]), lanes)


def dt_name(name: str) -> bool:
    """Whether T.name is an element type."""
    base, x, count = name.rpartition("x")
    return name in DTYPE_NAMES or (bool(x) and base in DTYPE_NAMES and count.isdigit())


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float)


def _plain(value: Any) -> Any:
    return value.var if isinstance(value, IterVar) else value


def _type_of(value: Any) -> str:
    return str(convert(value).dtype)


def _describe(value: object) -> str:
    if isinstance(value, Buffer):
        return f"the buffer {value.name}"
    return f"{type(value).__name__} {value!r}"[:80]
