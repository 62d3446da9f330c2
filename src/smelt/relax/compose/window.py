"""Convolutions and pooling in any layout of their dimensions.

The core knows one layout, channels behind the batch; operands and results are turned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..nodes import Call, RelaxExpr, call
from .common import extents, legal, numbers, pad_numbers, rank_of, shape_of
from .layout import gathered, spread

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


def _check_weight(weight: RelaxExpr, channels: Any, kernel_size: Any, have: int | None) -> None:
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


def _check_channels(x: RelaxExpr, w: RelaxExpr, groups: int, transposed: bool = False) -> None:
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


def ceiled(x: RelaxExpr, size: Any, strides: Any, padding: Any, dilation: Any) -> tuple[int, ...]:
    """Padding behind so wide that the last window, which starts inside, is whole."""
    count = len(size)
    out = list(padding)
    for d in range(count):
        extent = extents(x)[2 + d]
        legal(extent is not None, f"ceil_mode needs known extents; axis {2 + d} is symbolic")
        room = (extent or 0) + padding[d] + padding[count + d] - dilation[d] * (size[d] - 1) - 1
        out[count + d] += -room % strides[d]
    return tuple(out)


def _even(have: tuple[int | None, ...], size: tuple[int, ...]) -> bool:
    """Whether windows that cover an image evenly are all of one size."""
    return all(h is not None and h % n == 0 for h, n in zip(have, size, strict=True))


def sliding(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """What places windows, by the core's names."""
    return {"strides": attrs["strides"], "pads": attrs["padding"], "dilations": attrs["dilation"]}


def placed(n: Call, rank: int) -> dict[str, Any]:
    """The strides, pads and dilations of a window over `rank` dimensions, written out."""
    usual = {"strides": (1,) * rank, "pads": (0,) * (2 * rank), "dilations": (1,) * rank}
    return {name: tuple(n.attrs[name]) or value for name, value in usual.items()}


def without_border(n: Call) -> Call:
    """A convolution whose border has a number, as one of a padded image."""
    x, pads = n.args[0], placed(n, rank_of(n) - 2)["pads"]
    half = len(pads) // 2
    wide = call("pad", x, pads=(0, 0, *pads[:half], 0, 0, *pads[half:]), value=n.attrs["border"])
    return call(n.callee, wide, n.args[1], **{**n.attrs, "pads": (), "border": 0}, name=n.name)


def matched(
    rank: int, data: RelaxExpr, weight: RelaxExpr, attrs: Mapping[str, Any], transposed: str = ""
) -> tuple[RelaxExpr, RelaxExpr, dict[str, Any]]:
    """Data and weight of a convolution in the core's layouts, and what the core's call is told.

    attrs, transposed  as of `conv`
    """
    first, kernel = "NC" + SPATIAL[rank], transposed or "OI" + SPATIAL[rank]
    x = spread(data, attrs["data_layout"] or first, "data_layout", first)
    w = spread(weight, attrs["kernel_layout"] or kernel, "kernel_layout", kernel)
    groups = attrs["groups"]
    own = extents(w)[1 if transposed else 0]
    have = own * groups if transposed and own is not None else own
    _check_weight(w, attrs.get("channels"), attrs.get("kernel_size"), have)
    _check_channels(x, w, groups, transposed=bool(transposed))
    more = {"output_padding": attrs["output_padding"]} if transposed else {}
    return x, w, {**sliding(attrs), "groups": groups, **more}


def conv(
    rank: int, data: RelaxExpr, weight: RelaxExpr, attrs: dict[str, Any], transposed: str = ""
) -> RelaxExpr:
    """A convolution over `rank` dimensions, written in any layout.

    attrs       what `window` has brought into its form: strides, padding, dilation, groups,
                channels, kernel_size, data_layout, kernel_layout, out_layout, out_dtype and, of a
                transposed one, output_padding
    transposed  the letters of a transposed convolution's weight [the data's channels, the
                result's / groups, ...] where no kernel_layout is given
    """
    x, w, place = matched(rank, data, weight, attrs, transposed)
    name, first = "conv_transpose" if transposed else f"conv{rank}d", "NC" + SPATIAL[rank]
    y = call(name, x, w, out_dtype=attrs["out_dtype"] or "", **place)
    out = attrs["out_layout"] or attrs["data_layout"] or first
    return gathered(y, first, out, "out_layout")


def pooling(
    rank: int, data: RelaxExpr, attrs: Mapping[str, Any]
) -> tuple[RelaxExpr, dict[str, Any]]:
    """The data of a pool in the core's layout, and its windows by the core's names."""
    x = spread(data, attrs["layout"], "layout", "NC" + SPATIAL[rank])
    size, place = attrs["pool_size"], sliding(attrs)
    if attrs["ceil_mode"]:
        place["pads"] = ceiled(x, size, *place.values())
    return x, {"kernel": size, **place}


def _counting(kind: str, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """What only averages are told."""
    return {"count_include_pad": bool(attrs["count_include_pad"])} if kind == "avg" else {}


def pool(kind: str, rank: int, data: RelaxExpr, attrs: Mapping[str, Any]) -> RelaxExpr:
    """The "max" or "avg" of windows.

    attrs  what `window` has brought into its form: pool_size, strides, padding, dilation, layout,
           out_layout, ceil_mode and, of averages, count_include_pad
    """
    x, windows = pooling(rank, data, attrs)
    y = call(f"{kind}_pool", x, **windows, **_counting(kind, attrs))
    return gathered(y, "NC" + SPATIAL[rank], attrs["out_layout"] or attrs["layout"], "out_layout")


def pool_grad(kind: str, grad: RelaxExpr, data: RelaxExpr, attrs: Mapping[str, Any]) -> RelaxExpr:
    """The derivative of `pool` over two dimensions by the data, times that of its result."""
    layout = attrs["layout"]
    x, windows = pooling(2, data, {"dilation": (1, 1), **attrs})
    g = spread(grad, attrs["out_layout"] or layout, "out_layout", "NCHW")
    y = call(f"{kind}_pool_grad", g, x, **windows, **_counting(kind, attrs))
    return gathered(y, "NCHW", layout, "layout")


def adaptive_pool(
    kind: str, rank: int, data: RelaxExpr, output_size: Any, layout: str, out_layout: str
) -> RelaxExpr:
    """The "max" or "avg" of as many windows as output_size says (None: one a pixel)."""
    first = "NC" + SPATIAL[rank]
    x = spread(data, layout, "layout", first)
    have = extents(x)[2:]
    size = tuple(output_size or shape_of(x)[2:])
    if size == (1,) * rank:
        name = "mean" if kind == "avg" else "max"
        y: RelaxExpr = call(name, x, axes=tuple(range(2, rank + 2)), keepdims=True)
    elif output_size and _even(have, size):
        step = tuple([(h or 1) // n for h, n in zip(have, size, strict=True)])
        y = call(f"{kind}_pool", x, kernel=step, strides=step)
    else:
        y = x if not output_size else call(f"adaptive_{kind}_pool", x, size=size)
    return gathered(y, first, out_layout or layout, "out_layout")
