"""ONNX models as graph programs.

mod = from_onnx("resnet18.onnx", {"x": ("batch", 3, 224, 224)})
"""

from .build import NeedsValues
from .importer import from_onnx
from .read import load

__all__ = ["NeedsValues", "from_onnx", "load"]
