"""Other layouts of a tensor's dimensions."""

from __future__ import annotations

from smelt.relax.compose.layout import relaid
from smelt.relax.nodes import RelaxExpr

from ..dialect import relay_op


@relay_op("layout_transform")
def layout_transform(data: RelaxExpr, *, src_layout: str, dst_layout: str) -> RelaxExpr:
    """A tensor in another layout: NCHW to NHWC, NCHW to NCHW16c, OIHW to OIHW4i16o4i."""
    return relaid(data, src_layout, dst_layout)
