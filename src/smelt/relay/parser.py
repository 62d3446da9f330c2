"""Relay texts read back: `parse(astext(m))` is structurally equal to `m`.

    mod = relay.parse('''
    def @main(%x: Tensor[(2, 3), float32]) {
      %0 = nn.relu(%x);
      %0 * 2f
    }
    ''')

Both what the printer writes and what people write is read: infix operators, comments, parameters
and results without types. Nothing of a text is executed, brackets are nested DEPTH deep at most,
and constants are plain bytes that are checked.

What stands without a type has none until InferType finds it. The results of operators on operands
of known types are known, and so are those of functions of the module that say their result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smelt.ir.errors import ParseError
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.serial import FORMATS
from smelt.ir.types import FuncType, GlobalTypeVar, IncompleteType, Type
from smelt.relax.adt import Constructor, TypeData
from smelt.relax.nodes import Function, RelaxExpr

from .metadata import KIND, arrays_of, read_metadata
from .parser_expr import ExprReader, Head
from .parser_lexer import DEPTH as DEPTH
from .parser_lexer import Text, Token, tokens_of
from .printer import astext

Meta = Mapping[str, Any]


def parse(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    meta: Meta | None = None,
) -> IRModule:
    """The module that a text describes; of an expression, a module that computes it as "main".

    source_name  what errors call the text
    init_module  its functions and data types are known to the text, and part of the result
    meta         {"relay.Constant": [array, ...]}: the constants that the text refers to, where it
                 does not hold them itself; `relay.meta_table` gives those of a program

    Raises ParseError with line, column and what would be legal there.
    """
    return _read(source, source_name, init_module, meta).module()


fromtext = parse


def parse_expr(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    meta: Meta | None = None,
) -> RelaxExpr:
    """The expression that a text describes: a value, or a function. Parameters as of `parse`."""
    return _read(source, source_name, init_module, meta).expression()


def _read(source: str, path: str, known: IRModule | None, meta: Meta | None) -> _Reader:
    if not isinstance(source, str):
        raise ParseError(f"{path}: the text is {type(source).__name__}; a str is legal")
    text = Text(source, path)
    tokens, pairs, table = tokens_of(text)
    if table is not None and meta is not None:
        text.fail("the text holds its constants; meta= is for texts without them")
    reader = _Reader(text, tokens, pairs)
    if table is not None:
        reader.constants = dict(enumerate(read_metadata(table, text.fail)))
    elif meta is not None:
        reader.constants = arrays_of(meta, text.fail)
    reader.check_constants()
    if known is not None:
        reader.enter(known)
    return reader


def _is_graphs(x: object) -> bool:
    return isinstance(x, IRModule) and all(isinstance(f, Function) for f in x.functions.values())


FORMATS["relay.module"] = (_is_graphs, astext, parse)
FORMATS["relay.expression"] = (lambda x: isinstance(x, RelaxExpr), astext, parse_expr)


class _Reader(ExprReader):
    """The definitions of a text, then its expression."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.made: dict[str, Node] = {}
        self.types: dict[GlobalTypeVar, TypeData] = {}
        self.attrs: dict[str, Any] = {}
        self.heads: dict[str, Head] = {}
        self.result: int | None = None

    def enter(self, mod: IRModule) -> None:
        """What another module holds is known."""
        self.made.update(mod.functions)
        self.attrs.update({k: v for k, v in mod.attrs.items() if k != "type_defs"})
        for name, data in mod.type_definitions.items():
            self.types[name] = data
            self.data_types[name.name] = len(data.type_vars)
            self.constructors.update({c.name: c for c in data.constructors})

    def check_constants(self) -> None:
        """One error for all constants that are not there."""
        missing: dict[int, Token] = {}
        for i, token in enumerate(self.tokens[:-5]):
            if token.text == "meta" and self.tokens[i + 2].text == KIND:
                number = self.tokens[i + 5]
                if number.text.isdigit() and len(number.text) < 10:
                    index = int(number.text)
                    if index not in self.constants:
                        missing.setdefault(index, token)
        if not missing:
            return
        shown = [f"{n} (line {self.text.place(t.start)[0]})" for n, t in sorted(missing.items())]
        more = f" and {len(shown) - 10} more" if len(shown) > 10 else ""
        self.text.fail(
            f"the text refers to {len(missing)} constant{'s' * (len(missing) > 1)} that it does "
            f"not hold: meta[{KIND}] {', '.join(shown[:10])}{more}; give "
            f'meta={{"{KIND}": [array, ...]}}'
            ", as relay.meta_table makes it, or the text that astext(show_meta_data=True) prints"
        )

    # --------------------------------------------------------------------------- the whole

    def module(self) -> IRModule:
        """All definitions, and an expression behind them as "main"."""
        self.guard(self.definitions)
        mod = IRModule(self.made, self.attrs)
        for name, data in self.types.items():
            mod[name] = data
        if self.result is None:
            return mod
        if "main" in mod:
            self.error(self.tokens[self.result], "a value behind the definitions is main, which "
                       "the module has already")  # fmt: skip
        made = IRModule.from_expr(self.guard(self.last), mod.functions)
        made.attrs.update(mod.attrs)
        return made

    def expression(self) -> RelaxExpr:
        """The expression of a text that defines no functions."""
        self.guard(self.definitions)
        if self.heads:
            self.text.fail("the text defines functions; parse reads modules")
        if self.result is None:
            self.wrong("expected an expression")
        return self.guard(self.last)  # type: ignore[no-any-return]

    def guard(self, read: Any) -> Any:
        """What `read` finds; a stack that is nearly full already is a clear error too."""
        try:
            return read()
        except RecursionError:
            self.error(self.token, "brackets are nested too deeply for what is left of the stack")

    def last(self) -> RelaxExpr:
        """The expression at the end."""
        assert self.result is not None
        self.at = self.result
        made = self.lines()
        self.takes(";")
        if self.token.kind != "end":
            self.wrong("expected the end of the text behind the expression")
        return made

    def definitions(self) -> None:
        """Names first, then heads, then bodies: definitions may use each other in any order."""
        types, functions = self.outline()
        for at in types:
            self.at = at
            self.type_head()
        for at in types:
            self.at = at
            self.type_definition()
        for at in functions:
            self.at = at
            self.function_head()
        own_heads = dict(self.heads)
        known: dict[str, Type] = {
            n: f.type if isinstance(f, RelaxExpr) else IncompleteType()
            for n, f in self.made.items()
        }
        known |= {n: _type_of(h) for n, h in own_heads.items()}
        closed = known or types or functions
        self.functions = known if closed else None
        for name, head in own_heads.items():
            self.made[name] = self.function(head)

    def outline(self) -> tuple[list[int], list[int]]:
        """Where data types and functions are defined; headers are read on the way."""
        types: list[int] = []
        functions: list[int] = []
        while self.token.kind != "end":
            if self.sees("#["):
                self.header()
            elif self.sees("extern") or (self.sees("type") and not self.behind("(")):
                types.append(self.at)
                self.skip(with_body=not self.takes("extern"))
            elif self.sees("def"):
                functions.append(self.at)
                self.skip(with_body=True)
            elif self.takes(";"):
                continue
            else:
                if self.token.text in ("@T.prim_func", "@R.function", "@I.ir_module"):
                    self.error(self.token, "a script is no Relay text",
                               "smelt.script.parse reads what mod.script() writes")  # fmt: skip
                self.result = self.at
                return types, functions
        return types, functions

    def skip(self, with_body: bool) -> None:
        """A word and a name, then brackets with what they hold; with_body: the braces, too."""
        for _ in range(2):
            self.next()
        while self.sees("[") if not with_body else not self.sees("{"):
            if self.token.kind == "end":
                self.wrong("expected '{' before the body of a function")
            self.at = self.pairs.get(self.at, self.at) + 1
        if with_body:
            self.at = self.pairs[self.at] + 1

    def header(self) -> None:
        """#[version = "..."] or #[attributes = {...}]."""
        self.next()
        token = self.next()
        self.expect("=", "in a line about the text")
        value = self.data()
        self.expect("]", "at the end of a line about the text")
        if token.text == "attributes" and isinstance(value, dict):
            self.attrs.update(value)
        elif token.text == "version":
            if not isinstance(value, str) or not value.startswith("0.0."):
                self.error(token, f"version {value!r} is not known", '"0.0.5"')
        else:
            self.error(token, f"no line about the text says {token.text!r}", "version, attributes")

    # ---------------------------------------------------------------------------- definitions

    def type_head(self) -> None:
        """The name of a data type, and how many types it takes."""
        self.takes("extern")
        self.expect("type", "behind extern")
        token = self.next()
        if token.kind != "name" or "." in token.text:
            self.error(token, "expected the name of a data type", "List")
        if token.text in self.data_types:
            self.error(token, f"the data type {token.text} is defined twice")
        outer = self.type_vars
        self.data_types[token.text] = len(self.type_variables())
        self.type_vars = outer

    def type_definition(self) -> None:
        """type List[A] { Cons(A, List[A]), Nil }."""
        extern = self.takes("extern")
        self.next()
        header = GlobalTypeVar(self.next().text)
        outer = self.type_vars
        variables = self.type_variables()
        made: list[Constructor] = []
        if not extern:
            self.expect("{", "before the constructors of a data type")
            for _ in self.separated("}", "behind a constructor"):
                token = self.next()
                if token.kind != "name":
                    self.error(token, "expected a constructor", "Cons(A, List[A])")
                if token.text in self.constructors:
                    self.error(token, f"the constructor {token.text} is defined twice")
                fields = self.listed("(", self.type, "in a constructor")
                made.append(Constructor(token.text, tuple(fields), header))
                self.constructors[token.text] = made[-1]
        self.type_vars = outer
        self.types[header] = TypeData(header, variables, tuple(made))

    def function_head(self) -> None:
        """def @name(...) -> type."""
        self.next()
        token = self.next()
        if token.kind != "global":
            self.error(token, "expected the name of a function behind def", "@main")
        name = self.name(token)
        if name in self.made or name in self.heads:
            self.error(token, f"the module has a function {token.text} already")
        self.heads[name] = self.head(token.text)
        if not self.sees("{"):
            self.wrong("expected '->' or '{' behind the parameters of a function")


def _type_of(head: Head) -> FuncType:
    result = IncompleteType() if head.result is None else head.result
    return FuncType(tuple([p.type for p in head.params]), result, head.attrs.get("type_params", ()))
