"""The script language of graph programs: `from smelt.script import relax as R`.

    @R.function
    def main(x: R.Tensor(("n", 784), "float32"), *, w: R.Constant((784, 10), "float32")):
        y = R.matmul(x, w)
        return R.relu(y)

The decorated function never runs: its source is parsed. Constants are arrays of the surrounding
Python program with the parameter's name.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable as Fn
from typing import Any, overload

import numpy as np

from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import Var as SizeVar
from smelt.ir.types import Type, tensor_type
from smelt.relax import struct_info
from smelt.relax.nodes import Function
from smelt.relax.parser import Definition, Definitions
from smelt.relax.verify import verify
from smelt.tir.script import FunctionSource, function_source, in_class_body

__all__ = ["Callable", "Constant", "Object", "PendingFunction", "Prim", "Shape", "Tensor", "Tuple",
           "function"]  # fmt: skip


class PendingFunction:
    """A graph function in the body of a class: read when the class is complete.

    Until then it is not known which functions it may call; `I.ir_module` reads it.
    """

    def __init__(self, name: str, source: FunctionSource) -> None:
        """Keep what has to be read."""
        self.name, self.source = name, source

    def definition(self) -> Definition:
        """What has to be read; arrays of the Python program are constants."""
        source = self.source
        node = source.tree().body[0]
        if not isinstance(node, ast.FunctionDef):
            source.error(node, "a graph function is a function with def")
        arrays = {n: v for n, v in source.env.items() if isinstance(v, np.ndarray)}
        rest = {n: v for n, v in source.env.items() if n not in arrays}
        return Definition(source, node, arrays, rest)

    def __repr__(self) -> str:
        return f"<graph function {self.name} of a class that is no I.ir_module>"


@overload
def function(described: Fn[..., Any]) -> Function | PendingFunction:
    """As @R.function."""


@overload
def function(
    *, private: bool = False, pure: bool = True, check_well_formed: bool = True
) -> Fn[[Fn[..., Any]], Function | PendingFunction]:
    """As @R.function(private=True)."""


def function(
    described: Fn[..., Any] | None = None,
    *,
    private: bool = False,
    pure: bool = True,
    check_well_formed: bool = True,
) -> Any:
    """The graph function that a Python function describes.

    private            for functions that only others of their module call (attribute "private")
    pure               True: functions of a graph have no side effects
    check_well_formed  whether the rules of graphs are checked too (a VerifyError)
    """
    around = sys._getframe(1)

    def read(f: Fn[..., Any]) -> Function | PendingFunction:
        source = function_source(f, around)
        pending = PendingFunction(f.__name__, source)
        if in_class_body(around):
            return pending
        alone = Definitions({f.__name__: pending.definition()}, "cls")
        made = alone.function(f.__name__)
        alone.check(())
        if check_well_formed:
            verify(made)
        return made

    return read if described is None else read(described)


class _Annotation:
    """What a type evaluates to. In a script its source counts; elsewhere `as_type` says it."""

    def __init__(self, name: str, args: tuple[Any, ...] = (), **options: Any) -> None:
        self.name, self.args, self.options = name, args, options

    def __call__(self, *args: object, **options: object) -> _Annotation:
        return _Annotation(self.name, args, **options)

    def as_type(self) -> Type:
        """The type: for R.Tensor((2, 3), "float32") as the type of a relax.Var."""
        if self.name not in _TYPES:
            raise TypeMismatch(f"R.{self.name} is no type outside of a script")
        return _TYPES[self.name](*self.args, **self.options)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"R.{self.name}"


def _tensor(shape: Any = None, dtype: str = "float32", ndim: int = -1) -> Any:
    """R.Tensor as a type; texts are names of sizes, each the same in one type only."""
    if isinstance(shape, str):
        shape, dtype = None, shape
    if shape is None:
        return struct_info.TensorStructInfo(None, dtype, ndim=ndim)
    names: dict[str, SizeVar] = {}
    extents = [names.setdefault(e, SizeVar(e)) if isinstance(e, str) else e for e in shape]
    return tensor_type(extents, dtype)


def _tuple(*items: Any) -> Any:
    many = items[0] if len(items) == 1 and isinstance(items[0], list | tuple) else items
    return struct_info.TupleStructInfo.make(many)


_TYPES: dict[str, Fn[..., Any]] = {
    "Tensor": _tensor,
    "Tuple": _tuple,
    "Callable": struct_info.FuncStructInfo,
    "Object": struct_info.ObjectStructInfo,
    "Prim": struct_info.PrimStructInfo,
    "Shape": struct_info.ShapeStructInfo,
}

Tensor: Any = _Annotation("Tensor")
"""R.Tensor(shape, dtype): the type of a tensor; sizes are names or texts."""
Tuple: Any = _Annotation("Tuple")
"""R.Tuple(types...): the type of several values together."""
Callable: Any = _Annotation("Callable")
"""R.Callable((types...), type): the type of a function."""
Object: Any = _Annotation("Object")
"""R.Object: a value of which nothing is known."""
Prim: Any = _Annotation("Prim")
"""R.Prim(dtype): one number."""
Shape: Any = _Annotation("Shape")
"""R.Shape: refused by the parser with what is legal."""
Constant: Any = _Annotation("Constant")
"""R.Constant(shape, dtype): the type of an array that is known when the program is compiled."""


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"R.{name} has a meaning only inside of a function decorated with @R.function"
    )
