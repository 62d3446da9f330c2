"""Passes on tensor programs by their classic names, where their users look for them.

They stand above the lowering: `smelt.transform.tir`. Names are resolved when they are used.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = "smelt.transform.tir"


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME), name)


def __dir__() -> list[str]:
    return dir(importlib.import_module(_HOME))
