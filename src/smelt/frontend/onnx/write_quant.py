"""Writers of quantized numbers: QuantizeLinear and DequantizeLinear.

Blocks of an axis are a dimension of their own in a graph (see ops_quant.aligned); here they become
`block_size` again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import Unsupported
from smelt.relax.compose.common import cast_to
from smelt.relax.nodes import RelaxExpr, call, constant

from .ops_quant import QUANTIZED
from .write_graph import Results, Writer, at_once, dtype_of, known, shape_of, written
from .write_math import is_call, operand_of


def _of_type(x: RelaxExpr, legal: tuple[str, ...]) -> None:
    if dtype_of(x) not in legal:
        raise Unsupported(f"numbers of {dtype_of(x)}; ONNX has {', '.join(legal)}")


def _flat(v: RelaxExpr | None) -> Any:
    """A scale or zero point as it is: a number, or a vector; None where it broadcasts otherwise."""
    return v if v is None or len(shape_of(v)) <= 1 else None


def _zero(zero: RelaxExpr | None, scale: RelaxExpr, dtype: str) -> RelaxExpr:
    """A zero point of the type; ONNX learns from it what the result's type is."""
    if zero is None:
        return constant(np.zeros(shape_of(scale), dt.to_numpy(dtype)))
    return _narrowed(zero, dtype)


def _axis(x: RelaxExpr, scale: RelaxExpr, axis: int) -> int | None:
    """The attribute: which dimension a vector of scales runs along."""
    single = len(shape_of(scale)) == 0 or shape_of(scale) == (1,)
    return None if single else axis % len(shape_of(x))


@written("dequantize")
def dequantize(
    w: Writer, x: RelaxExpr, scale: RelaxExpr, zero: RelaxExpr | None = None, *, axis: int,
    out_dtype: str, block: int | None = None,
) -> Results:  # fmt: skip
    """DequantizeLinear, of which the scale tells the result's type."""
    _of_type(x, (*QUANTIZED, "int32"))
    if block is None and (_flat(scale) is None or (zero is not None and _flat(zero) is None)):
        return None
    data = known(zero)
    if dtype_of(x) == "int32" and zero is not None:
        if data is None or data.any():
            return None
        zero = None
    if zero is not None:
        zero = _narrowed(zero, dtype_of(x))
        if block is None and shape_of(zero) != shape_of(scale):
            return None
    at = axis if block else _axis(x, scale, axis)
    return w.emit("DequantizeLinear", x, cast_to(scale, out_dtype), zero, axis=at,
                  block_size=block)  # fmt: skip


def _narrowed(zero: RelaxExpr, dtype: str) -> RelaxExpr:
    """A zero point in the type of the numbers."""
    data = known(zero)
    if data is None or dtype_of(zero) == dtype:
        return cast_to(zero, dtype)
    return constant(data.astype(dt.to_numpy(dtype)))


@written("quantize")
def quantize(
    w: Writer, x: RelaxExpr, scale: RelaxExpr, zero: RelaxExpr | None = None, *, axis: int,
    out_dtype: str, rounding: str, compute_dtype: str, block: int | None = None,
) -> Results:  # fmt: skip
    """QuantizeLinear, which rounds to even."""
    if rounding != "even" or out_dtype not in QUANTIZED:
        return None
    if block is None and (_flat(scale) is None or (zero is not None and _flat(zero) is None)):
        return None
    w.check_type("QuantizeLinear", w.schema("QuantizeLinear").outputs[0], out_dtype)
    wide = compute_dtype or dtype_of(x)
    zero = _zero(zero, scale, out_dtype)
    if block is None and shape_of(zero) != shape_of(scale):
        return None
    at = axis if block else _axis(x, scale, axis)
    return w.emit("QuantizeLinear", cast_to(x, wide), cast_to(scale, wide), zero, axis=at,
                  block_size=block)  # fmt: skip


@written("requantize")
def requantize(
    w: Writer, x: RelaxExpr, input_scale: RelaxExpr, input_zero: RelaxExpr | None,
    output_scale: RelaxExpr, output_zero: RelaxExpr | None = None, *, axis: int, out_dtype: str,
    rounding: str, compute_dtype: str,
) -> Results:  # fmt: skip
    """What is computed in float32 and rounded to even: the number itself, quantized anew."""
    if rounding != "even" or compute_dtype != "float32" or out_dtype not in QUANTIZED:
        return None
    number = call("dequantize", x, input_scale, input_zero, axis=axis)
    return call("quantize", number, output_scale, output_zero, axis=axis, out_dtype=out_dtype)


