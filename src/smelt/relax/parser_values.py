"""Values in the text form of graph programs: names, calls, arithmetic, tuples."""

# ruff: noqa: RET503 (fail() does not return)

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import SmeltError
from smelt.ir.expr import IntImm
from smelt.ir.types import FuncType, IncompleteType, TensorType, TupleType, Type
from smelt.runtime.errors import nearest
from smelt.tir.parser_expr import Source
from smelt.tir.parser_values import COMPUTED
from smelt.topi.registry import Op, ops

from . import nodes
from .host_ops import packed_call
from .op.registry import BUILDERS
from .parser_types import Partial, TypeReader
from .printer import PRINTED_AS, written_always
from .shapes import ShapeExpr, call_result, fits, show_type, sizes_in
from .updates import written_operands

Signatures = Callable[[str], FuncType | None]
"""The type of a graph function of the module by name; None: there is no such graph function."""

_ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Any] | str] = {
    **{op: COMPUTED[op] for op in (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)},
    **{op: COMPUTED[op] for op in (ast.Lt, ast.LtE, ast.Gt, ast.GtE)},
    ast.FloorDiv: "floor_divide",
    ast.Mod: "mod",
    ast.MatMult: "matmul",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}
_IMPURE = ("print", "assert_op")
_NOT_VALUES = ("shape", "prim_value", "str", "dtype")


