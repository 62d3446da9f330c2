"""A tuning session: tasks, the time that is spent on each, what was found.

    session = Session(tasks, database, settings, ...)
    for state in session.run(): ...            # after every batch; stop whenever you like

Everything that was measured is in the database before it is reported. A session that is started
again goes on where the one before has stopped.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log
from typing import Any

import numpy as np

from smelt.ir.errors import CompileError
from smelt.ir.steps import Step
from smelt.version import VERSION

from . import features
from .build import BuildExecutor, BuildJob, BuiltCandidate, LocalExecutor, build_all, error_of
from .database import Database
from .model import CostModel
from .record import REFUTED, ErrorCode, Record, machine_key
from .runner import Attempt, LocalRunner, Outcome, Runner
from .search import EXPLORED, choose
from .space import Candidate, SearchSpace
from .timing import MICROSECONDS, Protocol, Timed, Unit


@dataclass(frozen=True)
class Settings:
    """How to tune.

    trials    measurements in all; None: as many as the time allows
    seconds   of the session; None: as long as the trials take
    batch     candidates that are built together
    per_task  measurements of one task at most; None: no limit
    seed      of what is drawn at random
    timeout   seconds of one candidate
    explored  the part of a batch that is drawn at random
    learned   whether what was measured corrects the closed form
    patience  batches without a gain after which a task counts as done
    confirm   seconds of measurements, at most, to decide whether a winner is one
    """

    trials: int | None = None
    seconds: float | None = None
    batch: int = 16
    per_task: int | None = None
    seed: int = 0
    timeout: float = 10.0
    explored: float = EXPLORED
    learned: bool = True
    patience: int = 4
    confirm: float = 1.0

    def __post_init__(self) -> None:
        if self.trials is None and self.seconds is None:
            raise CompileError("tuning without an end: give trials, or seconds, or both")
        for name in ("trials", "seconds", "batch", "per_task", "timeout", "patience"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise CompileError(f"{name} is {value!r}; legal: more than 0")


WAITING, TUNING, DONE, FAILED = "waiting", "tuning", "done", "failed"


@dataclass
class Task:
    """A program to tune.

    make    opens its space: all that may be chosen is worked out only when its turn comes
    name    the kernel's
    weight  how often a run of the model calls it
    work    what tasks are ordered by at first: arithmetic in a run, or predicted seconds
    cores   threads that it runs on
    source  what its records say that proposed them
    cold    bytes that a run of the model reads between two of its calls; where there is no model,
            more than caches hold
    """

    make: Callable[[], SearchSpace] = field(repr=False)
    name: str = ""
    weight: float = 1.0
    work: float = 1.0
    cores: int = 1
    source: str = "sketch"
    cold: int = 1 << 26

    # what tuning finds
    status: str = WAITING
    note: str = ""
    default: Candidate | None = None
    default_seconds: float = float("nan")
    """The median of all that it was found to take."""
    references: list[float] = field(default_factory=list, repr=False)
    best: Candidate | None = None
    relative: float = 1.0
    confirmed: float = 1.0
    trials: int = 0
    errors: int = 0
    batches: int = 0
    idle: int = 0
    history: list[tuple[int, float]] = field(default_factory=list)
    """Trials, and the best time over the default's after so many."""
    met: list[tuple[float, float, int]] = field(default_factory=list)
    """Predicted and measured seconds, and the error code, of each trial."""
    failures: Counter[tuple[ErrorCode, str]] = field(default_factory=Counter)
    """How often measurements ended so, by kind and message."""
    measured: dict[str, tuple[Candidate, float]] = field(default_factory=dict, repr=False)
    """Candidates by text, with their time over the default's; infinite where they failed."""
    built: dict[str, float] = field(default_factory=dict, repr=False)
    """Times over the default's by digest: other decisions may give the same code."""
    untold: list[tuple[Candidate, float]] = field(default_factory=list, repr=False)
    """Those of `measured` that the model has not seen."""
    hints: list[str] = field(default_factory=list, repr=False)
    """Texts of candidates that were fast elsewhere, to be tried first."""
    reference: Attempt | None = field(default=None, repr=False)
    winner: Candidate | None = None
    """What has beaten the default for sure; None: nothing has."""
    compared: Attempt | None = field(default=None, repr=False)
    """The default, built so that results can be compared with its."""
    trace: str = ""
    """The schedule of the winner; "": the default."""

    @cached_property
    def space(self) -> SearchSpace:
        """Where to look. Raises CompileError where there is nothing to choose."""
        return self.make()

    @cached_property
    def machine(self) -> str:
        """What tells machines apart in records."""
        return machine_key(self.space.target, self.space.machine)

    @property
    def seconds(self) -> float:
        """What the confirmed schedule takes."""
        return self.default_seconds * self.confirmed

    def order(self) -> list[Candidate]:
        """What was measured, the fastest first."""
        good = [(r, n, c) for n, (c, r) in enumerate(self.measured.values()) if np.isfinite(r)]
        return [c for _, _, c in sorted(good, key=lambda v: v[:2])]


