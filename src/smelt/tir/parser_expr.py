"""Expressions of the text form: from Python's syntax tree to nodes, without folding.

What is written is what is built: `i + 0` stays an addition. Only numbers among themselves are
computed (`16 * 8`), as are values of the surrounding Python program: its numbers, tuples, texts and
functions may be used by name.
"""

# ruff: noqa: RET503 (fail() does not return)

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import SmeltError
from smelt.ir.expr import (
    INDEX,
    OPERATORS,
    Add,
    And,
    Binary,
    Call,
    Div,
    Expr,
    FloorDiv,
    IntImm,
    Not,
    Or,
    Ramp,
    StringImm,
    Sub,
    const,
    matched,
)
from smelt.runtime.errors import closest

from .names import unique_name
from .nodes import Buffer, BufferLoad, Range
from .parser_call import VALUES, typed
from .parser_source import Source as Source
from .parser_source import describe, dotted_name
from .parser_values import BUILTINS, COMPUTED, BufferView, is_number, is_python, plain
from .script_names import VALUE, Entry, complaint, entries
from .script_ops import DEVICE_INTRINSICS, HOST_INTRINSICS, is_dtype

_CLASSES = {o.python: o.node for o in OPERATORS if o.python is not None}
_BITWISE: dict[type[ast.AST], tuple[str, type[Binary] | None]] = {
    ast.BitAnd: ("bitwise_and", And),
    ast.BitOr: ("bitwise_or", Or),
    ast.BitXor: ("bitwise_xor", None),
    ast.LShift: ("shift_left", None),
    ast.RShift: ("shift_right", None),
}
_CHOICES = ("if_then_else", "select", "Select", "max", "Max", "min", "Min")
_EFFECTS = HOST_INTRINSICS + DEVICE_INTRINSICS
_DEFAULTS = {bool: "bool", int: INDEX, float: "float32"}
"""The types of bare numbers where nothing else tells them."""
_TOP = 1 << 63
_MISSING = object()


