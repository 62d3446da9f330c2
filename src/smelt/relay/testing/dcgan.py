"""The generator of DCGAN (Radford, Metz and Chintala 2015): images out of random numbers."""

from __future__ import annotations

from typing import Any

from smelt.relax.nodes import Function, RelaxExpr

from .. import op
from ..expr import var
from .layers import batch_norm_infer, dense_add_bias, extent, network, variable
from .workload import Workload, create_workload


def enlarged(x: RelaxExpr, name: str, channels: int) -> RelaxExpr:
    """Twice as high and wide."""
    weight = variable(f"{name}_weight", extent(x, 1), channels, 4, 4, like=x)
    return op.nn.conv2d_transpose(  # type: ignore[no-any-return]
        x, weight, strides=(2, 2), padding=(1, 1), channels=channels, kernel_size=(4, 4)
    )


def get_net(
    batch_size: int = 1, random_len: int = 100, oshape: Any = (3, 64, 64), ngf: int = 128,
    dtype: str = "float32",
) -> Function:  # fmt: skip
    """oshape: channels, height and width (64) of the images; ngf: channels of the last layer but
    one."""
    x: RelaxExpr = var("data", shape=(batch_size, random_len), dtype=dtype)
    x = op.reshape(dense_add_bias(x, "start", ngf * 8 * 16), (-1, ngf * 8, 4, 4))
    x = op.nn.relu(batch_norm_infer(x, "start_bn"))
    for n, factor in enumerate((4, 2, 1)):
        x = enlarged(x, f"g{n + 1}", ngf * factor)
        x = op.nn.relu(batch_norm_infer(x, f"g{n + 1}_bn"))
    return network(op.tanh(enlarged(x, "g4", oshape[0])))


def get_workload(
    batch_size: int = 1, oshape: Any = (3, 64, 64), ngf: int = 128, random_len: int = 100,
    dtype: str = "float32",
) -> Workload:  # fmt: skip
    """The network with weights."""
    return create_workload(get_net(batch_size, random_len, oshape, ngf, dtype))
