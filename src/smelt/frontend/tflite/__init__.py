"""TFLite models as graph programs.

mod = from_tflite("model.tflite")
"""

from smelt.ir.tables import import_modules

from .importer import from_tflite, survey
from .read import is_tflite, load

__all__ = ["from_tflite", "is_tflite", "load", "survey"]

import_modules(__name__, __path__, "ops_")  # the converters enter themselves
