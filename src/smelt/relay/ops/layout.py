"""Other layouts of a tensor's dimensions."""

from __future__ import annotations

from typing import Any

from smelt.relax.compose.layout import gathered, relaid, spread
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import relay_op


def on_images(
    name: str, data: RelaxExpr, layout: str, *operands: RelaxExpr, **attrs: Any
) -> RelaxExpr:
    """An operator of the core on images NCHW, of images in any layout."""
    y = call(name, spread(data, layout, "layout", "NCHW"), *operands, **attrs)
    return gathered(y, "NCHW", layout, "layout")


@relay_op("layout_transform")
def layout_transform(data: RelaxExpr, *, src_layout: str, dst_layout: str) -> RelaxExpr:
    """A tensor in another layout: NCHW to NHWC, NCHW to NCHW16c, OIHW to OIHW4i16o4i."""
    return relaid(data, src_layout, dst_layout)
