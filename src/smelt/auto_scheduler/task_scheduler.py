"""Several tasks tuned together: time goes where a model gains most."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from smelt.ir.errors import CompileError
from smelt.search.tune import FAILED, Session
from smelt.search.tune import State as Progress
from smelt.search.tune import Task as EngineTask

from .cost_model import CostModel, RandomModel, XGBModel
from .log import PathLike, read_log
from .policy import SearchPolicy, SketchPolicy, teller
from .session import Ledger, Plan, open_session, rounds
from .task import SearchTask, TuningOptions

_MODELS: dict[str, type[CostModel]] = {
    "default": XGBModel, "sketch.xgb": XGBModel, "sketch.random": RandomModel,
}  # fmt: skip


class TaskSchedulerCallback:
    """Told when a round of a task begins and ends."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """A round begins."""

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """A round has ended."""


class PrintTableInfo(TaskSchedulerCallback):
    """Prints a table of the tasks before each round."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Print it."""
        print("| ID | task | latency (ms) | speed (GFLOPS) | trials |")
        for n, task in enumerate(task_scheduler.tasks):
            cost = task_scheduler.best_costs[n]
            known = math.isfinite(cost)
            speed = f"{task.compute_dag.flop_ct / cost / 1e9:.2f}" if known else "-"
            shown = f"{cost * 1e3:.3f}" if known else "-"
            print(f"| {n} | {task.name} | {shown} | {speed} | {task_scheduler.task_cts[n]} |")
        said = task_scheduler.cur_score
        print(f"estimated total latency: {said * 1e3:.3f} ms; next task: {task_id}", flush=True)


