"""What convolutions and pools share: attributes filled in, padding made explicit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypedDict, Unpack

from smelt.ir.build import ceildiv
from smelt.ir.expr import INDEX, convert

from .build import Build
from .values import Value, larger, simplify, static

Ints = tuple[int, ...]


class _Stepping(TypedDict, total=False):
    pads: Ints
    strides: Ints


class Sliding(_Stepping, total=False):
    """What places a window whose elements are neighbours on an image."""

    auto_pad: str


class Spaced(_Stepping, total=False):
    """What places a window on an image, with explicit pads."""

    dilations: Ints


class Placing(Sliding, Spaced, total=False):
    """What places a window on an image."""


_MODES = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True)
class Window:
    """A sliding window with everything explicit, in pixels; pads are begins, then ends."""

    kernel: Ints
    strides: Ints
    pads: Ints
    dilations: Ints

    def attrs(self) -> dict[str, Ints]:
        """The attributes of a pool."""
        return asdict(self)

    def placed(self) -> dict[str, Ints]:
        """The attributes of a convolution, whose weights tell the kernel."""
        return {"strides": self.strides, "pads": self.pads, "dilations": self.dilations}

    def reach(self, d: int) -> int:
        """The pixels from a window's first to its last, both included."""
        return (self.kernel[d] - 1) * self.dilations[d] + 1


def window(
    g: Build,
    x: Value,
    kernel: Sequence[Any],
    *,
    auto_pad: str = "NOTSET",
    strides: Ints = (),
    pads: Ints = (),
    dilations: Ints = (),
    ceil_mode: int = 0,
) -> Window:
    """The window of a node on the image `x`."""
    g.one_of("auto_pad", auto_pad, _MODES)
    rank = x.rank - 2
    if rank < 1:
        g.malformed(f"the image has {x.rank} dimensions; at least 3 needed")
    if not static(kernel):
        g.unsupported("a kernel of symbolic size", "constant kernels")
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    explicit = pads or (0,) * (2 * rank)
    for what, found, need in (
        ("kernel", len(kernel), rank),
        ("strides", len(strides), rank),
        ("dilations", len(dilations), rank),
        ("pads", len(explicit), 2 * rank),
    ):
        if found != need:
            g.malformed(f"{found} {what} for {rank} spatial dimensions, {need} needed")
    w = Window(tuple(kernel), strides, explicit, dilations)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        totals = [_same(w, d, x.shape[2 + d]) for d in range(rank)]
        if not static(totals):
            g.unsupported(
                f"auto_pad of a symbolic size with strides {strides}",
                "constant sizes, or stride 1, or explicit pads",
            )
        small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
        w = replace(w, pads=tuple(small + large if auto_pad == "SAME_UPPER" else large + small))
    elif auto_pad == "VALID":
        w = replace(w, pads=(0,) * (2 * rank))
    return _rounded_up(g, w, x) if ceil_mode else w


def fitted(
    g: Build, x: Value, kernel: Sequence[Any], blank: float, *, ceil_mode: int = 0,
    **place: Unpack[Placing],
) -> tuple[Value, Window]:  # fmt: skip
    """The window of a node, and the image that it slides over: with a border of its own, of
    `blank`, where only the run tells how wide auto_pad makes it."""
    how = place.get("auto_pad", "NOTSET")
    if not how.startswith("SAME") or static(x.shape[2:]):
        return x, window(g, x, kernel, ceil_mode=ceil_mode, **place)
    unpadded: Placing = {**place, "auto_pad": "VALID", "pads": ()}
    w = window(g, x, kernel, **unpadded)
    totals = [_same(w, d, e) for d, e in enumerate(x.shape[2:])]
    if static(totals):
        return x, window(g, x, kernel, ceil_mode=ceil_mode, **place)
    small = [simplify(convert(t) // 2) for t in totals]
    large = [simplify(convert(t) - s) for t, s in zip(totals, small, strict=True)]
    begin, end = (small, large) if how == "SAME_UPPER" else (large, small)
    pads = (0, 0, *begin, 0, 0, *end)
    return g.call("pad", x, pads=pads, mode="constant", value=blank), w


def _same(w: Window, d: int, extent: Any) -> Any:
    """The padding that gives ceil(extent / stride) results."""
    stride = w.strides[d]
    count = ceildiv(convert(extent, INDEX), stride)
    return larger((count - 1) * stride + w.reach(d) - extent, 0)


def _rounded_up(g: Build, w: Window, x: Value) -> Window:
    """ceil_mode as padding at the end; a window that would begin there does not count."""
    rank = len(w.kernel)
    ends = list(w.pads[rank:])
    for d in range(rank):
        begin, end, stride, extent = w.pads[d], ends[d], w.strides[d], x.shape[2 + d]
        if isinstance(extent, int):
            room = extent + begin + end - w.reach(d)
            count = -(-room // stride) + 1
            if (count - 1) * stride >= extent + begin:
                count -= 1
            ends[d] = max((count - 1) * stride + w.reach(d) - extent - begin, 0)
        elif stride > 1:
            if end + stride > w.reach(d):
                g.unsupported(
                    "ceil_mode=1 of a symbolic size with windows that may begin in the padding",
                    "constant sizes, or stride + end padding up to the kernel's size",
                )
            ends[d] = end + stride - 1
    return replace(w, pads=(*w.pads[:rank], *ends))
