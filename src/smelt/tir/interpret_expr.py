"""Expressions of the interpreter: each becomes Python source that computes exactly its value.

Everything is computed where it is written, operands from left to right, and a value that occurs
more than once in a statement once. Integers wrap after every operation; every index is tested.
"""

# ruff: noqa: E701 (one case a line)

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.build import value_of
from smelt.ir.errors import Unsupported
from smelt.ir.node import ordered
from smelt.ir.walk import substitute

from . import interpret_math
from .nodes import Buffer, BufferLoad
from .script_ops import operands

_SIMPLE: dict[type[expr.Expr], str] = {
    **{o.node: o.symbol for o in expr.OPERATORS if o.python is not None and o.node is not expr.Div},
    expr.And: "&",
    expr.Or: "|",
}
"""Operators that Python's integers have too; `and` and `or` take no short cut."""
_CALLED: dict[type[expr.Expr], tuple[Callable[..., Any] | None, Callable[..., Any] | None]] = {
    expr.Min: (interpret_math.least, interpret_math.least),
    expr.Max: (interpret_math.greatest, interpret_math.greatest),
    expr.Div: (interpret_math.divide, interpret_math.int_divide),
    expr.FloorMod: (interpret_math.float_floor_mod, None),
    expr.TruncDiv: (None, interpret_math.int_divide),
    expr.TruncMod: (interpret_math.fmod, interpret_math.int_remainder),
}
"""Operators that are functions of ours, of floats and of integers."""
_LONG = 80
"""Longer texts get a name."""


class Storage(NamedTuple):
    """How a buffer is kept: its Python name, element type, extents and strides in elements, and
    where in its memory it begins.

    Start, extents and strides are Python expressions: numbers, or names of what is known at run
    time.
    """

    name: str
    dtype: str
    shape: list[str]
    steps: list[str]
    start: str = ""


def dense_steps(shape: list[str]) -> list[str]:
    """Strides of an array in row-major order."""
    return [" * ".join(shape[d + 1 :]) or "1" for d in range(len(shape))]


def tuple_text(items: list[str]) -> str:
    """The source of a tuple."""
    return "(" + "".join([f"{x}, " for x in items]) + ")"


def known_number(e: expr.Expr, sizes: Mapping[expr.Var, int]) -> int | None:
    """The value of an extent, where known sizes tell it."""
    known: dict[expr.Var, expr.Expr] = {v: expr.IntImm(v.type, n) for v, n in sizes.items()}
    return value_of(e if isinstance(e, expr.IntImm) else substitute(e, known))


def number_in(text: str) -> int | None:
    """The number that a source text is; None for any other."""
    return int(text) if re.fullmatch(r"-?\d+", text) else None


