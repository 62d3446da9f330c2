"""Converters of reductions, of normalizations, and of products of matrices in batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smelt.frontend.common import Value, moves
from smelt.frontend.common.moves import as_type
from smelt.frontend.common.values import product
from smelt.frontend.common.windows import fitted
from smelt.ir import dtype as dt
from smelt.relax.compose.integer import conv_transpose_sums, product_sums

from . import fixed
from .fixed_graph import inverse_root, multiplied, wide
from .layout import as_first, elementwise, first, last, turned
from .node import Node
from .ops_conv import biased, check_types, padding_of, product_ratio, weight_zero
from .quantized import activated, distance, requantized, requantized_wide, same_numbers, stored
from .registry import Ints, custom_op, tflite_op


def _axes(g: Node, x: Value, axis: Value) -> Ints:
    """The dimensions that are reduced, each once."""
    return tuple(sorted(set(g.axes(g.ints(axis, "axis"), x.rank))))


def reduced(g: Node, op: str, x: Value, axes: Ints, keepdims: bool) -> Value:
    """A reduction; of an image as it was before it was turned back."""
    image = as_first(x)
    if image is None or x.rank != 4:
        return g.call(op, x, axes=axes, keepdims=keepdims)
    places = {0: 0, 1: 2, 2: 3, 3: 1}
    found = tuple(sorted(places[a] for a in axes))
    if not keepdims and {2, 3} <= {*found}:  # what is left has its order
        return g.call(op, image, axes=found, keepdims=False)
    y = last(g, g.call(op, image, axes=found, keepdims=True))
    return y if keepdims else moves.squeeze(g, y, axes)


@tflite_op("MEAN", 3)
def mean(g: Node, x: Value, axis: Value, *, keep_dims: bool = False) -> Value:
    """The mean along some dimensions."""
    return _summed(g, "mean", x, axis, keep_dims)


@tflite_op("SUM", 2)
def sum_(g: Node, x: Value, axis: Value, *, keep_dims: bool = False) -> Value:
    """The sum along some dimensions."""
    return _summed(g, "sum", x, axis, keep_dims)


def _summed(g: Node, op: str, x: Value, axis: Value, keep_dims: bool) -> Value:
    axes = _axes(g, x, axis)
    if not axes:
        return x
    if g.integers:
        return _quantized_sum(g, x, axes, keep_dims, op == "mean")
    if op == "mean" and not dt.is_float(x.dtype):
        g.unsupported(f"a mean of {x.dtype} without a scale", "floats, quantized numbers")
    return reduced(g, op, x, axes, keep_dims)


def _quantized_sum(g: Node, x: Value, axes: Ints, keep_dims: bool, mean: bool) -> Value:
    """Sums in int32, brought to the result's scale; means have their count in the factor."""
    count = product([x.shape[a] for a in axes])
    if not isinstance(count, int):
        g.unsupported("a reduction of quantized numbers along a symbolic size", "constant sizes")
    away = elementwise(g, lambda x: distance(g, x, g.zero(g.tensor(0))), x)
    total = reduced(g, "sum", away, axes, keep_dims)
    ratio = float(g.scale(g.tensor(0))) / float(g.scale(g.out))
    if not mean:
        return requantized(g, total, ratio, g.out, rounding="away")
    number, power = fixed.factor(ratio)
    bits = min(count.bit_length() - 1, 32, 31 + power)
    y = g.call("fixed_point_multiply", total, multiplier=(number << bits) // count,
               shift=power - bits, rounding="twice")  # fmt: skip
    return stored(g, y, g.out)


def _plain(name: str, op: str, newest: int) -> None:
    @tflite_op(name, newest)
    def converter(g: Node, x: Value, axis: Value, *, keep_dims: bool = False) -> Value:
        axes = _axes(g, x, axis)
        if g.integers:
            if op == "prod":
                g.unsupported(f"products of quantized {x.dtype}", "numbers that are not quantized")
            same_numbers(g, g.tensor(0), g.out)
        return reduced(g, op, x, axes, keep_dims) if axes else x


for _name, _op in (("REDUCE_MAX", "max"), ("REDUCE_MIN", "min"), ("REDUCE_PROD", "prod"),
                   ("REDUCE_ANY", "any"), ("REDUCE_ALL", "all")):  # fmt: skip
    _plain(_name, _op, 3)


