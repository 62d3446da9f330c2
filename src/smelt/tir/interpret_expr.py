"""Expressions of the interpreter: each becomes Python source that computes exactly its value.

Integer expressions of loop variables are computed in the outermost loop that knows them. Ranges of
integers are tracked, so that wrapping and bounds checks are written only where they can matter.
"""

# ruff: noqa: E701 (one case a line)

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import Unsupported
from smelt.ir.expr import (
    INDEX,
    Add,
    And,
    Binary,
    Call,
    Cast,
    Compare,
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
    Select,
    StringImm,
    TruncDiv,
    TruncMod,
    Var,
)

from .interpret_bounds import Bounds, Interval, unknown_nodes
from .interpret_math import codec, rounder, typed_function, wrap_range
from .nodes import Buffer, BufferLoad
from .script_ops import OPERATORS, expr_nodes

__all__ = ["ExprEmitter", "Frame", "Size", "Storage", "memory_size"]

_SIMPLE: dict[type[Expr], str] = {
    o.node: o.symbol for o in OPERATORS if o.python is not None and o.node is not Div
}
"""Operators that Python's integers have too."""
_CALLED: dict[type[Expr], str] = {Min: "least", Max: "greatest"}
_FLOAT_CALLED: dict[type[Expr], str] = {
    **_CALLED,
    Div: "divide",
    FloorMod: "float_floor_mod",
    TruncMod: "fmod",
}
_INT_CALLED: dict[type[Expr], str] = {
    **_CALLED,
    Div: "int_divide",
    TruncDiv: "int_divide",
    TruncMod: "int_remainder",
}


class Frame:
    """One suite of the Python source: its lines, and what has been computed in it."""

    def __init__(self) -> None:
        """Start empty."""
        self.lines: list[str] = []
        self.memo: dict[Expr, str] = {}


Size = int | str
"""An extent or a stride in elements: a number, or the Python name of one known at run time."""


class Storage:
    """How a buffer is kept: its Python name, its shape, strides and element type."""

    def __init__(
        self, name: str, shape: tuple[Size, ...], dtype: str, steps: tuple[Size, ...] | None = None
    ) -> None:
        """Remember them; without `steps` the elements stand in row-major order, dense."""
        self.name, self.shape, self.dtype = name, shape, dtype
        self.steps = dense_steps(shape) if steps is None else steps
        self.coded = codec(dtype) is not None

    def count(self) -> Size:
        """The elements of memory that it takes, from the first to the last."""
        if all(isinstance(n, int) for n in (*self.shape, *self.steps)):
            return memory_size(self.shape, self.steps)  # type: ignore[arg-type]
        return f"memory_size({_tuple(self.shape)}, {_tuple(self.steps)})"


