"""Default schedules for processors with vector registers and caches: see `program`."""

from __future__ import annotations

from smelt.target import Machine
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule

from .program import SKETCHES, UNTILED, Part, Plan, Scheduled, apply, plan

__all__ = ["SKETCHES", "UNTILED", "Part", "Plan", "Scheduled", "apply", "plan", "schedule"]


def schedule(func: PrimFunc, machine: Machine, constants: frozenset[str] = frozenset()) -> Schedule:
    """The default schedule of a fused group: the cheapest that a sketch has for it.

    constants  names of parameters whose values are known at compile time, so that they may be
               laid out anew

    Raises InternalError where it cannot be built.
    """
    return apply(plan(func, machine, constants), strict=True).schedule
