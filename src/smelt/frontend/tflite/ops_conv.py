"""Converters of convolutions and of products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.frontend.common import Value, moves
from smelt.frontend.common.values import product
from smelt.frontend.common.windows import Window, fitted
from smelt.relax.compose.integer import conv_sums, product_sums

from .hybrid import convolved, finished, is_hybrid, levels
from .layout import FIRST, first, last, turned
from .node import Node
from .quantized import activated, requantized, requantized_wide
from .registry import Ints, tflite_op

PADDINGS = {0: "SAME_UPPER", 1: "VALID"}


def padding_of(g: Node, padding: int) -> str:
    """The name of a padding."""
    g.one_of("padding", padding, tuple(PADDINGS))
    return PADDINGS[padding]


def biased(g: Node, y: Value, bias: Value | None, spatial: int) -> Value:
    """A bias of channels added; spatial: the dimensions behind these."""
    if bias is None:
        return y
    if bias.rank != 1:
        g.malformed(f"the bias has {bias.rank} dimensions, 1 expected")
    if bias.dtype != y.dtype and (bias.dtype, y.dtype) != ("int32", "int64"):
        g.unsupported(f"a bias of {bias.dtype}", y.dtype)
    bias = moves.as_type(g, bias, y.dtype)
    return g.call("add", y, moves.reshape(g, bias, (bias.shape[0], *(1,) * spatial)))


def product_ratio(g: Node) -> Any:
    """The scale of products in steps of the result's, for each channel of the weight."""
    x, w = np.float64(g.scale(g.tensor(0))), g.tensor(1).scales.astype(np.float64)
    return x * w / np.float64(g.scale(g.out))


def weight_zero(g: Node) -> Value:
    """The weight's zero point: one, as those of channels are 0."""
    zeros = g.tensor(1).zeros
    if zeros.size > 1 and np.any(zeros):
        g.unsupported("weights with a zero point for each channel", "0")
    return g.known(int(zeros.reshape(-1)[0]), "int32")


def check_types(
    g: Node, x: Value, w: Value, at: int = 0, narrow: tuple[str, ...] = ("int8",)
) -> bool:
    """Whether products are of integers; others than the supported ones are refused.

    at      the number of the operand x; w is number 1
    narrow  the types that multiply int16
    """
    types = (x.dtype, w.dtype, g.out.dtype)
    if types in (("float32",) * 3, ("float64",) * 3):
        return False
    tensors = (g.tensor(at), g.tensor(1), g.out)
    wide = types in [("int16", t, "int16") for t in narrow]
    symmetric = not any(np.any(t.zeros) for t in tensors)
    known = symmetric if wide else types in (("int8",) * 3, ("uint8",) * 3)
    if not (known and all(t.quantized for t in tensors)):
        legal = "float32; int8, uint8: all quantized; int16, float32 with int8 weights"
        g.unsupported(f"products of {x.dtype} and {w.dtype} as {g.out.dtype}", legal)
    return True


def _convolved(
    g: Node, x: Value, w: Value, bias: Value | None, groups: int, strides: Ints, dilations: Ints,
    padding: int, activation: int, ranged: bool,
) -> Value:  # fmt: skip
    """An image [n, h, w, c] with filters [o, c / groups, kh, kw].

    ranged  how floats are quantized for weights that are, see hybrid.levels
    """
    hybrid, image = is_hybrid(g, x, w), first(g, x)
    integers = not hybrid and check_types(g, x, w)
    if min(*strides, *dilations) < 1:
        g.malformed(f"strides {strides} and dilations {dilations}; both are 1 or more")
    auto = padding_of(g, padding)
    blank = g.zero(g.tensor(0)) if integers else 0
    image, win = fitted(g, image, w.shape[2:], blank, auto_pad=auto, strides=strides,
                        dilations=dilations)  # fmt: skip
    spatial = image.rank - 2
    if hybrid:
        return convolved(g, image, w, bias, groups, activation, win.placed(), ranged)
    if not integers:
        y = g.call(f"conv{spatial}d", image, w, groups=groups, **win.placed())
        return last(g, activated(g, biased(g, y, bias, spatial), activation))
    if x.dtype == "int16":
        y = g.call(f"conv{spatial}d", image, w, groups=groups, out_dtype="int64", **win.placed())
        y = biased(g, y, bias, spatial)
        y = requantized_wide(g, y, product_ratio(g), g.out, activation, spatial)
        return last(g, y)
    y = _sums(g, image, w, groups, win)
    y = biased(g, y, bias, spatial)
    return last(g, requantized(g, y, product_ratio(g), g.out, activation, axis=1))


