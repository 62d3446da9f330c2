"""The old place of `relax.build` and `relax.VirtualMachine`."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("VirtualMachine", "build"):
        return getattr(importlib.import_module("smelt.relax_build"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
