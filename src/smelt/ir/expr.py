"""Scalar expressions: what indices, loop bounds, predicates and element values are made of.

All but Var are interned. Python's operators build them and fold constants on the way. `==` and
`!=` give an `Equality`, whose truth value is identity, so that expressions can be keys; the
compiler itself writes `is` and `equal` (ir/build.py).
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from . import dtype as dt
from .node import Node, postorder
from .operators import Equality as Equality
from .operators import Operators, unknown

INDEX = "int64"
"""The type of loop variables and indices."""

DISJUNCTION, CONJUNCTION, NEGATION, COMPARISON, SUM, PRODUCT, ATOM = range(1, 8)
"""How tightly Python's operators bind; what is no operator is an ATOM."""


class Expr(Operators, Node):
    """A scalar (or, after vectorisation, a vector) value. `dtype` is its type."""

    __extra_slots__: ClassVar[tuple[str, ...]] = ()
    level: ClassVar[int] = ATOM
    """How tightly its text binds."""

    @property
    def dtype(self) -> str:
        """The type of the value, an element type or a vector of one: the field `type`, if any."""
        return self.type  # type: ignore[attr-defined, no-any-return]

    @staticmethod
    def apply(op: str, a: ExprLike, b: ExprLike) -> Expr:
        """The operation of a name in `Operators`: a node class's, or a bitwise intrinsic's."""
        cls = _CLASSES.get(op)
        return _bitwise(op, a, b) if cls is None else binary(cls, a, b)

    def __bool__(self) -> bool:
        if isinstance(self, IntImm):
            return bool(self.value)
        raise TypeError(unknown(self))

    def __index__(self) -> int:
        if isinstance(self, IntImm):
            return self.value
        raise TypeError(f"{self} is not a number that is known here")

    __int__ = __index__

    def __float__(self) -> float:
        return self.value if isinstance(self, FloatImm) else float(self.__index__())

    def __str__(self) -> str:
        return text_of(self)

    def astype(self, dtype: str) -> Expr:
        """This value converted to another element type."""
        return cast(dtype, self)


ExprLike = Expr | int | float | bool


class Var(Expr, interned=False):
    """A named unknown: a loop variable, a symbolic size, a scalar parameter. Has identity.

    `definition` is no field: for a data-dependent size it is the graph value whose type has it
    (relax/host_ops). A table beside would keep graphs alive, since values hold sizes.
    """

    name: str
    type: str = INDEX

    __extra_slots__ = ("definition",)


class IntImm(Expr, interned=True):
    """An integer or bool constant."""

    type: str
    value: int

    constant: ClassVar[bool] = True


class FloatImm(Expr, interned=True):
    """A floating-point constant, kept as a double and rounded where it is used."""

    type: str
    value: float

    constant: ClassVar[bool] = True


class StringImm(Expr, interned=True):
    """A text argument of an intrinsic."""

    value: str

    @property
    def dtype(self) -> str:
        """Texts are handles."""
        return "handle"


class Typed(Expr):
    """What keeps its type, since a chain of operations may be longer than the stack."""

    __extra_slots__: ClassVar[tuple[str, ...]] = ("_dtype",)

    @property
    def dtype(self) -> str:
        """The type that was found when it was made."""
        return self._dtype  # type: ignore[attr-defined, no-any-return]


class Operation(Typed, interned=True):
    """What has its first operand's type."""

    a: Expr

    def __post_init__(self) -> None:
        self._dtype = self.a.dtype


class Binary(Operation, interned=True):
    """An operation on two values of one type."""

    b: Expr

    symbol: ClassVar[str] = "?"
    """As Python writes it, or a name."""


class Add(Binary, interned=True):
    """a + b."""


class Sub(Binary, interned=True):
    """a - b."""


class Mul(Binary, interned=True):
    """a * b."""


class Div(Binary, interned=True):
    """a / b for floats; for integers the quotient rounds toward zero."""


class FloorDiv(Binary, interned=True):
    """a // b, rounding toward minus infinity."""


class FloorMod(Binary, interned=True):
    """a - a // b * b: the sign of b."""


class TruncDiv(Binary, interned=True):
    """The integer quotient rounded toward zero, as in C."""


class TruncMod(Binary, interned=True):
    """a - truncdiv(a, b) * b, as C's % and fmod: the sign of a."""


class Min(Binary, interned=True):
    """The smaller; for floats a NaN operand wins."""


class Max(Binary, interned=True):
    """The larger; for floats a NaN operand wins."""


