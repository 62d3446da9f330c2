"""The texts of mistakes: what, which operand, the values, and what would be legal."""

import pytest

from smelt.ir.errors import TypeMismatch
from smelt.ir.types import tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Function, Var, call

from .cases import SIZES, Case, data

A, B, M = data((2, 3)), data((4, 5)), data((3, 4), "int32")
IMAGE, FILTERS = data((1, 3, 8, 8)), data((4, 3, 3, 3))
TEXTS: list[tuple[Case, str]] = [
    (
        Case("add", A, B),
        "add: a [2, 3] and b [4, 5] do not broadcast: extents 2 and 4 of dimension -2 "
        "have to be equal or 1",
    ),
    (
        Case("add", A, data((3,), "int32")),
        "add: a is float32 and b is int32; both need one element type, cast one",
    ),
    (Case("exp", M), "exp: x is int32; the operator is defined for floats only"),
    (Case("logical_and", A, A), "logical_and: a is float32; it has to be bool"),
    (Case("gelu", A, approximate="fast"), "gelu: approximate='fast'; legal: 'none', 'tanh'"),
    (
        Case("leaky_relu", A, alfa=1.0),
        "leaky_relu has no attribute 'alfa'; nearest: alpha; attributes: alpha",
    ),
    (
        Case("sum", A, axes=(2,)),
        "sum: axes=2 is no dimension of a tensor with 2 dimensions; legal: -2 to 1",
    ),
    (Case("sum", A, axes=(1, -1)), "sum: axes=(1, -1) names a dimension twice"),
    (
        Case("softmax", A, axis=5),
        "softmax: axis=5 is no dimension of a tensor with 2 dimensions; legal: -2 to 1",
    ),
    (
        Case("matmul", A, B),
        "matmul: a [2, 3] times b [4, 5]: dimension -1 of a has to equal dimension -2 of "
        "b; got 3 and 4",
    ),
    (
        Case("conv2d", IMAGE, data((4, 2, 3, 3))),
        "conv2d: x [1, 3, 8, 8] and w [4, 2, 3, 3] with groups=1: the channels of x have "
        "to be dimension 1 of w "
        "times groups; got 3 and 2",
    ),
    (
        Case("conv2d", IMAGE, FILTERS, pads=(1, 1)),
        "conv2d: pads=(1, 1) has 2 numbers; 2 spatial dimensions need 4",
    ),
    (
        Case("conv2d", IMAGE, FILTERS, strides=(0, 1)),
        "conv2d: strides=(0, 1); every number has to be at least 1",
    ),
    (
        Case("conv2d", IMAGE, FILTERS, dilations=(5, 1)),
        "conv2d: spatial dimension 0: the kernel covers 11 pixels, the padded image has 8",
    ),
    (
        Case("conv2d", data((1, 3, 8)), FILTERS),
        "conv2d: x [1, 3, 8] has 3 dimensions; [n, c, ...] with 2 spatial dimensions has 4",
    ),
    (
        Case("conv2d", data((1, 6, 8, 8)), data((5, 3, 3, 3)), groups=2),
        "conv2d: w [5, 3, 3, 3]: 5 output channels cannot be split into groups=2",
    ),
    (
        Case("conv2d", IMAGE, FILTERS, border=1),
        "conv2d: border=1 of float32; legal: 0, others for integers",
    ),
    (
        Case(
            "conv2d",
            data((1, 3, 8, 8), "uint8", 0, 9),
            data((4, 3, 3, 3), "uint8", 0, 9),
            out_dtype="int32",
            border=-1,
        ),
        "conv2d: border=-1 of uint8; legal: 0 to 255",
    ),
    (Case("max_pool", IMAGE), "max_pool needs the attribute 'kernel'"),
    (
        Case("batch_norm", IMAGE, *[data((4,))] * 4),
        "batch_norm: scale [4] and x [1, 3, 8, 8]: one element per channel; got 3 and 4",
    ),
    (
        Case("group_norm", IMAGE, *[data((3,))] * 2, groups=2),
        "group_norm: x [1, 3, 8, 8]: 3 channels cannot be split into groups=2",
    ),
    (Case("reshape", A, shape=(7,)), "reshape: x [2, 3] has 6 elements, shape [7] has 7"),
    (
        Case("transpose", A, axes=(0, 0)),
        "transpose: axes=(0, 0) is no order of the 2 dimensions of x [2, 3]",
    ),
    (Case("squeeze", A, axes=(0,)), "squeeze: axes=(0,): dimension 0 of x [2, 3] is not 1"),
    (
        Case("concat", A, B, axis=0),
        "concat: xs1 [4, 5] and xs0 [2, 3]: dimension 1 has to be equal; got 3 and 5",
    ),
    (
        Case("strided_slice", A, axes=(1,), begin=(0,), end=(9,)),
        "strided_slice: the slice of dimension 1 reads elements 0 to 8 of x [2, 3]; legal: 0 to 2",
    ),
    (
        Case("pad", A, pads=(1, 1, 1, 1), mode="mirror"),
        "pad: mode='mirror'; legal: 'constant', 'reflect', 'symmetric', 'edge', 'wrap'",
    ),
    (Case("gather", A, A), "gather: indices are float32; they have to be integers"),
    (
        Case("cast", A, dtype="float31"),
        "cast: dtype='float31' is no element type; legal: bool, int8, ",
    ),
    (Case("topk", A, k=9), "topk: k=9; dimension 1 of x [2, 3] has 3 elements"),
    (
        Case("resize", A, sizes=(4, 4), mode="area"),
        "resize: mode='area'; legal: nearest, linear, cubic",
    ),
    (
        Case("scatter_nd", A, data((2, 1), "int64", 0, 1), A, reduction="sub"),
        "scatter_nd: reduction='sub'; legal: none, add, mul, min, max",
    ),
    (
        Case("adaptive_avg_pool", IMAGE, size=(2,)),
        "adaptive_avg_pool: size=(2,) has 1 numbers; 2 spatial dimensions need 2",
    ),
    (
        Case("adaptive_max_pool", IMAGE, size=(0, 2)),
        "adaptive_max_pool: size=(0, 2); every number has to be at least 1",
    ),
    (
        Case("avg_pool_grad", data((1, 3, 4, 5)), IMAGE, kernel=(2, 2), strides=(2, 2)),
        "avg_pool_grad: grad [1, 3, 4, 5] and x [1, 3, 8, 8]: dimension 3; got 5 and 4",
    ),
    (
        Case("conv_backward_weight", data((1, 5, 6, 6)), IMAGE, kernel=(3, 3), groups=3),
        "conv_backward_weight: grad [1, 5, 6, 6]: 5 channels cannot be split into groups=3",
    ),
    (
        Case("dilate", IMAGE, strides=(2, 2)),
        "dilate: strides has 2 numbers; x [1, 3, 8, 8] needs 4",
    ),
    (
        Case("grid_sample", IMAGE, data((1, 4, 4, 3))),
        "grid_sample: grid [1, 4, 4, 3] and x [1, 3, 8, 8]: the grid needs 4 dimensions, the last "
        "of extent 2",
    ),
    (
        Case("grid_sample", IMAGE, data((1, 4, 4, 2)), mode="bilinear"),
        "grid_sample: mode='bilinear'; legal: nearest, linear, cubic",
    ),
    (
        Case("grid_sample", IMAGE.astype("int32"), data((1, 4, 4, 2))),
        "grid_sample: x is int32; the operator is defined for floats only",
    ),
    (
        Case("affine_grid", data((2, 2, 2)), size=(3, 4)),
        "affine_grid: theta [2, 2, 2] has to be [n, 2, 3] for size=(3, 4)",
    ),
    (
        Case("crop_and_resize", IMAGE, data((5, 4)), data((4,), "int32"), size=(2, 2)),
        "crop_and_resize: boxes [5, 4] and indices [4]: one index per box; got 5 and 4",
    ),
    (
        Case("roi_align", IMAGE, data((5, 4)), size=(2, 2)),
        "roi_align: rois [5, 4] have to be [k, 5]",
    ),
    (
        Case("roi_align", IMAGE, data((5, 5)), size=(2, 2), mode="sum"),
        "roi_align: mode='sum'; legal: avg, max, max_pixel",
    ),
    (
        Case("deformable_conv2d", IMAGE, data((1, 9, 6, 6)), FILTERS),
        "deformable_conv2d: offset [1, 9, 6, 6] has to be [1, 18, 6, 6]: dimension 1; got 9 and 18",
    ),
    (
        Case("deformable_conv2d", IMAGE, data((1, 36, 6, 6)), FILTERS, offset_groups=2),
        "deformable_conv2d: offset_groups of x [1, 3, 8, 8]: 3 channels cannot be split into "
        "groups=2",
    ),
    (
        Case("resize", A, sizes=(4, 4), scales=(2.0,)),
        "resize: scales has 1 numbers; x [2, 3] needs 2",
    ),
    (
        Case("get_valid_counts", data((2, 3, 6)), id_index=6),
        "get_valid_counts: id_index=6; legal: -1 to 5",
    ),
    (
        Case("non_max_suppression", data((2, 3, 6)), data((2,), "int32"), coord_start=3),
        "non_max_suppression: coord_start=3; legal: 0 to 2",
    ),
    (
        Case("all_class_non_max_suppression", data((2, 3, 4)), data((2, 5, 4))),
        "all_class_non_max_suppression: boxes [2, 3, 4] and scores [2, 5, 4]: [b, n, 4] and "
        "[b, c, n]; got 3 and 4",
    ),
    (
        Case(
            "all_class_non_max_suppression", data((2, 3, 4)), data((2, 5, 3)), output_format="caffe"
        ),
        "all_class_non_max_suppression: output_format='caffe'; legal: onnx, tensorflow",
    ),
    (
        Case("multibox_transform_loc", data((1, 3, 5)), data((1, 16)), data((1, 5, 4))),
        "multibox_transform_loc: cls_prob [1, 3, 5] and loc_pred [1, 16] and anchor [1, 5, 4]: "
        "[b, c, n] and [b, n * 4] and [1, n, 4]; got 20 and 16",
    ),
    (
        Case("dilation2d", IMAGE, data((2, 3, 3))),
        "dilation2d: x [1, 3, 8, 8] and w [2, 3, 3]: [n, c, h, w] and [c, kh, kw]; got 3 and 2",
    ),
    (
        Case("sliding_window", IMAGE, axis=2, window_shape=(2, 2), strides=(0, 1)),
        "sliding_window: strides=(0, 1); every number has to be at least 1",
    ),
    (
        Case("correlation", IMAGE, IMAGE, kernel_size=2),
        "correlation: kernel_size=2; it has to be odd and positive",
    ),
    (
        Case("correlation", IMAGE, IMAGE, max_displacement=4),
        "correlation: spatial dimension 0: patches and displacements cover 8 pixels around a "
        "pixel, the padded image has 8",
    ),
    (
        Case("bitpack", data((2, 40), "uint8"), pack_axis=1, bit_axis=1),
        "bitpack: x [2, 40]: 40 elements of dimension 1 do not fill words of 32 bits",
    ),
    (Case("bitpack", data((2, 32), "uint8"), bits=9), "bitpack: bits=9; legal: 1 to 8"),
    (Case("bitunpack", data((2, 3, 4), "int32")), "bitunpack: x is int32; legal: uint8, uint16, "),
    (Case("where", A, A, A), "where: c is float32; it has to be bool"),
    (
        Case("attention", A, B, B, None),
        "attention: q [2, 3] times k [4, 5]: dimension -1 of q has to equal dimension -1 "
        "of k; got 3 and 5",
    ),
    (Case("relu", A, A), "relu takes 1 operands (x), 2 given"),
    (Case("matmul", A), "matmul takes 2 operands (a, b), 1 given"),
    (
        Case("add", A, B, symbolic={0: {0: "n"}}),
        "add: a [n, 3] and b [4, 5] do not broadcast: extents 3 and 5 of dimension -1 "
        "have to be equal or 1",
    ),
]


@pytest.mark.parametrize(
    ("case", "text"), TEXTS, ids=[f"{k}-{c.name}" for k, (c, _) in enumerate(TEXTS)]
)
def test_text(case: Case, text: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        case.numpy()
    assert str(caught.value).startswith(text)
    assert text.endswith(", ") or str(caught.value) == text


def test_inputs_have_to_fit() -> None:
    n = SIZES["n"]
    x, y = Var("x", tensor_type((n, 3))), Var("y", tensor_type((n, 3)))
    function = Function((x, y), call("add", x, y))
    with pytest.raises(TypeMismatch, match=r"takes 2 inputs \(x, y\), 1 given"):
        interpret(function, A)
    with pytest.raises(
        TypeMismatch, match="the input y has extent 4 in dimension 0; it has to be 2"
    ):
        interpret(function, A, data((4, 3)))
    with pytest.raises(
        TypeMismatch, match="the input x is float32 with 2 dimensions; int32 with 2 given"
    ):
        interpret(function, M, M)
