"""How convolutions, pools, normalisations and resizes are drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .draw import EPSILON, FLOATS, Draw, Out, Shape, Size, Skip, Value, count, fixed, rounded
from .ops_index import product_of
from .ops_move import an_axis, moved, with_zero
from .table import draws

__all__: list[str] = []

REAL = set(FLOATS) - {"bfloat16"}


def image(d: Draw, op: str, ranks: tuple[int, ...] = (1, 2, 2, 2, 3), kinds: Any = REAL) -> Value:
    """An image: one there is, or a new one."""
    rank = d.rng.choice(ranks)

    def shape() -> Shape:
        batch = (
            d.rng.choice(list(d.symbols))
            if d.symbols and d.chance(0.6)
            else d.const(d.between(1, 3))
        )
        channels = d.const(d.one(1, 2, 3, 4, 6, 8))
        space = []
        for _ in range(rank):
            free = d.symbols and d.chance(0.25)
            space.append(
                d.rng.choice(list(d.symbols))
                if free
                else d.const(d.between(1, 12 if rank < 3 else 6))
            )
        return (batch, channels, *space)

    def fits(v: Value) -> bool:
        return v.rank - 2 in ranks and v.shape[1].fixed

    return d.pick(d.types(op) & kinds, fits, shape)


class Windows:
    """Attributes of windows over an image, and the size of the result."""

    def __init__(self, d: Draw, x: Value, dilate: bool = True, ceil: bool = False) -> None:
        self.attrs: dict[str, Any] = {}
        self.kernel, self.space = [], []
        rank = x.rank - 2
        strides = [d.one(1, 1, 2, 3) for _ in range(rank)]
        dilations = [d.one(1, 1, 2) if dilate else 1 for _ in range(rank)]
        before, after = [], []
        auto = d.rng.choice(("", "", "", "SAME_UPPER", "SAME_LOWER", "VALID"))
        if auto.startswith("SAME"):
            dilations = [1] * rank
        for k, s in enumerate(x.shape[2:]):
            kernel = d.between(1, min(3 if rank > 1 else 5, max(1, (s.least + 1) // dilations[k])))
            span = (kernel - 1) * dilations[k] + 1
            pads = [d.between(0, kernel - 1) if not auto and d.chance(0.5) else 0 for _ in range(2)]
            before.append(pads[0])
            after.append(pads[1])
            self.kernel.append(kernel)
            if auto.startswith("SAME"):
                if strides[k] > kernel:
                    raise Skip
                out = (s + (strides[k] - 1)) // strides[k]
            else:
                free = s + (pads[0] + pads[1] - span)
                d.valid([e >= 0 for e in free])
                out = free // strides[k] + 1
                if ceil:
                    up = (free + (strides[k] - 1)) // strides[k] + 1
                    out = Size(
                        [u - 1 if (u - 1) * strides[k] >= e + pads[0] else u
                         for u, e in zip(up, s, strict=True)]
                    )  # fmt: skip
            self.space.append(out)
        if any(n != 1 for n in strides) or d.chance(0.3):
            self.attrs["strides"] = strides
        if any(n != 1 for n in dilations):
            self.attrs["dilations"] = dilations
        if auto:
            self.attrs["auto_pad"] = auto
        elif any(before) or any(after):
            self.attrs["pads"] = [*before, *after]
        self.strides, self.dilations, self.before, self.after = strides, dilations, before, after

    @property
    def taps(self) -> int:
        return math.prod(self.kernel)


@draws("Conv", weight=2.5)
def _conv(d: Draw, op: str) -> None:
    x = image(d, op)
    channels = x.shape[1][0]
    w = Windows(d, x)
    groups = d.rng.choice([g for g in (1, 1, 1, 2, 3, max(channels, 1)) if channels % g == 0])
    out = groups * d.between(1, 5)
    f = d.leaf(x.dtype, d.sizes(out, channels // groups, *w.kernel), -1.0, 1.0)
    attrs = {**w.attrs, **({"group": groups} if groups > 1 else {})}
    if d.chance(0.5):
        attrs["kernel_shape"] = w.kernel
    lo, hi, err, step = product_of(x, f, w.taps * channels // groups)
    lo = min(lo, 0.0)
    operands: list[Value | None] = [x, f]
    if d.chance(0.6):
        b = d.leaf(x.dtype, d.sizes(out))
        operands.append(b)
        lo, hi, err, step = rounded(x.dtype, lo + b.lo, hi + b.hi, err, min(step, b.step))
    d.emit(
        op, operands, attrs, [Out(x.dtype, (x.shape[0], d.const(out), *w.space), lo, hi, err, step)]
    )


@draws("ConvTranspose", weight=0.8)
def _conv_transpose(d: Draw, op: str) -> None:
    x = image(d, op, (1, 2, 2))
    channels, rank = x.shape[1][0], x.rank - 2
    kernel = [d.between(1, 3) for _ in range(rank)]
    strides = [d.one(1, 2, 3) for _ in range(rank)]
    dilations = [d.one(1, 1, 2) for _ in range(rank)]
    groups = d.rng.choice([g for g in (1, 1, 2, max(channels, 1)) if channels % g == 0])
    out = d.between(1, 4)
    attrs: dict[str, Any] = {"strides": strides, "dilations": dilations}
    extra = [
        d.between(0, max(s, t) - 1) if d.chance(0.3) else 0
        for s, t in zip(strides, dilations, strict=True)
    ]
    pads = [
        [
            d.between(0, (k - 1) * t) if d.chance(0.4) else 0
            for k, t in zip(kernel, dilations, strict=True)
        ]
        for _ in range(2)
    ]
    space = []
    for k, s in enumerate(x.shape[2:]):
        size = (s - 1) * strides[k] + (
            (kernel[k] - 1) * dilations[k] + 1 + extra[k] - pads[0][k] - pads[1][k]
        )
        if size.least < 1:
            raise Skip
        space.append(size)
    if any(extra):
        attrs["output_padding"] = extra
    if any(pads[0]) or any(pads[1]):
        attrs["pads"] = [*pads[0], *pads[1]]
    if groups > 1:
        attrs["group"] = groups
    f = d.leaf(x.dtype, d.sizes(channels, out, *kernel), -1.0, 1.0)
    operands: list[Value | None] = [x, f]
    lo, hi, err, step = product_of(x, f, math.prod(kernel) * channels // groups)
    lo = min(lo, 0.0)
    if d.chance(0.5):
        b = d.leaf(x.dtype, d.sizes(out * groups))
        operands.append(b)
        lo, hi, err, step = rounded(x.dtype, lo + b.lo, hi + b.hi, err, min(step, b.step))
    shape = (x.shape[0], d.const(out * groups), *space)
    d.emit(op, operands, attrs, [Out(x.dtype, shape, lo, hi, err, step)])


@draws("MaxPool", "AveragePool", weight=1.2)
def _pool(d: Draw, op: str) -> None:
    x = image(d, op)
    dilate = d.opset >= (10 if op == "MaxPool" else 19)
    ceil = d.opset >= 10 and d.chance(0.25)
    w = Windows(d, x, dilate, ceil)
    attrs = {**w.attrs, "kernel_shape": w.kernel, **({"ceil_mode": 1} if ceil else {})}
    shape = (*x.shape[:2], *w.space)
    if ceil and "auto_pad" in attrs:
        raise Skip
    if op == "MaxPool":
        if any(attrs.get("pads", ())) and max(attrs.get("dilations", (1,))) > 1:
            raise Skip  # a window on the border alone: minus infinity, or the lowest number
        d.emit(op, [x], attrs, [moved(x, shape)])
        return
    if d.chance(0.5):
        attrs["count_include_pad"] = d.between(0, 1)
    if ceil and (attrs.get("count_include_pad") or any(w.after)):
        raise Skip
    err = x.err + (w.taps + 2) * EPSILON[x.dtype] * x.top
    d.emit(op, [x], attrs, [Out(x.dtype, shape, min(x.lo, 0), max(x.hi, 0), err)])


@draws("GlobalAveragePool", "GlobalMaxPool", weight=0.5)
def _global(d: Draw, op: str) -> None:
    x = image(d, op)
    shape = (*x.shape[:2], *[d.const(1) for _ in x.shape[2:]])
    if op == "GlobalMaxPool":
        d.emit(op, [x], {}, [moved(x, shape)])
        return
    err = x.err + (count(x.shape[2:]) + 2) * EPSILON[x.dtype] * x.top
    d.emit(op, [x], {}, [Out(x.dtype, shape, x.lo, x.hi, err)])


# ---------------------------------------------------------------------------------- normalisations


def _normalised(x: Value, n: int, epsilon: float, scale: Value, bias: Value | None) -> Out:
    """Bounds of (x - mean) / sqrt(variance + epsilon) scale + bias over n elements."""
    eps = EPSILON[x.dtype]
    top = math.sqrt(n)
    slope = 2 / math.sqrt(epsilon)
    err = slope * (x.err + (n + 4) * eps * x.top) * (1 + top) + 16 * eps * top
    hi = top * scale.top + (bias.top if bias else 0.0)
    return Out(x.dtype, x.shape, -hi, hi, err * scale.top + 4 * eps * hi)


def _epsilon(d: Draw) -> float:
    return float(d.one(1e-1, 1e-2, 0.5))


@draws("LayerNormalization", "RMSNormalization", weight=0.7)
def _layer_norm(d: Draw, op: str) -> None:
    x = d.pick(d.types(op) & REAL, where=lambda v: v.rank > 0)
    axis = an_axis(d, x.rank)
    tail = x.shape[axis % x.rank :]
    if any(not s.fixed for s in tail):
        raise Skip
    scale = d.leaf(x.dtype, tail)
    bias = d.leaf(x.dtype, tail) if op[0] == "L" and d.chance(0.6) else None
    epsilon = _epsilon(d)
    out = _normalised(x, count(tail), epsilon, scale, bias)
    d.emit(op, [x, scale, *([bias] if bias else [])], {"axis": axis, "epsilon": epsilon}, [out])


@draws("InstanceNormalization", "GroupNormalization", weight=0.5)
def _instance_norm(d: Draw, op: str) -> None:
    x = image(d, op)
    channels, epsilon = x.shape[1][0], _epsilon(d)
    attrs: dict[str, Any] = {"epsilon": epsilon}
    n, wide = count(x.shape[2:]), channels
    if op == "GroupNormalization":
        groups = d.rng.choice([g for g in (1, 2, 3, max(channels, 1)) if channels % g == 0])
        attrs["num_groups"] = groups
        n, wide = n * channels // groups, channels if d.opset >= 21 else groups
        if d.opset < 21:
            raise Skip
    scale, bias = d.leaf(x.dtype, d.sizes(wide)), d.leaf(x.dtype, d.sizes(wide))
    d.emit(op, [x, scale, bias], attrs, [_normalised(x, n, epsilon, scale, bias)])


@draws("BatchNormalization", weight=0.8)
def _batch_norm(d: Draw, op: str) -> None:
    x = image(d, op)
    channels = d.sizes(x.shape[1][0])
    scale, bias, mean = [d.leaf(x.dtype, channels) for _ in range(3)]
    var = d.leaf(x.dtype, channels, 0.25, 2.0)
    top = (x.top + mean.top) * 2 * scale.top
    hi = top + bias.top
    err = x.err * 2 * scale.top + 12 * EPSILON[x.dtype] * (top + bias.top)
    attrs = {"epsilon": 1e-3} if d.chance(0.5) else {}
    if x.dtype == "float64":
        err += 1e-9 * hi
    d.emit(op, [x, scale, bias, mean, var], attrs, [Out(x.dtype, x.shape, -hi, hi, err)])


@draws("LRN", weight=0.3)
def _lrn(d: Draw, op: str) -> None:
    x = image(d, op, (2,))
    attrs = {"size": d.one(1, 3, 5), "alpha": 0.125, "beta": 0.75, "bias": float(d.between(1, 2))}
    err = x.err * (1 + 2 * x.top) + 40 * EPSILON[x.dtype] * x.top
    d.emit(op, [x], attrs, [Out(x.dtype, x.shape, x.lo, x.hi, err)])


@draws("LpNormalization", weight=0.3)
def _lp_norm(d: Draw, op: str) -> None:
    x = d.pick(d.types(op) & REAL, where=lambda v: v.rank > 0, lo=0.5)
    axis, p = an_axis(d, x.rank), d.between(1, 2)
    n = max(x.shape[axis])
    err = 2 * x.err / x.lo + (n + 8) * EPSILON[x.dtype]
    d.emit(op, [x], {"axis": axis, "p": p}, [Out(x.dtype, x.shape, 0, 1, err)])


@draws("MeanVarianceNormalization", weight=0.2)
def _mean_variance(d: Draw, op: str) -> None:
    """Of fresh values only, which do differ."""
    x = d.leaf(
        "float32",
        d.sizes(d.between(2, 3), d.between(1, 3), d.between(4, 7), d.between(4, 7)),
        -2,
        2,
        False,
        False,
    )
    d.emit(op, [x], {}, [Out(x.dtype, x.shape, -12, 12, 1e-4)])


# ----------------------------------------------------------------------------------------- resizes


@draws("Resize", "Upsample", weight=1.0)
def _resize(d: Draw, op: str) -> None:
    """Scales are powers of two or whole, so that nearest has no near-ties that rounding decides."""
    if (op == "Upsample") != (d.opset < 10):
        raise Skip
    x = image(d, op, (1, 2, 2), REAL - {"float64"})
    mode = d.one("nearest", "linear", *(("cubic",) if x.rank == 4 and d.opset >= 11 else ()))
    scales = [1.0, 1.0, *[d.one(2.0, 1.0, 3.0, 0.5, 4.0) for _ in x.shape[2:]]]
    if op == "Upsample":
        scales = [max(s, 1.0) for s in scales]
    shape = []
    for s, by in zip(x.shape, scales, strict=True):
        found = s // 2 if by == 0.5 else s * int(by)
        if found.least < 1:
            raise Skip
        shape.append(found)
    wide = moved(x, shape) if mode == "nearest" else with_zero(x, shape)
    if mode != "nearest":
        grow = 2.2 if mode == "cubic" else 1.0
        wide = Out(
            x.dtype,
            shape,
            -grow * x.top,
            grow * x.top,
            grow * x.err + 64 * EPSILON[x.dtype] * x.top,
        )
    attrs: dict[str, Any] = {"mode": mode}
    if d.opset < 9:
        d.emit(op, [x], {**attrs, "scales": scales}, [wide])
        return
    factors = d.constant(np.array(scales, np.float32))
    if d.opset < 11:
        d.emit(op, [x, factors], attrs, [wide])
        return
    ways = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    attrs["coordinate_transformation_mode"] = way = d.rng.choice(ways)
    halved = [s for s, by in zip(x.shape, scales, strict=True) if by == 0.5]
    if way == "align_corners" and any(e % 2 for s in halved for e in s):
        raise Skip
    if mode == "nearest":
        if way == "align_corners":
            raise Skip
        attrs["nearest_mode"] = d.one("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
        if 3.0 in scales:
            raise Skip
    if mode == "cubic" and d.chance(0.4):
        attrs["exclude_outside"] = 1
    if x.static and d.chance(0.4) and way != "align_corners" and 0.5 not in scales:
        sizes = d.ints([s[0] for s in shape])
        d.emit(op, [x, None, None, sizes], attrs, [wide])
        return
    roi = d.constant(np.zeros(0, np.float32)) if d.opset < 13 else None
    d.emit(op, [x, roi, factors], attrs, [wide])


# ----------------------------------------------------------------------------------- quantisation


@draws("QuantizeLinear", "DequantizeLinear", weight=0.6)
def _quantize(d: Draw, op: str) -> None:
    """Scales are powers of two, so that quotients are exact; halves are rounded to even."""
    q = d.one("uint8", "int8")
    x = d.pick(q) if op == "DequantizeLinear" else d.pick("float32", where=lambda v: v.exact)
    per_axis = d.opset >= 13 and x.rank > 0 and d.chance(0.4)
    axis = an_axis(d, x.rank) if per_axis else 0
    n = fixed(x.shape[axis]) if per_axis else 1
    numbers = np.array([2.0 ** d.between(-3, 2) for _ in range(n)], np.float32).reshape(
        [n] if per_axis else []
    )
    scale = d.constant(numbers)
    zeros = np.array([d.between(0, 9) for _ in range(n)]).astype(q).reshape(numbers.shape)
    operands: list[Value | None] = [x, scale]
    if q == "int8" or d.chance(0.6):
        operands.append(d.constant(zeros))
    attrs = {"axis": axis} if per_axis else {}
    if op == "QuantizeLinear":
        info = np.iinfo(q)
        d.emit(op, operands, attrs, [Out(q, x.shape, info.min, info.max, 0, 1)])
    else:
        top = (x.top + 9) * 4
        d.emit(op, operands, attrs, [Out("float32", x.shape, -top, top, 0, 1 / 8)])
