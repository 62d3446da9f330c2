"""Sizes as text: "n * 2 + 1" for the dimensions and costs that depend on a call's sizes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import cache
from types import CodeType

from smelt.runtime.errors import InputError, LoadError

_LONGEST = 20_000  # characters
_NODES = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod,
    ast.USub, ast.Constant, ast.Name, ast.Load, ast.Call, ast.Compare, ast.Eq,
)  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "min": min,
    "max": max,
    "ceildiv": lambda a, b: -(-a // b),
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "truncmod": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
    "select": lambda condition, a, b: a if condition else b,
}


@cache
def _compile(text: str) -> CodeType:
    """Only integer arithmetic: a library file must not be able to run code through a size."""
    try:
        if len(text) > _LONGEST:  # the parser of Python is for programs that are meant well
            raise ValueError
        tree = ast.parse(text, mode="eval")
        code: CodeType = compile(tree, "<size>", "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise LoadError(f"a size in the metadata is not an expression: {text!r:.80}") from None
    for node in ast.walk(tree):
        legal = isinstance(node, _NODES)
        if isinstance(node, ast.Constant):
            legal = type(node.value) is int
        if isinstance(node, ast.Call):
            legal = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        if not legal:
            raise LoadError(
                f"a size in the metadata is not an expression of integers: {text!r}\n"
                f"  legal: + - * // %, numbers, symbols, {', '.join(_FUNCTIONS)}"
            )
    return code


def evaluate(size: int | str, sizes: Mapping[str, int]) -> int:
    """The value of a size, given those of the symbols."""
    if isinstance(size, int):
        return size
    if size in sizes:
        return sizes[size]
    try:
        value = eval(_compile(size), {"__builtins__": {}, **_FUNCTIONS}, dict(sizes))
    except ZeroDivisionError:
        values = ", ".join(f"{n} = {v}" for n, v in sizes.items())
        raise InputError(f"the size {size} divides by zero: {values}") from None
    except (NameError, TypeError, ArithmeticError) as error:
        raise LoadError(
            f"size {size!r}: {error}\n  symbols: {', '.join(sizes) or 'none'}"
        ) from None
    return int(value)


@cache
def names_in(size: str) -> frozenset[str]:
    """The symbols of an expression."""
    return frozenset([n for n in _compile(size).co_names if n not in _FUNCTIONS])
