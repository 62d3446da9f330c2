"""What the text of Relay programs is made of: types, sizes, attributes, scalars, names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir import expr, types
from smelt.ir.node import Node, postorder
from smelt.ir.text import fresh_name
from smelt.relax.nodes import Constant
from smelt.tir.printer import script

ANY = "any"
"""The name of an extent that is not known before the program runs, `?`."""

SUFFIXES = {
    "float32": "f",
    "float64": "f64",
    "float16": "h",
    "bfloat16": "bf16",
    "int8": "i8",
    "int16": "i16",
    "int32": "",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
}
"""What stands behind a number of an element type; other types have no numbers in texts."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
INFIX: dict[type[Node], tuple[str, int]] = {
    expr.Add: ("+", 1),
    expr.Sub: ("-", 1),
    expr.Mul: ("*", 2),
}
"""Operations on sizes that have a sign, and how strongly it binds."""

NAMED: dict[type[Node], str] = {
    expr.FloorDiv: "floordiv", expr.FloorMod: "floormod", expr.Min: "min", expr.Max: "max",
}  # fmt: skip
"""Those that have a name."""


def identifier(name: str, dotted: bool = False) -> str:
    """A name as it stands behind % and @: in quotes where it is no plain word.

    dotted  words with dots in between are plain too
    """
    plain = all(map(_PLAIN.fullmatch, name.split(".") if dotted else [name]))
    return name if plain else json.dumps(name)


def scalar_text(data: np.ndarray) -> str | None:
    """A constant without dimensions: 1f, 2i64, True; None where its type has no such numbers."""
    kind = str(data.dtype)
    if kind == "bool":
        return str(bool(data))
    if kind not in SUFFIXES:
        return None
    if np.issubdtype(data.dtype, np.integer):
        return f"{int(data)}{SUFFIXES[kind]}"
    return _digits(_shortest(data)) + SUFFIXES[kind]


def _shortest(data: np.ndarray) -> str:
    """The shortest digits that give the number again, read as a double and rounded."""
    text = str(data[()])
    again = np.asarray(float(text)).astype(data.dtype)
    return text if again == data or np.isnan(data) else repr(float(data))


def _digits(text: str) -> str:
    return text.removesuffix(".0")


def sizes_of(value: Any) -> Iterable[expr.Var]:
    """Mentions of symbolic sizes in a type or in attributes; in expressions they count twice."""
    match value:
        case expr.Var():
            yield value
        case expr.Expr():
            yield from [n for n in postorder(value) if isinstance(n, expr.Var)] * 2
        case tuple() | list():
            for v in value:
                yield from sizes_of(v)
        case Mapping():
            yield from sizes_of(list(value.values()))
        case types.Type():
            yield from sizes_of(list(value.children()))


