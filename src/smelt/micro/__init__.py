"""Models for microcontrollers: C without a heap, every byte known before."""

from .compile import c_target, compile_c, is_c, with_cmsis_nn
from .source import CSource, CTensor

__all__ = ["CSource", "CTensor", "c_target", "compile_c", "is_c", "with_cmsis_nn"]
