"""Operators element by element, of one, two and three operands that broadcast."""

from __future__ import annotations

from smelt.ir import dtype as dt

from ..compose.common import cast_to, dtype_of, legal, scalar
from ..nodes import RelaxExpr, call
from .entry import entry, number_given, same

for _name in (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh",
    "erf", "exp", "floor", "isfinite", "isinf", "isnan", "log", "logical_not", "negative", "round",
    "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
):  # fmt: skip
    same(_name, "x")

same("nn.relu", "x", core="relu")
same("nn.gelu", "x", core="gelu")
same("nn.silu", "x", core="silu")
same("nn.selu", "x", core="selu")
same("no_op", "x", core="identity")

for _name in (
    "add", "subtract", "multiply", "divide", "floor_divide", "power", "equal", "not_equal", "less",
    "less_equal", "greater", "greater_equal", "maximum", "minimum", "logical_and", "logical_or",
    "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift",
):  # fmt: skip
    same(_name, "x1 x2")

same("floor_mod", "x1 x2", core="mod")
same("mod", "x1 x2", core="fmod")
same("where", "condition x1 x2")


@entry("clip", core="clip")
def clip(x: RelaxExpr, min: float, max: float) -> RelaxExpr:
    """Values brought into min .. max, two numbers."""
    low, high = number_given(min), number_given(max)
    legal(low <= high, f"min={low}, max={high}; min has to be no more than max")
    return call("clip", x, min=low, max=high)


same("astype", "x", core="cast", forms={"dtype": str}, required="dtype")


@entry("wrap_param")
def wrap_param(data: RelaxExpr, dtype: str = "float32") -> RelaxExpr:
    """A parameter as another element type."""
    return cast_to(data, dtype)


@entry("ewise_fma")
def ewise_fma(x1: RelaxExpr, x2: RelaxExpr, x3: RelaxExpr) -> RelaxExpr:
    """x1 * x2 + x3."""
    return call("add", call("multiply", x1, x2), x3)


@entry("log_add_exp")
def log_add_exp(x1: RelaxExpr, x2: RelaxExpr) -> RelaxExpr:
    """log(exp(x1) + exp(x2)), shifted so that nothing overflows."""
    legal(dt.is_float(dtype_of(x1)), f"x1 is {dtype_of(x1)}; floating-point numbers are legal")
    largest = call("maximum", x1, x2)
    far = call("negative", call("abs", call("subtract", x1, x2)))
    one = scalar(1, dtype_of(x1))
    return call("add", largest, call("log", call("add", one, call("exp", far))))


@entry("masked_fill")
def masked_fill(x: RelaxExpr, mask: RelaxExpr, value: float) -> RelaxExpr:
    """x with a number in place of elements where the mask is true."""
    return call("where", mask, scalar(value, dtype_of(x)), x)
