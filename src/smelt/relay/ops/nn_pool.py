"""Pooling in any layout of the dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smelt.relax.compose.common import numbers
from smelt.relax.compose.window import SPATIAL, adaptive_pool, pool, pool_grad, window
from smelt.relax.nodes import RelaxExpr
from smelt.topi.registry import attributes

from ..dialect import RELAY, make, relay_function

_COUNTING: Mapping[str, Mapping[str, Any]] = {"max": {}, "avg": {"count_include_pad": False}}
"""What only one kind has."""


def _pool(kind: str, rank: int) -> None:
    ones, first = (1,) * rank, "NC" + SPATIAL[rank]

    @attributes(pool_size=ones, strides=ones, dilation=ones, padding=(0,) * rank, layout=first,
                out_layout="", ceil_mode=False, **_COUNTING[kind])  # fmt: skip
    def body(data: RelaxExpr, **attrs: Any) -> RelaxExpr:
        return pool(kind, rank, data, attrs)

    body.__doc__ = f"The {kind} of each window over {rank} dimension{'s' * (rank > 1)}."
    prepare = window(rank, "pool_size", "strides", "dilation")
    RELAY.op(f"nn.{kind}_pool{rank}d", prepare=prepare, order="layout")(body)


def _grad(kind: str) -> None:
    @attributes(pool_size=(1, 1), strides=(1, 1), padding=(0, 0), layout="NCHW", out_layout="",
                ceil_mode=False, **_COUNTING[kind])  # fmt: skip
    def body(out_grad: RelaxExpr, data: RelaxExpr, **attrs: Any) -> RelaxExpr:
        return pool_grad(kind, out_grad, data, attrs)

    body.__doc__ = f"The derivative of nn.{kind}_pool2d."
    RELAY.op(f"nn.{kind}_pool2d_grad", prepare=window(2, "pool_size", "strides"))(body)


def _global(kind: str) -> None:
    def body(data: RelaxExpr, *, layout: str = "NCHW", out_layout: str = "") -> RelaxExpr:
        return adaptive_pool(kind, 2, data, (1, 1), layout, out_layout)

    body.__doc__ = f"The {kind} of each channel's whole image."
    RELAY.op(f"nn.global_{kind}_pool2d", order="layout")(body)


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
    RELAY.op(f"nn.adaptive_{kind}_pool{rank}d", prepare=prepare, order="layout")(body)


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
