"""What a converter of a node is given: calls under the node's name, and errors that name it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import ImportFailure, SmeltError, TypeMismatch, Unsupported
from smelt.ir.expr import Expr
from smelt.ir.limits import KNOWN, worth_knowing
from smelt.ir.types import TensorType, TupleType, tensor_type
from smelt.relax import nodes as relax
from smelt.relax.host_ops import call_with_sizes, define_sizes, host_call, run_size, tellers
from smelt.runtime.vm_strings import MOVES

from . import evaluate
from .graph import ModelNode
from .problems import NeedsValues
from .values import Operand, Value, product
from .walk import Environment, check_size

Arg = Value | float | None
"""An operand: a number has the type of the last value beside it; None is one left out."""


class Build:
    """One node being converted."""

    def __init__(self, step: ModelNode, walk: Environment) -> None:
        """`walk` is the walk over the model, in the scope of the node."""
        self.step, self.walk = step, walk

    @property
    def opset(self) -> int:
        """The version of the node's set of operators; 0 where it has none."""
        return self.walk.opsets.get(self.step.domain, 0)

    def results(self, fn: Callable[..., Any], *operands: Any, **attrs: Any) -> Sequence[Operand]:
        """What a converter makes of the node. Raises ImportFailure where it has no result."""
        try:
            made = fn(self, *operands, **attrs)
        except (ArithmeticError, ValueError, IndexError, MemoryError) as e:
            text = f"no result from these operands and attributes: {type(e).__name__}: {e}"
            raise ImportFailure(f"{self.where}: {text}") from e
        results = made if isinstance(made, tuple) else (made,)
        for v in results:
            if isinstance(v, Value):
                check_size(self.where, "a result", v.shape, v.dtype)
        return results

    def call(self, op: str, *operands: Arg, **attrs: Any) -> Value:
        """An operator with one result applied to values."""
        made = self._made(op, operands, attrs)
        if not isinstance(made.type, TensorType):
            raise TypeMismatch(f"{self.where}: {op} has several results")
        return Value(made.type, made)

    def compute(self, op: str, *operands: Value) -> Value:
        """What is known of an operator's result, where all its operands are; else a call."""
        return evaluate.either(
            lambda: evaluate.elementwise(op, *operands), lambda: self.call(op, *operands)
        )

    def composed(self, fn: Callable[..., relax.RelaxExpr], *operands: Any, **attrs: Any) -> Value:
        """What a function of graph values makes of values (relax/compose); errors name the node."""
        try:
            made = fn(*[v.expr if isinstance(v, Value) else v for v in operands], **attrs)
        except SmeltError as e:
            raise type(e)(f"{self.where}: {e}") from e
        return Value(made.type, made)  # type: ignore[arg-type]

    def calls(self, op: str, *operands: Arg, **attrs: Any) -> tuple[Value, ...]:
        """An operator with several results applied to values."""
        return self.items(self._made(op, operands, attrs))

    def items(self, made: relax.RelaxExpr) -> tuple[Value, ...]:
        """A tensor, or the tensors of a tuple, as values; they may tell sizes of the run."""
        items = [made]
        if isinstance(made.type, TupleType):
            items = [relax.TupleGetItem(made, n) for n in range(len(made.type.items))]
        return tuple([Value(i.type, define_sizes(i)) for i in items])  # type: ignore[arg-type]

    def _made(self, op: str, given: Sequence[Arg], attrs: Mapping[str, Any]) -> relax.RelaxExpr:
        dtype = next((v.dtype for v in reversed(given) if isinstance(v, Value)), None)
        operands = [
            v if v is None or isinstance(v, Value) else self.constant(v, dtype) for v in given
        ]
        if any(v is not None and v.dtype == "string" for v in operands):
            return self._texts(op, operands, attrs)
        exprs = [None if v is None else v.expr for v in operands]
        try:
            return call_with_sizes(op, *exprs, name=self.step.label, **attrs)
        except SmeltError as e:
            raise type(e)(f"{self.where}: {e}") from e

    def shaped(self, v: Value) -> Value:
        """A stand-in for texts, where only the shape is of interest."""
        return Value(t := TensorType(v.type.shape, "int64"), relax.Var("shape", t))

    def _texts(
        self, op: str, operands: Sequence[Value | None], attrs: Mapping[str, Any]
    ) -> relax.RelaxExpr:
        """An operator that moves texts; the shapes are those of moving numbers."""
        if op not in MOVES and op != "equal":
            self.unsupported(f"{op} of texts", ", ".join(["equal", *MOVES]))
        given = [v for v in operands if v is not None]
        shapes = [self.shaped(v).expr if v.dtype == "string" else v.expr for v in given]
        t = call_with_sizes(op, *shapes, **attrs).type
        assert isinstance(t, TensorType)
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in attrs.items()}
        if any(
            isinstance(e, Expr) for v in plain.values() for e in (v if isinstance(v, list) else [v])
        ):
            self.unsupported(f"{op} of texts with symbolic sizes", "numbers")
        if op == "equal":
            return self.host("strings.equal", given, "bool", t.shape).expr
        return self.host("strings.move", given, "string", t.shape, move=op, attrs=plain).expr

    def constant(self, array: np.ndarray | float, dtype: str | None = None) -> Value:
        """A value from numbers."""
        data = np.asarray(array, None if dtype is None else dt.to_numpy(dtype))
        return Value.of_array(data)

    # ------------------------------------------------------------------------- run-time sizes

    def host(
        self, op: str, operands: Sequence[Value], dtype: str, shape: Sequence[Any], **attrs: Any
    ) -> Value:
        """An operator that the virtual machine runs in numpy.

        shape  the result's extents; None is one known only at run time
        """
        self.walk.decide()
        dims = [self.fresh() if d is None else d for d in shape]
        t = tensor_type(dims, dtype)
        made = host_call(op, *[v.expr for v in operands], type=t, name=self.step.label, **attrs)
        return Value(t, define_sizes(made))

    def fresh(self) -> Expr:
        """A size known only at run time."""
        return run_size(self.step.label)

    def sizes(
        self, value: Value, what: str, wanted: Value | None = None, note: str = ""
    ) -> tuple[Any, ...]:
        """Extents, 0 or more, from an operand: numbers, or expressions of sizes.

        An operand that is computed gives sizes known only at run time.

        wanted  what the extents have to be, or without dimensions: what their product has to be
        note    what else a message about them says
        """
        if value.known is not None:
            return self.dims(value, what)
        if value.rank > 1 or not isinstance(count := product(value.shape), int):
            return self.needs(value, what)
        self.walk.decide()
        extents = [self.fresh() for _ in range(count)]
        where = f"{self.where}: the operand {what!r}{note}"
        fits = None if wanted is None else wanted.expr
        for told in tellers(value.expr, extents, where, fits, self.step.label):
            define_sizes(told)
        return tuple(extents)

    def shrink(self, padded: Value, count: Value, axis: int = 0) -> Value:
        """The first elements of a padded result, as many as a scalar says."""
        (n,) = self.sizes(count, "count")
        ends = {"axes": (axis,), "begin": (0,), "end": (n,), "strides": (1,)}
        return self.call("strided_slice", padded, **ends)

    # ---------------------------------------------------------------------- compile-time operands

    def needs(self, value: Value, what: str) -> NoReturn:
        """Raise the error of an operand that has to be known."""
        inputs = self.walk.sources(value.expr)
        text = (
            f"{self.where}: the operand {what!r} depends on the values of the inputs\n"
            "  supported: constants and values computed from shapes"
        )
        if inputs:
            raise NeedsValues(f"{text}; or values={{{inputs[0]!r}: ...}}", inputs)
        raise Unsupported(text)

    def extent(self, x: Value, axis: int, what: str) -> int:
        """An extent that has to be a number: it tells how many values there are."""
        found = x.shape[axis]
        if isinstance(found, int):
            return found
        text = f"{self.where}: {what} along dimension {axis} of symbolic size {found}"
        inputs = self.walk.sources(x.expr)
        if inputs:
            raise NeedsValues(f"{text}\n  supported: known sizes", (), inputs)
        raise Unsupported(f"{text}\n  supported: known sizes")

    def dims(self, value: Value, what: str) -> tuple[Any, ...]:
        """The elements of an operand: numbers or expressions of sizes.

        Integers that are computed count as `sizes`; other operands have to be known.
        """
        if value.known is None:
            return self.needs(value, what) if dt.is_float(value.dtype) else self.sizes(value, what)
        return tuple(value.elements().ravel().tolist())

    def elements(self, value: Value, what: str) -> tuple[Any, ...]:
        """The elements of an operand that has to be known: numbers or expressions of sizes."""
        return self.needs(value, what) if value.known is None else self.dims(value, what)

    def ints(self, value: Value, what: str) -> tuple[int, ...]:
        """The elements of an operand that has to be known as numbers."""
        return tuple([int(self._plain(e, what)) for e in self.elements(value, what)])

    def _plain(self, element: Any, what: str) -> Any:
        if isinstance(element, Expr):
            self.unsupported(f"the operand {what!r} depends on symbolic sizes", "constants")
        return element

    def scalar(self, value: Value, what: str) -> Any:
        """The only element of an operand that has to be known."""
        items = self.elements(value, what)
        if len(items) != 1:
            self.malformed(f"the operand {what!r} has {len(items)} elements, one expected")
        return items[0]

    def number(self, value: Value, what: str) -> Any:
        """The only element of an operand, which has to be a known number."""
        return self._plain(self.scalar(value, what), what)

    def axis(self, axis: int, rank: int) -> int:
        """A dimension counted from the front."""
        if not -rank <= axis < rank:
            self.malformed(f"axis={axis} is no dimension of a tensor with {rank} dimensions")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> tuple[int, ...]:
        """Dimensions counted from the front."""
        return tuple([self.axis(int(a), rank) for a in axes])

    # -------------------------------------------------------------------------------------- errors

    def extents(self, dims: Sequence[Any], what: str) -> None:
        """ImportFailure where an extent that is known lies below zero."""
        for k, d in enumerate(dims):
            if isinstance(d, int) and d < 0:
                self.malformed(f"{what} has the extent {d} in dimension {k}; 0 or more is legal")

    def affordable(self, shape: Sequence[int], what: str) -> None:
        """Unsupported where an array that only the importer can make would be large."""
        if not worth_knowing(8 * math.prod(shape)):
            text = f"{what} of the shape ({', '.join(map(str, shape))})"
            self.unsupported(text, f"up to {KNOWN // 8} elements")

    @property
    def where(self) -> str:
        """Model, node and operator version, for messages."""
        return self.walk.where(self.step)

    def one_of(self, attribute: str, value: object, supported: Sequence[object]) -> None:
        """Unsupported unless an attribute has one of these values."""
        if value not in supported:
            self.unsupported(f"{attribute}={value!r}", ", ".join(map(str, supported)))

    def unsupported(self, what: str, supported: str) -> NoReturn:
        """Unsupported, with what would be supported."""
        raise Unsupported(f"{self.where}: {what}\n  supported: {supported}")

    def malformed(self, what: str) -> NoReturn:
        """ImportFailure: the node breaks its operator's definition."""
        raise ImportFailure(f"{self.where}: {what}")
