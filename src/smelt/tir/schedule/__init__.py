"""Schedules: programs transformed by checked, recorded primitives."""

from .handles import BlockRV, ExprRV, LoopRV
from .schedule import Schedule
from .trace import Instruction, Trace

__all__ = ["BlockRV", "ExprRV", "Instruction", "LoopRV", "Schedule", "Trace"]
