"""The functions of tensor programs on scalars, under the field's names.

Operands may be Python numbers; constants are folded as with Python's operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, any_of, call, maximum, minimum, select
from smelt.ir.build import ceildiv as ceildiv
from smelt.ir.build import if_then_else as if_then_else
from smelt.ir.build import truncdiv as truncdiv
from smelt.ir.build import truncmod as truncmod
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import Call, Expr, ExprLike, FloatImm, StringImm, const, convert, matched
from smelt.runtime.errors import closest

from .named_calls import call_llvm
from .nodes import address_of as address_of
from .script_ops import EXTERN, INTRINSICS

# -------------------------------------------------------------------------------- floats to floats


def _function(name: str, what: str) -> Callable[[ExprLike], Expr]:
    def apply(x: ExprLike) -> Expr:
        value = convert(x)
        if not dt.is_float(value.dtype):
            raise TypeMismatch(f"{name} takes a float, not {value.dtype}; convert it with astype")
        return call(name, value)

    return _named(apply, name, what)


def _named(apply: Callable[..., Any], name: str, what: str) -> Callable[..., Any]:
    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = what
    return apply


exp = _function("exp", "e to the power x.")
exp2 = _function("exp2", "2 to the power x.")
expm1 = _function("expm1", "exp(x) - 1, exact for small x.")
log = _function("log", "The natural logarithm.")
log2 = _function("log2", "The logarithm to the base 2.")
log10 = _function("log10", "The logarithm to the base 10.")
log1p = _function("log1p", "log(1 + x), exact for small x.")
sqrt = _function("sqrt", "The square root.")
rsqrt = _function("rsqrt", "1 / sqrt(x).")
tanh = _function("tanh", "The hyperbolic tangent.")
sigmoid = _function("sigmoid", "1 / (1 + exp(-x)).")
erf = _function("erf", "The error function.")
sin = _function("sin", "The sine of x in radians.")
cos = _function("cos", "The cosine of x in radians.")
tan = _function("tan", "The tangent of x in radians.")
asin = _function("asin", "The inverse sine, in radians.")
acos = _function("acos", "The inverse cosine, in radians.")
atan = _function("atan", "The inverse tangent, in radians.")
sinh = _function("sinh", "The hyperbolic sine.")
cosh = _function("cosh", "The hyperbolic cosine.")
asinh = _function("asinh", "The inverse hyperbolic sine.")
acosh = _function("acosh", "The inverse hyperbolic cosine.")
atanh = _function("atanh", "The inverse hyperbolic tangent.")


def _rounding(name: str, what: str) -> Callable[[ExprLike], Expr]:
    def apply(x: ExprLike) -> Expr:
        value = convert(x)
        return call(name, value) if dt.is_float(value.dtype) else value

    return _named(apply, name, what)


floor = _rounding("floor", "The largest whole number that is not above x.")
ceil = _rounding("ceil", "The smallest whole number that is not below x.")
trunc = _rounding("trunc", "The whole number next to x on the side of zero.")
round = _rounding("round", "The nearest whole number; of two, the even one.")


def _several(name: str, what: str) -> Callable[..., Expr]:
    """A function of floats, or of integers, as its table entry says; operands get one type."""
    known = INTRINSICS[name]

    def apply(*operands: ExprLike) -> Expr:
        if len(operands) != known.arity:
            raise TypeMismatch(f"{name} takes {known.arity} operands, {len(operands)} given")
        values = [convert(x) for x in operands]
        for x in values[1:]:
            values[0] = matched(values[0], x)[0]
        values = [matched(values[0], x)[1] for x in values]
        wanted = known.operands if known.operands != "any" else "float"
        for v in values:
            if dt.is_float(v.dtype) != (wanted == "float"):
                raise TypeMismatch(f"{name} takes {wanted}s, not {v.dtype}; convert with astype")
        return call(name, *values)

    return _named(apply, name, what)


atan2 = _several("atan2", "The angle of the point (y, x), in radians: atan2(y, x).")
copysign = _several("copysign", "The magnitude of x with the sign of y.")
hypot = _several("hypot", "sqrt(x * x + y * y), without overflow.")
nextafter = _several("nextafter", "The next number after x on the way to y.")
fma = _several("fma", "x * y + z, rounded once.")
bitwise_and = _several("bitwise_and", "The bits that are set in both.")
bitwise_or = _several("bitwise_or", "The bits that are set in either.")
bitwise_xor = _several("bitwise_xor", "The bits that differ.")
bitwise_not = _several("bitwise_not", "The bits that are not set.")
shift_left = _several("shift_left", "x * 2 ** y, without what leaves the type.")
shift_right = _several("shift_right", "x / 2 ** y, rounded down.")
high_product = _several("high_product", "The upper half of x * y, to the nearest, halves up.")
popcount = _several("popcount", "How many bits are set.")
clz = _several("clz", "How many bits above the highest that is set.")

# ------------------------------------------------------------------------------------- of any type


def abs(x: ExprLike) -> Expr:
    """The magnitude of x, of any type."""
    value = convert(x)
    return call("abs", value) if dt.is_float(value.dtype) else select(value < 0, -value, value)


def power(x: ExprLike, y: ExprLike) -> Expr:
    """x to the power y, for floats."""
    base = convert(x)
    if not dt.is_float(base.dtype):
        raise TypeMismatch(f"power takes floats, not {base.dtype}; convert it with astype")
    return call("pow", base, convert(y, base.dtype))


def _test(name: str, what: str) -> Callable[[ExprLike], Expr]:
    def apply(x: ExprLike) -> Expr:
        value = convert(x)
        return call(name, value, dtype=dt.vector("bool", dt.lanes(value.dtype)))

    return _named(apply, name, what)


isnan = _test("isnan", "Whether x is not a number.")
isinf = _test("isinf", "Whether x is plus or minus infinity.")
isfinite = _test("isfinite", "Whether x is a number and no infinity.")


def fmod(x: ExprLike, y: ExprLike) -> Expr:
    """The remainder with the sign of x."""
    return truncmod(x, y) if dt.is_int(convert(x).dtype) else call("fmod", convert(x), convert(y))


def div(a: ExprLike, b: ExprLike) -> Expr:
    """a / b; the quotient of integers is rounded toward zero."""
    return convert(a) / b


def floordiv(a: ExprLike, b: ExprLike) -> Expr:
    """The quotient rounded down."""
    return convert(a) // b


def floormod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder of the quotient rounded down."""
    return convert(a) % b


