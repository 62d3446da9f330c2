"""Quantization of trained models: ranges from samples, integers in the graph, a report."""

from .api import quantize
from .report import LayerReport, Report
from .run import Quantized, prepare, quantize_module
from .samples import Data, Samples
from .settings import Settings

__all__ = ["Data", "LayerReport", "Quantized", "Report", "Samples", "Settings", "prepare",
           "quantize", "quantize_module"]  # fmt: skip
