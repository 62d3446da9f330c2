"""Values of a model while it is imported: graph values, and arrays known at compile time.

ONNX computes shapes with tensors. A small tensor is therefore carried as an array of its elements,
numbers or expressions over the symbolic sizes, and becomes a Constant only where it is used as
data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from smelt.arith import Analyzer, Answer
from smelt.ir import dtype as dt
from smelt.ir.build import maximum, minimum, value_of
from smelt.ir.expr import GE, INDEX, Expr, ExprLike, IntImm, Mul, Var, binary, convert
from smelt.ir.types import TensorType, tensor_type
from smelt.ir.walk import free_vars
from smelt.relax import nodes as relax
from smelt.relax.host_ops import call_with_sizes

SMALL = 4096
"""Arrays of at most so many elements are worth evaluating while importing."""

Dims = tuple["int | Expr", ...]


class Value:
    """A tensor of the model.

    known    its elements where they are known: a plain array, or an object array in which some
             elements are expressions
    compute  makes the value in the graph, for elements that no attribute can hold
    """

    __slots__ = ("_expr", "compute", "known", "name", "type")

    def __init__(
        self,
        type: TensorType,
        expr: relax.RelaxExpr | None = None,
        known: np.ndarray | None = None,
        name: str = "",
    ) -> None:
        """Give an expression, an array, or both."""
        self.type, self._expr, self.known, self.name = type, expr, known, name
        self.compute: Callable[[], Value] | None = None

    @staticmethod
    def of_array(array: np.ndarray, dtype: str | None = None, name: str = "") -> Value:
        """A value from elements; an object array of plain numbers becomes a plain one."""
        dtype = dtype or dt.from_numpy(array.dtype)
        if array.dtype == object:
            items = [_plain(e) for e in array.flat]
            if not any(isinstance(e, Expr) for e in items):
                array = np.array(items, dtype=dt.to_numpy(dtype)).reshape(array.shape)
            else:
                array = objects(items, array.shape)
        return Value(tensor_type(array.shape, dtype), None, array, name)

    @staticmethod
    def of_sizes(sizes: Any) -> Value:
        """A vector of sizes, or one without dimensions: numbers or expressions."""
        many = isinstance(sizes, Sequence)
        items = objects(sizes, (len(sizes),)) if many else objects([sizes], ())
        return Value.of_array(items, "int64")

    @property
    def shape(self) -> Dims:
        """The extents, numbers where they are known."""
        return tuple([e.value if isinstance(e, IntImm) else e for e in self.type.shape])

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.type.shape)

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.type.dtype

    @property
    def array(self) -> np.ndarray:
        """The known elements, of a value that has them."""
        assert self.known is not None
        return self.known

    @property
    def is_array(self) -> bool:
        """Whether every element is a number that is known."""
        return self.known is not None and self.known.dtype != object

    @property
    def small(self) -> bool:
        """Whether the elements are known and few enough to compute with."""
        return self.known is not None and self.known.size <= SMALL

    @property
    def expr(self) -> relax.RelaxExpr:
        """The graph value; known elements become a Constant here, or code that computes them."""
        if self._expr is None and self.compute is not None and self.has_floats:
            self._expr = self.compute().expr
        elif self._expr is None:
            self._expr = _materialise(self.array, self.dtype, self.name)
        return self._expr

    @property
    def has_floats(self) -> bool:
        """Whether an element is an expression that is no integer: the graph has to compute it."""
        return (
            self.known is not None
            and self.known.dtype == object
            and any(isinstance(e, Expr) and e.dtype != INDEX for e in self.known.flat)
        )

    def elements(self) -> np.ndarray:
        """The known elements as an object array of int, float, bool or Expr."""
        known = self.array
        return known if known.dtype == object else objects(known.ravel().tolist(), known.shape)


class SequenceValue:
    """A sequence of tensors, or an optional value that is absent: known while importing.

    items   None: an optional value that is not there
    dtype   the items' element type, "" where nothing tells it
    """

    __slots__ = ("dtype", "items", "name")

    small = False
    known = None

    def __init__(self, items: Sequence[Value] | None, dtype: str = "") -> None:
        """Take the items."""
        self.items = None if items is None else list(items)
        self.dtype = dtype or (self.items[0].dtype if self.items else "")
        self.name = ""


Operand = Value | SequenceValue


def objects(items: Iterable[Any], shape: Sequence[int]) -> np.ndarray:
    """An object array of the given shape."""
    items = list(items)
    out = np.empty(len(items), object)
    out[:] = items
    return out.reshape(shape)


def _plain(e: Any) -> Any:
    if isinstance(e, Expr):
        e = simplify(e)
        value = getattr(e, "value", None)
        return value if isinstance(value, int | float) else e
    return e.item() if isinstance(e, np.generic) else e


def _materialise(known: np.ndarray, dtype: str, name: str) -> relax.RelaxExpr:
    """Elements as a graph value: an array by reference, or pieces that are computed at run time."""
    if known.dtype != object:
        return relax.constant(known, name)
    flat = list(known.flat)
    parts = [
        call_with_sizes("arange", start=e, step=1, count=1, dtype=dtype, name=name)
        if isinstance(e, Expr)
        else relax.constant(np.array([e], dt.to_numpy(dtype)), name)
        for e in flat
    ]
    joined = parts[0] if len(parts) == 1 else relax.call("concat", *parts, axis=0, name=name)
    return (
        joined if known.ndim == 1 else relax.call("reshape", joined, shape=known.shape, name=name)
    )


# ----------------------------------------------------------------------- symbolic sizes


def simplify(e: ExprLike) -> Any:
    """A size or a condition in its simplest form; an int or a bool where it is constant."""
    if not isinstance(e, Expr) or e.dtype not in (INDEX, "bool"):
        return e
    if not isinstance(e, Var | IntImm):
        e = analyzer_of_sizes(e).simplify(e)
    number = value_of(e)
    return e if number is None else number if e.dtype == INDEX else bool(number)


def smaller(a: ExprLike, b: ExprLike) -> Any:
    """The smaller of two sizes."""
    return simplify(minimum(convert(a, INDEX), b))


def larger(a: ExprLike, b: ExprLike) -> Any:
    """The larger of two sizes."""
    return simplify(maximum(convert(a, INDEX), b))


def analyzer_of_sizes(e: Expr) -> Analyzer:
    """An analyzer that knows the sizes in an expression to be at least 0."""
    found = sorted(free_vars(e), key=lambda v: v.name)
    return Analyzer({v: (0, None) for v in found if v.dtype == INDEX})


def at_least(e: ExprLike, bound: ExprLike) -> bool:
    """Whether a size is known to be at least `bound`, all symbolic sizes being at least 0."""
    known = binary(GE, e, bound)
    if isinstance(known, IntImm):
        return bool(known.value)
    return analyzer_of_sizes(known).prove(known) is Answer.YES


def static(dims: Iterable[Any]) -> bool:
    """Whether all sizes are numbers."""
    return all(isinstance(d, int) for d in dims)


def product(dims: Iterable[Any]) -> Any:
    """The product of some sizes."""
    return simplify(math.prod(dims))


def quotient(dims: Iterable[Any], others: Iterable[Any]) -> Any:
    """The product of `dims` divided by that of `others`, which divides it; equal factors cancel."""
    above, top = _factors(dims)
    below, bottom = _factors(others)
    for f in list(below):
        if f in above:
            above.remove(f)
            below.remove(f)
    if bottom == 0:
        return 0
    if top % bottom == 0:
        top, bottom = top // bottom, 1
    value: Any = product([top, *above])
    under: Any = product([bottom, *below])
    return simplify(value if isinstance(under, int) and under == 1 else convert(value) // under)


def _factors(dims: Iterable[Any]) -> tuple[list[Expr], int]:
    symbols: list[Expr] = []
    number = 1
    stack = list(dims)
    while stack:
        d = stack.pop()
        if isinstance(d, Mul):
            stack += [d.a, d.b]
        elif isinstance(d, int | IntImm):
            number *= d if isinstance(d, int) else d.value
        else:
            symbols.append(d)
    return symbols, number


_TO_THE_END = 2**31 - 1
"""What exporters write for the end of a dimension, or more."""


def clamp_end(end: Any, extent: Any) -> Any:
    """The smaller of an index that is not negative and an extent."""
    if isinstance(end, int) and end >= _TO_THE_END:
        return extent
    return smaller(end, extent)
