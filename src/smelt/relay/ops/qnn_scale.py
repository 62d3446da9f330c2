"""Between floats and quantized numbers, and from one scale to another."""

from __future__ import annotations

from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.errors import TypeMismatch
from smelt.relax.compose.affine import QUANTIZED, integers
from smelt.relax.compose.common import cast_to, dtype_of, legal, one_of, rank_of, scalar
from smelt.relax.compose.quantize import along_axis
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import const, make, relay_function, relay_op
from .qnn_affine import COMPUTE_TYPES, ROUNDINGS, config


@relay_op("qnn.quantize", order="axis")
def quantize(
    data: RelaxExpr, output_scale: RelaxExpr, output_zero_point: RelaxExpr, *, axis: int = -1,
    out_dtype: str = "int8",
) -> RelaxExpr:  # fmt: skip
    """round(data / output_scale) + output_zero_point, saturated; halves are rounded away from zero.

    Shapes  output_scale and output_zero_point: scalars, or vectors along the axis
    """
    one_of("out_dtype", out_dtype, *QUANTIZED)
    legal(
        dtype_of(data) in ("float32", "float64"),
        f"the data is {dtype_of(data)}; legal: float32, float64",
    )
    _parameters("output_", output_scale, output_zero_point, data, axis)
    return call("quantize", data, output_scale, output_zero_point, axis=axis, out_dtype=out_dtype,
                rounding="away")  # fmt: skip


@relay_op("qnn.dequantize", order="axis")
def dequantize(
    data: RelaxExpr, input_scale: RelaxExpr, input_zero_point: RelaxExpr, *, axis: int = -1,
    out_dtype: str = "float32",
) -> RelaxExpr:  # fmt: skip
    """(data - input_zero_point) * input_scale.

    Shapes  input_scale and input_zero_point: scalars, or vectors along the axis
    """
    one_of("out_dtype", out_dtype, "float32", "float16", "float64")
    integers("the data", data)
    _parameters("input_", input_scale, input_zero_point, data, axis)
    return call("dequantize", data, input_scale, input_zero_point, axis=axis, out_dtype=out_dtype)


def _parameters(
    prefix: str, scale: RelaxExpr, zero_point: RelaxExpr, data: RelaxExpr, axis: int
) -> None:
    """Check a scale and a zero point by their names here."""
    along_axis(f"{prefix}scale", scale, data, axis)
    along_axis(f"{prefix}zero_point", zero_point, data, axis)


def _decided(attrs: dict[str, Any]) -> dict[str, Any]:
    """rounding and compute_dtype as the surrounding requantize_config says, where left open."""
    for name, value in zip(("rounding", "compute_dtype"), config.get(), strict=True):
        if attrs[name] == "None":
            attrs[name] = value
    one_of("rounding", attrs["rounding"], *ROUNDINGS)
    one_of("compute_dtype", attrs["compute_dtype"], *COMPUTE_TYPES)
    return attrs


@relay_op("qnn.requantize", prepare=_decided, order="axis")
def requantize(
    data: RelaxExpr, input_scale: RelaxExpr, input_zero_point: RelaxExpr,
    output_scale: RelaxExpr, output_zero_point: RelaxExpr, *, axis: int = -1,
    rounding: str = "None", compute_dtype: str = "None", out_dtype: str = "int8",
) -> RelaxExpr:  # fmt: skip
    """round((data - input_zero_point) * input_scale / output_scale) + output_zero_point, saturated.

    Shapes         scales and zero points: scalars, or vectors along the axis
    rounding       of two integers that are equally near: "UPWARD" the larger, "TONEAREST" the one
                   farther from zero
    compute_dtype  "int64": the factor is a fixed-point number with 31 bits and the product is
                   formed in int64; "float32", "float64": in floats
    """
    one_of("out_dtype", out_dtype, *QUANTIZED)
    integers("the data", data)
    _parameters("input_", input_scale, input_zero_point, data, axis)
    _parameters("output_", output_scale, output_zero_point, data, axis)
    return call("requantize", data, input_scale, input_zero_point, output_scale, output_zero_point,
                axis=axis, out_dtype=out_dtype, rounding=ROUNDINGS[rounding],
                compute_dtype=compute_dtype)  # fmt: skip


# ------------------------------------------------------------------------------------ simulated

SIMULATED = {"disable": 0, "int8": 1, "uint8": 2, "int32": 3}
"""The numbers that qnn.simulated_quantize knows element types by."""


@relay_op("qnn.simulated_quantize")
def simulated_quantize(
    data: RelaxExpr, out_dtype: RelaxExpr, output_scale: RelaxExpr, output_zero_point: RelaxExpr,
    *, axis: int = -1,
) -> RelaxExpr:  # fmt: skip
    """qnn.quantize whose result stays a float; out_dtype is a number at run time.

    out_dtype  0: the data as it is, 1: int8, 2: uint8, 3: int32
    """
    zero = along_axis("output_zero_point", output_zero_point, data, axis)
    wide = along_axis("output_scale", output_scale, data, axis)
    t = dtype_of(data)
    y = call("round", call("divide", data, cast_to(wide, t)), mode="away")
    y = call("add", y, cast_to(zero, t))
    result = data
    for name, number in SIMULATED.items():
        if number:
            low, high = dt.limits(name)
            one = call("clip", y, min=float(low), max=float(high))
            result = call("where", _is(out_dtype, number), one, result)
    return result


@relay_op("qnn.simulated_dequantize")
def simulated_dequantize(
    data: RelaxExpr, in_dtype: RelaxExpr, input_scale: RelaxExpr, input_zero_point: RelaxExpr,
    *, axis: int = -1,
) -> RelaxExpr:  # fmt: skip
    """qnn.dequantize of floats that hold whole numbers; in_dtype as in qnn.simulated_quantize."""
    zero = along_axis("input_zero_point", input_zero_point, data, axis)
    wide = along_axis("input_scale", input_scale, data, axis)
    t = dtype_of(data)
    y = call("multiply", call("subtract", data, cast_to(zero, t)), cast_to(wide, t))
    return call("where", _is(in_dtype, 0), data, y)


def _is(code: RelaxExpr, number: int) -> RelaxExpr:
    legal(rank_of(code) == 0, f"the type has {rank_of(code)} dimensions; a scalar is legal")
    return call("equal", code, scalar(number, dtype_of(code)))


def _code(given: Any, where: str) -> Any:
    if not isinstance(given, str):
        return given
    if given not in SIMULATED:
        raise TypeMismatch(f"{where}={given!r}; legal: {', '.join(SIMULATED)}")
    return const(SIMULATED[given])


@relay_function("qnn.simulated_quantize")
def build_simulated_quantize(
    data: Any, output_scale: Any, output_zero_point: Any, axis: int = -1, out_dtype: Any = "int8"
) -> RelaxExpr:
    """out_dtype: "disable", "int8", "uint8", "int32", or an expression of their number."""
    code = _code(out_dtype, "qnn.simulated_quantize: out_dtype")
    return make("qnn.simulated_quantize", data, code, output_scale, output_zero_point, axis=axis)


@relay_function("qnn.simulated_dequantize")
def build_simulated_dequantize(
    data: Any, input_scale: Any, input_zero_point: Any, axis: int = -1, in_dtype: Any = "int8"
) -> RelaxExpr:
    """in_dtype: "disable", "int8", "uint8", "int32", or an expression of their number."""
    code = _code(in_dtype, "qnn.simulated_dequantize: in_dtype")
    return make("qnn.simulated_dequantize", data, code, input_scale, input_zero_point, axis=axis)
