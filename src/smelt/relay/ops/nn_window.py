"""Convolutions in any layout of their dimensions.

The core knows one layout, channels behind the batch; bodies turn operands and result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.relax.nodes import RelaxExpr, call

from ..dialect import RELAY, relay_op
from .common import (
    cast_to,
    extents,
    legal,
    numbers,
    pad_numbers,
    rank_of,
    to_layout,
    turned,
)
from .layout import in_layout, parse_layout, whole_dims

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def window(rank: int, *names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What brings the attributes of a window over `rank` dimensions into the form of tuples.

    names  attributes of one number a dimension; `padding` is always one
    """

    def prepare(attrs: dict[str, Any]) -> dict[str, Any]:
        for name in names:
            if attrs.get(name) is not None:
                attrs[name] = numbers(name, rank)(attrs[name])
        attrs["padding"] = pad_numbers(attrs["padding"], rank)
        return attrs

    return prepare


def spread(x: RelaxExpr, layout: str, what: str, want: str) -> RelaxExpr:
    """A tensor in the order `want` of its dimensions, whatever its layout is: NHWC, NCHW16c."""
    dims = parse_layout(layout, what)
    legal(
        rank_of(x) == len(dims),
        f"{what}={layout!r} has {len(dims)} dimensions, the tensor {rank_of(x)}",
    )
    whole, letters = whole_dims(x, dims)
    return turned(whole, to_layout(letters, [want], what), want)


def gathered(y: RelaxExpr, have: str, layout: str, what: str) -> RelaxExpr:
    """The inverse of `spread`."""
    dims = parse_layout(layout, what)
    letters = "".join([a for a, _ in dims if a.isupper()])
    return in_layout(turned(y, have, to_layout(letters, [have], what)), letters, dims)


def check_weight(weight: RelaxExpr, channels: Any, kernel_size: Any, have: int | None) -> None:
    """The attributes that repeat what the weight's shape says."""
    size = extents(weight)[2:]
    legal(
        channels is None or have in (None, channels),
        f"channels={channels}, but the weight has {have} output channels",
    )
    legal(
        kernel_size is None or all(h in (None, k) for h, k in zip(size, kernel_size, strict=True)),
        f"kernel_size={kernel_size}, but the weight has {size}",
    )


def check_channels(x: RelaxExpr, w: RelaxExpr, groups: int, transposed: bool = False) -> None:
    """The data's channels have to be those that the weight reads."""
    legal(groups >= 1, f"groups={groups}; it has to be at least 1")
    have, own = extents(x)[1], extents(w)[0 if transposed else 1]
    want = own if transposed or own is None else own * groups
    legal(
        have == want or None in (have, want),
        f"the data has {have} channels, the weight reads {want}"
        + ("" if transposed else f" ({own} x groups={groups})")
        + "; they have to be equal",
    )


def _conv(rank: int) -> None:
    first = "NC" + SPATIAL[rank]
    kernel = "OI" + SPATIAL[rank]

    def body(
        data: RelaxExpr,
        weight: RelaxExpr,
        *,
        strides: Any = (1,) * rank,
        padding: Any = (0,) * rank,
        dilation: Any = (1,) * rank,
        groups: int = 1,
        channels: int | None = None,
        kernel_size: Any = None,
        data_layout: str = first,
        kernel_layout: str = kernel,
        out_layout: str = "",
        out_dtype: str = "",
    ) -> RelaxExpr:
        x = spread(data, data_layout, "data_layout", first)
        w = spread(weight, kernel_layout or kernel, "kernel_layout", kernel)
        check_weight(w, channels, kernel_size, extents(w)[0])
        check_channels(x, w, groups)
        y = call(f"conv{rank}d", x, w, strides=strides, pads=padding, dilations=dilation,
                 groups=groups, out_dtype=out_dtype)  # fmt: skip
        return gathered(y, first, out_layout or data_layout, "out_layout")

    body.__doc__ = f"A convolution over {rank} dimension{'s' * (rank > 1)}."
    prepare = window(rank, "strides", "dilation", "kernel_size")
    names = [f"nn.conv{rank}d"]
    if rank == 2:
        names += ["nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc"]
    RELAY.op(*names, prepare=prepare)(body)


for _rank in SPATIAL:
    _conv(_rank)


def _conv_transpose(rank: int) -> None:
    first = "NC" + SPATIAL[rank]
    # names of the data's and the result's channels: 2-D kernels are called by what they are, 1-D
    # and 3-D ones by the convolution that this one is the transpose of
    mine = ("IO" if rank == 2 else "OI") + SPATIAL[rank]

    def body(
        data: RelaxExpr,
        weight: RelaxExpr,
        *,
        strides: Any = (1,) * rank,
        padding: Any = (0,) * rank,
        dilation: Any = (1,) * rank,
        groups: int = 1,
        channels: int | None = None,
        kernel_size: Any = None,
        data_layout: str = first,
        kernel_layout: str = mine,
        out_layout: str = "",
        output_padding: Any = (0,) * rank,
        out_dtype: str = "",
    ) -> RelaxExpr:
        x = spread(data, data_layout, "data_layout", first)
        w = spread(weight, kernel_layout or mine, "kernel_layout", mine)
        own = extents(w)[1]
        check_weight(w, channels, kernel_size, None if own is None else own * groups)
        check_channels(x, w, groups, transposed=True)
        y = call("conv_transpose", x, w, strides=strides, pads=padding, dilations=dilation,
                 output_padding=output_padding, groups=groups, out_dtype=out_dtype)  # fmt: skip
        return gathered(y, first, out_layout or data_layout, "out_layout")

    body.__doc__ = f"""A transposed convolution over {rank} dimension{"s" * (rank > 1)}.

    The weight is [the data's channels, the result's / groups, ...] where kernel_layout={mine!r}.
    """
    prepare = window(rank, "strides", "dilation", "kernel_size", "output_padding")
    RELAY.op(f"nn.conv{rank}d_transpose", prepare=prepare)(body)


for _rank in SPATIAL:
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
