"""Strategies: how candidates are looked for. The engine looks; a strategy says in which way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from .database import MeasureCandidate
from .utils import chosen

__all__ = ["EvolutionarySearch", "MeasureCandidate", "ReplayFunc", "ReplayTrace", "SearchStrategy"]


@dataclass
class SearchStrategy:
    """How candidates are looked for.

    A strategy of one's own would be a second search: a cost model (PyCostModel), a space
    (PySpaceGenerator) or mutators say what the engine's search is to do.
    """

    def clone(self) -> Self:
        """Itself: it holds nothing of a task."""
        return self

    @property
    def explored(self) -> float:
        """The part of a batch that is drawn at random."""
        return 0.2

    @property
    def replays(self) -> bool:
        """Whether all candidates are drawn at random."""
        return False

    @staticmethod
    def create(kind: str = "evolutionary", *args: Any, **keywords: Any) -> SearchStrategy:
        """A strategy by its kind: evolutionary, replay-trace, replay-func."""
        kinds = {"evolutionary": EvolutionarySearch, "replay-trace": ReplayTrace,
                 "replay_trace": ReplayTrace, "replay-func": ReplayFunc,
                 "replay_func": ReplayFunc}  # fmt: skip
        return chosen("SearchStrategy.create", kinds, kind, *args, **keywords)


@dataclass
class EvolutionarySearch(SearchStrategy):
    """Candidates evolve from the best ones, ordered by what is expected of them.

    eps_greedy, the part that is drawn at random, is the one that means something here: spaces that
    have a price are scored whole, others evolve as fast as they are measured.
    """

    population_size: int = 512
    init_measured_ratio: float = 0.2
    init_min_unmeasured: int = 50
    max_fail_count: int = 5
    genetic_num_iters: int = 4
    genetic_mutate_prob: float = 0.85
    genetic_max_fail_count: int = 10
    eps_greedy: float = 0.2

    @property
    def explored(self) -> float:
        """The part of a batch that is drawn at random."""
        return min(max(self.eps_greedy, 0.0), 1.0)


@dataclass
class ReplayTrace(SearchStrategy):
    """Candidates are drawn at random from the designs."""

    max_fail_count: int = 100

    @property
    def explored(self) -> float:
        """All."""
        return 1.0

    @property
    def replays(self) -> bool:
        """Yes."""
        return True


@dataclass
class ReplayFunc(ReplayTrace):
    """The same: a space's function is called once, its samples are drawn at random."""
