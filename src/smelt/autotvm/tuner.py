"""Tuners: settings of the one search engine, under their classic names.

tuner = autotvm.tuner.XGBTuner(task)
tuner.tune(n_trial=20, measure_option=autotvm.measure_option("local", "local"),
           callbacks=[autotvm.callback.log_to_file("matmul.log")])
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from smelt.ir.errors import CompileError, Unsupported
from smelt.pipeline import LOWER
from smelt.runtime.errors import unknown
from smelt.runtime.native import cores
from smelt.search.database import MemoryDatabase
from smelt.search.record import Record, Workload
from smelt.search.search import EXPLORED
from smelt.search.space import Candidate
from smelt.search.tune import FAILED, Session, Settings
from smelt.search.tune import Task as EngineTask

from . import callback
from .engine import EVOLVE, GRID, NEAR, RANDOM, TemplateSpace
from .measure import CODES, MeasureErrorNo, MeasureInput, MeasureResult, measure_option
from .record import Pair

__all__ = ["DropletTuner", "GATuner", "GridSearchTuner", "IndexBaseTuner", "RandomTuner", "Tuner",
           "XGBTuner", "callback", "create_measure_batch"]  # fmt: skip

_BATCH, _BATCHES = 8, 10
"""Configs that are built together at most, and batches at least, where the builder does not say:
what is learnt between batches is worth more than builds side by side."""
_ENDLESS = 1 << 60
_REFERENCES = 5
"""Configs that are tried as what others are measured in turns with."""
_ERRORS = 150
"""Failures after which something is wrong with the template, or the machine."""


class Notebook(MemoryDatabase):
    """What an engine's session writes into: the records by their decisions."""

    def __init__(self, name: str) -> None:
        """name  of the task."""
        super().__init__()
        self.name = name
        self.found: dict[str, tuple[Workload, Record]] = {}

    def put(self, workload: Workload, records: Sequence[Record] = ()) -> None:
        """Keep records."""
        kept = [self._told(r) for r in records]
        super().put(workload, kept)
        self.found.update({r.decision: (workload, r) for r in kept})

    def _told(self, r: Record) -> Record:
        """Schedules of other computations than the program's own say whose these are."""
        own = r.trace or r.body or r.error
        return r if own else replace(r, body=f"template {self.name}")