def _sums(g: Node, image: Value, w: Value, groups: int, win: Window) -> Value:
    zero = g.known(g.zero(g.tensor(0)), "int32")
    return g.composed(conv_sums, image, w, zero, weight_zero(g), groups, win.placed())


@tflite_op("CONV_2D", 8)
def conv_2d(
    g: Node, x: Value, w: Value, bias: Value | None = None, *, padding: int = 0, stride_w: int = 0,
    stride_h: int = 0, fused_activation_function: int = 0, dilation_w_factor: int = 1,
    dilation_h_factor: int = 1, quantized_bias_type: int = 0,
) -> Value:  # fmt: skip
    """Filters [o, h, w, c / groups]; groups are told by the channels."""
    if x.rank != 4 or w.rank != 4:
        g.malformed(f"an image of {x.rank} dimensions and filters of {w.rank}; 4 expected")
    channels, each = x.shape[3], w.shape[3]
    if not isinstance(channels, int) or not each or channels % each:
        g.malformed(f"{channels} channels for filters of {each}")
    groups = int(channels // each)
    return _convolved(
        g, x, turned(g, w, FIRST[4]), bias, groups, (stride_h, stride_w),
        (dilation_h_factor, dilation_w_factor), padding, fused_activation_function,
        g.tensor(1).scales.size > 1,
    )  # fmt: skip


@tflite_op("DEPTHWISE_CONV_2D", 7)
def depthwise_conv_2d(
    g: Node, x: Value, w: Value, bias: Value | None = None, *, padding: int = 0, stride_w: int = 0,
    stride_h: int = 0, depth_multiplier: int = 0, fused_activation_function: int = 0,
    dilation_w_factor: int = 1, dilation_h_factor: int = 1,
) -> Value:  # fmt: skip
    """Filters [1, h, w, o]: so many for each channel as o is larger than their number."""
    if x.rank != 4 or w.rank != 4 or w.shape[0] != 1:
        g.malformed(f"an image of {x.rank} dimensions and filters {w.shape}; 4 and (1, h, w, o) "
                    "expected")  # fmt: skip
    channels, outputs = x.shape[3], w.shape[3]
    if not isinstance(channels, int) or not channels or outputs % channels:
        g.malformed(f"{channels} channels for {outputs} filters")
    return _convolved(
        g, x, turned(g, w, (3, 0, 1, 2)), bias, channels, (stride_h, stride_w),
        (dilation_h_factor, dilation_w_factor), padding, fused_activation_function, True,
    )  # fmt: skip


@tflite_op("FULLY_CONNECTED", 14)
def fully_connected(
    g: Node, x: Value, w: Value, bias: Value | None = None, *, fused_activation_function: int = 0,
    weights_format: int = 0, keep_num_dims: bool = False, asymmetric_quantize_inputs: bool = False,
    quantized_bias_type: int = 0,
) -> Value:  # fmt: skip
    """x by the transposed weights [o, k]; the leading dimensions of x are one, unless kept."""
    g.one_of("weights_format", weights_format, (0,))
    if w.rank != 2 or not isinstance(w.shape[1], int):
        g.malformed(f"weights of {w.rank} dimensions, 2 expected")
    hybrid = is_hybrid(g, x, w)
    integers = not hybrid and check_types(g, x, w)
    outputs, depth = w.shape
    total = product(x.shape)
    if isinstance(total, int) and (depth == 0 or total % depth):
        g.malformed(f"{total} elements for rows of {depth}")
    rows = moves.reshape(g, x, (-1, depth)) if x.rank != 2 or x.shape[1] != depth else x
    if hybrid:
        q, scale = levels(g, rows, asymmetric_quantize_inputs)
        y = g.call("matmul", q, w, transpose_b=True, out_dtype="int32")
        y = finished(g, y, scale, bias, 0, fused_activation_function)
    elif x.dtype == "int16":
        y = biased(g, g.call("matmul", rows, w, transpose_b=True, out_dtype="int64"), bias, 0)
        y = requantized_wide(g, y, product_ratio(g), g.out, fused_activation_function, bits=31)
    elif integers:
        zero = g.known(g.zero(g.tensor(0)), "int32")
        y = g.composed(product_sums, rows, w, zero, weight_zero(g), False, True)
        y = biased(g, y, bias, 0)
        y = requantized(g, y, product_ratio(g), g.out, fused_activation_function, rounding="up")
    else:
        y = biased(g, g.call("matmul", rows, w, transpose_b=True), bias, 0)
        y = activated(g, y, fused_activation_function)
    return moves.reshape(g, y, (*x.shape[:-1], outputs)) if keep_num_dims else y
