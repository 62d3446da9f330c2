"""From tasks of this face to a session of the search engine, and back: it searches nothing itself.

TuneContext ──▶ engine Task(TaskSpace) ──▶ Session ──▶ Record ──▶ callbacks ──▶ Database
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from smelt.ir.errors import CompileError, SmeltError
from smelt.search import runner as engine_runner
from smelt.search.database import MemoryDatabase
from smelt.search.guided import GuidedSpace
from smelt.search.record import ErrorCode, Record
from smelt.search.record import Workload as Program
from smelt.search.space import Candidate, SearchSpace
from smelt.search.timing import Protocol, Timed
from smelt.search.tune import TUNING, Session, Task
from smelt.tir.schedule import Schedule

from .builder import Builder, BuilderInput
from .cost_model import CostModel, RandomModel, XGBModel, scores_of
from .database import MeasureCandidate, StoredDatabase, TuningRecord
from .runner import RPCRunner, Runner, RunnerInput
from .tune_context import TuneContext
from .utils import median_of, remove_build_dir


class Measured(MeasureCandidate):
    """A candidate that was measured; its schedule is made when somebody looks at it.

    record  what was found
    """

    def __init__(self, context: TuneContext, record: TuningRecord) -> None:
        """Of a task."""
        self.context, self.record, self.args_info = context, record, context.args_info

    @cached_property
    def sch(self) -> Schedule:  # type: ignore[override]
        """The schedule."""
        return self.context.replayed(self.record.kept())


class Proposed(MeasureCandidate):
    """A candidate that may be measured."""

    def __init__(self, context: TuneContext, space: SearchSpace, candidate: Candidate) -> None:
        """Of a task's space."""
        self.context, self.space, self.candidate = context, space, candidate
        self.args_info = context.args_info

    @cached_property
    def sch(self) -> Schedule:  # type: ignore[override]
        """The schedule. Raises ScheduleError, CompileError."""
        return self.context.schedule_of(self.space, self.candidate)


class TaskSpace(GuidedSpace):
    """A task's space, seen through a cost model."""

    def __init__(self, context: TuneContext, model: CostModel) -> None:
        """Raises CompileError where there is nothing to choose."""
        super().__init__(context.space(), not isinstance(model, XGBModel))
        self.context, self.model = context, model
        self.workload = context.workload.program
        self._proposed: dict[str, Proposed | None] = {}

    def trace(self, text: str) -> str:
        """A candidate's schedule as text; "": it has none."""
        found = self.inner.find(text)
        if found is None:
            return ""
        return str(self.context.schedule_of(self.inner, found).trace.simplified())

    def look(self, candidate: Candidate) -> Proposed | None:
        """A candidate for those who look at it; None for one that cannot be applied."""
        c = candidate
        if c.text not in self._proposed:
            made: Proposed | None = Proposed(self.context, self.inner, c)
            try:
                if made is not None and not isinstance(self.model, RandomModel):
                    _ = made.sch
            except SmeltError:
                made = None
            self._proposed[c.text] = made
        return self._proposed[c.text]

    def scores(self, seen: Sequence[Proposed]) -> Any:
        """What the model says."""
        return scores_of(self.model, self.context, seen)


class Ledger(MemoryDatabase):
    """The database of a session: it tells of every record, and knows those of before."""

    def __init__(self, before: Any) -> None:
        """before: the database of the face, whose records need not be found again."""
        super().__init__()
        self.told: Callable[[TuneContext, TuningRecord], None] = lambda context, record: None
        self.tasks: dict[str, tuple[TuneContext, Task]] = {}
        if isinstance(before, StoredDatabase):
            for w in before.store.workloads():
                super().put(w, before.store.records(w.key))

    def put(self, workload: Program, records: Sequence[Record] = ()) -> None:
        """Keep records, each with its schedule, and tell of them."""
        context, task = self.tasks[workload.key]
        for r in records:
            space = task.space
            bare = not r.trace and not r.error and not r.body
            assert isinstance(space, TaskSpace)
            made = replace(r, trace=space.trace(r.decision)) if bare else r
            super().put(workload, [made])
            self.told(context, TuningRecord.of(made, context.workload))


