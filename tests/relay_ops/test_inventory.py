"""The names of Relay's operators, and what stands behind each."""

from __future__ import annotations

import importlib

import pytest

from smelt import relay
from smelt.ir.errors import Unsupported
from smelt.relax.nodes import call
from smelt.relay.ops.refused import REFUSED

ROOT = """
abs acos acosh add adv_index all any arange argmax argmin argsort argwhere asin asinh atan atanh
auto_scheduler_layout_transform bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_to
broadcast_to_like call_lowered cast cast_like ceil clip collapse_sum_like collapse_sum_to
concatenate contrib_reverse_reshape copy cos cosh cumprod cumsum debug device_copy dft divide
einsum equal erf exp expand_dims fast_erf fast_exp fast_tanh fixed_point_multiply
fixed_point_multiply_per_axis floor floor_divide floor_mod full full_like gather gather_nd greater
greater_equal invert_permutation isfinite isinf isnan layout_transform left_shift less less_equal
log log10 log2 logical_and logical_not logical_or logical_xor matrix_set_diag max maximum mean
meshgrid meta_schedule_layout_transform min minimum mod multiply ndarray_size negative not_equal
on_device one_hot ones ones_like power prod reinterpret repeat reshape reshape_like reverse
reverse_sequence right_shift round rsqrt scatter_elements scatter_nd searchsorted sequence_mask
shape_of sigmoid sign sin sinh slice_like sliding_window sort sparse_fill_empty_rows
sparse_reshape sparse_to_dense split sqrt squeeze stack stft strided_set strided_slice subtract
sum take tan tanh tile topk torch_op transpose trilu trunc trunc_divide trunc_mod unique
unravel_index variance where zeros zeros_like
"""
NN = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
adaptive_max_pool2d adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d avg_pool2d_grad
max_pool1d max_pool2d max_pool3d max_pool2d_grad global_avg_pool2d global_max_pool2d batch_flatten
batch_matmul batch_norm batch_to_space_nd bias_add bitpack bitserial_conv2d bitserial_dense conv1d
conv2d conv3d conv1d_transpose conv2d_transpose conv3d_transpose conv2d_backward_weight
contrib_conv2d_NCHWc contrib_depthwise_conv2d_NCHWc contrib_dense_pack
contrib_conv2d_gemm_weight_transform contrib_conv2d_gemm_without_weight_transform
contrib_conv2d_winograd_weight_transform contrib_conv2d_winograd_without_weight_transform
contrib_conv2d_winograd_nnpack_weight_transform contrib_conv3d_winograd_weight_transform
contrib_conv3d_winograd_without_weight_transform correlation cross_entropy
cross_entropy_with_logits deformable_conv2d dense depth_to_space dilate dropout fast_softmax
fifo_buffer group_norm instance_norm l2_normalize layer_norm leaky_relu log_softmax lrn matmul
mirror_pad nll_loss pad prelu relu softmax space_to_batch_nd space_to_depth sparse_add
sparse_conv2d sparse_dense sparse_transpose upsampling upsampling3d internal.sparse_dense_padded
"""
OTHERS = {
    "vision": """
all_class_non_max_suppression regular_non_max_suppression non_max_suppression get_valid_counts
multibox_prior multibox_transform_loc proposal roi_align roi_pool yolo_reorg
""",
    "image": "affine_grid crop_and_resize dilation2d grid_sample resize1d resize2d resize3d",
    "random": "multinomial normal uniform threefry_generate threefry_split",
    "annotation": """
bitpack_start bitpack_end cast_hint checkpoint compiler_begin compiler_end force_cast stop_fusion
""",
    "dyn": """
broadcast_to expand_dims full image.resize2d nn.pad nn.upsampling nn.upsampling3d one_hot ones
reshape sparse_to_dense squeeze strided_slice tile topk zeros
""",
    "memory": "alloc_storage alloc_tensor kill",
    "vm": "invoke_tvm_op shape_func shape_of reshape_tensor",
}
PARTS = ("plain", "moves", "nn", "more")
SAME = {"vm.shape_of"}
"""Second names of operators."""

NAMES = [*ROOT.split(), *[f"nn.{n}" for n in NN.split()]]
NAMES += [f"{group}.{n}" for group, names in OTHERS.items() for n in names.split()]


def test_every_name_is_an_operator() -> None:
    have = set(relay.op.list_op_names())
    assert sorted(set(NAMES) - have) == []
    assert sorted(n for n in have - set(NAMES) if not n.startswith("qnn.")) == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_what_to_do(name: str) -> None:
    op = relay.op.get(name)
    with pytest.raises(Unsupported, match="is not an operator of smelt") as caught:
        call(op, relay.const(1.0))
    assert REFUSED[name] in str(caught.value)


def test_every_operator_has_a_case() -> None:
    pytest.importorskip("torch")
    cases = [importlib.import_module(f"tests.relay_ops.cases_{part}").CASES for part in PARTS]
    have = {c.name for many in cases for c in many}
    assert sorted(set(NAMES) - have - set(REFUSED) - SAME) == []


def test_operators_say_what_they_are() -> None:
    for name in NAMES:
        assert relay.op.get(name).__doc__, name
