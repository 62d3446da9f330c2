"""Types, sizes and attributes in a Relay text."""

from __future__ import annotations

import re
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir import expr, types

from .parser_lexer import DEPTH, Cursor, Text, Token, near
from .printer_words import ANY, INFIX, NAMED, SUFFIXES

DTYPE_OF = {**{s: d for d, s in SUFFIXES.items()}, "f16": "float16", "f32": "float32",
            "i32": "int32"}  # fmt: skip
"""The element type of a number by what stands behind its digits."""

FLOATS = frozenset({s for s, d in DTYPE_OF.items() if dt.is_float(d)})
SPECIAL = re.compile(rf"(nan|inf)({'|'.join(sorted(FLOATS))})")
NUMBER = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)(\w*)")
"""Digits and suffix. Types have letters that no exponent has, so that e is always an exponent."""

Kind = type[expr.Binary]

_INFIX: dict[str, Any] = {sign: kind for kind, (sign, _) in INFIX.items()}
_STRENGTH = dict(INFIX.values())
_NAMED: dict[str, Any] = {name: kind for kind, name in NAMED.items()}
_LIMIT = 2**63


class TypeReader(Cursor):
    """What is known without any value: types, sizes, plain data.

    sizes      symbolic sizes by name; one name is one size in a whole text
    type_vars  type variables by name, those of functions around included
    data_types the number of variables of each data type
    """

    def __init__(self, text: Text, tokens: list[Token], pairs: dict[int, int]) -> None:
        """Nothing is known yet."""
        super().__init__(text, tokens, pairs)
        self.sizes: dict[str, expr.Var] = {}
        self.anonymous: set[expr.Var] = set()
        self.type_vars: dict[str, types.TypeVar] = {}
        self.data_types: dict[str, int] = {}
        self._depth = 0

    # -------------------------------------------------------------------------------- types

    def type(self) -> types.Type:
        """A type."""
        self._depth += 1
        if self._depth > DEPTH:
            self.wrong(f"a type is nested more than {DEPTH} deep")
        try:
            return self._type()
        finally:
            self._depth -= 1

    def _type(self) -> types.Type:
        token = self.token
        if self.takes("("):
            items = [self.type() for _ in self.separated(")", "in a tuple's type")]
            return types.TupleType(tuple(items))
        if token.kind != "name":
            self.wrong("expected a type", "Tensor[(1, 3), float32], float32, (a, b), fn (a) -> b")
        if token.text == "Tensor":
            return self.tensor()
        if token.text == "fn":
            return self.function_type()
        self.next()
        word = token.text
        if word == "_":
            return types.IncompleteType()
        if word in self.type_vars:
            return self.type_vars[word]
        if word in self.data_types:
            return self.data_type(token)
        if word in dt.DTYPES:
            return types.TensorType((), word)
        known = ["Tensor", *dt.DTYPES, *self.data_types, *self.type_vars]
        return self.error(token, f"no type {word!r}", near(word, known))

    def tensor(self) -> types.TensorType:
        """Tensor[(extents), element type]."""
        self.next()
        self.expect("[", "behind Tensor")
        self.expect("(", "before the extents of a Tensor")
        shape = [self.size() for _ in self.separated(")", "in the extents of a Tensor")]
        self.expect(",", "between the extents and the element type of a Tensor")
        kind = self.token
        if kind.kind != "name" or kind.text not in dt.DTYPES:
            self.wrong(
                "expected an element type", near(kind.text, dt.DTYPES) or "float32, int8, ..."
            )
        self.next()
        self.expect("]", "behind the element type of a Tensor")
        return types.TensorType(tuple(shape), kind.text)

    def function_type(self) -> types.FuncType:
        """fn (a, b) -> c."""
        self.next()
        outer = self.type_vars
        variables = self.type_variables()
        self.expect("(", "behind fn in a type")
        given = tuple([self.type() for _ in self.separated(")", "in a function's type")])
        made = types.FuncType(
            given, self.type() if self.takes("->") else types.TupleType(()), variables
        )
        self.type_vars = outer
        return made

    def type_variables(self) -> tuple[types.TypeVar, ...]:
        """[A, B]: new type variables from here on; none where no bracket is."""
        made: dict[str, types.TypeVar] = {}
        if self.takes("["):
            for _ in self.separated("]", "in a list of type variables"):
                token = self.next()
                if token.kind != "name" or "." in token.text:
                    self.error(token, "expected the name of a type variable", "A")
                if token.text in made:
                    self.error(token, f"the type variable {token.text} is there twice")
                made[token.text] = types.TypeVar(token.text)
        self.type_vars = {**self.type_vars, **made}
        return tuple(made.values())

    def data_type(self, token: Token) -> types.Type:
        """List[float32]; the name has been read."""
        count, given = self.data_types[token.text], self.listed("[", self.type, "in a data type")
        if len(given) != count:
            self.error(token, f"{token.text} takes {count} types, {len(given)} given")
        return types.TypeCall(types.GlobalTypeVar(token.text), tuple(given))

    # -------------------------------------------------------------------------------- sizes

    def size(self, first: expr.Expr | None = None) -> expr.Expr:
        """A size: numbers, names and ? with + - * and floordiv, floormod, min, max.

        first  the left operand, where it has been read
        """
        first = self.size_operand() if first is None else first
        return self.infix(first, self.size_operand, _STRENGTH, lambda sign, a, b: self.binary(
            sign, _INFIX[sign.text], a, b
        ))  # fmt: skip

    def binary(self, token: Token, kind: Kind, a: expr.Expr, b: expr.Expr) -> expr.Expr:
        """An operation on two sizes; two numbers give a number."""
        if isinstance(a, expr.IntImm) and isinstance(b, expr.IntImm):
            if kind in (expr.FloorDiv, expr.FloorMod) and b.value == 0:
                self.error(token, "a size divided by 0")
            return self.number(token, int(expr.binary(kind, a, b).value))  # type: ignore[attr-defined]
        if a.dtype != b.dtype:
            if isinstance(a, expr.IntImm):
                a = expr.const(a.value, b.dtype)
            elif isinstance(b, expr.IntImm):
                b = expr.const(b.value, a.dtype)
            else:
                self.error(token, f"a size of {a.dtype} and one of {b.dtype}")
        return kind(a, b)

    def number(self, token: Token, value: int) -> expr.Expr:
        """A size that is a number."""
        if not -_LIMIT <= value < _LIMIT:
            self.error(token, "the size does not fit 64 bits")
        return expr.const(value, expr.INDEX)

    def size_operand(self) -> expr.Expr:
        """One operand of a size."""
        negative = False
        while self.takes("-"):
            negative = not negative
        token = self.next()
        made: expr.Expr
        if token.kind == "number":
            made = self.number(token, self.whole(token))
        elif token.text == "?":
            made = expr.Var(ANY, expr.INDEX)
            self.anonymous.add(made)
        elif token.text == "(" and token.kind == "sign":
            made = self.size()
            self.expect(")", "behind a size")
        elif token.kind == "name" and token.text in _NAMED and self.sees("("):
            self.next()
            parts = [self.size() for _ in self.separated(")", f"in {token.text}")]
            if len(parts) != 2:
                self.error(token, f"{token.text} takes 2 sizes, {len(parts)} given")
            made = self.binary(token, _NAMED[token.text], *parts)
        elif token.kind == "name" and "." not in token.text:
            made = self.symbol(token)
        else:
            self.error(token, "expected a size", "3, ?, n, n * 2 + 1, floordiv(n, 2), min(n, 8)")
        return self.binary(token, expr.Sub, expr.const(0, expr.INDEX), made) if negative else made

    def symbol(self, token: Token) -> expr.Var:
        """A symbolic size by its name; one that is no index says its type: n: int32."""
        kind = expr.INDEX
        if self.sees(":"):
            self.next()
            kind = self.next().text
            if kind not in dt.DTYPES or not dt.is_int(kind):
                self.error(self.tokens[self.at - 1], "expected the type of a size", "int32, int64")
        known = self.sizes.setdefault(token.text, expr.Var(token.text, kind))
        if known.dtype != kind:
            self.error(token, f"the size {token.text} is of {known.dtype} elsewhere")
        return known

    def whole(self, token: Token) -> int:
        """A number without fraction and suffix."""
        if not token.text.isdigit() or len(token.text) > 20:
            self.error(token, f"{token.text[:40]} is no whole number of 64 bits")
        return int(token.text)

    # --------------------------------------------------------------------------------- data

    def data(self) -> Any:
        """The value of an attribute."""
        token = self.token
        if token.kind == "string":
            self.next()
            return self.name(token)
        if self.takes("["):
            return [self.data() for _ in self.separated("]", "in a list")]
        if self.sees("{"):
            return self.mapping()
        if self.takes("("):
            return self.bracket()
        if token.kind == "number" or self.sees("-"):
            return self.number_or_size()
        if token.kind == "name":
            return self.word()
        return self.wrong("expected the value of an attribute",
                          '2, 1f, "text", True, False, None, [...], (...), {...}, n')  # fmt: skip

    def bracket(self) -> Any:
        """(a, b), (a,) or a size in brackets; the bracket has been read."""
        items, comma = self.in_brackets(self.data, "a tuple")
        if len(items) != 1 or comma:
            return tuple(items)
        return self.rest_of_size(items[0])

    def rest_of_size(self, first: Any) -> Any:
        """What stands behind the first operand of a size."""
        if (
            not self.sees(*_INFIX)
            or not isinstance(first, int | expr.Expr)
            or isinstance(first, bool)
        ):
            return first
        made = self.size(expr.const(first, expr.INDEX) if isinstance(first, int) else first)
        return made.value if isinstance(made, expr.IntImm) else made

    def mapping(self) -> dict[Any, Any]:
        """{"key": value}."""
        self.next()
        made: dict[Any, Any] = {}
        for _ in self.separated("}", "in a mapping"):
            token = self.token
            key = self.data()
            if not isinstance(key, str | int | float | bool | None):
                self.error(token, "a key is a text or a number")
            self.expect(":", "behind a key")
            made[key] = self.data()
        return made

    def number_or_size(self) -> Any:
        """2, -1f, 0.5, 2 * n."""
        negative = False
        while self.takes("-"):
            negative = not negative
        token = self.token
        special = SPECIAL.fullmatch(token.text) if token.kind == "name" else None
        if special is not None:
            self.next()
            value = float(special.group(1))
            return -value if negative else value
        if token.kind != "number":
            made = self.size_operand()
            return self.rest_of_size(self.binary(token, expr.Sub, expr.const(0, expr.INDEX), made)
                                     if negative else made)  # fmt: skip
        self.next()
        digits, suffix = self.digits(token)
        if suffix in FLOATS or not digits.isdigit():
            number = float(digits)
            return -number if negative else number
        if len(digits) > 40:
            self.error(token, "the number is too long")
        return self.rest_of_size(-int(digits) if negative else int(digits))

    def digits(self, token: Token) -> tuple[str, str]:
        """A number's digits and its suffix."""
        m = NUMBER.fullmatch(token.text)
        assert m is not None
        return m.group(1), m.group(2)

    def word(self) -> Any:
        """True, None, an infinity, an element type, a type, a size."""
        token = self.token
        if token.text in ("Tensor", "fn"):
            return self.type()
        plain = {"True": True, "False": False, "None": None}
        if token.text in plain:
            self.next()
            return plain[token.text]
        if SPECIAL.fullmatch(token.text):
            return self.number_or_size()
        if token.text in self.sizes or token.text in _NAMED:
            return self.rest_of_size(self.size_operand())
        if token.text in dt.DTYPES:
            return self.next().text
        known = [*plain, *self.sizes]
        return self.error(token, f"{token.text!r} is no value, and no size that a type mentions",
                          near(token.text, known))  # fmt: skip