class FaceSession(Session):
    """A session of the engine that tasks of this face are told of.

    in_turn  whether tasks get their batches by turns; else where most is to be gained
    """

    in_turn = False

    def _next(self) -> Task | None:
        if not self.in_turn:
            return super()._next()
        waiting = [t for t in self.state.tasks if t.status == TUNING]
        return min(waiting, key=lambda t: t.batches) if waiting else None

    def _protocol(self, t: Task) -> Protocol:
        if isinstance(self.runner, FaceRunner) and isinstance(t.space, TaskSpace):
            self.runner.space = t.space
        return super()._protocol(t)


class FaceRunner(engine_runner.Runner):
    """A builder and a runner of this face as a runner of the engine.

    space  whose candidates are run; remove: whether libraries are removed once they ran
    """

    name = "meta_schedule"
    needs_build = False

    def __init__(self, builder: Builder, runner: Runner, remove: bool) -> None:
        """What builds, and what runs."""
        self.builder, self.runner, self.remove = builder, runner, remove
        self.space: TaskSpace | None = None
        self._references: dict[str, float] = {}

    def run(
        self, reference: engine_runner.Attempt, attempt: engine_runner.Attempt, protocol: Protocol
    ) -> engine_runner.Outcome:
        """Run a candidate; the reference once for each task."""
        assert self.space is not None
        key = self.space.workload.key
        same = reference.candidate.text == attempt.candidate.text
        if key not in self._references and not same:
            first = self._run(reference.candidate)
            if isinstance(first, engine_runner.Outcome):
                return first
            self._references[key] = median_of(first)
        secs = self._run(attempt.candidate)
        if isinstance(secs, engine_runner.Outcome):
            return secs
        known = self._references.setdefault(key, median_of(secs))
        return engine_runner.Outcome(Timed(tuple(secs), tuple([known for _ in secs])))

    def _run(self, candidate: Candidate) -> list[float] | engine_runner.Outcome:
        """Seconds of runs, or how it failed."""
        assert self.space is not None
        context = self.space.context
        failed = engine_runner.Outcome
        try:
            sch = context.schedule_of(self.space.inner, candidate)
        except SmeltError as e:
            return failed(None, ErrorCode.SCHEDULE, str(e).splitlines()[0])
        (built,) = self.builder.build([BuilderInput(sch.mod, context.target)])
        if built.artifact_path is None:
            return failed(None, ErrorCode.COMPILE, built.error_msg or "the builder gave no library")
        given = RunnerInput(built.artifact_path, "cpu", context.args_info)
        try:
            found = self.runner.run([given])[0].result()
        finally:
            if self.remove:
                remove_build_dir(built.artifact_path)
        secs = [float(s) for s in found.run_secs or ()]
        if not secs or not all(np.isfinite(secs)) or min(secs) <= 0:
            said = found.error_msg or f"the runner gave the seconds {secs}"
            return failed(None, ErrorCode.RUNTIME, said.splitlines()[0])
        return secs


def own_runner(builder: Any, runner: Any, remove: bool) -> engine_runner.Runner | None:
    """A runner of the engine from what may be given; None: the engine's own.

    Raises CompileError for what is none, and where it cannot run here.
    """
    if isinstance(runner, engine_runner.Runner):
        return runner
    builder = Builder.create(builder) if isinstance(builder, str) else builder
    runner = Runner.create(runner) if isinstance(runner, str) else runner
    for name, value, kinds in (("builder", builder, Builder), ("runner", runner, Runner)):
        if not isinstance(value, kinds):
            raise CompileError(f"{name} is {value!r:.60}; legal: 'local', or a {kinds.__name__}")
    if isinstance(runner, RPCRunner) and runner.plain and getattr(builder, "plain", False):
        return runner.engine()
    if getattr(builder, "plain", False) and getattr(runner, "plain", False):
        return engine_runner.LocalRunner(runner.timeout_sec)
    return FaceRunner(builder, runner, remove)