class Tuner:
    """Looks for the fastest config of a task. This one evolves configs, and learns.

    best_config, best_flops, best_measure_pair, best_iter  what was found
    """

    walk = EVOLVE
    learned = True
    explored = EXPLORED

    def __init__(self, task: Any, *, seed: int | None = None, **kwargs: Any) -> None:
        """seed  of what is drawn at random; None: numpy's global state says."""
        if kwargs:
            said = unknown("option", next(iter(kwargs)), ("task", "seed"))
            raise CompileError(f"{type(self).__name__}: {said}")
        self.task = task
        self._seed = int(np.random.randint(1 << 31)) if seed is None else seed
        self.n_trial = self.best_iter = self.error_ct = 0
        self.error_ct_threshold = _ERRORS
        self.early_stopping: int | None = None
        self.ttl: int | None = None
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.best_config: Any = None
        self.best_flops = 0.0
        self.best_measure_pair: Pair | None = None
        self.exhausted = False
        self.space = self.task.open(self.walk)
        self.space.seed = self._seed
        self.notebook = Notebook(self.task.name)
        self.job = EngineTask(lambda: self.space, self.task.name, cores=cores(), source="autotvm")
        settings = Settings(_ENDLESS, seed=self._seed, explored=self.explored, learned=self.learned)
        self.session = Session([self.job], self.notebook, settings, LOWER)

    # ----------------------------------------------------------------------------- step by step

    def has_next(self) -> bool:
        """Whether there is anything left to measure."""
        return not self.exhausted and len(self.job.measured) < self.space.size

    def next_batch(self, batch_size: int) -> list[Any]:
        """The configs to measure next; none: all were measured."""
        found = self.session.propose(self.job, batch_size)
        self.exhausted = not found
        return [self.space.config(c) for c in found]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measurements, also those that somebody else has made."""
        job = self.job
        for inp, result in zip(inputs, results, strict=True):
            c = self.space.candidate(inp.config)
            if c is None or c.text in job.measured:
                continue
            if not np.isfinite(job.default_seconds) and not result.error_no:
                job.default_seconds = result.mean  # of whatever comes first
            job.measured[c.text] = c, result.mean / job.default_seconds
            job.untold.append(job.measured[c.text])
        if job.untold:
            self.session.learn(job)

    def load_history(self, data_set: Iterable[Pair], min_seed_records: int = 0) -> None:
        """Learn from a log's measurements of this task: they are not measured again.

        min_seed_records  with fewer of them nothing is learnt
        """
        mine = [p for p in data_set if p[0].task.workload == self.task.workload]
        if mine and len(mine) >= min_seed_records:
            self.update(*zip(*mine, strict=True))

    def set_error_threshold(self, threshold: int) -> None:
        """How many failures may come in a row before `tune` gives up."""
        self.error_ct_threshold = threshold

    # ------------------------------------------------------------------------------- all at once

    def tune(
        self,
        n_trial: int,
        measure_option: Any,
        early_stopping: int | None = None,
        callbacks: Sequence[Callable[..., Any]] = (),
        si_prefix: str = "G",
    ) -> None:
        """Measure configs; the fastest one is `best_config` then.

        n_trial         how many, at most
        measure_option  who builds and runs, see `autotvm.measure_option`
        early_stopping  stop after so many without a gain
        callbacks       called with (tuner, inputs, results) after every batch
        si_prefix       of FLOPS in what callbacks show

        Raises CompileError for a task in which nothing can be measured.
        """
        size = self._ready(measure_option, n_trial)
        self.n_trial = int(min(n_trial, self.space.size))
        self.early_stopping, self.si_prefix = early_stopping, si_prefix
        done = 0
        try:
            while done < self.n_trial and self.has_next():
                configs = self._first() or self.next_batch(min(size, self.n_trial - done))
                if not configs:
                    break
                inputs = [MeasureInput(self.task.target, self.task, c) for c in configs]
                results = self.measure(inputs)
                self._judge(inputs, results, done)
                done += len(results)
                self.ttl = min(self._limit(), self.n_trial) - done
                self.update(inputs, results)
                for told in callbacks:
                    told(self, inputs, results)
                if done >= self._limit() or self._is_hopeless():
                    break
        finally:
            self.session.runner.close()

    def _ready(self, option: Any, n_trial: int = 0) -> int:
        """Take a builder and a runner; how many configs are built together."""
        if not isinstance(option, dict) or {*option} != {"builder", "runner"}:
            raise CompileError(
                f"tune: measure_option is {option!r:.60}; legal: autotvm.measure_option(builder=..."
                ", runner=...)"
            )
        self.session.executor, self.session.runner = option["builder"], option["runner"]
        fair = max(2, min(_BATCH, n_trial // _BATCHES))
        return int(getattr(option["builder"], "n_parallel", None) or fair)

    def _limit(self) -> int:
        return _ENDLESS if self.early_stopping is None else self.best_iter + self.early_stopping

    def _is_hopeless(self) -> bool:
        if self.error_ct <= self.error_ct_threshold:
            return False
        raise CompileError(
            f"{self.task.name}: {self.error_ct} measurements in a row have failed; the last one: "
            f"{self.last_error}"
        )

    def _judge(
        self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult], done: int
    ) -> None:
        """Keep the fastest."""
        for n, (inp, result) in enumerate(zip(inputs, results, strict=True)):
            inp.config.flop = self.task.flop
            self.error_ct = self.error_ct + 1 if result.error_no else 0
            if result.error_no:
                self.last_error = str(result.costs[0])
                continue
            if self.best_measure_pair is None or result.mean < self.best_measure_pair[1].mean:
                self.best_measure_pair, self.best_config = (inp, result), inp.config
                self.best_flops, self.best_iter = self.task.flop / result.mean, done + n

    # -------------------------------------------------------------------------------- measuring

    def _first(self) -> list[Any]:
        """The reference that others are measured in turns with, if there is none yet."""
        return [] if self.job.reference is not None else [self.space.config(self._begun())]

    def _begun(self) -> Candidate:
        """The config that others are measured in turns with; where one fails another one is."""
        job, tries = self.job, _REFERENCES if isinstance(self.space, TemplateSpace) else 1
        while job.reference is None and tries:
            tries -= 1
            self.session.begin(job)
            if job.reference is None and job.default is not None and tries:
                self.space.refused.add(job.default.text)
        if job.status == FAILED or job.default is None:
            raise CompileError(f"the task {self.task.name!r} cannot be tuned: {job.note}")
        return job.default

    def measure(self, inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        """Build and measure configs of the task."""
        start = time.time()
        self._begun()
        found = [self.space.candidate(i.config) for i in inputs]
        fresh = {c.text: c for c in found if c is not None and c.text not in self.job.measured}
        self.session.measure(self.job, [*fresh.values()])
        spent = (time.time() - start) / max(len(inputs), 1)
        return [self._result(c, spent) for c in found]

    def _result(self, c: Candidate | None, spent: float) -> MeasureResult:
        if c is None:
            said = CompileError("the config is none of the task's, or its template refuses it")
            return MeasureResult((said,), MeasureErrorNo.INSTANTIATION_ERROR, spent, time.time())
        record = self.record(c)
        if record is None:  # the same code as another config's, which has a record
            seconds = self.job.measured[c.text][1] * self.job.default_seconds
            failed = not np.isfinite(seconds)
            costs: tuple[Any, ...] = (CompileError("another config fails with the same code"),)
            code = MeasureErrorNo.UNKNOWN_ERROR if failed else MeasureErrorNo.NO_ERROR
            return MeasureResult(costs if failed else (seconds,), code, spent, time.time())
        if record.error:
            costs = (CompileError(record.message),)
            return MeasureResult(costs, CODES[record.error], spent, record.when)
        return MeasureResult(record.seconds, MeasureErrorNo.NO_ERROR, spent, record.when)

    def record(self, c: Candidate) -> Record | None:
        """The engine's record of a candidate that was measured."""
        return self.notebook.found[c.text][1] if c.text in self.notebook.found else None

    def records(self, inputs: Iterable[MeasureInput]) -> list[tuple[Workload, Record]]:
        """The engine's records of some measurements."""
        found = [self.space.candidate(i.config) for i in inputs]
        return [self.notebook.found[c.text] for c in found
                if c is not None and c.text in self.notebook.found]  # fmt: skip


