"""Models for microcontrollers: C without a heap, every byte known before, and boards to run it."""

from .board import BOARDS, Board
from .compile import c_target, compile_c, is_c
from .program import program_files
from .session import Session, StepTicks, open_board
from .source import CSource, CTensor
from .transport import ProcessTransport, Transport

__all__ = [
    "BOARDS",
    "Board",
    "CSource",
    "CTensor",
    "ProcessTransport",
    "Session",
    "StepTicks",
    "Transport",
    "c_target",
    "compile_c",
    "is_c",
    "open_board",
    "program_files",
]
