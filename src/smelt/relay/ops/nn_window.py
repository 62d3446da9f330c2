"""Convolutions in any layout of their dimensions.

The core knows one layout, channels behind the batch; bodies turn operands and result.
"""

from __future__ import annotations

from typing import Any

from smelt.relax.compose.common import cast_to, extents, legal
from smelt.relax.compose.layout import gathered, spread
from smelt.relax.compose.window import SPATIAL, check_channels, check_weight, conv, window
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import RELAY, attributes, relay_op


def placed(rank: int) -> dict[str, Any]:
    """What places the windows of a convolution, and the defaults."""
    return {"strides": (1,) * rank, "padding": (0,) * rank, "dilation": (1,) * rank}


def _conv(rank: int) -> None:
    first, kernel = "NC" + SPATIAL[rank], "OI" + SPATIAL[rank]

    @attributes(**placed(rank), groups=1, channels=None, kernel_size=None, data_layout=first,
                kernel_layout=kernel, out_layout="", out_dtype="")  # fmt: skip
    def body(data: RelaxExpr, weight: RelaxExpr, **attrs: Any) -> RelaxExpr:
        return conv(rank, data, weight, attrs)

    body.__doc__ = f"A convolution over {rank} dimension{'s' * (rank > 1)}."
    prepare = window(rank, "strides", "dilation", "kernel_size")
    names = [f"nn.conv{rank}d"]
    if rank == 2:
        names += ["nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc"]
    RELAY.op(*names, prepare=prepare, order="weights")(body)


def _conv_transpose(rank: int) -> None:
    first = "NC" + SPATIAL[rank]
    # names of the data's and the result's channels: 2-D kernels are called by what they are, 1-D
    # and 3-D ones by the convolution that this one is the transpose of
    mine = ("IO" if rank == 2 else "OI") + SPATIAL[rank]

    @attributes(**placed(rank), groups=1, channels=None, kernel_size=None, data_layout=first,
                kernel_layout=mine, out_layout="", output_padding=(0,) * rank,
                out_dtype="")  # fmt: skip
    def body(data: RelaxExpr, weight: RelaxExpr, **attrs: Any) -> RelaxExpr:
        return conv(rank, data, weight, attrs, mine)

    body.__doc__ = f"""A transposed convolution over {rank} dimension{"s" * (rank > 1)}.

    The weight is [the data's channels, the result's / groups, ...] where kernel_layout={mine!r}.
    """
    prepare = window(rank, "strides", "dilation", "kernel_size", "output_padding")
    RELAY.op(f"nn.conv{rank}d_transpose", prepare=prepare, order="weights")(body)


for _rank in SPATIAL:
    _conv(_rank)
    _conv_transpose(_rank)


@relay_op("nn.conv2d_backward_weight", prepare=window(2, "strides", "dilation", "kernel_size"))
def conv2d_backward_weight(
    grad: RelaxExpr,
    data: RelaxExpr,
    *,
    strides: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Any = None,
    grad_layout: str = "NCHW",
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_dtype: str = "",
) -> RelaxExpr:
    """The derivative of conv2d by its weight; kernel_size has to be given."""
    legal(kernel_size is not None, "kernel_size has to be given")
    g = spread(grad, grad_layout, "grad_layout", "NCHW")
    x = spread(data, data_layout, "data_layout", "NCHW")
    w = call("conv_backward_weight", g, x, kernel=kernel_size, strides=strides, pads=padding,
             dilations=dilation, groups=groups)  # fmt: skip
    return cast_to(gathered(w, "OIHW", kernel_layout, "kernel_layout"), out_dtype)


@relay_op("nn.deformable_conv2d", prepare=window(2, "strides", "dilation", "kernel_size"))
def deformable_conv2d(
    data: RelaxExpr,
    offset: RelaxExpr,
    weight: RelaxExpr,
    *,
    strides: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    deformable_groups: int = 1,
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Any = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> RelaxExpr:
    """A convolution whose kernel elements meet the image at points moved by offsets."""
    x, moved = (spread(v, data_layout, "data_layout", "NCHW") for v in (data, offset))
    w = spread(weight, kernel_layout, "kernel_layout", "OIHW")
    check_weight(w, channels, kernel_size, extents(w)[0])
    check_channels(x, w, groups)
    y = call("deformable_conv2d", x, moved, w, None, strides=strides, pads=padding,
             dilations=dilation, groups=groups, offset_groups=deformable_groups)  # fmt: skip
    return cast_to(gathered(y, "NCHW", out_layout or data_layout, "out_layout"), out_dtype)
