"""What qnn's operators mean, in Python integers and numpy: written from the definitions alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def saturate(x: Array, dtype: str) -> Array:
    info = np.iinfo(dtype)
    clipped = [min(max(int(v), info.min), info.max) for v in x.reshape(-1)]
    return np.array(clipped, dtype).reshape(x.shape)


def fixed_point(ratio: float) -> tuple[int, int]:
    """(multiplier, exponent): the ratio is multiplier / 2 ** 31 * 2 ** exponent."""
    significand, exponent = math.frexp(ratio)
    multiplier = math.floor(significand * (1 << 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier, exponent = multiplier // 2, exponent + 1
    return multiplier, exponent


def rescale_one(x: int, ratio: float, rounding: str) -> int:
    multiplier, exponent = fixed_point(ratio)
    product, shift = x * multiplier, 31 - exponent
    if shift <= 0:
        return product << -shift
    half = 1 << (shift - 1)
    if rounding == "TONEAREST" and product < 0:
        half -= 1
    return (product + half) >> shift


def along(v: Any, rank: int, axis: int) -> Array:
    v = np.asarray(v)
    shape = [1] * rank
    if v.size > 1:
        shape[axis] = v.size
    made: Array = v.reshape(shape if v.size > 1 else ())
    return made


def requantize(
    x: Array, in_scale: Any, in_zero: Any, out_scale: Any, out_zero: Any, axis: int = -1,
    rounding: str = "UPWARD", out_dtype: str = "int8",
) -> Array:  # fmt: skip
    parts = [along(v, x.ndim, axis) for v in (in_scale, in_zero, out_scale, out_zero)]
    si, zi, so, zo = (np.broadcast_to(p, x.shape) for p in parts)
    out = np.empty(x.shape, object)
    for i in np.ndindex(*x.shape):
        ratio = float(np.float32(si[i])) / float(np.float32(so[i]))
        out[i] = rescale_one(int(x[i]) - int(zi[i]), ratio, rounding) + int(zo[i])
    return saturate(out, out_dtype)


def away(x: Array) -> Array:
    return np.asarray(np.trunc(x + np.copysign(np.asarray(0.5, x.dtype), x)))


def quantize(x: Array, scale: Any, zero: Any, axis: int = -1, dtype: str = "int8") -> Array:
    s = along(np.asarray(scale, x.dtype), x.ndim, axis)
    z = along(zero, x.ndim, axis)
    y = (x / s).astype(np.float64)  # the quotient is the float's, halves are found exactly
    return saturate(np.nan_to_num(away(y)) + z, dtype)


def dequantize(x: Array, scale: Any, zero: Any, axis: int = -1) -> Array:
    z = along(zero, x.ndim, axis).astype(np.int64)
    s = along(np.asarray(scale, np.float32), x.ndim, axis)
    return np.asarray((x.astype(np.int64) - z).astype(np.float32) * s)


def conv2d(
    x: Array, w: Array, zx: int, zw: Any, strides: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0), dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> Array:  # fmt: skip
    """x [n, c, h, w], w [o, c / groups, kh, kw]; the border is 0 after the zero point is taken."""
    a = np.pad(x.astype(np.int64) - zx, ((0, 0), (0, 0), pads[0::2], pads[1::2]))
    b = w.astype(np.int64) - along(zw, 4, 0)
    n, _, h, wd = a.shape
    o, per, kh, kw = b.shape
    oh = (h - dilation[0] * (kh - 1) - 1) // strides[0] + 1
    ow = (wd - dilation[1] * (kw - 1) - 1) // strides[1] + 1
    out = np.zeros((n, o, oh, ow), np.int64)
    for c in range(o):
        first = c // (o // groups) * per
        for i in range(kh):
            for j in range(kw):
                y, z = i * dilation[0], j * dilation[1]
                part = a[:, first : first + per, y : y + (oh - 1) * strides[0] + 1 : strides[0],
                         z : z + (ow - 1) * strides[1] + 1 : strides[1]]  # fmt: skip
                out[:, c] += np.einsum("nchw,c->nhw", part, b[c, :, i, j])
    return out.astype(np.int32)


def conv2d_transpose(
    x: Array, w: Array, zx: int, zw: int, strides: tuple[int, int], pads: tuple[int, ...]
) -> Array:
    """x [n, c, h, w], w [c, o, kh, kw]."""
    a, b = x.astype(np.int64) - zx, w.astype(np.int64) - zw
    n, _, h, wd = a.shape
    _, o, kh, kw = b.shape
    out = np.zeros((n, o, (h - 1) * strides[0] + kh, (wd - 1) * strides[1] + kw), np.int64)
    for i in range(h):
        for j in range(wd):
            y, z = i * strides[0], j * strides[1]
            part = np.einsum("nc,cohw->nohw", a[:, :, i, j], b)
            out[:, :, y : y + kh, z : z + kw] += part
    return out[:, :, pads[0] : out.shape[2] - pads[2], pads[1] : out.shape[3] - pads[3]].astype(
        np.int32
    )


def avg_pool2d(
    x: Array, zero: int, size: tuple[int, int], strides: tuple[int, int],
    pads: tuple[int, int, int, int], border: bool,
) -> Array:  # fmt: skip
    """Averages of differences [n, c, h, w], to the nearest integer, halves up."""
    wide = ((0, 0), (0, 0), pads[0::2], pads[1::2])
    a = np.pad(x.astype(np.int64) - zero, wide)
    inside = np.pad(np.ones(x.shape, np.int64), wide)
    oh = (a.shape[2] - size[0]) // strides[0] + 1
    ow = (a.shape[3] - size[1]) // strides[1] + 1
    out = np.empty((*x.shape[:2], oh, ow), np.int64)
    for i in range(oh):
        for j in range(ow):
            y, z = i * strides[0], j * strides[1]
            at = (slice(None), slice(None), slice(y, y + size[0]), slice(z, z + size[1]))
            count = size[0] * size[1] if border else inside[at].sum((2, 3))
            out[:, :, i, j] = np.floor(a[at].sum((2, 3)) / count + 0.5)
    return out


def softmax(x: Array, scale: float, axis: int) -> Array:
    """Shares of the sum with 30 fraction bits."""
    table = [round(math.exp(-float(np.float32(scale)) * d) * (1 << 16)) for d in range(256)]
    wide = x.astype(np.int64)
    parts = np.array(table)[wide.max(axis, keepdims=True) - wide]
    return np.asarray((parts << 30) // parts.sum(axis, keepdims=True))
