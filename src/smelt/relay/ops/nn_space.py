"""Borders, blocks of pixels, images made larger."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.relax.compose.common import (
    divisible,
    dtype_of,
    extents,
    filled,
    legal,
    number_of,
    one_of,
    rank_of,
    reshaped,
    shape_of,
    sliced,
)
from smelt.relax.compose.image import resized
from smelt.relax.nodes import RelaxExpr, call
from smelt.topi.registry import attributes

from ..dialect import alias, relay_op, same


def _pairs(data: RelaxExpr, pad_width: Any) -> tuple[int, ...]:
    """pad_width, (before, behind) for each dimension, as the core wants it."""
    pairs = [tuple(p) if isinstance(p, tuple | list) else (p, p) for p in pad_width]
    legal(
        len(pairs) == rank_of(data) and all(len(p) == 2 for p in pairs),
        f"pad_width has {len(pairs)} pairs; the data has {rank_of(data)} dimensions",
    )
    return (*[a for a, _ in pairs], *[b for _, b in pairs])


@relay_op("nn.pad", order="widths")
def pad(
    data: RelaxExpr,
    pad_value: RelaxExpr | None = None,
    *,
    pad_width: Any,
    pad_mode: str = "constant",
) -> RelaxExpr:
    """Elements around: pad_width holds (before, behind) for each dimension.

    pad_mode  "constant" (pad_value), "edge" (the nearest element), "reflect" (mirrored)
    """
    one_of("pad_mode", pad_mode, "constant", "edge", "reflect")
    pads = _pairs(data, pad_width)
    value = 0.0 if pad_value is None else number_of(pad_value)
    if pad_mode != "constant" or value is not None:
        return call("pad", data, pads=pads, mode=pad_mode, value=0.0 if value is None else value)
    assert pad_value is not None
    inside = call("pad", call("cast", filled(data, 1.0), dtype="bool"), pads=pads)
    border = call("cast", reshaped(pad_value, ()), dtype=dtype_of(data))
    return call("where", inside, call("pad", data, pads=pads), border)


alias("nn.pad", "data pad_width pad_value pad_mode", pad_value=0)


@relay_op("nn.mirror_pad")
def mirror_pad(data: RelaxExpr, *, mode: str = "SYMMETRIC", pad_width: Any) -> RelaxExpr:
    """Elements around that mirror those inside: "SYMMETRIC" with the edge, "REFLECT" without."""
    one_of("mode", mode, "SYMMETRIC", "REFLECT")
    return call("pad", data, pads=_pairs(data, pad_width), mode=mode.lower())


alias("nn.mirror_pad", "data pad_width mode")


same("nn.dilate", "data", core="dilate", renamed="dilation_value=value", required="strides",
     dilation_value=0.0)  # fmt: skip

# -------------------------------------------------------------------------------------- blocks


for _name, _modes in (("depth_to_space", ("DCR", "CRD")), ("space_to_depth", ("DCR",))):
    same(f"nn.{_name}", "data", core=_name, renamed="block_size=block", images=True,
         forms={"mode": {m: m for m in _modes}}, required="block_size", layout="NCHW",
         mode="DCR")  # fmt: skip


def _two(name: str, pairs: Any, count: int) -> list[tuple[int, int]]:
    found = [tuple(p) for p in pairs]
    legal(
        len(found) == count and all(len(p) == 2 for p in found),
        f"{name}={pairs}; {count} pairs are legal, one a number of block_shape",
    )
    return [(int(a), int(b)) for a, b in found]


@relay_op("nn.space_to_batch_nd")
def space_to_batch_nd(
    data: RelaxExpr, *, block_shape: Any, paddings: Any, pad_value: float = 0.0
) -> RelaxExpr:
    """Blocks of pixels as images of their own: [n * blocks, size / block..., rest]."""
    block = [int(b) for b in block_shape]
    count = len(block)
    pairs = [(0, 0), *_two("paddings", paddings, count)]
    pairs += [(0, 0)] * (rank_of(data) - len(pairs))
    x: RelaxExpr = call("pad", data, pads=_pairs(data, pairs), value=float(pad_value))
    batch, *sizes = shape_of(x)
    cut: list[Any] = [batch]
    for d, b in enumerate(block):
        what = f"block_shape={tuple(block)}: the extent of axis {d + 1} with its padding"
        divisible(what, sizes[d], b)
        cut += [sizes[d] // b, b]
    x = reshaped(x, [*cut, *sizes[count:]])
    outer, inner = range(1, 2 * count, 2), range(2, 2 * count + 1, 2)
    x = call("transpose", x, axes=(*inner, 0, *outer, *range(2 * count + 1, rank_of(x))))
    whole = int(np.prod(block))
    return reshaped(x, [batch * whole, *cut[1::2], *sizes[count:]])


@relay_op("nn.batch_to_space_nd")
def batch_to_space_nd(data: RelaxExpr, *, block_shape: Any, crops: Any) -> RelaxExpr:
    """The inverse of space_to_batch_nd; crops: elements left out (before, behind)."""
    block = [int(b) for b in block_shape]
    count, whole = len(block), int(np.prod(block))
    pairs = _two("crops", crops, count)
    batch, *sizes = shape_of(data)
    divisible(f"block_shape={tuple(block)}: the batch", batch, whole)
    x = reshaped(data, [*block, batch // whole, *sizes])
    blocks = [d for k in range(count) for d in (count + 1 + k, k)]
    x = call("transpose", x, axes=(count, *blocks, *range(2 * count + 1, rank_of(x))))
    full = [sizes[d] * block[d] for d in range(count)]
    x = reshaped(x, [batch // whole, *full, *sizes[count:]])
    kept = [(a, e - b) for e, (a, b) in zip(full, pairs, strict=True)]
    return sliced(x, range(1, count + 1), kept)


# --------------------------------------------------------------------------------------- larger


def scaled(data: RelaxExpr, layout: str, want: str, scales: tuple[float, ...]) -> tuple[Any, ...]:
    """The spatial extents times their scales, rounded."""
    out: list[Any] = []
    shape = extents(data)
    for letter, scale in zip(want[2:], scales, strict=True):
        extent = shape[layout.index(letter)]
        if extent is None:
            legal(float(scale).is_integer(), f"scale {scale} beside a symbolic extent; whole ones")
            out.append(shape_of(data)[layout.index(letter)] * int(scale))
        else:
            out.append(round(extent * scale))
    return tuple(out)


METHODS = {"nearest_neighbor": "nearest_neighbor", "bilinear": "linear", "trilinear": "linear",
           "bicubic": "cubic"}  # fmt: skip


def _upsampling(name: str, want: str, methods: str, doc: str, **how: Any) -> None:
    """Enter an operator that makes images larger.

    want     the letters of the layout
    methods  how pixels are read between others, beside the nearest
    how      the attribute that says where pixels stand
    """
    names = [f"scale_{letter.lower()}" for letter in want[2:]]

    @attributes(**dict.fromkeys(names, 1.0), layout=want, method="nearest_neighbor", **how)
    def body(data: RelaxExpr, *, layout: str, method: str, **attrs: Any) -> RelaxExpr:
        one_of("method", method, "nearest_neighbor", *methods.split())
        size = scaled(data, layout, want, tuple([attrs[n] for n in names]))
        flat = "align_corners" if attrs.get("align_corners") else "asymmetric"
        mode = attrs.get("coordinate_transformation_mode", flat)
        return resized(data, size, layout=layout, method=METHODS[method],
                       coordinate_transformation_mode=mode)  # fmt: skip

    body.__doc__ = doc
    relay_op(name, order="layout")(body)


_upsampling("nn.upsampling", "NCHW", "bilinear bicubic", align_corners=False,
            doc="An image scale_h times as high and scale_w times as wide.")  # fmt: skip
_upsampling("nn.upsampling3d", "NCDHW", "trilinear", coordinate_transformation_mode="half_pixel",
            doc="A volume so many times as deep, high and wide.")  # fmt: skip