class Words:
    """Types and attributes in the words of Relay; symbolic sizes have unique names in one text.

    anonymous  sizes that are mentioned at one place only, which are `?`
    reference  what refers to a constant
    """

    def __init__(
        self, anonymous: Iterable[expr.Var] = (),
        reference: Callable[[Constant], str] = lambda c: "<Constant>",
    ) -> None:  # fmt: skip
        """No sizes named yet."""
        self.anonymous, self.reference = frozenset(anonymous), reference
        self._sizes: dict[expr.Var, str] = {}
        self._taken = set(RESERVED)
        self._types: dict[types.Type, str] = {}
        self.new_scope()

    def new_scope(self) -> None:
        """Type variables are those of one function or data type; from here on another's."""
        self._variables = set(dt.DTYPES)

    def type(self, t: types.Type) -> str:
        """A type: Tensor[(1, 3), float32]; one number is float32."""
        found = self._types.get(t)
        if found is None:
            found = self._types[t] = self._type(t)
        return found

    def _type(self, t: types.Type) -> str:
        match t:
            case types.TensorType((), dtype):
                return dtype
            case types.TensorType(shape, dtype):
                return f"Tensor[{_brackets([self.extent(e) for e in shape])}, {dtype}]"
            case types.TupleType(items):
                return _brackets([self.type(i) for i in items])
            case types.FuncType(arg_types, ret_type, type_params):
                of = f"[{', '.join([self.type(v) for v in type_params])}]" * bool(type_params)
                given = ", ".join([self.type(a) for a in arg_types])
                return f"fn {of}({given}) -> {self.type(ret_type)}"
            case types.TypeVar():
                return fresh_name(t.name, self._variables)
            case types.GlobalTypeVar(name):
                return name
            case types.TypeCall(func, args):
                return func.name + f"[{', '.join([self.type(a) for a in args])}]" * bool(args)
            case types.IncompleteType():
                return "_"
        return f"<{type(t).__name__}>"

    def extent(self, e: expr.Expr) -> str:
        """An extent; `?` where it depends on a size that is not named."""
        if self.anonymous and any(v in self.anonymous for v in sizes_of(e)):
            return "?"
        return self.size(e)

    def size(self, e: expr.Expr) -> str:
        """A number, the name of a symbolic size, or an expression over such."""
        made: dict[Node, tuple[str, int]] = {}
        for n in postorder(e):
            made[n] = self._part(n, [made[c] for c in n.children()])
        return made[e][0]

    def _part(self, e: Node, parts: list[tuple[str, int]]) -> tuple[str, int]:
        """The text of an expression from its operands', each with how strongly it binds."""
        match e:
            case expr.IntImm(_, value):
                return str(value), 3
            case expr.Var(name):
                return self._size(e, name), 3
        if type(e) in INFIX:
            sign, own = INFIX[type(e)]
            (a, left), (b, right) = parts
            a, b = (f"({a})" if left < own else a), (f"({b})" if right <= own else b)
            return f"{a} {sign} {b}", own
        if type(e) in NAMED:
            return f"{NAMED[type(e)]}({', '.join([t for t, _ in parts])})", 3
        return json.dumps(script(e).strip()), 3  # type: ignore[arg-type]

    def _size(self, v: expr.Var, name: str) -> str:
        if v not in self._sizes:
            kind = "" if v.dtype == expr.INDEX else f": {v.dtype}"
            self._sizes[v] = fresh_name(name, self._taken) + kind
        return self._sizes[v]

    def value(self, value: Any, many: str = "[]") -> str:
        """An attribute: numbers, texts in double quotes, lists, mappings, sizes.

        many  the brackets of a tuple; operators' attributes have no lists, so theirs are []
        """
        match value:
            case tuple() if many == "[]":
                return f"[{', '.join([self.value(v) for v in value])}]"
            case tuple():
                return _brackets([self.value(v, many) for v in value])
            case list():
                return f"[{', '.join([self.value(v, many) for v in value])}]"
            case Mapping():
                items = [f"{self.value(k)}: {self.value(v, many)}" for k, v in value.items()]
                return f"{{{', '.join(items)}}}"
            case expr.Expr():
                return self.size(value)
            case types.Type():
                return self.type(value)
            case str():
                return json.dumps(value)
            case None | bool() | int():
                return repr(value)
            case float():
                return _digits(repr(value)) + "f"
            case np.generic():
                return self.value(value.item())
            case Constant():
                return self.reference(value)
        return f"<{type(value).__name__}>"


RESERVED = frozenset({"True", "False", "None", "nan", "inf", "floordiv", "floormod", "min", "max",
                      "fn", "Tensor", "meta"})  # fmt: skip
"""Words that no size is called by."""


def _brackets(items: list[str]) -> str:
    return f"({', '.join(items)}{',' * (len(items) == 1)})"


def type_text(t: types.Type) -> str:
    """A type in Relay's words, by itself."""
    return Words().type(t)


def size_text(e: expr.Expr) -> str:
    """A size in Relay's words, by itself."""
    return Words().size(e)


def value_text(value: Any) -> str:
    """An attribute in Relay's words, by itself."""
    return Words().value(value)
