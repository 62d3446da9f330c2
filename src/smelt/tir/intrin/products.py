"""What processors offer for sums of products of bytes: instructions by how many bytes they take."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from . import dsp, mve_bytes
from .registry import Instruction


class Arithmetic(NamedTuple):
    """What computes with LANES int32.

    binary  by the class of an expression, or what is called
    same    a constant in all lanes
    wider   bytes in lanes, by their type
    column  every fourth int32
    narrow  the lowest bytes, as int8
    """

    binary: Mapping[str, Instruction]
    same: Instruction
    wider: Mapping[str, Instruction]
    column: Instruction
    narrow: Instruction


WIDE = 16
"""Sums side by side in several registers."""


class Wide(NamedTuple):
    """Sums side by side in several registers, of int8 without a zero point: WIDE of them, in an
    order that the three agree on."""

    each: Instruction
    zeros: Instruction
    settled: Instruction


class Products(NamedTuple):
    """Instructions for loops over bytes; `lowering.dot_products` has the loops.

    dots     r[0] = c[0] + the sum of (a[k] - zero) * b[k], by the type of a and the length
    plain    the same of int8 without a zero point, where that is longer
    pairs    two sums with one b, by the type of a
    each     r[k] = c[k] + (a[k] - zero) * b[k], LANES of them, by the type of a
    wide_b   the same with b of 16 bits, at a multiple of 4 bytes
    zeros    LANES zeros, where `each` has its sums in one register
    settled  what `requantize_sums` makes of LANES sums; in registers of their own, and in one
    four     r[j] = c[j] + the sum of a[k] * b[n * j + k] of the longest `plain`, n bytes
    wide     what takes several registers of sums
    copies   r[k] = a[k] of int8, by how many
    lanes    what computes with sums side by side
    turns    so many calls of a kind in a turn of a loop at most
    """

    dots: Mapping[str, Mapping[int, Instruction]]
    plain: Mapping[int, Instruction]
    pairs: Mapping[str, Instruction]
    each: Mapping[str, Instruction]
    zeros: Instruction | None = None
    settled: tuple[Instruction, ...] = ()
    four: Instruction | None = None
    wide: Wide | None = None
    copies: Mapping[int, Instruction] | None = None
    lanes: Arithmetic | None = None
    turns: int = 1
    wide_b: Mapping[str, Instruction] | None = None

    @property
    def sums(self) -> frozenset[str]:
        """The names of what makes sums of several products."""
        every = [*self.plain.values(), *self.pairs.values()]
        every += [self.four] if self.four is not None else []
        every += [i for kinds in self.dots.values() for i in kinds.values()]
        return frozenset([i.name for i in every])

    @property
    def taps(self) -> frozenset[str]:
        """The names of what adds products to sums side by side."""
        every = [*(self.wide_b or self.each).values()]
        every += [self.wide.each] if self.wide is not None else []
        return frozenset([i.name for i in every])

    def lengths(self, kind: str, zero: int) -> Mapping[int, Instruction]:
        """Sums of a type, by how many bytes they take."""
        return self.plain if self.plain and kind == "int8" and zero == 0 else self.dots[kind]


_DOTS = {kind: {dsp.LANES: made} for kind, made in dsp.DOT.items()}
DSP = Products(_DOTS, {}, dsp.PAIR, dsp.EACH, turns=2, wide_b=dsp.EACH_WIDE)
HELIUM = Products(
    mve_bytes.FROM, mve_bytes.DOT, {}, mve_bytes.EACH, mve_bytes.ZEROS, mve_bytes.SETTLED,
    mve_bytes.FOUR, Wide(mve_bytes.WIDE, mve_bytes.WIDE_ZEROS, mve_bytes.WIDE_SETTLED),
    mve_bytes.COPY,
    Arithmetic(mve_bytes.ARITHMETIC, mve_bytes.SAME, mve_bytes.WIDER, mve_bytes.COLUMN,
               mve_bytes.NARROW),
    turns=8,
)  # fmt: skip


def products_of(features: Collection[str]) -> Products | None:
    """The best that a processor with some features offers."""
    return HELIUM if "mve" in features else DSP if "dsp" in features else None
