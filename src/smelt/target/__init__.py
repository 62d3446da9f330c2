"""What code is compiled for: `Target` and the machine behind it."""

from .machine import Cache, Machine, machine_of
from .machine_text import machine_text
from .target import Target, TargetKind

create = Target
"""The oldest way to make a target."""
list_tags = Target.list_tags

__all__ = [
    "Cache",
    "Machine",
    "Target",
    "TargetKind",
    "create",
    "list_tags",
    "machine_of",
    "machine_text",
]
