"""What a compiled model gives and needs, as arrays and numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from smelt.cli.console import UsageError
from smelt.runtime import MemoryInfo
from smelt.search.timer import apart

Array = npt.NDArray[Any]


def arrays(result: Any) -> list[Array]:
    """The outputs of a call as numpy arrays."""
    many = result if isinstance(result, tuple) else (result,)
    if any(isinstance(one, list | None) for one in many):
        raise UsageError("a result is a sequence or an absent value: use smelt.compile in Python")
    return [np.asarray(one.numpy() if hasattr(one, "numpy") else one) for one in many]


def largest_error(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """The largest of `errors` of all outputs; infinite where a shape differs."""
    pairs = list(zip(ours, theirs, strict=True))
    if any(a.shape != b.shape for a, b in pairs):
        return float("inf")
    return apart(ours, theirs)


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


def summary_of(names: Sequence[str], values: Sequence[Array]) -> list[dict[str, Any]]:
    """What each output is, for programs: its name, dtype, shape, least, mean and largest value."""
    return [
        {"name": name, "dtype": str(value.dtype), "shape": list(value.shape), **_figures(value)}
        for name, value in zip(names, values, strict=True)
    ]


def summary_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The same for people."""
    table = Table("name", "dtype", "shape", "min", "mean", "max")
    for row in rows:
        name, dtype, shape, *figures = row.values()
        table.add_row(name, dtype, str(shape), *(f"{figure:.6g}" for figure in figures))
    return table


def _figures(value: Array) -> dict[str, float]:
    if not value.size:
        return dict.fromkeys(("min", "mean", "max"), float("nan"))
    wide = value.astype("float64")
    return {"min": float(wide.min()), "mean": float(wide.mean()), "max": float(wide.max())}
