"""Convolutions and pooling in any layout."""

from __future__ import annotations

from typing import Any

from smelt.topi.registry import attributes

from ..compose.common import legal, numbers, one_of, rank_of, shape_of
from ..compose.window import SPATIAL, adaptive_pool, conv, pool, pool_grad
from ..compose.window import window as prepared
from ..nodes import RelaxExpr, call
from .entry import entry, number_given


def _plain(given: Any) -> Any:
    """Numbers of an attribute, however they are held."""
    if given is None:
        return None
    many = getattr(given, "values", given)
    if isinstance(many, list | tuple):
        return tuple([int(number_given(n)) for n in many])
    return int(number_given(many))


def _numbers(attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a window, with their numbers as such."""
    names = ("pool_size", "strides", "padding", "dilation", "output_padding")
    return {n: _plain(v) if n in names else v for n, v in attrs.items()}


def _conv(name: str, what: str, rank: int, kernel: str, turned: str = "", **more: int) -> None:
    """Enter a convolution over `rank` dimensions.

    kernel  the letters of its weight; turned: those of a transposed one's
    more    attributes of its own: a number, or one for each dimension
    """
    prepare = prepared(rank, "strides", "dilation", *more)

    @attributes(strides=1, padding=0, **more, dilation=1, groups=1,
                data_layout="NC" + SPATIAL[rank], kernel_layout=kernel, out_layout=None,
                out_dtype=None)  # fmt: skip
    def build(data: RelaxExpr, weight: RelaxExpr, **attrs: Any) -> RelaxExpr:
        return conv(rank, data, weight, prepare(_numbers(attrs)), turned)

    build.__doc__ = f"{what} over {rank} dimension{'s' * (rank > 1)}."
    entry(name)(build)


def _pool(kind: str, rank: int) -> None:
    first = "NC" + SPATIAL[rank]

    @attributes(pool_size=1, strides=None, padding=0, dilation=1, ceil_mode=False,
                count_include_pad=False, layout=first, out_layout=None)  # fmt: skip
    def build(data: RelaxExpr, **attrs: Any) -> RelaxExpr:
        return pool(kind, rank, data, _pooling(rank, attrs))

    build.__doc__ = f"""The {kind} of each window over {rank} dimension{"s" * (rank > 1)}.

    strides  None: those of pool_size
    """
    entry(f"nn.{kind}_pool{rank}d")(build)

    def adaptive(
        data: RelaxExpr, output_size: Any = None, layout: str = first,
        out_layout: str | None = None,
    ) -> RelaxExpr:  # fmt: skip
        size = None if output_size is None else numbers("output_size", rank)(_plain(output_size))
        return adaptive_pool(kind, rank, data, size, layout, out_layout or "")

    adaptive.__doc__ = f"The {kind} of as many windows as output_size says; None: one a pixel."
    entry(f"nn.adaptive_{kind}_pool{rank}d")(adaptive)


def _pooling(rank: int, attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a pool in the form of tuples."""
    a = _numbers(attrs)
    a["strides"] = a["pool_size"] if a["strides"] is None else a["strides"]
    return prepared(rank, "pool_size", "strides", "dilation")(a)


def _pool_backward(kind: str) -> None:
    @attributes(pool_size=(1, 1), strides=None, padding=(0, 0, 0, 0), dilation=(1, 1),
                ceil_mode=False, count_include_pad=False, layout="NCHW",
                out_layout=None)  # fmt: skip
    def build(output_grad: RelaxExpr, data: RelaxExpr, **attrs: Any) -> RelaxExpr:
        return pool_grad(kind, output_grad, data, _pooling(2, attrs))

    build.__doc__ = f"The derivative of nn.{kind}_pool2d."
    entry(f"grad.{kind}_pool2d_backward")(build)


for _rank, _letters in SPATIAL.items():
    _conv(f"nn.conv{_rank}d", "A convolution", _rank, "OI" + _letters)
    _conv(f"nn.conv{_rank}d_transpose", "A transposed convolution", _rank, "IO" + _letters,
          "IO" + _letters, output_padding=0)  # fmt: skip
    for _kind in ("max", "avg"):
        _pool(_kind, _rank)
for _kind in ("max", "avg"):
    _pool_backward(_kind)


@entry("nn.pixel_shuffle")
def pixel_shuffle(data: RelaxExpr, upscale_factor: int) -> RelaxExpr:
    """Channels [..., c * r * r, h, w] laid out as blocks of pixels [..., c, h * r, w * r]."""
    legal(rank_of(data) >= 3, f"the data has {rank_of(data)} dimensions; at least 3 are needed")
    if rank_of(data) == 4:
        return call("depth_to_space", data, block=upscale_factor, mode="CRD")
    *lead, c, h, w = shape_of(data)
    batch: Any = 1
    for e in lead:
        batch = e * batch
    flat = call("reshape", data, shape=(batch, c, h, w))
    made = call("depth_to_space", flat, block=upscale_factor, mode="CRD")
    return call("reshape", made, shape=(*lead, *shape_of(made)[1:]))


@entry("nn.pad", core="pad")
def pad(
    data: RelaxExpr, pad_width: Any, pad_mode: str = "constant", pad_value: float = 0.0
) -> RelaxExpr:
    """Elements around: pad_width holds (before, behind) of each dimension, in pairs or flat.

    pad_mode  "constant" (pad_value), "edge" or "replicate" (the nearest element), "reflect"
              (mirrored), "circular" (from the other side)
    """
    modes = {"constant": "constant", "edge": "edge", "replicate": "edge", "reflect": "reflect",
             "circular": "wrap"}  # fmt: skip
    one_of("pad_mode", pad_mode, *modes)
    flat = [n for p in pad_width for n in (p if isinstance(p, list | tuple) else (p,))]
    legal(
        len(flat) == 2 * rank_of(data),
        f"pad_width has {len(flat)} numbers; {2 * rank_of(data)} are needed for "
        f"{rank_of(data)} dimensions",
    )
    given = [number_given(n) for n in flat]
    return call("pad", data, pads=(*given[::2], *given[1::2]), mode=modes[pad_mode],
                value=float(number_given(pad_value)))  # fmt: skip
