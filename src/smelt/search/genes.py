"""Spaces that somebody else describes: knobs of a template, samples of a schedule.

There is no closed form for them: a candidate is scheduled and lowered here to see what its loops
are like, so that pools are small and grow by evolution.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, prod
from typing import Any, TypeAlias

import numpy as np

from smelt.ir.errors import CompileError, ScheduleError, SmeltError
from smelt.rules.sketch import Decision, Domain
from smelt.target import Machine, Target
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script
from smelt.tir.schedule import Instruction, Schedule, Trace

from .features import loop_features
from .loops import Loops, loop_seconds
from .record import Workload, workload_key
from .space import Candidate, Pool, Score, SearchSpace

Gene: TypeAlias = tuple[Any, ...]
Lower: TypeAlias = Callable[[PrimFunc], PrimFunc]
"""A scheduled program as flat loops."""

_BORN = 24
"""Candidates that join a pool each time."""
_TRIES = 200
"""Draws after which a space counts as one without a valid point."""


@dataclass(frozen=True)
class ScheduledProgram:
    """What a worker compiles: a program that is scheduled already.

    plain  the program without a schedule
    """

    func: PrimFunc
    trace: str
    plain: PrimFunc


class EvolvingSpace(SearchSpace):
    """Genes that change by mutation and by crossing."""

    def __init__(
        self, func: PrimFunc, target: Target, machine: Machine, lower: Lower, name: str = ""
    ) -> None:
        """The ways to schedule a program for a (resolved) target."""
        self.func, self.target, self.machine, self._lower = func, target, machine, lower
        key = workload_key(func, ())
        self.workload = Workload(key, name or func.name, script(func))
        self._known: dict[Gene, Candidate | None] = {}
        self.first_error = ""

    @abstractmethod
    def schedule(self, gene: Gene) -> Schedule:
        """A scheduled copy of the program. Raises ScheduleError where that cannot be."""

    @abstractmethod
    def drawn(self, rng: np.random.Generator) -> Gene:
        """A gene at random."""

    @abstractmethod
    def mutated(self, gene: Gene, rng: np.random.Generator) -> Gene:
        """A gene that differs in one place."""

    @abstractmethod
    def crossed(self, one: Gene, other: Gene, rng: np.random.Generator) -> Gene:
        """A gene with some places of one, the others of another."""

    @abstractmethod
    def text(self, gene: Gene) -> str:
        """A gene in short."""

    def pool(self, rng: np.random.Generator, best: Sequence[Candidate], score: Score) -> Pool:
        """All that was met so far, some new ones among it, most of them akin to the best.

        Raises CompileError for a space in which nothing valid is found.
        """
        parents = [c.choice for c in best[:8]]
        met = [c for c in self._known.values() if c is not None]
        if met:  # those of which most is expected are parents, too
            order = np.argsort(score(_priors(met), _rows(met)))
            parents += [met[int(n)].choice for n in order[:8]]
        born = tried = 0
        while born < _BORN and tried < _TRIES:
            tried += 1
            born += self._met(self._child(parents, rng)) is not None
        valid = [c for c in self._known.values() if c is not None]
        if not valid:
            raise CompileError(
                f"{self.workload.name}: none of {tried} points of its space is valid; the first "
                f"one: {self.first_error or 'no point at all'}"
            )
        return Pool(_priors(valid), _rows(valid), lambda n: valid[n])

    def _child(self, parents: Sequence[Gene], rng: np.random.Generator) -> Gene:
        kind = rng.random()
        if not parents or kind < 0.3:
            return self.drawn(rng)
        one = parents[int(rng.integers(len(parents)))]
        if kind < 0.8:
            return self.mutated(one, rng)
        return self.crossed(one, parents[int(rng.integers(len(parents)))], rng)

    def _met(self, gene: Gene) -> Candidate | None:
        """A gene as a candidate, looked at once; None if it is invalid, or was met before."""
        if gene in self._known:
            return None
        try:
            self._known[gene] = self._candidate(gene)
        except SmeltError as e:
            self._known[gene] = None
            self.first_error = self.first_error or str(e).splitlines()[0]
        return self._known[gene]

    def _candidate(self, gene: Gene) -> Candidate:
        loops = Loops(self._lower(self.schedule(gene).func), self.machine)
        seconds = loop_seconds(loops, self.machine)
        return Candidate(self.text(gene), seconds, loop_features(loops, self.machine), gene)

    @abstractmethod
    def gene(self, text: str) -> Gene | None:
        """The gene of a text; None where the space has none."""

    def find(self, text: str) -> Candidate | None:
        """The candidate of a text; None where the space has none, or it is invalid."""
        gene = self.gene(text)
        return None if gene is None else self._known.get(gene) or self._met(gene)

    def source(self, candidate: Candidate) -> ScheduledProgram:
        """The scheduled program itself: workers do not know the user's functions."""
        made = self.schedule(candidate.choice)
        return ScheduledProgram(made.func, str(made.trace.simplified()), self.func)