class LogEstimatedLatency(TaskSchedulerCallback):
    """Adds the estimated latency after each round to a table: seconds, trials, milliseconds."""

    def __init__(self, log_file: PathLike) -> None:
        """log_file: a file of comma-separated values; it is begun anew."""
        self.path = Path(log_file)
        self.path.write_text("ElapsedTime(s),EstimatedLatency(ms),Trials\n", encoding="utf-8")

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Add a row."""
        spent = time.monotonic() - task_scheduler.started
        score = task_scheduler.cur_score * 1e3
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{spent:.2f},{score:.4f},{task_scheduler.ct}\n")


class TaskScheduler:
    """Tunes tasks by their weights.

    tasks, task_weights  as of `extract_tasks`
    best_costs           of each task the seconds of its best schedule; infinite before
    task_cts, ct         measurements of each task, and of all
    cur_score            seconds of a run: the sum of weight and best_costs
    """

    def __init__(
        self,
        tasks: Sequence[SearchTask],
        task_weights: Sequence[float] | None = None,
        objective_func: object = None,
        strategy: str = "gradient",
        load_model_file: str | None = None,
        load_log_file: PathLike | None = None,
        alpha: float = 0.2,
        beta: float = 2,
        gamma: float = 0.5,
        backward_window_size: int = 3,
        callbacks: Sequence[TaskSchedulerCallback] | None = None,
    ) -> None:
        """strategy: "gradient": by what the next round promises; "round-robin": in turn.

        objective_func and load_model_file are refused; alpha, beta, gamma and backward_window_size
        are accepted, and are the engine's to decide. load_log_file: what is measured already.
        """
        if not tasks:
            raise CompileError(
                "TaskScheduler: no tasks; extract_tasks(mod['main'], params, target)"
            )
        if objective_func is not None:
            raise CompileError(
                "TaskScheduler: objective_func is refused: what is made smaller is the sum of the "
                "tasks' times by weight; give task_weights"
            )
        if load_model_file is not None:
            raise CompileError("TaskScheduler: load_model_file is refused: the model is learned "
                               "anew from load_log_file")  # fmt: skip
        if strategy not in ("gradient", "round-robin"):
            raise CompileError(f"TaskScheduler: strategy is {strategy!r}; legal: 'gradient', "
                               "'round-robin'")  # fmt: skip
        self.tasks, self.strategy = list(tasks), strategy
        self.task_weights = [float(w) for w in task_weights or [1.0] * len(self.tasks)]
        if len(self.task_weights) != len(self.tasks):
            raise CompileError(f"TaskScheduler: {len(self.task_weights)} weights for "
                               f"{len(self.tasks)} tasks; legal: one each")  # fmt: skip
        self.callbacks = [PrintTableInfo()] if callbacks is None else list(callbacks)
        self.load_log_file = load_log_file
        self.best_costs, self.task_cts = [math.inf] * len(self.tasks), [0] * len(self.tasks)
        self.dead_tasks: set[int] = set()
        self.ct, self.started = 0, time.monotonic()

    @property
    def cur_score(self) -> float:
        """Seconds of a run, of the tasks that were measured."""
        pairs = zip(self.task_weights, self.best_costs, strict=True)
        return sum([w * c for w, c in pairs if math.isfinite(c)])

    def tune(
        self,
        tune_option: TuningOptions,
        search_policy: str | Sequence[SearchPolicy] = "default",
        search_policy_params: dict[str, Any] | None = None,
        adaptive_training: bool = False,
        per_task_early_stopping: int | None = None,
    ) -> None:
        """Measure as the options say, num_measure_trials for all tasks together."""
        if not tune_option.num_measure_trials:
            return
        policies = make_search_policies(search_policy, search_policy_params, self.tasks,
                                        verbose=tune_option.verbose)  # fmt: skip
        for task in self.tasks:
            task.check_measurable()
        self.started = time.monotonic()
        sessions = self._sessions(tune_option, policies, per_task_early_stopping)
        turns = _in_turn([rounds(s, 0) for s, _ in sessions])
        for at, state in turns:
            self._note(sessions[at], state)
            if self.ct >= tune_option.num_measure_trials:
                break
        for s, ids in sessions:
            for n, t in zip(ids, s.state.tasks, strict=True):
                if t.status == FAILED:
                    self.dead_tasks.add(n)
        if len(self.dead_tasks) == len(self.tasks):
            notes = [t.note for s, _ in sessions for t in s.state.tasks]
            raise CompileError(f"no task can be tuned; the first one: {notes[0]}")

    def _sessions(
        self, options: TuningOptions, policies: Sequence[SearchPolicy], patience: int | None
    ) -> list[tuple[Session, list[int]]]:
        """The engine's sessions, and which tasks each of them has."""
        every = [[n] for n in range(len(self.tasks))]
        groups = every if self.strategy == "round-robin" else [[n for (n,) in every]]
        found = []
        for ids in groups:
            policy, ledger = policies[ids[0]], Ledger()
            ledger.told = [teller(policy, policy.model, options.measure_callbacks or ())]
            self._preload(ledger, ids)
            stopping = patience or options.early_stopping
            plan = Plan(policy.model, policy.seed, policy.explored, patience=stopping,
                        began=self._begins)  # fmt: skip
            trials = max(1, options.num_measure_trials // len(groups))
            chosen = [self.tasks[n] for n in ids]
            weights = [self.task_weights[n] for n in ids]
            found.append((open_session(chosen, weights, ledger, plan, options, trials), ids))
        return found

    def _preload(self, ledger: Ledger, ids: Sequence[int]) -> None:
        if self.load_log_file is None:
            return
        keys = {self.tasks[n].workload_key for n in ids}
        for line in read_log(self.load_log_file):
            if line.key in keys:
                ledger.preload(line)

    def _begins(self, task: SearchTask) -> None:
        n = next(n for n, t in enumerate(self.tasks) if t is task)
        for callback in self.callbacks:
            callback.pre_tune(self, n)

    def _note(self, session: tuple[Session, list[int]], state: Progress) -> None:
        """What a round has changed; tell of it."""
        _, ids = session
        for n, t in zip(ids, state.tasks, strict=True):
            self.best_costs[n] = _cost(t)
            self.task_cts[n] = t.trials
        self.ct = sum(self.task_cts)
        if state.current is None or not state.current.batches:
            return
        n = next(n for n, t in zip(ids, state.tasks, strict=True) if t is state.current)
        for callback in self.callbacks:
            callback.post_tune(self, n)


def _cost(t: EngineTask) -> float:
    """Seconds of a task's best schedule."""
    return t.seconds if math.isfinite(t.default_seconds) else math.inf


def _in_turn(runs: Sequence[Iterator[Progress]]) -> Iterator[tuple[int, Progress]]:
    """The states of sessions that take turns, until all have ended."""
    open_ = dict(enumerate(runs))
    while open_:
        for n, run in list(open_.items()):
            state = next(run, None)
            if state is None:
                del open_[n]
            else:
                yield n, state


def make_search_policies(
    search_policy: str | Sequence[SearchPolicy],
    search_policy_params: dict[str, Any] | None,
    tasks: Sequence[SearchTask],
    num_measures_per_round: int | None = None,
    verbose: int = 1,
    load_model_file: str | None = None,
    load_log_file: PathLike | None = None,
    adaptive_training: bool = False,
) -> list[SearchPolicy]:
    """A policy for each task.

    search_policy  "default", "sketch.xgb", "sketch.random", or policies of these tasks, in order
    """
    if not isinstance(search_policy, str):
        given = list(search_policy)
        if len(given) != len(tasks) or not all(isinstance(p, SearchPolicy) for p in given):
            raise CompileError(f"search_policy: {len(given)} given for {len(tasks)} tasks; legal: "
                               "a SearchPolicy each")  # fmt: skip
        return given
    if search_policy not in _MODELS:
        raise CompileError(
            f"search_policy is {search_policy!r}; legal: {', '.join(map(repr, _MODELS))}, or "
            "a list of policies"
        )
    model = _MODELS[search_policy]()
    return [SketchPolicy(t, model, search_policy_params, verbose=verbose) for t in tasks]
