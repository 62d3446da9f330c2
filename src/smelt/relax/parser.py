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
from typing import Any, NamedTuple

from smelt.ir.errors import ParseError
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.types import FuncType
from smelt.runtime.errors import closest
from smelt.tir.parser import parse_function as parse_program
from smelt.tir.parser_expr import Source

from .nodes import Function
from .parser_body import Arrays, FunctionReader


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
    if len(classes) > 1:
        source.error(classes[1], "a text is one module", "one class")
    for s in body if classes else ():
        if not isinstance(s, ast.ClassDef | ast.Import | ast.ImportFrom):
            source.error(s, "expected one class of functions")
    body = classes[0].body if classes else body
    defined: dict[str, ast.FunctionDef] = {}
    for s in body:
        if isinstance(s, ast.FunctionDef):
            if s.name in defined:
                source.error(s, f"the function {s.name} is defined twice")
            defined[s.name] = s
    own = {name: node for name, node in defined.items() if not _is_program(node)}
    graphs = {name: Definition(source, f, constants, env or {}) for name, f in own.items()}
    module = _module(source, body, Definitions(graphs, *[c.name for c in classes]), env or {})
    if not classes and not module.functions:
        source.error((1, 0), "the text has no function")
    return module


def _module(
    source: Source, body: list[ast.stmt], graphs: Definitions, env: Mapping[str, Any]
) -> IRModule:
    """The module of some statements: functions and attributes."""
    functions: dict[str, Node] = {}
    attrs: dict[str, Any] = {}
    for s in body:
        match s:
            case ast.FunctionDef(name) if name in graphs.definitions:
                functions[name] = graphs.function(name)
            case ast.FunctionDef(name):
                functions[name] = parse_program(source, s, env)
            case ast.Expr(ast.Call(ast.Attribute(ast.Name("I"), "module_attrs"), [data])):
                attrs.update(FunctionReader(source, None, env).data(data))
            case ast.Expr(ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Pass():
                continue
            case _:
                what = "expected functions, or one class of functions"
                source.error(s, what, "@T.prim_func, @R.function, I.module_attrs({...})")
    graphs.check(functions)
    return IRModule(functions, attrs)


class Definition(NamedTuple):
    """A graph function to be read: its text and syntax, and what it may use by name."""

    source: Source
    node: ast.FunctionDef
    constants: Arrays | str | None
    env: Mapping[str, Any]


class Definitions:
    """The graph functions of a module, each of which is read when it is asked for.

    names    what the functions may call the module, beside cls; none: it is no module
    missing  constants for which no array is given
    called   the functions of the module that are called, with places
    """

    def __init__(self, definitions: Mapping[str, Definition], *names: str) -> None:
        """Nothing is read yet."""
        self.definitions, self.names = definitions, names
        self.made: dict[str, Function] = {}
        self.begun: set[str] = set()
        self.signed: dict[str, FuncType | None] = {}
        self.missing: list[str] = []
        self.called: list[tuple[Source, str, ast.AST]] = []

    def function(self, name: str) -> Function:
        """A graph function."""
        if name not in self.made:
            self.begun.add(name)
            source, node, constants, env = self.definitions[name]
            reader = FunctionReader(source, constants, env)
            reader.modules, reader.signatures = {"cls", *self.names}, self.signature
            self.made[name] = reader.function(node)
            self.missing += reader.missing
            self.called += [(source, target, place) for target, place in reader.called]
        return self.made[name]

    def signature(self, name: str) -> FuncType | None:
        """What a graph function takes and gives: as its definition says, else as its body does."""
        if name not in self.definitions:
            return None
        source, node, _, env = self.definitions[name]
        if name not in self.signed:
            self.signed[name] = FunctionReader(source, "zeros", env).signature(node)
        found = self.signed[name]
        if found is not None:
            return found
        if name in self.begun and name not in self.made:
            what = f"{name} calls itself, and does not say what it gives"
            source.error(node, what, f'def {name}(...) -> R.Tensor((n, 4), "float32"):')
        t = self.function(name).type
        assert isinstance(t, FuncType)
        return t

    def check(self, functions: Collection[str]) -> None:
        """What is called is a function of the module, and all constants were given."""
        for source, name, node in self.called if self.names else ():
            if name not in functions:
                known = closest(name, functions) or list(functions)
                source.error(node, f"the module has no function {name}", ", ".join(known))
        if self.missing:
            path = next(iter(self.definitions.values())).source.path
            raise ParseError(
                f"{path}: no array for the constant{'s' * (len(self.missing) > 1)} "
                f"{', '.join(self.missing)}; give constants={{name: array}} or constants='zeros'"
            )


def _is_program(node: ast.FunctionDef) -> bool:
    """Whether a function is a tensor program: by its decorator, else by its parameters' types."""
    if not node.decorator_list:
        types = [ast.unparse(a.annotation) for a in node.args.args if a.annotation is not None]
        return any(t.startswith("T.") for t in types)
    called = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any(isinstance(d, ast.Attribute) and d.attr == "prim_func" for d in called)