class Compare(Binary, interned=True):
    """A comparison of two values of one type; its own type is bool."""

    @property
    def dtype(self) -> str:
        """Bool, with the operands' lanes."""
        return dt.vector("bool", dt.lanes(self._dtype))


class EQ(Compare, interned=True):
    """a == b."""


class NE(Compare, interned=True):
    """a != b."""


class LT(Compare, interned=True):
    """a < b."""


class LE(Compare, interned=True):
    """a <= b."""


class GT(Compare, interned=True):
    """a > b."""


class GE(Compare, interned=True):
    """a >= b."""


class And(Binary, interned=True):
    """Both, evaluated without short cut."""


class Or(Binary, interned=True):
    """Either, evaluated without short cut."""


class Not(Operation, interned=True):
    """The other truth value."""

    level: ClassVar[int] = NEGATION


class Select(Typed, interned=True):
    """One of two values; both may be evaluated (see `if_then_else` for guarded loads)."""

    condition: Expr
    true_value: Expr
    false_value: Expr

    def __post_init__(self) -> None:
        self._dtype = self.true_value.dtype


class Cast(Expr, interned=True):
    """A value converted: floats to integers by truncation, numbers to bool by comparison with 0."""

    type: str
    value: Expr


class Call(Expr, interned=True):
    """A pure intrinsic such as exp(x) or if_then_else(c, a, b)."""

    type: str
    op: str
    args: tuple[Expr, ...]


class Ramp(Expr, interned=True):
    """The vector base, base + stride, ... of `lanes` elements."""

    base: Expr
    stride: Expr
    lanes: int

    @property
    def dtype(self) -> str:
        """The base's type with lanes."""
        return dt.vector(self.base.dtype, self.lanes)


class Broadcast(Expr, interned=True):
    """A scalar in every lane."""

    value: Expr
    lanes: int

    @property
    def dtype(self) -> str:
        """The value's type with lanes."""
        return dt.vector(self.value.dtype, self.lanes)


class Shuffle(Expr, interned=True):
    """Lanes picked from two vectors laid end to end: `indices[i]` says where lane i comes from."""

    a: Expr
    b: Expr
    indices: tuple[int, ...]

    @property
    def dtype(self) -> str:
        """The operands' element type with as many lanes as indices."""
        return dt.vector(self.a.dtype, len(self.indices))


class Operator(NamedTuple):
    """A class of binary nodes.

    symbol  the operator as Python writes it, or what it is called
    level   how tightly it binds
    python  the operator in Python's syntax trees; None where Python has none
    fold    the value for integers; None: it is left to the program
    name    T.name(a, b) is the node too; the canonical form where Python has no operator
    others  more names, which the field uses
    """

    node: type[Binary]
    symbol: str
    level: int
    python: type[ast.operator | ast.cmpop | ast.boolop] | None
    fold: Callable[[int, int], int | None] | None
    name: str
    others: tuple[str, ...] = ()


def _truncdiv(a: int, b: int) -> int | None:
    return int(a / b) if abs(a) < 1 << 52 else None


def _truncmod(a: int, b: int) -> int | None:
    return int(math.fmod(a, b)) if b and abs(a) < 1 << 52 else None


OPERATORS: tuple[Operator, ...] = (
    Operator(Or, "or", DISJUNCTION, ast.Or, operator.or_, "Or"),
    Operator(And, "and", CONJUNCTION, ast.And, operator.and_, "And"),
    Operator(EQ, "==", COMPARISON, ast.Eq, operator.eq, "EQ"),
    Operator(NE, "!=", COMPARISON, ast.NotEq, operator.ne, "NE"),
    Operator(LT, "<", COMPARISON, ast.Lt, operator.lt, "LT"),
    Operator(LE, "<=", COMPARISON, ast.LtE, operator.le, "LE"),
    Operator(GT, ">", COMPARISON, ast.Gt, operator.gt, "GT"),
    Operator(GE, ">=", COMPARISON, ast.GtE, operator.ge, "GE"),
    Operator(Add, "+", SUM, ast.Add, operator.add, "Add"),
    Operator(Sub, "-", SUM, ast.Sub, operator.sub, "Sub"),
    Operator(Mul, "*", PRODUCT, ast.Mult, operator.mul, "Mul"),
    Operator(Div, "/", PRODUCT, ast.Div, None, "Div", ("div", "divide")),
    Operator(
        FloorDiv, "//", PRODUCT, ast.FloorDiv, operator.floordiv,
        "FloorDiv", ("floordiv", "indexdiv"),
    ),
    Operator(
        FloorMod, "%", PRODUCT, ast.Mod, operator.mod, "FloorMod", ("floormod", "indexmod"),
    ),
    Operator(Min, "min", ATOM, None, min, "min", ("Min",)),
    Operator(Max, "max", ATOM, None, max, "max", ("Max",)),
    Operator(TruncDiv, "truncdiv", ATOM, None, _truncdiv, "truncdiv"),
    Operator(TruncMod, "truncmod", ATOM, None, _truncmod, "truncmod", ("Mod",)),
)  # fmt: skip
"""All binary operators, from the loosest to the tightest."""
for _o in OPERATORS:
    _o.node.symbol, _o.node.level = _o.symbol, _o.level
