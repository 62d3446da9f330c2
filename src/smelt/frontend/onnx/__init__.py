"""ONNX models as graph programs.

mod = from_onnx("resnet18.onnx", {"x": ("batch", 3, 224, 224)})
"""

from .importer import from_onnx

__all__ = ["from_onnx"]
