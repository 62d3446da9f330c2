"""The text form of graph programs read back: `parse(script(m))` is structurally equal to `m`."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import ParseError, SmeltError
from smelt.ir.expr import Expr, IntImm
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.types import TensorType, TupleType, Type, tensor_type
from smelt.tir.parser import parse_function as parse_program
from smelt.tir.parser_expr import ExprParser, Source
from smelt.tir.script_names import nearest
from smelt.topi.registry import get_op

from .nodes import (
    Constant,
    Function,
    GlobalVar,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
    call,
    call_tir,
)

__all__ = ["check_target", "parse", "parse_function"]

Arrays = Mapping[str, np.ndarray]


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
) -> tuple[Function, list[tuple[str, ast.AST]]]:
    """One graph function of a text, and the functions of the module that it calls, with places."""
    reader = _Function(source, constants, env or {})
    made = reader.function(node)
    _report(source, reader.missing)
    return made, reader.called


class _Module:
    """The functions of a text, one by one."""

    def __init__(
        self, source: Source, constants: Arrays | str | None, env: Mapping[str, Any]
    ) -> None:
        self.source, self.constants, self.env = source, constants, env
        self.module = ""
        self.functions: dict[str, Node] = {}
        self.attrs: dict[str, Any] = {}
        self.missing: list[str] = []
        self.called: list[tuple[str, ast.AST]] = []

    def read(self, body: list[ast.stmt]) -> None:
        """The statements of a class, or of a text without one."""
        for s in body:
            match s:
                case ast.FunctionDef():
                    if s.name in self.functions:
                        self.source.error(s, f"the function {s.name} is defined twice")
                    self.functions[s.name] = self.function(s)
                case ast.Expr(ast.Call(ast.Attribute(ast.Name("I"), "module_attrs"), [data])):
                    self.attrs.update(_Function(self.source, self.constants, self.env).data(data))
                case ast.Expr(ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Pass():
                    continue
                case _:
                    what = "expected functions, or one class of functions"
                    self.source.error(s, what, "@T.prim_func, @R.function, I.module_attrs({...})")

    def function(self, node: ast.FunctionDef) -> Node:
        """A graph function, or a tensor program where its decorator says so."""
        if _is_program(node):
            return parse_program(self.source, node, self.env)
        reader = _Function(self.source, self.constants, self.env)
        reader.modules = frozenset({"cls", self.module})
        made = reader.function(node)
        self.missing += reader.missing
        self.called += reader.called
        return made

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
        known = nearest(name, functions) or list(functions)
        source.error(node, f"the module has no function {name}", ", ".join(known))


def _report(source: Source, missing: list[str]) -> None:
    if missing:
        raise ParseError(
            f"{source.path}: no array for the constant{'s' * (len(missing) > 1)} "
            f"{', '.join(missing)}; give constants={{name: array}} or constants='zeros'"
        )


class _Function:
    """One graph function."""

    def __init__(
        self, source: Source, constants: Arrays | str | None, env: Mapping[str, Any]
    ) -> None:
        self.source, self.constants, self.env = source, constants, env
        self.modules = frozenset({"cls"})
        self.called: list[tuple[str, ast.AST]] = []
        self.sizes: dict[str, SizeVar] = {}
        self.values: dict[str, RelaxExpr] = {}
        self.missing: list[str] = []
        self.attrs: dict[str, Any] = {}
        self.exprs = ExprParser(source, env)

    def fail(self, node: ast.AST, message: str) -> Any:
        """Raise a ParseError at a node."""
        self.source.error(node, message)

    # ----------------------------------------------------------------------------- function

    def function(self, node: ast.FunctionDef) -> Function:
        """A function definition."""
        for s in node.body:
            match s:
                case ast.Assign(
                    [ast.Name(name)], ast.Call(ast.Attribute(ast.Name("R"), "size"), [text])
                ):
                    self.size(name, self.text(text))
        params = [self.parameter(a) for a in node.args.args]
        for a in node.args.kwonlyargs:
            self.define(a, a.arg, self.weight(a))
        body: RelaxExpr | None = None
        for s in node.body:
            if body is not None:
                self.fail(s, "a statement behind the return")
            body = self.statement(s)
        if body is None:
            self.fail(node, "the function returns nothing")
            raise AssertionError
        if node.returns is not None and self.type(node.returns) is not body.type:
            self.fail(node.returns, "the result has another type than the function says")
        return Function(tuple(params), body, self.attrs)

    def define(self, node: ast.AST, name: str, value: RelaxExpr) -> None:
        """Bind a name, once."""
        if name in self.values or name in self.sizes:
            self.fail(node, f"the name {name} is defined twice")
        self.values[name] = value

    def size(self, name: str, own: str) -> SizeVar:
        """A symbolic size."""
        if name not in self.sizes:
            self.sizes[name] = SizeVar(own)
            self.exprs.define(name, self.sizes[name])
        return self.sizes[name]

    def parameter(self, a: ast.arg) -> Var:
        """x: R.Tensor(shape, dtype)."""
        if a.annotation is None:
            self.fail(a, f'parameter {a.arg} needs a type: R.Tensor((...), "float32")')
        t, own = self.named_type(a.annotation, "Tensor")  # type: ignore[arg-type]
        var = Var(a.arg if own is None else own, t)
        self.define(a, a.arg, var)
        return var

    def weight(self, a: ast.arg) -> Constant:
        """w: R.Constant(shape, dtype)."""
        if a.annotation is None:
            self.fail(a, f'constant {a.arg} needs a type: R.Constant((...), "float32")')
        t, own = self.named_type(a.annotation, "Constant")  # type: ignore[arg-type]
        shape = t.fixed_shape() if isinstance(t, TensorType) else None
        if not isinstance(t, TensorType) or shape is None:
            return self.fail(a, f"constant {a.arg} needs a constant shape")  # type: ignore[no-any-return]
        name = own or ""
        if self.constants == "zeros":
            return Constant(np.zeros(shape, dt.to_numpy(t.dtype)), t, name)
        given = self.constants if isinstance(self.constants, Mapping) else {}
        array = given.get(a.arg, given.get(name) if name else None)
        if array is None:
            self.missing.append(a.arg)
            array = np.zeros(shape, dt.to_numpy(t.dtype))
        if array.shape != shape or dt.from_numpy(array.dtype) != t.dtype:
            self.fail(
                a,
                f"constant {a.arg}: the array given is {dt.from_numpy(array.dtype)} {array.shape}, "
                f"the text says {t.dtype} {shape}",
            )
        return Constant(array, t, name)

    # -------------------------------------------------------------------------------- types

    def r_name(self, node: ast.expr) -> str | None:
        """ "relu" for R.relu, "annotation.compiler_end" for R.annotation.compiler_end."""
        match node:
            case ast.Attribute(ast.Name("R"), name):
                return name
            case ast.Attribute(ast.Attribute(ast.Name("R"), room), name):
                return f"{room}.{name}"
        return None

    def named_type(self, node: ast.expr, kind: str) -> tuple[Type, str | None]:
        """A parameter's type, and its own name where the text gives one."""
        if not isinstance(node, ast.Call):
            return self.type(node), None
        own = [self.text(k.value) for k in node.keywords if k.arg == "name"]
        if self.r_name(node.func) == kind:
            return self.tensor(node), own[0] if own else None
        return self.type(node), own[0] if own else None

    def type(self, node: ast.expr) -> Type:
        """R.Tensor(shape, dtype) or R.Tuple(types...)."""
        if isinstance(node, ast.Call) and self.r_name(node.func) == "Tuple":
            return TupleType(tuple([self.type(a) for a in node.args]))
        if not isinstance(node, ast.Call) or self.r_name(node.func) != "Tensor":
            self.fail(node, 'expected R.Tensor((...), "float32") or R.Tuple(...)')
            raise AssertionError
        return self.tensor(node)

    def tensor(self, node: ast.Call) -> TensorType:
        """The type in R.Tensor(...) or R.Constant(...)."""
        if len(node.args) != 2 or not isinstance(node.args[0], ast.Tuple):
            self.fail(node, 'expected a shape in brackets and an element type: ((n, 3), "float32")')
        shape: list[Expr] = []
        for e in node.args[0].elts:  # type: ignore[attr-defined]
            if isinstance(e, ast.Constant) and isinstance(e.value, str):
                shape.append(self.size(e.value, e.value))
                continue
            for inner in ast.walk(e):
                if isinstance(inner, ast.Name) and inner.id not in ("T", "R", *self.env):
                    self.size(inner.id, inner.id)
            shape.append(self.exprs.expr(e, "int64"))
        kind = self.text(node.args[1])
        if kind not in dt.DTYPES:
            self.fail(node.args[1], f"{kind!r} is no element type; known: {', '.join(dt.DTYPES)}")
        return tensor_type(shape, kind)

    def text(self, node: ast.expr) -> str:
        """A text in quotes."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            self.fail(node, "expected a text in quotes")
            raise AssertionError
        return node.value

    def data(self, node: ast.expr) -> Any:
        """Plain data: attributes and annotations."""
        match node:
            case ast.Dict(keys, values):
                return {
                    self.data(k): self.data(v)
                    for k, v in zip(keys, values, strict=True)
                    if k is not None
                }
            case ast.List(elts):
                return [self.data(e) for e in elts]
            case ast.Tuple(elts):
                return tuple([self.data(e) for e in elts])
        value = self.exprs.value(node)
        return value.value if isinstance(value, IntImm) else value

    # --------------------------------------------------------------------------- statements

    def statement(self, s: ast.stmt) -> RelaxExpr | None:
        """One statement; the returned value ends the function."""
        match s:
            case ast.Return(ast.Tuple(elts)):
                return Tuple(tuple([self.value(e) for e in elts]))
            case ast.Return(value) if value is not None:
                return self.value(value)
            case ast.Expr(ast.Constant(str())):
                return None
            case ast.Expr(ast.Call(func, [data])) if self.r_name(func) == "func_attr":
                self.attrs.update(self.data(data))
                return None
            case ast.Assign([ast.Name(name)], ast.Call(func)) if self.r_name(func) == "size":
                return None
            case ast.Assign([ast.Name("cls")], ast.Name()):
                return None
            case ast.Assign([ast.Name(name)], value):
                self.define(s, name, self.value(value))
                return None
        return self.fail(s, f"{type(s).__name__} is not a statement of the graph language")  # type: ignore[no-any-return]

    def value(self, node: ast.expr) -> RelaxExpr:
        """A name, a call, a tuple, or an item of a tuple."""
        match node:
            case ast.Name(name):
                if name not in self.values:
                    self.fail(node, f"'{name}' is not defined here")
                return self.values[name]
            case ast.Tuple(elts):
                return Tuple(tuple([self.value(e) for e in elts]))
            case ast.Subscript(of, ast.Constant(int() as index)):
                whole = self.value(of)
                t = whole.type
                if not isinstance(t, TupleType) or not 0 <= index < len(t.items):
                    self.fail(node, "only items of tuples can be taken")
                return TupleGetItem(whole, index)
            case ast.Call(func):
                operator = self.r_name(func)
                if operator == "call_tir":
                    return self.call_tir(node)
                if operator is not None:
                    return self.call(node, operator)
        return self.fail(node, "expected a value: a name, R.operator(...), a tuple or x[0]")  # type: ignore[no-any-return]

    def call(self, node: ast.Call, name: str) -> RelaxExpr:
        """R.operator(operands, attribute=...)."""
        args = [
            None if isinstance(a, ast.Constant) and a.value is None else self.value(a)
            for a in node.args
        ]
        attrs = {k.arg or "**": self.attribute(k.value) for k in node.keywords}
        try:
            return call(get_op(name), *args, **attrs)
        except SmeltError as e:
            self.fail(node, str(e))
            raise AssertionError from e

    def attribute(self, node: ast.expr) -> Any:
        """An attribute's value; constants among expressions are plain numbers."""
        value = self.data(node)
        return (
            value if not isinstance(value, Expr) or not isinstance(value, IntImm) else value.value
        )

    def call_tir(self, node: ast.Call) -> RelaxExpr:
        """R.call_tir(name, (operands), type)."""
        match node.args:
            case [ast.Name(target), ast.Tuple(operands), result]:
                pass
            case [ast.Attribute(ast.Name(module), target), ast.Tuple(operands), result] if (
                module in self.modules
            ):
                pass
            case _:
                self.fail(node, "expected R.call_tir(name, (operands...), type)")
                raise AssertionError
        self.called.append((target, node.args[0]))
        values = [self.value(e) for e in operands]
        return call_tir(GlobalVar(target), values, self.type(result))