# ---------------------------------------------------------------------------------- normalizations


@tflite_op("L2_NORMALIZATION", 2)
def l2_normalization(g: Node, x: Value, *, fused_activation_function: int = 0) -> Value:
    """Each row of the last dimension divided by its length."""
    if g.integers:
        return _directions(g, x)
    squares = g.call("sum", g.call("multiply", x, x), axes=(x.rank - 1,), keepdims=True)
    length = g.call("sqrt", g.call("maximum", squares, 1e-6))
    return activated(g, g.call("divide", x, length), fused_activation_function)


def _directions(g: Node, x: Value) -> Value:
    """The same of 8-bit numbers, in steps of 1 / 128."""
    if x.dtype != "int8" or g.out.dtype != "int8":
        g.unsupported(f"quantized {x.dtype} as {g.out.dtype}", "float32, int8")
    away = distance(g, x, g.zero(g.tensor(0)))
    squares = g.call("sum", g.call("multiply", away, away), axes=(x.rank - 1,), keepdims=True)
    number, power = inverse_root(g, as_type(g, squares, "int64"))
    power = g.call("add", power, wide(g, 7))
    y = multiplied(g, as_type(g, away, "int64"), number, power)
    return as_type(g, g.call("clip", y, min=-128, max=127), "int8")


@tflite_op("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(
    g: Node, x: Value, *, radius: int = 0, bias: float = 0.0, alpha: float = 0.0, beta: float = 0.0
) -> Value:
    """x by a power of the squares of the channels around."""
    size = 2 * radius + 1
    y = g.call("lrn", first(g, x), size=size, alpha=alpha * size, beta=beta, bias=bias)
    return last(g, y)


# ---------------------------------------------------------------------------------------- products


@tflite_op("BATCH_MATMUL", 4)
def batch_matmul(
    g: Node, a: Value, b: Value, *, adj_x: bool = False, adj_y: bool = False,
    asymmetric_quantize_inputs: bool = False,
) -> Value:  # fmt: skip
    """Products of matrices, each transposed first where it says so."""
    turns = {"transpose_a": adj_x, "transpose_b": adj_y}
    if not check_types(g, a, b, narrow=("int8", "int16")):
        return g.call("matmul", a, b, **turns)
    if a.dtype == "int16":
        y = g.call("matmul", a, b, **turns, out_dtype="int64")
        return requantized_wide(g, y, product_ratio(g), g.out)
    zeros = [g.known(g.zero(g.tensor(k)), "int32") for k in (0, 1)]
    y = g.composed(product_sums, a, b, *zeros, adj_x, adj_y)
    return requantized(g, y, product_ratio(g), g.out)


@tflite_op("TRANSPOSE_CONV", 5)
def transpose_conv(
    g: Node, shape: Value, w: Value, x: Value, bias: Value | None = None, *, padding: int = 0,
    stride_w: int = 0, stride_h: int = 0, fused_activation_function: int = 0,
    quantized_bias_type: int = 0,
) -> Value:  # fmt: skip
    """The transpose of a convolution with filters [o, h, w, c], as large as `shape` says."""
    padding_of(g, padding)
    wanted = g.ints(shape, "output_shape")
    if x.rank != 4 or w.rank != 4 or len(wanted) != 4 or min(stride_h, stride_w) < 1:
        g.malformed(f"an image of {x.rank} dimensions, filters of {w.rank}, a result of {wanted}")
    placed = _placed(g, x, w, wanted[1:3], padding, (stride_h, stride_w))
    return _transposed(g, x, w, bias, fused_activation_function, placed)


