"""What names stand for in the text form besides expressions: Python's own values, and views."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable
from typing import Any, TypeGuard

from smelt.ir.build import is_const
from smelt.ir.expr import OPERATORS, Expr, const

from .nodes import Buffer, BufferLoad, IterVar, Range, address_of
from .parser_source import Described

COMPUTED: dict[type[ast.AST], Callable[..., Any]] = {
    **{o.python: o.fold for o in OPERATORS if o.python is not None and o.fold is not None},
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
"""Python's operators on its own values."""
BUILTINS = {n: getattr(builtins, n) for n in ("abs", "bool", "float", "int", "len", "list", "max",
             "min", "range", "reversed", "round", "str", "sum", "tuple", "zip")}  # fmt: skip
"""The functions of Python itself that a program may call, on Python's values."""


_NUMBERS = (int, float)
_PYTHON = (int, float, str, tuple, list, type(None))


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is one of Python's numbers."""
    return isinstance(value, _NUMBERS)


def plain(value: Any) -> Any:
    """IterVars and comparisons not made yet as expressions; other values as they are."""
    if isinstance(value, Expr):  # most are
        return value
    if type(value) is IterVar:
        return value.var
    return value.as_expr() if hasattr(value, "as_expr") else value


def is_python(value: object) -> bool:
    """Whether a value is Python's own: computing with it makes no node."""
    return isinstance(value, _PYTHON)


def row_major(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The distances of neighbours in every dimension, in elements."""
    steps: list[Expr] = [const(1)] if shape else []
    for extent in shape[:0:-1]:
        steps.insert(0, extent * steps[0])
    return tuple(steps)


class BufferView(Described):
    """A region of a buffer under a name of its own: `B = T.match_buffer(A[0:4, j:j + 8], ...)`."""

    __slots__ = ("buffer", "name", "region", "shape")

    def __init__(
        self, name: str, buffer: Buffer, region: tuple[Range, ...], shape: tuple[Expr, ...]
    ) -> None:
        """The last dimensions of the region are the view's; those before have one element."""
        self.name, self.buffer, self.region, self.shape = name, buffer, region, shape
        super().__init__(f"the buffer {name}")

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def access_ptr(self, access_mask: str = "rw") -> Expr:
        """Where it begins: see `Buffer.access_ptr`."""
        first = self.indices((const(0),) * self.rank)
        return address_of(BufferLoad(self.buffer, first))

    def indices(self, own: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The buffer's indices of one of the view's elements."""
        skip = len(self.region) - len(own)
        inner = zip(self.region[skip:], own, strict=True)
        return (*[r.min for r in self.region[:skip]], *[r.min + i for r, i in inner])


class Reshaped(BufferView):
    """A dense buffer in another shape: `B = T.Buffer((256,), data=A.data)`."""

    __slots__ = ()

    def indices(self, own: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The buffer's indices of one of the view's elements."""
        at: Expr | None = None
        for i, step in zip(own, row_major(self.shape), strict=True):
            part = i if is_const(step, 1) else i * step
            at = part if at is None else at + part
        at = const(0) if at is None else at
        found: list[Expr] = []
        for step, extent in zip(row_major(self.buffer.shape), self.buffer.shape, strict=True):
            place = at if is_const(step, 1) else at // step
            found.append(place % extent if found else place)
        return tuple(found)
