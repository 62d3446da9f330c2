"""Comparisons and small modules."""

from typing import Any

import numpy as np
import pytest

from smelt import relay
from smelt.ir.errors import SmeltError

Array = np.ndarray[Any, Any]


def close(ours: Any, theirs: Array, limit: float = 1e-5) -> None:
    a = np.asarray(ours)
    assert a.shape == theirs.shape
    assert np.abs(a - theirs).max() <= limit * np.abs(theirs).max()


def says(caught: pytest.ExceptionInfo[SmeltError], text: str) -> None:
    assert str(caught.value) == text


def small() -> relay.IRModule:
    """relu(bias_add(conv2d(x, w), b)) * 2."""
    x = relay.var("x", shape=(1, 2, 4, 4))
    w, b = relay.const(np.ones((3, 2, 3, 3), "float32")), relay.const(np.ones(3, "float32"))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w, padding=1), b))
    return relay.IRModule.from_expr(relay.Function([x], y * 2.0))
