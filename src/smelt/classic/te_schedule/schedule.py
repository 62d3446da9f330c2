"""The classic schedule: one stage an operation, and the rewriting of operations."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from smelt.ir.errors import ScheduleError
from smelt.ir.node import reachable
from smelt.te.tensor import Operation, PlaceholderOp, Tensor, topological
from smelt.tir.nodes import IterVar

from . import dataflow
from .call import MethodCall, listed
from .group import GroupStage, between, whole_groups
from .stage import Attachment, Stage, Treatment


def create_schedule(ops: Operation | Tensor | Sequence[Operation | Tensor]) -> Schedule:
    """A schedule that computes some operations; nothing is said yet about how.

    ops  the operations (or tensors) whose results are wanted
    """
    return Schedule(list(ops) if isinstance(ops, list | tuple) else [ops])


class Schedule:
    """How tensors are computed: s[C] is the stage of a tensor or of its operation.

    stages   producers first, placeholders included
    groups   what `create_group` has made
    """

    def __init__(self, ops: Sequence[Any]) -> None:
        """One stage for each operation behind some operations."""
        wanted = [op.op if isinstance(op, Tensor) else op for op in ops]
        for op in wanted:
            if not isinstance(op, Operation):
                raise ScheduleError(
                    f"create_schedule: {type(op).__name__} is no operation\n"
                    "  legal: C.op of a tensor C, or a list of these"
                )
        self.stages: list[Stage] = []
        self.groups: list[GroupStage] = []
        self._by_tensor: dict[Tensor, Stage] = {}
        self._by_op: dict[Operation, Stage] = {}
        for op in topological([op.outputs[0] for op in wanted]):
            self.add(Stage(self, op, op.name))
        self.output_stages = [self._by_op[op] for op in dict.fromkeys(wanted)]

    def __repr__(self) -> str:
        return "s"

    # ------------------------------------------------------------------------------- queries

    def __getitem__(self, key: Any) -> Stage:
        """The stage of a tensor or of an operation, also of one that has been rewritten since."""
        found = self._by_tensor.get(key) if isinstance(key, Tensor) else None
        if isinstance(key, Operation):
            found = self._by_op.get(key)
        if found is None:
            what = key.name if isinstance(key, Tensor | Operation) else repr(key)
            names = ", ".join([x.name for x in self.stages])
            raise ScheduleError(f"s[{what}]: there is no such stage\n  legal: one of {names}")
        return found

    @property
    def outputs(self) -> list[Any]:
        """The operations whose results are wanted."""
        return [x.op for x in self.output_stages]

    def producers(self, stage: Stage) -> list[Stage]:
        """The stages whose results one reads."""
        return list(dict.fromkeys([self._by_tensor[t] for t in stage.op.inputs]))

    def consumers(self, stage: Stage) -> list[Stage]:
        """The stages that read the results of one."""
        made = set(stage.op.outputs)
        return [x for x in self.stages if made.intersection(x.op.inputs)]

    def needs(self, user: Stage, used: Stage) -> bool:
        """Whether a stage reads the results of another one, at first or at second hand."""
        return used in reachable([user], self.producers)

    # ------------------------------------------------------------------------------- stages

    def add(self, stage: Stage, after: Stage | None = None, before: Stage | None = None) -> Stage:
        """Take up a new stage: behind one, before one, or as the last one."""
        place = len(self.stages)
        if after is not None:
            place = self.stages.index(after) + 1
        elif before is not None:
            place = self.stages.index(before)
        self.stages.insert(place, stage)
        self.register(stage)
        return stage

    def register(self, stage: Stage) -> None:
        """Let a stage be found by its operation and by what that makes."""
        self._by_op[stage.op] = stage
        for t in stage.op.outputs:
            self._by_tensor[t] = stage

    def normalize(self) -> Schedule:
        """A copy: axes start at their first value here in any case."""
        return self.copy()

    def copy(self) -> Schedule:
        """An independent schedule that says the same about the same operations."""
        other = copy(self)
        new: dict[Stage, Stage] = {}
        for x in [*self.stages, *self.groups]:
            y = new[x] = copy(x)
            y.schedule, y.leaf_iter_vars, y.steps = other, list(x.leaf_iter_vars), list(x.steps)
            y.layouts, y.aligned = list(x.layouts), list(x.aligned)
            y.treatments = {a: _copied(t) for a, t in x.treatments.items()}
        for y in new.values():
            y.group = None if y.group is None else new[y.group]
            at = y.attachment
            if at.parent is not None:
                y.attachment = Attachment(at.kind, at.call, new[at.parent], at.axis)
        other.stages = [new[x] for x in self.stages]
        other.groups = [g for g in map(new.__getitem__, self.groups) if isinstance(g, GroupStage)]
        other.output_stages = [new[x] for x in self.output_stages]
        other._by_tensor = {t: new[x] for t, x in self._by_tensor.items()}
        other._by_op = {op: new[x] for op, x in self._by_op.items()}
        return other

    def create_group(
        self,
        outputs: Tensor | Sequence[Tensor],
        inputs: Tensor | Sequence[Tensor],
        include_inputs: bool = False,
    ) -> GroupStage:
        """A group of all stages from `inputs` to `outputs`, to be computed at one place.

        include_inputs  whether the stages of the inputs belong to it too
        """
        ends, starts = _several(outputs), _several(inputs)
        call = MethodCall("s", "create_group", ends, starts, include_inputs=include_inputs)
        found = between(self, [self[t] for t in ends], [self[t] for t in starts], include_inputs)
        if not found:
            call.fail(f"no stage leads from {listed(starts)} to {listed(ends)}")
        given = [x.name for x in found if isinstance(x.op, PlaceholderOp)]
        if given:
            call.fail(f"{listed(given)} is given, not computed", "include_inputs=False")
        units = whole_groups(found)
        for x in units:
            if x.group is not units[0].group:
                call.fail(
                    f"{units[0].name} and {x.name} stand in different groups",
                    "stages and whole groups that stand in the same group, or in none",
                )
        group = GroupStage(self, units, units[0].group)
        self.groups.append(group)
        return group

    # ------------------------------------------------------------------------------- rewriting

    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """A copy of a tensor in another kind of memory, which `readers` read from now on."""
        return dataflow.cache_read(self, tensor, scope, _several(readers))

    def cache_write(self, tensor: Any, scope: str) -> Any:
        """Compute a tensor in another kind of memory; its own stage copies the result.

        tensor  or all results of one operation; then a list of tensors is returned

        The new stage has the reduction, and axes of its own. Where the axes of the tensor have been
        split, fused or reordered before, it is the leaves that become its dimensions: the result is
        kept in the order of the loops.
        """
        made = dataflow.cache_write(self, _several(tensor), scope)
        return made if isinstance(tensor, list | tuple) else made[0]

    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Any:
        """Reduce each iteration of a reduction axis apart, in a new stage before the tensor's.

        axis         a reduction leaf of the tensor's stage; it becomes a dimension of the result
        factor_axis  the place of that dimension; negative from the end

        Returns the partial results; a list of tensors where the operation has several.
        """
        made = dataflow.rfactor(self, tensor, axis, factor_axis)
        return made[0] if len(made) == 1 else made


def _copied(t: Treatment) -> Treatment:
    return Treatment(t.kind, t.thread, t.call, dict(t.pragmas), t.intrin)


def _several(x: Any) -> list[Any]:
    return list(x) if isinstance(x, list | tuple) else [x]
