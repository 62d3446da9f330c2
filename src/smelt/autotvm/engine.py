"""Templates for the search engine: knobs are domains, and a config is a decision."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from smelt.ir.errors import CompileError, ScheduleError
from smelt.lowering.lower import lower
from smelt.pipeline import LOWER
from smelt.rules.sketch import Decision, Domain
from smelt.runtime.native import cores
from smelt.search.genes import DomainSpace, Gene, ScheduledProgram
from smelt.search.space import Candidate, Pool, Score
from smelt.target import Target, machine_of
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule

from .space import ConfigEntity, ConfigSpace

EVOLVE, RANDOM, GRID, NEAR = "evolve", "random", "grid", "near"
"""How spaces are walked: by evolution; in an order at random; in order; from neighbour to
neighbour."""

_AHEAD = 24
"""Valid configs that a walk goes ahead of what is measured."""
_CENTRES = 8
"""Configs whose neighbours are looked at."""
_SHUFFLED = 1 << 20
"""Spaces up to this size are shuffled; from larger ones it is drawn."""


def domains(space: ConfigSpace) -> list[Domain]:
    """The knobs of a template as domains; values are texts without blanks."""
    found = []
    for name, values in space.space_map.items():
        texts = [json.dumps(e.data, separators=(",", ":"), default=repr) for e in values]
        if len(set(texts)) < len(texts) or any(len(t.split()) != 1 for t in texts):
            texts = [f"#{n}" for n in range(len(texts))]
        found.append(Domain(name.replace(" ", "_"), tuple(texts), values.ordered))
    return found


class TemplateSpace(DomainSpace):
    """The configs of a template."""

    def __init__(
        self,
        func: PrimFunc,
        configs: ConfigSpace,
        scheduled: Callable[[Any], Schedule],
        target: Target,
        walk: str = EVOLVE,
        name: str = "",
    ) -> None:
        """The ways that a template schedules a program.

        func       the program without a schedule; scheduled: (config) -> Schedule
        walk       how it is gone through, see EVOLVE

        Later: span, start  indices to walk in, and to start at; seed; refused: configs that are not
        fit to measure others in turns with
        """
        machine = machine_of(target, cores())
        super().__init__(func, domains(configs), self._made, target, machine,
                         partial(lower, steps=LOWER), name)  # fmt: skip
        self.configs, self.walk, self._scheduled = configs, walk, scheduled
        self.span = (0, configs.range_length)
        self.start: int | None = None
        self._order: Iterator[int] | None = None
        self._ahead: list[Candidate] = []
        self.seed = 0
        self.refused: set[str] = set()

    # ------------------------------------------------------------------------------- configs

    def config(self, candidate: Candidate) -> ConfigEntity:
        """A candidate as a config."""
        return self.configs.get(self.configs.knob2point(candidate.choice))

    def candidate(self, config: Any) -> Candidate | None:
        """A config as a candidate; None where it is none of the space, or cannot be scheduled."""
        index = self.configs.index_of(config.values)
        return None if index is None else self._at(index)

    def _at(self, index: int) -> Candidate | None:
        gene = tuple(self.configs.point2knob(index))
        return self._known.get(gene) or self._met(gene)

    def _made(self, decision: Decision) -> Schedule:
        gene = self.gene(str(decision))
        assert gene is not None
        index = self.configs.knob2point(gene)
        if not self.configs.is_index_valid(index):
            raise ScheduleError(f"the filter of {self.workload.name} leaves out the config {index}")
        return self._scheduled(self.configs.get(index))

    def default(self) -> Candidate:
        """What others are measured in turns with: the config where the walk starts, or one of some
        that is predicted to be fast, since a slow one makes every measurement slow."""
        drawn = np.random.default_rng(len(self.refused))
        if self.walk in (GRID, RANDOM):
            found = self._ahead or self._walked(np.random.default_rng(self.seed))
        elif self.start is not None and not self.refused:
            found = [c for c in [self._at(self.start)] if c is not None]
        else:
            met = [self._at(self.configs.knob2point(self.drawn(drawn))) for _ in range(_AHEAD)]
            found = sorted([c for c in met if c is not None], key=lambda c: c.predicted)
        left = [c for c in found if c.text not in self.refused]
        return left[0] if left else super().default()

    def source(self, candidate: Candidate) -> ScheduledProgram:
        """The scheduled program itself.

        A template may compute something in another way than its tensors say (cache_write, rfactor):
        then there is no trace, since it would not replay on the program.
        """
        made = super().source(candidate)
        given = Schedule(self.func)
        try:
            made_trace = self.schedule(candidate.choice).trace
            made_trace.apply_to_schedule(given)
        except ScheduleError:
            return ScheduledProgram(made.func, "", made.plain)
        same = script(given.func) == script(made.func)
        return made if same else ScheduledProgram(made.func, "", made.plain)

    # --------------------------------------------------------------------------------- walks

    def pool(self, rng: np.random.Generator, best: Sequence[Candidate], score: Score) -> Pool:
        """Configs worth a look; those of a walk are equal in price, in its order."""
        if self.walk == EVOLVE:
            return super().pool(rng, best, score)
        found = self._neighbours(best) if self.walk == NEAR else self._walked(rng)
        if not found and not any(self._known.values()):
            raise CompileError(
                f"{self.workload.name}: none of the points of its space is valid; the first one: "
                f"{self.first_error or 'no point at all'}"
            )
        rows = np.stack([c.features for c in found]) if found else np.zeros((0, 1), np.float32)
        return Pool(np.zeros(len(found)), rows, lambda n: found[n])

    def _walked(self, rng: np.random.Generator) -> list[Candidate]:
        """The next configs of the order."""
        if self._order is None:
            self._order = self._indices(rng)
        valid = (c for n in self._order if (c := self._at(n)) is not None)
        self._ahead += islice(valid, _AHEAD)
        return self._ahead

    def _indices(self, rng: np.random.Generator) -> Iterator[int]:
        low, high = self.span
        if self.walk == GRID:
            yield from range(low, high)
        elif high - low <= _SHUFFLED:
            yield from map(int, low + rng.permutation(high - low))
        else:
            while True:
                yield int(rng.integers(low, high))

    def _neighbours(self, best: Sequence[Candidate]) -> list[Candidate]:
        """The configs next to the best ones, the fastest one's first."""
        genes = dict.fromkeys([g for c in best[:_CENTRES] for g in self._next_to(c.choice)])
        return [f for g in genes if (f := self._known.get(g) or self._met(g)) is not None]

    def _next_to(self, gene: Gene) -> Iterator[Gene]:
        for at, domain in enumerate(self.domains):
            for step in (1, -1):
                if 0 <= gene[at] + step < len(domain.values):
                    yield (*gene[:at], gene[at] + step, *gene[at + 1 :])
