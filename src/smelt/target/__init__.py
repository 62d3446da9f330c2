"""What code is compiled for: `Target` and the hardware behind it."""

from .hardware import Hardware, hardware_of
from .target import Target, TargetKind

__all__ = ["Hardware", "Target", "TargetKind", "hardware_of"]
