"""Functions and statements in the text form of graph programs."""

# ruff: noqa: RET503 (fail() does not return)

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.types import FuncType, IncompleteType, TensorType, TupleType, Type
from smelt.tir.parser_expr import Source

from . import nodes
from .parser_types import Partial
from .parser_values import ValueReader, described
from .shapes import ShapeExpr, fits, show_type

Arrays = Mapping[str, np.ndarray]

_OPTIONS = ("private", "pure", "check_well_formed", "name")


def may_be(said: Type, found: Type) -> bool:
    """Whether a value of a type may be what is said."""
    return fits(said, found, {}, ())


class FunctionReader(ValueReader):
    """Reads one function and those that are nested in it.

    missing   names of constants for which no array is given
    lets      of each block around: the variables that it names itself, with their values
    floor     the scope in which the innermost function begins
    declared  types of results of branches that stand before them
    """

    def __init__(
        self, source: Source, constants: Arrays | str | None, env: Mapping[str, Any]
    ) -> None:
        """Nothing is read yet."""
        super().__init__(source, env)
        self.constants = constants
        self.missing: list[str] = []
        self.lets: list[list[tuple[nodes.Var, nodes.RelaxExpr]]] = []
        self.floor = 0
        self.declared: dict[str, Type] = {}
        self.attrs: dict[str, Any] = {}

    # ----------------------------------------------------------------------------- function

    def function(self, node: ast.FunctionDef) -> nodes.Function:
        """A function definition."""
        for s in node.body:
            match s:
                case ast.Assign([ast.Name(name)], ast.Call(func, args)):
                    if self.is_size(func):
                        own = self.text(args[0]) if self.r_name(func) == "size" else name
                        self.size(name, own)
        params = [self.parameter(a) for a in node.args.args]
        for a in node.args.kwonlyargs:
            self.define(a, a.arg, self.weight(a))
        return self.rest(node, params, self.options(node))

    def signature(self, node: ast.FunctionDef) -> FuncType | None:
        """What a function takes and gives, where its definition says so."""
        params = [self.parameter(a).type for a in node.args.args]
        if node.returns is None:
            return None
        found = self.annotation(node.returns, opens=True)
        return None if isinstance(found, Partial) else FuncType(tuple(params), found)

    def rest(
        self, node: ast.FunctionDef, params: list[nodes.Var], options: Mapping[str, Any]
    ) -> nodes.Function:
        """The body of a function whose parameters are known."""
        attrs: dict[str, Any] = {"private": True} if options.get("private") else {}
        outer, self.attrs = self.attrs, attrs
        self.lets.append([])
        body: nodes.RelaxExpr | None = None
        for s in node.body:
            if body is not None:
                self.fail(s, "a statement behind the return")
            body = self.statement(s)
        if body is None:
            self.fail(node, "the function returns nothing")
        self.attrs = outer
        body = self.named(body)
        if node.returns is not None:
            said = self.annotation(node.returns, opens=True)
            if not self.agrees(said, body.type) and not nodes.incomplete(body.type):
                self.fail(node.returns, "the result has another type than the function says")
        return nodes.Function(tuple(params), body, attrs)

    def named(self, body: nodes.RelaxExpr) -> nodes.RelaxExpr:
        """A block's result below the names that the block gives itself."""
        return nodes.let_values(self.lets.pop(), body)

    def options(self, node: ast.FunctionDef) -> dict[str, Any]:
        """What stands behind @R.function."""
        found: dict[str, Any] = {}
        for d in node.decorator_list:
            if isinstance(d, ast.Call):
                for k in d.keywords:
                    if k.arg not in _OPTIONS:
                        what = f"@R.function has no option {k.arg!r}"
                        self.fail(k.value, what, ", ".join(_OPTIONS))
                    found[k.arg] = self.data(k.value)
                    if k.arg == "pure" and found["pure"] is not True:
                        self.fail(k.value, "functions of a graph have no side effects", "pure=True")
        return found

    def define(self, node: ast.AST, name: str, value: Any) -> None:
        """Bind a name, once."""
        if name in self.sizes or any(name in s for s in self.scopes[self.floor :]):
            self.fail(node, f"the name {name} is defined twice")
        self.hidden.discard(name)
        self.scopes[-1][name] = value

    def is_size(self, func: ast.expr) -> bool:
        """Whether a call makes a size: R.size("n"), T.int64(), T.Var("n", "int64")."""
        match func:
            case ast.Attribute(ast.Name("T"), name):
                return name in ("int64", "Var")
        return self.r_name(func) == "size"

    def parameter(self, a: ast.arg) -> nodes.Var:
        """x: R.Tensor(shape, dtype)."""
        if a.annotation is None:
            self.fail(a, f'parameter {a.arg} needs a type: R.Tensor((...), "float32")')
        t = self.type(a.annotation, hint=a.arg)
        own = self.own_name(a.annotation)
        var = nodes.Var(a.arg if own is None else own, t)
        self.define(a, a.arg, var)
        return var

    def weight(self, a: ast.arg) -> nodes.Constant:
        """w: R.Constant(shape, dtype)."""
        note = a.annotation
        if note is None:
            self.fail(a, f'constant {a.arg} needs a type: R.Constant((...), "float32")')
        constant = isinstance(note, ast.Call) and self.r_name(note.func) == "Constant"
        t = self.tensor(note, opens=True) if constant else self.annotation(note, opens=True)  # type: ignore[arg-type]
        shape = t.fixed_shape() if isinstance(t, TensorType) else None
        if not isinstance(t, TensorType) or shape is None:
            self.fail(a, f"constant {a.arg} needs a constant shape")
        name = self.own_name(note) or ""
        if self.constants == "zeros":
            return nodes.Constant(np.zeros(shape, dt.to_numpy(t.dtype)), t, name)
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
        return nodes.Constant(array, t, name)

    # --------------------------------------------------------------------------- statements

    def statement(self, s: ast.stmt) -> nodes.RelaxExpr | None:
        """One statement; the returned value ends the function."""
        match s:
            case ast.Return(value) if value is not None:
                return self.value(value)
            case ast.Assign([ast.Name("cls")], ast.Name()) | ast.Expr(ast.Constant(str())):
                pass
            case ast.Assign([ast.Name()], ast.Call(func)) if self.is_size(func):
                pass
            case ast.Assign([ast.Name(name)], value):
                self.binding(s, name, value, None)
            case ast.Assign([ast.Tuple(elts)], value):
                self.unpacked(s, elts, value)
            case ast.AnnAssign(ast.Name(name), note, None):
                self.declared[name] = self.type(note, opens=False)
            case ast.AnnAssign(ast.Name(name), note, value) if value is not None:
                self.binding(s, name, value, note)
            case ast.If():
                self.branch(s)
            case ast.With([ast.withitem(ast.Call(func))], body) if self.r_name(func) == "dataflow":
                self.dataflow(s, body)
            case ast.FunctionDef():
                self.nested(s)
            case ast.Expr(ast.Call(func, args)):
                self.effect(s, func, args)
            case _:
                self.fail(s, f"{type(s).__name__} is not a statement of the graph language")
        return None

    def effect(self, s: ast.Expr, func: ast.expr, args: list[ast.expr]) -> None:
        """R.func_attr({...}); other calls need a name."""
        match self.r_name(func), args:
            case "func_attr", [data]:
                self.attrs.update(self.data(data))
            case "output", _:
                self.fail(s, "R.output stands at the end of a dataflow block")
            case _:
                self.value(s.value)
                self.fail(s, "the result has no name, so that nothing can use it", "y = ...")

    def binding(self, s: ast.stmt, name: str, node: ast.expr, note: ast.expr | None) -> None:
        """name = value, name: type = value."""
        said = None if note is None else self.annotation(note, opens=False)
        match node:
            case ast.Call(func, [whole]) if self.r_name(func) == "let":
                value, own = self.value(whole), self.own_name(node)
                if said is not None and (isinstance(said, Partial) or not may_be(said, value.type)):
                    self.says_otherwise(node, value, said)
                var = nodes.Var(name if own is None else own, value.type if said is None else said)
                self.lets[-1].append((var, value))
                self.define(s, name, var)
                return
        found = self.result(node)
        if isinstance(found, nodes.Var) and self.is_call(node, "var"):
            found = found.replace(name=found.name or name)
        if isinstance(found, tuple) and not isinstance(found, ShapeExpr):
            found = nodes.Tuple(found)
        if said is not None and isinstance(found, nodes.RelaxExpr):
            found = self.typed(node, found, said)
        self.define(s, name, found)

    def is_call(self, node: ast.expr, name: str) -> bool:
        """Whether an expression is R.name(...)."""
        return isinstance(node, ast.Call) and self.r_name(node.func) == name

    def typed(
        self, node: ast.expr, value: nodes.RelaxExpr, said: Type | Partial
    ) -> nodes.RelaxExpr:
        """A value of which the statement says the type; of a call of a function it decides."""
        if isinstance(value, nodes.Call) and not isinstance(said, Partial):
            decides = isinstance(value.op, nodes.RelaxExpr) or nodes.incomplete(value.type)
            if decides and may_be(said, value.type):
                return value if value.type is said else value.replace(type=said)
        if not self.agrees(said, value.type):
            self.says_otherwise(node, value, said)
        return value

    def says_otherwise(self, node: ast.AST, value: nodes.RelaxExpr, said: Any) -> NoReturn:
        """The error of a value that is not of the type that is said."""
        found = show_type(value.type)
        self.fail(node, f"the value is {found}, the statement says {described(said)}")

    def unpacked(self, s: ast.stmt, names: list[ast.expr], node: ast.expr) -> None:
        """a, b = value."""
        whole = self.value(node)
        count = len(whole.type.items) if isinstance(whole.type, TupleType) else None
        if count != len(names):
            self.fail(node, f"{len(names)} names for a value of type {show_type(whole.type)}")
        for n, name in enumerate(names):
            if not isinstance(name, ast.Name):
                self.fail(name, "expected a name")
            self.define(s, name.id, whole[n])

    def dataflow(self, s: ast.With, body: list[ast.stmt]) -> None:
        """with R.dataflow(): ... R.output(y): only the outputs are known behind it."""
        before = set(self.scopes[-1])
        outputs: list[str] | None = None
        for inner in body:
            if outputs is not None:
                self.fail(inner, "a statement behind R.output")
            match inner:
                case ast.Expr(ast.Call(func, args)) if self.r_name(func) == "output":
                    for a in args:
                        if not isinstance(a, ast.Name):
                            self.fail(a, "expected the name of a value of the block")
                        self.lookup(a)
                    outputs = [a.id for a in args if isinstance(a, ast.Name)]
                case ast.Return() | ast.If() | ast.FunctionDef():
                    what = f"{type(inner).__name__} does not stand in a dataflow block"
                    self.fail(inner, what, "bindings, R.output(...)")
                case _:
                    self.statement(inner)
        if outputs is None:
            self.fail(s, "the dataflow block has no R.output(...)")
        for name in self.scopes[-1].keys() - before - set(outputs):
            if isinstance(self.scopes[-1][name], nodes.RelaxExpr):
                del self.scopes[-1][name]
                self.hidden.add(name)

    # ------------------------------------------------------------------- branches, closures

    def branch(self, s: ast.If) -> None:
        """if: ... else: ...; both sides end with a value for the same name."""
        condition = self.value(s.test)
        name = self.last_name(s, s.body)
        other = self.last_name(s, s.orelse)
        if name != other:
            what = f"the sides of the branch end with different names, {name} and {other}"
            self.fail(s.orelse[-1], what, f"{name} = ...")
        said = self.declared.pop(name, None)
        yes, no = self.side(s.body, name), self.side(s.orelse, name)
        t = yes.type if said is None else said
        for side, value in ((s.body, yes), (s.orelse, no)):
            alike = value.type is t or nodes.incomplete(value.type) or nodes.incomplete(t)
            if not alike and not (said is not None and may_be(t, value.type)):
                what = f"the side gives {show_type(value.type)}, "
                whole = f"the result is {show_type(t)}" if said else f"the other {show_type(t)}"
                self.fail(side[-1], what + whole)
        sides = (nodes.Function((), yes), nodes.Function((), no))
        self.define(s, name, nodes.If(condition, *sides, t))

    def last_name(self, s: ast.If, side: list[ast.stmt]) -> str:
        """The name that the last statement of a side gives a value."""
        match side[-1] if side else None:
            case ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name), _, ast.expr()):
                return name
            case ast.If() as inner:
                return self.last_name(inner, inner.body)
            case None:
                self.fail(s, "the branch has no else", "else: with a value for the same name")
        self.fail(side[-1], "expected a value for the result of the branch", "y = ...")

    def side(self, body: list[ast.stmt], name: str) -> nodes.RelaxExpr:
        """The value of one side of a branch, whose names are its own."""
        self.scopes.append({})
        self.lets.append([])
        for s in body:
            if isinstance(s, ast.Return):
                what = "a return stands at the end of the function"
                self.fail(s, what, "y = ... on both sides, then return y")
            self.statement(s)
        made = self.named(self.scopes[-1][name])
        self.scopes.pop()
        return made

    def nested(self, node: ast.FunctionDef) -> None:
        """A function in a function: @R.function names it, @R.closure is the function itself."""
        kinds = [self.r_name(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list]
        if kinds not in (["function"], ["closure"]):
            self.fail(node, "a function in a function is decorated", "@R.function, @R.closure")
        options = self.options(node)
        for a in node.args.kwonlyargs:
            self.fail(a, "constants belong to the outermost function")
        floor, self.floor = self.floor, len(self.scopes)
        self.scopes.append({})
        params = [self.parameter(a) for a in node.args.args]
        own = str(options.get("name", node.name))
        var = None
        if kinds == ["function"] and any(
            isinstance(n, ast.Name) and n.id == node.name for s in node.body for n in ast.walk(s)
        ):
            var = nodes.Var(own, self.nested_type(node, params))
            self.define(node, node.name, var)
        made = self.rest(node, params, options)
        self.scopes.pop()
        self.floor = floor
        if kinds == ["closure"]:
            self.define(node, node.name, made)
            return
        var = var or nodes.Var(own, made.type)
        self.lets[-1].append((var, made))
        self.define(node, node.name, var)

    def nested_type(self, node: ast.FunctionDef, params: list[nodes.Var]) -> Type:
        """The type of a function that calls itself."""
        said = None if node.returns is None else self.annotation(node.returns, opens=True)
        if said is None or isinstance(said, Partial | IncompleteType):
            what = f"{node.name} calls itself, and does not say what it gives"
            self.fail(node, what, f'def {node.name}(...) -> R.Tensor((n, 4), "float32"):')
        return FuncType(tuple([p.type for p in params]), said)
