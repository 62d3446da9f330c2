"""ONNX models as graph programs.

mod = from_onnx("resnet18.onnx", {"x": ("batch", 3, 224, 224)})
"""

from smelt.frontend.common import NeedsValues
from smelt.frontend.common.survey import Survey
from smelt.ir.tables import import_modules

from .importer import from_onnx
from .read import load
from .survey import survey

__all__ = ["NeedsValues", "Survey", "from_onnx", "load", "survey"]

import_modules(__name__, __path__, "ops_")  # the converters enter themselves
