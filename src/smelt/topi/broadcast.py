"""Operators on two or three operands, element by element, with numpy's broadcasting."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

import numpy as np

from smelt.ir import build
from smelt.ir import dtype as dt
from smelt.ir.build import all_of, call, select
from smelt.ir.expr import NE, And, Expr, Not, Or, cast, const
from smelt.te.tensor import Tensor

from .common import (
    at,
    broadcast_shapes,
    dtype_only,
    integers_only,
    numbers_only,
    same_dtype,
    tensor,
)
from .reference import Array, divided, rounded
from .registry import Meaning, Op, op

Function = Callable[[Expr, Expr], Expr]
"""What is made of an element of each operand."""


def _zipped(
    name: str, what: str, meaning: Meaning, fn: Function, *, commutative: bool = False,
    chooses: bool = False, check: Callable[..., None] | None = None,
    logic: Function | None = None,
) -> Op:  # fmt: skip
    """An operator on two operands of one type.

    what   its docstring
    check  of the operands, by name, before their types are compared
    logic  in place of `fn` for truth values, among which false is the smaller one
    """

    def body(a: Tensor, b: Tensor) -> Tensor:
        if check is not None:
            check(a=a, b=b)
        same_dtype(a=a, b=b)
        shape = broadcast_shapes(a=a.shape, b=b.shape)
        one = fn if logic is None or a.dtype != "bool" else logic
        return tensor(shape, lambda *i: one(at(a, shape, i), at(b, shape, i)), name)

    body.__doc__ = what
    return op(name=name, commutative=commutative, chooses=chooses, numpy=meaning)(body)


def _bits(a: Tensor, b: Tensor) -> None:
    """Integers or truth values, of which each is one bit."""
    if a.dtype != "bool":
        integers_only(a=a, b=b)


# ----------------------------------------------------------------------------------- arithmetic


def _arithmetic(
    name: str, what: str, meaning: Meaning, fn: Function, *, commutative: bool = False
) -> Op:
    return _zipped(name, what, rounded(meaning), fn, commutative=commutative, check=numbers_only)


def _float_mod(x: Expr, y: Expr) -> Expr:
    r = call("fmod", x, y)
    other_sign = build.not_equal(r < 0, y < 0)
    return select(And(build.not_equal(r, 0), other_sign), r + y, r)


def _float_floor_divide(x: Expr, y: Expr) -> Expr:
    """floor(x / y) from the exact remainder, so that 1.0 // 0.1 is 9 as in Python."""
    quotient = (x - _float_mod(x, y)) / y
    down = call("floor", quotient)
    return select(quotient - down > 0.5, down + 1.0, down)


def _division(floats: Function, integers: Function) -> Function:
    """Division by an integer 0 gives 0, as in numpy; the machine would trap."""

    def guarded(x: Expr, y: Expr) -> Expr:
        if dt.is_float(x.dtype):
            return floats(x, y)
        zero = build.equal(y, 0)
        return select(zero, 0, integers(x, select(zero, 1, y)))

    return guarded


def _pow(x: Expr, y: Expr) -> Expr:
    if dt.is_float(x.dtype):
        return call("pow", x, y)
    return cast(x.dtype, call("pow", cast("float64", x), cast("float64", y)))


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu":
        return np.trunc(np.power(a.astype(np.float64), b.astype(np.float64)))
    return np.power(a, b)


add = _arithmetic("add", "a + b.", np.add, operator.add, commutative=True)
subtract = _arithmetic("subtract", "a - b.", np.subtract, operator.sub)
multiply = _arithmetic("multiply", "a * b.", np.multiply, operator.mul, commutative=True)
divide = _arithmetic(
    "divide", "a / b; the quotient of integers is rounded toward zero.", divided,
    _division(operator.truediv, build.truncdiv),
)  # fmt: skip
mod = _arithmetic(
    "mod", "The remainder of the quotient rounded down: it has the sign of b, as in Python.",
    np.mod, _division(_float_mod, operator.mod),
)  # fmt: skip
fmod = _arithmetic(
    "fmod", "The remainder of the quotient rounded toward zero: it has the sign of a, as in C.",
    np.fmod, _division(functools.partial(call, "fmod"), build.truncmod),
)  # fmt: skip
floor_divide = _arithmetic(
    "floor_divide", "a / b rounded down.", np.floor_divide,
    _division(_float_floor_divide, operator.floordiv),
)  # fmt: skip
power = _arithmetic("power", "a to the power b; integers exactly up to 2 ** 53.", _power, _pow)
minimum = _zipped(
    "minimum", "The smaller of both; a NaN wins.", rounded(np.minimum), build.minimum,
    commutative=True, chooses=True, logic=And,
)  # fmt: skip
maximum = _zipped(
    "maximum", "The larger of both; a NaN wins.", rounded(np.maximum), build.maximum,
    commutative=True, chooses=True, logic=Or,
)  # fmt: skip

