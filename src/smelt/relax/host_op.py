"""Operators whose results' sizes only the data tell: the virtual machine runs them in numpy.

They have no tensor expression, so no other form of executable takes them. Every call gets sizes
of its own from type inference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.expr import INDEX, Var
from smelt.ir.types import TensorType, TupleType, Type
from smelt.runtime.vm_host import HOST_OPS
from smelt.topi.registry import Attrs, Op

__all__ = ["HostOp", "run_time_size"]


def run_time_size(name: str = "any") -> Var:
    """A size that only the run tells."""
    return Var(name, INDEX)


class HostOp(Op):
    """An operator of smelt.runtime.vm_host.

    infer_type  gives the result's type from the operands' types and the attributes
    host        the name in HOST_OPS
    dialect     whose words it belongs to, or None
    """

    def __init__(
        self,
        name: str,
        infer_type: Callable[..., Type],
        host: str | None = None,
        dialect: Any = None,
    ) -> None:
        """infer_type's signature tells the operands and the attributes, as an operator's body."""
        super().__init__(infer_type, name, "opaque")
        self.infer_type, self.host, self.dialect = infer_type, host or name, dialect
        if self.host not in HOST_OPS:
            raise ValueError(f"the virtual machine has no operator {self.host!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(f"the operator {self.name} runs in the virtual machine only")

    def instance(self, types: Sequence[Any], attrs: Attrs) -> Any:
        """There is none: the operator has no tensor expression."""
        raise Unsupported(
            f"{self.name}: the size of the result is known only when the program runs; "
            'only the virtual machine runs it: relay.vm.compile, or create_executor("vm")'
        )

    def infer(self, types: Sequence[Any], attrs: Attrs) -> tuple[TensorType, ...]:
        """The types of the results."""
        found = self.result_type(types, attrs)
        return found.items if isinstance(found, TupleType) else (found,)  # type: ignore[return-value]

    def result_type(self, types: Sequence[Type | None], attrs: Attrs) -> Type:
        """The type of a call, with new sizes."""
        self._check_count(types)  # type: ignore[arg-type]
        try:
            return self.infer_type(*types, **attrs)
        except TypeMismatch as e:
            raise TypeMismatch(f"{self.name}: {e}") from e

    def evaluate(self, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The result in numpy."""
        return HOST_OPS[self.host](*args, **attrs)
