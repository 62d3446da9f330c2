"""Where a search looks: the ways to schedule one program.

    space.default()                       what is compiled without tuning
    space.pool(rng, best, score)          candidates worth a look, as arrays
    space.source(candidate)               what a worker builds it from

Scores and features are columns of numbers: only what is to be measured becomes a candidate, and
only what becomes a candidate is built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from smelt.artifact.kernel import KernelSpec, plain_program, plans
from smelt.ir.errors import CompileError
from smelt.lowering.lower import for_target
from smelt.rules.cost import Array
from smelt.rules.cpu import Part, Plan, plan
from smelt.rules.sketch import Choice, Columns, Decision
from smelt.target import Machine, Target, machine_of
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script

from . import features
from .record import Workload, workload_key

Score: TypeAlias = Callable[[Array, Array], Array]
"""(log of predicted seconds, features) -> log of what is expected, the smaller the better."""


@dataclass(frozen=True)
class Candidate:
    """A way to schedule a program.

    text       its decisions in short; tells the candidates of a space apart
    predicted  seconds by the closed form
    features   what the learned model sees of it
    choice     what the space builds it from
    """

    text: str
    predicted: float
    features: Array = field(repr=False, compare=False)
    choice: Any = field(repr=False, compare=False)


@dataclass(frozen=True)
class Pool:
    """Candidates as arrays.

    prior      log of the predicted seconds
    features   a row for each
    candidate  makes the one of a row
    """

    prior: Array
    features: Array
    candidate: Callable[[int], Candidate]

    def __len__(self) -> int:
        return len(self.prior)


class SearchSpace(ABC):
    """The ways to schedule one program.

    workload  the program; target, machine: what it is scheduled for
    """

    workload: Workload
    target: Target
    machine: Machine

    @abstractmethod
    def default(self) -> Candidate:
        """What is compiled without tuning."""

    @abstractmethod
    def pool(self, rng: np.random.Generator, best: Sequence[Candidate], score: Score) -> Pool:
        """Candidates that are worth a look.

        best   those that were measured, the fastest first
        score  orders candidates, for spaces that have to be searched
        """

    @abstractmethod
    def source(self, candidate: Candidate) -> Any:
        """What `build.build_candidate` makes it from, in a worker."""

    @abstractmethod
    def find(self, text: str) -> Candidate | None:
        """The candidate of a text; None where the space has none."""

    @property
    @abstractmethod
    def size(self) -> float:
        """How many candidates there are."""


@dataclass(frozen=True)
class Point:
    """The decisions of a whole kernel.

    body   the algorithm in place of an operator's own; "": its own
    parts  of each part of the program the sketch and its decision
    """

    body: str
    parts: tuple[tuple[str, Decision], ...]

    def __str__(self) -> str:
        said = "; ".join([f"{sketch}({decision})" for sketch, decision in self.parts])
        return f"{self.body}: {said}" if self.body else said


class _Part:
    """The legal decisions of a part, of all sketches, as columns."""

    def __init__(self, part: Part, machine: Machine) -> None:
        own = [(k, s) for k, s in part.scored if len(s.order)]
        self.scored, self.own = [*own, *part.searched], len(own)
        self.machine = machine
        self.seconds = np.concatenate([s.seconds[s.order] for _, s in self.scored])
        self._starts = np.cumsum([0, *[len(s.order) for _, s in self.scored]])

    @cached_property
    def features(self) -> Array:
        """A row for each."""
        return np.concatenate([
            features.part_features(k.name, s.space, _taken(s.columns, s.order), self.machine)
            for k, s in self.scored
        ])  # fmt: skip

    @property
    def cheapest(self) -> int:
        """The decision that is chosen without tuning; of equals the first by its sketch's name."""
        heads = [
            (self.seconds[at], k.name, int(at))
            for at, (k, _) in zip(self._starts, self.scored[: self.own], strict=False)
        ]
        return min(heads)[2]

    def choice(self, row: int) -> Choice:
        """The decision of a row."""
        at = int(np.searchsorted(self._starts, row, side="right")) - 1
        sketch, scored = self.scored[at]
        return scored.choice(sketch, row - int(self._starts[at]))

    def row(self, text: str) -> int | None:
        """The row of a decision, as `sketch(its text)`; None where there is none."""
        name, _, inside = text.removesuffix(")").partition("(")
        pairs = dict([p.split("=", 1) for p in inside.split() if "=" in p])
        for (sketch, scored), start in zip(self.scored, self._starts[:-1], strict=True):
            if sketch.name != name or {*pairs} != {d.name for d in scored.space.domains}:
                continue
            same = np.ones(len(scored.order), bool)
            for k, v in pairs.items():
                same &= np.asarray(scored.columns[k])[scored.order].astype(str) == v
            if same.any():
                return int(start + np.argmax(same))
        return None

    def __len__(self) -> int:
        return len(self.seconds)