@custom_op("Convolution2DTransposeBias")
def transpose_conv_bias(
    g: Node, x: Value, w: Value, bias: Value, *, custom_options: bytes = b""
) -> Value:
    """The same as large as image and filters make it; the options are three numbers of 32 bits:
    padding (1: SAME, 2: VALID), the steps along x and along y."""
    numbers = np.frombuffer(custom_options[: len(custom_options) // 4 * 4], "<i4").tolist()
    if len(numbers) < 3 or min(numbers[1:3]) < 1 or (x.rank, w.rank) != (4, 4):
        g.malformed(f"an image of {x.rank} dimensions, filters of {w.rank}, options {numbers}; "
                    "legal: 4, 4, padding and two steps of 1 or more")  # fmt: skip
    g.one_of("padding", numbers[0], (1, 2))
    if {x.dtype, w.dtype} != {"float32"}:
        g.unsupported(f"products of {x.dtype} and {w.dtype}", "float32")
    padding, strides = numbers[0] - 1, (numbers[2], numbers[1])
    image = [g.extent(x, 1 + d, "a transposed convolution") for d in range(2)]
    wanted = [n * s if padding == 0 else (n - 1) * s + k
              for n, s, k in zip(image, strides, w.shape[1:3], strict=True)]  # fmt: skip
    return _transposed(g, x, w, bias, 0, _placed(g, x, w, wanted, padding, strides))


def _placed(
    g: Node, x: Value, w: Value, wanted: Sequence[int], padding: int, strides: Sequence[int]
) -> dict[str, object]:
    """Where the filters of a transposed convolution stand, for a result of this size."""
    begins, ends, more = [], [], []
    for d in range(2):
        whole = (g.extent(x, 1 + d, "a transposed convolution") - 1) * strides[d] + w.shape[1 + d]
        out = wanted[d]
        # what a convolution of the result with this padding would add around it
        steps = -(-out // strides[d]) if padding == 0 else (out - w.shape[1 + d]) // strides[d] + 1
        total = max((steps - 1) * strides[d] + w.shape[1 + d] - out, 0)
        begins.append(total // 2)
        behind = whole - out - total // 2
        ends.append(max(behind, 0))
        more.append(max(-behind, 0))
    return {"strides": tuple(strides), "pads": (*begins, *ends), "dilations": (1, 1),
            "output_padding": tuple(more), "groups": 1}  # fmt: skip


def _transposed(
    g: Node, x: Value, w: Value, bias: Value | None, activation: int, placed: dict[str, object]
) -> Value:
    """An image [n, h, w, c] by filters [o, h, w, c]."""
    image, w = first(g, x), turned(g, w, (3, 0, 1, 2))
    if not check_types(g, image, w, at=2):
        y = biased(g, g.call("conv_transpose", image, w, **placed), bias, 2)
        return last(g, activated(g, y, activation))
    t = g.tensor(2)
    ratio = np.float64(g.scale(t)) * g.tensor(1).scales.astype(np.float64)
    ratio = ratio / np.float64(g.scale(g.out))
    if image.dtype == "int16":
        y = g.call("conv_transpose", image, w, out_dtype="int64", **placed)
        y = requantized_wide(g, biased(g, y, bias, 2), ratio, g.out, activation, 2)
        return last(g, y)
    zero = g.known(g.zero(t), "int32")
    y = g.composed(conv_transpose_sums, image, w, zero, weight_zero(g), **placed)
    return last(g, requantized(g, biased(g, y, bias, 2), ratio, g.out, activation, axis=1))


@tflite_op("CONV_3D")
def conv_3d(
    g: Node, x: Value, w: Value, bias: Value | None = None, *, padding: int = 0, stride_d: int = 0,
    stride_w: int = 0, stride_h: int = 0, fused_activation_function: int = 0,
    dilation_d_factor: int = 1, dilation_w_factor: int = 1, dilation_h_factor: int = 1,
) -> Value:  # fmt: skip
    """Volumes [n, d, h, w, c] with filters [d, h, w, c, o]."""
    if x.rank != 5 or w.rank != 5 or x.dtype != "float32":
        g.unsupported(f"{x.rank} dimensions of {x.dtype}", "5 dimensions of float32")
    filters = turned(g, w, (4, 3, 0, 1, 2))
    image, win = fitted(
        g, first(g, x), filters.shape[2:], 0.0, auto_pad=padding_of(g, padding),
        strides=(stride_d, stride_h, stride_w),
        dilations=(dilation_d_factor, dilation_h_factor, dilation_w_factor),
    )  # fmt: skip
    groups = x.shape[4] // w.shape[3]
    y = g.call("conv3d", image, filters, groups=groups, **win.placed())
    return last(g, activated(g, biased(g, y, bias, 3), fused_activation_function))
