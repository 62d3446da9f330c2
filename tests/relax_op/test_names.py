"""Every classic name is a builder, reached as an attribute too."""

from __future__ import annotations

from typing import Any

import pytest

from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.types import tensor_type
from smelt.relax import op
from smelt.relax.nodes import Call, Tuple, TupleGetItem, Var, values

CORE = """
assert_op call_builtin_with_ctx call_dps_packed call_inplace_packed call_pure_packed call_tir
call_tir_inplace call_tir_with_grad hint_on_device invoke_closure invoke_pure_closure make_closure
null_value print register_gradient shape_of shape_to_tensor tensor_to_shape to_vdevice add
bitwise_and bitwise_or bitwise_xor divide equal floor_divide log_add_exp floor_mod greater
greater_equal left_shift less less_equal logical_and logical_or logical_xor maximum minimum mod
multiply not_equal power right_shift subtract arange full full_like hamming_window ones ones_like
eye eye_like tril triu zeros zeros_like astype wrap_param dynamic_strided_slice strided_slice take
einsum linear matmul outer broadcast_to collapse_sum_like collapse_sum_to concat expand_dims flatten
flip gather_elements gather_nd index_put index_tensor meshgrid layout_transform one_hot permute_dims
repeat reshape scatter_elements scatter_nd slice_scatter split squeeze stack tile masked_fill
dequantize quantize multinomial_from_uniform argmax argmin where bucketize nonzero unique argsort
sort topk cumprod cumsum max mean median min prod std sum variance ewise_fma abs acos acosh asin
asinh atan atanh bitwise_not ceil clip cos cosh erf exp floor isfinite isinf isnan log logical_not
negative round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc reverse_sequence size
"""
NN = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d attention attention_var_len avg_pool1d
avg_pool2d avg_pool3d batch_flatten batch_norm conv1d conv1d_transpose conv2d conv2d_transpose
conv3d conv3d_transpose cross_entropy_with_logits dropout gelu gelu_tanh group_norm instance_norm
layer_norm leakyrelu log_softmax max_pool1d max_pool2d max_pool3d nll_loss pad pixel_shuffle prelu
relu relu6 rms_norm selu silu softmax softplus
"""
ROOMS = {
    "": CORE,
    "nn": NN,
    "image": "resize2d resize3d grid_sample affine_grid",
    "vision": "all_class_non_max_suppression get_valid_counts non_max_suppression roi_align "
    "roi_pool multibox_transform_loc",
    "grad": "no_grad start_checkpoint end_checkpoint nll_loss_backward max_pool2d_backward "
    "avg_pool2d_backward take_backward",
    "memory": "alloc_storage alloc_tensor ensure_zero_offset kill_storage kill_tensor view",
    "vm": "alloc_storage alloc_tensor call_tir_dyn kill_object",
    "builtin": "alloc_tensor stop_lift_params",
    "ccl": "allreduce allgather broadcast_from_worker0 scatter_from_worker0",
    "dist": "annotate_sharding redistribute call_tir_local_view redistribute_replica_to_shard",
    "inspect": "tensor_stride_i tensor_byte_offset tensor_elem_offset tensor_dtype_code "
    "tensor_dtype_bits tensor_dtype_lanes tensor_ndim tensor_shape_i",
}


@pytest.mark.parametrize("room", ROOMS)
def test_every_classic_name_is_a_builder(room: str) -> None:
    place = getattr(op, room) if room else op
    for name in ROOMS[room].split():
        full = f"{room}.{name}" if room else name
        assert getattr(place, name) is op.BUILDERS[full]
        assert name in dir(place)
        assert op.BUILDERS[full].__doc__, full


def test_unknown_names_list_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"relax\.op\.nn has no operator 'rellu'; .*relu"):
        op.nn.rellu  # noqa: B018
    with pytest.raises(AttributeError, match=r"relax\.op has no operator 'permute_dim'; .*dims"):
        op.permute_dim  # noqa: B018


def test_errors_name_the_builder() -> None:
    x = Var("x", tensor_type((2, 3)))
    with pytest.raises(TypeMismatch, match=r"relax\.op\.reshape: newshape=\(4, 2\) has another"):
        op.reshape(x, (4, 2))
    with pytest.raises(TypeMismatch, match=r"relax\.op\.reshape: missing .*'shape'; signature: "):
        op.reshape(x)
    with pytest.raises(TypeMismatch, match=r"relax\.op\.add: the operand x2 is str 'a'; legal"):
        op.add(x, "a")
    with pytest.raises(TypeMismatch, match=r"relax\.op\.nn\.conv2d: data_layout='NCHW' has 4"):
        op.nn.conv2d(x, x)
    with pytest.raises(TypeMismatch, match=r"relax\.op\.nn\.pad: pad_mode='mirror'; legal"):
        op.nn.pad(x, (0, 0, 1, 1), "mirror")
    boxes, count = Var("b", tensor_type((1, 3, 6))), Var("n", tensor_type((1,), "int32"))
    with pytest.raises(TypeMismatch, match=r"soft_nms_sigma=0\.5; legal: 0\.0"):
        op.vision.non_max_suppression(boxes, count, Var("i", tensor_type((1, 3), "int32")),
                                      soft_nms_sigma=0.5)  # fmt: skip
    q, k = Var("q", tensor_type((1, 4, 3, 8))), Var("k", tensor_type((1, 4, 2, 8)))
    with pytest.raises(TypeMismatch, match="query's heads is 3; it has to be a multiple of 2"):
        op.nn.attention(q, k, k)
    with pytest.raises(Unsupported, match=r"relax\.op\.reshape: the shape is computed"):
        op.reshape(x, Var("s", tensor_type((2,), "int64")))
    with pytest.raises(Unsupported, match=r"relax\.op\.unique: .* depends on the data"):
        op.unique(x)


def test_attributes_are_given_by_name_in_any_order() -> None:
    x = Var("x", tensor_type((2, 3)))
    (made,) = [c for c in values(op.sort(x, descending=True)) if isinstance(c, Call)]
    assert dict(made.attrs) == {"axis": 1, "descending": True}


def test_items_of_tuples() -> None:
    x = Var("x", tensor_type((2, 4)))
    parts = op.split(x, 2, 1)
    assert isinstance(parts, Tuple)
    assert parts[1] is parts.items[1]
    unpacked: Any = parts
    first, second = unpacked
    assert (first, second) == parts.items
    whole = Var("t", parts.type)
    assert isinstance(whole[-1], TupleGetItem)
    assert whole[-1].index == 1
    with pytest.raises(IndexError, match="item 2 of a tuple with 2 items"):
        parts[2]
    with pytest.raises(TypeMismatch, match="has no items; tuples have"):
        x[0]
