"""What a converter is given: calls under the node's name, and errors that name it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import ImportFailure, SmeltError, TypeMismatch, Unsupported
from smelt.ir.expr import Expr
from smelt.ir.types import TensorType, TupleType
from smelt.relax import nodes as relax

from .read import Graph, Step, dtype_of, version_of
from .values import Value

__all__ = ["Build"]

Branch = Callable[[Graph], "list[Value]"]


class Build:
    """One node being converted."""

    def __init__(self, model: str, step: Step, opset: int, branch: Branch) -> None:
        """`branch` imports a subgraph in the scope of the node."""
        self.model, self.step, self.opset, self.branch = model, step, opset, branch

    def call(self, op: str, *operands: Value | None, **attrs: Any) -> Value:
        """An operator with one result applied to values."""
        try:
            made = relax.call(
                op,
                *[None if v is None else v.expr for v in operands],
                name=self.step.label,
                **attrs,
            )
        except SmeltError as e:
            raise type(e)(f"{self.where}: {e}") from e
        if not isinstance(made.type, TensorType):
            raise TypeMismatch(f"{self.where}: {op} has several results")
        return Value(made.type, made)

    def calls(self, op: str, *operands: Value | None, **attrs: Any) -> tuple[Value, ...]:
        """An operator with several results applied to values."""
        made = relax.call(
            op, *[None if v is None else v.expr for v in operands], name=self.step.label, **attrs
        )
        assert isinstance(made.type, TupleType)
        items = [relax.TupleGetItem(made, i) for i in range(len(made.type.items))]
        return tuple([Value(i.type, i) for i in items])  # type: ignore[arg-type]

    def constant(self, array: np.ndarray | float, dtype: str | None = None) -> Value:
        """A value from numbers."""
        data = np.asarray(array, None if dtype is None else dt.to_numpy(dtype))
        return Value.of_array(data)

    # ---------------------------------------------------------------------- compile-time operands

    def dims(self, value: Value, what: str) -> tuple[Any, ...]:
        """The elements of an operand that has to be known: numbers or expressions of sizes."""
        if value.known is None:
            raise Unsupported(
                f"{self.where}: the operand {what!r} depends on the values of the inputs\n"
                "  supported: constants and values computed from shapes"
            )
        return tuple(value.elements().ravel().tolist())

    def ints(self, value: Value, what: str) -> tuple[int, ...]:
        """The elements of an operand that has to be known as numbers."""
        items = self.dims(value, what)
        if any(isinstance(e, Expr) for e in items):
            raise Unsupported(
                f"{self.where}: the operand {what!r} depends on symbolic sizes\n"
                "  supported: constants"
            )
        return tuple([int(e) for e in items])

    def scalar(self, value: Value, what: str) -> Any:
        """The only element of an operand that has to be known."""
        items = self.dims(value, what)
        if len(items) != 1:
            raise ImportFailure(
                f"{self.where}: the operand {what!r} has {len(items)} elements, one expected"
            )
        return items[0]

    def number(self, value: Value, what: str) -> Any:
        """The only element of an operand, which has to be a known number."""
        found = self.scalar(value, what)
        if isinstance(found, Expr):
            raise Unsupported(
                f"{self.where}: the operand {what!r} depends on symbolic sizes\n"
                "  supported: constants"
            )
        return found

    def axis(self, axis: int, rank: int) -> int:
        """A dimension counted from the front."""
        if not -rank <= axis < rank:
            raise ImportFailure(
                f"{self.where}: axis={axis} is no dimension of a tensor with {rank} dimensions"
            )
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> tuple[int, ...]:
        """Dimensions counted from the front."""
        return tuple([self.axis(int(a), rank) for a in axes])

    def dtype(self, element: int, attribute: str = "to") -> str:
        """The element type behind ONNX's number for it."""
        found = dtype_of(element)
        if found is None:
            self.unsupported(f"{attribute}={element}", ", ".join(dt.DTYPES))
        return found

    # -------------------------------------------------------------------------------------- errors

    @property
    def where(self) -> str:
        """Model, node and operator version, for messages."""
        return where(self.model, self.step, self.opset)

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


def where(model: str, step: Step, opset: int) -> str:
    """Model, node and operator version as they stand at the head of a message."""
    version = version_of(step.op, opset, step.domain)
    op = f"{step.domain}.{step.op}" if step.domain else step.op
    return f"{model}: node {step.label!r} ({op}{'' if version is None else f'-{version}'})"
