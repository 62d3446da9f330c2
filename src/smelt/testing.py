"""Help for tests of programs, under its classic name."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise an AssertionError where arrays (numpy, NDArray, numbers) differ in shape or values."""
    ours, theirs = np.asarray(actual), np.asarray(desired)
    np.testing.assert_allclose(ours.shape, theirs.shape)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)
