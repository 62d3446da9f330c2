"""`relax.op.image`: images brought to another size, and sampled."""

from __future__ import annotations

from inspect import Parameter
from typing import Any

from smelt.topi.registry import attributes

from ..compose import image
from ..compose.common import legal
from ..nodes import RelaxExpr, call
from .entry import entry, namespace, number_given, shape_given

__getattr__, __dir__ = namespace("image")


def _resize(rank: int) -> None:
    @attributes(size=Parameter.empty, **image.resizing(rank, "round", -0.75))
    def build(data: RelaxExpr, *, size: Any, roi: Any, **attrs: Any) -> RelaxExpr:
        to = shape_given(size)
        to = to * rank if len(to) == 1 else to
        legal(len(to) == rank, f"size={size}; {rank} numbers are legal")
        part = tuple([float(number_given(r)) for r in roi or ()])
        legal(len(part) in (0, 2 * rank), f"roi={roi}; {2 * rank} numbers are legal, or none")
        return image.resized(data, to, roi=part if any(part) else (), **attrs)

    build.__doc__ = f"Images with {rank} spatial dimension{'s' * (rank > 1)} of another size."
    entry(f"image.resize{rank}d")(build)


_resize(2)
_resize(3)


entry("image.grid_sample")(image.grid_sample)


@entry("image.affine_grid")
def affine_grid(data: RelaxExpr, size: Any, align_corners: bool = True) -> RelaxExpr:
    """The grid [n, 2, h, w] (x, y) that makes grid_sample move an image by matrices [n, 2, 3]."""
    to = shape_given(size)
    to = to * 2 if len(to) == 1 else to
    legal(len(to) == 2, f"size={size}; 2 numbers are legal")
    found = call("affine_grid", data, size=to, align_corners=bool(align_corners))
    return call("transpose", found, axes=(0, 3, 1, 2))
