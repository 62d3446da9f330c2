"""Values in a Relay text, one function a construct: they call each other in brackets only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.errors import SmeltError
from smelt.ir.expr import Expr
from smelt.ir.types import FuncType, IncompleteType, TensorType, TupleType, Type
from smelt.relax import adt
from smelt.relax import nodes as relax
from smelt.topi.registry import Op, ops

from .adt import Match
from .dialect import RELAY
from .expr import If, RelayVar, TupleGetItem
from .metadata import KIND
from .op import get
from .parser_lexer import Token, near
from .parser_types import DTYPE_OF, SPECIAL, TypeReader
from .printer_words import identifier, type_text

_INFIX = {
    "*": "multiply", "/": "divide", "+": "add", "-": "subtract", "<": "less", ">": "greater",
    "<=": "less_equal", ">=": "greater_equal", "==": "equal", "!=": "not_equal",
}  # fmt: skip
_STRENGTH = {sign: 3 if sign in "*/" else 2 if sign in "+-" else 1 for sign in _INFIX}
WIDTH = 1 << 14
"""How many values a tuple may hold."""

_MISTAKES = (SmeltError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError,
             AssertionError, RecursionError)  # fmt: skip
"""What an operator's body raises on attributes that it is not made for."""


class Head(NamedTuple):
    """What stands before a function's body.

    variables  type variables in scope in the body
    body       the number of the word that opens the body
    """

    params: list[relax.Var]
    scope: dict[str, relax.RelaxExpr]
    attrs: dict[str, Any]
    result: Type | None
    variables: dict[str, Any]
    body: int


