"""Python's operators on expressions, and what `==` means on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar
from weakref import WeakSet

from . import dtype as dt
from .node import Node, postorder

if TYPE_CHECKING:
    from .expr import Expr

Result = TypeVar("Result")

INDICES: WeakSet[Node] = WeakSet()
"""The variables that stand for all indices of a dimension, while a tensor expression is written."""


class Arithmetic(Generic[Result]):
    """Python's operators but `==`; `apply` of the class carries them out."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def dtype(self) -> str:
            """The type of the value."""

        @staticmethod
        def apply(op: str, a: Any, b: Any) -> Result:
            """The operation of this name: of a node class or a bitwise intrinsic."""

    def __add__(self, other: Any) -> Result:
        return self.apply("Add", self, other)

    def __radd__(self, other: Any) -> Result:
        return self.apply("Add", other, self)

    def __sub__(self, other: Any) -> Result:
        return self.apply("Sub", self, other)

    def __rsub__(self, other: Any) -> Result:
        return self.apply("Sub", other, self)

    def __mul__(self, other: Any) -> Result:
        return self.apply("Mul", self, other)

    def __rmul__(self, other: Any) -> Result:
        return self.apply("Mul", other, self)

    def __truediv__(self, other: Any) -> Result:
        return self.apply("Div", self, other)

    def __rtruediv__(self, other: Any) -> Result:
        return self.apply("Div", other, self)

    def __floordiv__(self, other: Any) -> Result:
        return self.apply("FloorDiv", self, other)

    def __rfloordiv__(self, other: Any) -> Result:
        return self.apply("FloorDiv", other, self)

    def __mod__(self, other: Any) -> Result:
        return self.apply("FloorMod", self, other)

    def __rmod__(self, other: Any) -> Result:
        return self.apply("FloorMod", other, self)

    def __neg__(self) -> Result:
        return self.apply("Sub", 0, self)

    def __lt__(self, other: Any) -> Result:
        return self.apply("LT", self, other)

    def __le__(self, other: Any) -> Result:
        return self.apply("LE", self, other)

    def __gt__(self, other: Any) -> Result:
        return self.apply("GT", self, other)

    def __ge__(self, other: Any) -> Result:
        return self.apply("GE", self, other)

    def __and__(self, other: Any) -> Result:
        return self.apply("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Result:
        return self.apply("bitwise_and", other, self)

    def __or__(self, other: Any) -> Result:
        return self.apply("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Result:
        return self.apply("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Result:
        return self.apply("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Result:
        return self.apply("bitwise_xor", other, self)

    def __lshift__(self, other: Any) -> Result:
        return self.apply("shift_left", self, other)

    def __rshift__(self, other: Any) -> Result:
        return self.apply("shift_right", self, other)

    def __invert__(self) -> Result:
        ones = -1 if dt.is_signed(self.dtype) else dt.limits(self.dtype)[1]
        return self.apply("bitwise_xor", self, ones)


class Operators(Arithmetic["Expr"]):
    """All operators; `==` and `!=` give an `Equality`."""

    __slots__ = ()

    constant: ClassVar[bool] = False
    """Whether the value is known and stands in a field `value`."""

    def __eq__(self, other: object) -> Any:
        return Equality("EQ", self, other) if _comparable(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return Equality("NE", self, other) if _comparable(other) else NotImplemented

    __hash__ = object.__hash__


class Equality(Operators):
    """What `a == b` and `a != b` give: a comparison not made yet.

    Where an expression is expected it becomes one (`as_expr`, which `convert` calls). Where Python
    asks for a truth value it is that of "the same object", as dictionaries and comparisons of
    shapes need; a constant and a number are compared by value. To ask whether an index of a
    tensor expression equals a number is an error: it does at some points and not at others.
    """

    __slots__ = ("a", "b", "op")

    def __init__(self, op: str, a: Any, b: Any) -> None:
        """op: "EQ" or "NE"."""
        self.op, self.a, self.b = op, a, b

    def as_expr(self) -> Expr:
        """The comparison as an expression."""
        made: Expr = self.a.apply(self.op, self.a, self.b)
        return made

    @property
    def dtype(self) -> str:
        """The type of the comparison's value: bool, with the lanes of the operands."""
        return self.as_expr().dtype

    @staticmethod
    def apply(op: str, a: Any, b: Any) -> Expr:
        """An operation with a comparison as an operand."""
        x, y = (v.as_expr() if isinstance(v, Equality) else v for v in (a, b))
        made: Expr = (x if isinstance(x, Operators) else y).apply(op, x, y)
        return made

    def __repr__(self) -> str:
        return repr(self.as_expr())

    def astype(self, dtype: str) -> Expr:
        """The truth value as a number of an element type."""
        return self.as_expr().astype(dtype)

    def __bool__(self) -> bool:
        same = self.a is self.b
        if not same and isinstance(self.b, int | float):
            if not self.a.constant and any(n in INDICES for n in postorder(self.a)):
                raise TypeError(unknown(self.a))
            same = self.a.constant and bool(self.a.value == self.b)
        return same == (self.op == "EQ")


def _comparable(other: object) -> bool:
    return isinstance(other, Operators | int | float) or hasattr(other, "as_expr")


def unknown(e: object) -> str:
    """The message for a condition of Python on something that is not known at compile time."""
    return (
        f"the value of {e} is not known here; use if_then_else, all_of, any_of "
        "instead of Python's if, and, or"
    )
