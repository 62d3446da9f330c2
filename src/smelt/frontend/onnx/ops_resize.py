"""Converters of resizing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smelt.frontend.common import Build, Value, evaluate, moves
from smelt.frontend.common.values import simplify, static
from smelt.ir.expr import Expr, convert

from .registry import Floats, Ints, onnx_op

_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "asymmetric",
    "align_corners",
    "pytorch_half_pixel",
    "tf_crop_and_resize",
)
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_POLICIES = ("stretch", "not_larger", "not_smaller")


def _resize(
    g: Build, x: Value, scales: tuple[Any, ...], sizes: tuple[Any, ...], **attrs: Any
) -> Value:
    """Resizing by scales, or to sizes; where both are given, the scales tell coordinates."""
    if scales and len(scales) != x.rank:
        g.malformed(f"{len(scales)} scales for {x.rank} dimensions")
    if any(not isinstance(s, Expr) and not 0 < s < math.inf for s in scales):
        g.malformed(f"scales={tuple(map(float, scales))}; every scale has to be above 0")
    if scales and not sizes:
        sizes = tuple([_scaled(d, s) for d, s in zip(x.shape, scales, strict=True)])
    if len(sizes) != x.rank:
        g.malformed(f"{len(sizes)} sizes for {x.rank} dimensions")
    if any(isinstance(s, Expr) for s in scales):
        scales = ()
    attrs |= {"sizes": tuple(map(simplify, sizes)), "scales": tuple(map(float, scales))}
    return g.call("resize", x, **attrs)


def _scaled(extent: Any, scale: Any) -> Any:
    """floor(extent scale)."""
    if isinstance(extent, int) and not isinstance(scale, Expr):
        return int(np.floor(np.float32(extent) * np.float32(scale)))
    return simplify(evaluate.truncated(convert(extent) * scale))


def _of_old(g: Build, x: Value, scales: tuple[Any, ...], mode: str) -> Value:
    """Before operator set 11: coordinates without an offset. The nearest element is the one in
    front, where a dimension becomes smaller the one behind."""
    g.one_of("mode", mode, ("nearest", "linear"))
    attrs: dict[str, Any] = {"mode": mode, "coordinate_mode": "asymmetric"}
    smaller = [not isinstance(s, Expr) and s < 1 for s in scales]
    if mode == "linear" or not any(smaller):
        return _resize(g, x, scales, (), nearest_mode="floor", **attrs)
    for down, how in ((True, "ceil"), (False, "floor")):
        own = tuple([s if c is down else 1.0 for s, c in zip(scales, smaller, strict=True)])
        if any(isinstance(s, Expr) or s != 1 for s in own):
            x = _resize(g, x, own, (), nearest_mode=how, **attrs)
    return x


@onnx_op("Upsample")
def upsample_1(
    g: Build, x: Value, *, height_scale: float, mode: str = "nearest", width_scale: float
) -> Value:
    """Images made larger."""
    g.one_of("mode", mode, ("nearest", "bilinear"))
    how = "linear" if mode == "bilinear" else mode
    return _of_old(g, x, (1.0, 1.0, height_scale, width_scale), how)


@onnx_op("Upsample", since=7)
def upsample_7(g: Build, x: Value, *, mode: str = "nearest", scales: Floats) -> Value:
    """Scales as an attribute."""
    return _of_old(g, x, scales, mode)


@onnx_op("Resize", since=10)
@onnx_op("Upsample", since=9)
def upsample_9(g: Build, x: Value, scales: Value, *, mode: str = "nearest") -> Value:
    """Scales as an operand."""
    return _of_old(g, x, g.dims(scales, "scales"), mode)


@onnx_op("Resize", since=11)
def resize(
    g: Build, x: Value, roi: Value | None = None, scales: Value | None = None,
    sizes: Value | None = None, *, antialias: int = 0, axes: Ints = (),
    coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Value:  # fmt: skip
    """The nearest element, or one between elements by lines or cubic curves."""
    g.one_of("coordinate_transformation_mode", coordinate_transformation_mode, _COORDINATES)
    g.one_of("nearest_mode", nearest_mode, _NEAREST)
    g.one_of("mode", mode, ("nearest", "linear", "cubic"))
    g.one_of("keep_aspect_ratio_policy", keep_aspect_ratio_policy, _POLICIES)
    factors = () if scales is None else g.dims(scales, "scales")
    # with these, what is computed hangs on the numbers themselves
    exact = bool(antialias) or keep_aspect_ratio_policy != "stretch"
    extents = () if sizes is None else (g.ints if exact else g.dims)(sizes, "sizes")
    if bool(factors) == bool(extents):
        g.malformed("scales or sizes have to be given, not both")
    where = g.axes(axes, x.rank) if axes else tuple(range(x.rank))
    for name, given in (("scales", factors), ("sizes", extents)):
        if given and len(given) != len(where):
            g.malformed(f"{len(given)} {name} for {len(where)} dimensions")
    if extents and keep_aspect_ratio_policy != "stretch":
        factors, extents = _in_proportion(g, x, where, extents, keep_aspect_ratio_policy)
    attrs: dict[str, Any] = {}
    if coordinate_transformation_mode == "tf_crop_and_resize":
        attrs["roi"] = _roi(g, roi, where, x.rank)
    return _resize(
        g,
        x,
        factors and moves.everywhere(factors, where, (1.0,) * x.rank),
        extents and moves.everywhere(extents, where, x.shape),
        mode=mode,
        coordinate_mode=coordinate_transformation_mode,
        nearest_mode=nearest_mode,
        cubic_coeff=cubic_coeff_a,
        exclude_outside=bool(exclude_outside),
        extrapolation_value=extrapolation_value,
        antialias=bool(antialias),
        **attrs,
    )


def _in_proportion(
    g: Build, x: Value, where: Ints, sizes: tuple[Any, ...], policy: str
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """One scale for all dimensions, with which none becomes larger (smaller) than asked for."""
    old = [x.shape[a] for a in where]
    if not static(old) or not static(sizes):
        g.unsupported(
            f"keep_aspect_ratio_policy={policy!r} with symbolic sizes", "constant sizes, stretch"
        )
    choose = min if policy == "not_larger" else max
    scale = choose([np.float32(n) / np.float32(o) for n, o in zip(sizes, old, strict=True)])
    found = [math.floor(float(scale * np.float32(o)) + 0.5) for o in old]
    return (float(scale),) * len(old), tuple(found)


def _roi(g: Build, roi: Value | None, where: Ints, rank: int) -> tuple[float, ...]:
    """Begin of every dimension, then end."""
    if roi is None:
        g.malformed("tf_crop_and_resize needs the operand 'roi'")
    given = [float(v) for v in g.dims(roi, "roi")]
    if len(given) != 2 * len(where):
        g.malformed(f"{len(given)} numbers in 'roi'; {len(where)} dimensions need twice as many")
    return moves.both_ends(given, where, [0.0] * rank + [1.0] * rank)
