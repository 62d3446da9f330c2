"""How measurements end, in the numbers that AutoTVM and AutoScheduler have for it."""

from __future__ import annotations

from enum import IntEnum

from .record import ErrorCode


class MeasureErrorNo(IntEnum):
    """How a measurement ended, in the classic numbers."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


CODES = {
    ErrorCode.OK: MeasureErrorNo.NO_ERROR,
    ErrorCode.SCHEDULE: MeasureErrorNo.INSTANTIATION_ERROR,
    ErrorCode.COMPILE: MeasureErrorNo.COMPILE_HOST,
    ErrorCode.CRASH: MeasureErrorNo.RUNTIME_DEVICE,
    ErrorCode.TIMEOUT: MeasureErrorNo.RUN_TIMEOUT,
    ErrorCode.RUNTIME: MeasureErrorNo.RUNTIME_DEVICE,
    ErrorCode.WRONG: MeasureErrorNo.WRONG_ANSWER,
}
"""The engine's codes as classic ones."""
