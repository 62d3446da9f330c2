"""From tasks of this face to a session of the search engine, and back: it searches nothing itself.

SearchTask ──▶ engine Task(TaskSpace) ──▶ Session ──▶ Record ──▶ MeasureInput, MeasureResult
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from smelt.ir.errors import CompileError, ScheduleError
from smelt.pipeline import LOWER
from smelt.search.database import MemoryDatabase
from smelt.search.guided import GuidedSpace, checked_scores
from smelt.search.record import Record, Workload
from smelt.search.space import Candidate, Pool, Score
from smelt.search.tune import Session, Settings
from smelt.search.tune import State as Progress
from smelt.search.tune import Task as EngineTask

from .cost_model import CostModel, RandomModel, XGBModel
from .dag import State
from .log import SOURCE, LogLine, best_line
from .measure import MeasureInput, MeasureResult


class Ledger(MemoryDatabase):
    """The database of a session: it tells of every record, and knows those of logs."""

    def __init__(self) -> None:
        """Nothing is known."""
        super().__init__()
        self.tasks: dict[str, Any] = {}
        self.told: list[Callable[[MeasureInput, MeasureResult], None]] = []
        self.lines: dict[str, list[LogLine]] = {}
        """Of each task, by its program's key."""

    def put(self, workload: Workload, records: Sequence[Record] = ()) -> None:
        """Keep records, and tell of them; of the default's time only once."""
        super().put(workload, records)
        task = self.tasks[workload.key]
        for r in records:
            lines = self.lines.setdefault(workload.key, [])
            again = r.source == "default" and any(x.record.source == "default" for x in lines)
            lines.append(LogLine(task.workload_key, task.cores, workload, r))
            if not again:
                state = State(r.trace, r.decision, r.body, task.program(r.body), r)
                for tell in self.told:
                    tell(MeasureInput(task, state), MeasureResult.of(r))

    def preload(self, line: LogLine) -> None:
        """Know a record of a log."""
        self.lines.setdefault(line.workload.key, []).append(line)
        super().put(line.workload, [line.record])

    def winner(self, workload: str) -> Record | None:
        """The record of a program to trust."""
        found = best_line(self.lines.get(workload, ()))
        return None if found is None else found.record


class TaskSpace(GuidedSpace):
    """The rules' space of a task, seen through a cost model of the user's.

    began  called when a round of the task begins
    """

    def __init__(self, task: Any, model: CostModel, began: Callable[[], None], only: bool) -> None:
        """only: whether nothing but the default comes into question."""
        super().__init__(task.space(), not isinstance(model, XGBModel))
        self.task, self.model, self.began, self.only = task, model, began, only
        self._states: dict[str, State | None] = {}

    @property
    def size(self) -> float:
        """How many candidates there are."""
        return 1 if self.only else self.inner.size

    def pool(self, rng: np.random.Generator, best: Sequence[Candidate], score: Score) -> Pool:
        """A round begins."""
        self.began()
        return super().pool(rng, best, score)

    def look(self, candidate: Candidate) -> State | None:
        """A candidate's state; None for one that cannot be applied."""
        c = candidate
        if c.text not in self._states:
            try:
                blind = isinstance(self.model, RandomModel)
                self._states[c.text] = State("", c.text) if blind else self.task.state_of(c)
            except (ScheduleError, CompileError):
                self._states[c.text] = None
        return self._states[c.text]

    def scores(self, seen: Sequence[State]) -> Any:
        """What the model says. Raises CompileError where these are no numbers for them."""
        given = self.model.predict(self.task, seen)
        return checked_scores(self.model, given, len(seen), "states")


@dataclass
class Plan:
    """How to search.

    model     a CostModel; explored: the part of a round that is drawn at random
    only      whether nothing but the default is measured
    patience  trials of a task without a gain after which it is done; None: no limit
    began     called with a task when a round of it begins
    """

    model: CostModel
    seed: int = 0
    explored: float = 0.2
    only: bool = False
    patience: int | None = None
    began: Callable[[Any], None] = field(default=lambda task: None)


def open_session(
    tasks: Sequence[Any], weights: Sequence[float], ledger: Ledger, plan: Plan, options: Any,
    trials: int,
) -> Session:  # fmt: skip
    """A session of the engine for some tasks; options: a TuningOptions."""
    batch = min(options.num_measures_per_round, max(8, trials // 4), trials)
    patience = -(-plan.patience // batch) if plan.patience else 1 << 30
    settings = Settings(
        trials, batch=batch, seed=plan.seed, timeout=options.runner.timeout,
        explored=plan.explored, learned=isinstance(plan.model, XGBModel), patience=patience,
    )  # fmt: skip
    made = []
    for task, weight in zip(tasks, weights, strict=True):
        make = partial(TaskSpace, task, plan.model, partial(plan.began, task), plan.only)
        work = task.compute_dag.flop_ct
        made.append(EngineTask(make, task.name, weight, work, task.cores, SOURCE))
        ledger.tasks[task.engine_key] = task
    return Session(made, ledger, settings, LOWER, options.runner.runner(),
                   options.builder.executor())  # fmt: skip


def rounds(session: Session, verbose: int) -> Iterator[Progress]:
    """Run a session; a line a round where verbose."""
    for state in session.run():
        t = state.current
        if verbose and t is not None:
            said = t.note if t.status == "failed" else (
                f"{t.trials} trials, {t.errors} errors; default {t.default_seconds * 1e3:.4g} ms, "
                f"best {t.relative:.3f} of it"
            )  # fmt: skip
            print(f"[{state.elapsed:6.1f} s] {t.name}: {said}", flush=True)
        yield state
