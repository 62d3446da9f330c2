"""The text form of graph programs read back: `parse(script(m))` is structurally equal to `m`.

`R.name(...)` is a call of the core's operator of that name, or what the builder of that name makes,
as Relax has it (`relax/op`). Where there are both, it is the core's own if every keyword is an
attribute of the core's operator, only tensors stand by position, and the attributes that the text
always shows are given (`printer.written_always`: keepdims of reductions, and those whose defaults
are others in Relax). So `R.sum(x, axes=(1,), keepdims=True)` is the core's sum, `R.sum(x, axis=1)`
and `R.sum(x)` are Relax's. What the one does not take is tried as the other. Builders make calls of
the core's operators, and these are printed.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from typing import Any

from smelt.ir.errors import ParseError
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.types import FuncType
from smelt.runtime.errors import closest
from smelt.tir.parser import parse_function as parse_program
from smelt.tir.parser_expr import Source

from .nodes import Function
from .parser_body import Arrays, FunctionReader
from .parser_values import Signatures


def parse(
    text: str,
    constants: Arrays | str | None = None,
    path: str = "<script>",
    env: Mapping[str, Any] | None = None,
) -> IRModule:
    """The module that a text describes: a class, or functions alone; errors carry the position.

    constants  name of a constant -> array; "zeros" makes all of them zero
    env        Python values that the text may use by name
    """
    source = Source(text, path)
    body: list[ast.stmt] = source.tree().body
    classes = [s for s in body if isinstance(s, ast.ClassDef)]
    if isinstance(constants, str) and constants != "zeros":
        raise ParseError(
            f"{path}: constants={constants!r}; legal: a mapping from names to arrays, or 'zeros'"
        )
    reader = _Module(source, constants, env or {})
    if not classes:
        reader.read(body)
        if not reader.functions:
            source.error((1, 0), "the text has no function")
        reader.report()
        return IRModule(reader.functions, reader.attrs)
    if len(classes) > 1:
        source.error(classes[1], "a text is one module", "one class")
    for s in body:
        if not isinstance(s, ast.ClassDef | ast.Import | ast.ImportFrom):
            source.error(s, "expected one class of functions")
    reader.module = classes[0].name
    reader.read(classes[0].body)
    reader.check_calls()
    reader.report()
    return IRModule(reader.functions, reader.attrs)


def parse_function(
    source: Source,
    node: ast.FunctionDef,
    constants: Arrays | str | None = None,
    env: Mapping[str, Any] | None = None,
    signatures: Signatures | None = None,
) -> tuple[Function, list[tuple[str, ast.AST]]]:
    """One graph function of a text, and the functions of the module that it calls, with places.

    signatures  of the other graph functions of the module
    """
    reader = FunctionReader(source, constants, env or {})
    if signatures is not None:
        reader.signatures = signatures
    made = reader.function(node)
    _report(source, reader.missing)
    return made, reader.called


def read_signature(
    source: Source, node: ast.FunctionDef, env: Mapping[str, Any] | None = None
) -> FuncType | None:
    """What a graph function takes and gives; None where its definition does not say it."""
    return FunctionReader(source, "zeros", env or {}).signature(node)


class _Module:
    """The functions of a text, one by one."""

    def __init__(
        self, source: Source, constants: Arrays | str | None, env: Mapping[str, Any]
    ) -> None:
        self.source, self.constants, self.env = source, constants, env
        self.module = ""
        self.functions: dict[str, Node] = {}
        self.defined: dict[str, ast.FunctionDef] = {}
        self.made: dict[str, Function] = {}
        self.begun: set[str] = set()
        self.signed: dict[str, FuncType | None] = {}
        self.attrs: dict[str, Any] = {}
        self.missing: list[str] = []
        self.called: list[tuple[str, ast.AST]] = []

    def read(self, body: list[ast.stmt]) -> None:
        """The statements of a class, or of a text without one."""
        for s in body:
            if isinstance(s, ast.FunctionDef):
                if s.name in self.defined:
                    self.source.error(s, f"the function {s.name} is defined twice")
                self.defined[s.name] = s
        for s in body:
            match s:
                case ast.FunctionDef():
                    self.functions[s.name] = self.function(s)
                case ast.Expr(ast.Call(ast.Attribute(ast.Name("I"), "module_attrs"), [data])):
                    reader = FunctionReader(self.source, self.constants, self.env)
                    self.attrs.update(reader.data(data))
                case ast.Expr(ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Pass():
                    continue
                case _:
                    what = "expected functions, or one class of functions"
                    self.source.error(s, what, "@T.prim_func, @R.function, I.module_attrs({...})")

    def function(self, node: ast.FunctionDef) -> Node:
        """A graph function, or a tensor program where its decorator says so; read once."""
        if node.name in self.made:
            return self.made[node.name]
        if _is_program(node):
            return parse_program(self.source, node, self.env)
        self.begun.add(node.name)
        reader = FunctionReader(self.source, self.constants, self.env)
        reader.modules = frozenset({"cls", self.module})
        reader.signatures = self.signature
        made = self.made[node.name] = reader.function(node)
        self.missing += reader.missing
        self.called += reader.called
        return made

    def signature(self, name: str) -> FuncType | None:
        """What a graph function takes and gives: as its definition says, else as its body does."""
        node = self.defined.get(name)
        if node is None or _is_program(node):
            return None
        if name not in self.signed:
            self.signed[name] = read_signature(self.source, node, self.env)
        found = self.signed[name]
        if found is not None:
            return found
        if name in self.begun and name not in self.made:
            what = f"{name} calls itself, and does not say what it gives"
            self.source.error(node, what, f'def {name}(...) -> R.Tensor((n, 4), "float32"):')
        t = self.function(node).type  # type: ignore[attr-defined]
        assert isinstance(t, FuncType)
        return t

    def check_calls(self) -> None:
        """What is called has to be in the module."""
        for name, node in self.called:
            check_target(self.source, node, name, self.functions)

    def report(self) -> None:
        """One error for all constants that were not given."""
        _report(self.source, self.missing)


def _is_program(node: ast.FunctionDef) -> bool:
    """Whether a function is a tensor program: by its decorator, else by its parameters' types."""
    if not node.decorator_list:
        types = [ast.unparse(a.annotation) for a in node.args.args if a.annotation is not None]
        return any(t.startswith("T.") for t in types)
    called = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any(isinstance(d, ast.Attribute) and d.attr == "prim_func" for d in called)


def check_target(source: Source, node: ast.AST, name: str, functions: Collection[str]) -> None:
    """Whether a module has the function that R.call_tir names."""
    if name not in functions:
        known = closest(name, functions) or list(functions)
        source.error(node, f"the module has no function {name}", ", ".join(known))


def _report(source: Source, missing: list[str]) -> None:
    if missing:
        raise ParseError(
            f"{source.path}: no array for the constant{'s' * (len(missing) > 1)} "
            f"{', '.join(missing)}; give constants={{name: array}} or constants='zeros'"
        )
