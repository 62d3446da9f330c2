"""PyTorch models: exported to ONNX by torch itself, and imported from there."""

from .export import ExportedProgram, ONNXProgram, as_onnx, load_program, to_onnx

__all__ = ["ExportedProgram", "ONNXProgram", "as_onnx", "load_program", "to_onnx"]
