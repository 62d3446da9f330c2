"""What is told of everything that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .builder import BuilderResult
from .database import MeasureCandidate, StoredDatabase, TuningRecord
from .runner import RunnerResult
from .utils import chosen

if TYPE_CHECKING:
    from .task_scheduler import TaskScheduler


class MeasureCallback:
    """Told of measurements, one by one: the default schedule of a task first."""

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Take note."""
        raise NotImplementedError(f"{type(self).__name__} has no method apply")

    @staticmethod
    def create(kind: str = "default") -> list[MeasureCallback]:
        """Callbacks by kind: default (all), add_to_database, remove_build_artifact,
        update_cost_model."""
        kinds: dict[str, Any] = {
            "default": lambda: [AddToDatabase(), RemoveBuildArtifact(), UpdateCostModel()],
            "add_to_database": lambda: [AddToDatabase()],
            "remove_build_artifact": lambda: [RemoveBuildArtifact()],
            "update_cost_model": lambda: [UpdateCostModel()],
        }
        return chosen("MeasureCallback.create", kinds, kind)


class PyMeasureCallback(MeasureCallback):
    """The base of callbacks of one's own: override `apply`."""


class AddToDatabase(MeasureCallback):
    """Keeps what was measured. Failures are kept by databases of files and memory alone: they are
    not tried again."""

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Commit a record for each."""
        context, database = task_scheduler.tasks[task_id], task_scheduler.database
        if database is None:
            return
        for c, r in zip(measure_candidates, runner_results, strict=True):
            record = getattr(c, "record", None)
            if record is None:
                record = TuningRecord(c.sch.trace, context.workload, r.run_secs, context.target,
                                      c.args_info)  # fmt: skip
            if r.run_secs or isinstance(database, StoredDatabase):
                database.commit_tuning_record(record)


class RemoveBuildArtifact(MeasureCallback):
    """Asks that libraries are removed once they ran: without it those of builders of one's own
    stay. The engine's own code never leaves memory."""

    def apply(self, *told: Any, **by_name: Any) -> None:
        """Nothing: the session removes them as soon as they ran."""


class UpdateCostModel(MeasureCallback):
    """Lets the cost model see what was measured; the engine's own is told by the engine."""

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Update it."""
        if task_scheduler.told_model is not None:
            task_scheduler.told_model.update(
                task_scheduler.tasks[task_id], measure_candidates, runner_results
            )
