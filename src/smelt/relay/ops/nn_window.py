"""Convolutions and pooling: operators with a window, in any layout of their dimensions.

The core knows one layout, channels behind the batch; bodies turn operands and result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.relax.nodes import RelaxExpr, call

from ..dialect import RELAY, relay_op
from .common import extents, numbers, pad_numbers, rank_of, to_layout, turned

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def window(rank: int, *names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What brings the attributes of a window over `rank` dimensions into the form of tuples.

    names  attributes of one number a dimension; `padding` is always one
    """

    def prepare(attrs: dict[str, Any]) -> dict[str, Any]:
        for name in names:
            if attrs.get(name) is not None:
                attrs[name] = numbers(name, rank)(attrs[name])
        attrs["padding"] = pad_numbers(attrs["padding"], rank)
        return attrs

    return prepare


def _check(weight: RelaxExpr, channels: Any, kernel_size: Any, at: int) -> None:
    have = extents(weight)
    if channels is not None and have[at] not in (None, channels):
        raise TypeMismatch(f"channels={channels}, but the weight has {have[at]}")
    if kernel_size is not None and any(
        h not in (None, k) for h, k in zip(have[2:], kernel_size, strict=True)
    ):
        raise TypeMismatch(f"kernel_size={kernel_size}, but the weight has {have[2:]}")


def _conv(rank: int) -> None:
    first = "NC" + SPATIAL[rank]
    kernel = "OI" + SPATIAL[rank]

    def body(
        data: RelaxExpr,
        weight: RelaxExpr,
        *,
        strides: Any = (1,) * rank,
        padding: Any = (0,) * rank,
        dilation: Any = (1,) * rank,
        groups: int = 1,
        channels: int | None = None,
        kernel_size: Any = None,
        data_layout: str = first,
        kernel_layout: str = kernel,
        out_layout: str = "",
        out_dtype: str = "",
    ) -> RelaxExpr:
        x = turned(data, to_layout(data_layout, [first], "data_layout"), first)
        w = turned(weight, to_layout(kernel_layout, [kernel], "kernel_layout"), kernel)
        _check(w, channels, kernel_size, 0)
        y = call(f"conv{rank}d", x, w, strides=strides, pads=padding, dilations=dilation,
                 groups=groups)  # fmt: skip
        return turned(y, first, out_layout or data_layout)

    body.__doc__ = f"A convolution over {rank} dimension{'s' * (rank > 1)}."
    prepare = window(rank, "strides", "dilation", "kernel_size")
    RELAY.op(f"nn.conv{rank}d", prepare=prepare)(body)


for _rank in SPATIAL:
    _conv(_rank)


def _pool(kind: str, rank: int) -> None:
    first = "NC" + SPATIAL[rank]

    def pooled(data: RelaxExpr, layout: str, out_layout: str, attrs: dict[str, Any]) -> RelaxExpr:
        x = turned(data, to_layout(layout, [first], "layout"), first)
        return turned(call(f"{kind}_pool", x, **attrs), first, out_layout or layout)

    if kind == "max":

        def body(
            data: RelaxExpr, *, pool_size: Any = (1,) * rank, strides: Any = (1,) * rank,
            dilation: Any = (1,) * rank, padding: Any = (0,) * rank, layout: str = first,
            out_layout: str = "", ceil_mode: bool = False,
        ) -> RelaxExpr:  # fmt: skip
            pads = padding if not ceil_mode else ceiled(data, layout, pool_size, strides, padding)
            return pooled(data, layout, out_layout, {
                "kernel": pool_size, "strides": strides, "pads": pads, "dilations": dilation,
            })  # fmt: skip
    else:

        def body(  # type: ignore[misc]
            data: RelaxExpr, *, pool_size: Any = (1,) * rank, strides: Any = (1,) * rank,
            dilation: Any = (1,) * rank, padding: Any = (0,) * rank, layout: str = first,
            out_layout: str = "", ceil_mode: bool = False, count_include_pad: bool = False,
        ) -> RelaxExpr:  # fmt: skip
            pads = padding if not ceil_mode else ceiled(data, layout, pool_size, strides, padding)
            return pooled(data, layout, out_layout, {
                "kernel": pool_size, "strides": strides, "pads": pads, "dilations": dilation,
                "count_include_pad": count_include_pad,
            })  # fmt: skip

    body.__doc__ = f"The {kind} of each window over {rank} dimension{'s' * (rank > 1)}."
    prepare = window(rank, "pool_size", "strides", "dilation")
    RELAY.op(f"nn.{kind}_pool{rank}d", prepare=prepare)(body)


def ceiled(data: RelaxExpr, layout: str, size: Any, strides: Any, padding: Any) -> tuple[int, ...]:
    """Padding behind so wide that the last window, which starts inside, is whole."""
    count = len(size)
    out = list(padding)
    for d, letter in enumerate(SPATIAL[count]):
        extent = extents(data)[layout.index(letter)]
        if extent is None:
            raise TypeMismatch(f"ceil_mode needs a known extent; {letter} of the data is symbolic")
        room = extent + padding[d] + padding[count + d] - size[d]
        out[count + d] += -room % strides[d]
    return tuple(out)


for _rank in SPATIAL:
    for _kind in ("max", "avg"):
        _pool(_kind, _rank)


def _global(kind: str) -> None:
    def body(data: RelaxExpr, *, layout: str = "NCHW", out_layout: str = "") -> RelaxExpr:
        to_layout(layout, ["NCHW"], "layout")
        axes = (layout.index("H"), layout.index("W"))
        name = "mean" if kind == "avg" else "max"
        y = call(name, data, axes=axes, keepdims=True)
        return turned(y, layout, out_layout or layout)

    body.__doc__ = f"The {kind} of each channel's whole image."
    RELAY.op(f"nn.global_{kind}_pool2d")(body)


_global("avg")
_global("max")


@relay_op("nn.pad")
def pad(
    data: RelaxExpr,
    pad_value: RelaxExpr | None = None,
    *,
    pad_width: Any,
    pad_mode: str = "constant",
) -> RelaxExpr:
    """Elements around: pad_width holds (before, behind) for each dimension."""
    pairs = [tuple(p) if isinstance(p, tuple | list) else (p, p) for p in pad_width]
    if len(pairs) != rank_of(data):
        raise TypeMismatch(
            f"pad_width has {len(pairs)} pairs; the data has {rank_of(data)} dimensions"
        )
    pads = (*[a for a, _ in pairs], *[b for _, b in pairs])
    return call("pad", data, pads=pads, mode=pad_mode, value=_scalar(pad_value))


def _scalar(value: RelaxExpr | None) -> float:
    found = getattr(value, "data", None)
    if value is not None and found is None:
        raise TypeMismatch("pad_value has to be a constant")
    return 0.0 if found is None else float(found.reshape(-1)[0])
