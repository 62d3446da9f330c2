"""Equality of graph programs up to names: values, sizes and parameters are paired as met."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from smelt.ir.expr import Expr, FloatImm
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.node import Node, float_key
from smelt.ir.types import Type
from smelt.tir.equal import structural_equal as programs_equal
from smelt.tir.nodes import PrimFunc

from .nodes import Call, Constant, Function, GlobalVar, If, Tuple, TupleGetItem, Var

__all__ = ["structural_equal"]


def structural_equal(
    a: IRModule | Function, b: IRModule | Function, *, weights: bool = True
) -> bool:
    """Whether two programs are the same but for the names of values and sizes.

    weights  False: constants of one type are equal whatever they hold
    """
    if isinstance(a, IRModule) and isinstance(b, IRModule):
        return (
            list(a.functions) == list(b.functions)
            and a.attrs == b.attrs
            and all(_functions(f, b.functions[n], weights) for n, f in a.functions.items())
        )
    return isinstance(a, Function) and isinstance(b, Function) and _functions(a, b, weights)


def _functions(a: Node, b: Node, weights: bool) -> bool:
    if isinstance(a, PrimFunc) and isinstance(b, PrimFunc):
        return bool(programs_equal(a, b))
    return isinstance(a, Function) and isinstance(b, Function) and _Comparison(weights).run(a, b)


class _Comparison:
    """Two functions side by side."""

    def __init__(self, weights: bool) -> None:
        self.weights = weights
        self.pairs: dict[Node, Node] = {}
        self.back: dict[Node, Node] = {}

    def run(self, a: Any, b: Any) -> bool:
        """Pairs of values still to compare stand on a stack."""
        todo: list[tuple[Any, Any]] = [(a, b)]
        while todo:
            x, y = todo.pop()
            if not self.one(x, y, todo):
                return False
        return True

    def one(self, x: Any, y: Any, todo: list[tuple[Any, Any]]) -> bool:
        """Compare two things; their parts go on the stack, the first on top."""
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            todo += [(x[k], y[k]) for k in x if k in y]
            return x.keys() == y.keys()
        if isinstance(x, tuple) and isinstance(y, tuple):
            todo += reversed(list(zip(x, y, strict=False)))
            return len(x) == len(y)
        if isinstance(x, float) and isinstance(y, float):
            return float_key(x) == float_key(y)
        if not isinstance(x, Node) or not isinstance(y, Node):
            return type(x) is type(y) and bool(x == y)
        if type(x) is not type(y):
            return False
        known = self.pairs.get(x)
        if known is not None or y in self.back:
            return known is y
        if isinstance(x, SizeVar):
            assert isinstance(y, SizeVar)
            return x.type == y.type and self.pair(x, y)
        if isinstance(x, Expr | Type):
            todo += reversed([(getattr(x, f), getattr(y, f)) for f in x.fields])
            return not isinstance(x, FloatImm) or isinstance(y, FloatImm)
        self.pair(x, y)
        return self.value(x, y, todo)

    def pair(self, x: Node, y: Node) -> bool:
        """From now on the two stand for each other."""
        self.pairs[x], self.back[y] = y, x
        return True

    def value(self, x: Any, y: Any, todo: list[tuple[Any, Any]]) -> bool:
        """Compare two graph values."""
        match x:
            case Function():
                todo += [(x.attrs, y.attrs), (x.body, y.body), (x.params, y.params)]
            case Var():
                todo.append((x.type, y.type))
            case Constant():
                todo.append((x.type, y.type))
                return (
                    not self.weights
                    or x.data is y.data
                    or bool(
                        np.array_equal(
                            np.asarray(x.data),
                            np.asarray(y.data),
                            equal_nan=x.data.dtype.kind == "f",
                        )
                    )
                )
            case Call():
                todo += [(x.type, y.type), (x.attrs, y.attrs), (x.args, y.args)]
                if isinstance(x.op, GlobalVar):
                    return isinstance(y.op, GlobalVar) and x.op.name == y.op.name
                return x.op is y.op
            case Tuple():
                todo.append((x.items, y.items))
            case TupleGetItem():
                todo.append((x.value, y.value))
                return bool(x.index == y.index)
            case If():
                todo += [
                    (x.else_branch, y.else_branch),
                    (x.then_branch, y.then_branch),
                    (x.condition, y.condition),
                ]
        return True
