"""Classic names for running compiled models."""

from __future__ import annotations

import importlib
from typing import Any

_OLDER = {"graph_runtime": "graph_executor"}
"""Older names of modules."""
_ROOMS = ("cc", "debug_executor", "graph_executor", "ndk", "tar", "target", "utils")


def __getattr__(name: str) -> Any:
    """The modules by name, also by their older ones."""
    if name in _OLDER or name in _ROOMS:
        return importlib.import_module(f"{__name__}.{_OLDER.get(name, name)}")
    if not name.startswith("_"):
        absent = importlib.import_module("smelt.ir.absent")
        if absent.is_absent(f"contrib.{name}"):
            absent.refuse_module(f"contrib.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
