"""Images brought to another size, and sampled."""

from __future__ import annotations

from typing import Any

from ..nodes import RelaxExpr, call
from .common import cast_to, legal, one_of, rank_of, shape_of
from .layout import gathered, spread
from .window import SPATIAL

METHODS = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
ROUNDING = {"round": "round_prefer_ceil", "round_prefer_floor": "round_prefer_floor",
            "round_prefer_ceil": "round_prefer_ceil", "floor": "floor", "ceil": "ceil"}  # fmt: skip


def resizing(rank: int, rounding: str, alpha: float) -> dict[str, Any]:
    """What says how images get another size, and the defaults."""
    return {
        "roi": None, "layout": "NC" + SPATIAL[rank], "method": "linear",
        "coordinate_transformation_mode": "half_pixel", "rounding_method": rounding,
        "cubic_alpha": alpha, "cubic_exclude": 0, "extrapolation_value": 0.0, "out_dtype": None,
    }  # fmt: skip


def resized(data: RelaxExpr, size: tuple[Any, ...], **given: Any) -> RelaxExpr:
    """The spatial dimensions of images brought to another size, in any layout.

    given  attributes of `resizing`
    """
    rank = len(size)
    a = {**resizing(rank, "", -0.5), **given}
    one_of("method", a["method"], *METHODS)
    one_of("rounding_method", a["rounding_method"], "", *ROUNDING)
    want, coordinates, roi = "NC" + SPATIAL[rank], a["coordinate_transformation_mode"], a["roi"]
    x = spread(data, a["layout"], "layout", want)
    how = a["rounding_method"] or ("round" if coordinates == "align_corners" else "floor")
    part = (0.0, 0.0, *roi[:rank], 1.0, 1.0, *roi[rank:]) if roi else ()
    y = call(
        "resize", x, sizes=(*shape_of(x)[:2], *size), mode=METHODS[a["method"]],
        coordinate_mode=coordinates, nearest_mode=ROUNDING[how],
        cubic_coeff=float(a["cubic_alpha"]), exclude_outside=bool(a["cubic_exclude"]),
        extrapolation_value=float(a["extrapolation_value"]), roi=part,
    )  # fmt: skip
    return cast_to(gathered(y, want, a["layout"], "layout"), a["out_dtype"])


SAMPLING = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


def grid_sample(
    data: RelaxExpr, grid: RelaxExpr, *, method: str = "bilinear", layout: str = "NCHW",
    padding_mode: str = "zeros", align_corners: bool = True,
) -> RelaxExpr:  # fmt: skip
    """Images read at the points of a grid [n, 2 or 3, size...], x first; "NCHW" stands for the
    layout NCDHW of volumes, too."""
    one_of("method", method, *SAMPLING)
    rank = rank_of(data) - 2
    legal(rank in (2, 3), f"the data has {rank_of(data)} dimensions; 4 or 5 are legal")
    want = "NC" + SPATIAL[rank]
    layout = want if layout == "NCHW" else layout
    points = call("transpose", grid, axes=(0, *range(2, rank + 2), 1))
    y = call("grid_sample", spread(data, layout, "layout", want), points, mode=SAMPLING[method],
             padding_mode=padding_mode, align_corners=bool(align_corners))  # fmt: skip
    return gathered(y, want, layout, "layout")
