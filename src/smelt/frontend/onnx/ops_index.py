"""Converters of operators that choose or write elements by index, and of resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir.expr import Expr, convert

from . import evaluate, moves
from .build import Build
from .registry import Floats, Ints, onnx_op
from .values import Value, simplify

__all__: list[str] = []


@onnx_op("Gather")
def gather(g: Build, x: Value, indices: Value, *, axis: int = 0) -> Value:
    """Slices by index."""
    return moves.take(g, x, indices, axis)


@onnx_op("GatherElements", since=11)
def gather_elements(g: Build, x: Value, indices: Value, *, axis: int = 0) -> Value:
    """One element per index."""
    return g.call("gather_elements", x, indices, axis=g.axis(axis, x.rank))


@onnx_op("GatherND", since=11)
def gather_nd(g: Build, x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    """Slices by index tuples."""
    return g.call("gather_nd", x, indices, batch_dims=batch_dims)


@onnx_op("Scatter", since=9)
def scatter(g: Build, x: Value, indices: Value, updates: Value, *, axis: int = 0) -> Value:
    """ScatterElements under its first name."""
    return g.call("scatter_elements", x, indices, updates, axis=g.axis(axis, x.rank))


@onnx_op("ScatterElements", since=11)
def scatter_elements(
    g: Build, x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    """Elements written by index."""
    g.one_of("reduction", reduction, ("none", "add", "mul", "min", "max"))
    return g.call(
        "scatter_elements", x, indices, updates, axis=g.axis(axis, x.rank), reduction=reduction
    )


@onnx_op("ScatterND", since=11)
def scatter_nd(
    g: Build, x: Value, indices: Value, updates: Value, *, reduction: str = "none"
) -> Value:
    """Slices written by index tuples."""
    g.one_of("reduction", reduction, ("none", "add", "mul", "min", "max"))
    return g.call("scatter_nd", x, indices, updates, reduction=reduction)


@onnx_op("OneHot", since=9)
def one_hot(g: Build, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
    """A row of `off` values with one `on`."""
    (size,) = g.dims(depth, "depth")
    integers = (
        indices if indices.dtype.startswith("int") else g.call("cast", indices, dtype="int64")
    )
    count = size if isinstance(size, Expr) else int(size)
    at = g.axis(axis, indices.rank + 1)
    if values.is_array:
        off, on = g.dims(values, "values")
        return g.call(
            "one_hot", integers, depth=count, axis=at, on_value=on, off_value=off,
            dtype=values.dtype,
        )  # fmt: skip
    hot = g.call("one_hot", integers, depth=count, axis=at, on_value=1, off_value=0, dtype="bool")
    off_at, on_at = [moves.take(g, values, g.constant(n, "int64"), 0) for n in (0, 1)]
    return g.call("where", hot, on_at, off_at)


def _count(g: Build, k: Value) -> Any:
    """K of TopK."""
    (count,) = g.dims(k, "K")
    return count if isinstance(count, Expr) else int(count)


@onnx_op("TopK", since=10)
def topk_10(g: Build, x: Value, k: Value, *, axis: int = -1) -> tuple[Value, ...]:
    """The largest elements and where they are."""
    return g.calls("topk", x, k=_count(g, k), axis=g.axis(axis, x.rank), largest=True, sorted=True)


@onnx_op("TopK", since=11)
def topk(
    g: Build, x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Value, ...]:
    """The largest or smallest elements and where they are."""
    return g.calls(
        "topk",
        x,
        k=_count(g, k),
        axis=g.axis(axis, x.rank),
        largest=bool(largest),
        sorted=bool(sorted),
    )


# ---------------------------------------------------------------------------------------- resize

_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "asymmetric",
    "align_corners",
    "pytorch_half_pixel",
    "tf_crop_and_resize",
)
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _resize(
    g: Build, x: Value, scales: tuple[Any, ...], sizes: tuple[Any, ...], **attrs: Any
) -> Value:
    if scales:
        if len(scales) != x.rank:
            g.malformed(f"{len(scales)} scales for {x.rank} dimensions")
        sizes = tuple([_scaled(g, d, s) for d, s in zip(x.shape, scales, strict=True)])
    if len(sizes) != x.rank:
        g.malformed(f"{len(sizes)} sizes for {x.rank} dimensions")
    if any(isinstance(s, Expr) for s in scales):
        scales = ()
    return g.call(
        "resize",
        x,
        sizes=tuple([simplify(s) for s in sizes]),
        scales=tuple([float(s) for s in scales]),
        **attrs,
    )


def _scaled(g: Build, extent: Any, scale: Any) -> Any:
    """floor(extent scale)."""
    if isinstance(extent, int) and not isinstance(scale, Expr):
        return int(np.floor(np.float32(extent) * np.float32(scale)))
    return simplify(evaluate.truncated(convert(extent) * scale))


@onnx_op("Upsample", since=7)
def upsample_7(g: Build, x: Value, *, mode: str = "nearest", scales: Floats) -> Value:
    """Resize of old."""
    g.one_of("mode", mode, ("nearest", "linear"))
    return _resize(g, x, scales, (), mode=mode, coordinate_mode="asymmetric", nearest_mode="floor")


@onnx_op("Resize", since=10)
@onnx_op("Upsample", since=9)
def upsample_9(g: Build, x: Value, scales: Value, *, mode: str = "nearest") -> Value:
    """Scales as an operand, coordinates without an offset."""
    g.one_of("mode", mode, ("nearest", "linear"))
    return _resize(
        g,
        x,
        g.dims(scales, "scales"),
        (),
        mode=mode,
        coordinate_mode="asymmetric",
        nearest_mode="floor",
    )


@onnx_op("Resize", since=11)
def resize(
    g: Build,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
    *,
    antialias: int = 0,
    axes: Ints = (),
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Value:
    """Nearest, linear and cubic, without antialias."""
    g.one_of("antialias", antialias, (0,))
    g.one_of("coordinate_transformation_mode", coordinate_transformation_mode, _COORDINATES)
    g.one_of("nearest_mode", nearest_mode, _NEAREST)
    g.one_of("mode", mode, ("nearest", "linear", "cubic"))
    g.one_of("keep_aspect_ratio_policy", keep_aspect_ratio_policy, ("stretch",))
    factors = () if scales is None else g.dims(scales, "scales")
    extents = () if sizes is None else g.dims(sizes, "sizes")
    if bool(factors) == bool(extents):
        g.malformed("scales or sizes have to be given, not both")
    where = g.axes(axes, x.rank) if axes else tuple(range(x.rank))
    attrs: dict[str, Any] = {}
    if coordinate_transformation_mode == "tf_crop_and_resize":
        attrs["roi"] = _roi(g, roi, where, x.rank)
    return _resize(
        g,
        x,
        _everywhere(factors, where, (1.0,) * x.rank),
        _everywhere(extents, where, x.shape),
        mode=mode,
        coordinate_mode=coordinate_transformation_mode,
        nearest_mode=nearest_mode,
        cubic_coeff=cubic_coeff_a,
        exclude_outside=bool(exclude_outside),
        extrapolation_value=extrapolation_value,
        **attrs,
    )


def _everywhere(given: tuple[Any, ...], where: Ints, default: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers for some dimensions as numbers for all."""
    if not given or where == tuple(range(len(default))):
        return given
    full = list(default)
    for a, v in zip(where, given, strict=False):
        full[a] = v
    return tuple(full)


def _roi(g: Build, roi: Value | None, where: Ints, rank: int) -> tuple[float, ...]:
    if roi is None:
        g.malformed("tf_crop_and_resize needs the operand 'roi'")
    given = [float(v) for v in g.dims(roi, "roi")]
    full = [0.0] * rank + [1.0] * rank
    for k, a in enumerate(where):
        full[a], full[rank + a] = given[k], given[len(where) + k]
    return tuple(full)
