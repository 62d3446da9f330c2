"""What the command line needs of a compiled model and of what it returns."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Tensor(Protocol):
    """An input or output of a model; a dimension of no fixed size is not an int."""

    @property
    def name(self) -> str:
        """The name that the model file gave it."""

    @property
    def dtype(self) -> object:
        """Its element type; the text of it is numpy's name."""

    @property
    def shape(self) -> Sequence[object]:
        """Its dimensions."""


class Memory(Protocol):
    """The bytes that one run of a model needs."""

    @property
    def planned_bytes(self) -> int:
        """The workspace of a call."""

    @property
    def live_bytes(self) -> int:
        """The most that is alive at once: no plan can need less."""

    @property
    def weights_bytes(self) -> int:
        """The packed weights."""


class Profile(Protocol):
    """Time per kernel."""

    def table(self) -> str:
        """For people."""

    def json(self) -> str:
        """For programs."""


class Executable(Protocol):
    """A compiled model."""

    @property
    def inputs(self) -> Sequence[Tensor]:
        """What it takes, in order."""

    @property
    def outputs(self) -> Sequence[Tensor]:
        """What it gives, in order."""

    @property
    def memory(self) -> Memory:
        """What a call needs."""

    def __call__(self, *inputs: Array) -> Any:
        """One output, or a tuple of several."""

    def profile(self, *inputs: Array) -> Profile:
        """Time every kernel."""

    def export_library(self, path: str) -> object:
        """Write a shared library."""


def arrays(result: Any) -> list[Array]:
    """The outputs of a call as numpy arrays."""
    many = result if isinstance(result, tuple) else (result,)
    return [np.asarray(one.numpy()) for one in many]


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
