"""Images brought to another size."""

from __future__ import annotations

from typing import Any

from ..nodes import RelaxExpr, call
from .common import one_of, shape_of
from .layout import gathered, spread
from .window import SPATIAL

METHODS = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
ROUNDING = {"round": "round_prefer_ceil", "round_prefer_floor": "round_prefer_floor",
            "round_prefer_ceil": "round_prefer_ceil", "floor": "floor", "ceil": "ceil"}  # fmt: skip


def resized(
    data: RelaxExpr, size: tuple[Any, ...], layout: str, method: str, coordinates: str,
    rounding: str, alpha: float, exclude: bool = False, roi: tuple[float, ...] = (),
    outside: float = 0.0,
) -> RelaxExpr:  # fmt: skip
    """The spatial dimensions of images brought to another size, in any layout."""
    one_of("method", method, *METHODS)
    one_of("rounding_method", rounding, "", *ROUNDING)
    want = "NC" + SPATIAL[len(size)]
    x = spread(data, layout, "layout", want)
    how = rounding or ("round" if coordinates == "align_corners" else "floor")
    whole = (0.0,) * 2
    rank = len(size)
    part = (*whole, *roi[:rank], 1.0, 1.0, *roi[rank:]) if roi else ()
    y = call(
        "resize", x, sizes=(*shape_of(x)[:2], *size), mode=METHODS[method],
        coordinate_mode=coordinates, nearest_mode=ROUNDING[how], cubic_coeff=float(alpha),
        exclude_outside=bool(exclude), extrapolation_value=float(outside), roi=part,
    )  # fmt: skip
    return gathered(y, want, layout, "layout")