def _taken(columns: Columns, order: Array) -> Columns:
    return {k: np.asarray(v)[order] for k, v in columns.items()}


class _Algorithm:
    """A plan as columns: parts that are decided one by one, since their costs add up."""

    def __init__(self, plan: Plan, machine: Machine) -> None:
        self.plan = plan
        self.parts = [_Part(p, machine) for p in plan.parts]

    @cached_property
    def cheapest(self) -> tuple[int, ...]:
        """The row of each part that is chosen without tuning."""
        return tuple([p.cheapest for p in self.parts])

    def seconds(self, rows: Sequence[int]) -> float:
        """What rows, one a part, are predicted to take together."""
        return float(sum([p.seconds[r] for p, r in zip(self.parts, rows, strict=True)]))

    def features(self, rows: Sequence[int]) -> Array:
        """What is seen of them: the parts' features by their share of the time."""
        found: Array = self._mixed([(p.seconds[[r]], p.features[[r]])
                                    for p, r in zip(self.parts, rows, strict=True)])[0]  # fmt: skip
        return found

    def changed(self, rows: Sequence[int], at: int) -> tuple[Array, Array]:
        """Seconds and features where one part is decided in every way, the others as they are."""
        columns = [
            (p.seconds, p.features) if n == at else (p.seconds[[r]], p.features[[r]])
            for n, (p, r) in enumerate(zip(self.parts, rows, strict=True))
        ]
        return np.asarray(sum([s for s, _ in columns])), self._mixed(columns)

    def _mixed(self, columns: Sequence[tuple[Array, Array]]) -> Array:
        total = sum([s for s, _ in columns])
        return np.asarray(sum([(s / total)[:, None] * f for s, f in columns]))

    def candidate(self, rows: Sequence[int]) -> Candidate:
        """Rows, one a part, as a candidate."""
        choices = [p.choice(r) for p, r in zip(self.parts, rows, strict=True)]
        parts = tuple([(c.sketch.name, c.decision) for c in choices])
        point = Point(self.plan.body, parts)
        return Candidate(str(point), self.seconds(rows), self.features(rows), (point, tuple(rows)))


_KEPT = 20_000
"""Decisions of a part that are looked at in one pool: the cheapest, and some at random."""


@dataclass(frozen=True)
class ProgramSpec:
    """A program by itself, as a KernelSpec is one of a model.

    constants  which of its buffers are known at compile time
    """

    func: PrimFunc
    target: Target
    cores: int
    constants: tuple[bool, ...] = ()

    @property
    def symbol(self) -> str:
        """What tells programs apart."""
        return workload_key(self.func, self.constants)


_KEPT_PLANS = 8
_plans: dict[str, list[Plan]] = {}


def plans_of(spec: KernelSpec | ProgramSpec) -> list[Plan]:
    """Everything that the rules may choose for a program, the cheapest algorithm first; of the last
    few programs it is known."""
    key = f"{spec.symbol} {spec.target} {spec.cores}"  # specs come anew with every job
    if key not in _plans:
        while len(_plans) >= _KEPT_PLANS:
            del _plans[next(iter(_plans))]
        _plans[key] = plans(spec) if isinstance(spec, KernelSpec) else _planned(spec)
    return _plans[key]


