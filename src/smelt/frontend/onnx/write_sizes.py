"""Symbolic sizes in attributes: constants where that can be, else nodes that compute them.

A size is read off the first value whose shape has it; every size and every expression of sizes is
computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir import expr as ir
from smelt.ir.errors import Unsupported
from smelt.ir.expr import Expr, FloatImm, IntImm
from smelt.ir.types import TensorType
from smelt.relax.host_ops import HostOp
from smelt.relax.nodes import Call, RelaxExpr, TupleGetItem, tensor_types, values

_ARITHMETIC: dict[type[Expr], str] = {
    ir.Add: "Add", ir.Sub: "Sub", ir.Mul: "Mul", ir.Div: "Div", ir.Min: "Min", ir.Max: "Max",
    ir.FloorMod: "Mod", ir.TruncDiv: "Div", ir.EQ: "Equal", ir.LT: "Less", ir.LE: "LessOrEqual",
    ir.GT: "Greater", ir.GE: "GreaterOrEqual", ir.And: "And", ir.Or: "Or",
}  # fmt: skip
_FUNCTIONS = {"floor": "Floor", "ceil": "Ceil", "round": "Round", "sqrt": "Sqrt", "abs": "Abs"}


class Sizes:
    """What computes sizes.

    sources     where each size is read: a value and a dimension, or a vector of numbers and a place
    sizes_made  the vectors of one element that hold them
    """

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.sources: dict[Expr, tuple[RelaxExpr, int, bool]] = {}
        self.sizes_made: dict[Any, str] = {}

    def emit(self, op: str, *operands: Any, results: int = 1, **attrs: Any) -> Any:
        """A node: see Writer."""
        raise NotImplementedError

    def find_sizes(self, root: RelaxExpr, params: Sequence[RelaxExpr] = ()) -> None:
        """Note where the sizes in the types of all values below are told first."""
        given = set(params)
        for v in (*params, *values(root)):
            if isinstance(v, Call) and isinstance(v.op, HostOp) and v.op.name == "sizes":
                for n, t in enumerate(tensor_types(v.type)):
                    assert v.args[0] is not None
                    self.sources.setdefault(t.shape[0], (v.args[0], n, True))
            elif not _tells_sizes(v) and isinstance(v.type, TensorType):
                for axis, e in enumerate(v.type.shape):
                    if isinstance(e, ir.Var) or (v in given and not isinstance(e, IntImm)):
                        self.sources.setdefault(e, (v, axis, False))

    def size(self, e: int | Expr) -> Any:
        """A vector of one int64, or one element of another type, that holds an expression."""
        if isinstance(e, int):
            return np.array([e], np.int64)
        if isinstance(e, IntImm | FloatImm):
            return np.array([e.value], dt.to_numpy(e.type))
        if e not in self.sizes_made:
            self.sizes_made[e] = self._read(e) if e in self.sources else self._computed(e)
        return self.sizes_made[e]

    def _read(self, e: Expr) -> str:
        value, n, numbers = self.sources[e]
        if numbers:
            vector = self.numbers(value)
            return self.emit("Gather", vector, np.array([n]), axis=0)  # type: ignore[no-any-return]
        if "start" in self.schema("Shape").attributes:
            return self.emit("Shape", value, start=n, end=n + 1)  # type: ignore[no-any-return]
        return self.emit("Gather", self.emit("Shape", value), np.array([n]), axis=0)  # type: ignore[no-any-return]

    def numbers(self, value: RelaxExpr) -> Any:
        """A value that holds sizes, as a vector of int64."""
        key = ("numbers", value)
        if key not in self.sizes_made:
            t = value.type
            assert isinstance(t, TensorType)
            made: Any = value if t.rank == 1 else self.emit("Reshape", value, np.array([-1]))
            if t.dtype != "int64":
                made = self.emit("Cast", made, to=self.number_of("int64"))
            self.sizes_made[key] = made
        return self.sizes_made[key]

    def schema(self, op: str) -> Any:
        """ONNX's definition of an operator: see Writer."""
        raise NotImplementedError

    def _computed(self, e: Expr) -> str:
        made: Any = None
        match e:
            case ir.FloorDiv(a, b):  # ONNX divides toward zero
                x, y = self.size(a), self.size(b)
                exact = self.emit("Sub", x, self.emit("Mod", x, y))
                made = self.emit("Div", exact, y)
            case ir.TruncMod(a, b):
                made = self.emit("Mod", self.size(a), self.size(b), fmod=1)
            case ir.NE(a, b):
                made = self.emit("Not", self.emit("Equal", self.size(a), self.size(b)))
            case ir.Not(a):
                made = self.emit("Not", self.size(a))
            case ir.Binary(a, b) if type(e) in _ARITHMETIC:
                made = self.emit(_ARITHMETIC[type(e)], self.size(a), self.size(b))
            case ir.Select(c, a, b):
                made = self.emit("Where", *[self.size(x) for x in (c, a, b)])
            case ir.Cast(t, a):
                made = self.emit("Cast", self.size(a), to=self.number_of(t))
            case ir.Call(_, op, args) if op in _FUNCTIONS:
                made = self.emit(_FUNCTIONS[op], *[self.size(a) for a in args])
        if made is None:
            raise Unsupported(f"the size {e}, which no operand's shape tells")
        return made  # type: ignore[no-any-return]

    def number_of(self, dtype: str) -> int:
        """ONNX's number for an element type: see Writer."""
        raise NotImplementedError

    def ints(self, items: Sequence[int | Expr]) -> Any:
        """A vector of int64 that holds numbers and sizes: an array, or a name."""
        plain = [e.value if isinstance(e, IntImm) else e for e in items]
        if all(isinstance(e, int) for e in plain):
            return np.array(plain, np.int64)
        key = ("ints", *plain)
        if key not in self.sizes_made:
            parts = [self.size(e) for e in plain]
            whole = self._vector(plain)
            if whole is None:
                whole = parts[0] if len(parts) == 1 else self.emit("Concat", *parts, axis=0)
            self.sizes_made[key] = whole
        return self.sizes_made[key]

    def _vector(self, items: Sequence[Any]) -> Any:
        """The vector of numbers that some sizes are, where they are all of it in order."""
        found = [self.sources.get(e) if isinstance(e, Expr) else None for e in items]
        value = found[0][0] if found[0] is not None else None
        t = None if value is None else value.type
        if not isinstance(t, TensorType) or t.elements() != len(items):
            return None
        fits = all(f == (value, n, True) for n, f in enumerate(found))
        return self.numbers(value) if fits and value is not None else None

    def scalar_size(self, e: int | Expr) -> Any:
        """A size without dimensions."""
        if isinstance(e, int | IntImm):
            return np.array(e if isinstance(e, int) else e.value, np.int64)
        return self.emit("Reshape", self.size(e), np.array([], np.int64))


def _tells_sizes(v: RelaxExpr) -> bool:
    """Whether a value stands for a size only, in the shape of its type."""
    if isinstance(v, TupleGetItem):
        v = v.value
    return isinstance(v, Call) and isinstance(v.op, HostOp)
