"""The script language's own names: `from smelt.tir import script as T`.

    @T.prim_func
    def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in T.parallel(16):
            B[i] = A[i] * 2.0

The decorated function never runs: its source is parsed, names from the Python program around it
included. (Sizes that are parameters need `from __future__ import annotations` or quotes.)
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from smelt.ir.errors import ParseError

from .nodes import PrimFunc
from .parser import parse
from .parser_expr import dt_name
from .printer import script

__all__ = ["Buffer", "parse", "prim_func", "script"]


def prim_func(function: Callable[..., Any]) -> PrimFunc:
    """The tensor program that a Python function describes."""
    from_caller = sys._getframe(1)
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as e:
        raise ParseError(
            f"{function.__name__}: its source cannot be found ({e}); use parse(text)"
        ) from None
    env: dict[str, Any] = {**function.__globals__, **from_caller.f_locals, **_closure(function)}
    return _parse_source("".join(lines), function.__code__.co_filename, first, env)


def _closure(function: Callable[..., Any]) -> dict[str, Any]:
    found = inspect.getclosurevars(function)
    return dict(found.nonlocals)


def _parse_source(text: str, path: str, first_line: int, env: dict[str, Any]) -> PrimFunc:
    plain = textwrap.dedent(text)
    indent = len(text) - len(text.lstrip(" ")) if plain != text else 0
    return parse(plain, path, env, first_line=first_line, indent=indent)


class _Annotation:
    """What an annotation evaluates to: nothing of interest, its source counts."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: object, **options: object) -> _Annotation:
        return self

    def __repr__(self) -> str:
        return f"T.{self.name}"


Buffer: Any = _Annotation("Buffer")
"""T.Buffer(shape, dtype, scope=..., strides=...): a parameter's type."""


def __getattr__(name: str) -> Any:
    if dt_name(name):
        return _Annotation(name)
    raise AttributeError(
        f"T.{name} has a meaning only inside of a function decorated with @T.prim_func"
    )
