"""Convolutions in any layout of their dimensions.

The core knows one layout, channels behind the batch; bodies turn operands and result.
"""

from __future__ import annotations

from typing import Any

from smelt.relax.compose.common import cast_to, legal
from smelt.relax.compose.layout import gathered, spread
from smelt.relax.compose.window import SPATIAL, conv, matched, sliding, window
from smelt.relax.nodes import RelaxExpr, call
from smelt.topi.registry import attributes

from ..dialect import RELAY, relay_op


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
@attributes(**placed(2), groups=1, channels=None, kernel_size=None, grad_layout="NCHW",
            data_layout="NCHW", kernel_layout="OIHW", out_dtype="")  # fmt: skip
def conv2d_backward_weight(grad: RelaxExpr, data: RelaxExpr, **a: Any) -> RelaxExpr:
    """The derivative of conv2d by its weight; kernel_size has to be given."""
    legal(a["kernel_size"] is not None, "kernel_size has to be given")
    g = spread(grad, a["grad_layout"], "grad_layout", "NCHW")
    x = spread(data, a["data_layout"], "data_layout", "NCHW")
    w = call(
        "conv_backward_weight", g, x, kernel=a["kernel_size"], groups=a["groups"], **sliding(a)
    )
    return cast_to(gathered(w, "OIHW", a["kernel_layout"], "kernel_layout"), a["out_dtype"])


@relay_op("nn.deformable_conv2d", prepare=window(2, "strides", "dilation", "kernel_size"))
@attributes(**placed(2), deformable_groups=1, groups=1, channels=None, kernel_size=None,
            data_layout="NCHW", kernel_layout="OIHW", out_layout="", out_dtype="")  # fmt: skip
def deformable_conv2d(data: RelaxExpr, offset: RelaxExpr, weight: RelaxExpr, **a: Any) -> RelaxExpr:
    """A convolution whose kernel elements meet the image at points moved by offsets."""
    layout = a["data_layout"]
    x, w, place = matched(2, data, weight, a)
    moved = spread(offset, layout, "data_layout", "NCHW")
    y = call("deformable_conv2d", x, moved, w, None, offset_groups=a["deformable_groups"], **place)
    return cast_to(gathered(y, "NCHW", a["out_layout"] or layout, "out_layout"), a["out_dtype"])
