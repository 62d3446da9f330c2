"""A text being parsed, and the errors that show places in it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from smelt.ir.errors import ParseError
from smelt.ir.expr import Expr

from .nodes import Buffer

Place = ast.AST | tuple[int, int]
"""A syntax node, or a line (from 1) and a column (from 0, in characters)."""


class Source:
    """A text being parsed, for the positions in errors."""

    def __init__(self, text: str, path: str, first_line: int = 1, indent: int = 0) -> None:
        """Remember the text; line numbers begin at `first_line`, columns after `indent`."""
        self.text = text
        self.lines = [line.rstrip("\r") for line in text.split("\n")]
        self.path, self.first_line, self.indent = path, first_line, indent

    def tree(self) -> ast.Module:
        """The syntax tree; what is no Python is a ParseError."""
        try:
            return ast.parse(self.text)
        except SyntaxError as e:
            self.error((e.lineno or 1, max(0, (e.offset or 1) - 1)), e.msg)
        except ValueError as e:
            self.error((1, 0), str(e))
        except (RecursionError, MemoryError):
            self.error((1, 0), "an expression is nested too deeply for Python's parser")

    def place(self, node: Place) -> str:
        """path:line:column of a place."""
        line, column, _ = self._span(node)
        return f"{self.path}:{self.first_line + line - 1}:{self.indent + column + 1}"

    def error(self, node: Place, message: str, legal: str = "") -> NoReturn:
        """Raise a ParseError that shows the place, and says what would be legal there."""
        line, column, width = self._span(node)
        text = self.lines[line - 1] if line - 1 < len(self.lines) else ""
        width = max(1, min(width, len(text) - column))
        shown = f"{self.place(node)}: {message}\n  {text}\n  {' ' * column}{'^' * width}"
        raise ParseError(f"{shown}\n  legal: {legal}" if legal else shown)

    def _span(self, node: Place) -> tuple[int, int, int]:
        """Line, column and width in characters (syntax trees count the bytes of UTF-8)."""
        if isinstance(node, tuple):
            return *node, 1
        line, begin = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end = getattr(node, "end_col_offset", begin + 1)
        text = self.lines[line - 1].encode() if line - 1 < len(self.lines) else b""
        column = len(text[:begin].decode(errors="ignore"))
        if getattr(node, "end_lineno", line) != line:
            return line, column, 1
        return line, column, len(text[begin:end].decode(errors="ignore"))


def dotted_name(node: ast.expr, modules: Collection[str]) -> str | None:
    """ "nn.conv2d" for R.nn.conv2d, where R is one of some modules; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not parts or not isinstance(node, ast.Name) or node.id not in modules:
        return None
    return ".".join(reversed(parts))


def unquoted(node: ast.expr) -> ast.expr:
    """What a text in quotes says, with its place; anything else as it is. Raises SyntaxError."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return node
    inner = ast.parse(node.value, mode="eval").body
    for n in ast.walk(inner):
        ast.copy_location(n, node)
    return inner


def plain_parameters(
    source: Source, node: ast.FunctionDef, who: str, form: str = ""
) -> list[ast.arg]:
    """The parameters of a function that has no others. form: what they look like."""
    a = node.args
    for odd in (*a.posonlyargs, *a.kwonlyargs, a.vararg, a.kwarg, *a.defaults):
        if odd is not None:
            source.error(odd, f"{who} has plain parameters only{form}")
    return a.args


class Described:
    """What stands for something in the parser, and what errors call it."""

    __slots__ = ("said",)

    def __init__(self, said: str) -> None:
        """Remember what it is called."""
        self.said = said

    def __str__(self) -> str:
        return self.said


class Macro(Described):
    """Statements with parameters, which a call puts in its own place."""

    def __init__(self, source: Source, aliases: frozenset[str], env: Mapping[str, Any]) -> None:
        """The one function of a text, and the names that it sees."""
        node = source.tree().body[0]
        if not isinstance(node, ast.FunctionDef):
            source.error(node, "a macro is a function with def")
        params = plain_parameters(source, node, "a macro")
        self.source, self.aliases, self.env = source, aliases, env
        self.body, self.params = node.body, [p.arg for p in params]
        super().__init__(f"the macro {node.name}({', '.join(self.params)})")


def describe(value: object) -> str:
    """A value for the text of an error."""
    if isinstance(value, Described):
        return str(value)
    if isinstance(value, Buffer):
        return f"the buffer {value.name}"
    if isinstance(value, Expr):
        return f"a value of {value.dtype}" if value.dtype != "handle" else "a handle"
    if isinstance(value, type) or callable(value):
        return f"{type(value).__name__} {getattr(value, '__name__', '')}".rstrip()
    return f"{type(value).__name__} {value!r}"[:80]
