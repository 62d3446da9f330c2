"""Results inside a model, as its description says where they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.errors import LoadError
from smelt.runtime.expression import evaluate

AnyArray = npt.NDArray[Any]


def read_results(
    results: Sequence[Mapping[str, Any]],
    symbols: Mapping[str, int],
    workspace: AnyArray,
    outputs: Sequence[AnyArray],
) -> list[AnyArray]:
    """Copies of one kernel's results. Raises LoadError where they lie outside of the memory.

    results    a kernel's, of the metadata: dtype, shape, strides (elements), offset
               (bytes) in the workspace, or in the output of this number
    workspace  its bytes
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
        size, start = (last + 1) * dtype.itemsize, evaluate(r["offset"], symbols)
        n = r["output"]
        places = [workspace] if n is None else outputs[n : n + 1]
        whole = places[0].reshape(-1).view(np.uint8) if places else np.empty(0, np.uint8)
        if min([start, *steps, *shape]) < 0 or start + size > whole.size:
            raise LoadError(f"a result is said to lie at the bytes {start} to {start + size} of "
                            f"{whole.size}: the metadata are damaged")  # fmt: skip
        raw = whole[start : start + size]
        strides = [s * dtype.itemsize for s in steps]
        seen = np.lib.stride_tricks.as_strided(raw.view(dtype), shape, strides)
        made.append(np.array(seen, order="C"))
    return made
