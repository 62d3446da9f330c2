"""How much is computed while compiling: one rule for every place that does.

A file of a few bytes may describe arrays of any size. What is more than these bounds is left to a
kernel, which fills it when the model runs.
"""

from __future__ import annotations

MOST = 64 << 20
"""Bytes that the result of a folded call may have."""

TINY = 16 << 10
"""Bytes up to which a result may be any larger than its operands."""

GROWTH = 4
"""How many times the bytes of its operands a larger result may have."""

GROWN = 1 << 30
"""Bytes by which all folded results of a function together may exceed their operands."""

KNOWN = 16 << 20
"""Bytes of an array that is made from a few numbers while a model is imported."""

SPREAD = 1 << 16
"""Elements of a constant that is known as an array after it was repeated."""

WORK = 1 << 32
"""Multiplications, roughly, of a product of constants that is computed."""

NESTED = 64
"""Functions of a model inside each other."""

WRITTEN_OUT = 1 << 16
"""Nodes of functions, branches and loops that are written out."""

MOST_ITERATIONS = 4096
"""Turns of a loop, or parts of a tensor, that are written out one by one."""

DIMENSIONS = 32
"""Dimensions of a tensor."""

ADDRESSABLE = 1 << 47
"""Bytes that a process can address on the machines there are."""


def worth_computing(made: int, given: int, most: int = MOST) -> bool:
    """Whether a result of `made` bytes is computed from constants of `given` bytes."""
    return made <= most and (made <= TINY or made <= GROWTH * given)


def worth_knowing(made: int) -> bool:
    """Whether an importer makes an array of so many bytes from attributes and sizes alone."""
    return made <= KNOWN
