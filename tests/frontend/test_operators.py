"""Every operator in a model of one node, against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from .models import check, model, node, random

F32, I64, BOOL = np.float32, np.int64, np.bool_


class Case(NamedTuple):
    """One node: operands that are inputs, operands that are constants, attributes."""

    op: str
    inputs: tuple[Any, ...]
    attrs: dict[str, Any] = {}  # noqa: RUF012
    opset: int = 18
    known: tuple[Any, ...] = ()
    outputs: int = 1
    tolerance: float = 2e-6


def case(
    op: str,
    *inputs: Any,
    opset: int = 18,
    known: Sequence[Any] = (),
    outputs: int = 1,
    tolerance: float = 2e-6,
    **attrs: Any,
) -> Case:
    return Case(op, inputs, attrs, opset, tuple(known), outputs, tolerance)


def run(c: Case) -> None:
    names, inputs, constants, given = [], {}, {}, {}
    for k, x in enumerate((*c.inputs, *c.known)):
        if x is None:
            names.append("")
            continue
        names.append(f"x{k}")
        array = np.asarray(x)
        if k < len(c.inputs):
            inputs[f"x{k}"] = (array.shape, array.dtype)
            given[f"x{k}"] = array
        else:
            constants[f"x{k}"] = array
    outputs = [f"y{k}" for k in range(c.outputs)]
    made = model([node(c.op, names, outputs, **c.attrs)], inputs, outputs, constants, c.opset)
    check(made, given, c.tolerance)


def ints(*values: int) -> np.ndarray:
    return np.array(values, I64)


X = random(2, 3, 4)
P = np.abs(X) + 0.1
U = np.tanh(X) * 0.9
B = X > 0
N = np.arange(-12, 12).reshape(2, 3, 4)
IMAGE = random(2, 4, 7, 8)
W = random(6, 4, 3, 3, seed=1)
V6 = random(6, seed=2)
C4 = [random(4, seed=k) for k in (3, 4, 5)]
VAR = np.abs(random(4, seed=6)) + 0.5

UNARY = [
    *[
        case(op, X)
        for op in (
            "Abs",
            "Neg",
            "Exp",
            "Tanh",
            "Sigmoid",
            "Erf",
            "Relu",
            "Sin",
            "Cos",
            "Tan",
            "Atan",
            "Sinh",
            "Cosh",
            "Asinh",
            "Floor",
            "Ceil",
            "Sign",
            "Softplus",
            "Softsign",
            "HardSwish",
            "Mish",
            "Identity",
            "IsNaN",
        )
    ],
    *[case(op, P) for op in ("Log", "Sqrt", "Reciprocal")],
    *[case(op, U, tolerance=5e-6) for op in ("Asin", "Acos", "Atanh")],
    case("Acosh", P + 1),
    case("Round", np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.3], F32)),
    case("Not", B),
    case("Abs", N),
    case("Neg", N),
    case("IsInf", np.array([np.inf, -np.inf, 1, np.nan], F32), detect_negative=0),
    case("Cast", X, to=7),
    case("Cast", N, to=1),
    case("Cast", X, to=9),
    case("Cast", B, to=1),
    case("Cast", X, to=11),
    case("Cast", N.astype(np.int32), to=7),
    case("CastLike", N, known=[random(1)]),
    case("LeakyRelu", X, alpha=0.3),
    case("ThresholdedRelu", X, alpha=0.5),
    case("Elu", X, alpha=1.3),
    case("Celu", X, alpha=0.7),
    case("Selu", X),
    case("HardSigmoid", X, alpha=0.3),
    case("Gelu", X, opset=20),
    case("Gelu", X, opset=20, approximate="tanh"),
    case("Clip", X, opset=7, min=-0.5, max=0.5),
    case("Clip", X, known=[F32(-0.5), F32(0.5)]),
    case("Clip", X, None, F32(0.2)),
    case("Clip", X, known=[None, F32(0.2)]),
    case("Clip", X, opset=7),
    case("Dropout", X),
    case("Dropout", X, opset=7, ratio=0.3),
    case("Shrink", X, bias=0.1, lambd=0.4),
    case("MeanVarianceNormalization", IMAGE, tolerance=5e-6),
    case("Hardmax", X, axis=1),
]

BINARY = [
    *[
        case(op, X, random(3, 1, seed=9))
        for op in ("Add", "Sub", "Mul", "Div", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
    ],
    *[case(op, B, ~B) for op in ("And", "Or", "Xor")],
    case("Equal", N, N % 5),
    case("Pow", P, X),
    case("Pow", X, known=[F32(2)]),
    case("Pow", P, known=[ints(3)]),
    case("Div", N, N % 5 + 2),
    case("Mod", N, N % 5 + 2),
    case("Mod", X, P, fmod=1),
    case("Mod", N, N % 5 - 6),
    case("Mod", N, N % 5 - 6, fmod=1),
    case("PRelu", IMAGE, random(4, 1, 1)),
    case("Sum", X, U, P),
    case("Mean", X, U, P),
    case("Max", X, U, P),
    case("Min", X, U),
    case("Max", X),
    case("Where", B, X, P),
    case("BitShift", N.astype(np.uint32) % 16, np.full((2, 3, 4), 2, np.uint32), direction="LEFT"),
    case("BitShift", N.astype(np.uint32), np.full((2, 3, 4), 2, np.uint32), direction="RIGHT"),
    *[case(op, N, N[::-1]) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")],
    case("BitwiseNot", N),
]

REDUCTIONS = [
    *[
        case(op, P, opset=13, axes=[1, -1], keepdims=0)
        for op in (
            "ReduceMean",
            "ReduceMax",
            "ReduceMin",
            "ReduceProd",
            "ReduceL1",
            "ReduceL2",
            "ReduceSumSquare",
            "ReduceLogSum",
            "ReduceLogSumExp",
        )
    ],
    *[
        case(op, P, known=[ints(1)])
        for op in (
            "ReduceSum",
            "ReduceMean",
            "ReduceMax",
            "ReduceMin",
            "ReduceProd",
            "ReduceL1",
            "ReduceL2",
            "ReduceSumSquare",
            "ReduceLogSum",
            "ReduceLogSumExp",
        )
    ],
    case("ReduceSum", X, opset=11, axes=[0]),
    case("ReduceSum", X),
    case("ReduceSum", X, noop_with_empty_axes=1),
    case("ReduceMax", N, known=[ints(2)]),
    case("ArgMax", X, axis=1),
    case("ArgMin", X, axis=-1, keepdims=0),
    case("ArgMax", N // 3, axis=2, select_last_index=1),
    case("CumSum", X, known=[np.int32(1)]),
    case("CumSum", X, known=[ints(-1)[0]], exclusive=1, reverse=1),
    case("Softmax", X),
    case("Softmax", X, axis=0),
    case("Softmax", X, opset=9),
    case("LogSoftmax", X, opset=11, axis=2),
    case("LogSoftmax", X),
    case("TopK", X, known=[ints(2)], outputs=2),
    case("TopK", X, known=[ints(2)], axis=1, largest=0, outputs=2),
]

PRODUCTS = [
    case("MatMul", X, random(4, 5)),
    case("MatMul", X, random(2, 4, 5)),
    case("MatMul", random(4), random(4)),
    case("MatMul", X, random(4)),
    case("MatMul", random(3), random(2, 3, 5)),
    case("Gemm", random(3, 4), random(4, 5), random(5)),
    case("Gemm", random(4, 3), random(5, 4), transA=1, transB=1),
    case("Gemm", random(3, 4), random(4, 5), random(3, 1), alpha=0.5, beta=2.0),
    case("Einsum", random(3, 4), random(4, 5), equation="ij,jk->ik"),
    case("Einsum", random(2, 3, 4), random(2, 4, 5), equation="bij,bjk->bik"),
    case("Einsum", random(2, 3, 4, 5), random(2, 6, 4, 5), equation="bqhd,bkhd->bhqk"),
    case("Einsum", X, equation="ijk->kj"),
    case("Einsum", X, X, equation="...j,...j->..."),
    case("Einsum", X, random(4), equation="bij,j"),
    case("Einsum", X, random(3, 5), random(5, 2), equation="bij,ik,kl->bl"),
    case("Einsum", random(3), random(4), equation="i,j->ij"),
    case("Einsum", random(2, 3, 3), equation="...ii->...i"),
    case("Einsum", random(3, 3), equation="ii"),
    case("Einsum", random(3, 2, 3, 3), random(2, 3), equation="iaii,ai->a"),
]

IMAGES = [
    case("Conv", IMAGE, W),
    case("Conv", IMAGE, W, V6, pads=[1, 2, 0, 1], strides=[2, 1]),
    case("Conv", IMAGE, known=[W, V6], dilations=[2, 1], pads=[2, 1, 2, 1]),
    case("Conv", IMAGE, W, auto_pad="SAME_UPPER", strides=[2, 2]),
    case("Conv", IMAGE, W, auto_pad="SAME_LOWER"),
    case("Conv", IMAGE, W, auto_pad="VALID", kernel_shape=[3, 3]),
    case("Conv", IMAGE, random(8, 1, 3, 3), group=4),
    case("Conv", IMAGE, random(6, 2, 3, 3), group=2),
    case("Conv", random(1, 3, 9), random(5, 3, 4), pads=[1, 2]),
    case("Conv", random(1, 2, 4, 5, 6), random(3, 2, 2, 3, 2)),
    case(
        "ConvTranspose",
        random(2, 3, 4, 5),
        random(3, 2, 3, 3),
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        output_padding=[1, 1],
    ),
    case(
        "ConvTranspose",
        random(1, 4, 4, 5),
        random(4, 2, 3, 3),
        random(4),
        group=2,
        dilations=[2, 1],
    ),
    case(
        "ConvTranspose",
        random(1, 3, 4, 4),
        random(3, 2, 3, 3),
        strides=[2, 2],
        auto_pad="SAME_UPPER",
    ),
    case(
        "ConvTranspose", random(1, 3, 4, 4), random(3, 2, 3, 3), strides=[2, 2], output_shape=[9, 8]
    ),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    case("MaxPool", IMAGE, kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1),
    case("MaxPool", IMAGE, kernel_shape=[2, 2], dilations=[2, 2]),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    case(
        "AveragePool",
        IMAGE,
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        count_include_pad=1,
    ),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case(
        "AveragePool",
        IMAGE,
        opset=19,
        kernel_shape=[3, 3],
        strides=[3, 3],
        pads=[1, 1, 1, 1],
        ceil_mode=1,
        count_include_pad=1,
    ),
    case("GlobalAveragePool", IMAGE),
    case("GlobalMaxPool", IMAGE),
    case("LRN", IMAGE, size=3, alpha=0.1),
    case("BatchNormalization", IMAGE, *C4, VAR),
    case("BatchNormalization", IMAGE, *C4, VAR, opset=7, epsilon=1e-3),
    case("InstanceNormalization", IMAGE, *C4[:2]),
    case("LayerNormalization", X, random(4), random(4, seed=1)),
    case("LayerNormalization", X, random(3, 4), axis=-2),
    case("LpNormalization", X, axis=1),
    case("LpNormalization", X, axis=-1, p=1),
    case("RMSNormalization", X, random(4), opset=23),
    case("GroupNormalization", IMAGE, *C4[:2], opset=21, num_groups=2),
    case("GroupNormalization", IMAGE, random(2), random(2, seed=1), num_groups=2),
    case("DepthToSpace", random(1, 8, 2, 3), blocksize=2),
    case("SpaceToDepth", random(1, 2, 4, 6), blocksize=2),
    case("DepthToSpace", random(1, 8, 2, 3), blocksize=2, mode="CRD"),
    *[
        case(
            "Resize",
            IMAGE,
            known=[None, np.array([1, 1, *s], F32)],
            mode=m,
            coordinate_transformation_mode=c,
            tolerance=1e-5,
        )
        for m in ("nearest", "linear", "cubic")
        for c in ("half_pixel", "asymmetric", "align_corners")
        for s in ((2, 1.5), (0.6, 2))
        if s != (0.6, 2) or c != "align_corners"  # ONNX and onnxruntime differ where 0.6 * 7 is cut
    ],
    case("Resize", IMAGE, known=[None, None, ints(2, 4, 10, 5)], mode="linear"),
    case(
        "Resize",
        IMAGE,
        known=[None, None, ints(10, 5)],
        mode="nearest",
        axes=[2, 3],
        nearest_mode="floor",
    ),
    case("Resize", IMAGE, opset=10, known=[np.array([1, 1, 2, 2], F32)]),
    case("Upsample", IMAGE, opset=7, scales=[1.0, 1.0, 2.0, 3.0]),
    case("Upsample", IMAGE, opset=9, known=[np.array([1, 1, 2, 2], F32)], mode="linear"),
]

MOVES = [
    case("Reshape", X, known=[ints(0, -1)]),
    case("Reshape", X, known=[ints(4, 3, 2)]),
    case("Flatten", X, axis=2),
    case("Flatten", X, axis=-2),
    case("Flatten", X, axis=0),
    case("Squeeze", X[:, :1], opset=11, axes=[1]),
    case("Squeeze", X[:1, :1]),
    case("Squeeze", X[:, :1], known=[ints(-2)]),
    case("Unsqueeze", X, opset=11, axes=[0, 4]),
    case("Unsqueeze", X, known=[ints(-1, 0)]),
    case("Transpose", X),
    case("Transpose", X, perm=[1, 0, 2]),
    case("Expand", X[:, :1], known=[ints(2, 1, 3, 1)]),
    case("Tile", X, known=[ints(1, 2, 3)]),
    case("Concat", X, P, U, axis=-1),
    case("Split", X, opset=13, outputs=2, axis=2),
    case("Split", X, outputs=2, axis=1, num_outputs=2),
    case("Split", X, opset=11, outputs=2, axis=1, split=[1, 2]),
    case("Split", X, known=[ints(3, 1)], outputs=2, axis=2),
    case("Slice", X, opset=9, starts=[1, -3], ends=[9, -1], axes=[1, 2]),
    case("Slice", X, known=[ints(0, 1), ints(2, 1 << 62), ints(1, 2), ints(1, 2)]),
    case("Slice", X, known=[ints(-1, 3), ints(-99, 0), ints(1, 2), ints(-1, -2)]),
    case("Slice", X, known=[ints(2), ints(1), ints(1)]),
    case("Pad", X, opset=10, pads=[0, 1, 2, 0, 0, 1], value=0.5),
    case("Pad", X, known=[ints(1, 0, -1, 0, 2, 1)]),
    case("Pad", X, known=[ints(1, 1), F32(2), ints(-1)]),
    case("Pad", X, known=[ints(0, 1, 2, 0, 2, 1)], mode="reflect"),
    case("Pad", X, known=[ints(0, 1, 2, 0, 2, 1)], mode="edge"),
    case("Pad", X, opset=19, known=[ints(0, 1, 2, 0, 2, 1)], mode="wrap"),
    case("Trilu", random(4, 5)),
    case("Trilu", random(4, 5), known=[np.int64(-1)], upper=0),
    case("Gather", X, ints(0, 2, -1), axis=1),
    case("Gather", X, known=[ints(0, -2)], axis=2),
    case("Gather", X, known=[np.int64(-1)], axis=1),
    case("Gather", X, np.array([[0, 1], [1, 0]], np.int32)),
    case("GatherElements", X, N % 3, axis=1),
    case("GatherND", X, np.array([[0, 1], [1, -1]], I64)),
    case("GatherND", X, np.array([[1], [0]], I64), batch_dims=1),
    case("ScatterElements", X, N[:, :2] % 3, P[:, :2], axis=1),
    case("ScatterElements", X, np.zeros((2, 1, 4), I64), P[:, :1], axis=1, reduction="add"),
    case("Scatter", X, N[:, :2] % 3, P[:, :2], opset=9, axis=1),
    case("ScatterND", X, np.array([[0, 1], [1, 2]], I64), P[0, :2]),
    case("OneHot", N[0] % 4, known=[ints(4), np.array([0, 2], F32)]),
    case("OneHot", N[0] % 4, known=[ints(4), np.array([0, 2], F32)], axis=1),
    case("ConstantOfShape", known=[ints(2, 3)]),
    case("Range", known=[ints(2)[0], ints(9)[0], ints(3)[0]]),
    case("EyeLike", random(3, 4), k=1),
    case("Size", X),
    case("Shape", X, start=1),
    case("QuantizeLinear", X, known=[F32(0.02), np.uint8(3)]),
    case("QuantizeLinear", X, known=[F32(0.02), np.int8(-3)]),
    case(
        "DequantizeLinear",
        (N * 5).astype(np.int8),
        known=[np.array([0.1, 0.2, 0.3], F32), np.array([0, 1, -2], np.int8)],
        axis=1,
    ),
    case("DynamicQuantizeLinear", X, outputs=3),
]


FUNCTIONS = [
    case("Attention", *[random(2, 3, 5, 8, seed=k) for k in range(3)], opset=23),
    case("Attention", *[random(2, 3, 5, 8, seed=k) for k in range(3)], opset=23, is_causal=1),
    case(
        "RotaryEmbedding",
        random(1, 2, 4, 8),
        random(4, 4),
        random(4, 4, seed=1),
        np.arange(4).reshape(1, 4),
        opset=23,
    ),
    case("Swish", X, opset=24),
]


def label(c: Case) -> str:
    attrs = "-".join(f"{k}={v}" for k, v in c.attrs.items())
    return f"{c.op}-{c.opset}-{attrs}".replace(" ", "")


@pytest.mark.parametrize(
    "c", [*UNARY, *BINARY, *REDUCTIONS, *PRODUCTS, *IMAGES, *MOVES, *FUNCTIONS], ids=label
)
def test_one_node(c: Case) -> None:
    run(c)
