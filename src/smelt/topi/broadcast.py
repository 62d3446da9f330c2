"""Operators on two or three operands, element by element, with numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from smelt.ir import build
from smelt.ir import dtype as dt
from smelt.ir.build import call, select
from smelt.ir.expr import NE, And, Expr, Not, Or, cast
from smelt.te.tensor import Tensor

from .common import at, broadcast_shapes, require, same_dtype, tensor
from .reference import Array, divided, rounded
from .registry import op


def _zip(name: str, a: Tensor, b: Tensor, fn: Callable[[Expr, Expr], Expr]) -> Tensor:
    same_dtype(a=a, b=b)
    shape = broadcast_shapes(a=a.shape, b=b.shape)
    return tensor(shape, lambda *i: fn(at(a, shape, i), at(b, shape, i)), name)


def _numbers(name: str, a: Tensor, b: Tensor, fn: Callable[[Expr, Expr], Expr]) -> Tensor:
    for operand, x in (("a", a), ("b", b)):
        require(x.dtype != "bool", f"{operand} is bool; the operator is defined for numbers")
    return _zip(name, a, b, fn)


def _bools(name: str, a: Tensor, b: Tensor, fn: Callable[[Expr, Expr], Expr]) -> Tensor:
    for operand, x in (("a", a), ("b", b)):
        require(x.dtype == "bool", f"{operand} is {x.dtype}; it has to be bool")
    return _zip(name, a, b, fn)


def _ordered(
    name: str, a: Tensor, b: Tensor, fn: Callable[[Expr, Expr], Expr],
    logic: Callable[[Expr, Expr], Expr],
) -> Tensor:  # fmt: skip
    """`fn` of numbers; `logic` of truth values, among which false is the smaller one."""
    return _zip(name, a, b, logic if a.dtype == "bool" else fn)


def _bits(name: str, a: Tensor, b: Tensor, logic: Callable[[Expr, Expr], Expr]) -> Tensor:
    """The intrinsic `name` of integers; a truth value is one bit."""
    return _zip(name, a, b, logic) if a.dtype == "bool" else _integers(name, a, b, name)


def _integers(name: str, a: Tensor, b: Tensor, intrinsic: str) -> Tensor:
    for operand, x in (("a", a), ("b", b)):
        require(dt.is_int(x.dtype), f"{operand} is {x.dtype}; it has to be an integer")
    return _zip(name, a, b, lambda x, y: call(intrinsic, x, y))


# ----------------------------------------------------------------------------------- arithmetic


@op(commutative=True, numpy=rounded(np.add))
def add(a: Tensor, b: Tensor) -> Tensor:
    """a + b."""
    return _numbers("add", a, b, lambda x, y: x + y)


@op(numpy=rounded(np.subtract))
def subtract(a: Tensor, b: Tensor) -> Tensor:
    """a - b."""
    return _numbers("subtract", a, b, lambda x, y: x - y)


@op(commutative=True, numpy=rounded(np.multiply))
def multiply(a: Tensor, b: Tensor) -> Tensor:
    """a * b."""
    return _numbers("multiply", a, b, lambda x, y: x * y)


def _unless_zero(fn: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    """Division by an integer 0 gives 0, as in numpy; the machine would trap."""

    def guarded(x: Expr, y: Expr) -> Expr:
        if dt.is_float(x.dtype):
            return fn(x, y)
        zero = build.equal(y, 0)
        return select(zero, 0, fn(x, select(zero, 1, y)))

    return guarded


@op(numpy=rounded(divided))
def divide(a: Tensor, b: Tensor) -> Tensor:
    """a / b; the quotient of integers is rounded toward zero."""
    return _numbers(
        "divide", a, b,
        _unless_zero(lambda x, y: x / y if dt.is_float(x.dtype) else build.truncdiv(x, y)),
    )  # fmt: skip


def _float_mod(x: Expr, y: Expr) -> Expr:
    r = call("fmod", x, y)
    other_sign = build.not_equal(r < 0, y < 0)
    return select(And(build.not_equal(r, 0), other_sign), r + y, r)


@op(numpy=rounded(np.mod))
def mod(a: Tensor, b: Tensor) -> Tensor:
    """The remainder of the quotient rounded down: it has the sign of b, as in Python."""
    return _numbers(
        "mod", a, b,
        _unless_zero(lambda x, y: _float_mod(x, y) if dt.is_float(x.dtype) else x % y),
    )  # fmt: skip


@op(numpy=rounded(np.fmod))
def fmod(a: Tensor, b: Tensor) -> Tensor:
    """The remainder of the quotient rounded toward zero: it has the sign of a, as in C."""
    return _numbers(
        "fmod", a, b,
        _unless_zero(
            lambda x, y: call("fmod", x, y) if dt.is_float(x.dtype) else build.truncmod(x, y)
        ),
    )  # fmt: skip


def _float_floor_divide(x: Expr, y: Expr) -> Expr:
    """floor(x / y) from the exact remainder, so that 1.0 // 0.1 is 9 as in Python."""
    quotient = (x - _float_mod(x, y)) / y
    down = call("floor", quotient)
    return select(quotient - down > 0.5, down + 1.0, down)