FOLDS: dict[type[Expr], Callable[[Any, Any], Any]] = {
    o.node: o.fold for o in OPERATORS if o.fold is not None
}
"""Operators on integers; those that Python has too take numpy's arrays of them as well."""


# -------------------------------------------------------------------------------- text for people

_OWN: Mapping[Any, str] = MappingProxyType({})


def text_of(e: Expr, names: Mapping[Any, str] = _OWN) -> str:
    """An expression as people write it: in messages, for amounts, for sizes kept as text.

    names  of variables and buffers that are called otherwise than they are
    """
    done: dict[Node, tuple[str, int]] = {}
    for part in postorder(e):
        if isinstance(part, Expr):
            done[part] = _text(part, done, names)
    return done[e][0]


def _within(text: tuple[str, int], level: int) -> str:
    return f"({text[0]})" if text[1] < level else text[0]


def _text(
    e: Expr, done: Mapping[Node, tuple[str, int]], names: Mapping[Any, str]
) -> tuple[str, int]:
    """The text of an expression whose operands have theirs, and how strongly it binds."""
    match e:
        case Var():
            return names.get(e, e.name), ATOM
        case IntImm(_, value):
            return str(value), ATOM if value >= 0 else COMPARISON
        case FloatImm(_, value) | StringImm(value):
            return str(value), ATOM
        case Not(a):
            return f"not {_within(done[a], COMPARISON)}", NEGATION
        case Binary(a, b) if e.level < ATOM:
            left = _within(done[a], e.level + (e.level == COMPARISON))
            return f"{left} {e.symbol} {_within(done[b], e.level + 1)}", e.level
    told = [str(e.lanes)] if isinstance(e, Ramp | Broadcast) else []
    parts = ", ".join([*[done[c][0] for c in e.children() if isinstance(c, Expr)], *told])
    buffer: Any = getattr(e, "buffer", None)
    if buffer is not None:
        return f"{names.get(buffer, buffer.name)}[{parts or '()'}]", ATOM
    own = getattr(e, "op", None) or getattr(e, "symbol", None)
    return f"{own or (e.type if isinstance(e, Cast) else type(e).__name__.lower())}({parts})", ATOM


# ------------------------------------------------------------------------------------ building


def const(value: int | float | bool, dtype: str | None = None) -> Expr:
    """A constant; without a type bools are bool, ints int64 and floats float32."""
    if type(value) is int and (dtype is None or dtype == INDEX):  # most are
        return IntImm(INDEX, value)
    if dtype is None:
        dtype = (
            "bool" if isinstance(value, bool) else INDEX if isinstance(value, int) else "float32"
        )
    if dt.lanes(dtype) > 1:
        return Broadcast(const(value, dt.scalar(dtype)), dt.lanes(dtype))
    if dt.is_float(dtype):
        value = float(value)
        if dtype == "float32" and math.isfinite(value):
            with np.errstate(over="ignore"):
                value = float(np.float32(value))
        return FloatImm(dtype, value)
    if dtype == "bool":
        return IntImm(dtype, int(bool(value)))
    return IntImm(dtype, int(value))


def numbers_of(items: Iterable[Expr]) -> tuple[int, ...] | None:
    """Constants as Python integers, or None where one is symbolic."""
    out = []
    for e in items:
        if not isinstance(e, IntImm):
            return None
        out.append(e.value)
    return tuple(out)


def convert(value: ExprLike, dtype: str | None = None) -> Expr:
    """A Python number as a constant; an expression as it is."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | float):
        return const(value, dtype)
    if hasattr(value, "as_expr"):
        made: Expr = value.as_expr()
        return made
    raise TypeError(f"expected a number or an expression, got {type(value).__name__}: {value!r}")


def matched(a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    """Both operands with one type: numbers take the expression's, lanes are broadcast."""
    if not isinstance(a, Expr):
        b = convert(b)
        a = convert(a, dt.scalar(b.dtype) if _fits(a, b.dtype) else None)
    elif not isinstance(b, Expr):
        if type(b) is int and a.dtype == INDEX:
            return a, IntImm(INDEX, b)
        b = convert(b, dt.scalar(a.dtype) if _fits(b, a.dtype) else None)
    ta, tb = a.dtype, b.dtype
    if ta == tb:
        return a, b
    la, lb = dt.lanes(ta), dt.lanes(tb)
    if la != lb:
        a, b = (Broadcast(a, lb), b) if la == 1 else (a, Broadcast(b, la))
    if a.dtype != b.dtype:
        common = _common(a.dtype, b.dtype)
        a, b = cast(common, a), cast(common, b)
    return a, b


