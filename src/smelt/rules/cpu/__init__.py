"""Default schedules for processors with vector registers and caches."""

from __future__ import annotations

from collections.abc import Callable

from smelt.ir.errors import ScheduleError
from smelt.target import Hardware
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule

from .analysis import block_info
from .contraction import schedule_contraction
from .elementwise import inline_blocks, schedule_elementwise
from .fallback import schedule_fallback
from .window import is_window, schedule_windows

__all__ = ["schedule"]

Rule = Callable[[Schedule, Hardware], bool]


def schedule(func: PrimFunc, hardware: Hardware, constants: frozenset[str] = frozenset()) -> Schedule:
    """The default schedule of a fused group.

    constants  names of parameters whose values are known at compile time, so that they may be
               laid out anew
    """
    for rule in _rules(func, hardware, constants):
        sch = Schedule(func)
        try:
            if rule(sch, hardware):
                return sch
        except ScheduleError:
            continue
    return Schedule(func)


def _rules(func: PrimFunc, hardware: Hardware, constants: frozenset[str]) -> list[Rule]:
    """The rules that may fit, the best first."""
    sch = Schedule(func)
    blocks = sch.get_child_blocks("root")
    reductions = [b for b in blocks if block_info(sch, b).is_reduction]
    if not reductions:
        return [schedule_elementwise, schedule_fallback]

    def one_contraction(s: Schedule, h: Hardware) -> bool:
        return _contraction(s, h, reductions[0], constants)

    def window(s: Schedule, h: Hardware) -> bool:
        return schedule_windows(s, h, constants)

    if len(reductions) == 1:
        windows: list[Rule] = [window] if is_window(sch, reductions[0]) else []
        if block_info(sch, reductions[0]).product() is not None:
            return [one_contraction, *windows, schedule_fallback]
        return [*windows, schedule_fallback]
    return [schedule_fallback]


def _contraction(sch: Schedule, hardware: Hardware, name: str, constants: frozenset[str]) -> bool:
    """A contraction with what is before it inlined, and what is behind it as one epilogue."""
    inline_blocks(sch)
    blocks = sch.get_child_blocks("root")
    behind = blocks[blocks.index(name) + 1 :]
    if blocks.index(name) or len(behind) > 1:
        return False
    return schedule_contraction(sch, name, behind[0] if behind else None, hardware, constants)
