"""Default schedules for processors with vector registers and caches.

`schedule` looks at a fused group's blocks and tries the rules that may fit, the best first; a rule
that does not fit says so, and the next one starts from the unscheduled program again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from smelt.ir.errors import ScheduleError
from smelt.target import Machine
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule

from .analysis import block_info
from .elementwise import schedule_elementwise
from .fallback import has_steps, is_contraction, schedule_blocks, schedule_fallback, schedule_steps
from .reduce import schedule_reduce
from .rows import schedule_rows
from .window import is_window, schedule_windows

__all__ = ["schedule"]

Rule = Callable[[Schedule, Machine], bool]


def schedule(func: PrimFunc, machine: Machine, constants: frozenset[str] = frozenset()) -> Schedule:
    """The default schedule of a fused group.

    constants  names of parameters whose values are known at compile time, so that they may be
               laid out anew
    """
    for rule in _rules(func, constants):
        sch = Schedule(func)
        try:
            if rule(sch, machine):
                return sch
        except ScheduleError:
            continue
    return Schedule(func)


def _rules(func: PrimFunc, constants: frozenset[str]) -> list[Rule]:
    """The rules that may fit, the best first."""
    sch = Schedule(func)
    if has_steps(sch):
        return [partial(schedule_steps, constants=constants), schedule_fallback]
    reductions = [b for b in sch.get_child_blocks("root") if block_info(sch, b).is_reduction]
    if not reductions:
        return [schedule_elementwise, schedule_fallback]

    rules: list[Rule] = []
    if any(is_contraction(block_info(sch, b)) for b in reductions):
        rules.append(partial(schedule_blocks, constants=constants))
    if len(reductions) == 1:
        if is_window(sch, reductions[0]):
            rules.append(partial(schedule_windows, constants=constants))
        rules.append(schedule_reduce)
    return [*rules, schedule_rows, schedule_fallback]
