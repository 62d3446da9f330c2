"""Schedulers: which task is measured next, and the session that the engine makes of tasks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from smelt.codegen.llvm import is_native
from smelt.ir.errors import CompileError
from smelt.pipeline import LOWER
from smelt.search.build import LocalExecutor
from smelt.search.record import ErrorCode
from smelt.search.tune import FAILED, Settings, State, Task

from .builder import BuilderResult, LocalBuilder
from .cost_model import CostModel, XGBModel
from .database import Database, TuningRecord
from .measure_callback import MeasureCallback, RemoveBuildArtifact, UpdateCostModel
from .profiler import timed
from .runner import RunnerResult
from .session import FaceSession, Ledger, Measured, TaskSpace, own_runner
from .tune_context import TuneContext
from .utils import SOURCE, chosen, of_kinds

LOG = logging.getLogger("smelt.meta_schedule")


class TaskScheduler:
    """Spends trials on tasks.

    tasks       of the session; database: where its records go; cost_model: what scores candidates
    told_model  the model that sees results, if it is not the engine's own
    state       what the engine has done
    """

    in_turn = False

    def __init__(self) -> None:
        """Nothing is tuned yet."""
        self.tasks: list[TuneContext] = []
        self.database: Database | None = None
        self.cost_model: CostModel | None = None
        self.told_model: CostModel | None = None
        self.measure_callbacks: list[MeasureCallback] = []
        self.state: State | None = None
        self.seed = 0

    def tune(
        self,
        tasks: Sequence[TuneContext],
        task_weights: Sequence[float],
        max_trials_global: int,
        max_trials_per_task: int | None = None,
        num_trials_per_iter: int = 64,
        builder: Any = "local",
        runner: Any = "local",
        measure_callbacks: Any = "default",
        database: Database | None = None,
        cost_model: CostModel | str | None = "xgb",
    ) -> None:
        """Measure. Raises CompileError where no task can be tuned."""
        self._begin(tasks, measure_callbacks, database, cost_model)
        for task in tasks:
            if not is_native(task.target) and runner in ("local", None):
                raise CompileError(f"{task.task_name}: nothing can be measured here for "
                                   f"{task.target}; legal: this machine's CPU")  # fmt: skip
        remove = any(isinstance(c, RemoveBuildArtifact) for c in self.measure_callbacks)
        batch = max(1, min(num_trials_per_iter, max(8, max_trials_global // 4), max_trials_global))
        model = self.cost_model
        assert model is not None
        learned = isinstance(model, XGBModel) and any(
            isinstance(c, UpdateCostModel) for c in self.measure_callbacks)  # fmt: skip
        settings = Settings(
            max_trials_global, batch=batch, per_task=max_trials_per_task,
            seed=self.seed or max([t.seed for t in tasks], default=0),
            explored=max([t.search_strategy.explored for t in tasks], default=0.2),
            learned=learned, patience=1 << 30,
        )  # fmt: skip
        ledger = Ledger(database)
        ledger.told = self._told
        made = []
        for task, weight in zip(tasks, task_weights, strict=True):
            engine = Task(partial(TaskSpace, task, model), task.task_name, float(weight),
                          task.work, task.cores, SOURCE)  # fmt: skip
            ledger.tasks[task.key] = task, engine
            made.append(engine)
        workers = builder.max_workers if isinstance(builder, LocalBuilder) else None
        session = FaceSession(made, ledger, settings, LOWER, own_runner(builder, runner, remove),
                              LocalExecutor(workers))  # fmt: skip
        session.in_turn = self.in_turn
        if isinstance(model, XGBModel):
            session.model = model.learned
        self._run(session)

    def _begin(
        self, tasks: Sequence[TuneContext], callbacks: Any, database: Database | None, model: Any
    ) -> None:
        """Keep what a session is about. Raises CompileError for what is of no use."""
        if not tasks:
            raise CompileError("tuning without tasks; give one at least")
        self.tasks, self.database = list(tasks), database
        given = callbacks if callbacks is not None else "default"
        listed = MeasureCallback.create(given) if isinstance(given, str) else given
        listed = [listed] if isinstance(listed, MeasureCallback) else listed
        self.measure_callbacks = [
            of_kinds("measure_callbacks", c, MeasureCallback, "'default', or MeasureCallbacks")
            for c in listed
        ]
        made = CostModel.create(model) if isinstance(model, str) else model or XGBModel()
        self.cost_model = of_kinds("cost_model", made, CostModel,
                                   "'xgb', 'random', or a PyCostModel of your own")  # fmt: skip
        self.told_model = None if isinstance(made, XGBModel) else made

    def _run(self, session: FaceSession) -> None:
        with timed("Tuning"):
            for state in session.run():
                self.state, t = state, state.current
                if t is not None:
                    said = t.note if t.status == FAILED else (
                        f"{t.trials} trials, {t.errors} errors, best {t.relative:.3f} of default"
                    )  # fmt: skip
                    LOG.info("[%.1f s] %s: %s", state.elapsed, t.name, said)
        tasks = session.state.tasks
        if all(t.status == FAILED for t in tasks):
            notes = "; ".join([f"{t.name}: {t.note}" for t in tasks[:3]])
            raise CompileError(f"no task can be tuned: {notes}")

    def _told(self, context: TuneContext, record: TuningRecord) -> None:
        """Tell the callbacks of a measurement."""
        known = record.kept()
        at = self.tasks.index(context)
        failed = known.message or known.error.name
        early = known.error in (ErrorCode.SCHEDULE, ErrorCode.COMPILE)
        built = BuilderResult(None, failed if early else None)
        ran = RunnerResult(None, failed) if known.error else RunnerResult(list(known.seconds))
        for callback in self.measure_callbacks:
            callback.apply(self, at, [Measured(context, record)], [built], [ran])

    def print_tuning_statistics(self) -> None:
        """Print a line for each task."""
        for t in () if self.state is None else self.state.tasks:
            took = f"default {t.default_seconds * 1e6:.1f} us, best {t.relative:.3f} of it"
            print(f"{t.name}: weight {t.weight:g}, {t.trials} trials, {took} {t.note}".rstrip())

    def next_task_id(self) -> int:
        """Refused: the engine's session decides."""
        raise CompileError("next_task_id: the engine's session decides; legal: GradientBased(), "
                           "RoundRobin()")  # fmt: skip

    @staticmethod
    def create(kind: str = "gradient", *args: Any, **keywords: Any) -> TaskScheduler:
        """A scheduler by its kind: gradient, round-robin."""
        kinds = {"gradient": GradientBased, "round-robin": RoundRobin}
        return chosen("TaskScheduler.create", kinds, kind, *args, **keywords)


class GradientBased(TaskScheduler):
    """The task next whose batch promises the largest gain for the model."""

    def __init__(self, *, alpha: float = 0.2, window_size: int = 3, seed: int = -1) -> None:
        """seed: of what is drawn; alpha and window_size are accepted, and are the engine's."""
        super().__init__()
        self.seed = max(seed, 0)


class RoundRobin(TaskScheduler):
    """The tasks by turns."""

    in_turn = True
