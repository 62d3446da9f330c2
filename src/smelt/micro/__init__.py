"""Models for microcontrollers: C without a heap, every byte known before."""

from .compile import compile_c
from .source import CSource

__all__ = ["CSource", "compile_c"]
