"""Names of Relay for which there is no operator here, and what does their work."""

from __future__ import annotations

from typing import Any, NoReturn

from smelt.ir.errors import Unsupported
from smelt.relax.nodes import RelaxExpr

from ..dialect import RELAY, relay_function

_CONV = "write nn.conv2d (nn.conv3d); the compiler chooses the algorithm and packs the weight"
_PLAN = "the compiler plans memory and calls of kernels itself; build the function as it is"

REFUSED = {
    "auto_scheduler_layout_transform": "write layout_transform; tuned programs pack their weights",
    "meta_schedule_layout_transform": "write layout_transform; tuned programs pack their weights",
    "call_lowered": _PLAN,
    "debug": "give the value back as a further result, or run smelt.relax.interpret",
    "torch_op": "import the module with relay.frontend.from_pytorch",
    "nn.contrib_conv2d_gemm_weight_transform": _CONV,
    "nn.contrib_conv2d_gemm_without_weight_transform": _CONV,
    "nn.contrib_conv2d_winograd_nnpack_weight_transform": _CONV,
    "nn.contrib_conv2d_winograd_weight_transform": _CONV,
    "nn.contrib_conv2d_winograd_without_weight_transform": _CONV,
    "nn.contrib_conv3d_winograd_weight_transform": _CONV,
    "nn.contrib_conv3d_winograd_without_weight_transform": _CONV,
    "nn.internal.sparse_dense_padded": "write nn.sparse_dense",
    "qnn.contrib_dense_pack": "write qnn.dense; the compiler packs the weight",
    "memory.alloc_storage": _PLAN,
    "memory.alloc_tensor": _PLAN,
    "memory.kill": _PLAN,
    "vm.invoke_tvm_op": _PLAN,
    "vm.reshape_tensor": "write reshape",
    "vm.shape_func": _PLAN,
}
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