class ExprParser:
    """Parses expressions in nested scopes; names that no scope has come from `env` (Python's).

    names    what a name stands for now
    aliases  the names that the module T has
    """

    def __init__(
        self, source: Source, env: Mapping[str, Any], aliases: frozenset[str] = frozenset("T")
    ) -> None:
        """Start in one empty scope."""
        self.source, self.env, self.aliases = source, env, aliases
        self.names: dict[str, Any] = {}
        self.scopes: list[dict[str, Any]] = [{}]
        self.taken: set[str] = set()

    def fail(self, node: ast.AST, message: str, legal: str = "") -> NoReturn:
        """Raise a ParseError at a node."""
        self.source.error(node, message, legal)

    # ------------------------------------------------------------------------------- names

    def push(self) -> None:
        """Begin a scope."""
        self.scopes.append({})

    def pop(self) -> None:
        """End the innermost scope: names mean again what they meant before."""
        for name, before in self.scopes.pop().items():
            if before is _MISSING:
                del self.names[name]
            else:
                self.names[name] = before

    def define(self, name: str, value: Any) -> None:
        """Bind a name in the innermost scope."""
        self.scopes[-1].setdefault(name, self.names.get(name, _MISSING))
        self.names[name] = value

    def fresh(self, name: str) -> str:
        """The name that a new variable or buffer gets: that of the text, unless it is taken."""
        return unique_name(name, self.taken)

    def lookup(self, node: ast.Name) -> Any:
        """What a name stands for: in the program, else in the Python program around it."""
        name = node.id
        for known in (self.names, self.env, BUILTINS):
            if name in known:
                found = known[name]
                return found.item() if isinstance(found, np.generic) else found
        self.fail(node, f"'{node.id}' is not defined here", self._near(node.id))

    def is_known(self, name: str) -> bool:
        """Whether a name stands for anything."""
        return any(name in known for known in (self.names, self.env, BUILTINS))

    def _near(self, name: str) -> str:
        own = list(self.names)
        return ", ".join(closest(name, [*own, *self.env]) or own) or "nothing is defined yet"

    # ------------------------------------------------------------------------- expressions

    def expr(self, node: ast.expr, expected: str | None = None) -> Expr:
        """An expression; a bare number takes the expected type, also as what a choice gives."""
        value = self.call(node, expected) if isinstance(node, ast.Call) else self.value(node)
        return self.as_expr(node, value, expected)

    def as_expr(self, node: ast.AST, value: Any, expected: str | None = None) -> Expr:
        """A Python value as an expression."""
        if isinstance(value, Expr):
            return value
        if is_number(value):
            return self.number(node, value, expected)
        if isinstance(value, str):
            return StringImm(value)
        if hasattr(value, "as_expr"):
            made: Expr = value.as_expr()
            return made
        self.fail(node, f"expected a value, got {describe(value)}")

    def number(self, node: ast.AST, value: int | float, expected: str | None) -> Expr:
        """A bare number as a constant, which must be a value of the expected type."""
        if expected is None:
            expected = _DEFAULTS[type(value)]
        if expected == INDEX and type(value) is int and -_TOP <= value < _TOP:  # most are
            return IntImm(INDEX, value)
        kind = dt.kind(expected)
        if kind == "float" or kind == "handle":
            try:
                return const(value, expected)
            except OverflowError:
                self.fail(node, f"a number of {len(str(value))} digits is no {expected}")
        if isinstance(value, float) and not value.is_integer():
            self.fail(node, f"{value} is not a value of {expected}")
        low, high = dt.limits(expected)
        if not low <= value <= high:
            self.fail(node, f"{value} is not a value of {expected}", f"{low} to {high}")
        return const(value, expected)

    def condition(self, node: ast.expr) -> Expr:
        """A truth value."""
        return self.truth(node, self.expr(node))

    def truth(self, node: ast.AST, e: Expr) -> Expr:
        """An expression that must be a truth value."""
        if dt.kind(e.dtype) != "bool":
            self.fail(node, f"the condition is of type {e.dtype}", "a comparison such as x != 0")
        return e

    def value(self, node: ast.expr) -> Any:
        """An expression, or any value of Python."""
        handler = _VALUES.get(type(node))
        if handler is None:
            self.fail(node, f"{type(node).__name__} is not part of the script language")
        return handler(self, node)

    def elements(self, nodes: list[ast.expr]) -> list[ast.expr]:
        """Arguments or items one by one, with what stands behind a star spread out."""
        if ast.Starred not in map(type, nodes):
            return nodes
        out: list[ast.expr] = []
        for n in nodes:
            if not isinstance(n, ast.Starred):
                out.append(n)
                continue
            several = self.value(n.value)
            if not isinstance(several, tuple | list | range):
                self.fail(n, f"only a tuple can be spread out, not {describe(several)}")
            out += [ast.copy_location(ast.Constant(v), n) for v in several]
        return out

    def sequence(self, node: ast.Tuple | ast.List) -> tuple[Any, ...]:
        """(a, b, c) or [a, b, c]."""
        return tuple([self.value(e) for e in self.elements(node.elts)])

    def formatted(self, node: ast.FormattedValue) -> str:
        """{n:02d} in f"{name}_{n:02d}", of Python's values."""
        value = self.value(node.value)
        if not isinstance(value, str | int | float):
            self.fail(node.value, f"{describe(value)} is not known as a text here")
        return format(value, "" if node.format_spec is None else self.value(node.format_spec))

    def attribute(self, node: ast.Attribute) -> Any:
        """An attribute of a Python value or a buffer, e.g. cfg.size or A.shape."""
        name = self.script_name(node)
        if name is not None:
            if is_dtype(name):
                return name
            self.fail(node, *self.unknown(name, called=False))
        base = self.value(node.value)
        if isinstance(base, Buffer) and node.attr == "data":
            return base  # its memory: what data= takes
        if hasattr(base, node.attr) and not node.attr.startswith("_"):
            found = getattr(base, node.attr)
            return found.item() if isinstance(found, np.generic) else found
        self.fail(node, f"{describe(base)} has no attribute '{node.attr}'")

    # --------------------------------------------------------------------------- operators

    def chain(self, node: ast.BinOp) -> Any:
        """a + b + c + ...: the left spine is walked, not recursed into."""
        spine: list[ast.BinOp] = []
        at: ast.expr = node
        while type(at) is ast.BinOp:
            spine.append(at)
            at = at.left
        left = self.value(at)
        for part in reversed(spine):
            left = self.binary(part, part.op, left, self.value(part.right))
        return left

    def binary(self, node: ast.AST, op: ast.operator | ast.cmpop, a: Any, b: Any) -> Any:
        """One operator on two values."""
        if not isinstance(a, Expr) and is_python(a) and is_python(b):
            return self.computed(node, op, a, b)
        cls = _CLASSES.get(type(op))
        if cls is not None:
            return self.matched(node, cls, a, b)
        if type(op) not in _BITWISE:
            self.foreign(node, op, "T.pow(a, b)")
        name, logical = _BITWISE[type(op)]
        x, y = self.operands(node, a, b)
        if logical is not None and dt.kind(x.dtype) == "bool":
            return logical(x, y)
        if not dt.is_int(x.dtype):
            self.fail(node, f"{name} takes integers, not {x.dtype}")
        return Call(x.dtype, name, (x, y))

    def computed(self, node: ast.AST, op: ast.AST, a: Any, b: Any) -> Any:
        """An operator on values of Python."""
        try:
            return COMPUTED[type(op)](a, b)
        except KeyError:
            self.foreign(node, op)
        except (ArithmeticError, TypeError, ValueError) as e:
            self.fail(node, f"cannot compute this: {e}")

    def foreign(self, node: ast.AST, op: ast.AST, other: str = "") -> NoReturn:
        """Refuse an operator. other: what to write instead of it."""
        kind, other = ("comparison", "") if isinstance(op, ast.cmpop) else ("operator", other)
        name = type(op).__name__
        self.fail(node, f"the {kind} {name} is not part of the script language", other)

    def matched(self, node: ast.AST, cls: type[Binary], a: Any, b: Any) -> Expr:
        """`cls(a, b)` with bare numbers in the other operand's type, nothing folded."""
        x, y = self.operands(node, a, b)
        if cls is FloorDiv and dt.is_float(x.dtype):
            return Call(x.dtype, "floor", (Div(x, y),))
        return cls(x, y)

    def operands(self, node: ast.AST, a: Any, b: Any) -> tuple[Expr, Expr]:
        """Two operands in one type; bare numbers take the other operand's."""
        if isinstance(a, Expr):
            if isinstance(b, Expr):
                if a.dtype == b.dtype:
                    return a, b
            elif type(b) is int and -_TOP <= b < _TOP and a.dtype == INDEX:
                return a, IntImm(INDEX, b)
        return self.converted(node, plain(a), plain(b))

    def converted(self, node: ast.AST, a: Any, b: Any) -> tuple[Expr, Expr]:
        """Two operands of different types in one."""
        for x, other in ((a, b), (b, a)):
            if not (is_number(x) or isinstance(x, Expr)):
                self.fail(node, f"expected a value, got {describe(x)}")
            if is_number(x) and isinstance(other, Expr) and other.dtype == "handle":
                self.fail(node, "there is no arithmetic on handles")
            if is_number(x) and isinstance(other, Expr) and x % 1 == 0:
                self.number(node, x, dt.scalar(other.dtype))
        if is_number(a) and is_number(b):
            kind = "float32" if isinstance(a, float) or isinstance(b, float) else None
            a, b = self.number(node, a, kind), self.number(node, b, kind)
        try:
            return matched(a, b)
        except (TypeError, KeyError):
            x, y = [const(v).dtype if is_number(v) else v.dtype for v in (a, b)]
            self.fail(node, f"no operation on {x} and {y}")

    def pair(self, a: ast.expr, b: ast.expr) -> tuple[Expr, Expr]:
        """Two operands of one type."""
        return self.operands(a, self.value(a), self.value(b))

    def unary(self, node: ast.UnaryOp) -> Any:
        """-x, +x, not x and ~x."""
        value = plain(self.value(node.operand))
        if is_python(value):
            try:
                return COMPUTED[type(node.op)](value)
            except TypeError:
                self.fail(node, f"this does not stand before {describe(value)}")
        e = self.as_expr(node, value)
        kind = e.dtype
        if isinstance(node.op, ast.USub):
            return self.matched(node, Sub, 0, e)
        if isinstance(node.op, ast.UAdd):
            return e
        if isinstance(node.op, ast.Not) or dt.kind(kind) == "bool":
            return Not(self.truth(node, e))
        if not dt.is_int(kind):
            self.fail(node, f"~ takes integers and truth values, not {kind}")
        return Call(kind, "bitwise_not", (e,))

    def logical(self, node: ast.BoolOp) -> Any:
        """a and b and c, from the left."""
        cls: type[Binary] = And if isinstance(node.op, ast.And) else Or
        values = [plain(self.value(v)) for v in node.values]
        if all(is_python(v) for v in values):
            return all(values) if cls is And else any(values)
        left: Any = None
        for n, v in zip(node.values, values, strict=True):
            truth = const(bool(v)) if is_python(v) else self.truth(n, self.as_expr(n, v))
            left = truth if left is None else self.matched(node, cls, left, truth)
        return left

    def compare(self, node: ast.Compare) -> Any:
        """a < b; a chain a < b < c is the conjunction."""
        left, result = self.value(node.left), None
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            part = self.binary(node, op, left, right)
            if result is not None:
                part = And(self.as_expr(node, result), self.as_expr(node, part))
            result, left = part, right
        return result

    def choice(self, node: ast.IfExp) -> Any:
        """a if c else b: T.if_then_else, decided here where c is a value of Python."""
        c = self.value(node.test)
        if is_python(c):
            return self.value(node.body if c else node.orelse)
        test = self.truth(node.test, self.as_expr(node.test, c))
        x, y = self.pair(node.body, node.orelse)
        return Call(x.dtype, "if_then_else", (test, x, y))

    # ------------------------------------------------------------------------------- loads

    def load(self, node: ast.Subscript) -> Any:
        """buffer[indices], or an item of a Python sequence."""
        base = self.value(node.value)
        if isinstance(base, Buffer | BufferView):
            return BufferLoad(*self.element(base, node))
        if not isinstance(base, tuple | list | dict | str | range):
            self.fail(node, f"{describe(base)} cannot be indexed")
        if isinstance(node.slice, ast.Slice):
            bounds = (node.slice.lower, node.slice.upper, node.slice.step)
            index: Any = slice(*[None if b is None else self.value(b) for b in bounds])
        else:
            index = self.value(node.slice)
        try:
            return base[index]
        except (LookupError, TypeError) as e:
            self.fail(node, f"{describe(base)} has no such item: {e}")

    def element(
        self, base: Buffer | BufferView, node: ast.Subscript
    ) -> tuple[Buffer, tuple[Expr, ...]]:
        """The buffer and the indices between brackets, as many as there are dimensions."""
        indices = tuple([self.index(i) for i in self.items(base, node, "indices")])
        return (base, indices) if isinstance(base, Buffer) else (base.buffer, base.indices(indices))

    def items(self, base: Buffer | BufferView, node: ast.Subscript, what: str) -> list[ast.expr]:
        """What stands between brackets, as many as there are dimensions."""
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        items = self.elements(items)
        if len(items) != base.rank:
            self.fail(node, f"{base.name} has {base.rank} dimensions, {len(items)} {what} given")
        return items

    def whole(self, node: ast.AST, e: Expr, what: str) -> Expr:
        """An expression that has to be an integer."""
        if not dt.is_int(e.dtype):
            self.fail(node, f"{what} is of type {e.dtype}", "an integer")
        return e

    def index(self, node: ast.expr) -> Expr:
        """One index: an integer, or lo:hi for the lanes of a vector."""
        if isinstance(node, ast.Slice):
            return self.lanes(node)
        return self.whole(node, self.expr(node), "an index")

    def lanes(self, node: ast.Slice) -> Expr:
        """lo:hi:step as an index: a ramp of known length."""
        low = 0 if node.lower is None else self.value(node.lower)
        step = 1 if node.step is None else self.value(node.step)
        count: Any = None
        if node.upper is not None:
            extent = self.interval(node, low, self.value(node.upper)).extent
            count = extent.value if isinstance(extent, IntImm) else None
        if count is None or not isinstance(step, int) or step < 1 or count // step < 2:
            self.fail(node, "the number of lanes is not known", "A[lo:lo + 8], A[lo:lo + 8:2]")
        base, stride = self.operands(node, low, step)
        return Ramp(base, stride, -(-count // step))

    def interval(self, node: ast.AST, low: Any, high: Any) -> Range:
        """The Range low:high; `low + x` as the upper end gives the extent x."""
        begin, end = self.operands(node, low, high)
        self.whole(node, begin, "a bound")
        if isinstance(end, Add) and end.a is begin:
            return Range(begin, end.b)
        return Range(begin, end - begin)

    # ------------------------------------------------------------------------------- calls

    def script_name(self, node: ast.expr) -> str | None:
        """ "block" for T.block, "axis.spatial" for T.axis.spatial, None for anything else."""
        if type(node) is ast.Attribute and type(node.value) is ast.Name:  # most are
            return node.attr if node.value.id in self.aliases else None
        return dotted_name(node, self.aliases)

    def said_name(self, node: ast.expr) -> str | None:
        """The name that a type or a decorator says, called or not."""
        return self.script_name(node.func if isinstance(node, ast.Call) else node)

    def call(self, node: ast.Call, expected: str | None = None) -> Any:
        """T.something(...), or a function of Python."""
        name = self.script_name(node.func)
        if name is None:
            return self.python_call(node)
        known = VALUES.get(name)
        if known is not None:
            args = self.elements(node.args)
            if expected is not None and name in _CHOICES and len(args) > 1 and not node.keywords:
                args = [*args[:-2], *[self.expected(a, expected) for a in args[-2:]]]
            own = [k for k in node.keywords if k.arg == "dtype"]
            if own and "dtype" not in known.signature.params:
                return self.of_type(known, node, args, own[0])
            return self.run(known, node, args)
        if is_dtype(name):
            return typed(self, node, name)
        if name in _EFFECTS:
            return Call("int32", name, tuple([self.expr(a) for a in self.elements(node.args)]))
        self.fail(node.func, *self.unknown(name))

    def of_type(
        self, known: Entry, node: ast.Call, args: list[ast.expr], said: ast.keyword
    ) -> Expr:
        """T.exp(x, dtype="float32"): the type follows from the operands, and is said again."""
        others = [k for k in node.keywords if k is not said]
        kind = self.dtype_arg(said.value)
        plain_call = ast.copy_location(ast.Call(node.func, args, others), node)
        made = self.run(known, plain_call, args)
        if not isinstance(made, Expr) or made.dtype != kind:
            what = f"T.{known.signature.name} gives {describe(made)} here, not {kind}"
            self.fail(said, what, f'T.cast("{kind}", ...)')
        return made

    def run(self, known: Entry, node: ast.Call, args: list[ast.expr], *place: Any) -> Any:
        """What a name of T does. place: what it is called with beside the arguments of the call."""
        required, named = known.signature.bind(node, args, self.fail)
        return known.run(self, node, *place, *required, **named)

    def placed(self, where: str, name: str | None, node: ast.expr, wrong: str, *place: Any) -> Any:
        """What T.name(...) does where only such calls may stand. wrong: what else is wrong."""
        known = entries(where).get(name or "")
        if known is not None and isinstance(node, ast.Call):
            return self.run(known, node, self.elements(node.args), *place)
        if name is not None:
            self.fail(node, *complaint(name, where))
        legal = [n if n == "range" else f"T.{n}" for n in entries(where)]
        self.fail(node, wrong, ", ".join(legal))

    def expected(self, node: ast.expr, dtype: str) -> ast.expr:
        """An operand whose bare numbers take a type, for what gives one of its operands."""
        number = self.expr(node, dtype)
        return ast.copy_location(ast.Constant(number), node)  # type: ignore[arg-type]

    def unknown(self, name: str, called: bool = True) -> tuple[str, str]:
        """What is wrong with T.name as a value, and what would be legal."""
        if not called and name in VALUES:
            return f"T.{name} is called", VALUES[name].signature.text
        if name.startswith("smelt."):
            near = closest(name, _EFFECTS) or _EFFECTS
            return f"there is no T.{name}", ", ".join([f"T.{n}" for n in near])
        return complaint(name, VALUE)

    def python_call(self, node: ast.Call) -> Any:
        """A function of the surrounding Python program, called now."""
        func = self.value(node.func)
        if isinstance(func, Expr | Buffer | BufferView) or not callable(func):
            self.fail(node.func, f"{describe(func)} cannot be called")
        args = [plain(self.value(a)) for a in self.elements(node.args)]
        options = {k.arg or "**": plain(self.value(k.value)) for k in node.keywords}
        if func in BUILTINS.values() and any(isinstance(a, Expr) for a in args):
            name = func.__name__
            legal = f"T.{name}" if name in VALUES else "values of Python"
            self.fail(node, f"{name} is Python's; it takes no values of the program", legal)
        try:
            return func(*args, **options)
        except SmeltError:
            raise
        except Exception as e:  # whatever the user's function raises belongs to this call
            what = getattr(func, "__name__", "the function")
            self.fail(node, f"{what} raised {type(e).__name__}: {e}")

    # --------------------------------------------------------------------------- arguments

    def text_arg(self, node: ast.expr) -> str:
        """An argument that must be a text."""
        value = self.value(node)
        if not isinstance(value, str):
            self.fail(node, f"expected a text, got {describe(value)}")
        return value

    def dtype_arg(self, node: ast.expr) -> str:
        """An argument that must be the name of an element type."""
        text = self.text_arg(node)
        if not is_dtype(text):
            near = closest(text, dt.DTYPES) or dt.DTYPES
            self.fail(node, f"{text!r} is no element type", ", ".join(near))
        return text

    def int_arg(self, node: ast.expr, least: int) -> int:
        """An argument that must be a number known here."""
        value = self.value(node)
        value = value.value if isinstance(value, IntImm) else value
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(node, f"expected an integer, got {describe(value)}")
        if value < least:
            self.fail(node, f"expected an integer, got {value}", f"at least {least}")
        return value


_VALUES: dict[type[ast.AST], Callable[[ExprParser, Any], Any]] = {
    ast.Constant: lambda p, node: node.value,
    ast.Name: ExprParser.lookup,
    ast.BinOp: ExprParser.chain,
    ast.UnaryOp: ExprParser.unary,
    ast.BoolOp: ExprParser.logical,
    ast.Compare: ExprParser.compare,
    ast.Subscript: ExprParser.load,
    ast.Call: ExprParser.call,
    ast.Tuple: ExprParser.sequence,
    ast.List: lambda p, node: list(p.sequence(node)),
    ast.Attribute: ExprParser.attribute,
    ast.IfExp: ExprParser.choice,
    ast.JoinedStr: lambda p, node: "".join([p.value(part) for part in node.values]),
    ast.FormattedValue: ExprParser.formatted,
}
