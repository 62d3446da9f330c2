"""Comparisons and small modules."""

from typing import Any

import numpy as np
import pytest

from smelt import relay
from smelt.ir.errors import SmeltError
from smelt.relax.nodes import call, constant

Array = np.ndarray[Any, Any]


def close(ours: Any, theirs: Array, limit: float = 1e-5) -> None:
    a = np.asarray(ours)
    assert a.shape == theirs.shape
    assert np.abs(a - theirs).max() <= limit * np.abs(theirs).max()


def says(caught: pytest.ExceptionInfo[SmeltError], text: str) -> None:
    assert str(caught.value) == text


def small() -> relay.IRModule:
    """relu(conv2d(x, w) + b) * 2."""
    x = relay.var("x", shape=(1, 2, 4, 4))
    w = constant(np.ones((3, 2, 3, 3), "float32"), "w")
    b = constant(np.ones((3, 1, 1), "float32"), "b")
    y = call("relu", call("add", call("conv2d", x, w, pads=(1, 1, 1, 1)), b))
    two = constant(np.array(2, "float32"))
    return relay.IRModule({"main": relay.Function((x,), call("multiply", y, two))})