class RandomTuner(Tuner):
    """Configs at random, each one once."""

    walk, learned, explored = RANDOM, False, 1.0

    def __init__(self, task: Any, range_idx: tuple[int, int] | None = None, **kwargs: Any) -> None:
        """range_idx  the first and the last index that comes into question."""
        self.range_idx = range_idx
        super().__init__(task, **kwargs)

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        if self.range_idx is None:
            return
        low, high = self.range_idx
        if not isinstance(self.space, TemplateSpace) or not 0 <= low <= high < self.space.size:
            raise CompileError(f"{type(self).__name__}: range_idx={self.range_idx}; legal: (first, "
                               f"last) between 0 and {self.space.size - 1:.0f}")  # fmt: skip
        self.space.span = (low, high + 1)


class GridSearchTuner(RandomTuner):
    """Configs in the order of their indices."""

    walk, explored = GRID, 0.0


IndexBaseTuner = RandomTuner
"""Its other classic name."""


class GATuner(Tuner):
    """Configs that evolve: mutated and crossed, the fastest ones are parents. It does not learn."""

    learned = False

    def __init__(
        self,
        task: Any,
        pop_size: int = 100,
        elite_num: int = 3,
        mutation_prob: float = 0.1,
        **kwargs: Any,
    ) -> None:
        """The numbers are taken for old programs' sake: the engine has its own."""
        super().__init__(task, **kwargs)


class XGBTuner(Tuner):
    """Configs that evolve by what a learned model expects of them."""

    def __init__(
        self,
        task: Any,
        plan_size: int = 64,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        optimizer: Any = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
        **kwargs: Any,
    ) -> None:
        """The numbers are taken for old programs' sake: the engine has its own features and model.

        Raises CompileError for a feature type or loss there is not, Unsupported for an optimizer of
        the caller's.
        """
        for what, given, legal in (
            ("feature_type", feature_type, ("itervar", "knob", "curve")),
            ("loss_type", loss_type, ("reg", "rank", "rank-binary")),
        ):
            if given not in legal:
                raise CompileError(f"XGBTuner: {what}={given!r}; legal: {', '.join(legal)}")
        if optimizer != "sa":
            raise Unsupported(f"XGBTuner: optimizer={optimizer!r}; legal: 'sa', the engine's own")
        super().__init__(task, **kwargs)


class DropletTuner(Tuner):
    """From a config to its fastest neighbour, as long as that is faster."""

    walk, learned, explored = NEAR, False, 0.0

    def __init__(
        self,
        task: Any,
        start_position: Sequence[int] | None = None,
        pvalue: float = 0.05,
        **kw: Any,
    ) -> None:
        """start_position  of each knob the position of its value."""
        self.start_position = start_position
        super().__init__(task, **kw)

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        if self.start_position is not None and isinstance(self.space, TemplateSpace):
            self.space.start = self.space.configs.knob2point(self.start_position)


def create_measure_batch(
    task: Any, option: Any
) -> Callable[[Sequence[MeasureInput]], list[MeasureResult]]:
    """A function that builds and measures configs of a task: for search loops of one's own."""
    own = RandomTuner(task)
    own._ready(measure_option(**option))
    return own.measure
