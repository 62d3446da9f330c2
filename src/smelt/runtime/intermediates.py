"""Results inside a model, where it was compiled to keep them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.expression import evaluate

__all__ = ["read_results"]

AnyArray = npt.NDArray[Any]


def read_results(
    results: Sequence[Mapping[str, Any]],
    symbols: Mapping[str, int],
    workspace: int,
    outputs: Sequence[AnyArray],
) -> list[AnyArray]:
    """Copies of one kernel's results.

    results    the entry of metadata["intermediates"]: dtype, shape, strides (elements), offset
               (bytes) in the workspace, or in the output of this number
    workspace  address
    """
    made = []
    for r in results:
        dtype = numpy_dtype(r["dtype"])
        shape = tuple([evaluate(e, symbols) for e in r["shape"]])
        steps = [evaluate(e, symbols) for e in r["strides"]]
        if 0 in shape:
            made.append(np.empty(shape, dtype))
            continue
        last = sum((e - 1) * s for e, s in zip(shape, steps, strict=True))
        size = (last + 1) * dtype.itemsize
        if r["output"] is None:
            start = workspace + evaluate(r["offset"], symbols)
            raw = np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(start)), np.uint8)
        else:
            raw = outputs[r["output"]].reshape(-1).view(np.uint8)[:size]
        strides = [s * dtype.itemsize for s in steps]
        seen = np.lib.stride_tricks.as_strided(raw.view(dtype), shape, strides)
        made.append(np.array(seen, order="C"))
    return made
