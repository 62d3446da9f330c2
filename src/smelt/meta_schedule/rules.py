"""The base of rules, and the notes that they leave for postprocessors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

from smelt.tir.schedule import BlockRV, Schedule

from .utils import chosen, threads

PARALLEL, VECTORIZE = "meta_schedule.parallel", "meta_schedule.vectorize"
UNROLL = "meta_schedule.unroll_explicit"
TENSORIZE = "meta_schedule.auto_tensorize"
TILED = "meta_schedule.tiling_structure"
"""Keys of annotations."""


class Configured:
    """What a task tells rules, postprocessors and mutators of itself.

    cores  threads that its program runs on
    """

    context: Any = None

    def initialize_with_tune_context(self, context: Any) -> None:
        """Get to know the task; a class of one's own overrides `_initialize_with_tune_context`."""
        self.context = context
        own = getattr(self, "_initialize_with_tune_context", None)
        if own is not None:
            own(context)

    @property
    def cores(self) -> int:
        """Threads that the program runs on."""
        known = getattr(self.context, "cores", None)
        return int(known) if known else threads()

    def clone(self) -> Self:
        """A copy of its own."""
        return copy.copy(self)


class ScheduleRule(Configured):
    """Turns a schedule, at one block, into designs."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The designs; [sch] where the rule has nothing to say of the block."""
        raise NotImplementedError(f"{type(self).__name__} has no method apply")

    @staticmethod
    def create(kind: str) -> list[ScheduleRule]:
        """The rules of a kind of target: only "llvm" has some. Raises CompileError."""
        return chosen("ScheduleRule.create", RULES_OF, kind)


RULES_OF: dict[str, Callable[[], list[ScheduleRule]]] = {}
"""What makes the rules of a kind of target."""


class PyScheduleRule(ScheduleRule):
    """The base of rules of one's own: override `apply`."""
