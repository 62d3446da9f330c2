"""Trained models as graph programs, by Relax's names: `relax.frontend.onnx.from_onnx(model)`."""

from __future__ import annotations

from smelt.ir.tables import names_above

from . import onnx, tflite, torch

__all__ = ["detach_params", "onnx", "tflite", "torch"]

__getattr__ = names_above(__name__, {"detach_params": "smelt.relax_frontend"})
