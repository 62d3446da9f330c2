"""A group of stages that are computed at one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smelt.te.tensor import Operation

from .call import MethodCall, listed
from .stage import Stage

if TYPE_CHECKING:
    from .schedule import Schedule


class GroupStage(Stage):
    """Stages with one place: `compute_at` is about all of them that have no place of their own.

    A group has no operation and no axes, so that nothing else can be asked of it.
    """

    def __init__(self, schedule: Schedule, members: Sequence[Stage], group: Stage | None) -> None:
        """Take the members out of the group that they are in, and stand there for them."""
        super().__init__(schedule, None, f"group of {', '.join([m.name for m in members])}")
        self.group = group
        for m in members:
            m.group = self

    @property
    def members(self) -> list[Stage]:
        """The stages and groups directly in this group."""
        both = [*self.schedule.stages, *self.schedule.groups]
        return [x for x in both if x.group is self]

    def stages(self) -> list[Stage]:
        """The stages in this group and in groups inside it."""
        out = []
        for m in self.members:
            out += m.stages() if isinstance(m, GroupStage) else [m]
        return out

    @property
    def op(self) -> Any:
        """A group has none: this is an error."""
        return MethodCall(repr(self), "op").fail(
            "a group has no operation", "that of one of its stages"
        )

    def __repr__(self) -> str:
        return f"({self.name})"

    def _call(self, name: str, *args: Any, **options: Any) -> MethodCall:
        call = super()._call(name, *args, **options)
        if name not in ("compute_at", "compute_root"):
            call.fail("a group has no operation and no axes of its own",
                      "compute_at, compute_root; anything else of one of its stages")  # fmt: skip
        return call

    def _check_moves(self, call: MethodCall) -> None:
        for m in self.stages():
            m._check_moves(call)

    def _check_parent(self, call: MethodCall, parent: Stage) -> None:
        inside = self.stages()
        if any(m is parent for m in inside):
            call.fail(f"{parent.name} is one of the group", "a stage that uses the group's results")
        if not any(self.schedule.needs(parent, m) for m in inside):
            call.fail(f"{parent.name} uses no result of {listed([m.name for m in inside])}")


def between(
    schedule: Schedule, outputs: Sequence[Stage], inputs: Sequence[Stage], include_inputs: bool
) -> list[Stage]:
    """The stages on the ways from some stages to others, producers first."""
    reaches: dict[Operation, bool] = {s.op: True for s in inputs}
    found: list[Stage] = list(inputs) if include_inputs else []
    stack = [(s, False) for s in outputs]
    while stack:
        stage, ready = stack.pop()
        if ready:
            reaches[stage.op] = any(reaches[p.op] for p in schedule.producers(stage))
            if reaches[stage.op]:
                found.append(stage)
        elif stage.op not in reaches:
            reaches[stage.op] = False
            stack.append((stage, True))
            stack += [(p, False) for p in schedule.producers(stage) if p.op not in reaches]
    return found


def whole_groups(stages: Sequence[Stage]) -> list[Stage]:
    """The stages, with a group in the place of its members where all of them are there."""
    out: dict[Stage, None] = {}
    for x in stages:
        unit = x
        while isinstance(unit.group, GroupStage) and set(unit.group.stages()) <= set(stages):
            unit = unit.group
        out[unit] = None
    return list(out)
