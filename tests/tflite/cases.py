"""Random models of one operator each: shapes, scales, zero points, borders, steps, activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from smelt.frontend.tflite.quantized import NARROW
from tests.tflite.build import Array, Spec, const, one

Random = np.random.Generator


@dataclass
class Case:
    """A model and its inputs.

    reference  whether the reference kernels are the measure; some of them are missing or wrong
    slack      by how much whole numbers may differ: 1 where a table hangs on the last bit of a
               function of libm, which no standard says
    """

    model: bytes
    inputs: list[Array]
    reference: bool = True
    slack: int = 0


CASES: dict[str, Callable[[Random], Case]] = {}
"""Makers of cases by name: the operator in small letters, and the element type."""


def _of(fn: Callable[..., Case], dtype: str, r: Random) -> Case:
    return fn(r, dtype)


def case(*names: str) -> Callable[[Callable[..., Case]], Callable[..., Case]]:
    """Enter a maker of cases; with several types, one for each: it gets the type."""

    def enter(fn: Callable[..., Case]) -> Callable[..., Case]:
        for name in names:
            dtype = name.rpartition(".")[2]
            CASES[name] = partial(_of, fn, dtype)
        return fn

    return enter


# ----------------------------------------------------------------------------------- random parts


def pick(r: Random, *items: Any) -> Any:
    """One of some things."""
    return items[int(r.integers(len(items)))]


def extents(r: Random, rank: int, most: int = 6) -> tuple[int, ...]:
    """A shape."""
    return tuple([int(r.integers(1, most + 1)) for _ in range(rank)])


def data(r: Random, shape: Sequence[int], dtype: str) -> Array:
    """Elements all over a type's range; floats around zero."""
    if dtype.startswith("float"):
        return np.asarray(r.normal(0, 2, shape)).astype(dtype)
    if dtype == "bool":
        return np.asarray(r.integers(0, 2, shape)).astype(bool)
    if dtype in ("int32", "int64"):
        return np.asarray(r.integers(-50, 50, shape)).astype(dtype)
    ends = np.iinfo(dtype)
    x = np.asarray(r.integers(ends.min, ends.max, shape, endpoint=True)).astype(dtype)
    if x.size > 1:
        x.flat[0], x.flat[-1] = ends.min, ends.max
    return x


def zero_of(r: Random, dtype: str) -> int:
    """A zero point, the ends of the range among them."""
    if dtype in ("int16", "int32"):
        return 0
    low = -128 if dtype == "int8" else 0
    return low + int(pick(r, 0, 255, 128, *r.integers(0, 256, 4)))


def scale_of(r: Random, low: float = 0.002, high: float = 0.3) -> float:
    """A scale."""
    return float(np.float32(np.exp(r.uniform(np.log(low), np.log(high)))))


def scale_from(s: Spec) -> float:
    """The scale that a tensor has."""
    return float(np.max(np.asarray(s.scale, np.float32)))


def spec(r: Random, shape: Sequence[int], dtype: str, like: Spec | None = None) -> Spec:
    """A tensor; quantized where it is of 8 or 16 bits, as another one if there is one."""
    shape = tuple(shape)
    if dtype not in ("int8", "uint8", "int16"):
        return Spec(shape, dtype)
    if like is not None:
        return Spec(shape, dtype, like.scale, like.zero)
    return Spec(shape, dtype, scale_of(r), zero_of(r, dtype))


def made(
    r: Random, op: str, operands: Sequence[Spec | None], results: Sequence[Spec], kind: str = "",
    version: int = 1, **options: Any,
) -> Case:  # fmt: skip
    """A case with random inputs."""
    model = one(op, operands, results, kind, version, **options)
    given = [o for o in operands if o is not None and o.data is None]
    return Case(model, [data(r, o.shape, o.dtype) for o in given])


FLOAT_AND_BYTES = ("float32", "int8", "uint8")
QUANTIZED = (*FLOAT_AND_BYTES, "int16")


