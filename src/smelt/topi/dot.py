"""Products and convolutions of 8-bit integers in groups, as instructions sum them.

Processors multiply so many neighbouring numbers of two operands and add all products to one sum of
32 bits. Both operands are laid out for that: what is summed is cut into groups, which are the last
dimension of either, the last group filled up with zeros. Of pairs the first operand is of 16-bit
words, of fours both are bytes. The result is the same number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smelt.ir.build import all_of, ceildiv, if_then_else, value_of
from smelt.ir.expr import Expr, cast
from smelt.ir.types import TensorType
from smelt.te.tensor import Tensor, reduce_axis

from . import common
from .conv import CONVOLUTIONS, Window, kernel_axes
from .registry import Attrs, get_op

_FORMS = {"pairs": (2, "int16"), "fours": (4, "")}
"""By name of a body: how many products go to a sum, and the type of the first operand; "": its own.
The second one, the weights, stays as it is."""


def sums_bytes(types: Sequence[TensorType | None], attrs: Attrs) -> bool:
    """Whether bytes are summed in 32 bits, of more than one channel or element."""
    a, b = types[:2]
    assert a is not None
    assert b is not None
    narrow = {a.dtype, b.dtype} <= {"int8", "uint8"} and attrs["out_dtype"] == "int32"
    return narrow and attrs.get("groups", 1) == 1 and min(len(a.shape), len(b.shape)) >= 2


def filled(inside: Sequence[Expr], value: Expr, extent: Expr, group: int, k: Expr) -> Expr:
    """A value, and 0 outside of the operand and in the rest of the last group."""
    whole = value_of(extent % group) == 0
    conditions = [*inside, *([] if whole else [k < extent])]
    zero = common.number(0, value.dtype)
    return if_then_else(all_of(conditions), value, zero) if conditions else value


def _conv(x: Tensor, w: Tensor, group: int, to: str, attrs: Attrs) -> Tensor:
    """A convolution: image [n, h..., c], filters [kh..., c / group, o, group]."""
    window = Window(
        len(x.shape) - 2, w.shape[2:], attrs["strides"], attrs["pads"], attrs["dilations"]
    )
    size, depth = x.shape[2:], x.shape[1]
    groups = ceildiv(depth, group)
    high = [h + (a + b) for h, a, b in zip(size, window.begin, window.end, strict=True)]

    def pixel(n: Expr, *place: Expr) -> Expr:
        *y, c = place
        at = [v - b for v, b in zip(y, window.begin, strict=True)]
        inside = [window.guards(at, size)] if window.padded else []
        return filled(inside, cast(to or x.dtype, x[(n, c, *at)]), depth, group, c)

    def filters(*place: Expr) -> Expr:
        *tap, c, o, e = place
        k = c * group + e
        return filled([], w[(o, k, *tap)], depth, group, k)

    image = common.tensor((x.shape[0], *high, groups * group), pixel, "image")
    weights = common.tensor((*w.shape[2:], groups, w.shape[0], group), filters, "filters")
    taps, c, e = (
        kernel_axes(w.shape[2:]),
        reduce_axis((0, groups), "ic"),
        reduce_axis((0, group), "e"),
    )

    def product(n: Expr, o: Expr, *y: Expr) -> Expr:
        tap = [t.var for t in taps]
        seen = image[(n, *window.pixel(y, tap), c.var * group + e.var)]
        return cast("int32", seen) * cast("int32", weights[(*tap, c.var, o, e.var)])

    shape = (x.shape[0], w.shape[0], *window.result(size))
    return common.sum_over(shape, product, [*taps, c, e], "conv")


def _matmul(a: Tensor, b: Tensor, group: int, to: str, attrs: Attrs) -> Tensor:
    """A product of matrices: rows [..., m, k], columns [..., k / group, n, group]."""
    turned = attrs["transpose_a"], attrs["transpose_b"]
    m, depth = (a.shape[-1], a.shape[-2]) if turned[0] else a.shape[-2:]
    n = b.shape[-2] if turned[1] else b.shape[-1]
    groups = ceildiv(depth, group)
    batch = common.broadcast_shapes(a=a.shape[:-2], b=b.shape[:-2])

    def row(*place: Expr) -> Expr:
        *outer, i, k = place
        value = a[(*outer, *((k, i) if turned[0] else (i, k)))]
        return filled([], cast(to or a.dtype, value), depth, group, k)

    def column(*place: Expr) -> Expr:
        *outer, g, j, e = place
        k = g * group + e
        value = b[(*outer, *((j, k) if turned[1] else (k, j)))]
        return filled([], value, depth, group, k)

    rows = common.tensor((*a.shape[:-2], m, groups * group), row, "rows")
    columns = common.tensor((*b.shape[:-2], groups, n, group), column, "columns")
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

    return common.sum_over((*batch, m, n), product, [k, e], "matmul")


def _enter(name: str, made: Callable[[Tensor, Tensor, int, str, Attrs], Tensor], form: str) -> None:
    group, to = _FORMS[form]

    def body(a: Tensor, b: Tensor, **attrs: Any) -> Tensor:
        return made(a, b, group, to, attrs)

    body.__name__ = form
    get_op(name).implements(sums_bytes)(body)


for _form in _FORMS:
    for _name in CONVOLUTIONS:
        _enter(_name, _conv, _form)
    _enter("matmul", _matmul, _form)
