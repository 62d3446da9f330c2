"""PyTorch models: exported to ONNX by torch itself, as they are, and imported from there."""

from .export import to_onnx

__all__ = ["to_onnx"]
