"""Schedules: programs transformed by checked, recorded primitives."""

from smelt.arith.index_map import AXIS_SEPARATOR

from .handles import BlockRV, ExprRV, LoopRV, StmtSRef
from .schedule import Schedule
from .trace import Instruction, InstructionKind, Trace

__all__ = ["AXIS_SEPARATOR", "BlockRV", "ExprRV", "Instruction", "InstructionKind", "LoopRV",
           "Schedule", "StmtSRef", "Trace"]  # fmt: skip