def _planned(spec: ProgramSpec) -> list[Plan]:
    names = [b.name for b, c in zip(spec.func.buffers, spec.constants, strict=False) if c]
    func = for_target(spec.func, spec.target)
    return [plan(func, machine_of(spec.target, spec.cores), frozenset(names))]


class RuleSpace(SearchSpace):
    """What the rules may choose for a program: algorithms, sketches, decisions."""

    def __init__(self, spec: KernelSpec | ProgramSpec, name: str = "") -> None:
        """Raises CompileError for a program in which nothing can be chosen."""
        self.spec, self.target = spec, spec.target
        self.machine = machine_of(spec.target, spec.cores)
        plain = plain_program(spec) if isinstance(spec, KernelSpec) else spec.func
        self.algorithms = [_Algorithm(p, self.machine) for p in plans_of(spec) if p.parts]
        if not self.algorithms:
            raise CompileError(f"{name or plain.name}: there is nothing to choose for it")
        key = workload_key(plain, spec.constants)
        self.workload = Workload(key, name or plain.name, script(plain), spec.constants)

    @property
    def size(self) -> float:
        """How many candidates there are."""
        return sum([float(np.prod([len(p) for p in a.parts])) for a in self.algorithms])

    def default(self) -> Candidate:
        """The cheapest decisions of the cheapest algorithm."""
        first = self.algorithms[0]
        return first.candidate(first.cheapest)

    def pool(self, rng: np.random.Generator, best: Sequence[Candidate], score: Score) -> Pool:
        """Of each algorithm the best one so far, with one part decided in every other way; and the
        best ones' decisions mixed."""
        priors, rows, owners, seen = [], [], [], []
        for a in self.algorithms:
            mine = [c for c in best if c.choice[0].body == a.plan.body]
            start = mine[0].choice[1] if mine else a.cheapest
            for at, part in enumerate(a.parts):
                taken, found = a.changed(start, at)
                kept = _some(taken, rng)
                priors.append(np.log(np.broadcast_to(taken, len(part))[kept]))
                seen.append(found[kept])
                rows += [(*start[:at], int(r), *start[at + 1 :]) for r in kept]
                owners += [a] * len(kept)
            for mixed in _crossed([c.choice[1] for c in mine], rng) if len(a.parts) > 1 else ():
                priors.append(np.log([a.seconds(mixed)]))
                seen.append(a.features(mixed)[None])
                rows.append(mixed)
                owners.append(a)
        return Pool(np.concatenate(priors), np.concatenate(seen),
                    lambda n: owners[n].candidate(rows[n]))  # fmt: skip

    def find(self, text: str) -> Candidate | None:
        """The candidate of a text; None where the rules have none (any more)."""
        for a in self.algorithms:
            head = f"{a.plan.body}: " if a.plan.body else ""
            parts = text.removeprefix(head).split("; ")
            if text.startswith(head) and len(parts) == len(a.parts):
                rows = [p.row(t) for p, t in zip(a.parts, parts, strict=True)]
                if None not in rows:
                    return a.candidate([r for r in rows if r is not None])
        return None

    def source(self, candidate: Candidate) -> tuple[KernelSpec | ProgramSpec, Point]:
        """The program and the decisions."""
        return self.spec, candidate.choice[0]


def _some(seconds: Array, rng: np.random.Generator) -> Array:
    """Positions of all, or of the cheapest and some of the others."""
    if len(seconds) <= _KEPT:
        return np.arange(len(seconds))
    order = np.argsort(seconds, kind="stable")
    others = rng.choice(order[_KEPT // 2 :], _KEPT // 2, replace=False)
    return np.concatenate([order[: _KEPT // 2], others])


_CROSSED = 64


def _crossed(rows: Sequence[tuple[int, ...]], rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Each part as one of the best has it."""
    if len(rows) < 2:
        return []
    table = np.array(rows[:8])
    drawn = rng.integers(len(table), size=(_CROSSED, table.shape[1]))
    mixed = np.take_along_axis(table, drawn, axis=0)
    return sorted({tuple(map(int, r)) for r in mixed})
