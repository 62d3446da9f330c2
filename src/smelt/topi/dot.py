"""Products and convolutions of 8-bit integers in groups, as instructions sum them.

Processors multiply so many neighbouring numbers of two operands and add all products to one sum of
32 bits. Both operands are laid out for that: what is summed is cut into groups, which are the last
dimension of either, the last group filled up with zeros. Of pairs the first operand is of 16-bit
words, of fours both are bytes. The result is the same number.

Instructions for fours want certain signs. Where the first operand's is another one, its numbers are
moved by 128, and what that adds to the sums is taken off again:

    sum a w  =  sum (a + 128) w  -  128 sum w        int8 as uint8; the other way round, + 128 sum w
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from smelt.ir.build import all_of, call, ceildiv, if_then_else, value_of
from smelt.ir.expr import Expr, ExprLike, cast, const
from smelt.ir.types import TensorType
from smelt.te.tensor import Tensor, reduce_axis
from smelt.tir.nodes import IterVar

from . import common
from .conv import CONVOLUTIONS, Window, kernel_axes, outside
from .registry import Attrs, get_op


class Form(NamedTuple):
    """How a body reads the first operand; the second one, the weights, stays as it is.

    group  how many products go to a sum
    to     the type of the first operand; "": its own
    moved  whether its numbers are moved by 128, to the type of the other sign
    """

    group: int
    to: str = ""
    moved: bool = False

    def read(self, value: Expr) -> Expr:
        """A number of the first operand."""
        if not self.moved:
            return cast(self.to or value.dtype, value)
        flipped = call("bitwise_xor", cast("uint8", value), const(128, "uint8"))
        return cast("int8" if value.dtype == "uint8" else "uint8", flipped)

    def offset(
        self, given: str, shape: Sequence[ExprLike], weight: Callable[..., Expr],
        axes: Sequence[IterVar],
    ) -> Tensor:  # fmt: skip
        """What has to be added to sums of moved numbers.

        given   the type of the first operand
        shape   of the result, whose indices `weight` takes: a weight at a step of the reduction
        """
        by = 128 if given == "uint8" else -128
        return common.sum_over(shape, lambda *i: cast("int32", weight(*i)) * by, axes, "offset")


_FORMS = {"pairs": Form(2, "int16"), "fours": Form(4), "fours_moved": Form(4, moved=True)}
"""By name of a body."""
_LANES = 8
"""Sums in vectors of 256 bits."""


def both(types: Sequence[TensorType | None]) -> tuple[TensorType, TensorType]:
    """The types of the first two operands, which are given."""
    a, b = types[:2]
    assert a is not None
    assert b is not None
    return a, b


def sums_bytes(types: Sequence[TensorType | None], attrs: Attrs) -> bool:
    """Whether bytes are summed in 32 bits, of more than one channel or element."""
    a, b = both(types)
    narrow = {a.dtype, b.dtype} <= {"int8", "uint8"} and attrs["out_dtype"] == "int32"
    return narrow and _several(b, attrs) and min(len(a.shape), len(b.shape)) >= 2


def _several(w: TensorType, attrs: Attrs) -> bool:
    """Whether each group of a convolution has several channels on both sides."""
    parts = attrs.get("groups", 1)
    return parts == 1 or 1 not in (value_of(w.shape[1]), value_of(w.shape[0] // parts))


def filled(
    inside: Sequence[Expr], value: Expr, extent: Expr, group: int, k: Expr,
    outside: Expr | None = None,
) -> Expr:  # fmt: skip
    """A value, and another one (None: 0) outside of the operand and in the rest of the last
    group."""
    whole = value_of(extent % group) == 0
    conditions = [*inside, *([] if whole else [k < extent])]
    other = common.number(0, value.dtype) if outside is None else outside
    return if_then_else(all_of(conditions), value, other) if conditions else value


def _whole_vectors(columns: Expr) -> Expr:
    """So many columns, and those that fill the last vector of sums; a few fill none anyway."""
    known = value_of(columns)
    if known is not None and (known % _LANES == 0 or known < _LANES):
        return columns
    return ceildiv(columns, _LANES) * _LANES


def _conv(x: Tensor, w: Tensor, form: Form, attrs: Attrs) -> Tensor:
    """A convolution: image [n, h..., c], filters [kh..., c / group, o, group].

    Of one in groups the image has their number in front of the channels of one.
    """
    group, parts = form.group, attrs["groups"]
    window = Window(
        len(x.shape) - 2, w.shape[2:], attrs["strides"], attrs["pads"], attrs["dilations"]
    )
    size, depth, each = x.shape[2:], w.shape[1], w.shape[0] // parts
    groups, border = ceildiv(depth, group), outside(x.dtype, attrs["border"])
    high = [h + (a + b) for h, a, b in zip(size, window.begin, window.end, strict=True)]

    def pixel(n: Expr, *place: Expr) -> Expr:
        y, (*part, c) = place[: len(size)], place[len(size) :]
        at = [v - b for v, b in zip(y, window.begin, strict=True)]
        inside = [window.guards(at, size)] if window.padded else []
        channel = part[0] * depth + c if part else c
        value = form.read(x[(n, channel, *at)])
        return filled(inside, value, depth, group, c, form.read(border))

    def filters(*place: Expr) -> Expr:
        *tap, c, o, e = place
        k = c * group + e
        return filled([], w[(o, k, *tap)], depth, group, k)

    channels = [*([parts] if parts > 1 else []), groups * group]
    image = common.tensor((x.shape[0], *high, *channels), pixel, "image")
    weights = common.tensor((*w.shape[2:], groups, w.shape[0], group), filters, "filters")
    taps, c, e = (
        kernel_axes(w.shape[2:]),
        reduce_axis((0, groups), "ic"),
        reduce_axis((0, group), "e"),
    )

    def product(n: Expr, o: Expr, *y: Expr) -> Expr:
        tap = [t.var for t in taps]
        part = [o // each] if parts > 1 else []
        seen = image[(n, *window.pixel(y, tap), *part, c.var * group + e.var)]
        return cast("int32", seen) * cast("int32", weights[(*tap, c.var, o, e.var)])

    shape = (x.shape[0], w.shape[0], *window.result(size))
    if not form.moved:
        return common.sum_over(shape, product, [*taps, c, e], "conv")
    sums = common.sum_over(shape, product, [*taps, c, e], "sums")
    own, channel = kernel_axes(w.shape[2:]), reduce_axis((0, depth), "c")
    offset = form.offset(
        x.dtype, shape[1:2], lambda o: w[(o, channel.var, *[t.var for t in own])], [channel, *own]
    )
    return common.tensor(shape, lambda n, o, *y: sums[(n, o, *y)] + offset[o], "conv")


def _matmul(a: Tensor, b: Tensor, form: Form, attrs: Attrs) -> Tensor:
    """A product of matrices: rows [..., m, k], columns [..., k / group, n, group]."""
    group = form.group
    turned = attrs["transpose_a"], attrs["transpose_b"]
    m, depth = (a.shape[-1], a.shape[-2]) if turned[0] else a.shape[-2:]
    n = b.shape[-2] if turned[1] else b.shape[-1]
    groups = ceildiv(depth, group)
    batch = common.broadcast_shapes(a=a.shape[:-2], b=b.shape[:-2])

    def row(*place: Expr) -> Expr:
        *outer, i, k = place
        value = a[(*outer, *((k, i) if turned[0] else (i, k)))]
        return filled([], form.read(value), depth, group, k, form.read(const(0, a.dtype)))

    def weight(outer: Sequence[Expr], k: Expr, j: Expr) -> Expr:
        return b[(*outer, *((j, k) if turned[1] else (k, j)))]

    def column(*place: Expr) -> Expr:
        *outer, g, j, e = place
        k = g * group + e
        inside = [] if wide is n else [j < n]
        return filled(inside, weight(outer, k, j), depth, group, k)

    wide = _whole_vectors(n)
    rows = common.tensor((*a.shape[:-2], m, groups * group), row, "rows")
    columns = common.tensor((*b.shape[:-2], groups, wide, group), column, "columns")
    k, e = reduce_axis((0, groups), "k"), reduce_axis((0, group), "e")

    def lead(x: Tensor, outer: Sequence[Expr]) -> list[Expr]:
        skip = len(batch) - (len(x.shape) - 2)
        each = zip(x.shape[:-2], batch[skip:], outer[skip:], strict=True)
        return [common.place(extent, out, i) for extent, out, i in each]

    def product(*place: Expr) -> Expr:
        *outer, i, j = place
        left = rows[(*lead(a, outer), i, k.var * group + e.var)]
        right = columns[(*lead(b, outer), k.var, j, e.var)]
        return cast("int32", left) * cast("int32", right)

    whole = wide is n and not form.moved
    sums = common.sum_over((*batch, m, wide), product, [k, e], "matmul" if whole else "sums")
    if not form.moved:
        return sums if whole else common.tensor((*batch, m, n), lambda *i: sums[i], "matmul")
    step = reduce_axis((0, depth), "s")
    offset = form.offset(
        a.dtype, (*b.shape[:-2], n), lambda *i: weight(i[:-1], step.var, i[-1]), [step]
    )

    def moved(*place: Expr) -> Expr:
        return sums[place] + offset[(*lead(b, place[:-2]), place[-1])]

    return common.tensor((*batch, m, n), moved, "matmul")


def _enter(name: str, made: Callable[[Tensor, Tensor, Form, Attrs], Tensor], form: str) -> None:
    def body(a: Tensor, b: Tensor, **attrs: Any) -> Tensor:
        return made(a, b, _FORMS[form], attrs)

    body.__name__ = form
    get_op(name).implements(sums_bytes)(body)


for _form in _FORMS:
    for _name in CONVOLUTIONS:
        _enter(_name, _conv, _form)
    _enter("matmul", _matmul, _form)
