"""Writers of resizing, sampling, regions of images, and Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir.errors import Unsupported
from smelt.relax.compose.common import cast_to
from smelt.relax.nodes import RelaxExpr, call

from .write_graph import Results, Writer, dtype_of, plain, shape_of, written
from .write_nn import placed


@written("resize")
def resize(
    w: Writer, x: RelaxExpr, *, sizes: Any, scales: Any, mode: str, coordinate_mode: str,
    nearest_mode: str, cubic_coeff: float, exclude_outside: bool, extrapolation_value: float,
    roi: Any, antialias: bool,
) -> Results:  # fmt: skip
    """Resize by scales where the model gives them and they make the sizes; else to sizes."""
    have, want = shape_of(x), plain(sizes)
    by_scales = bool(scales) and all(
        not isinstance(h, int) or not isinstance(n, int) or _scaled(h, s) == n
        for h, n, s in zip(have, want, scales, strict=True)
    )
    if scales and not by_scales:
        exact = all(isinstance(n, int) and isinstance(h, int) and abs(h * s - n) < 1e-4
                    for h, n, s in zip(have, want, scales, strict=True))  # fmt: skip
        if not exact:
            raise Unsupported(f"sizes {want} that the scales {tuple(scales)} do not make")
    factors = np.array(scales, np.float32) if by_scales else None
    crop = coordinate_mode == "tf_crop_and_resize"
    corners = np.array(roi or (0.0,) * len(have) + (1.0,) * len(have), np.float32) if crop else None
    if w.opset < 13:  # these are needed, and empty where they say nothing
        none = np.array([], np.float32)
        corners, factors = [none if v is None else v for v in (corners, factors)]
    return w.emit(
        "Resize", x, corners, factors, None if by_scales else w.ints(want), mode=mode,
        coordinate_transformation_mode=coordinate_mode,
        nearest_mode=nearest_mode if mode == "nearest" else None,
        cubic_coeff_a=cubic_coeff if mode == "cubic" else None,
        exclude_outside=int(exclude_outside) or None, antialias=int(antialias) or None,
        extrapolation_value=extrapolation_value if crop else None,
    )  # fmt: skip


def _scaled(extent: int, scale: float) -> int:
    return int(np.floor(np.float32(extent) * np.float32(scale)))


@written("affine_grid")
def affine_grid(w: Writer, theta: RelaxExpr, *, size: Any, align_corners: bool) -> Results:
    """AffineGrid; the channels do not count."""
    if align_corners and 1 in plain(size):
        raise Unsupported("a grid of one point between corners; ONNX leaves it undefined")
    full = w.ints((shape_of(theta)[0], 1, *plain(size)))
    return w.emit("AffineGrid", theta, full, align_corners=int(align_corners))


@written("roi_align")
def roi_align(
    w: Writer, x: RelaxExpr, rois: RelaxExpr, *, size: Any, scale: float, samples: int, mode: str,
    half_pixel: bool,
) -> Results:  # fmt: skip
    """RoiAlign; a row of rois begins with the number of its image."""
    if mode not in ("avg", "max_pixel"):
        raise Unsupported(f"mode={mode!r}; ONNX has the mean of points, and the largest product")
    if "coordinate_transformation_mode" in w.schema("RoiAlign").attributes:
        how = "half_pixel" if half_pixel else "output_half_pixel"
    elif half_pixel:
        raise Unsupported("half_pixel=True comes with operator set 16")
    else:
        how = None
    boxes = call("strided_slice", rois, axes=(1,), begin=(1,), end=(5,), strides=(1,))
    first = call("strided_slice", rois, axes=(1,), begin=(0,), end=(1,), strides=(1,))
    numbers = call("cast", call("squeeze", first, axes=(1,)), dtype="int64")
    attrs = {"output_height": size[0], "output_width": size[1], "sampling_ratio": int(samples),
             "spatial_scale": float(scale), "mode": "avg" if mode == "avg" else "max",
             "coordinate_transformation_mode": how}  # fmt: skip
    return w.emit("RoiAlign", x, cast_to(boxes, dtype_of(x)), numbers, **attrs)


@written("roi_pool")
def roi_pool(w: Writer, x: RelaxExpr, rois: RelaxExpr, *, size: Any, scale: float) -> Results:
    """MaxRoiPool."""
    boxes = cast_to(rois, dtype_of(x))
    return w.emit("MaxRoiPool", x, boxes, pooled_shape=tuple(size), spatial_scale=float(scale))


@written("deformable_conv2d")
def deformable_conv2d(
    w: Writer, x: RelaxExpr, offset: RelaxExpr, k: RelaxExpr, mask: RelaxExpr | None = None, *,
    strides: Any, pads: Any, dilations: Any, groups: int, offset_groups: int,
) -> Results:  # fmt: skip
    """DeformConv."""
    return w.emit("DeformConv", x, k, offset, None, mask, group=groups, offset_group=offset_groups,
                  **placed(2, strides, pads, dilations))  # fmt: skip


@written("col2im")
def col2im(
    w: Writer, x: RelaxExpr, *, size: Any, kernel: Any, strides: Any, pads: Any, dilations: Any
) -> Results:
    """Col2Im."""
    where = placed(len(kernel), strides, pads, dilations)
    return w.emit("Col2Im", x, w.ints(size), w.ints(kernel), **where)


# --------------------------------------------------------------------------- Fourier transforms


@written("dft")
def dft(w: Writer, re: RelaxExpr, im: RelaxExpr, *, inverse: bool, axis: int) -> Results:
    """DFT of complex numbers: real and imaginary parts stand in a last dimension."""
    rank = len(shape_of(re))
    both = call("concat", *[call("expand_dims", v, axes=(rank,)) for v in (re, im)], axis=rank)
    if w.opset >= 20:
        made = w.emit("DFT", both, None, np.array(axis % rank), inverse=int(inverse))
    else:
        made = w.emit("DFT", both, axis=axis % rank, inverse=int(inverse))
    return tuple([w.emit("Gather", made, np.array(k, np.int64), axis=rank) for k in (0, 1)])


@written("stft")
def stft(
    w: Writer, x: RelaxExpr, window: RelaxExpr, *, n_fft: Any, hop_length: int, normalized: bool,
    onesided: bool,
) -> Results:  # fmt: skip
    """STFT, whose frames stand before the frequencies."""
    shape = shape_of(x)
    if len(shape) != 2:
        raise Unsupported(f"signals of {len(shape)} dimensions; ONNX has [batch, length]")
    if normalized:
        return call("stft", x, window, n_fft=n_fft, hop_length=hop_length, onesided=onesided) * (
            float(n_fft) ** -0.5
        )
    rows = call("reshape", x, shape=(*shape, 1))
    made = w.emit("STFT", rows, np.array(hop_length), window, w.scalar_size(n_fft),
                  onesided=int(onesided))  # fmt: skip
    return w.emit("Transpose", made, perm=(0, 2, 1, 3))
