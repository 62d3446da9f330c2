"""Convolutions and pooling in any layout."""

from __future__ import annotations

from typing import Any

from ..compose.common import legal, numbers, one_of, pad_numbers, rank_of, shape_of
from ..compose.layout import gathered, spread
from ..compose.window import SPATIAL, adaptive_pool, ceiled, conv, pool
from ..compose.window import window as prepared
from ..nodes import RelaxExpr, call
from .entry import entry, number_given


def _plain(given: Any) -> Any:
    """Numbers of an attribute, however they are held."""
    if given is None:
        return None
    many = getattr(given, "values", given)
    if isinstance(many, list | tuple):
        return tuple([int(number_given(n)) for n in many])
    return int(number_given(many))


def _conv(rank: int) -> None:
    first, kernel = "NC" + SPATIAL[rank], "OI" + SPATIAL[rank]
    prepare = prepared(rank, "strides", "dilation")

    def build(
        data: RelaxExpr, weight: RelaxExpr, strides: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1, data_layout: str = first, kernel_layout: str = kernel,
        out_layout: str | None = None, out_dtype: str | None = None,
    ) -> RelaxExpr:  # fmt: skip
        return conv(rank, data, weight, prepare({
            "strides": _plain(strides), "padding": _plain(padding), "dilation": _plain(dilation),
            "groups": groups, "data_layout": data_layout, "kernel_layout": kernel_layout,
            "out_layout": out_layout, "out_dtype": out_dtype,
        }))  # fmt: skip

    build.__doc__ = f"A convolution over {rank} dimension{'s' * (rank > 1)}."
    entry(f"nn.conv{rank}d")(build)


def _conv_transpose(rank: int) -> None:
    first, kernel = "NC" + SPATIAL[rank], "IO" + SPATIAL[rank]
    prepare = prepared(rank, "strides", "dilation", "output_padding")

    def build(
        data: RelaxExpr, weight: RelaxExpr, strides: Any = 1, padding: Any = 0,
        output_padding: Any = 0, dilation: Any = 1, groups: int = 1, data_layout: str = first,
        kernel_layout: str = kernel, out_layout: str | None = None, out_dtype: str | None = None,
    ) -> RelaxExpr:  # fmt: skip
        return conv(rank, data, weight, prepare({
            "strides": _plain(strides), "padding": _plain(padding), "dilation": _plain(dilation),
            "output_padding": _plain(output_padding), "groups": groups,
            "data_layout": data_layout, "kernel_layout": kernel_layout, "out_layout": out_layout,
            "out_dtype": out_dtype,
        }), kernel)  # fmt: skip

    build.__doc__ = f"A transposed convolution over {rank} dimension{'s' * (rank > 1)}."
    entry(f"nn.conv{rank}d_transpose")(build)


def _pool(kind: str, rank: int) -> None:
    first = "NC" + SPATIAL[rank]

    def build(
        data: RelaxExpr, pool_size: Any = 1, strides: Any = None, padding: Any = 0,
        dilation: Any = 1, ceil_mode: bool = False, count_include_pad: bool = False,
        layout: str = first, out_layout: str | None = None,
    ) -> RelaxExpr:  # fmt: skip
        attrs = _window(rank, pool_size, strides, padding, dilation)
        if kind == "avg":
            attrs["count_include_pad"] = bool(count_include_pad)
        return pool(kind, rank, data, layout, out_layout or "", bool(ceil_mode), attrs)

    build.__doc__ = f"""The {kind} of each window over {rank} dimension{"s" * (rank > 1)}.

    strides  None: those of pool_size
    """
    entry(f"nn.{kind}_pool{rank}d")(build)

    def adaptive(
        data: RelaxExpr, output_size: Any = None, layout: str = first,
        out_layout: str | None = None,
    ) -> RelaxExpr:  # fmt: skip
        size = None if output_size is None else numbers("output_size", rank)(_plain(output_size))
        return adaptive_pool(kind, rank, data, size, layout, out_layout or "")

    adaptive.__doc__ = f"The {kind} of as many windows as output_size says; None: one a pixel."
    entry(f"nn.adaptive_{kind}_pool{rank}d")(adaptive)