def _priors(met: Sequence[Candidate]) -> np.ndarray[Any, Any]:
    return np.array([log(max(c.predicted, 1e-12)) for c in met])


def _rows(met: Sequence[Candidate]) -> np.ndarray[Any, Any]:
    return np.stack([c.features for c in met])


class DomainSpace(EvolvingSpace):
    """Domains of values, and a function that applies a decision: (decision) -> Schedule."""

    def __init__(
        self,
        func: PrimFunc,
        domains: Sequence[Domain],
        make: Callable[[Decision], Schedule],
        target: Target,
        machine: Machine,
        lower: Lower,
        name: str = "",
    ) -> None:
        """See EvolvingSpace."""
        super().__init__(func, target, machine, lower, name)
        self.domains, self.make = tuple(domains), make

    @property
    def size(self) -> float:
        """How many candidates there are."""
        return float(prod([len(d.values) for d in self.domains]))

    def decision(self, gene: Gene) -> Decision:
        """The values of a gene."""
        pairs = zip(self.domains, gene, strict=True)
        return Decision(tuple([(d.name, d.values[n]) for d, n in pairs]))

    def schedule(self, gene: Gene) -> Schedule:
        """What the function makes of it."""
        return self.make(self.decision(gene))

    def default(self) -> Candidate:
        """The first values of all domains, or the first valid ones that are drawn."""
        first = tuple([0 for _ in self.domains])
        found = self._known.get(first) or self._met(first)
        rng = np.random.default_rng(0)
        for _ in range(_TRIES):
            if found is not None:
                return found
            gene = self.drawn(rng)
            found = self._known.get(gene) or self._met(gene)
        raise CompileError(
            f"{self.workload.name}: none of {_TRIES} points of its space is valid; the first one: "
            f"{self.first_error}"
        )

    def text(self, gene: Gene) -> str:
        """Names and values."""
        return str(self.decision(gene))

    def gene(self, text: str) -> Gene | None:
        """The gene of a text."""
        pairs = dict([p.split("=", 1) for p in text.split() if "=" in p])
        if {*pairs} != {d.name for d in self.domains}:
            return None
        found = [[str(v) for v in d.values] for d in self.domains]
        places = [v.index(pairs[d.name]) if pairs[d.name] in v else -1
                  for d, v in zip(self.domains, found, strict=True)]  # fmt: skip
        return None if -1 in places else tuple(places)

    def drawn(self, rng: np.random.Generator) -> Gene:
        """A value of each domain."""
        return tuple([int(rng.integers(len(d.values))) for d in self.domains])

    def mutated(self, gene: Gene, rng: np.random.Generator) -> Gene:
        """Another value of one domain, of an ordered one most often a neighbour."""
        free = [n for n, d in enumerate(self.domains) if len(d.values) > 1]
        if not free:
            return gene
        at = free[int(rng.integers(len(free)))]
        count = len(self.domains[at].values)
        if self.domains[at].ordered and rng.random() < 0.7:
            new = gene[at] + (1 if rng.random() < 0.5 else -1)
            new = min(max(new, 0), count - 1)
        else:
            new = int(rng.integers(count))
        return (*gene[:at], new, *gene[at + 1 :])

    def crossed(self, one: Gene, other: Gene, rng: np.random.Generator) -> Gene:
        """Each value from either."""
        return tuple([a if rng.random() < 0.5 else b for a, b in zip(one, other, strict=True)])


