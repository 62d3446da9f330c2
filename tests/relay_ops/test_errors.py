"""What wrong calls are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from smelt import relay
from smelt.ir.errors import SmeltError

IMAGE = relay.var("x", shape=(1, 3, 8, 8))
WEIGHT = relay.var("w", shape=(4, 2, 3, 3))
MATRIX = relay.var("m", shape=(2, 6))
VECTOR = relay.var("v", shape=(5,))
SIZE = relay.var("n", shape=(2,), dtype="int32")

WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "channels of a convolution": (
        lambda: relay.nn.conv2d(IMAGE, WEIGHT),
        "nn.conv2d: the data has 3 channels, the weight reads 2 (2 x groups=1); they have to be "
        "equal",
    ),
    "channels that the attribute says": (
        lambda: relay.nn.conv2d(IMAGE, WEIGHT, channels=8),
        "nn.conv2d: channels=8, but the weight has 4 output channels",
    ),
    "a layout": (
        lambda: relay.nn.conv2d(IMAGE, WEIGHT, data_layout="NHCQ"),
        "nn.conv2d: data_layout='NHCQ'; legal: the letters of NCHW",
    ),
    "padding": (
        lambda: relay.nn.conv2d(IMAGE, WEIGHT, padding=(1, 2, 3)),
        "nn.conv2d: padding=(1, 2, 3); 1, 2 or 4 numbers are legal for 2 spatial dimensions",
    ),
    "units of dense": (
        lambda: relay.nn.dense(MATRIX, relay.var("w", shape=(4, 6)), units=3),
        "nn.dense: units=3, but the weight has 4 rows",
    ),
    "depth of dense": (
        lambda: relay.nn.dense(MATRIX, relay.var("w", shape=(4, 5))),
        "nn.dense: axis -1 of the data has 6 elements, the weight has 5 columns; they have to be "
        "equal",
    ),
    "axis of a bias": (
        lambda: relay.nn.bias_add(MATRIX, VECTOR),
        "nn.bias_add: the bias has 5 elements, axis=1 of the data has 6; they have to be equal",
    ),
    "an axis that is not there": (
        lambda: relay.nn.softmax(MATRIX, 2),
        "nn.softmax: axis=2; a tensor of 2 dimensions has axes -2 to 1",
    ),
    "ranks of concatenate": (
        lambda: relay.concatenate([MATRIX, VECTOR], 0),
        "concatenate: tensor 1 has 1 dimensions, tensor 0 has 2; they have to be equal",
    ),
    "extents of concatenate": (
        lambda: relay.concatenate([MATRIX, relay.var("k", shape=(2, 5))], 0),
        "concatenate: dimension 1 of tensor 1 is 5, of tensor 0 6; outside axis=0 they have to be "
        "equal",
    ),
    "element types of concatenate": (
        lambda: relay.concatenate([VECTOR, SIZE], 0),
        "concatenate: concat: xs0 is float32 and xs1 is int32; both need one element type, cast "
        "one",
    ),
    "a slice like a larger one": (
        lambda: relay.slice_like(relay.var("k", shape=(2, 5)), MATRIX),
        "slice_like: strided_slice: the slice of dimension 1 reads elements 0 to 5 of x [2, 5]; "
        "legal: 0 to 4",
    ),
    "an extent of squeeze": (
        lambda: relay.squeeze(MATRIX, 0),
        "squeeze: axes=(0,): dimension 0 of x [2, 6] is not 1",
    ),
    "windows that do not fit": (
        lambda: relay.sliding_window(MATRIX, 0, (3, 2), (1, 1)),
        "sliding_window: window_shape=(3, 2): dimension 0 of x [2, 6] has 2 elements",
    ),
    "slopes of channels": (
        lambda: relay.nn.prelu(IMAGE, VECTOR),
        "nn.prelu: prelu: x [1, 3, 8, 8] and slope [5, 1, 1] do not broadcast: extents 3 and 5 of "
        "dimension -3 have to be equal or 1",
    ),
    "channels of a dilation": (
        lambda: relay.image.dilation2d(IMAGE, relay.var("w", shape=(2, 3, 3))),
        "image.dilation2d: dilation2d: x [1, 3, 8, 8] and w [2, 3, 3]: [n, c, h, w] and "
        "[c, kh, kw]; got 3 and 2",
    ),
    "blocks of pixels": (
        lambda: relay.nn.space_to_batch_nd(IMAGE, (2, 2), ((0, 0), (0, 0))),
        "nn.space_to_batch_nd: block_shape=(2, 2): the extent of axis 1 with its padding is 3; it "
        "has to be a multiple of 2",
    ),
    "parts of channels": (
        lambda: relay.layout_transform(IMAGE, "NCHW", "NCHW2c"),
        "layout_transform: the extent of dimension C is 3; it has to be a multiple of 2",
    ),
    "channels of reorganized images": (
        lambda: relay.vision.yolo_reorg(IMAGE, 2),
        "vision.yolo_reorg: the number of channels is 3; it has to be a multiple of 4",
    ),
    "elements of reshape": (
        lambda: relay.reshape(MATRIX, (5, 2)),
        "reshape: newshape=(5, 2) has another number of elements than the data, 2 x 6",
    ),
    "what remains in reshape": (
        lambda: relay.reshape(MATRIX, (5, -1)),
        "reshape: newshape=(5, -1): -1 stands for no whole number; the data has 2 x 6 elements",
    ),
    "parts of split": (
        lambda: relay.split(MATRIX, 4, axis=1),
        "split: indices_or_sections=4 equal parts of axis 1, whose extent is 6; it has to be a "
        "multiple",
    ),
    "a mode of take": (
        lambda: relay.take(MATRIX, SIZE, mode="round"),
        "take: mode='round'; legal: 'clip', 'wrap', 'fast'",
    ),
    "an attribute": (
        lambda: relay.nn.conv2d(IMAGE, WEIGHT, stride=2),
        "nn.conv2d has no attribute 'stride'; nearest: strides; attributes: strides, padding, "
        "dilation, groups, channels, kernel_size, data_layout, kernel_layout, out_layout, "
        "out_dtype",
    ),
    "an attribute that is missing": (
        lambda: relay.split(MATRIX),
        "split needs the attribute 'indices_or_sections'",
    ),
    "an operator": (
        lambda: relay.op.get("nn.conv2"),
        "relay has no operator 'nn.conv2'; nearest: nn.conv2d, qnn.conv2d, nn.conv3d",
    ),
    "an operand": (
        lambda: relay.nn.relu("x"),
        "nn.relu: the operand data is str 'x'; legal: an expression, a sequence of them, a number "
        "or an array",
    ),
    "a refused operator": (
        lambda: relay.nn.contrib_conv2d_gemm_weight_transform(WEIGHT, 4, 4),
        "relay.nn.contrib_conv2d_gemm_weight_transform is not an operator of smelt; write "
        "nn.conv2d (nn.conv3d); the compiler chooses the algorithm and packs the weight",
    ),
    "a size that depends on data": (
        lambda: relay.build(relay.IRModule.from_expr(relay.reshape(MATRIX, SIZE))),
        "the graph executor runs straight programs only; found a tensor with a data-dependent "
        "size in @main: dyn.reshape(m, n)\n"
        "  the virtual machine runs it: relay.vm.compile(mod, target), or "
        'relay.create_executor("vm", mod)',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name: str) -> None:
    build, text = WRONG[name]
    with pytest.raises(SmeltError) as caught:
        build()
    assert str(caught.value) == text


def test_a_namespace_knows_near_names() -> None:
    with pytest.raises(AttributeError) as caught:
        relay.nn.sofmax(MATRIX)
    assert str(caught.value) == (
        "relay.nn has no operator 'sofmax'; nearest: nn.softmax, nn.log_softmax, nn.fast_softmax"
    )
    with pytest.raises(AttributeError, match="relay has no operator 'concatenat'; nearest: conc"):
        relay.concatenat([MATRIX], 0)


def test_a_type_that_data_decides_is_not_known() -> None:
    made = relay.nn.relu(relay.reshape(MATRIX, SIZE))
    assert isinstance(made.type, relay.IncompleteType)
    with pytest.raises(SmeltError, match="the type of this Call is not known yet"):
        made.checked_type  # noqa: B018
