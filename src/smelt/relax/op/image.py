"""`relax.op.image`: images brought to another size, and sampled."""

from __future__ import annotations

from typing import Any

from ..compose.common import cast_to, legal, one_of, rank_of
from ..compose.image import resized
from ..compose.layout import gathered, spread
from ..compose.window import SPATIAL
from ..nodes import RelaxExpr, call
from .entry import entry, namespace, number_given, shape_given

__getattr__, __dir__ = namespace("image")


def _resize(rank: int) -> None:
    first = "NC" + SPATIAL[rank]

    def build(
        data: RelaxExpr, size: Any, roi: Any = None, layout: str = first, method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "round",
        cubic_alpha: float = -0.75, cubic_exclude: int = 0, extrapolation_value: float = 0.0,
        out_dtype: str | None = None,
    ) -> RelaxExpr:  # fmt: skip
        to = shape_given(size)
        to = to * rank if len(to) == 1 else to
        legal(len(to) == rank, f"size={size}; {rank} numbers are legal")
        part = tuple([float(number_given(r)) for r in roi or ()])
        legal(len(part) in (0, 2 * rank), f"roi={roi}; {2 * rank} numbers are legal, or none")
        part = part if any(part) else ()
        y = resized(
            data, to, layout, method, coordinate_transformation_mode, rounding_method,
            cubic_alpha, bool(cubic_exclude), part, extrapolation_value,
        )  # fmt: skip
        return cast_to(y, out_dtype)

    build.__doc__ = f"Images with {rank} spatial dimension{'s' * (rank > 1)} of another size."
    entry(f"image.resize{rank}d")(build)


_resize(2)
_resize(3)


@entry("image.grid_sample")
def grid_sample(
    data: RelaxExpr, grid: RelaxExpr, method: str = "bilinear", layout: str = "NCHW",
    padding_mode: str = "zeros", align_corners: bool = True,
) -> RelaxExpr:  # fmt: skip
    """Images read at the points of a grid [n, 2 or 3, size...], x first."""
    modes = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    one_of("method", method, *modes)
    rank = rank_of(data) - 2
    legal(rank in (2, 3), f"the data has {rank_of(data)} dimensions; 4 or 5 are legal")
    want = "NC" + SPATIAL[rank]
    layout = want if (layout == "NCHW" and rank == 3) else layout
    points = call("transpose", grid, axes=(0, *range(2, rank + 2), 1))
    y = call("grid_sample", spread(data, layout, "layout", want), points, mode=modes[method],
             padding_mode=padding_mode, align_corners=bool(align_corners))  # fmt: skip
    return gathered(y, want, layout, "layout")


@entry("image.affine_grid")
def affine_grid(data: RelaxExpr, size: Any, align_corners: bool = True) -> RelaxExpr:
    """The grid [n, 2, h, w] (x, y) that makes grid_sample move an image by matrices [n, 2, 3]."""
    to = shape_given(size)
    to = to * 2 if len(to) == 1 else to
    legal(len(to) == 2, f"size={size}; 2 numbers are legal")
    found = call("affine_grid", data, size=to, align_corners=bool(align_corners))
    return call("transpose", found, axes=(0, 3, 1, 2))
