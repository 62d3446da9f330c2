"""Products with integers of few bits, in blocks of the reduction that have a scale each.

The integers stand in words of 32 bits, those of neighbouring steps of the reduction in one word, so
that vectors of words are vectors of columns. A digit of a word is taken where it stands: it is 2^s
times the integer, and x is divided by 2^s beforehand, both of which are exact. The highest digit,
where the sign would be, is shifted. Words and scales are laid out when the model is compiled.

Where x may be rounded to 8 bits, there is a second algorithm: processors multiply bytes, and add
neighbouring products in 16 bits, which hold the sums of so many steps as there are in a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, call, ceildiv, equal, if_then_else, select, value_of
from smelt.ir.expr import Expr, cast, const
from smelt.ir.types import TensorType
from smelt.te.tensor import Tensor, reduce_axis
from smelt.te.tensor import max as te_max

from . import common
from .dot import both
from .reference import Array
from .registry import Attrs, op

WORD = 32
"""Bits of a word; smaller blocks than a word waste memory."""
WEIGHTS = ("int2", "uint2", "int4", "uint4", "int8", "uint8")
"""Types of the integers."""
COMPUTE = ("float32", "int8")
"""What x may be computed in."""
STEPS = 127
"""x is rounded to so many steps of a block's largest magnitude, of either sign."""
LEAST = np.float32(2.0**-100)
"""Blocks with no larger magnitude are zeros: one over it would be infinite."""
PANEL = 48
"""Columns whose words stand together: six vectors of eight lanes, so that sums do not wait for each
other."""
_VECTOR = 16
"""Columns of the widest vector."""
BYTES = 4
"""Bytes of a word, two halves of two: a half is what is added in 16 bits."""


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
        steps = [const(d, w.dtype) for d in range(self.digits)]
        return self._side_by_side("uint32", q, b, w, steps, place, transposed)

    def byte(self, q: Tensor, b: Expr, w: Expr, at: Expr, place: Expr, transposed: bool) -> Expr:
        """The digits of one byte of a word of a column: every `BYTES`-th of the word's."""
        steps = [at + s * BYTES for s in range(self.digits // BYTES)]
        return self._side_by_side("uint8", q, b, w, steps, place, transposed)

    def _side_by_side(
        self, kind: str, q: Tensor, b: Expr, w: Expr, steps: Sequence[Expr], place: Expr,
        transposed: bool,
    ) -> Expr:  # fmt: skip
        """The digits of some steps of a column in one number, the first one lowest."""
        found: Expr = const(0, kind)
        for n, e in enumerate(steps):
            k = self.at(b, w, e)
            digit = cast("int32", q[place, k] if transposed else q[k, place]) - self.lowest
            moved = call("shift_left", cast(kind, digit), const(self.bits * n, kind))
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


class _Rows:
    """x in blocks, as numbers that are multiplied with the integers.

    step  what the numbers of a block of a row are to be multiplied by; None: they are x
    """

    def __init__(self, x: Tensor, cut: _Cut, compute_dtype: str) -> None:
        self.x, self.cut = x, cut
        self.step, self.inverse = None, None
        if compute_dtype == "int8":
            shape = (*x.shape[:-1], cut.count)
            i = reduce_axis((0, cut.block), "i")
            largest = common.tensor(shape, lambda *b: self._largest(i, *b), "largest")
            self.step = common.tensor(shape, lambda *b: largest[b] * (1.0 / STEPS), "step")
            self.inverse = common.tensor(
                shape,
                lambda *b: select(largest[b] > float(LEAST), STEPS / largest[b], 0.0),
                "inverse",
            )

    def _largest(self, i: Any, *place: Expr) -> Any:
        *outer, b = place
        k = b * self.cut.block + i.var
        value = call("abs", self.x[(*outer, k)])
        if value_of(self.cut.depth % self.cut.block) != 0:
            value = if_then_else(k < self.cut.depth, value, common.number(0, "float32"))
        return te_max(value, [i])

    def __call__(self, *place: Expr) -> Expr:
        """A number: of an outer place, a block, a word, a digit."""
        *outer, b, w, e = place
        value: Expr = self.x[(*outer, self.cut.at(b, w, e))]
        if self.inverse is not None:
            value = call("round", value * self.inverse[(*outer, b)])
        return self.cut.filled(value, b, w, e)

    def total(self) -> Tensor:
        """The sum of a block's numbers."""
        cut, lead = self.cut, self.x.shape[:-1]
        inside = [reduce_axis((0, s), v) for s, v in ((cut.words, "w"), (cut.digits, "e"))]
        return common.sum_over(
            (*lead, cut.count), lambda *i: self(*i, *[v.var for v in inside]), inside, "sums"
        )


@op(kind="contraction")
def matmul_in_blocks(
    x: Tensor, q: Tensor, scale: Tensor, zero: Tensor | None = None, *, block: int,
    transpose: bool = False, compute_dtype: str = "float32",
) -> Tensor:  # fmt: skip
    """The product of x and a matrix of integers, each of which stands for scale * (q - zero); so
    many neighbours of a column have one scale and one zero.

    compute_dtype  "int8": x is rounded beforehand, each block of a row to 127 steps of its largest
                   magnitude on either side: elements change by 1/254 of it at most

    Shapes   x [..., k]; q [k, n]; scale and zero [ceil(k / block), n]; result [..., n]. Where
             `transpose`, q is [n, k], scale and zero are [n, ceil(k / block)]
    Types    x and the result float32; q one of WEIGHTS; the scale any float, zero any
             number
    """
    common.one_of(COMPUTE, compute_dtype=compute_dtype)
    cut, n = _checked(x, q, scale, zero, block, transpose)
    lead, made = x.shape[:-1], _Rows(x, cut, compute_dtype)
    words = common.tensor(
        (cut.count, cut.words, n), lambda b, w, j: cut.word(q, b, w, j, transpose), "words"
    )
    digits = common.tensor(
        (cut.count, cut.words, cut.digits, n),
        lambda b, w, e, j: cut.digit(words[b, w, j], e),
        "digits",
    )
    steps = (cut.count, cut.words, cut.digits)
    rows = common.tensor((*lead, *steps), lambda *i: made(*i) * cut.weight(i[-1]), "rows")
    w, e = reduce_axis((0, cut.words), "w"), reduce_axis((0, cut.digits), "e")

    def term(*i: Expr) -> Expr:
        *outer, b, j = i
        return rows[(*outer, b, w.var, e.var)] * digits[b, w.var, e.var, j]

    parts = common.sum_over((*lead, cut.count, n), term, [w, e], "parts")
    return _scaled(cut, parts, made.total(), made.step, scale, zero, transpose, n)


def _scaled(
    cut: _Cut, parts: Tensor, sums: Tensor, step: Tensor | None, scale: Tensor,
    zero: Tensor | None, transpose: bool, n: Expr,
) -> Tensor:  # fmt: skip
    """The sum over all blocks of sums of products, times their scales.

    parts, sums  of products with digits [..., block, column], of rows [..., block]
    """
    b = reduce_axis((0, cut.count), "b")

    def scaled(*i: Expr) -> Expr:
        outer, at = i[:-1], (i[-1], b.var) if transpose else (b.var, i[-1])
        value: Expr = parts[(*outer, b.var, i[-1])]
        total = sums[(*outer, b.var)]
        if zero is not None:
            away = cast("float32", zero[at]) - float(cut.lowest)
            value = cast("float32", value) - cast("float32", total) * away
        elif cut.lowest:
            value = cast("float32", value + total * common.number(cut.lowest, total.dtype))
        times = cast("float32", scale[at])
        return cast("float32", value) * (times if step is None else times * step[(*outer, b.var)])

    return common.sum_over((*parts.shape[:-2], n), scaled, [b], "matmul")


def _run(cut: _Cut) -> int:
    """Words whose products 16 bits hold the sums of: so many divide a block; 0: not of one."""
    most = ((1 << 15) - 1) // (2 * ((1 << cut.bits) - 1) * STEPS)
    of_word = cut.digits // BYTES
    return max([r for r in range(1, cut.words + 1) if cut.words % r == 0 and r * of_word <= most],
               default=0)  # fmt: skip


def _holds_sums(types: Sequence[TensorType | None], attrs: Attrs) -> bool:
    """Whether x may be rounded to bytes, and sums of products with the integers are 16 bits."""
    x, q = both(types)
    cut = _Cut(q.dtype, x.shape[-1], attrs["block"])
    return attrs["compute_dtype"] == "int8" and _run(cut) > 0


@matmul_in_blocks.implements(_holds_sums)
def sums_of_bytes(
    x: Tensor, q: Tensor, scale: Tensor, zero: Tensor | None = None, *, block: int,
    transpose: bool, compute_dtype: str,
) -> Tensor:  # fmt: skip
    """Digits of bytes: a byte of a word has those that are a byte's digits apart in the reduction.

    sums of 16 bits [..., block, run, column, half] of products of bytes
    """
    cut, n = _checked(x, q, scale, zero, block, transpose)
    lead, made, run = x.shape[:-1], _Rows(x, cut, compute_dtype), _run(cut)
    shifts, pair = cut.digits // BYTES, BYTES // 2
    wide = _filled(n)

    def packed(b: Expr, w: Expr, j: Expr, e: Expr) -> Expr:
        value = cut.byte(q, b, w, e, j, transpose)
        return value if wide is n else if_then_else(j < n, value, const(0, "uint8"))

    words = common.tensor((cut.count, cut.words, wide, BYTES), packed, "words")

    def row(*i: Expr) -> Expr:
        *outer, b, k = i
        return cast("int8", made(*outer, b, k // cut.digits, k % cut.digits))

    rows = common.tensor((*lead, cut.count, cut.words * cut.digits), row, "rows")
    w, s, p = (reduce_axis((0, e), v) for e, v in ((run, "w"), (shifts, "s"), (pair, "p")))
    ones = const((1 << cut.bits) - 1, "uint8")

    def term(*i: Expr) -> Expr:
        *outer, b, c, j, h = i
        at, e = c * run + w.var, h * pair + p.var
        byte = call("shift_right", words[b, at, j, e], cast("uint8", s.var * cut.bits))
        digit = cast("int16", call("bitwise_and", byte, ones))
        return digit * cast("int16", rows[(*outer, b, at * cut.digits + (s.var * BYTES + e))])

    runs = cut.words // run
    short = common.sum_over((*lead, cut.count, runs, wide, 2), term, [w, s, p], "short")
    c, h = reduce_axis((0, runs), "c"), reduce_axis((0, 2), "h")

    def whole(*i: Expr) -> Expr:
        *outer, j = i
        return cast("int32", short[(*outer, c.var, j, h.var)])

    parts = common.sum_over((*lead, cut.count, wide), whole, [c, h], "parts")
    k = reduce_axis((0, cut.words * cut.digits), "k")
    sums = common.sum_over(
        (*lead, cut.count), lambda *i: cast("int32", rows[(*i, k.var)]), [k], "sums"
    )
    return _scaled(cut, parts, sums, made.step, scale, zero, transpose, n)


def _filled(n: Expr) -> Expr:
    """Columns, with those that are added so that none is left of a vector or a panel."""
    count = value_of(n)
    if count is None:
        return n
    step = _VECTOR if count <= PANEL else PANEL
    return n if count % step == 0 else const(-(-count // step) * step, n.dtype)


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
    x: Array, q: Array, scale: Array, zero: Array | None = None, *, block: int, transpose: bool,
    compute_dtype: str,
) -> Array:  # fmt: skip
    """numpy's product with the numbers that the integers stand for, in float64."""
    if compute_dtype == "int8":
        x = _rounded(x, block)
    wide = [v.astype(np.float64) for v in (q, scale) + (() if zero is None else (zero,))]
    whole, step, *move = [v.T if transpose else v for v in wide]
    of = np.arange(whole.shape[0]) // block
    numbers = (whole - (move[0][of] if move else 0.0)) * step[of]
    return np.asarray(np.matmul(x.astype(np.float64), numbers).astype(np.float32))


def _rounded(x: Array, block: int) -> Array:
    """Each block of a row rounded to steps of its largest magnitude."""
    depth = x.shape[-1]
    cut = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -depth % block)])
    cut = cut.reshape(*x.shape[:-1], -1, block)
    largest = np.abs(cut).max(axis=-1, keepdims=True)
    inverse = np.where(largest > LEAST, np.float32(STEPS) / np.maximum(largest, LEAST), 0)
    whole = np.rint(cut * inverse) * (largest * np.float32(1.0 / STEPS)).astype(np.float64)
    return np.asarray(whole.reshape(*x.shape[:-1], -1)[..., :depth])
