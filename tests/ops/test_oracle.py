"""The oracle in numpy against onnxruntime, one node at a time: so that both are right."""

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from .cases import Array, Case, close, data


def _info(name: str, x: Array) -> Any:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)


def onnx_run(
    kind: str, inputs: list[Array | None], results: int = 1, opset: int = 21, **attrs: Any
) -> list[Array]:
    """The results of one ONNX node."""
    names = ["" if x is None else f"x{k}" for k, x in enumerate(inputs)]
    given = {n: x for n, x in zip(names, inputs, strict=True) if x is not None}
    outs = [f"y{k}" for k in range(results)]
    node = helper.make_node(kind, names, outs, **attrs)
    graph = helper.make_graph(
        [node], "one",
        [_info(n, x) for n, x in given.items()],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outs],
    )  # fmt: skip
    for out in graph.output:
        out.ClearField("type")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found: list[Array] = session.run(None, given)
    return found


def agree(
    case: Case,
    kind: str,
    inputs: list[Array | None] | None = None,
    tolerance: float = 2e-5,
    **attrs: Any,
) -> None:
    want = case.numpy()
    got = onnx_run(kind, list(case.operands) if inputs is None else inputs, len(want), **attrs)
    for a, b in zip(got, want, strict=True):
        close(a, b, tolerance)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