# ---------------------------------------------------------------------------------- comparisons

equal = _zipped("equal", "Whether a == b.", np.equal, build.equal, commutative=True)
not_equal = _zipped("not_equal", "Whether a != b.", np.not_equal, build.not_equal, commutative=True)
less = _zipped("less", "Whether a < b.", np.less, operator.lt, logic=lambda x, y: And(Not(x), y))
less_equal = _zipped(
    "less_equal", "Whether a <= b.", np.less_equal, operator.le, logic=lambda x, y: Or(Not(x), y)
)
greater = _zipped(
    "greater", "Whether a > b.", np.greater, operator.gt, logic=lambda x, y: And(x, Not(y))
)
greater_equal = _zipped(
    "greater_equal", "Whether a >= b.", np.greater_equal, operator.ge,
    logic=lambda x, y: Or(x, Not(y)),
)  # fmt: skip

# ---------------------------------------------------------------------------------------- logic


def _logical(name: str, what: str, meaning: Meaning, fn: Function) -> Op:
    bools = functools.partial(dtype_only, "bool")
    return _zipped(name, what, meaning, fn, commutative=True, check=bools)


def _bitwise(name: str, what: str, meaning: Meaning, logic: Function) -> Op:
    """The intrinsic `name` of integers."""
    intrinsic = functools.partial(call, name)
    return _zipped(name, what, rounded(meaning), intrinsic, commutative=True, check=_bits,
                   logic=logic)  # fmt: skip


def _shift(name: str, what: str, meaning: Meaning, intrinsic: str) -> Op:
    return _zipped(name, what, rounded(meaning), functools.partial(_shifted, intrinsic),
                   check=integers_only)  # fmt: skip


def _shifted(intrinsic: str, a: Expr, b: Expr) -> Expr:
    """As numpy counts: all bits leave where b is negative or at least the width; processors and
    LLVM have no common answer to that."""
    last = dt.bits(a.dtype) - 1
    inside = all_of([b >= 0, b <= last] if dt.is_signed(a.dtype) else [b <= last])
    if intrinsic == "shift_right" and dt.is_signed(a.dtype):
        return call(intrinsic, a, select(inside, b, last))
    return select(inside, call(intrinsic, a, call("bitwise_and", b, const(last, b.dtype))), 0)


logical_and = _logical("logical_and", "Whether both are true.", np.logical_and, And)
logical_or = _logical("logical_or", "Whether one is true.", np.logical_or, Or)
logical_xor = _logical("logical_xor", "Whether exactly one is true.", np.logical_xor, NE)
bitwise_and = _bitwise("bitwise_and", "The bits set in both.", np.bitwise_and, And)
bitwise_or = _bitwise("bitwise_or", "The bits set in one or both.", np.bitwise_or, Or)
bitwise_xor = _bitwise("bitwise_xor", "The bits set in exactly one.", np.bitwise_xor, NE)
left_shift = _shift(
    "left_shift",
    "The bits of a moved up by b places; none are left behind the width.",
    np.left_shift,
    "shift_left",
)
right_shift = _shift(
    "right_shift", "The bits of a moved down by b places; the sign fills.", np.right_shift,
    "shift_right",
)  # fmt: skip


@op(numpy=lambda c, a, b: np.where(c, a, b))
def where(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a where c, b elsewhere."""
    dtype_only("bool", c=c)
    same_dtype(a=a, b=b)
    shape = broadcast_shapes(c=c.shape, a=a.shape, b=b.shape)
    return tensor(
        shape, lambda *i: select(at(c, shape, i), at(a, shape, i), at(b, shape, i)), "where"
    )