@dataclass
class State:
    """What a session has done so far.

    unit     what times are told in
    elapsed  seconds; scored: decisions whose times were predicted
    model    seconds of a run of the model with default schedules and with what was found, in turns
    history  after every batch: trials, elapsed, and what was before and after
    """

    tasks: Sequence[Task]
    settings: Settings
    trials: int = 0
    elapsed: float = 0.0
    scored: int = 0
    message: str = ""
    current: Task | None = None
    model: tuple[float, float] | None = None
    history: list[tuple[int, float, float, float]] = field(default_factory=list)
    unit: Unit = MICROSECONDS

    @property
    def before(self) -> float:
        """Seconds of a run, of the tasks that were timed, with default schedules."""
        return sum([t.weight * t.default_seconds for t in self._timed])

    @property
    def after(self) -> float:
        """The same with what was found."""
        return sum([t.weight * t.seconds for t in self._timed])

    @property
    def _timed(self) -> list[Task]:
        return [t for t in self.tasks if np.isfinite(t.default_seconds)]


class Session:
    """Tunes some tasks until the trials or the time are used up, or nothing is to be gained."""

    def __init__(
        self,
        tasks: Sequence[Task],
        database: Database,
        settings: Settings,
        steps: Sequence[Step],
        runner: Runner | None = None,
        executor: BuildExecutor | None = None,
    ) -> None:
        """steps: the passes to flat loops."""
        self.database, self.settings, self.steps = database, settings, tuple(steps)
        self.runner = runner or LocalRunner(settings.timeout)
        self.executor = executor or LocalExecutor()
        self.state = State(tasks, settings, unit=self.runner.unit)
        self.model = CostModel(seed=settings.seed)
        self._rng = np.random.default_rng(settings.seed)
        self._start = 0.0

    def run(self) -> Iterator[State]:
        """Tune; the state after every batch. The generator may be left at any time."""
        self._start = time.monotonic()
        state = self.state
        try:
            self._learn(self.database.records())
            # first the one in which a run most likely spends most of its time
            for task in sorted(state.tasks, key=lambda t: -t.weight * t.work):
                if self._spent():
                    break
                self.begin(task)
                yield self._told(task)
            while not self._spent() and (chosen := self._next()) is not None:
                self._batch(chosen)
                yield self._told(chosen)
            state.message = self._why()
            yield self._told(None)
        finally:
            self.runner.close()

    # --------------------------------------------------------------------------------- control

    def _told(self, task: Task | None) -> State:
        self.state.current = task
        state = self.state
        state.elapsed = time.monotonic() - self._start
        state.history.append((state.trials, state.elapsed, state.before, state.after))
        return state

    def _spent(self) -> bool:
        s, state = self.settings, self.state
        over = s.seconds is not None and time.monotonic() - self._start >= s.seconds
        return over or (s.trials is not None and state.trials >= s.trials)

    def _why(self) -> str:
        if all(t.status == FAILED for t in self.state.tasks):
            return "no task can be tuned"
        if any(t.status in (WAITING, TUNING) for t in self.state.tasks):
            return "the trials or the time are used up"
        return "nothing more is to be gained"

    def _next(self) -> Task | None:
        """The task whose next batch promises the largest gain for the model."""
        open_ = [t for t in self.state.tasks if t.status == TUNING]
        if not open_:
            return None
        total = max(self.state.after, 1e-12)
        gains = [(self._promise(t), -n, t) for n, t in enumerate(open_)]
        promise, _, task = max(gains, key=lambda v: v[:2])
        if promise < 2e-4 * total:  # of a run: nobody would notice
            for t in open_:
                t.status, t.note = DONE, "what is left to gain is too little to notice"
            return None
        return task

    def _promise(self, t: Task) -> float:
        """Seconds of a run that another batch may save: what the last ones have saved, and hope."""
        recent = [r for n, r in t.history if n > t.trials - 3 * self.settings.batch]
        gained = log(recent[0] / recent[-1]) if len(recent) > 1 else 0.0
        hope = 0.15 / (1 + t.batches)
        return t.weight * t.default_seconds * t.relative * (gained / 3 + hope)

    # ----------------------------------------------------------------------------------- tasks

    def _learn(self, records: Sequence[Record]) -> None:
        """Let the model see records; those of failures say nothing."""
        groups: dict[str, list[Record]] = {}
        for r in records:
            told = r.seconds and not r.error and r.predicted > 0 and not r.confirmed
            if told and r.features[:1] == (features.VERSION,):
                groups.setdefault(f"{r.workload} {r.machine}", []).append(r)
        for group, rows in groups.items():
            self.model.add(
                np.array([r.features[1:] for r in rows], np.float32),
                np.log([r.predicted for r in rows]),
                np.array([r.time for r in rows]),
                group,
            )
        if groups and self.settings.learned:
            self.model.fit()

    def begin(self, t: Task) -> None:
        """Time the default of a task, and go on from what is known. Where that fails, the task's
        status and note say so."""
        try:
            t.default = t.space.default()
        except CompileError as e:
            t.status, t.note = FAILED, str(e).splitlines()[0]
            return
        attempt = self._attempts(t, [t.default])[0]
        if isinstance(attempt, Outcome):
            t.status, t.note = FAILED, attempt.message
            return
        outcome = self.runner.run(attempt, attempt, self._protocol(t))
        if outcome.timed is None or outcome.error:
            t.status, t.note = FAILED, f"the default schedule: {outcome.message}"
            t.errors += 1
            t.failures[outcome.error, outcome.message] += 1
            return
        t.reference, t.best, t.status = attempt, t.default, TUNING
        self._keep(t, t.default, attempt, outcome, "default")
        self._recall_task(t)
        if t.space.size <= 1:
            t.status, t.note = DONE, "there is nothing to choose"

    def _recall_task(self, t: Task) -> None:
        """What earlier sessions have found of a task: what was measured on this machine by this
        version of smelt is known, what was fast elsewhere is tried first."""
        known, elsewhere = [], []
        for r in self.database.records(t.space.workload.key):
            if r.machine == t.machine and r.version == VERSION:
                known.append(r)
            elif r.relative and r.relative < 1 and not r.error:
                elsewhere.append((r.relative, r.decision))
        t.hints = list(dict.fromkeys([decision for _, decision in sorted(elsewhere)]))[:_HINTS]
        refuted = {r.decision for r in known if r.source == REFUTED}
        for r in known:
            c = t.space.find(r.decision)
            if c is None or r.source == "default":
                continue
            good = r.relative is not None and not r.error and r.decision not in refuted
            relative = r.relative if good and r.relative is not None else float("inf")
            t.measured[c.text] = c, relative
            if relative < t.relative:
                t.best, t.relative = c, relative
            if r.confirmed and relative < t.confirmed:
                t.confirmed, t.winner, t.trace = relative, c, r.trace

    def refute(self, t: Task, relative: float) -> None:
        """Take the winner of a task back: it was found to take so much of the default's time."""
        key = t.space.workload.key
        record = self.database.best(key, t.machine)
        if record is not None:
            made = replace(record, source=REFUTED, confirmed=False, relative=relative,
                           when=time.time())  # fmt: skip
            self.database.put(t.space.workload, [made])
        other = self.database.best(key, t.machine)
        t.winner = None if other is None else t.space.find(other.decision)
        t.confirmed, t.trace = 1.0, ""
        if other is not None and t.winner is not None and other.relative is not None:
            t.confirmed, t.trace = other.relative, other.trace
        t.note = "what was faster by itself is no faster in the model"

    def _protocol(self, t: Task) -> Protocol:
        return Protocol(cores=t.cores, cold=t.cold)

    def _batch(self, t: Task) -> None:
        """Build and measure the next candidates of a task."""
        started, before = self.state.trials, t.relative
        left = [self.settings.batch]
        left += [] if self.settings.trials is None else [self.settings.trials - started]
        left += [] if self.settings.per_task is None else [self.settings.per_task - t.trials]
        try:
            chosen = self.propose(t, min(left))
        except CompileError as e:
            t.status, t.note = FAILED, str(e).splitlines()[0]
            return
        self.measure(t, chosen)
        t.batches += 1
        if t.relative < before * _GAIN:
            t.idle = 0
            self._confirm(t)
        else:
            t.idle += 1
        if len(t.measured) >= t.space.size or not chosen:
            t.status, t.note = DONE, "every candidate was measured"
        elif self.settings.per_task is not None and t.trials >= self.settings.per_task:
            t.status, t.note = DONE, f"{t.trials} trials, as many as a task may have"
        elif t.idle >= self.settings.patience:
            t.status, t.note = DONE, f"no gain in the last {t.idle * self.settings.batch} trials"

    def propose(self, t: Task, count: int) -> list[Candidate]:
        """The candidates of a task to measure next, so many at most; none: all were measured.

        Raises CompileError for a space without a valid candidate.
        """
        hinted = [t.space.find(text) for text in t.hints if text not in t.measured]
        t.hints.clear()
        first = [c for c in hinted if c is not None][:count]
        pool = t.space.pool(self._rng, t.order(), self._score)
        self.state.scored += len(pool)
        seen, left = {*t.measured, *[c.text for c in first]}, count - len(first)
        return first + choose(pool, self._score, seen, left, self._rng, self.settings.explored)

    def measure(self, t: Task, candidates: Sequence[Candidate]) -> None:
        """Build candidates of a task that was begun, measure them until the trials or the time are
        used up, and learn of it."""
        left = [*zip(candidates, self._attempts(t, candidates), strict=True)]
        while left:
            now, left = left[: self.runner.parallel], left[self.runner.parallel :]
            for (c, attempt), outcome in zip(now, self._run(t, [a for _, a in now]), strict=True):
                self.state.trials += 1
                t.trials += 1
                if isinstance(outcome, float):
                    t.measured[c.text] = c, outcome
                else:
                    self._keep(t, c, attempt, outcome, t.source)
            if self._spent():
                break
        self.learn(t)

    def _run(self, t: Task, attempts: Sequence[Attempt | Outcome]) -> list[Outcome | float]:
        """How measurements end, as many at a time as the runner takes; what is the same code as
        another candidate takes what that does over the default's."""

        def run(attempt: Attempt | Outcome) -> Outcome | float:
            assert t.reference is not None
            if isinstance(attempt, Outcome):
                return attempt
            if attempt.built is not None and attempt.built.digest in t.built:
                return t.built[attempt.built.digest]
            return self.runner.run(t.reference, attempt, self._protocol(t))

        if len(attempts) == 1:
            return [run(attempts[0])]
        with ThreadPoolExecutor(len(attempts)) as threads:
            return [*threads.map(run, attempts)]

    def _score(self, prior: Any, seen: Any) -> Any:
        return prior + self.model.predict(seen) if self.settings.learned else prior

    def _attempts(
        self, t: Task, candidates: Sequence[Candidate], compare: bool = False
    ) -> list[Attempt | Outcome]:
        """Candidates that were built, outcomes of those that could not be.

        compare  whether results are compared: always built then, since winners are kept as traces
        """
        if not (self.runner.needs_build or compare):
            return [Attempt(c) for c in candidates]
        jobs = [BuildJob(t.space.source(c), t.space.target, self.steps, t.cores, compare)
                for c in candidates]  # fmt: skip
        found: list[Attempt | Outcome] = []
        made = build_all(self.executor, jobs, self.runner.build)
        for c, b in zip(candidates, made, strict=True):
            if isinstance(b, BuiltCandidate):
                found.append(Attempt(c, b))
            else:
                found.append(Outcome(None, *error_of(b)))
        return found

    def _keep(
        self, t: Task, c: Candidate, attempt: Attempt | Outcome, outcome: Outcome, source: str
    ) -> None:
        """Write down how a measurement ended."""
        built = attempt.built if isinstance(attempt, Attempt) else None
        if outcome.timed is not None:
            t.references.append(float(np.median(outcome.timed.reference)))
            t.default_seconds = float(np.median(t.references))
        good = outcome.timed is not None and not outcome.error
        relative = outcome.timed.relative if good and outcome.timed else float("inf")
        if source == "default":
            relative = 1.0
        t.measured[c.text] = c, relative
        t.untold.append((c, relative))
        if built is not None:
            t.built[built.digest] = relative
        if not good:
            t.errors += 1
            t.failures[outcome.error, outcome.message] += 1
        if good and relative < t.relative:
            t.best, t.relative = c, relative
        t.history.append((t.trials, t.relative))
        t.met.append((c.predicted, t.default_seconds * relative, int(outcome.error)))
        record = self._record(t, c, built, outcome, source)
        self.database.put(t.space.workload, [record])
        if self.runner.exact and good and relative < min(t.confirmed, _COUNTED):
            t.winner, t.confirmed, t.trace = c, relative, record.trace
            self.database.put(t.space.workload, [replace(record, confirmed=True)])

    def _record(
        self, t: Task, c: Candidate, built: BuiltCandidate | None, outcome: Outcome, source: str
    ) -> Record:
        timed = outcome.timed
        scaled: tuple[float, ...] = ()
        if timed is not None:  # what it takes where the default takes what it took at first
            scale = t.default_seconds / float(np.median(timed.reference))
            scaled = tuple([s * scale for s in timed.seconds])
        return Record(
            t.space.workload.key,
            t.machine,
            str(t.space.target),
            built.trace if built else "",
            built.body if built else "",
            c.text,
            source,
            scaled,
            timed.relative if timed is not None else None,
            False,
            c.predicted,
            (features.VERSION, *map(float, c.features)),
            outcome.error,
            outcome.message,
            VERSION,
            time.time(),
        )

    def learn(self, t: Task) -> None:
        """Let the model see what was measured of a task since it was asked last."""
        new = [(c, r) for c, r in t.untold if np.isfinite(r) and c.predicted > 0]
        t.untold.clear()
        if new and self.settings.learned:
            self.model.add(
                np.stack([c.features for c, _ in new]),
                np.log([c.predicted for c, _ in new]),
                np.array([r * t.default_seconds for _, r in new]),
                f"{t.space.workload.key} {t.machine}",
            )
            self.model.fit()

    # ------------------------------------------------------------------------------ the winner

    def _confirm(self, t: Task) -> None:
        """Measure the best candidates until it is sure that one beats the default; compare its
        results. The first of them that does is the winner."""
        for c in [] if self.runner.exact else t.order()[:2]:
            ratio = t.measured[c.text][1]
            if ratio >= t.confirmed * _GAIN or c is t.default:
                return
            if self._is_winner(t, c):
                return

    def _is_winner(self, t: Task, c: Candidate) -> bool:
        assert t.default is not None
        wanted = [c] if t.compared is not None else [c, t.default]
        attempt, *others = self._attempts(t, wanted, compare=True)
        reference = others[0] if others else t.compared
        if not isinstance(reference, Attempt) or not isinstance(attempt, Attempt):
            return False
        t.compared = reference
        protocol = replace(self._protocol(t), rounds=60, least=7, decide=True,
                           seconds=self.settings.confirm)  # fmt: skip
        outcome = self.runner.run(reference, attempt, protocol)
        record = self._record(t, c, attempt.built, outcome, t.source)
        timed = outcome.timed
        wins = timed is not None and not outcome.error and beats(timed)
        if outcome.error:
            t.errors += 1
            t.failures[outcome.error, outcome.message] += 1
            t.measured[c.text] = c, float("inf")
            t.relative = min([r for _, r in t.measured.values()])
        elif wins and timed is not None:
            t.best, t.winner, t.confirmed = c, c, timed.relative
            t.measured[c.text] = c, timed.relative
            t.relative = min(t.relative, timed.relative)
            t.trace = record.trace
        self.database.put(t.space.workload, [replace(record, confirmed=wins)])
        return wins


_HINTS = 8
"""Decisions that were fast on other machines, or with other versions, that are tried at once."""
_GAIN, _COUNTED = 0.98, 0.995
"""What is gained has to be worth another schedule; the same where it is counted."""


def beats(timed: Timed) -> bool:
    """Whether a candidate is faster for sure."""
    if len(timed.seconds) < 3:  # of a runner that runs nothing
        return timed.relative < _GAIN
    return timed.interval()[1] < 1.0 and timed.relative < _GAIN
