"""Convolutions in one, two and three dimensions: one pad compute, one reduction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, equal, if_then_else, is_const, value_of
from smelt.ir.expr import INDEX, Expr, ExprLike, cast, const
from smelt.te.tensor import Tensor, reduce_axis
from smelt.tir.nodes import IterVar

from . import common
from .reference import Array, Index, stored_type, summed, taps, taps_on, widened, without_border
from .registry import attributes, op

Ints = tuple[int, ...]


def sliding(rank: int = 0) -> dict[str, Ints]:
    """What places windows over so many dimensions, and the defaults; 0: over any number of them."""
    return {"strides": (1,) * rank, "pads": (0,) * (2 * rank), "dilations": (1,) * rank}


CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
"""The operators that are one but for the number of spatial dimensions."""

FROM_BORDER = tuple([f"{name}_from_border" for name in CONVOLUTIONS])
"""Those that multiply the distance from the border's number."""


class Window:
    """The sliding of a kernel over the spatial dimensions (those after n and c).

    kernel, strides, dilations   one number per spatial dimension (kernel extents may be Expr)
    begin, end                   padding in pixels in front of and behind each dimension
    """

    def __init__(
        self, rank: int, kernel: Sequence[Expr | int], strides: Sequence[int] | None,
        pads: Sequence[int] | None, dilations: Sequence[int] | None,
    ) -> None:  # fmt: skip
        """Check the attributes; empty ones take their defaults."""
        self.rank, self.kernel = rank, tuple(kernel)
        self.strides = tuple(strides or (1,) * rank)
        self.dilations = tuple(dilations or (1,) * rank)
        pads = tuple(pads or (0,) * (2 * rank))
        known = tuple([value_of(e) if isinstance(e, Expr) else e for e in self.kernel])
        given = {"strides": self.strides, "dilations": self.dilations, "kernel": known}
        common.take_numbers(f"{rank} spatial dimensions", rank, 1, **given)
        common.take_numbers(f"{rank} spatial dimensions", 2 * rank, pads=pads)
        self.begin, self.end = pads[:rank], pads[rank:]
        self.padded = any(pads)

    def span(self, d: int) -> Expr:
        """How many pixels a dilated kernel covers."""
        span: Expr = self.dilations[d] * (self.kernel[d] - const(1, INDEX)) + 1
        return span

    def result(self, size: Sequence[Expr], empty: bool = False) -> list[Expr]:
        """(h + begin + end - span) // stride + 1 for each spatial extent.

        empty  of no pixels, none
        """
        out: list[Expr] = []
        for d, h in enumerate(size):
            if empty and value_of(h + (self.begin[d] + self.end[d])) == 0:
                out.append(const(0, INDEX))
                continue
            room = h + (self.begin[d] + self.end[d]) - self.span(d)
            common.require(
                (value_of(room) or 0) >= 0,
                f"spatial dimension {d}: the kernel covers {_text(self.span(d))} pixels, the "
                f"padded image has {_text(h + (self.begin[d] + self.end[d]))}",
            )
            out.append(room // self.strides[d] + 1)
        return out

    def pixel(self, point: Sequence[Expr], taps: Sequence[Expr]) -> list[Expr]:
        """Where the padded image is read for a result's position and a kernel's element."""
        each = zip(point, taps, self.strides, self.dilations, strict=True)
        return [y * s + t * d for y, t, s, d in each]

    def place(self, point: Sequence[Expr], taps: Sequence[Expr]) -> list[Expr]:
        """The same place of the image without its border."""
        return [v - b for v, b in zip(self.pixel(point, taps), self.begin, strict=True)]

    def guards(self, at: Sequence[Expr], size: Sequence[Expr]) -> Expr:
        """Whether a place is one of the image, as far as the border leaves it open."""
        conditions: list[Expr] = []
        for y, b, e, h in zip(at, self.begin, self.end, size, strict=True):
            conditions += [y >= 0] if b > 0 else []
            conditions += [y < h] if e > 0 else []
        return all_of(conditions)

    def covering(
        self, pixel: Sequence[Expr], taps: Sequence[IterVar], size: Sequence[Expr]
    ) -> tuple[list[Expr], list[Expr]]:
        """The window, of `size` in each dimension, whose element `taps` meets a pixel: its place,
        and the conditions that there is one: place * stride + tap * dilation = pixel + begin."""
        places, hits = [], []
        for d, (v, t) in enumerate(zip(pixel, taps, strict=True)):
            moved, stride = v + self.begin[d] - t.var * self.dilations[d], self.strides[d]
            places.append(moved // stride)
            hits += [moved >= 0, places[d] < size[d]]
            hits += [equal(moved % stride, 0)] if stride > 1 else []
        return places, hits

    def pad(self, x: Tensor, value: Expr, name: str = "pad") -> Tensor:
        """The image with its border; itself where there is none."""
        if not self.padded:
            return x
        size = [h + (a + b) for h, a, b in zip(x.shape[2:], self.begin, self.end, strict=True)]

        def body(*i: Expr) -> Expr:
            at = [v - b for v, b in zip(i[2:], self.begin, strict=True)]
            return if_then_else(self.guards(at, x.shape[2:]), x[(i[0], i[1], *at)], value)

        return common.tensor((*x.shape[:2], *size), body, name)


def _text(e: Expr) -> str:
    return common.describe([e])[1:-1]


def _operands(
    x: Tensor, w: Tensor, rank: int, groups: int, w_form: str, out_dtype: str, w_name: str = "w"
) -> tuple[str, str]:
    """The types of sums and of the result, after a look at ranks and groups."""
    types = common.product_types(x, w, f"x {w_name}", out_dtype)
    for name, t, form in (("x", x, "[n, c, ...]"), (w_name, w, w_form)):
        common.require(
            len(t.shape) == rank + 2,
            f"{name} {common.describe(t.shape)} has {len(t.shape)} dimensions; {form} with {rank} "
            f"spatial dimensions has {rank + 2}",
        )
    common.at_least(1, groups=groups)
    return types


def agree_on_channels(x: Tensor, w: Tensor, groups: int) -> None:
    """The channels of x are those that the filters w [o, c / groups, ...] see."""
    rule = "the channels of x have to be dimension 1 of w times groups"
    common.agree(
        x.shape[1], w.shape[1] * groups, f"{common.named(x=x, w=w)} with groups={groups}: {rule}"
    )


def outside(dtype: str, border: int) -> Expr:
    """What stands for the pixels around an image of a type."""
    low, high = dt.limits(dtype) if dt.is_int(dtype) else (0, 0)
    common.require(
        low <= border <= high, f"border={border} of {dtype}; legal: {low} to {high}"
        if high else f"border={border} of {dtype}; legal: 0, others for integers",
    )  # fmt: skip
    return common.number(border, dtype)


def kernel_axes(kernel: Sequence[ExprLike]) -> list[IterVar]:
    """A reduction variable for each dimension of a kernel: kd, kh, kw."""
    names = ("kd", "kh", "kw")[-len(kernel) :]
    return [reduce_axis((0, e), n) for e, n in zip(kernel, names, strict=True)]


def _convolve(
    x: Tensor, w: Tensor, shape: Sequence[Expr], inputs: Expr, groups: int,
    pixel: Callable[[Sequence[Expr], Sequence[Expr]], list[Expr]],
    factor: Callable[[Expr, Expr, Expr, Sequence[Expr]], Expr], types: tuple[str, str],
) -> Tensor:  # fmt: skip
    """The reduction over kernel elements, then the `inputs` channels of a group; x is padded.

    shape   of the result
    pixel   (place, kernel element) -> where x is read
    factor  (output channel, input channel in its group and in x, kernel element) -> what of w
    types   of sums and of the result
    """
    outputs, (to, dtype) = shape[1], types
    taps, ic = kernel_axes(w.shape[2:]), reduce_axis((0, inputs), "ic")
    depthwise = groups > 1 and value_of(outputs) == groups and is_const(inputs, 1)
    own: Expr = const(0, INDEX) if depthwise else ic.var

    def body(b: Expr, oc: Expr, *y: Expr) -> Expr:
        tap = [t.var for t in taps]
        channel = oc
        if not depthwise:
            channel = own if groups == 1 else (oc // (outputs // groups)) * inputs + own
        return cast(to, x[(b, channel, *pixel(y, tap))]) * cast(to, factor(oc, own, channel, tap))

    axes = taps if depthwise else [*taps, ic]
    return common.stored(common.sum_over(shape, body, axes, "conv"), dtype)


def _in_groups(x: Array, groups: int) -> Array:
    """[n, groups, c / groups, ...]"""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def _filters_in_groups(w: Array, groups: int) -> Array:
    """[groups, filters / groups, ...]"""
    return w.reshape(groups, w.shape[0] // groups, *w.shape[1:])


def _conv_array(
    x: Array, w: Array, *, groups: int, out_dtype: str, border: int, **window: Any
) -> Array:
    """Every kernel element's product with the image moved under it, summed."""
    image, filters = summed(x, out_dtype), _filters_in_groups(summed(w, out_dtype), groups)
    parts = [
        np.einsum("ngc...,goc->ngo...", _in_groups(part, groups), filters[place])
        for place, part in taps_on(image, border, kernel=w.shape[2:], **window)
    ]
    total = np.asarray(sum(parts)).reshape(x.shape[0], w.shape[0], *parts[0].shape[3:])
    return total.astype(stored_type(x, out_dtype))


def _from_border_array(x: Array, w: Array, *, border: int, out_dtype: str, **attrs: Any) -> Array:
    """The same of what is left of x without the border's number."""
    away = summed(x, out_dtype) - border
    return _conv_array(away, w, out_dtype=out_dtype, border=0, **attrs)


def _enter(rank: int) -> None:
    @op(name=CONVOLUTIONS[rank - 1], channels_last=True, numpy=_conv_array)
    @attributes(**sliding(rank), groups=1, out_dtype="", border=0)
    def conv(
        x: Tensor, w: Tensor, *, groups: int, out_dtype: str, border: int, **given: Ints
    ) -> Tensor:
        """Cross-correlation of signals, images or volumes with filters.

        Shapes   x [n, c, h...]; w [o, c / groups, kh...]; result [n, o, oh...],
                 oh = (h + begin + end - dilation * (kh - 1) - 1) // stride + 1
        Units    strides, pads (begin..., end...) and dilations in pixels
        border   what the pixels of the pads are: a number of x's type, 0 for floats
        Types    out_dtype "": x, w and the result have one type, narrow floats are summed in
                 float32; otherwise the result's type, in which integers are summed: x and w may
                 then be of different integer types (uint8 and int8), both narrower than out_dtype
        Source   ONNX Conv-22
        """
        types = _operands(x, w, rank, groups, "[o, c / groups, ...]", out_dtype)
        window = Window(rank, w.shape[2:], **given)
        padded = window.pad(x, outside(x.dtype, border))
        return _slide(padded, w, _size(x, w, window, groups), groups, window, types)

    @op(name=FROM_BORDER[rank - 1], channels_last=True, numpy=_from_border_array)
    @attributes(**sliding(rank), groups=1, out_dtype=Parameter.empty, border=Parameter.empty)
    def conv_from_border(
        x: Tensor, w: Tensor, *, groups: int, out_dtype: str, border: int, **given: Ints
    ) -> Tensor:
        """Cross-correlation of how far bytes are from the border with filters: a sum over pixels
        inside of the image alone.

        Attributes and shapes are those of conv2d and its like.
        """
        types = _operands(x, w, rank, groups, "[o, c / groups, ...]", out_dtype)
        common.require(x.dtype in ("int8", "uint8"), f"x is {x.dtype}; legal: int8, uint8")
        window, blank = Window(rank, w.shape[2:], **given), cast("int16", outside(x.dtype, border))
        away = common.tensor(x.shape, lambda *i: cast("int16", x[i]) - blank, "away")
        padded = window.pad(away, const(0, "int16"))
        return _slide(padded, w, _size(x, w, window, groups), groups, window, types)


def _size(x: Tensor, w: Tensor, window: Window, groups: int) -> list[Expr]:
    """The shape of the result, after a look at channels."""
    agree_on_channels(x, w, groups)
    outputs = value_of(w.shape[0])
    common.require(
        outputs is None or outputs % groups == 0,
        f"{common.named(w=w)}: {outputs} output channels cannot be split into groups={groups}",
    )
    return [x.shape[0], w.shape[0], *window.result(x.shape[2:])]


def _slide(
    padded: Tensor, w: Tensor, shape: Sequence[Expr], groups: int, window: Window,
    types: tuple[str, str],
) -> Tensor:  # fmt: skip
    """Filters w [o, c / groups, ...] over an image with its border."""

    def factor(oc: Expr, own: Expr, _: Expr, tap: Sequence[Expr]) -> Expr:
        return w[(oc, own, *tap)]

    return _convolve(padded, w, shape, w.shape[1], groups, window.pixel, factor, types)


for _rank in (1, 2, 3):
    _enter(_rank)


# -------------------------------------------------------------------------- transposed convolution


@op
@attributes(kernel=Parameter.empty, **sliding(), groups=1)
def conv_backward_weight(
    grad: Tensor, x: Tensor, *, kernel: Ints, groups: int, **given: Ints
) -> Tensor:
    """The derivative of a convolution by its filters: what each filter element was multiplied with,
    times the derivative of the product's place.

    Shapes   grad [n, o, oh...] by the convolution's result; x [n, c, h...];
             result [o, c / groups, kernel...]
    Units    kernel, strides, pads (begin..., end...) and dilations in pixels, as in conv2d
    """
    rank = len(kernel)
    common.require(1 <= rank <= 3, f"kernel={kernel} has to have 1 to 3 numbers")
    to, dtype = _operands(x, grad, rank, groups, "[n, o, ...]", "", "grad")
    window = Window(rank, kernel, **given)
    size = window.result(x.shape[2:])
    common.agree_in_shape(
        grad.shape, (x.shape[0], grad.shape[1], *size), common.named(grad=grad, x=x)
    )
    common.take_groups(groups, common.named(x=x), x.shape[1])
    common.take_groups(groups, common.named(grad=grad), grad.shape[1])
    inputs, each = x.shape[1] // groups, grad.shape[1] // groups
    padded = window.pad(x, common.number(0, dtype))
    b = reduce_axis((0, x.shape[0]), "b")
    point = [reduce_axis((0, e), n) for e, n in zip(size, ("od", "oh", "ow")[-rank:], strict=True)]

    def body(oc: Expr, ic: Expr, *k: Expr) -> Expr:
        channel = ic if groups == 1 else (oc // each) * inputs + ic
        y = [p.var for p in point]
        seen = padded[(b.var, channel, *window.pixel(y, k))]
        return cast(to, grad[(b.var, oc, *y)]) * cast(to, seen)

    shape: list[ExprLike] = [grad.shape[1], inputs, *kernel]
    return common.stored(common.sum_over(shape, body, [b, *point], "conv_grad"), dtype)


@conv_backward_weight.numpy
def _(grad: Array, x: Array, *, kernel: Sequence[int], groups: int, **window: Any) -> Array:
    """For every kernel element the image moved under it, times the derivative."""

    def columns(t: Array) -> Array:
        """[n, groups, c / groups, all places of the result]"""
        grouped = _in_groups(t, groups)
        return grouped.reshape(*grouped.shape[:3], -1)

    seen = [
        np.einsum("ngop,ngcp->goc", columns(widened(grad)), columns(part))
        for _, part in taps_on(widened(x), 0, kernel=kernel, **window)
    ]
    return np.stack(seen, -1).reshape(grad.shape[1], -1, *kernel).astype(x.dtype)


@op(channels_last=True)
@attributes(**sliding(), output_padding=(), groups=1, out_dtype="")
def conv_transpose(
    x: Tensor, w: Tensor, *, output_padding: Ints, groups: int, out_dtype: str, **given: Ints
) -> Tensor:
    """The transpose of the map that a convolution with these attributes is; 1 to 3 dimensions.

    Shapes   x [n, c, ...]; w [c, o / groups, ...]; result [n, o, ...] with extents
             stride * (h - 1) + output_padding + dilation * (k - 1) + 1 - begin - end
    Units    strides, pads (begin..., end...), dilations and output_padding in pixels
    Types    as in conv2d
    Source   ONNX ConvTranspose-22
    """
    rank = len(x.shape) - 2
    common.require(1 <= rank <= 3, f"{common.named(x=x)} has to have 1, 2 or 3 spatial dimensions")
    types = _operands(x, w, rank, groups, "[c, o / groups, ...]", out_dtype)
    window = Window(rank, w.shape[2:], **given)
    extra = tuple(output_padding or (0,) * rank)
    common.require(len(extra) == rank, f"output_padding={extra} has to have {rank} numbers")
    rule = f"{common.named(x=x, w=w)}: the channels of x have to be dimension 0 of w"
    common.agree(x.shape[1], w.shape[0], rule)
    common.take_groups(groups, common.named(x=x), x.shape[1])
    ends = zip(x.shape[2:], window.strides, extra, window.begin, window.end, strict=True)
    size = [(h - 1) * s + (o - a - b) + window.span(d) for d, (h, s, o, a, b) in enumerate(ends)]
    for d, (e, h) in enumerate(zip(size, x.shape[2:], strict=True)):
        common.require(
            (value_of(e) or 0) >= (0 if value_of(h) == 0 else 1) or value_of(e) is None,
            f"spatial dimension {d}: the padding leaves {_text(e)} of the result's pixels",
        )
    shape = (x.shape[0], w.shape[1] * groups, *size)

    def pixel(place: Sequence[Expr], tap: Sequence[Expr]) -> list[Expr]:
        return [v + t * d for v, t, d in zip(place, tap, window.dilations, strict=True)]

    def factor(oc: Expr, _: Expr, channel: Expr, tap: Sequence[Expr]) -> Expr:
        turned = [e - 1 - t for e, t in zip(w.shape[2:], tap, strict=True)]
        return w[(channel, oc if groups == 1 else oc % w.shape[1], *turned)]

    spread, inputs = _spread(x, window, size), w.shape[0] // groups
    return _convolve(spread, w, shape, inputs, groups, pixel, factor, types)


@conv_transpose.numpy
def _(
    x: Array, w: Array, *, strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int],
    output_padding: Sequence[int], groups: int, out_dtype: str,
) -> Array:  # fmt: skip
    """Every pixel stamps the kernel, times its value, on the result."""
    rank, kernel = x.ndim - 2, w.shape[2:]
    attributes = (strides or (1,) * rank, dilations or (1,) * rank, output_padding or (0,) * rank)
    each = zip(x.shape[2:], kernel, *attributes, strict=True)
    full = [(h - 1) * s + d * (k - 1) + 1 + e for h, k, s, d, e in each]
    image = _in_groups(summed(x, out_dtype), groups)
    filters = _filters_in_groups(summed(w, out_dtype), groups)
    out = np.zeros((x.shape[0], w.shape[1] * groups, *full), image.dtype)
    own: Index = (..., *map(slice, x.shape[2:]))
    for place, part in taps(_in_groups(out, groups), kernel, strides, dilations):
        part[own] += np.einsum("ngc...,gco->ngo...", image, filters[place])
    return without_border(out, pads).astype(stored_type(x, out_dtype))


def _spread(x: Tensor, window: Window, size: Sequence[Expr]) -> Tensor:
    """The image with stride - 1 zeros between pixels and a border, so that a plain convolution
    with the kernel turned round gives the result."""
    reach = [window.span(d) - 1 for d in range(window.rank)]

    def body(b: Expr, c: Expr, *y: Expr) -> Expr:
        conditions: list[Expr] = []
        index = []
        for d, s in enumerate(window.strides):
            moved = y[d] - (reach[d] - window.begin[d])
            last = (x.shape[2 + d] - 1) * s
            conditions += [moved >= 0, moved <= last]
            if s > 1:
                conditions.append(equal(moved % s, 0))
            index.append(moved // s)
        return if_then_else(all_of(conditions), x[(b, c, *index)], common.number(0, x.dtype))

    padded = [e + r for e, r in zip(size, reach, strict=True)]
    return common.tensor((*x.shape[:2], *padded), body, "pad")