class TraceSpace(EvolvingSpace):
    """Schedules that sample: traces with decisions left open, one for each design.

    A gene is a design's number and the decisions of its samples, in order.
    """

    def __init__(
        self,
        func: PrimFunc,
        designs: Sequence[Trace],
        target: Target,
        machine: Machine,
        lower: Lower,
        name: str = "",
    ) -> None:
        """See EvolvingSpace."""
        super().__init__(func, target, machine, lower, name)
        self.designs = [d.simplified() for d in designs]

    @property
    def size(self) -> float:
        """Nobody knows: what a sample may be depends on those in front of it."""
        return float("inf") if any(_samples(d) for d in self.designs) else len(self.designs)

    def default(self) -> Candidate:
        """The first design with the decisions that it was recorded with."""
        for n, d in enumerate(self.designs):
            gene = (n, *[frozen(i.decision) for i in _samples(d)])
            found = self._known.get(gene) or self._met(gene)
            if found is not None:
                return found
        raise CompileError(
            f"{self.workload.name}: none of its {len(self.designs)} designs can be applied; the "
            f"first one: {self.first_error}"
        )

    def schedule(self, gene: Gene) -> Schedule:
        """The design with these decisions."""
        return self._applied(gene, 0)

    def _applied(self, gene: Gene, seed: int) -> Schedule:
        decisions = iter(gene[1:])

        def decide(inst: Instruction, *_: Any) -> Any:
            return thawed(next(decisions))

        sch = Schedule(self.func, seed=seed)
        self.designs[gene[0]].apply_to_schedule(sch, decision_provider=decide)
        return sch

    def _settled(self, gene: Gene, rng: np.random.Generator) -> Gene:
        """A gene whose open decisions (None) are drawn; itself where that fails."""
        try:
            sch = self._applied(gene, int(rng.integers(1, 1 << 30)))
        except ScheduleError as e:
            self.first_error = self.first_error or str(e).splitlines()[0]
            return gene
        return (gene[0], *[frozen(i.decision) for i in _samples(sch.trace)])

    def text(self, gene: Gene) -> str:
        """The design and its decisions."""
        return f"design={gene[0]} {gene[1:]}"

    def gene(self, text: str) -> Gene | None:
        """The gene of a text."""
        head, _, rest = text.removeprefix("design=").partition(" ")
        try:
            made = (int(head), *ast.literal_eval(rest))
        except (ValueError, SyntaxError, TypeError):
            return None
        fits = 0 <= made[0] < len(self.designs)
        return made if fits and len(made) == 1 + len(_samples(self.designs[made[0]])) else None

    def drawn(self, rng: np.random.Generator) -> Gene:
        """A design with every sample open."""
        at = int(rng.integers(len(self.designs)))
        return self._settled((at, *[None for _ in _samples(self.designs[at])]), rng)

    def mutated(self, gene: Gene, rng: np.random.Generator) -> Gene:
        """One sample drawn anew."""
        if len(gene) == 1:
            return self.drawn(rng)
        at = int(rng.integers(1, len(gene)))
        return self._settled((*gene[:at], None, *gene[at + 1 :]), rng)

    def crossed(self, one: Gene, other: Gene, rng: np.random.Generator) -> Gene:
        """Each decision from either; designs do not mix."""
        if one[0] != other[0]:
            return self.mutated(one, rng)
        mixed = [a if rng.random() < 0.5 else b for a, b in zip(one[1:], other[1:], strict=True)]
        return (one[0], *mixed)


def _samples(trace: Trace) -> list[Instruction]:
    return [i for i in trace.insts if i.kind.is_sampling]


def frozen(decision: Any) -> Any:
    """A decision that can be a part of a gene."""
    return tuple(map(int, decision)) if isinstance(decision, list | tuple) else decision


def thawed(decision: Any) -> Any:
    """A decision as traces have it."""
    return list(decision) if isinstance(decision, tuple) else decision
