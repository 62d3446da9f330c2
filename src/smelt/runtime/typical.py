"""Inputs of a model that nobody gave: sizes that leave something of every extent, and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .dtypes import numpy_dtype
from .executable import Executable
from .expression import evaluate
from .signature import TensorInfo

MOST_SIZE = 1024
"""Where no larger size is tried, though an extent inside the model is still negative."""


def typical_sizes(exe: Executable, known: Mapping[str, int]) -> dict[str, int]:
    """The symbolic sizes of a model that are not known: the least, or the least power of two, that
    leave something of every extent."""
    symbols = [e for i in exe.inputs for e in i.shape if isinstance(e, str)]
    ranges = exe.metadata.get("size_ranges", {})
    chosen = {
        n: max(1, ranges.get(n, [1])[0] or 0)
        for n in dict.fromkeys(symbols)
        if n not in known and n.isidentifier()
    }
    least = exe.metadata.get("size_least", [])
    while (
        chosen
        and max(chosen.values()) < MOST_SIZE
        and any(evaluate(extent, {**known, **chosen}) < 1 for extent, _ in least)
    ):
        chosen = {n: 2 * v for n, v in chosen.items()}
    return chosen


def likely_sizes(exe: Executable) -> list[dict[str, int]]:
    """The sizes that a model has code of its own for; without any, no sizes."""
    variants: Any = exe.metadata.get("variants")
    return [{n: v for n, v in sizes.items() if isinstance(v, int)} for sizes in variants or [{}]]


def random_arrays(
    tensors: Sequence[TensorInfo], sizes: Mapping[str, int], seed: int = 0
) -> list[Any]:
    """Reproducible inputs: normal floats; 0 or 1 as integers, which masks and tables allow.

    sizes  values of symbolic sizes. Raises LoadError where they leave one open.
    """
    random = np.random.default_rng(seed)
    made = []
    for tensor in tensors:
        shape = [evaluate(size, sizes) for size in tensor.shape]
        dtype = numpy_dtype(tensor.dtype)
        if dtype.kind in "iub":
            made.append(random.integers(0, 2, shape).astype(dtype))
        else:
            made.append(random.standard_normal(shape, np.float32).astype(dtype))
    return made