# --------------------------------------------------------------------------------------- blocks


@written("matmul_in_blocks")
def matmul_in_blocks(
    w: Writer, x: RelaxExpr, q: RelaxExpr, scale: RelaxExpr, zero: RelaxExpr | None = None, *,
    block: int, transpose: bool, compute_dtype: str,
) -> Results:  # fmt: skip
    """onnxruntime's MatMulNBits: a row of bytes for each column, of numbers without a sign."""
    if block < 16 or block & (block - 1):
        return None
    data, steps, move = [known(v) for v in (q, scale, zero)]
    if data is None or steps is None or (zero is not None and move is None):
        return None
    if not transpose:
        data, steps, move = data.T, steps.T, None if move is None else move.T
    bits, low = dt.width(dtype_of(q)), dt.limits(dtype_of(q))[0]
    k = data.shape[1]
    whole = np.zeros((len(data), -(-k // block) * block), np.int16)
    whole[:, :k] = data.astype(np.int16) - low
    packed = _packed(whole, bits).reshape(len(data), -1, block * bits // 8)
    zeros = None
    if move is not None and zero is not None and dt.is_float(dtype_of(zero)):
        zeros = constant(move.astype(np.float32) - np.float32(low))
    elif move is not None:
        zeros = constant(_packed(move.astype(np.int16) - low, bits).reshape(-1))
    elif low == 0:
        zeros = constant(_packed(np.zeros(steps.shape, np.int16), bits).reshape(-1))
    level = 4 if compute_dtype == "int8" else 1
    return w.emit_of(
        "com.microsoft", "MatMulNBits", x, constant(packed), constant(steps.astype(np.float32)),
        *[] if zeros is None else [zeros], K=k, N=len(data), bits=bits, block_size=block,
        accuracy_level=level,
    )  # fmt: skip


def _packed(rows: Any, bits: int) -> Any:
    """Rows of small numbers, several to a byte, the first one in its lowest bits."""
    each = 8 // bits
    short = -rows.shape[1] % each
    cut = np.pad(rows.astype(np.uint8), [(0, 0), (0, short)]).reshape(len(rows), -1, each)
    return np.bitwise_or.reduce(cut << (bits * np.arange(each, dtype=np.uint8)), axis=2)


@written("reshape")
def blocks(w: Writer, x: RelaxExpr, *, shape: Any) -> Results:
    """Blocks of an axis put back into it: of numbers whose scales are one for each block."""
    if not is_call(x, "dequantize", "quantize"):
        return None
    data, scale, *more = x.args
    zero = more[0] if more else None
    assert data is not None
    assert scale is not None
    at = _block_axis(shape_of(x), shape_of(scale), tuple(shape))
    if at is None or (zero is not None and shape_of(zero) != shape_of(scale)):
        return None
    block = shape_of(x)[at + 1]
    operands = [_without(v, at + 1) for v in (scale, zero)]
    attrs = {**x.attrs, "axis": at, "block": block}
    if is_call(x, "quantize"):
        operands[1] = _zero(operands[1], operands[0], x.attrs["out_dtype"])
    if "block_size" not in w.schema("DequantizeLinear").attributes:
        return None
    whole = _whole(w, data, tuple(shape))
    form = quantize if is_call(x, "quantize") else dequantize
    return w.emit_as(x, form, whole, *operands, **attrs)


def _block_axis(have: Any, scale: Any, want: Any) -> int | None:
    """The axis whose blocks are a dimension behind it, with one scale each."""
    if len(scale) != len(have) or len(want) != len(have) - 1:
        return None
    for at in range(len(want)):
        one = (*have[: at + 1], 1, *have[at + 2 :])
        fits = isinstance(have[at], int) and isinstance(have[at + 1], int)
        if fits and scale == one and want == (*have[:at], have[at] * have[at + 1], *have[at + 2 :]):
            return at
    return None


def _without(x: RelaxExpr | None, at: int) -> Any:
    """The value without a dimension of 1."""
    if x is None:
        return None
    if is_call(x, "expand_dims") and tuple(x.attrs["axes"]) == (at,):
        return operand_of(x)
    return at_once(x, lambda data: data.squeeze(at), "squeeze", axes=(at,))


def _whole(w: Writer, x: RelaxExpr, shape: Any) -> Any:
    """The operand with the axis in one piece."""
    if is_call(x, "reshape") and shape_of(operand_of(x)) == shape:
        return operand_of(x)
    return at_once(x, lambda data: data.reshape(shape), "reshape", shape=shape)