def each(name: str, *types: str) -> tuple[str, ...]:
    """Names for several types."""
    return tuple([f"{name}.{t}" for t in types])


# ----------------------------------------------------------------------------------- convolutions


def _image(r: Random, channels: int) -> tuple[int, int, int, int]:
    return int(r.integers(1, 3)), int(r.integers(3, 10)), int(r.integers(3, 10)), channels


def _placed(
    r: Random, image: Sequence[int], kernel: Sequence[int], spread: bool = True
) -> tuple[dict[str, int], list[int]]:
    """Steps, and a border under which the window fits, and the extents of the result."""
    strides = [int(r.integers(1, 4)) for _ in range(2)]
    dilations = [1, 1]
    if spread and max(strides) == 1:
        dilations = [int(pick(r, 1, 1, 2)) for _ in range(2)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    padding = 0 if any(n > e for n, e in zip(reach, image, strict=True)) else int(r.integers(2))
    out = [
        -(-e // s) if padding == 0 else (e - n) // s + 1
        for e, s, n in zip(image, strides, reach, strict=True)
    ]
    placed = {"Padding": padding, "StrideH": strides[0], "StrideW": strides[1],
              "DilationHFactor": dilations[0], "DilationWFactor": dilations[1]}  # fmt: skip
    return placed, out


def _weights(r: Random, shape: Sequence[int], dtype: str, axis: int, several: bool) -> Spec:
    if dtype.startswith("float"):
        return const(data(r, shape, dtype))
    w = data(r, shape, dtype)
    if dtype == "int8":
        w = np.maximum(w, -127)
    count = shape[axis] if several and dtype == "int8" else 1
    scales = [scale_of(r, 0.002, 0.02) for _ in range(count)]
    zero = int(r.integers(0, 256)) if dtype == "uint8" else 0
    return const(w, scale=scales, zero=[zero] * count, axis=axis)


def _bias(r: Random, count: int, x: Spec, w: Spec, needed: bool = False) -> list[Spec]:
    """A bias, or none."""
    if not needed and r.integers(4) == 0:
        return []
    if x.dtype.startswith("float"):
        return [const(data(r, (count,), x.dtype))]
    scales = np.float32(scale_from(x)) * np.atleast_1d(np.asarray(w.scale, np.float32))
    kind = "int64" if x.dtype == "int16" else "int32"
    return [const(r.integers(-3000, 3000, count), kind, scale=scales.tolist())]


def _result(r: Random, shape: Sequence[int], dtype: str, x: Spec, w: Spec, depth: int) -> Spec:
    """A result whose scale uses some of its range, or too little, or too much."""
    if dtype.startswith("float"):
        return Spec(tuple(shape), dtype)
    step = float(np.float32(scale_from(x)) * scale_from(w))
    scale = step * np.sqrt(depth) * 40 * float(np.exp(r.uniform(-2, 2)))
    scale = scale / 3 if dtype == "int16" else scale
    return Spec(tuple(shape), dtype, float(np.float32(scale)), zero_of(r, dtype))


def _activation(r: Random) -> int:
    return int(pick(r, 0, 0, 1, 2, 3))


@case(*each("conv_2d", *FLOAT_AND_BYTES, "int16", "hybrid"))
def _conv(r: Random, dtype: str) -> Case:
    t = "float32" if dtype == "hybrid" else dtype
    groups = int(pick(r, 1, 1, 1, 2)) if dtype in ("int8", "float32") else 1
    depth, kernel = int(r.integers(1, 6)), extents(r, 2, 3)
    image = _image(r, depth * groups)
    filters = groups * int(r.integers(1, 5))
    placed, out = _placed(r, image[1:3], kernel)
    w = _weights(r, (filters, *kernel, depth), "int8" if dtype in ("hybrid", "int16") else t, 0,
                 several=bool(r.integers(3)))  # fmt: skip
    x = spec(r, image, t)
    y = _result(r, (image[0], *out, filters), t, x, w, depth * kernel[0] * kernel[1])
    operands = [x, w, *_bias(r, filters, x, w, needed=True)]
    return made(r, "CONV_2D", operands, [y], "Conv2DOptions", 5, **placed,
                FusedActivationFunction=_activation(r))  # fmt: skip


@case(*each("depthwise_conv_2d", *FLOAT_AND_BYTES, "int16", "hybrid"))
def _depthwise(r: Random, dtype: str) -> Case:
    t = "float32" if dtype == "hybrid" else dtype
    channels, each_, kernel = int(r.integers(1, 6)), int(r.integers(1, 4)), extents(r, 2, 3)
    image = _image(r, channels)
    placed, out = _placed(r, image[1:3], kernel)
    filters = channels * each_
    several = dtype == "hybrid" or bool(r.integers(3))
    w = _weights(
        r, (1, *kernel, filters), "int8" if dtype in ("hybrid", "int16") else t, 3, several
    )
    x = spec(r, image, t)
    y = _result(r, (image[0], *out, filters), t, x, w, kernel[0] * kernel[1])
    version = {"hybrid": 6, "int16": 5}.get(dtype, 3)
    return made(r, "DEPTHWISE_CONV_2D", [x, w, *_bias(r, filters, x, w)], [y],
                "DepthwiseConv2DOptions", version, **placed, DepthMultiplier=each_,
                FusedActivationFunction=_activation(r))  # fmt: skip


@case(*each("fully_connected", *FLOAT_AND_BYTES, "int16", "hybrid"))
def _fully(r: Random, dtype: str) -> Case:
    t = "float32" if dtype == "hybrid" else dtype
    batch, depth, outputs = int(r.integers(1, 5)), int(r.integers(1, 40)), int(r.integers(1, 20))
    w = _weights(r, (outputs, depth), "int8" if dtype in ("hybrid", "int16") else t, 0,
                 several=bool(r.integers(2)))  # fmt: skip
    keep = bool(r.integers(2))
    x = spec(r, (batch, 2, depth) if keep else (batch, depth), t)
    y = _result(r, (*x.shape[:-1], outputs), t, x, w, depth)
    more = {"AsymmetricQuantizeInputs": bool(r.integers(2))} if dtype == "hybrid" else {}
    operands = [x, w, *_bias(r, outputs, x, w)]
    return made(r, "FULLY_CONNECTED", operands, [y], "FullyConnectedOptions",
                {"hybrid": 9, "int16": 7}.get(dtype, 5), KeepNumDims=keep,
                FusedActivationFunction=_activation(r), **more)  # fmt: skip


@case(*each("transpose_conv", *QUANTIZED))
def _transposed(r: Random, dtype: str) -> Case:
    depth, filters, kernel = int(r.integers(1, 6)), int(r.integers(1, 5)), extents(r, 2, 4)
    out = [int(r.integers(4, 12)) for _ in range(2)]
    strides = [int(r.integers(1, 4)) for _ in range(2)]
    padding = int(r.integers(2))
    old = [-(-e // s) if padding == 0 else (e - k) // s + 1
           for e, s, k in zip(out, strides, kernel, strict=True)]  # fmt: skip
    batch = int(r.integers(1, 3))
    x = spec(r, (batch, *old, depth), dtype)
    w = _weights(r, (filters, *kernel, depth), "int8" if dtype == "int16" else dtype, 0,
                 bool(r.integers(2)))  # fmt: skip
    y = _result(r, (batch, *out, filters), dtype, x, w, depth * kernel[0] * kernel[1])
    operands = [const([batch, *out, filters], "int32"), w, x, *_bias(r, filters, x, w)]
    return made(r, "TRANSPOSE_CONV", operands, [y], "TransposeConvOptions", 3, Padding=padding,
                StrideH=strides[0], StrideW=strides[1])  # fmt: skip


@case(*each("batch_matmul", "float32", "int8", "int16"))
def _batch_matmul(r: Random, dtype: str) -> Case:
    m, k, n = extents(r, 3, 9)
    turn = bool(r.integers(2)), bool(r.integers(2))
    lead = extents(r, int(r.integers(1, 3)), 3)
    a = spec(r, (*lead, *((k, m) if turn[0] else (m, k))), dtype)
    narrow = pick(r, "int8", "int16") if dtype == "int16" else dtype
    b = spec(r, (*lead, *((n, k) if turn[1] else (k, n))), narrow)
    if dtype == "int16":
        b.zero = 0
    y = _result(r, (*lead, m, n), dtype, a, b, k)
    return made(r, "BATCH_MATMUL", [a, b], [y], "BatchMatMulOptions", 2, AdjX=turn[0],
                AdjY=turn[1])  # fmt: skip


# ------------------------------------------------------------------------------------------ pools


def _pool(op: str, r: Random, dtype: str) -> Case:
    image, kernel = _image(r, int(r.integers(1, 6))), extents(r, 2, 4)
    placed, out = _placed(r, image[1:3], kernel, spread=False)
    given = {k: v for k, v in placed.items() if "Dilation" not in k}
    x = spec(r, image, dtype)
    y = spec(r, (image[0], *out, image[3]), dtype, like=x)
    return made(r, op, [x], [y], "Pool2DOptions", 2 if dtype == "int8" else 1, **given,
                FilterHeight=kernel[0], FilterWidth=kernel[1],
                FusedActivationFunction=_activation(r))  # fmt: skip


@case(*each("average_pool_2d", *QUANTIZED))
def _average(r: Random, dtype: str) -> Case:
    return _pool("AVERAGE_POOL_2D", r, dtype)


@case(*each("max_pool_2d", *QUANTIZED))
def _max_pool(r: Random, dtype: str) -> Case:
    return _pool("MAX_POOL_2D", r, dtype)


@case("l2_pool_2d.float32")
def _l2_pool(r: Random, dtype: str) -> Case:
    return _pool("L2_POOL_2D", r, dtype)


# -------------------------------------------------------------------------------------- arithmetic


def _pair(r: Random) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast, and what they broadcast to."""
    shape = extents(r, int(r.integers(1, 5)))
    way = int(r.integers(4))
    other = shape
    if way == 1:
        other = tuple([1 if r.integers(2) else e for e in shape])
    elif way == 2:
        other = shape[int(r.integers(len(shape))) :]
    pair = (shape, other) if r.integers(2) else (other, shape)
    return (*pair, shape)


def _binary(op: str, kind: str, types: Sequence[str], *, fused: bool, version: int = 2) -> None:
    @case(*each(op.lower(), *types))
    def make(r: Random, dtype: str) -> Case:
        first, second, shape = _pair(r)
        a, b, y = spec(r, first, dtype), spec(r, second, dtype), spec(r, shape, dtype)
        more = {"FusedActivationFunction": _activation(r)} if fused else {}
        if op in ("ADD", "SUB") and dtype == "int16":
            more["PotScaleInt16"] = bool(r.integers(2))
            if more["PotScaleInt16"]:  # the kernel does not broadcast
                one_, other = (float(2.0**-p) for p in r.integers(9, 14, 2))
                a.scale, b.scale, y.scale = one_, other, max(one_, other)
                a.shape = b.shape = shape
        elif dtype == "int16":  # larger products have no place in int32
            y.scale = float(np.float32(scale_from(a) * scale_from(b) * r.uniform(2, 2**16)))
        if r.integers(3) == 0:
            b.data = data(r, b.shape, dtype)
        return made(r, op, [a, b], [y], kind, version, **more)


for _op in ("ADD", "SUB", "MUL"):
    _binary(_op, f"{_op.title()}Options", ("float32", "int8", "uint8", "int32", "int16"),
            fused=True, version=3 if _op == "MUL" else 2)  # fmt: skip
_binary("SQUARED_DIFFERENCE", "SquaredDifferenceOptions", ("float32", "int8"), fused=False)


def _choose(op: str) -> None:
    @case(*each(op.lower(), *QUANTIZED, "int32"))
    def make(r: Random, dtype: str) -> Case:
        first, second, shape = _pair(r)
        a = spec(r, first, dtype)
        return made(r, op, [a, spec(r, second, dtype, a)], [spec(r, shape, dtype, a)],
                    "MaximumMinimumOptions", 2)  # fmt: skip


_choose("MAXIMUM")
_choose("MINIMUM")


def _compare(op: str, kind: str) -> None:
    @case(*each(op.lower(), *QUANTIZED, "int32"))
    def make(r: Random, dtype: str) -> Case:
        first, second, shape = _pair(r)
        a, b = spec(r, first, dtype), spec(r, second, dtype)
        if r.integers(2) and a.scale is not None:
            b.scale, b.zero = a.scale, a.zero
        return made(r, op, [a, b], [Spec(shape, "bool")], kind, 2)


for _op, _kind in (("EQUAL", "Equal"), ("NOT_EQUAL", "NotEqual"), ("LESS", "Less"),
                   ("LESS_EQUAL", "LessEqual"), ("GREATER", "Greater"),
                   ("GREATER_EQUAL", "GreaterEqual")):  # fmt: skip
    _compare(_op, f"{_kind}Options")


def _quotients(op: str, kind: str, types: Sequence[str]) -> None:
    @case(*each(op.lower(), *types))
    def make(r: Random, dtype: str) -> Case:
        first, second, shape = _pair(r)
        a, b, y = spec(r, first, dtype), spec(r, second, dtype), spec(r, shape, dtype)
        if y.scale is not None:  # where the kernel shifts by more than 31 bits it is wrong
            ratio = np.exp(r.uniform(5, 7) + (6 if dtype == "int16" else 0))
            y.scale = float(np.float32(scale_from(a) / scale_from(b) / ratio))
        c = made(r, op, [a, b], [y], kind, 2 if dtype != "float32" else 1)
        if op == "POW":
            c.inputs[0] = np.abs(c.inputs[0])
        if y.scale is not None:
            c.inputs[1] = np.where(c.inputs[1] == b.zero, c.inputs[1] ^ 1, c.inputs[1])
            return c
        c.inputs[1] = np.where(np.abs(c.inputs[1]) < 0.1, 3, c.inputs[1]).astype(dtype)
        return c


_quotients("DIV", "DivOptions", (*QUANTIZED, "int32"))
_quotients("FLOOR_DIV", "FloorDivOptions", ("float32", "int32"))
_quotients("FLOOR_MOD", "FloorModOptions", ("float32", "int32"))
_quotients("POW", "PowOptions", ("float32",))


# --------------------------------------------------------------------------------------- functions

_FIXED = {"logistic": (1 / 256, -128), "tanh": (1 / 128, 0)}


def _unary(op: str, types: Sequence[str], version: int = 1, kind: str = "", **options: Any) -> None:
    @case(*each(op.lower(), *types))
    def make(r: Random, dtype: str) -> Case:
        shape = extents(r, int(r.integers(1, 5)))
        if dtype in ("int8", "uint8", "int16"):
            shape = (*shape, 40)
        x, y = spec(r, shape, dtype), spec(r, shape, dtype)
        if op.lower() in _FIXED and dtype in ("int8", "uint8"):
            scale, zero = _FIXED[op.lower()]
            y.scale, y.zero = scale, zero + (128 if dtype == "uint8" else 0)
        if dtype == "int16":
            x.scale = scale_of(r, 1e-5, 1e-3)
            y.scale = 1 / 32768 if op.lower() in _FIXED else scale_of(r, 1e-5, 1e-3)
        if op in ("RSQRT", "SQRT", "LOG") and dtype == "int8":
            x.zero = -128
        given = {k: v(r) if callable(v) else v for k, v in options.items()}
        c = made(r, op, [x], [y], kind, version, **given)
        if op in ("RSQRT", "SQRT", "LOG") and dtype == "float32":
            c.inputs[0] = np.abs(c.inputs[0]) + np.float32(0.1)
        if op in ("RSQRT", "SQRT") and dtype == "int16":
            c.inputs[0] = (c.inputs[0] & 0x7FFF) | 1
        c.slack = int(op in ("GELU", "LOG") and dtype == "int16")
        return c


_unary("LOGISTIC", QUANTIZED, 3)
_unary("TANH", QUANTIZED, 3)
_unary("RELU", QUANTIZED, 2)
_unary("RELU6", QUANTIZED, 2)
_unary("RELU_N1_TO_1", ("float32", "int8"))
_unary("RELU_0_TO_1", ("float32", "int8"))
_unary("HARD_SWISH", FLOAT_AND_BYTES)
_unary("LEAKY_RELU", QUANTIZED, 2, "LeakyReluOptions", Alpha=lambda r: float(r.uniform(0, 1)))
_unary("EXP", ("float32", "int8", "int16"), 2)
_unary("LOG", ("float32", "int8", "int16"), 2)
_unary("SQRT", ("float32", "int8", "int16"), 2)
_unary("RSQRT", ("float32", "int8", "int16"), 2)
_unary("ABS", ("float32", "int8", "int16"), 2)
_unary("NEG", ("float32", "int8", "int16"))
_unary(
    "GELU",
    ("float32", "int8", "int16"),
    2,
    "GeluOptions",
    Approximate=lambda r: bool(r.integers(2)),
)
for _name in ("FLOOR", "SIN", "COS", "SQUARE"):
    _unary(_name, ("float32",))


@case(*each("prelu", *QUANTIZED))
def _prelu(r: Random, dtype: str) -> Case:
    image = _image(r, int(r.integers(1, 6)))
    s = spec(r, (1, 1, image[3]), "int8" if dtype == "int16" else dtype)
    s.data = data(r, s.shape, s.dtype)
    s.zero = 0 if dtype == "int16" else s.zero
    return made(r, "PRELU", [spec(r, image, dtype), s], [spec(r, image, dtype)])


@case(*each("softmax", *QUANTIZED))
def _softmax(r: Random, dtype: str) -> Case:
    shape = (*extents(r, int(r.integers(1, 4)), 4), int(r.integers(1, 40)))
    x, y = spec(r, shape, dtype), spec(r, shape, dtype)
    if dtype != "float32":
        y.scale, y.zero = 1 / 256, -128 if dtype == "int8" else 0
    if dtype == "int16":
        x.scale, y.scale = scale_of(r, 1e-5, 1e-3), 1 / 32768
    c = made(r, "SOFTMAX", [x], [y], "SoftmaxOptions", 3, Beta=float(pick(r, 1.0, 1.0, 0.5, 2.0)))
    if r.integers(2) and dtype != "float32":
        c.inputs[0] = (c.inputs[0] // 8).astype(dtype)
    return c


_TARGETS = {"int16": ("int8", "int16", "int32"), "int32": ("int8", "int16")}


@case(*each("quantize", *QUANTIZED, "int32"))
def _quantize(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 5)), 8)
    x, y = spec(r, shape, dtype), spec(r, shape, pick(r, *_TARGETS.get(dtype, NARROW)))
    for s in (x, y):
        if s.dtype == "int32":
            s.scale = scale_of(r)
    return made(r, "QUANTIZE", [x], [y], "", 3 if dtype in _TARGETS else 2)


@case(*each("dequantize", "int8", "uint8", "int16"))
def _dequantize(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 5)), 8)
    return made(r, "DEQUANTIZE", [spec(r, shape, dtype)], [Spec(shape)], "", 3)
