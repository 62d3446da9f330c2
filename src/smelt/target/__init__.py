"""What code is compiled for: `Target` and the hardware behind it."""

from .hardware import Hardware, hardware_of
from .target import Target, TargetKind

create = Target
"""The oldest way to make a target."""
list_tags = Target.list_tags

__all__ = ["Hardware", "Target", "TargetKind", "create", "hardware_of", "list_tags"]
