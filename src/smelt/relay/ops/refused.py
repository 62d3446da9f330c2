"""Names of Relay for which there is no operator here, and what does their work."""

from __future__ import annotations

from typing import Any, NoReturn

from smelt.ir.errors import Unsupported
from smelt.relax.nodes import RelaxExpr

from ..dialect import RELAY, relay_function

_CONV = "write nn.conv2d (nn.conv3d); the compiler chooses the algorithm and packs the weight"
_PLAN = "the compiler plans memory and calls of kernels itself; build the function as it is"

REFUSED = {
    **dict.fromkeys(
        ("auto_scheduler_layout_transform", "meta_schedule_layout_transform"),
        "write layout_transform; tuned programs pack their weights"),
    **dict.fromkeys(
        ("call_lowered", "memory.alloc_storage", "memory.alloc_tensor", "memory.kill",
         "vm.invoke_tvm_op", "vm.shape_func"), _PLAN),
    **dict.fromkeys(
        [f"nn.contrib_{what}_weight_transform" for what in (
            "conv2d_gemm", "conv2d_gemm_without", "conv2d_winograd", "conv2d_winograd_nnpack",
            "conv2d_winograd_without", "conv3d_winograd", "conv3d_winograd_without")], _CONV),
    "debug": "give the value back as a further result, or run smelt.relax.interpret",
    "torch_op": "import the module with relay.frontend.from_pytorch",
    "nn.internal.sparse_dense_padded": "write nn.sparse_dense",
    "qnn.contrib_dense_pack": "write qnn.dense; the compiler packs the weight",
    "vm.reshape_tensor": "write reshape",
}  # fmt: skip
"""Name: what to do instead."""


def _refuse(name: str, instead: str) -> None:
    def stop(*given: Any, **named: Any) -> NoReturn:
        raise Unsupported(f"relay.{name} is not an operator of smelt; {instead}")

    def body(*operands: RelaxExpr) -> RelaxExpr:
        stop()

    body.__doc__ = stop.__doc__ = f"Not an operator of smelt; {instead}."
    RELAY.op(name)(body)
    relay_function(name)(stop)


for _name, _instead in REFUSED.items():
    _refuse(_name, _instead)