X = data((2, 3, 4))
FUNCTIONS = {
    "exp": "Exp", "sqrt": "Sqrt", "tanh": "Tanh", "sigmoid": "Sigmoid", "erf": "Erf", "sin":
    "Sin", "cos": "Cos", "tan": "Tan", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh":
    "Asinh", "floor": "Floor", "ceil": "Ceil", "round": "Round", "sign": "Sign", "reciprocal":
    "Reciprocal", "abs": "Abs", "negative": "Neg", "relu": "Relu", "hard_swish": "HardSwish",
    "softplus": "Softplus", "softsign": "Softsign", "mish": "Mish", "isnan": "IsNaN", "isinf":
    "IsInf",
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    agree(Case(name, X), FUNCTIONS[name])


def test_activations() -> None:
    agree(Case("leaky_relu", X, alpha=0.2), "LeakyRelu", alpha=0.2)
    agree(Case("elu", X, alpha=0.7), "Elu", alpha=0.7)
    agree(Case("selu", X), "Selu")
    agree(Case("celu", X, alpha=1.5), "Celu", alpha=1.5)
    agree(Case("gelu", X), "Gelu")
    agree(Case("gelu", X, approximate="tanh"), "Gelu", approximate="tanh")
    agree(Case("hard_sigmoid", X), "HardSigmoid")
    agree(Case("thresholded_relu", X, alpha=0.6), "ThresholdedRelu", alpha=0.6)
    agree(Case("prelu", X, data((3, 1))), "PRelu")
    agree(Case("clip", X, min=-1.0, max=1.5), "Clip", [X, np.array(-1, "f"), np.array(1.5, "f")])


def test_two_operands() -> None:
    a, b = data((2, 3, 4), "int32", -9, 9), data((3, 1), "int32", 1, 4)
    for name, kind in (
        ("add", "Add"),
        ("subtract", "Sub"),
        ("multiply", "Mul"),
        ("divide", "Div"),
        ("mod", "Mod"),
    ):
        agree(Case(name, a, b), kind)
        agree(Case(name, a, -b), kind)
    agree(Case("fmod", a, -b), "Mod", fmod=1)
    agree(Case("power", data((2, 3), low=0.1), data((3,))), "Pow")
    agree(Case("where", data((3, 1), "bool"), X, data((4,))), "Where")
    agree(Case("bitwise_xor", a, b), "BitwiseXor")


REDUCTIONS = {
    "sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin", "prod":
    "ReduceProd", "reduce_l1": "ReduceL1", "reduce_l2": "ReduceL2", "reduce_sum_square":
    "ReduceSumSquare", "reduce_log_sum": "ReduceLogSum", "reduce_log_sum_exp":
    "ReduceLogSumExp",
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    x = data((2, 3, 4), low=0.2)
    for keepdims in (0, 1):
        case = Case(name, x, axes=(0, 2), keepdims=bool(keepdims))
        agree(case, REDUCTIONS[name], [x, ints(0, 2)], keepdims=keepdims)


def test_positions_softmax_and_cumsum() -> None:
    x = data((3, 4, 5), "int32", -2, 2)
    for last in (0, 1):
        more = {"axis": 1, "keepdims": 0, "select_last_index": last}
        case = {"axis": 1, "keepdims": False, "select_last_index": bool(last)}
        agree(Case("argmax", x, **case), "ArgMax", **more)  # type: ignore[arg-type]
        agree(Case("argmin", x, **case), "ArgMin", **more)  # type: ignore[arg-type]
    agree(Case("softmax", X, axis=1), "Softmax", axis=1)
    agree(Case("log_softmax", X, axis=-1), "LogSoftmax", axis=-1)
    for exclusive in (0, 1):
        for reverse in (0, 1):
            case2 = Case("cumsum", X, axis=1, exclusive=bool(exclusive), reverse=bool(reverse))
            axis = np.array(1, np.int64)
            agree(case2, "CumSum", [X, axis], exclusive=exclusive, reverse=reverse)


def test_products_and_convolutions() -> None:
    agree(Case("matmul", data((2, 1, 3, 4)), data((5, 4, 6))), "MatMul")
    agree(Case("matmul", data((4,)), data((5, 4, 6))), "MatMul")
    two: dict[str, Any] = {"strides": (2, 1), "pads": (1, 0, 1, 2), "dilations": (1, 2)}
    x, w = data((1, 4, 8, 8)), data((6, 2, 3, 3))
    agree(Case("conv2d", x, w, groups=2, **two), "Conv", group=2, **two)
    agree(Case("conv2d", x, data((8, 1, 3, 3)), groups=4), "Conv", group=4)
    agree(Case("conv1d", data((1, 2, 9)), data((3, 2, 3)), pads=(1, 1)), "Conv", pads=(1, 1))
    agree(Case("conv3d", data((1, 2, 4, 4, 4)), data((3, 2, 2, 2, 2))), "Conv")
    three: dict[str, Any] = {"strides": (2, 2), "pads": (1, 0, 1, 1), "output_padding": (1, 1)}
    agree(
        Case("conv_transpose", x, data((4, 3, 3, 3)), groups=2, **three),
        "ConvTranspose",
        group=2,
        **three,
    )
    agree(
        Case("conv_transpose", x, data((4, 3, 2, 3)), dilations=(2, 1)),
        "ConvTranspose",
        dilations=(2, 1),
    )


def test_pooling() -> None:
    x = data((1, 2, 7, 7))
    some: dict[str, Any] = {"strides": (2, 2), "pads": (1, 0, 1, 1)}
    wide: dict[str, Any] = {**some, "dilations": (2, 1)}
    agree(Case("max_pool", x, kernel=(3, 2), **wide), "MaxPool", kernel_shape=(3, 2), **wide)
    for include in (0, 1):
        case = Case("avg_pool", x, kernel=(3, 3), count_include_pad=bool(include), **wide)
        agree(case, "AveragePool", kernel_shape=(3, 3), count_include_pad=include, **wide)
    ends = Case("avg_pool", data((1, 2, 6, 6)), kernel=(3, 3), strides=(2, 2), pads=(0, 0, 1, 1))
    agree(ends, "AveragePool", kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1)


def test_normalisation() -> None:
    x, scale, bias = data((2, 4, 3, 5)), data((4,), low=0.5), data((4,)) + 1
    agree(
        Case("batch_norm", x, scale, bias, bias, scale, epsilon=1e-3),
        "BatchNormalization",
        epsilon=1e-3,
    )
    agree(Case("instance_norm", x, scale, bias), "InstanceNormalization")
    agree(Case("group_norm", x, scale, bias, groups=2), "GroupNormalization", num_groups=2)
    agree(
        Case("layer_norm", x, data((3, 5)), data((3, 5)) + 1, axis=2), "LayerNormalization", axis=2
    )
    agree(Case("rms_norm", x, data((5,))), "RMSNormalization", opset=23)
    agree(Case("lrn", x, size=3, alpha=0.1), "LRN", size=3, alpha=0.1)
    agree(Case("lp_norm", x, axis=1, p=1), "LpNormalization", axis=1, p=1)


def test_moving() -> None:
    x = data((2, 3, 4))
    agree(Case("transpose", x, axes=(2, 0, 1)), "Transpose", perm=(2, 0, 1))
    agree(Case("concat", x, x + 1, axis=1), "Concat", axis=1)
    case = Case("strided_slice", x, axes=(1, 2), begin=(2, 0), end=(-1, 4), strides=(-1, 2))
    agree(case, "Slice", [x, ints(2, 0), ints(-9, 4), ints(1, 2), ints(-1, 2)])
    for mode in ("constant", "reflect", "edge", "wrap"):
        value = np.array(1.5, np.float32) if mode == "constant" else None
        case = Case("pad", x, pads=(1, 0, 2, 0, 2, 1), mode=mode, value=1.5)
        agree(case, "Pad", [x, ints(1, 0, 2, 0, 2, 1), value], mode=mode)
    agree(Case("tile", x, repeats=(1, 2, 3)), "Tile", [x, ints(1, 2, 3)])
    agree(Case("trilu", x, k=1, upper=False), "Trilu", [x, np.array(1, np.int64)], upper=0)
    for mode in ("DCR", "CRD"):
        agree(
            Case("depth_to_space", data((2, 12, 2, 3)), block=2, mode=mode),
            "DepthToSpace",
            blocksize=2,
            mode=mode,
        )
    agree(Case("space_to_depth", data((2, 3, 4, 6)), block=2), "SpaceToDepth", blocksize=2)


def test_indices() -> None:
    x, at = data((4, 5)), np.array([[0, -1, 2], [3, 1, -4]], np.int64)
    agree(Case("gather", x, at, axis=1), "Gather", axis=1)
    agree(Case("gather_elements", x, at, axis=1), "GatherElements", axis=1)
    rows = np.array([[[1], [0]], [[2], [-1]]], np.int64)
    agree(Case("gather_nd", data((2, 3, 4)), rows, batch_dims=1), "GatherND", batch_dims=1)
    pair = np.array([-2, 7], np.float32)
    case = Case("one_hot", at, depth=4, axis=1, on_value=7, off_value=-2)
    agree(case, "OneHot", [at, np.array(4, np.int64), pair], axis=1)
    distinct = np.array([[0, 2, 1], [3, -1, 2]], np.int64)
    for reduction in ("none", "add", "mul", "min", "max"):
        case = Case("scatter_elements", x, distinct, data((2, 3)), axis=1, reduction=reduction)
        agree(case, "ScatterElements", axis=1, reduction=reduction)
        case = Case("scatter_nd", x, ints(3, 0).reshape(2, 1), data((2, 5)), reduction=reduction)
        agree(case, "ScatterND", reduction=reduction)
    for largest in (0, 1):
        case = Case("topk", x, k=3, axis=1, largest=bool(largest))
        agree(case, "TopK", [x, ints(3)], axis=1, largest=largest)


RESIZES: list[dict[str, Any]] = [
    *[{"mode": "nearest", "coordinate_mode": c, "nearest_mode": n}
      for c in ("half_pixel", "asymmetric", "align_corners")
      for n in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")],
    *[{"mode": m, "coordinate_mode": c}
      for c in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel",
                "half_pixel_symmetric")
      for m in ("linear", "cubic")],
    {"mode": "cubic", "exclude_outside": True, "cubic_coeff": -0.5},
]  # fmt: skip


@pytest.mark.parametrize("attrs", RESIZES, ids=str)
def test_resize(attrs: dict[str, Any]) -> None:
    x = data((1, 1, 4, 5))
    more = {
        "mode": attrs["mode"],
        "coordinate_transformation_mode": attrs.get("coordinate_mode", "half_pixel"),
        "nearest_mode": attrs.get("nearest_mode", "round_prefer_floor"),
        "cubic_coeff_a": attrs.get("cubic_coeff", -0.75),
        "exclude_outside": int(attrs.get("exclude_outside", False)),
    }
    for sizes in ((1, 1, 8, 10), (1, 1, 7, 3)):
        case = Case("resize", x, sizes=sizes, **attrs)
        inputs: list[Array | None] = [x, None, None, ints(*sizes)]
        agree(case, "Resize", inputs, tolerance=1e-4, **more)
    whole = attrs.get("coordinate_mode") == "align_corners"  # ONNX and onnxruntime differ on others
    scales = np.array([1, 1, 1.5, 0.4] if whole else [1, 1, 1.6, 0.5], np.float32)
    case = Case("resize", x, sizes=(1, 1, 6, 2), scales=tuple(scales.tolist()), **attrs)
    agree(case, "Resize", [x, None, scales], tolerance=1e-4, **more)


def test_attention_is_the_formula() -> None:
    q, k, v, mask = data((2, 3, 4)), data((2, 5, 4)), data((2, 5, 6)), data((3, 5))
    scores = np.einsum("bsd,btd->bst", q, k) * 0.5 + mask
    e = np.exp(scores)
    want = np.einsum("bst,bte->bse", e / e.sum(-1, keepdims=True), v)
    close(Case("attention", q, k, v, mask, scale=0.5).numpy()[0], want)
