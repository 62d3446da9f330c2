"""Builders of operators by their Relax names: `relax.op.add(x, y)`, `relax.op.nn.relu(x)`.

They make calls of the core's operators at once; there is no second set of operators.
"""

from __future__ import annotations

from . import (
    base,
    builtin,
    ccl,
    create,
    dist,
    elementwise,
    grad,
    image,
    index,
    inspect,
    linear_algebra,
    memory,
    nn,
    nn_window,
    shapes,
    statistical,
    vision,
    vm,
)
from .entry import core_name, namespace
from .registry import BUILDERS, builder

distributed = dist

__all__ = ["BUILDERS", "builder", "builtin", "ccl", "core_name", "dist", "distributed", "grad",
           "image", "inspect", "memory", "nn", "vision", "vm"]  # fmt: skip

ROOMS = (base, create, elementwise, index, linear_algebra, nn_window, shapes, statistical)
"""Imported for the builders that they enter."""

__getattr__, __dir__ = namespace("")
