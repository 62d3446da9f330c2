"""Symbolic sizes as users write them: names, ranges, likely values, and expressions as text.

smelt.Size("n", max=16, likely=(1, 8))      a size with its range, for an extent in `shapes`
"n", "past + seq"                           names, and expressions over them
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, TypeVar

from .build import ceildiv, equal, maximum, minimum, select
from .errors import CompileError
from .expr import INDEX, OPERATORS, Add, Expr, FloorDiv, FloorMod, Mul, Sub, binary, convert

T = TypeVar("T")

_MOST_LIKELY = 16
"""Specialised variants of one model."""


@dataclass(frozen=True)
class Size:
    """A symbolic size: what it is called, which values it may have, and which it mostly has.

    name    a Python identifier; extents of the same name are the same size
    min     the smallest value
    max     the largest value; None: no limit
    likely  values for which a variant of its own is compiled; the others share the general code
    """

    name: str
    min: int = 0
    max: int | None = None
    likely: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Raises CompileError where a field makes no sense."""
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise CompileError(
                f"Size: the name is {self.name!r}; legal: an identifier such as 'n' or 'batch'"
            )
        object.__setattr__(self, "likely", tuple(dict.fromkeys(self.likely)))
        numbers = [("min", self.min), *[("likely", v) for v in self.likely]]
        for field, value in [*numbers, *([] if self.max is None else [("max", self.max)])]:
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise CompileError(
                    f"Size {self.name}: {field} is {value!r}; legal: integers from 0"
                )
        if self.max is not None and self.max < self.min:
            raise CompileError(f"Size {self.name}: max={self.max} is below min={self.min}")
        for value in self.likely:
            if value < self.min or (self.max is not None and value > self.max):
                raise CompileError(
                    f"Size {self.name}: the likely value {value} is outside of its range, "
                    f"{self.range}"
                )
        if len(self.likely) > _MOST_LIKELY:
            raise CompileError(
                f"Size {self.name}: {len(self.likely)} likely values are given; each is code of "
                f"its own, {_MOST_LIKELY} are possible"
            )

    @property
    def range(self) -> str:
        """The range as people write it."""
        return f"{self.min} to {self.max}" if self.max is not None else f"{self.min} or more"


Extent = int | str | Expr | Size


def plain_shapes(
    shapes: Mapping[str, Sequence[Extent]] | None,
) -> tuple[dict[str, tuple[Any, ...]], dict[str, Size]]:
    """Shapes with names in the places of Sizes, and the Sizes by name.

    Raises CompileError where two Sizes of one name differ.
    """
    found: dict[str, Size] = {}
    given = by_name("shapes", shapes, f"'x': {_EXAMPLE}")
    shapes = {name: _extents(name, shape) for name, shape in given.items()}
    for shape in shapes.values():
        for size in shape:
            if isinstance(size, Size) and found.setdefault(size.name, size) != size:
                raise CompileError(
                    f"shapes declares the size {size.name} twice: {found[size.name]} and {size}\n"
                    f"  legal: one Size, and its name, {size.name!r}, in the other places"
                )
    plain = {
        name: tuple([e.name if isinstance(e, Size) else e for e in shape])
        for name, shape in shapes.items()
    }
    return plain, found


_EXAMPLE = "(1, 3, 224, 224)"


def by_name(what: str, given: Mapping[str, T] | None, example: str) -> Mapping[str, T]:
    """An argument that is a dict. Raises CompileError, with an example, where it is none."""
    if given is not None and not isinstance(given, Mapping):
        raise CompileError(f"{what} is a {type(given).__name__}; give a dict: {what}={{{example}}}")
    return given or {}


def _extents(name: str, shape: Any) -> tuple[Any, ...]:
    """The extents of one input, integers of numpy as plain ones."""
    if isinstance(shape, str | bytes) or not isinstance(shape, Sequence):
        value = f" {shape!r}" if isinstance(shape, str | bytes | int | float) else ""
        raise CompileError(
            f"shapes gives the input {name!r} the {type(shape).__name__}{value}; "
            f"give a tuple of sizes: shapes={{{name!r}: {_EXAMPLE}}}"
        )
    plain = int, str, Expr
    return tuple([e if isinstance(e, plain) or not hasattr(e, "__index__") else index(e)
                  for e in shape])  # fmt: skip


# -------------------------------------------------------------------------------- expressions

_OPERATORS = {o.python: o.node for o in OPERATORS if o.node in (Add, Sub, Mul, FloorDiv, FloorMod)}
_FUNCTIONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "min": minimum,
    "max": maximum,
    "ceildiv": ceildiv,
}
LEGAL = "names, integers, + - * // %, min, max, ceildiv and parentheses"


def parse_extent(text: str, size: Callable[[str], Expr]) -> Expr | None:
    """A text such as "past + 2 * seq" as an expression; None where it is none.

    size  the size of a name
    """
    try:
        return _expression(ast.parse(text.strip(), mode="eval").body, size)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


def _expression(node: ast.expr, size: Callable[[str], Expr]) -> Expr:
    """Raises ValueError where a node is no size."""
    match node:
        case ast.Name(name):
            return size(name)
        case ast.Constant(int(value)) if not isinstance(value, bool):
            return convert(value, INDEX)
        case ast.BinOp(a, op, b) if type(op) in _OPERATORS:
            return binary(_OPERATORS[type(op)], _expression(a, size), _expression(b, size))
        case ast.Call(ast.Name(name), [a, b], []) if name.lower() in _FUNCTIONS:
            return _FUNCTIONS[name.lower()](_expression(a, size), _expression(b, size))
        case ast.Call(ast.Name("select"), [ast.Compare(a, [ast.Eq()], [b]), c, d], []):
            left, right, yes, no = [_expression(e, size) for e in (a, b, c, d)]
            return select(equal(left, right), yes, no)
    raise ValueError
