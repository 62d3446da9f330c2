"""Pooling in any layout of the dimensions."""

from __future__ import annotations

from typing import Any

from smelt.relax.compose.common import numbers
from smelt.relax.compose.layout import gathered, spread
from smelt.relax.compose.window import SPATIAL, adaptive_pool, ceiled, pool, window
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import RELAY, make, relay_function


def _pool(kind: str, rank: int) -> None:
    first = "NC" + SPATIAL[rank]

    if kind == "max":

        def body(
            data: RelaxExpr, *, pool_size: Any = (1,) * rank, strides: Any = (1,) * rank,
            dilation: Any = (1,) * rank, padding: Any = (0,) * rank, layout: str = first,
            out_layout: str = "", ceil_mode: bool = False,
        ) -> RelaxExpr:  # fmt: skip
            return pool(kind, rank, data, layout, out_layout, ceil_mode, {
                "kernel": pool_size, "strides": strides, "pads": padding, "dilations": dilation,
            })  # fmt: skip
    else:

        def body(  # type: ignore[misc]
            data: RelaxExpr, *, pool_size: Any = (1,) * rank, strides: Any = (1,) * rank,
            dilation: Any = (1,) * rank, padding: Any = (0,) * rank, layout: str = first,
            out_layout: str = "", ceil_mode: bool = False, count_include_pad: bool = False,
        ) -> RelaxExpr:  # fmt: skip
            return pool(kind, rank, data, layout, out_layout, ceil_mode, {
                "kernel": pool_size, "strides": strides, "pads": padding, "dilations": dilation,
                "count_include_pad": count_include_pad,
            })  # fmt: skip

    body.__doc__ = f"The {kind} of each window over {rank} dimension{'s' * (rank > 1)}."
    prepare = window(rank, "pool_size", "strides", "dilation")
    RELAY.op(f"nn.{kind}_pool{rank}d", prepare=prepare)(body)


def _grad(kind: str) -> None:
    def derivative(
        out_grad: Any, data: Any, layout: str, out_layout: str, ceil: bool, a: Any
    ) -> RelaxExpr:
        x = spread(data, layout, "layout", "NCHW")
        g = spread(out_grad, out_layout or layout, "layout", "NCHW")
        if ceil:
            a["pads"] = ceiled(x, a["kernel"], a["strides"], a["pads"], (1, 1))
        return gathered(call(f"{kind}_pool_grad", g, x, **a), "NCHW", layout, "layout")

    if kind == "max":

        def body(
            out_grad: RelaxExpr, data: RelaxExpr, *, pool_size: Any = (1, 1),
            strides: Any = (1, 1), padding: Any = (0, 0), layout: str = "NCHW",
            out_layout: str = "", ceil_mode: bool = False,
        ) -> RelaxExpr:  # fmt: skip
            return derivative(out_grad, data, layout, out_layout, ceil_mode, {
                "kernel": pool_size, "strides": strides, "pads": padding,
            })  # fmt: skip
    else:

        def body(  # type: ignore[misc]
            out_grad: RelaxExpr, data: RelaxExpr, *, pool_size: Any = (1, 1),
            strides: Any = (1, 1), padding: Any = (0, 0), layout: str = "NCHW",
            out_layout: str = "", ceil_mode: bool = False, count_include_pad: bool = False,
        ) -> RelaxExpr:  # fmt: skip
            return derivative(out_grad, data, layout, out_layout, ceil_mode, {
                "kernel": pool_size, "strides": strides, "pads": padding,
                "count_include_pad": count_include_pad,
            })  # fmt: skip

    body.__doc__ = f"The derivative of nn.{kind}_pool2d."
    RELAY.op(f"nn.{kind}_pool2d_grad", prepare=window(2, "pool_size", "strides"))(body)


def _global(kind: str) -> None:
    def body(data: RelaxExpr, *, layout: str = "NCHW", out_layout: str = "") -> RelaxExpr:
        x = spread(data, layout, "layout", "NCHW")
        y = call("mean" if kind == "avg" else "max", x, axes=(2, 3), keepdims=True)
        return gathered(y, "NCHW", out_layout or layout, "out_layout")

    body.__doc__ = f"The {kind} of each channel's whole image."
    RELAY.op(f"nn.global_{kind}_pool2d")(body)


def _adaptive(kind: str, rank: int) -> None:
    first = "NC" + SPATIAL[rank]

    def prepare(attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["output_size"] not in (None, ()):
            attrs["output_size"] = numbers("output_size", rank)(attrs["output_size"])
        return attrs

    def body(
        data: RelaxExpr, *, output_size: Any = None, layout: str = first, out_layout: str = ""
    ) -> RelaxExpr:
        return adaptive_pool(kind, rank, data, output_size, layout, out_layout)

    body.__doc__ = f"""The {kind} of as many windows as output_size says, which cover the image
    evenly; None: one window a pixel."""
    RELAY.op(f"nn.adaptive_{kind}_pool{rank}d", prepare=prepare)(body)


def _global_function(kind: str, rank: int) -> None:
    def build(data: Any, layout: str = "NC" + SPATIAL[rank], out_layout: str = "") -> RelaxExpr:
        return make(f"nn.adaptive_{kind}_pool{rank}d", data, output_size=(1,) * rank,
                    layout=layout, out_layout=out_layout)  # fmt: skip

    build.__doc__ = f"The {kind} of each channel over all of its {rank} spatial dimensions."
    relay_function(f"nn.global_{kind}_pool{rank}d")(build)


for _kind in ("max", "avg"):
    for _rank in SPATIAL:
        _pool(_kind, _rank)
        _adaptive(_kind, _rank)
        if _rank != 2:
            _global_function(_kind, _rank)
    _grad(_kind)
    _global(_kind)
