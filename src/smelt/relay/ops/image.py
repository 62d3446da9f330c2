"""Images brought to another size, sampled, dilated."""

from __future__ import annotations

from inspect import Parameter
from typing import Any

from smelt.relax.compose import image
from smelt.relax.compose.common import cast_to, dtype_of, legal, numbers
from smelt.relax.compose.layout import gathered, spread
from smelt.relax.compose.window import SPATIAL, window
from smelt.relax.nodes import RelaxExpr, call
from smelt.topi.registry import attributes

from ..dialect import RELAY, relay_op, same


def _resize(rank: int) -> None:
    def prepare(attrs: dict[str, Any]) -> dict[str, Any]:
        size = attrs["size"]
        attrs["size"] = tuple(size) if isinstance(size, tuple | list) else (size,) * rank
        legal(len(attrs["size"]) == rank, f"size={size}; {rank} numbers are legal")
        roi = tuple(attrs["roi"] or ())
        legal(len(roi) in (0, 2 * rank), f"roi={roi}; {2 * rank} numbers are legal, or none")
        attrs["roi"] = tuple([float(r) for r in roi])
        return attrs

    @attributes(size=Parameter.empty, **image.resizing(rank, "", -0.5))
    def body(data: RelaxExpr, **attrs: Any) -> RelaxExpr:
        return image.resized(data, **attrs)

    body.__doc__ = f"Images with {rank} spatial dimension{'s' * (rank > 1)} of another size."
    RELAY.op(f"image.resize{rank}d", prepare=prepare, order="layout")(body)


for _rank in SPATIAL:
    _resize(_rank)


METHODS = {"bilinear": "linear", "nearest_neighbor": "nearest"}
"""How pixels are read between others: Relay's names, and the core's."""


same("image.crop_and_resize", "data boxes box_indices", core="crop_and_resize", images=True,
     order="", renamed="crop_size=size method=mode", cast="out_dtype",
     forms={"crop_size": numbers("crop_size", 2), "method": METHODS}, required="crop_size",
     layout="NCHW", method="bilinear", extrapolation_value=0.0, out_dtype="",
     doc="Parts of images, each brought to one size.")  # fmt: skip


@relay_op("image.affine_grid")
def affine_grid(data: RelaxExpr, *, target_shape: Any) -> RelaxExpr:
    """The grid [n, 2, h, w] (x, y) that makes grid_sample move an image by matrices [n, 2, 3]."""
    size = numbers("target_shape", 2)(target_shape)
    found = call("affine_grid", data, size=size, align_corners=True)
    return call("transpose", found, axes=(0, 3, 1, 2))


relay_op("image.grid_sample")(image.grid_sample)


@relay_op("image.dilation2d", prepare=window(2, "strides", "dilations"))
@attributes(strides=(1, 1), padding=(0, 0), dilations=(1, 1), data_layout="NCHW",
            kernel_layout="IHW", out_dtype="")  # fmt: skip
def dilation2d(data: RelaxExpr, weight: RelaxExpr, **a: Any) -> RelaxExpr:
    """The largest sum of a window's pixels and the weight's, for each channel."""
    x = spread(data, a["data_layout"], "data_layout", "NCHW")
    w = spread(weight, a["kernel_layout"], "kernel_layout", "IHW")
    y = call("dilation2d", x, w, strides=a["strides"], pads=a["padding"], dilations=a["dilations"])
    t = a["out_dtype"] or dtype_of(data)
    return cast_to(gathered(y, "NCHW", a["data_layout"], "data_layout"), t)
