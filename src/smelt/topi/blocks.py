"""Products with integers of few bits, in blocks of the reduction that have a scale each.

The integers stand in words of 32 bits, those of neighbouring steps of the reduction in one word, so
that vectors of words are vectors of columns. A digit of a word is taken where it stands: it is 2^s
times the integer, and x is divided by 2^s beforehand, both of which are exact. The highest digit,
where the sign would be, is shifted. Words and scales are laid out when the model is compiled.
"""

from __future__ import annotations

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, call, ceildiv, equal, if_then_else, select, value_of
from smelt.ir.expr import Expr, cast, const
from smelt.te.tensor import Tensor, reduce_axis

from . import common
from .reference import Array
from .registry import op

WORD = 32
"""Bits of a word; smaller blocks than a word waste memory."""
WEIGHTS = ("int2", "uint2", "int4", "uint4", "int8", "uint8")
"""Types of the integers."""


class _Cut:
    """The reduction cut into blocks, blocks into words, words into digits.

    count, words, digits  how many blocks there are, words of a block, digits of a word
    lowest                what is taken off the integers, so that no digit is negative
    """

    def __init__(self, dtype: str, depth: Expr, block: int) -> None:
        self.depth, self.block, self.bits = depth, block, dt.width(dtype)
        self.digits, self.lowest = WORD // self.bits, dt.limits(dtype)[0]
        self.count, self.words = ceildiv(depth, block), -(-block // self.digits)

    def at(self, b: Expr, w: Expr, e: Expr) -> Expr:
        """The step of the reduction that a digit stands for."""
        return b * self.block + w * self.digits + e

    def filled(self, value: Expr, b: Expr, w: Expr, e: Expr) -> Expr:
        """The value of a step; 0 behind the end of a block, or of the reduction."""
        conditions, whole = [], value_of(self.depth % self.block) == 0
        if self.block % self.digits:
            conditions.append(w * self.digits + e < self.block)
        if not whole:
            conditions.append(self.at(b, w, e) < self.depth)
        zero = common.number(0, value.dtype)
        return if_then_else(all_of(conditions), value, zero) if conditions else value

    def word(self, q: Tensor, b: Expr, w: Expr, place: Expr, transposed: bool) -> Expr:
        """The digits of a word of a column."""
        found: Expr = const(0, "uint32")
        for d in range(self.digits):
            e = const(d, w.dtype)
            k = self.at(b, w, e)
            digit = cast("int32", q[place, k] if transposed else q[k, place]) - self.lowest
            moved = call("shift_left", cast("uint32", digit), const(self.bits * d, "uint32"))
            found = call("bitwise_or", found, self.filled(moved, b, w, e))
        return found

    def digit(self, word: Expr, e: Expr) -> Expr:
        """A digit of a word times `weight`, as a float."""
        place = cast("uint32", e * self.bits)
        ones = call("shift_left", const((1 << self.bits) - 1, "uint32"), place)
        last = call("shift_right", word, const(WORD - self.bits, "uint32"))
        taken = select(equal(e, self.digits - 1), last, call("bitwise_and", word, ones))
        return cast("float32", cast("int32", taken))

    def weight(self, e: Expr) -> Expr:
        """1 over what a digit is times the integer."""
        powers = [2.0 ** (-self.bits * d) for d in range(self.digits - 1)]
        return common.pick(e, [common.number(p, "float32") for p in (*powers, 1.0)])


@op(kind="contraction")
def matmul_in_blocks(
    x: Tensor, q: Tensor, scale: Tensor, zero: Tensor | None = None, *, block: int,
    transpose: bool = False,
) -> Tensor:  # fmt: skip
    """The product of x and a matrix of integers, each of which stands for scale * (q - zero); so
    many neighbours of a column have one scale and one zero.

    Shapes   x [..., k]; q [k, n]; scale and zero [ceil(k / block), n]; result [..., n]. Where
             `transpose`, q is [n, k], scale and zero are [n, ceil(k / block)]
    Types    x and the result float32; q one of WEIGHTS; the scale any float, zero any
             number
    """
    cut, n = _checked(x, q, scale, zero, block, transpose)
    lead, depth = x.shape[:-1], len(x.shape) - 1
    words = common.tensor(
        (cut.count, cut.words, n), lambda b, w, j: cut.word(q, b, w, j, transpose), "words"
    )
    digits = common.tensor(
        (cut.count, cut.words, cut.digits, n),
        lambda b, w, e, j: cut.digit(words[b, w, j], e),
        "digits",
    )

    def row(*i: Expr) -> Expr:
        *outer, b, w, e = i
        return cut.filled(x[(*outer, cut.at(b, w, e))], b, w, e)

    steps = (cut.count, cut.words, cut.digits)
    rows = common.tensor((*lead, *steps), lambda *i: row(*i) * cut.weight(i[-1]), "rows")
    w, e = reduce_axis((0, cut.words), "w"), reduce_axis((0, cut.digits), "e")

    def term(*i: Expr) -> Expr:
        *outer, b, j = i
        return rows[(*outer, b, w.var, e.var)] * digits[b, w.var, e.var, j]

    parts = common.sum_over((*lead, cut.count, n), term, [w, e], "parts")
    inside = [reduce_axis((0, s), v) for s, v in zip(steps[1:], ("w", "e"), strict=True)]
    sums = common.sum_over(
        (*lead, cut.count), lambda *i: row(*i, *[v.var for v in inside]), inside, "sums"
    )
    b = reduce_axis((0, cut.count), "b")

    def scaled(*i: Expr) -> Expr:
        outer, at = i[:depth], (i[-1], b.var) if transpose else (b.var, i[-1])
        value: Expr = parts[(*outer, b.var, i[-1])]
        total = sums[(*outer, b.var)]
        if zero is not None:
            value = value - total * (cast("float32", zero[at]) - float(cut.lowest))
        elif cut.lowest:
            value = value + total * float(cut.lowest)
        return value * cast("float32", scale[at])

    return common.sum_over((*lead, n), scaled, [b], "matmul")


def _checked(
    x: Tensor, q: Tensor, scale: Tensor, zero: Tensor | None, block: int, transpose: bool
) -> tuple[_Cut, Expr]:
    """How the reduction is cut, and the columns; TypeMismatch for what does not fit."""
    common.dtype_only("float32", x=x)
    common.one_of(WEIGHTS, q=q.dtype)
    common.float_only(scale, "scale")
    common.at_least(1, block=block)
    common.require(len(x.shape) >= 1, "x needs at least one dimension")
    common.require(len(q.shape) == 2, f"{common.named(q=q)} has to be a matrix")
    depth, n = q.shape[::-1] if transpose else q.shape
    rule = f"{common.named(x=x, q=q)}: the last dimension of x has to equal k"
    depth = common.agree(depth, x.shape[-1], rule)
    cut = _Cut(q.dtype, depth, block)
    shape = (n, cut.count) if transpose else (cut.count, n)
    for name, t in (("scale", scale), ("zero", zero)):
        if t is not None:
            common.agree_in_shape(
                t.shape, shape, f"{common.named(**{name: t}, q=q)} in blocks of {block}"
            )
    return cut, n


@matmul_in_blocks.numpy
def _(
    x: Array, q: Array, scale: Array, zero: Array | None = None, *, block: int, transpose: bool
) -> Array:  # fmt: skip
    """numpy's product with the numbers that the integers stand for, in float64."""
    wide = [v.astype(np.float64) for v in (q, scale) + (() if zero is None else (zero,))]
    whole, step, *move = [v.T if transpose else v for v in wide]
    of = np.arange(whole.shape[0]) // block
    numbers = (whole - (move[0][of] if move else 0.0)) * step[of]
    return np.asarray(np.matmul(x.astype(np.float64), numbers).astype(np.float32))
