"""What code is compiled for: `Target` and the machine behind it."""

from .boards import (
    adreno,
    arm_cpu,
    bifrost,
    cuda,
    hexagon,
    intel_graphics,
    mali,
    micro,
    rasp,
    riscv_cpu,
    rocm,
    stm32,
    vta,
)
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
    "adreno",
    "arm_cpu",
    "bifrost",
    "create",
    "cuda",
    "hexagon",
    "intel_graphics",
    "list_tags",
    "machine_of",
    "machine_text",
    "mali",
    "micro",
    "rasp",
    "riscv_cpu",
    "rocm",
    "stm32",
    "vta",
]
