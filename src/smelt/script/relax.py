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
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from smelt.relax.nodes import Function
from smelt.relax.parser import check_target, parse_function
from smelt.relax.verify import verify
from smelt.tir.parser_source import Source
from smelt.tir.script import FunctionSource, function_source, in_class_body

__all__ = ["Constant", "PendingFunction", "Tensor", "Tuple", "function"]


class PendingFunction:
    """A graph function in the body of a class: read when the class is complete.

    Until then it is not known which functions it may call; `I.ir_module` reads it.
    """

    def __init__(self, name: str, source: FunctionSource) -> None:
        """Keep what has to be read."""
        self.name, self.source = name, source

    def read(self, functions: Collection[str] | None = None) -> Function:
        """The graph function. functions: those of its module; None: it may call none."""
        s = self.source
        source = Source(s.text, s.path, s.first_line, s.indent)
        node = source.tree().body[0]
        if not isinstance(node, ast.FunctionDef):
            source.error(node, "a graph function is a function with def")
        arrays = {n: v for n, v in s.env.items() if isinstance(v, np.ndarray)}
        env: Mapping[str, Any] = {n: v for n, v in s.env.items() if n not in arrays}
        made, called = parse_function(source, node, arrays, env)
        for name, place in called:
            check_target(source, place, name, functions or ())
        return made

    def __repr__(self) -> str:
        return f"<graph function {self.name} of a class that is no I.ir_module>"


def function(described: Callable[..., Any]) -> Function | PendingFunction:
    """The graph function that a Python function describes."""
    around = sys._getframe(1)
    source = function_source(described, around)
    pending = PendingFunction(described.__name__, source)
    if in_class_body(around):
        return pending
    made = pending.read()
    verify(made)
    return made


class _Annotation:
    """What an annotation evaluates to: nothing of interest, its source counts."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: object, **options: object) -> _Annotation:
        return self

    def __repr__(self) -> str:
        return f"R.{self.name}"


Tensor: Any = _Annotation("Tensor")
"""R.Tensor(shape, dtype): the type of a tensor; sizes are names or texts."""
Tuple: Any = _Annotation("Tuple")
"""R.Tuple(types...): the type of several values together."""
Constant: Any = _Annotation("Constant")
"""R.Constant(shape, dtype): the type of an array that is known when the program is compiled."""


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"R.{name} has a meaning only inside of a function decorated with @R.function"
    )