class ValueReader(TypeReader):
    """Reads values; knows the names in the scopes around.

    scopes     names and values, the innermost scope last
    hidden     names of a dataflow block that are no outputs of it
    called     the functions of the module that are called, with places
    updated    values that are not to be read any more, and the programs that have updated them
    """

    def __init__(self, source: Source, env: Mapping[str, Any]) -> None:
        """One scope without names."""
        super().__init__(source, env)
        self.modules = {"cls"}
        self.signatures: Signatures = lambda name: None
        self.called: list[tuple[str, ast.AST]] = []
        self.scopes: list[dict[str, Any]] = [{}]
        self.hidden: set[str] = set()
        self.updated: dict[nodes.RelaxExpr, str] = {}

    def known(self, name: str) -> Any:
        """What a name stands for; None: nothing."""
        return next((s[name] for s in reversed(self.scopes) if name in s), None)

    def data(self, node: ast.expr) -> Any:
        """Plain data, and constants by their names."""
        found = self.known(node.id) if isinstance(node, ast.Name) else None
        return found if isinstance(found, nodes.Constant) else super().data(node)

    def lookup(self, node: ast.Name) -> Any:
        """What a name stands for."""
        found = self.known(node.id)
        if found is None:
            if node.id in self.hidden:
                what = f"'{node.id}' is no output of its dataflow block"
                self.fail(node, what, f"R.output(..., {node.id}) in the block")
            if self.signatures(node.id) is not None:
                self.called.append((node.id, node))
                return nodes.GlobalVar(node.id)
            self.fail(node, f"'{node.id}' is not defined here")
        if isinstance(found, nodes.RelaxExpr) and found in self.updated:
            what = f"'{node.id}' is used after {self.updated[found]} has updated it in place"
            self.fail(node, what, "the result of that call")
        return found

    # ------------------------------------------------------------------------------- values

    def is_value(self, node: ast.expr) -> bool:
        """Whether an expression is a value of the program, and no number, size or text."""
        match node:
            case ast.Name(name):
                return isinstance(self.known(name), nodes.RelaxExpr)
            case ast.Call(func):
                r = self.r_name(func)
                return self.is_function(func) if r is None else r not in _NOT_VALUES
            case ast.Attribute():
                return self.is_function(node)
            case ast.BinOp(left, _, right) | ast.Compare(left, _, [right]):
                return self.is_value(left) or self.is_value(right)
            case ast.UnaryOp(_, of) | ast.Subscript(of):
                return self.is_value(of)
        return False

    def is_function(self, node: ast.expr) -> bool:
        """Whether a name is one of a function: of the module, or of a closure."""
        match node:
            case ast.Name(name):
                return self.known(name) is not None or self.signatures(name) is not None
            case ast.Attribute(ast.Name(module)):
                return module in self.modules
        return False

    def value(self, node: ast.expr) -> nodes.RelaxExpr:
        """A name, a call, arithmetic, a tuple, or an item of a tuple."""
        found = self.result(node)
        if isinstance(found, tuple):
            if isinstance(found, ShapeExpr):
                self.fail(node, "a shape is no value of the program", "an argument of an operator")
            return nodes.Tuple(found)
        return found  # type: ignore[no-any-return]

    def result(self, node: ast.expr) -> Any:
        """What an expression gives: a value, or what stands for several of them or a shape."""
        match node:
            case ast.Name():
                return self.lookup(node)
            case ast.Tuple(elts):
                return nodes.Tuple(tuple([self.value(e) for e in elts]))
            case ast.Subscript(of, ast.Constant(int() as index)):
                whole = self.value(of)
                t = whole.type
                if not isinstance(t, TupleType) or not 0 <= index < len(t.items):
                    self.fail(node, "only items of tuples can be taken")
                return nodes.TupleGetItem(whole, index)
            case ast.Call():
                return self.called_value(node)
            case ast.BinOp(a, op, b) | ast.Compare(a, [op], [b]) if self.is_value(node):
                return self.combined(node, op, a, b)
            case ast.UnaryOp(ast.USub(), of) if self.is_value(of):
                return -self.value(of)
            case ast.Attribute(ast.Name(module), name) if module in self.modules:
                self.called.append((name, node))
                return nodes.GlobalVar(name)
        self.fail(node, "expected a value: a name, R.operator(...), a tuple or x[0]")

    def combined(
        self, node: ast.expr, op: ast.AST, left: ast.expr, right: ast.expr
    ) -> nodes.RelaxExpr:
        """An operator of Python on values, and numbers beside them."""
        made = _ARITHMETIC.get(type(op))
        if made is None:
            self.fail(node, f"the operator {type(op).__name__} is not one of the graph language")
        sides = [self.value(s) if self.is_value(s) else self.number(s) for s in (left, right)]
        try:
            if callable(made):
                return made(*sides)  # type: ignore[no-any-return]
            return nodes.call(made, *self.operands(node, sides))
        except SmeltError as e:
            self.fail(node, str(e))

    def number(self, node: ast.expr) -> Any:
        """A plain number beside a value."""
        found = self.exprs.value(node)
        if not isinstance(found, bool | int | float):
            self.fail(node, "expected a value or a number", "sizes are attributes, not operands")
        return found

    def operands(self, node: ast.AST, given: list[Any]) -> list[nodes.RelaxExpr | None]:
        """Operands of the core's operators: numbers take the element type of what is beside."""
        kinds = [g.type.dtype for g in given if isinstance(g, nodes.RelaxExpr)
                 and isinstance(g.type, TensorType)]  # fmt: skip
        out: list[nodes.RelaxExpr | None] = []
        for g in given:
            if isinstance(g, bool | int | float) and kinds:
                g = nodes.constant(np.asarray(g, dt.to_numpy(kinds[0])))
            if not isinstance(g, nodes.RelaxExpr | None):
                self.fail(node, f"an operand is {g!r}", "values; attributes are given by name")
            out.append(g)
        return out

    # -------------------------------------------------------------------------------- calls

    def called_value(self, node: ast.Call) -> Any:
        """R.operator(...), cls.function(...), closure(...)."""
        name = self.r_name(node.func)
        if name is None:
            if not self.is_function(node.func):
                what = "what is called is no function of the program"
                if isinstance(node.func, ast.Name):
                    what = f"'{node.func.id}' is not defined here"
                self.fail(node.func, what, "R.operator(...), cls.function(...), a nested function")
            return self.function_call(node)
        special = getattr(self, f"special_{name}", None)
        if special is not None:
            return special(node)
        if name in _IMPURE:
            self.fail(node, f"R.{name} has a side effect; functions of a graph have none")
        if name == "call_packed":
            what = "R.call_packed may do anything, and a graph has values and no effects"
            self.fail(node, what, "R.call_pure_packed, R.call_dps_packed, R.call_inplace_packed")
        return self.operator(node, name)

    def operator(self, node: ast.Call, name: str) -> Any:
        """The core's own operator, or what the builder of this name makes.

        The core's: every keyword is an attribute of it, operands alone stand by position, and the
        attributes that the text always shows are there. What the one does not take is tried as
        the other.
        """
        given = [self.argument(a) for a in node.args]
        named = {k.arg or "**": self.argument(k.value) for k in node.keywords}
        core, build = core_operator(name), BUILDERS.get(name)
        if core is None and build is None:
            hint = nearest(name, {*ops(), *BUILDERS})
            self.fail(node, f"no operator {name!r}{hint}")
        errors: list[str] = []
        own = core is not None and (build is None or is_core_call(core, given, named))
        for make in (core, build) if own else (build, core):
            if make is None or (make is core and errors and not named and written_always(core)):
                continue
            try:
                if make is core:
                    assert core is not None
                    return nodes.call(core, *self.operands(node, given), **named)
                made = make(*given, **named)
                return made.astuple() if hasattr(made, "astuple") else made
            except SmeltError as e:
                errors.append(str(e))
            except TypeError as e:  # an argument that the builder does not have
                errors.append(f"R.{name}: {e}")
        plain = core is not None and are_values(given)
        self.fail(node, errors[-1] if plain and not own else errors[0])

    def argument(self, node: ast.expr) -> Any:
        """An operand or an attribute of an operator."""
        if self.is_value(node):
            return self.result(node)
        match node:
            case ast.Tuple(elts) | ast.List(elts):
                return tuple([self.argument(e) for e in elts])
            case ast.Call(func, args) if self.r_name(func) in _NOT_VALUES:
                if self.r_name(func) == "shape":
                    return self.special_shape(node)
                return self.argument(args[0])
            case ast.Name(name):
                outside = name in self.sizes or name in self.env
                if self.known(name) is not None or not outside:
                    return self.lookup(node)
        value = self.data(node)
        return value.value if isinstance(value, IntImm) else value

    def function_call(self, node: ast.Call) -> nodes.RelaxExpr:
        """A function of the module, or a closure."""
        if node.keywords:
            self.fail(node.keywords[0].value, "operands of functions stand by position")
        callee = self.result(node.func)
        if not isinstance(callee, nodes.RelaxExpr):
            self.fail(node.func, "what is called is no function")
        args = [self.value(a) for a in node.args]
        if isinstance(callee, nodes.GlobalVar):  # an unknown one is refused at the end
            t = self.signatures(callee.name)
            return nodes.call_function(callee, args, t and self.given(node, t, args))
        if not isinstance(callee.type, FuncType | IncompleteType):
            self.fail(node.func, f"what is called is no function, but {show_type(callee.type)}")
        if isinstance(callee.type, FuncType):
            self.given(node, callee.type, args)
        return nodes.call_function(callee, args)

    def given(self, node: ast.Call, t: FuncType, args: list[nodes.RelaxExpr]) -> Type:
        """What a function of a type gives for operands, which have to fit."""
        try:
            return call_result(t, [a.type for a in args])
        except SmeltError as e:
            self.fail(node, str(e))

    # ------------------------------------------------------------------------ special forms

    def named_arguments(self, node: ast.Call, *names: str) -> list[ast.expr | None]:
        """The arguments of a special form by name, None where one is not given."""
        found: dict[str, ast.expr] = dict(zip(names, node.args, strict=False))
        for k in node.keywords:
            if k.arg not in names:
                what = f"R.{self.r_name(node.func)} has no argument {k.arg!r}"
                self.fail(k.value, what, ", ".join(names))
            found[k.arg or ""] = k.value
        return [found.get(n) for n in names]

    def special_call_tir(self, node: ast.Call) -> nodes.RelaxExpr:
        """R.call_tir(cls.f, (operands), out_sinfo=R.Tensor(...), layout=((0, 2, 3, 1),))."""
        names = ("func", "args", "out_sinfo", "layout")
        func, given, result, layout = self.named_arguments(node, *names)
        made = self.program_call(node, func, given, result)
        return made if layout is None else made.replace(attrs={"layout": self.data(layout)})

    def special_call_tir_inplace(self, node: ast.Call) -> nodes.RelaxExpr:
        """R.call_tir_inplace(cls.f, (operands), inplace_indices=[0, -1], out_sinfo=[...])."""
        names = ("func", "args", "inplace_indices", "out_sinfo")
        func, given, indices, result = self.named_arguments(node, *names)
        if indices is None:
            self.fail(node, "inplace_indices is missing", "an operand's number, or -1, for each "
                      "result")  # fmt: skip
        made = self.program_call(node, func, given, result)
        try:
            made = nodes.updating("R.call_tir_inplace", made, self.data(indices))
        except SmeltError as e:
            self.fail(indices, str(e))
        self.updated.update(dict.fromkeys(written_operands(made), made.callee))
        return made

    def special_call_pure_packed(self, node: ast.Call) -> nodes.RelaxExpr:
        """R.call_pure_packed("name", x, y, sinfo_args=R.Tensor(...))."""
        (said,) = self.keywords(node, "sinfo_args")
        return self.packed(node, node.args[:1], node.args[1:], said)

    def special_call_dps_packed(self, node: ast.Call) -> nodes.RelaxExpr:
        """R.call_dps_packed("name", (x, y), out_sinfo=R.Tensor((2,), "float32"))."""
        names = ("func", "args", "out_sinfo")
        func, given, result = self.named_arguments(node, *names)
        several = given.elts if isinstance(given, ast.Tuple | ast.List) else [given]
        named = [func] if func is not None and given is not None else []
        return self.packed(node, named, [g for g in several if g], result, fresh=True)

    def special_call_inplace_packed(self, node: ast.Call) -> nodes.RelaxExpr:
        """R.call_inplace_packed("name", x, inplace_indices=[0], sinfo_args=[R.Tensor(...)])."""
        indices, said = self.keywords(node, "inplace_indices", "sinfo_args")
        many = nodes.given_indices(0 if indices is None else self.data(indices))
        made = self.packed(node, node.args[:1], node.args[1:], said, inplace=many)
        self.updated.update({made.args[i]: made.attrs["func"] for i in many if i >= 0})
        return made

    def keywords(self, node: ast.Call, *names: str) -> list[ast.expr | None]:
        """The keyword arguments of a call, which may have these, None where one is not given."""
        only = ast.Call(node.func, [], node.keywords)
        return self.named_arguments(only, *names)

    def packed(
        self, node: ast.Call, func: list[ast.expr], args: list[ast.expr], said: ast.expr | None,
        **how: Any,
    ) -> nodes.Call:  # fmt: skip
        """A call of a registered function; func: its name; said: the type that it gives."""
        if not func or said is None:
            shown = self.r_name(node.func)
            self.fail(node, f"expected R.{shown} of a name in quotes, operands and the type")
        t, operands = self.types_said(said), [self.value(a) for a in args]
        try:
            return packed_call(self.data(func[0]), operands, t, **how)
        except SmeltError as e:
            self.fail(node, str(e))

    def types_said(self, node: ast.expr) -> Type:
        """A type, or the tuple of several in a list."""
        if isinstance(node, ast.List | ast.Tuple):
            return TupleType(tuple([self.type(e, opens=False) for e in node.elts]))
        return self.type(node, opens=False)

    def program_call(
        self, node: ast.Call, func: ast.expr | None, given: ast.expr | None,
        result: ast.expr | None,
    ) -> nodes.Call:  # fmt: skip
        """A call of a tensor program."""
        target: str | None = None
        match func:
            case ast.Name(name):
                target = name
            case ast.Attribute(ast.Name(module), name) if module in self.modules:
                target = name
        if target is None or func is None or given is None or result is None:
            shown = self.r_name(node.func)
            self.fail(node, f"expected R.{shown}(name, (operands...), out_sinfo=type)")
        self.called.append((target, func))
        several = given.elts if isinstance(given, ast.Tuple | ast.List) else [given]
        t = self.types_said(result)
        return nodes.call_tir(nodes.GlobalVar(target), [self.value(e) for e in several], t)

    def special_match_cast(self, node: ast.Call) -> nodes.RelaxExpr:
        """R.match_cast(x, R.Tensor((n, m), "float32")); names that are new are sizes."""
        value, said = self.named_arguments(node, "value", "struct_info")
        if value is None or said is None:
            self.fail(node, "expected R.match_cast(x, type)")
        made = self.value(value)
        before = set(self.sizes.values())
        t = self.type(said)
        if not fits(t, made.type, {}, {v for v in sizes_in(t) if v not in before}):
            self.fail(said, f"the value is {show_type(made.type)}, it cannot be {show_type(t)}")
        return nodes.MatchCast(made, t)

    def special_const(self, node: ast.Call) -> nodes.RelaxExpr:
        """R.const(1.0, "float32")."""
        value, kind = self.named_arguments(node, "value", "dtype")
        if value is None:
            self.fail(node, 'expected R.const(1.0, "float32")')
        data = np.asarray(self.data(value))
        if kind is not None:
            return nodes.constant(data.astype(dt.to_numpy(self.dtype(kind))))
        narrow = {"float64": "float32", "int64": "int32"}
        return nodes.constant(data.astype(narrow.get(str(data.dtype), data.dtype)))

    def special_tuple(self, node: ast.Call) -> nodes.RelaxExpr:
        """R.tuple(x, y)."""
        return nodes.Tuple(tuple([self.value(a) for a in node.args]))

    def special_shape(self, node: ast.Call) -> ShapeExpr:
        """R.shape([n, 4]): an argument of operators."""
        if len(node.args) != 1 or not isinstance(node.args[0], ast.List | ast.Tuple):
            self.fail(node, "expected R.shape([n, 4])")
        return ShapeExpr([self.extent(e, opens=False) for e in node.args[0].elts])

    def special_var(self, node: ast.Call) -> nodes.RelaxExpr:
        """R.var(type): a variable that an R.let below binds; the statement gives it its name."""
        return nodes.Var(self.own_name(node) or "", self.type(node.args[0]))

    def own_name(self, node: ast.expr) -> str | None:
        """The name of a variable that is no identifier: name="a.b"."""
        keywords = node.keywords if isinstance(node, ast.Call) else []
        return next((self.text(k.value) for k in keywords if k.arg == "name"), None)

    def special_let(self, node: ast.Call) -> nodes.RelaxExpr:
        """R.let(variable, value, body) as a value."""
        if len(node.args) != 3:
            self.fail(node, "expected y = R.let(value) as a statement, or R.let(y, value, body)")
        var, value, body = [self.value(a) for a in node.args]
        if not isinstance(var, nodes.Var):
            self.fail(node.args[0], "expected a variable made by R.var")
        return nodes.Let(var, value, body)


def core_operator(name: str) -> Op | None:
    """The core's operator that a text calls by a name."""
    if name in PRINTED_AS and name in BUILDERS:
        return None
    own = next((n for n, shown in PRINTED_AS.items() if shown == name), name)
    return ops().get(own)


def is_core_call(op: Op, given: list[Any], named: Mapping[str, Any]) -> bool:
    """Whether a call of a name that is a builder's too is one of the core's operator."""
    if not {*written_always(op)} <= named.keys() <= op.attributes.keys():
        return False
    return are_values(given) and (op.variadic or len(given) <= len(op.operands))


def are_values(given: list[Any]) -> bool:
    """Whether arguments are tensors, and nothing where an operand is left out."""
    there = [g for g in given if g is not None]
    return all(isinstance(g, nodes.RelaxExpr) and not isinstance(g.type, TupleType) for g in there)


def described(t: Type | Partial) -> str:
    """A type for the text of an error."""
    if isinstance(t, Partial):
        rank = "any number of" if t.ndim is None else t.ndim
        return f"{t.dtype or 'a tensor'} with {rank} dimensions"
    return show_type(t)