def _window(rank: int, size: Any, strides: Any, padding: Any, dilation: Any) -> dict[str, Any]:
    """The attributes of a window as the core names them."""
    kernel = numbers("pool_size", rank)(_plain(size))
    steps = kernel if strides is None else numbers("strides", rank)(_plain(strides))
    return {
        "kernel": kernel, "strides": steps, "pads": pad_numbers(_plain(padding), rank),
        "dilations": numbers("dilation", rank)(_plain(dilation)),
    }  # fmt: skip


def _pool_backward(kind: str) -> None:
    def build(
        output_grad: RelaxExpr, data: RelaxExpr, pool_size: Any = (1, 1), strides: Any = None,
        padding: Any = (0, 0, 0, 0), dilation: Any = (1, 1), ceil_mode: bool = False,
        count_include_pad: bool = False, layout: str = "NCHW", out_layout: str | None = None,
    ) -> RelaxExpr:  # fmt: skip
        attrs = _window(2, pool_size, strides, padding, dilation)
        x = spread(data, layout, "layout", "NCHW")
        g = spread(output_grad, out_layout or layout, "out_layout", "NCHW")
        if ceil_mode:
            attrs["pads"] = ceiled(x, attrs["kernel"], attrs["strides"], attrs["pads"],
                                   attrs["dilations"])  # fmt: skip
        if kind == "avg":
            attrs["count_include_pad"] = bool(count_include_pad)
        return gathered(call(f"{kind}_pool_grad", g, x, **attrs), "NCHW", layout, "layout")

    build.__doc__ = f"The derivative of nn.{kind}_pool2d."
    entry(f"grad.{kind}_pool2d_backward")(build)


for _rank in SPATIAL:
    _conv(_rank)
    _conv_transpose(_rank)
    for _kind in ("max", "avg"):
        _pool(_kind, _rank)
for _kind in ("max", "avg"):
    _pool_backward(_kind)


@entry("nn.pixel_shuffle")
def pixel_shuffle(data: RelaxExpr, upscale_factor: int) -> RelaxExpr:
    """Channels [..., c * r * r, h, w] laid out as blocks of pixels [..., c, h * r, w * r]."""
    legal(rank_of(data) >= 3, f"the data has {rank_of(data)} dimensions; at least 3 are needed")
    if rank_of(data) == 4:
        return call("depth_to_space", data, block=upscale_factor, mode="CRD")
    *lead, c, h, w = shape_of(data)
    batch: Any = 1
    for e in lead:
        batch = e * batch
    flat = call("reshape", data, shape=(batch, c, h, w))
    made = call("depth_to_space", flat, block=upscale_factor, mode="CRD")
    return call("reshape", made, shape=(*lead, *shape_of(made)[1:]))


@entry("nn.pad", core="pad")
def pad(
    data: RelaxExpr, pad_width: Any, pad_mode: str = "constant", pad_value: float = 0.0
) -> RelaxExpr:
    """Elements around: pad_width holds (before, behind) of each dimension, in pairs or flat.

    pad_mode  "constant" (pad_value), "edge" or "replicate" (the nearest element), "reflect"
              (mirrored), "circular" (from the other side)
    """
    modes = {"constant": "constant", "edge": "edge", "replicate": "edge", "reflect": "reflect",
             "circular": "wrap"}  # fmt: skip
    one_of("pad_mode", pad_mode, *modes)
    flat = [n for p in pad_width for n in (p if isinstance(p, list | tuple) else (p,))]
    legal(
        len(flat) == 2 * rank_of(data),
        f"pad_width has {len(flat)} numbers; {2 * rank_of(data)} are needed for "
        f"{rank_of(data)} dimensions",
    )
    given = [number_given(n) for n in flat]
    return call("pad", data, pads=(*given[::2], *given[1::2]), mode=modes[pad_mode],
                value=float(number_given(pad_value)))  # fmt: skip
