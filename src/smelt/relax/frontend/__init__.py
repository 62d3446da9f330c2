"""Trained models as graph programs, by Relax's names: `relax.frontend.onnx.from_onnx(model)`."""

from __future__ import annotations

import importlib
from typing import Any

from . import onnx, torch

__all__ = ["detach_params", "onnx", "torch"]


def __getattr__(name: str) -> Any:
    if name == "detach_params":
        return importlib.import_module("smelt.relax_frontend").detach_params
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