@op(numpy=rounded(np.floor_divide))
def floor_divide(a: Tensor, b: Tensor) -> Tensor:
    """a / b rounded down."""
    return _numbers(
        "floor_divide", a, b,
        _unless_zero(lambda x, y: _float_floor_divide(x, y) if dt.is_float(x.dtype) else x // y),
    )  # fmt: skip


@op
def power(a: Tensor, b: Tensor) -> Tensor:
    """a to the power b; integers exactly up to 2 ** 53."""

    def body(x: Expr, y: Expr) -> Expr:
        if dt.is_float(x.dtype):
            return call("pow", x, y)
        return cast(x.dtype, call("pow", cast("float64", x), cast("float64", y)))

    return _numbers("power", a, b, body)


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu":
        return np.trunc(np.power(a.astype(np.float64), b.astype(np.float64)))
    return np.power(a, b)


power.numpy(rounded(_power))


@op(commutative=True, chooses=True, numpy=rounded(np.minimum))
def minimum(a: Tensor, b: Tensor) -> Tensor:
    """The smaller of both; a NaN wins."""
    return _ordered("minimum", a, b, build.minimum, And)


@op(commutative=True, chooses=True, numpy=rounded(np.maximum))
def maximum(a: Tensor, b: Tensor) -> Tensor:
    """The larger of both; a NaN wins."""
    return _ordered("maximum", a, b, build.maximum, Or)


# ---------------------------------------------------------------------------------- comparisons


@op(commutative=True, numpy=np.equal)
def equal(a: Tensor, b: Tensor) -> Tensor:
    """Whether a == b."""
    return _zip("equal", a, b, build.equal)


@op(commutative=True, numpy=np.not_equal)
def not_equal(a: Tensor, b: Tensor) -> Tensor:
    """Whether a != b."""
    return _zip("not_equal", a, b, build.not_equal)


@op(numpy=np.less)
def less(a: Tensor, b: Tensor) -> Tensor:
    """Whether a < b."""
    return _ordered("less", a, b, lambda x, y: x < y, lambda x, y: And(Not(x), y))


@op(numpy=np.less_equal)
def less_equal(a: Tensor, b: Tensor) -> Tensor:
    """Whether a <= b."""
    return _ordered("less_equal", a, b, lambda x, y: x <= y, lambda x, y: Or(Not(x), y))


@op(numpy=np.greater)
def greater(a: Tensor, b: Tensor) -> Tensor:
    """Whether a > b."""
    return _ordered("greater", a, b, lambda x, y: x > y, lambda x, y: And(x, Not(y)))


@op(numpy=np.greater_equal)
def greater_equal(a: Tensor, b: Tensor) -> Tensor:
    """Whether a >= b."""
    return _ordered("greater_equal", a, b, lambda x, y: x >= y, lambda x, y: Or(x, Not(y)))


# ---------------------------------------------------------------------------------------- logic


@op(commutative=True, numpy=np.logical_and)
def logical_and(a: Tensor, b: Tensor) -> Tensor:
    """Whether both are true."""
    return _bools("logical_and", a, b, And)


@op(commutative=True, numpy=np.logical_or)
def logical_or(a: Tensor, b: Tensor) -> Tensor:
    """Whether one is true."""
    return _bools("logical_or", a, b, Or)


@op(commutative=True, numpy=np.logical_xor)
def logical_xor(a: Tensor, b: Tensor) -> Tensor:
    """Whether exactly one is true."""
    return _bools("logical_xor", a, b, NE)


@op(commutative=True, numpy=rounded(np.bitwise_and))
def bitwise_and(a: Tensor, b: Tensor) -> Tensor:
    """The bits set in both."""
    return _bits("bitwise_and", a, b, And)


@op(commutative=True, numpy=rounded(np.bitwise_or))
def bitwise_or(a: Tensor, b: Tensor) -> Tensor:
    """The bits set in one or both."""
    return _bits("bitwise_or", a, b, Or)


@op(commutative=True, numpy=rounded(np.bitwise_xor))
def bitwise_xor(a: Tensor, b: Tensor) -> Tensor:
    """The bits set in exactly one."""
    return _bits("bitwise_xor", a, b, NE)


@op(numpy=rounded(np.left_shift))
def left_shift(a: Tensor, b: Tensor) -> Tensor:
    """The bits of a moved up by b places."""
    return _integers("left_shift", a, b, "shift_left")


@op(numpy=rounded(np.right_shift))
def right_shift(a: Tensor, b: Tensor) -> Tensor:
    """The bits of a moved down by b places; the sign stays."""
    return _integers("right_shift", a, b, "shift_right")


@op(numpy=lambda c, a, b: np.where(c, a, b))
def where(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a where c, b elsewhere."""
    require(c.dtype == "bool", f"c is {c.dtype}; it has to be bool")
    same_dtype(a=a, b=b)
    shape = broadcast_shapes(c=c.shape, a=a.shape, b=b.shape)
    return tensor(
        shape, lambda *i: select(at(c, shape, i), at(a, shape, i), at(b, shape, i)), "where"
    )
