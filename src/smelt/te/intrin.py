"""The mathematical functions of tensor expressions, on scalars."""

from __future__ import annotations

from collections.abc import Callable

from smelt.ir import dtype as dt
from smelt.ir.build import call, ceildiv, select, truncdiv, truncmod
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import Expr, ExprLike, convert

__all__ = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "ceildiv", "cos", "cosh",
    "div", "erf", "exp", "floor", "floordiv", "floormod", "fmod", "indexdiv", "indexmod", "isinf",
    "isnan", "log", "log1p", "log2", "log10", "power", "round", "rsqrt", "sigmoid", "sin", "sinh",
    "sqrt", "tan", "tanh", "trunc", "truncdiv", "truncmod",
]  # fmt: skip


def _function(name: str, what: str) -> Callable[[ExprLike], Expr]:
    def apply(x: ExprLike) -> Expr:
        value = convert(x)
        if not dt.is_float(value.dtype):
            raise TypeMismatch(f"{name} takes a float, not {value.dtype}; convert it with astype")
        return call(name, value)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = what
    return apply


exp = _function("exp", "e to the power x.")
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

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = what
    return apply


floor = _rounding("floor", "The largest whole number that is not above x.")
ceil = _rounding("ceil", "The smallest whole number that is not below x.")
trunc = _rounding("trunc", "The whole number next to x on the side of zero.")
round = _rounding("round", "The nearest whole number; of two, the even one.")


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


def isnan(x: ExprLike) -> Expr:
    """Whether x is not a number."""
    return call("isnan", x, dtype="bool")


def isinf(x: ExprLike) -> Expr:
    """Whether x is plus or minus infinity."""
    return call("isinf", x, dtype="bool")


def fmod(x: ExprLike, y: ExprLike) -> Expr:
    """The remainder with the sign of x."""
    return truncmod(x, y) if dt.is_int(convert(x).dtype) else call("fmod", convert(x), convert(y))


def div(x: ExprLike, y: ExprLike) -> Expr:
    """x / y; the quotient of integers is rounded toward zero."""
    return convert(x) / y


def floordiv(x: ExprLike, y: ExprLike) -> Expr:
    """The quotient rounded down."""
    return convert(x) // y


def floormod(x: ExprLike, y: ExprLike) -> Expr:
    """The remainder of the quotient rounded down."""
    return convert(x) % y


indexdiv = floordiv
"""The quotient of indices, which are not negative."""
indexmod = floormod
"""The remainder of indices, which are not negative."""
