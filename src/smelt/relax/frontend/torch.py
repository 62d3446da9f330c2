"""Functions of `smelt.relax_frontend`, which stands above graphs; loaded when first used."""

from __future__ import annotations

import importlib
from typing import Any

NAMES = ("dynamo_capture_subgraphs", "from_exported_program", "from_fx", "relax_dynamo")


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return getattr(importlib.import_module("smelt.relax_frontend"), name)
    known = ", ".join(NAMES)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has: {known}")