class ExprReader(TypeReader):
    """Values.

    constants     those behind meta[relay.Constant][n], by n
    functions     the types of the module's functions by name; None: any name is legal
    constructors  those of the data types, by name
    counted       how many parts a type has
    scopes        the values that % names, innermost last
    """

    def __init__(self, *given: Any) -> None:
        """Nothing is known yet."""
        super().__init__(*given)
        self.constants: Mapping[int, relax.Constant] = {}
        self.functions: dict[str, Type] | None = None
        self.constructors: dict[str, adt.Constructor] = {}
        self.scopes: list[dict[str, relax.RelaxExpr]] = [{}]
        self.counted: dict[Type, int] = {}

    # -------------------------------------------------------------------------------- blocks

    def block(self, where: str) -> relax.RelaxExpr:
        """{ lines, result }."""
        self.expect("{", where)
        self.scopes.append({})
        made = self.lines()
        self.scopes.pop()
        if not self.sees("}"):
            self.wrong("expected '}' behind the result of a block",
                       "a value that something uses has a name: %0 = ...; or let %x = ...;"
                       if self.sees(";") else "")  # fmt: skip
        self.next()
        return made

    def lines(self) -> relax.RelaxExpr:
        """let, %n = and free_var, then the result."""
        lets: list[tuple[relax.Var, relax.RelaxExpr]] = []
        lines: dict[str, Token] = {}
        while True:
            if self.sees("let"):
                lets.append(self.let())
            elif self.sees("free_var"):
                self.next()
                token, v = self.variable("behind free_var")
                self.once(token, lines)
                self.scopes[-1][self.key(token)] = v
            elif self.token.kind == "var" and self.behind("="):
                token = self.next()
                self.once(token, lines)
                self.next()
                self.scopes[-1][self.key(token)] = self.expr()
            else:
                break
            self.expect(";", "at the end of a line")
        return relax.let_values(lets, self.expr())

    def once(self, token: Token, lines: dict[str, Token]) -> None:
        """A name of a block is given once."""
        first = lines.setdefault(self.key(token), token)
        if first is not token:
            line, column = self.text.place(first.start)
            self.error(token, f"{token.text} has a value since line {line}, column {column}")

    def let(self) -> tuple[relax.Var, relax.RelaxExpr]:
        """let %x: type = value; a function may call itself by the name."""
        self.next()
        token, v = self.variable("behind let")
        self.expect("=", "behind the variable of let")
        recursive = self.sees("fn")
        if recursive:
            self.scopes[-1][self.key(token)] = v
        start = self.token
        value = self.expr()
        if not self.agree(v.type, value.type):
            found, said = type_text(value.type), type_text(v.type)
            self.error(start, f"the value is of type {found}, {token.text} of {said}")
        self.scopes[-1][self.key(token)] = v
        return v, value

    def variable(self, where: str) -> tuple[Token, relax.Var]:
        """%x: type."""
        token = self.token
        if token.kind != "var":
            self.wrong(f"expected a variable {where}", "%x, %x: Tensor[(2, 3), float32]")
        self.next()
        t = self.type() if self.takes(":") else IncompleteType()
        return token, RelayVar(self.name(token), t)

    # ------------------------------------------------------------------------------- infix

    def expr(self) -> relax.RelaxExpr:
        """Operands with * / + - and comparisons between them."""

        def combine(sign: Token, a: relax.RelaxExpr, b: relax.RelaxExpr) -> relax.RelaxExpr:
            return self.apply(sign, RELAY.get(_INFIX[sign.text]), [a, b], {})

        return self.infix(self.unary(), self.unary, _STRENGTH, combine)

    def unary(self) -> relax.RelaxExpr:
        """An operand with signs before it; that of a number is the number's."""
        signs: list[Token] = []
        while self.sees("-"):
            signs.append(self.next())
        token = self.token
        number = token.kind == "number" or (SPECIAL.fullmatch(token.text) and token.kind == "name")
        if number:
            self.next()
            made = self.postfix(self.scalar(token, bool(signs)), token)
            signs = signs[:-1]
        else:
            made = self.operand()
        for sign in reversed(signs):
            made = self.apply(sign, RELAY.get("negative"), [made], {})
        return made

    def scalar(self, token: Token, negative: bool) -> relax.Constant:
        """A number: 1 is an int32, 1.5 and 1f are float32."""
        special = SPECIAL.fullmatch(token.text)
        digits, suffix = (special.group(1), special.group(2)) if special else self.digits(token)
        whole = digits.isdigit()
        kind = DTYPE_OF[suffix] if suffix or whole else "float32"
        numpy_type = dt.to_numpy(kind)
        sign = -1 if negative else 1
        if dt.is_float(kind):
            value = math.copysign(float(digits), sign)
            with np.errstate(over="ignore"):
                return relax.constant(np.asarray(value).astype(numpy_type))
        if not whole:
            self.error(token, f"{token.text} is no whole number, and {kind} has no others")
        limits = np.iinfo(numpy_type)
        if len(digits) > 20 or not limits.min <= sign * int(digits) <= limits.max:
            legal = f"{digits}i64" if kind == "int32" and len(digits) < 19 else ""
            self.error(token, f"{'-' * negative}{token.text[:40]} does not fit {kind}", legal)
        return relax.constant(np.asarray(sign * int(digits), numpy_type))

    # ----------------------------------------------------------------------------- operands

    def operand(self) -> relax.RelaxExpr:
        """A value with its calls and items: %f(%x).0."""
        token = self.token
        match token.kind:
            case "var":
                self.next()
                return self.postfix(self.lookup(token), token)
            case "global":
                self.next()
                return self.postfix(self.global_(token), token)
            case "name":
                return self.postfix(self.named(token), token)
        if self.sees("("):
            return self.postfix(self.bracket_value(), token)
        if self.sees("{"):
            return self.postfix(self.block("around lines"), token)
        return self.wrong("expected a value", "%x, %0, @f(%x), add(%x, 1f), (%a, %b), "
                          "fn (...) {...}, if (...) {...} else {...}")  # fmt: skip

    def postfix(self, made: relax.RelaxExpr, token: Token) -> relax.RelaxExpr:
        """Calls and items behind a value."""
        while True:
            if self.sees("("):
                made = self.call_value(made, token)
            elif self.token.kind == "item":
                item = self.next()
                made = self.guarded(item, TupleGetItem, made, int(item.text[1:10]))
            else:
                return made

    def lookup(self, token: Token) -> relax.RelaxExpr:
        """The value of a name."""
        key = self.key(token)
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key]
        known = [k for scope in self.scopes for k in scope]
        return self.error(token, f"{token.text} has no value here", near(key, known))

    def key(self, token: Token) -> str:
        """What a name is known by: %0 is the value of a line, %"0" a variable called 0."""
        plain = token.text[1:].isdigit()
        return token.text if plain else f"%{identifier(self.name(token))}"

    def global_(self, token: Token) -> relax.GlobalVar:
        """A function of the module."""
        name = self.name(token)
        if self.functions is not None and name not in self.functions:
            self.error(token, f"the module has no function {token.text}",
                       near(name, self.functions, "@"))  # fmt: skip
        return relax.GlobalVar(name)

    def bracket_value(self) -> relax.RelaxExpr:
        """(), (a), (a,) or (a, b)."""
        token = self.next()
        items, comma = self.in_brackets(self.expr, "brackets")
        if len(items) == 1 and not comma:
            return items[0]
        made = relax.Tuple(tuple(items))
        if self.guarded(token, self.leaves, made) > WIDTH:
            self.error(token, f"a tuple of more than {WIDTH} values, with those of tuples in it")
        return made

    def leaves(self, made: relax.Tuple) -> int:
        """How many values a tuple holds: a few lines could double them again and again."""
        return sum([self._leaves(i.type) for i in made.items])

    def _leaves(self, t: Type) -> int:
        if t not in self.counted:
            inside = t.items if isinstance(t, TupleType) else ()
            if isinstance(t, FuncType):
                inside = (*t.arg_types, t.ret_type)
            self.counted[t] = sum(map(self._leaves, inside)) + 1
        return self.counted[t]

    def named(self, token: Token) -> relax.RelaxExpr:
        """What begins with a word: fn, if, match, meta, True, operators, constructors."""
        match token.text:
            case "fn":
                self.next()
                return self.function(self.head("fn"))
            case "if":
                return self.branch()
            case "match":
                return self.match()
            case "meta":
                return self.meta()
            case "True" | "False":
                self.next()
                return relax.constant(np.asarray(token.text == "True"))
        self.next()
        if token.text in self.constructors:
            c = self.constructors[token.text]
            return c if c.inputs or self.sees("(") else self.guarded(token, c)
        if token.text == "let":
            self.error(
                token, "let begins a line; as a value it stands in braces", "{ let %x = ...; ... }"
            )
        op = self.operator(token)
        if not self.sees("("):
            self.wrong(f"expected the operands of {token.text}", f"{token.text}(...)")
        args, attrs = self.arguments(op)
        return self.apply(token, op, args, attrs)

    def operator(self, token: Token) -> Op:
        """An operator by its name."""
        try:
            return get(token.text)
        except SmeltError:
            known = [*RELAY.ops, *self.constructors, *[f"smelt.{n}" for n in ops()]]
            return self.error(token, f"no operator {token.text!r}", near(token.text, known))

    def data(self) -> Any:
        """The value of an attribute, which may be a constant."""
        return self.meta() if self.sees("meta") else super().data()

    def meta(self) -> relax.Constant:
        """meta[relay.Constant][n]."""
        self.next()
        self.expect("[", "behind meta")
        self.expect(KIND, "in meta[...]")
        self.expect("]", "in meta[...]")
        self.expect("[", "before the number of a constant")
        token = self.next()
        index = self.whole(token) if token.kind == "number" else -1
        self.expect("]", "behind the number of a constant")
        if index not in self.constants:
            self.error(token, "there is no such constant", f"0 to {len(self.constants) - 1}")
        return self.constants[index]

    # -------------------------------------------------------------------------------- calls

    def arguments(self, op: Op | None) -> tuple[list[relax.RelaxExpr | None], dict[str, Any]]:
        """Operands, then attributes: (%x, None, axis=1)."""
        args: list[relax.RelaxExpr | None] = []
        attrs: dict[str, Any] = {}
        self.expect("(", "before operands")
        for _ in self.separated(")", "in operands"):
            token = self.token
            if token.kind in ("name", "string") and self.behind("="):
                self.attribute(attrs, op)
            elif attrs:
                self.wrong("operands stand before attributes")
            elif op is not None and token.text == "None":
                self.next()
                args.append(None)
            else:
                args.append(self.expr())
        return args, attrs

    def attribute(self, attrs: dict[str, Any], op: Op | None) -> None:
        """name=value."""
        token = self.next()
        name = self.name(token) if token.kind == "string" else token.text
        if name in attrs:
            self.error(token, f"{name} is given twice")
        if op is not None and name not in op.attributes:
            self.error(token, f"{op.name} has no attribute {name!r}",
                       near(name, op.attributes) or f"{op.name} has none" * (not op.attributes)
                       or ", ".join(op.attributes))  # fmt: skip
        self.next()
        attrs[name] = self.data()

    def apply(
        self, token: Token, op: Op, args: Sequence[relax.RelaxExpr | None], attrs: dict[str, Any]
    ) -> relax.Call:
        """A call of an operator; what it refuses is an error at its name."""
        return self.guarded(token, relax.call, op, *args, **attrs)  # type: ignore[no-any-return]

    def guarded(self, token: Token, make: Any, *given: Any, **named: Any) -> Any:
        """What a constructor of nodes makes; what it refuses is an error at a word."""
        try:
            return make(*given, **named)
        except _MISTAKES as e:
            what = str(e) if isinstance(e, SmeltError) else f"{token.text}: {e}"
            return self.error(token, what)

    def call_value(self, callee: relax.RelaxExpr, token: Token) -> relax.RelaxExpr:
        """A function applied."""
        args, attrs = self.arguments(None)
        if isinstance(callee, adt.Constructor):
            return self.guarded(token, callee, *args)  # type: ignore[no-any-return]
        known: Type = callee.type
        if isinstance(callee, relax.GlobalVar) and self.functions is not None:
            known = self.functions[callee.name]
        if isinstance(known, TensorType | TupleType):
            self.error(token, f"{token.text} is no function, but of type {type_text(known)}")
        result: Type | None = None
        if isinstance(known, FuncType):
            if len(known.arg_types) != len(args):
                self.error(token, f"{token.text} takes {_values(len(known.arg_types))}, "
                           f"{len(args)} given")  # fmt: skip
            generic = known.type_params or not isinstance(callee, relax.GlobalVar)
            result = None if generic else known.ret_type
        made = relax.call_function(callee, args, result)  # type: ignore[arg-type]
        return made.replace(attrs=relax.CallAttrs("a function", attrs)) if attrs else made

    # --------------------------------------------------------------------------- functions

    def head(self, what: str) -> Head:
        """[A](%x: type, name=value) -> type, up to the body."""
        outer = self.type_vars
        variables = self.type_variables()
        self.expect("(", f"behind {what}")
        params: list[relax.Var] = []
        attrs: dict[str, Any] = {"type_params": variables} if variables else {}
        scope: dict[str, relax.RelaxExpr] = {}
        for _ in self.separated(")", "in parameters"):
            if self.token.kind in ("name", "string") and self.behind("="):
                self.attribute(attrs, None)
            else:
                token, v = self.variable("as a parameter")
                if scope.setdefault(self.key(token), v) is not v:
                    self.error(token, f"the parameter {token.text} is there twice")
                params.append(v)
        result = self.type() if self.takes("->") else None
        found = Head(params, scope, attrs, result, self.type_vars, self.at)
        self.type_vars = outer
        return found

    def function(self, head: Head) -> relax.Function:
        """A function whose head has been read."""
        outer, self.type_vars = self.type_vars, head.variables
        self.at = head.body
        self.scopes.append(head.scope)
        start = self.token
        body = self.block("before the body of a function")
        self.scopes.pop()
        self.type_vars = outer
        made = relax.Function(tuple(head.params), body, head.attrs)
        if head.result is not None and not self.agree(head.result, body.type):
            found, said = type_text(body.type), type_text(head.result)
            self.error(start, f"the body is of type {found}, the function says {said}")
        return made

    def branch(self) -> relax.RelaxExpr:
        """if (condition) { ... } else { ... }."""
        token = self.next()
        self.expect("(", "behind if")
        condition = self.expr()
        self.expect(")", "behind the condition of if")
        yes = self.block("behind the condition of if")
        self.expect("else", "behind the first side of if")
        no = self.block("behind else")
        return self.guarded(token, If, condition, yes, no)  # type: ignore[no-any-return]

    def match(self) -> relax.RelaxExpr:
        """match (data) { pattern => value, ... }; match? need not be complete."""
        token = self.next()
        complete = not self.takes("?")
        self.expect("(", "behind match")
        data = self.expr()
        self.expect(")", "behind the value of match")
        self.expect("{", "before the cases of match")
        clauses: list[adt.Clause] = []
        while not self.takes("}"):
            self.scopes.append({})
            lhs = self.pattern()
            self.expect("=>", "behind a pattern")
            clauses.append(adt.Clause(lhs, self.expr()))
            self.scopes.pop()
            if not self.takes(",") and not self.sees("}"):
                self.wrong("expected ',' or '}' behind a case of match")
        return self.guarded(token, Match, data, clauses, complete)  # type: ignore[no-any-return]

    def pattern(self) -> adt.Pattern:
        """_, %x, (p, q) or a constructor of patterns."""
        token = self.token
        if token.kind == "var":
            _, v = self.variable("in a pattern")
            if self.scopes[-1].setdefault(self.key(token), v) is not v:
                self.error(token, f"{token.text} is there twice in a pattern")
            return adt.PatternVar(v)
        if self.takes("("):
            return adt.PatternTuple(
                tuple([self.pattern() for _ in self.separated(")", "in a pattern")])
            )
        if token.kind != "name":
            self.wrong("expected a pattern", "_, %x, (%a, %b), Cons(%h, %t)")
        self.next()
        if token.text == "_":
            return adt.PatternWildcard()
        c = self.constructors.get(token.text)
        if c is None:
            return self.error(token, f"no constructor {token.text!r}",
                              near(token.text, self.constructors))  # fmt: skip
        inside = self.listed("(", self.pattern, "in a pattern")
        if len(inside) != len(c.inputs):
            self.error(token, f"{c.name} has {len(c.inputs)} fields, {len(inside)} patterns given")
        return adt.PatternConstructor(c, tuple(inside))

    # -------------------------------------------------------------------------------- types

    def agree(self, said: Type, found: Type) -> bool:
        """Whether a type is what the text says; what is not known, and ?, agree with all."""
        if relax.incomplete(said) or relax.incomplete(found) or said is found:
            return True
        match said, found:
            case TensorType(a, kind), TensorType(b, other):
                return kind == other and len(a) == len(b) and all(map(self.same, a, b))
            case TupleType(a), TupleType(b):
                return len(a) == len(b) and all(map(self.agree, a, b))
            case FuncType(), FuncType():
                return len(said.arg_types) == len(found.arg_types)
        return type(said) is type(found)

    def same(self, a: Expr, b: Expr) -> bool:
        """Whether two extents are equal for sure, or one is not known."""
        if a is b or a in self.anonymous or b in self.anonymous:
            return True
        return a.dtype == b.dtype and Analyzer().can_prove_equal(a, b)


def _values(count: int) -> str:
    return f"{count} value{'s' * (count != 1)}"