def dense_steps(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """Strides of an array in row-major order."""
    steps: list[Size] = []
    step: Size = 1
    for n in reversed(shape):
        steps.append(step)
        step = step * n if isinstance(n, int) and isinstance(step, int) else f"({step} * {n})"
    return tuple(reversed(steps))


def memory_size(shape: tuple[int, ...], steps: tuple[int, ...]) -> int:
    """The elements from the first to the last one of an array."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))


def _tuple(items: tuple[Size, ...]) -> str:
    return "(" + "".join([f"{x}, " for x in items]) + ")"


class ExprEmitter:
    """Writes Python source for expressions into the innermost frame."""

    def __init__(self) -> None:
        """Start with one frame, the function's own."""
        self.frames = [Frame()]
        self.var_text: dict[Var, str] = {}
        self.var_level: dict[Var, int] = {}
        self.bounds = Bounds()
        self.storage: dict[Buffer, Storage] = {}
        self.names: dict[str, Any] = {}
        self.memo: dict[Expr, str] = {}
        self.levels: dict[Expr, int | None] = {}
        self.counter = self.slots = self.place = 0
        self.watched = False

    # ------------------------------------------------------------------------------ output

    def emit(self, line: str) -> None:
        """One line in the innermost suite."""
        self.frames[-1].lines.append(line)

    def fresh(self, stem: str = "t") -> str:
        """A Python name that nothing has yet."""
        self.counter += 1
        return f"{stem}{self.counter}"

    def helper(self, stem: str, value: Any) -> str:
        """A name for a Python value that the source uses."""
        self.names.setdefault(stem, value)
        return stem

    @contextmanager
    def suite(self) -> Iterator[Frame]:
        """A suite of its own; its lines are not yet in the one around."""
        frame, memo = Frame(), self.memo
        self.frames.append(frame)
        self.memo = dict(memo)
        try:
            yield frame
        finally:
            self.frames.pop()
            self.memo = memo

    def nest(self, header: str, frame: Frame) -> None:
        """A finished suite under its header."""
        self.emit(header)
        self.frames[-1].lines.extend("    " + line for line in frame.lines or ["pass"])

    def bind(self, var: Var, text: str, level: int, interval: Interval | None) -> None:
        """From here on `var` is the Python expression `text`, known since frame `level`."""
        if var in self.var_text:
            self.bounds.forget(var)
            self.levels.clear()
            for frame in self.frames:
                frame.memo = {e: t for e, t in frame.memo.items() if not _mentions(e, var)}
        self.var_text[var], self.var_level[var] = text, level
        if interval is not None:
            self.bounds.facts[var] = interval

    # ------------------------------------------------------------------------ pure integers

    def level(self, e: Expr) -> int | None:
        """The frame since which an integer expression can be computed; None if it needs care."""
        if e not in self.levels:
            for node in unknown_nodes(e, self.levels):
                self.levels[node] = self.own_level(node)
        return self.levels[e]

    def own_level(self, e: Expr) -> int | None:
        """`level` of a node whose operands are known."""
        match e:
            case IntImm():
                return 0
            case Var():
                return self.var_level.get(e) if not dt.is_float(e.dtype) else None
            case FloorDiv(_, b) | FloorMod(_, b) | TruncDiv(_, b) | TruncMod(_, b) | Div(_, b):
                divisor = self.bounds.of(b)
                if dt.is_float(b.dtype) or divisor is None or divisor[0] <= 0 <= divisor[1]:
                    return None
                parts: tuple[Expr, ...] = (e.a, b)
            case Binary(a, b):
                parts = (a, b)
            case Not(a):
                parts = (a,)
            case Cast(_, a) if not dt.is_float(e.dtype):
                parts = (a,)
            case Select(c, a, b) if not dt.is_float(e.dtype):
                parts = (c, a, b)
            case _:
                return None
        levels = [self.levels[p] for p in parts]
        known = [n for n in levels if n is not None]
        return max(known) if len(known) == len(levels) else None

    def hoisted(self, e: Expr, level: int) -> str:
        """A pure integer expression, computed in the outermost frame that can."""
        if isinstance(e, IntImm | Var):
            return self.plain(e)
        memo = self.frames[level].memo
        if e not in memo:
            text = self.operation(e)
            if level < len(self.frames) - 1 or len(text) > 60:
                name = self.fresh()
                self.frames[level].lines.append(f"{name} = {text}")
                text = name
            memo[e] = text
        return memo[e]

    # ------------------------------------------------------------------------------ values

    def value(self, e: Expr) -> str:
        """A Python expression for the value, rounded to its type. May write statements first."""
        if e not in self.memo:
            level = self.level(e)
            if level is not None:
                return self.hoisted(e, level)
            self.prepare(e)
            self.memo[e] = self.rounded(e, self.operation(e))
        return self.memo[e]

    def prepare(self, e: Expr) -> None:
        """Compute long chains from the inside, so that Python's stack does not grow with them."""
        if (
            isinstance(e, Binary)
            and isinstance(e.a, Binary)
            and isinstance(e.a.a, Binary)
            and e.a not in self.memo
        ):
            for node in () if self.lazy_inside(e) else expr_nodes(e.a):
                if isinstance(node, Binary):
                    self.value(node)

    def lazy_inside(self, e: Expr) -> bool:
        """Whether parts of an expression must not be computed unasked."""
        return any(isinstance(n, Call) and n.op == "if_then_else" for n in expr_nodes(e))

    def rounded(self, e: Expr, text: str) -> str:
        """A computed value as one of its type, kept in a place of its own where it is a float."""
        if isinstance(
            e, FloatImm | IntImm | Var | BufferLoad | Select | Not | Compare | StringImm | Min | Max
        ):
            return text if len(text) < 80 else self.keep(text)
        if e.dtype == "float32" and not (isinstance(e, Call) and e.op == "if_then_else"):
            self.slots += 1
            self.emit(f"R[{self.slots - 1}] = {text}")
            return f"R[{self.slots - 1}]"
        if (
            dt.is_float(e.dtype)
            and e.dtype != "float64"
            and not (isinstance(e, Call) and e.op == "if_then_else")
        ):
            return self.keep(f"{self.helper('round_' + e.dtype, rounder(e.dtype))}({text})")
        return text if len(text) < 80 else self.keep(text)

    def keep(self, text: str) -> str:
        """A variable with this value."""
        name = self.fresh()
        self.emit(f"{name} = {text}")
        return name

    def stored(self, e: Expr, dtype: str) -> str:
        """A value on its way into a float32 buffer, which rounds by itself."""
        if dtype == e.dtype == "float32" and isinstance(e, Binary) and e not in self.memo:
            self.prepare(e)
            return self.operation(e)
        return self.value(e)

    def plain(self, e: Expr) -> str:
        """A constant or a variable."""
        match e:
            case IntImm("bool", value):
                return str(bool(value))
            case IntImm(_, value):
                return str(value) if value >= 0 else f"({value})"
            case FloatImm(kind, value):
                with np.errstate(all="ignore"):
                    number = rounder(kind)(value)
                if math.isfinite(number):
                    return repr(number) if math.copysign(1, number) > 0 else f"({number!r})"
                return {"inf": "inf", "-inf": "(-inf)", "nan": "nan"}[str(number)]
            case Var():
                if e not in self.var_text:
                    raise Unsupported(
                        f"the variable {e.name} has no value: it is neither a parameter nor the "
                        "size of one, nor bound by a loop around"
                    )
                return self.var_text[e]
        raise TypeError(type(e).__name__)

    def operation(self, e: Expr) -> str:
        """The operation of one node on the values of its operands, not yet rounded."""
        # fmt: off
        match e:
            case IntImm() | FloatImm() | Var():     return self.plain(e)
            case StringImm(value):                  return repr(value)
            case BufferLoad(buffer, indices):       return self.load(buffer, indices)
            case Not(a):                            return f"(not {self.value(a)})"
            case Binary():                          return self.binary(e)
            case Select(c, a, b):
                yes, no, test = self.value(a), self.value(b), self.value(c)
                return f"({yes} if {test} else {no})"
            case Cast(kind, value):                 return self.cast(kind, value)
            case Call(_, "if_then_else", (c, a, b)): return self.if_then_else(c, a, b)
            case Call():                            return self.call(e)
        # fmt: on
        raise Unsupported(f"the interpreter does not know {type(e).__name__}")

    def binary(self, e: Binary) -> str:
        """One operator; integers wrap where they can leave their type."""
        a, b = self.value(e.a), self.value(e.b)
        kind, cls = dt.kind(e.a.dtype), type(e)
        called = (_FLOAT_CALLED if kind == "float" else _INT_CALLED).get(cls)
        if not called and cls not in _SIMPLE:
            raise Unsupported(f"the interpreter does not know {e.symbol} of values of {e.a.dtype}")
        text = f"{called}({a}, {b})" if called else f"({a} {_SIMPLE[cls]} {b})"
        if kind == "float" or isinstance(e, Compare | And | Or):
            return text
        return self.wrapped(text, e.dtype, self.bounds.raw(e))

    def wrapped(self, text: str, dtype: str, interval: Interval | None) -> str:
        """An integer reduced to its type, unless its range says that it is in it."""
        low, high = wrap_range(dtype)
        if dtype == "bool":
            return f"bool({text})"
        if interval is not None and low <= interval[0] and interval[1] <= high:
            return text
        mask = high - low
        return f"(({text} & {mask}))" if low == 0 else f"((({text} + {-low}) & {mask}) - {-low})"

    def cast(self, kind: str, value: Expr) -> str:
        """A conversion."""
        text, source = self.value(value), value.dtype
        if dt.is_float(kind):
            if dt.is_float(source):
                return text
            interval = self.bounds.of(value)
            exact = interval is not None and max(-interval[0], interval[1]) <= 1 << 53
            return f"float({text})" if exact or kind != "float32" else f"int_to_single({text})"
        if kind == "bool":
            return f"({text} != 0)"
        if dt.is_float(source):
            if dt.width(kind) < 8:  # the low bits of the number as int32
                low, high = wrap_range("int32")
                return self.wrapped(f"float_to_int({text}, {low}, {high})", kind, None)
            low, high = wrap_range(kind)
            return f"float_to_int({text}, {low}, {high})"
        text = f"int({text})" if source == "bool" else text
        return self.wrapped(text, kind, self.bounds.of(value))

    def if_then_else(self, c: Expr, a: Expr, b: Expr) -> str:
        """Only the value that is asked for is computed."""
        test = self.value(c)
        with self.bounds.assuming(c), self.suite() as yes:
            yes_text = self.value(a)
        with self.bounds.assuming_not(c), self.suite() as no:
            no_text = self.value(b)
        if not yes.lines and not no.lines:
            return f"({yes_text} if {test} else {no_text})"
        name = self.fresh()
        yes.lines.append(f"{name} = {yes_text}")
        no.lines.append(f"{name} = {no_text}")
        self.nest(f"if {test}:", yes)
        self.nest("else:", no)
        return name

    def call(self, e: Call) -> str:
        """An intrinsic."""
        args = ", ".join([self.value(a) for a in e.args])
        if e.op.startswith("smelt."):
            return f"host({e.op!r}, {args})"
        source = e.args[0].dtype if e.args else e.type
        fn = typed_function(e.op, e.type, source)
        if fn is None:
            raise Unsupported(f"the interpreter does not know the intrinsic {e.op}")
        return f"{self.helper(f'{e.op}_{e.type}_{source}', fn)}({args})"

    # ------------------------------------------------------------------------------- access

    def load(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """One element."""
        at = self.offset(buffer, indices)
        own = self.storage[buffer]
        if self.watched:
            at = self.keep(at)
            self.emit(f"reads({self.place}, {own.name}, {at}, {self.index_tuple(indices)})")
        if not own.coded:
            return f"{own.name}[{at}]"
        table = codec(own.dtype)
        assert table is not None
        return f"{self.helper('decode_' + own.dtype, table[0])}[{own.name}[{at}]]"

    def index_tuple(self, indices: tuple[Expr, ...]) -> str:
        """The indices as a Python tuple."""
        return _tuple(tuple([self.value(i) for i in indices]))

    def offset(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """The position of an element in its memory, checked against the shape."""
        if buffer not in self.storage:
            raise Unsupported(
                f"the buffer {buffer.name} is used where it is neither a parameter nor allocated"
            )
        own = self.storage[buffer]
        if len(indices) != len(own.shape):
            raise Unsupported(
                f"{buffer.name} has {len(own.shape)} dimensions, {len(indices)} indices given"
            )
        texts = [self.value(i) for i in indices]
        tests = [
            f"0 <= {t} < {n}"
            for t, i, n in zip(texts, indices, own.shape, strict=True)
            if not (isinstance(n, int) and self.bounds.inside(i, 0, n - 1))
        ]
        if tests:
            self.emit(
                f"if not ({' and '.join(tests)}): "
                f"outside({buffer.name!r}, {_tuple(tuple(texts))}, {_tuple(own.shape)})"
            )
        return self.address(own, texts, indices)

    def address(self, own: Storage, texts: list[str], indices: tuple[Expr, ...]) -> str:
        """The sum of indices times strides; what outer loops know of it is computed there."""
        terms: list[tuple[int, int, str, Expr | None]] = []
        for text, i, step in reversed(list(zip(texts, indices, own.steps, strict=True))):
            level = self.level(i)
            scaled = None
            if level is not None and isinstance(step, int):
                scaled = i if step == 1 else Mul(i, IntImm(i.dtype, step))
            term = text if step == 1 else f"{text} * {step}"
            terms.append((len(self.frames) if level is None else level, len(terms), term, scaled))
        terms.sort(key=lambda t: t[:2])
        sums: Expr | None = None
        loose: list[str] = []
        for _, _, text, e in terms:
            if e is None or (sums is not None and sums.dtype != e.dtype) or e.dtype != INDEX:
                loose.append(text)
            else:
                sums = e if sums is None else Add(sums, e)
        parts = ([self.value(sums)] if sums is not None else []) + loose
        return " + ".join(parts) or "0"


def _mentions(e: Expr, var: Var) -> bool:
    return any(n is var for n in expr_nodes(e))