class ExprEmitter:
    """Writes Python source for expressions into the innermost suite."""

    def __init__(self) -> None:
        """Start with one suite, the function's own."""
        self.suites: list[list[str]] = [[]]
        self.var_text: dict[expr.Var, str] = {}
        self.storage: dict[Buffer, Storage] = {}
        self.names: dict[str, Any] = {}
        self.memo: dict[expr.Expr, str] = {}
        self.counter = self.place = 0
        self.observed = False

    # ------------------------------------------------------------------------------ output

    def emit(self, line: str) -> None:
        """One line in the innermost suite."""
        self.suites[-1].append(line)

    def new_name(self, stem: str = "t") -> str:
        """A Python name that nothing has yet."""
        self.counter += 1
        return f"{stem}{self.counter}"

    def helper(self, name: str, value: Any) -> str:
        """A name for a Python value that the source uses."""
        self.names[name] = value
        return name

    def called(self, fn: Callable[..., Any], *args: str | int, name: str = "") -> str:
        """A call of one of our functions."""
        return f"{self.helper(name or fn.__name__, fn)}({', '.join(map(str, args))})"

    @contextmanager
    def suite(self) -> Iterator[list[str]]:
        """A suite of its own; its lines are not yet in the one around."""
        lines: list[str] = []
        memo, self.memo = self.memo, dict(self.memo)
        self.suites.append(lines)
        yield lines
        self.suites.pop()
        self.memo = memo

    def nest(self, header: str, lines: list[str]) -> None:
        """A finished suite under its header."""
        self.emit(header)
        self.suites[-1].extend(["    " + line for line in lines or ["pass"]])

    def keep(self, text: str) -> str:
        """A name for a value that is computed now."""
        name = self.new_name()
        self.emit(f"{name} = {text}")
        return name

    def require(self, condition: str, message: str, *values: str) -> None:
        """A test on which the program goes on; `message` has a {} for every value."""
        self.emit(f"if not ({condition}): fail({', '.join([repr(message), *values])})")

    def named(self, e: expr.Expr) -> str:
        """A value as a name or a number, which stays the same whatever is stored later."""
        text = self.value(e)
        return text if text.isidentifier() or number_in(text) is not None else self.keep(text)

    # ------------------------------------------------------------------------------ values

    def value(self, e: expr.Expr) -> str:
        """A Python expression for the value, rounded to its type. May write statements first."""
        if e not in self.memo:
            for node in ordered([e], self.needed):
                if node not in self.memo:
                    self.memo[node] = self.rounded(node, self.operation(node))
        return self.memo[e]

    def needed(self, e: expr.Expr) -> list[expr.Expr]:
        """What has to be computed before an expression in any case."""
        if e in self.memo:
            return []
        lazy = isinstance(e, expr.Call) and e.op == "if_then_else"
        return operands(e)[:1] if lazy else operands(e)

    def rounded(self, e: expr.Expr, text: str) -> str:
        """A computed value as one of its type."""
        computed = isinstance(e, expr.Call) and e.op != "if_then_else"
        computed |= isinstance(e, expr.Cast | expr.Binary) and not isinstance(
            e, expr.Min | expr.Max | expr.Compare
        )
        if computed and e.dtype == "float32":
            self.emit(f"R[0] = {text}")  # an array of float32 rounds what is stored in it
            return self.keep("R[0]")
        if computed and dt.is_float(e.dtype) and e.dtype != "float64":
            return self.keep(
                self.called(interpret_math.rounder(e.dtype), text, name=f"round_{e.dtype}")
            )
        return text if len(text) < _LONG else self.keep(text)

    def operation(self, e: expr.Expr) -> str:
        """The operation of one node on the values of its operands, not yet rounded."""
        # fmt: off
        match e:
            case expr.IntImm("bool", value):              return str(bool(value))
            case expr.IntImm(_, value):                   return str(value)
            case expr.FloatImm(kind, value):
                return repr(interpret_math.rounder(kind)(value))
            case expr.StringImm(value):                   return repr(value)
            case expr.Var():                              return self.variable(e)
            case BufferLoad(buffer, indices):        return self.load(buffer, indices)
            case expr.Not(a):                             return f"(not {self.value(a)})"
            case expr.Binary():                           return self.binary(e)
            case expr.Cast(kind, value):                  return self.cast(kind, value)
            case expr.Call(_, "if_then_else", (c, a, b)): return self.if_then_else(c, a, b)
            case expr.Call():                             return self.call(e)
            case expr.Select(c, a, b):
                return f"({self.value(a)} if {self.value(c)} else {self.value(b)})"
        # fmt: on
        raise Unsupported(f"the interpreter does not know {type(e).__name__}")

    def variable(self, v: expr.Var) -> str:
        """What a variable has been bound to."""
        if v not in self.var_text:
            raise Unsupported(
                f"the variable {v.name} has no value: it is neither a parameter nor the "
                "size of one, nor bound by a loop around"
            )
        return self.var_text[v]

    def binary(self, e: expr.Binary) -> str:
        """One operator; integers wrap where it can leave their type."""
        a, b = self.value(e.a), self.value(e.b)
        kind, cls = dt.kind(e.a.dtype), type(e)
        fn = _CALLED.get(cls, (None, None))[kind != "float"]
        if fn is None and cls not in _SIMPLE:
            raise Unsupported(f"the interpreter does not know {e.symbol} of values of {e.a.dtype}")
        text = f"({a} {_SIMPLE[cls]} {b})" if fn is None else self.called(fn, a, b)
        if kind == "float":
            return text
        if isinstance(e, expr.Add | expr.Sub | expr.Mul):
            return self.wrapped(text, e.dtype)
        if isinstance(e, expr.FloorDiv | expr.TruncDiv | expr.Div) and number_in(b) in (None, -1):
            return self.wrap_call(text, e.dtype)  # the lowest value divided by -1
        return text

    def wrap_call(self, text: str, dtype: str) -> str:
        """An integer reduced to its type by a function, as part of an expression."""
        return self.called(interpret_math.wrapper(dtype), text, name=f"wrap_{dtype}")

    def wrapped(self, text: str, dtype: str) -> str:
        """An integer reduced to its type; written so that it is quick where it is in it."""
        if dtype == "bool":
            return f"bool({text})"
        low, high = dt.limits(dtype)
        name = self.keep(text)
        self.emit(f"if not {low} <= {name} <= {high}: {name} = {self.wrap_call(name, dtype)}")
        return name

    def cast(self, kind: str, value: expr.Expr) -> str:
        """A conversion."""
        text, source = self.value(value), value.dtype
        if dt.is_float(kind):
            wide = kind == "float32" and not dt.is_float(source) and dt.width(source) > 32
            return self.called(interpret_math.int_to_single if wide else float, text)
        if kind == "bool":
            return f"({text} != 0)"
        low, high = dt.limits(kind)
        if dt.is_float(source):
            if dt.width(kind) < 8:  # the low bits of the number as int32
                return self.wrap_call(
                    self.called(interpret_math.float_to_int, text, *dt.limits("int32")), kind
                )
            return self.called(interpret_math.float_to_int, text, low, high)
        if source == "bool":
            return f"int({text})"
        lowest, highest = dt.limits(source)
        return text if low <= lowest and highest <= high else self.wrapped(text, kind)

    def if_then_else(self, c: expr.Expr, a: expr.Expr, b: expr.Expr) -> str:
        """Only the value that is asked for is computed."""
        test = self.value(c)
        with self.suite() as yes:
            yes_text = self.value(a)
        with self.suite() as no:
            no_text = self.value(b)
        if not yes and not no:
            return f"({yes_text} if {test} else {no_text})"
        name = self.new_name()
        self.nest(f"if {test}:", [*yes, f"{name} = {yes_text}"])
        self.nest("else:", [*no, f"{name} = {no_text}"])
        return name

    def call(self, e: expr.Call) -> str:
        """An intrinsic."""
        args = [self.value(a) for a in e.args]
        if e.op.startswith("smelt."):
            return f"host({', '.join([repr(e.op), *args])})"
        source = e.args[0].dtype if e.args else e.type
        fn = interpret_math.typed_function(e.op, e.type, source)
        if fn is None:
            raise Unsupported(f"the interpreter does not know the intrinsic {e.op}")
        return self.called(fn, *args, name=f"{e.op}_{e.type}_{source}")

    # ------------------------------------------------------------------------------- access

    def load(self, buffer: Buffer, indices: tuple[expr.Expr, ...]) -> str:
        """One element."""
        own, at = self.element(buffer, indices)
        if self.observed:
            at = self.keep(at)
            self.emit(f"reads({self.place}, {own.name}, {at}, {self.index_tuple(indices)})")
        coded = interpret_math.codec(own.dtype)
        if coded is None:
            return f"{own.name}[{at}]"
        return f"{self.helper('decode_' + own.dtype, coded[0])}[{own.name}[{at}]]"

    def index_tuple(self, indices: tuple[expr.Expr, ...]) -> str:
        """The indices as a Python tuple."""
        return tuple_text([self.value(i) for i in indices])

    def element(self, buffer: Buffer, indices: tuple[expr.Expr, ...]) -> tuple[Storage, str]:
        """An element's buffer and its position in memory, tested against the shape."""
        own = self.kept(buffer)
        if len(indices) != len(own.shape):
            raise Unsupported(
                f"{buffer.name} has {len(own.shape)} dimensions, {len(indices)} indices given"
            )
        texts = [self.value(i) for i in indices]
        if texts:
            tests = [f"0 <= {t} < {n}" for t, n in zip(texts, own.shape, strict=True)]
            index = ", ".join(["{}"] * len(texts))
            message = f"{buffer.name}[{index}] is outside of its shape {{}}"
            self.require(" and ".join(tests), message, *texts, tuple_text(own.shape))
        steps = zip(texts, own.steps, strict=True)
        terms = [own.start] * (own.start != "0")
        return own, " + ".join(
            [*terms, *[t if s == "1" else f"{t} * {s}" for t, s in steps]]
        ) or "0"

    def kept(self, buffer: Buffer) -> Storage:
        """Where a buffer is kept."""
        if buffer not in self.storage:
            raise Unsupported(
                f"the buffer {buffer.name} is used where it is neither a parameter nor allocated"
            )
        return self.storage[buffer]
