"""What a compiled model gives and needs, as arrays and numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.cli.console import UsageError
from smelt.runtime import MemoryInfo

Array = npt.NDArray[Any]


def arrays(result: Any) -> list[Array]:
    """The outputs of a call as numpy arrays."""
    many = result if isinstance(result, tuple) else (result,)
    if any(isinstance(one, list | None) for one in many):
        raise UsageError("a result is a sequence or an absent value: use smelt.compile in Python")
    return [np.asarray(one.numpy() if hasattr(one, "numpy") else one) for one in many]


def largest_error(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """max |a - b| / max |b|, of all outputs; infinite where a shape differs or a nan appears."""
    errors = [0.0]
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape:
            return float("inf")
        if b.size:
            a, b = a.astype(np.float64), b.astype(np.float64)
            difference, scale = float(np.abs(a - b).max()), float(np.abs(b).max())
            errors.append(difference / scale if scale else difference)
    return float("inf") if np.isnan(errors).any() else max(errors)


def memory_bytes(memory: MemoryInfo) -> dict[str, int | None]:
    """What a call needs, for programs: None where it depends on sizes.

    planned_bytes  the workspace
    live_bytes     the most that is alive at once: no plan can need less
    weights_bytes  the packed weights
    """
    return {
        "planned_bytes": memory.workspace,
        "live_bytes": memory.live,
        "weights_bytes": memory.weights,
    }