def _fits(number: ExprLike, dtype: str) -> bool:
    return dt.is_float(dtype) or not isinstance(number, float) or float(number).is_integer()


def _common(a: str, b: str) -> str:
    """The type that mixed integer operands meet in; floats win over integers."""
    rank = {"bool": 0, "uint": 1, "int": 2, "float": 3}
    ka, kb = rank[dt.kind(a)], rank[dt.kind(b)]
    if ka != kb and 3 in (ka, kb):
        return a if ka > kb else b
    if dt.width(a) != dt.width(b):
        return a if dt.width(a) > dt.width(b) else b
    return a if ka >= kb else b


def binary(cls: type[Binary], a: ExprLike, b: ExprLike) -> Expr:
    """`cls(a, b)` with operands matched and constants folded."""
    if not (type(a) is type(b) is IntImm and a.type == b.type):
        a, b = matched(a, b)
    if type(a) is type(b) is IntImm and cls in FOLDS:
        try:
            folded = FOLDS[cls](a.value, b.value)
        except ZeroDivisionError:
            folded = None
        if folded is not None:
            if type(folded) is bool:  # a comparison
                return IntImm("bool", int(folded))
            if a.type == INDEX or (-(1 << 31) <= folded < 1 << 31 and a.type == "int32"):
                return IntImm(a.type, int(folded))
            if a.type == "bool":
                return const(bool(folded), "bool")
    if (type(b) is IntImm or type(a) is IntImm or a is b) and dt.is_int(a.dtype):
        short = _identity(cls, a, b)
        if short is not None:
            return short
    elif cls is FloorDiv and dt.is_float(a.dtype):
        return Call(a.dtype, "floor", (Div(a, b),))
    return cls(a, b)


_CLASSES = {o.node.__name__: o.node for o in OPERATORS}
_LOGICAL: dict[str, type[Binary]] = {"bitwise_and": And, "bitwise_or": Or, "bitwise_xor": NE}


def _bitwise(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """A bitwise operation on integers; on truth values the logical one."""
    x, y = matched(a, b)
    if dt.kind(x.dtype) == "bool" and op in _LOGICAL:
        return binary(_LOGICAL[op], x, y)
    if not dt.is_int(x.dtype):
        raise TypeError(f"{op} takes integers, not {x.dtype}")
    return Call(x.dtype, op, (x, y))


def _identity(cls: type[Binary], a: Expr, b: Expr) -> Expr | None:
    """The cheap integer identities: x + 0, x * 1, x * 0, x // 1, x % 1."""
    vb = b.value if isinstance(b, IntImm) else None
    va = a.value if isinstance(a, IntImm) else None
    if cls is Add:
        return a if vb == 0 else b if va == 0 else None
    if cls is Sub:
        return a if vb == 0 else const(0, a.dtype) if a is b else None
    if cls is Mul:
        if vb == 0 or va == 0:
            return const(0, a.dtype)
        return a if vb == 1 else b if va == 1 else None
    if vb == 1 and cls in (FloorDiv, TruncDiv):
        return a
    if vb == 1 and cls in (FloorMod, TruncMod):
        return const(0, a.dtype)
    return a if a is b and cls in (Min, Max) else None


def cast(dtype: str, value: ExprLike) -> Expr:
    """`value` as another type; integer constants are converted at once."""
    value = convert(value)
    target = dt.vector(dtype, dt.lanes(value.dtype)) if dt.lanes(dtype) == 1 else dtype
    if value.dtype == target:
        return value
    if isinstance(value, Broadcast):
        return Broadcast(cast(dt.scalar(target), value.value), value.lanes)
    if isinstance(value, IntImm) and (
        dt.is_float(target)
        or target == "bool"
        or target == INDEX
        or (target == "int32" and -(1 << 31) <= value.value < 1 << 31)
    ):
        return const(value.value, target)
    if isinstance(value, FloatImm) and target in ("float32", "float64"):
        return const(value.value, target)
    return Cast(target, value)