indexdiv = floordiv
"""The quotient of indices, which are not negative."""
indexmod = floormod
"""The remainder of indices, which are not negative."""
min = minimum
max = maximum
all = all_of
any = any_of


def likely(cond: ExprLike) -> Expr:
    """A condition that holds nearly always."""
    return call("likely", cond)


def reinterpret(dtype: str, value: ExprLike) -> Expr:
    """The bits of a value as another type of the same size."""
    e = convert(value)
    if dt.bytes_of(e.dtype) != dt.bytes_of(dtype):
        raise TypeMismatch(
            f"reinterpret: {e.dtype} has {dt.bytes_of(e.dtype)} bytes, {dtype} {dt.bytes_of(dtype)}"
        )
    return Call(dtype, "reinterpret", (e,))


# --------------------------------------------------------------------------------- values of types


def max_value(dtype: str) -> Expr:
    """The largest finite value of an element type."""
    return const(_limits(dtype)[1], dtype)


def min_value(dtype: str) -> Expr:
    """The smallest finite value of an element type."""
    return const(_limits(dtype)[0], dtype)


def _limits(dtype: str) -> tuple[float, float]:
    if dt.is_float(dtype):
        info = ml_dtypes.finfo(dt.to_numpy(dtype))
        return float(info.min), float(info.max)
    return dt.limits(dtype)


def infinity(dtype: str) -> Expr:
    """Plus infinity."""
    if not dt.is_float(dtype):
        raise TypeMismatch(f"{dtype} has no infinity; it is a value of floats")
    return FloatImm(dtype, math.inf)


# ------------------------------------------------------------------------------------ calls by name


def call_intrin(dtype: str, op: str, *args: ExprLike) -> Expr:
    """An intrinsic of the table by name ("exp" or "tir.exp"), with a result type."""
    name = op.removeprefix("tir.")
    if name not in INTRINSICS:
        near = ", ".join(closest(name, INTRINSICS) or sorted(INTRINSICS))
        raise TypeMismatch(f"there is no intrinsic {name!r}; nearest: {near}")
    count = INTRINSICS[name].arity
    if len(args) != count:
        raise TypeMismatch(f"{name} takes {count} operands, {len(args)} given")
    return call(name, *args, dtype=dtype)


def call_extern(dtype: str, name: str, *args: ExprLike) -> Expr:
    """The call of a declared C function, see `ExternFunction`; dtype: "int32"."""
    return Call(dtype, EXTERN, (StringImm(name), *[convert(a) for a in args]))


def call_llvm_pure_intrin(dtype: str, name: str, *args: ExprLike) -> Expr:
    """The value of an intrinsic of LLVM without effects, e.g. "llvm.fma.v4f32"."""
    return call_llvm(dtype, name, *args)


def call_llvm_intrin(dtype: str, name: str, *args: ExprLike) -> Expr:
    """An intrinsic of LLVM that is evaluated where it stands, each time."""
    values = [convert(a) for a in args]
    return Call(dtype, "call_llvm_intrin", (StringImm(name), *values))
