"""The instructions for sums of products of bytes, and what follows them."""

from __future__ import annotations

from smelt.tir.intrin import dsp, mve_bytes

DSP = [*dsp.DOT.values(), *dsp.PAIR.values(), *dsp.EACH.values(), *dsp.EACH_WIDE.values()]
HELIUM = [
    *mve_bytes.DOT.values(), *[i for kinds in mve_bytes.FROM.values() for i in kinds.values()],
    *mve_bytes.EACH.values(), *mve_bytes.SETTLED, *mve_bytes.COPY.values(),
    *mve_bytes.ARITHMETIC.values(), *mve_bytes.WIDER.values(), mve_bytes.FOUR, mve_bytes.WIDE,
    mve_bytes.ZEROS, mve_bytes.WIDE_ZEROS, mve_bytes.WIDE_SETTLED, mve_bytes.SAME,
    mve_bytes.COLUMN, mve_bytes.NARROW,
]  # fmt: skip
