"""Types and sizes in the text form of graph programs.

A name in a parameter's shape is a size; each name is one size in the whole outermost function.
"""

# ruff: noqa: RET503 (fail() does not return)

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Expr, IntImm
from smelt.ir.expr import Var as SizeVar
from smelt.ir.types import FuncType, IncompleteType, TensorType, TupleType, Type, tensor_type
from smelt.runtime.errors import closest
from smelt.tir.parser_expr import ExprParser, Source
from smelt.tir.parser_source import dotted_name, unquoted

from .shapes import BaseCheckResult, struct_info_base_check

_LEGAL = 'R.Tensor((...), "float32"), R.Tuple(...), R.Callable((...), ...), R.Object'
_NO_SHAPES = (
    "shapes are known to the compiler and are no values of a program; legal: R.shape([...]) as an "
    "argument of an operator"
)


class Partial(NamedTuple):
    """R.Tensor without a shape, or without an element type: what is said of it; None: nothing."""

    dtype: str | None
    ndim: int | None


class TypeReader:
    """Reads types; knows the sizes of one outermost function."""

    def __init__(self, source: Source, env: Mapping[str, Any]) -> None:
        """No sizes yet."""
        self.source, self.env = source, env
        self.sizes: dict[str, SizeVar] = {}
        self.exprs = ExprParser(source, env)

    def fail(self, node: ast.AST, message: str, legal: str = "") -> NoReturn:
        """Raise a ParseError at a node."""
        self.source.error(node, message, legal)

    def r_name(self, node: ast.expr) -> str | None:
        """ "relu" for R.relu, "nn.conv2d" for R.nn.conv2d."""
        return dotted_name(node, "R")

    def text(self, node: ast.expr) -> str:
        """A text in quotes."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            self.fail(node, "expected a text in quotes")
        return node.value

    def data(self, node: ast.expr) -> Any:
        """Plain data: attributes and annotations."""
        match node:
            case ast.Dict(keys, values):
                return {self.data(k): self.data(v) for k, v in zip(keys, values, strict=True) if k}
            case ast.List(elts):
                return [self.data(e) for e in elts]
            case ast.Tuple(elts):
                return tuple([self.data(e) for e in elts])
        value = self.exprs.value(node)
        return value.value if isinstance(value, IntImm) else value

    # ------------------------------------------------------------------------------- sizes

    def size(self, name: str, own: str) -> SizeVar:
        """A symbolic size."""
        if name not in self.sizes:
            self.sizes[name] = SizeVar(own)
            self.exprs.define(name, self.sizes[name])
        return self.sizes[name]

    def extent(self, e: ast.expr, opens: bool) -> Expr:
        """An extent. opens: whether names not known yet are sizes from here on."""
        if isinstance(e, ast.Constant) and isinstance(e.value, str):
            if not e.value.isidentifier():
                return self.extent(self.quoted(e), opens)
            e = ast.copy_location(ast.Name(e.value), e)
        for inner in ast.walk(e):
            if not isinstance(inner, ast.Name) or inner.id in ("T", "R", *self.sizes):
                continue
            if inner.id in self.env:
                continue
            if not opens:
                near = ", ".join(closest(inner.id, [*self.sizes]) or self.sizes) or "none"
                what = f"the size '{inner.id}' is not defined here; sizes: {near}"
                self.fail(inner, what, "parameters' shapes and R.match_cast introduce sizes")
            self.size(inner.id, inner.id)
        return self.exprs.expr(e, INDEX)

    def quoted(self, e: ast.expr) -> ast.expr:
        """What a text in quotes says, with its place; anything else as it is."""
        try:
            return unquoted(e)
        except SyntaxError:
            self.fail(e, f"{ast.unparse(e)} is no expression")

    # ------------------------------------------------------------------------------- types

    def type(self, node: ast.expr, opens: bool = True, hint: str = "s") -> Type:
        """A type; sizes that a tensor's type leaves open are new ones, named after `hint`."""
        found = self.annotation(node, opens)
        if not isinstance(found, Partial):
            return found
        if found.dtype is None or found.ndim is None:
            what = "the type of this tensor is not known"
            self.fail(node, what, 'R.Tensor((n, 4), "float32"), R.Tensor(dtype="float32", ndim=2)')
        fresh = [self.size(self.unused(f"{hint}_{d}"), f"{hint}_{d}") for d in range(found.ndim)]
        return tensor_type(fresh, found.dtype)

    def unused(self, name: str) -> str:
        """A size's name that is not taken."""
        while name in self.sizes:
            name += "_"
        return name

    def annotation(self, node: ast.expr, opens: bool) -> Type | Partial:
        """A type, or what is said of a tensor without a shape."""
        node = self.quoted(node)
        call = node if isinstance(node, ast.Call) else None
        name = self.r_name(node if call is None else call.func)
        args = [] if call is None else call.args
        match name:
            case "Tensor":
                return Partial(None, None) if call is None else self.tensor(call, opens)
            case "Object" | "Any":
                return IncompleteType()
            case "Tuple":
                if len(args) == 1 and isinstance(args[0], ast.List | ast.Tuple):
                    args = args[0].elts
                return TupleType(tuple([self.type(a, opens) for a in args]))
            case "Callable" if call is not None:
                return self.callable(call, opens)
            case "Prim" if call is not None:
                return tensor_type((), self.dtype(args[0]) if args else "int64")
            case "Shape":
                self.fail(node, _NO_SHAPES)
        self.fail(node, "expected a type", _LEGAL)

    def callable(self, node: ast.Call, opens: bool) -> Type:
        """R.Callable((parameters...), result)."""
        if len(node.args) != 2 or not isinstance(node.args[0], ast.Tuple | ast.List):
            self.fail(node, "expected R.Callable((parameters...), result)")
        for k in node.keywords:
            if k.arg != "purity" or self.data(k.value) is not True:
                self.fail(k.value, "functions have no side effects here", "purity=True")
        params = tuple([self.type(a, opens) for a in node.args[0].elts])
        return FuncType(params, self.type(node.args[1], opens))

    def tensor(self, node: ast.Call, opens: bool) -> Type | Partial:
        """R.Tensor(shape, dtype, ndim=...) or R.Constant(...)."""
        given: dict[str, ast.expr] = dict(zip(("shape", "dtype", "ndim"), node.args, strict=False))
        for k in node.keywords:
            if k.arg in ("vdevice",) or k.arg not in ("shape", "dtype", "ndim", "name"):
                self.fail(k.value, f"a tensor's type has no {k.arg}", "shape, dtype, ndim")
            given[k.arg] = k.value
        match node.args:
            case [ast.Constant(str())]:  # R.Tensor("float32", ndim=2)
                given["dtype"] = given.pop("shape")
        kind = self.dtype(given["dtype"]) if "dtype" in given else None
        rank = self.data(given["ndim"]) if "ndim" in given else None
        shape = given.get("shape")
        if shape is None or (isinstance(shape, ast.Constant) and shape.value is None):
            return Partial(kind, None if rank == -1 else rank)
        if not isinstance(shape, ast.Tuple | ast.List) or kind is None:
            self.fail(node, 'expected a shape in brackets and an element type: ((n, 3), "float32")')
        extents = [self.extent(e, opens) for e in shape.elts]
        if rank is not None and rank != len(extents):
            self.fail(given["ndim"], f"ndim is {rank}, the shape has {len(extents)} dimensions")
        return tensor_type(extents, kind)

    def dtype(self, node: ast.expr) -> str:
        """An element type in quotes."""
        kind = self.text(node)
        if kind not in dt.DTYPES:
            self.fail(node, f"{kind!r} is no element type; known: {', '.join(dt.DTYPES)}")
        return kind

    def agrees(self, said: Type | Partial, found: Type) -> bool:
        """Whether a value of a type is what an annotation says, as far as is known."""
        if isinstance(said, Partial):
            if not isinstance(found, TensorType):
                return isinstance(found, IncompleteType)
            return said.dtype in (None, found.dtype) and said.ndim in (None, found.rank)
        return struct_info_base_check(said, found) is BaseCheckResult.PASS
