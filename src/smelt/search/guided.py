"""A space seen through somebody else's cost model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.ir.errors import CompileError
from smelt.rules.cost import Array

from .space import Candidate, Pool, Score, SearchSpace

_SCORED = 64
"""Candidates of a pool that the model scores: each is scheduled for that."""


class GuidedSpace(SearchSpace):
    """A space whose candidates a user's model puts in order.

    inner   the space itself
    guided  whether the model does so; else the engine's own expectation stays
    """

    def __init__(self, inner: SearchSpace, guided: bool) -> None:
        """See above."""
        self.inner, self.guided = inner, guided
        self.workload, self.target = inner.workload, inner.target
        self.machine = inner.machine

    @abstractmethod
    def look(self, candidate: Candidate) -> Any:
        """What the model sees of a candidate; None for one that cannot be applied."""

    @abstractmethod
    def scores(self, seen: Sequence[Any]) -> Array:
        """A number for each, the higher the better; -inf for none that comes into question."""

    @property
    def size(self) -> float:
        """How many candidates there are."""
        return self.inner.size

    def default(self) -> Candidate:
        """What is compiled without tuning."""
        return self.inner.default()

    def find(self, text: str) -> Candidate | None:
        """The candidate of a text."""
        return self.inner.find(text)

    def source(self, candidate: Candidate) -> Any:
        """What a worker builds."""
        return self.inner.source(candidate)

    def pool(self, rng: np.random.Generator, best: Sequence[Candidate], score: Score) -> Pool:
        """The inner one's; of those that the model scores, some of the cheapest and some others."""
        found = self.inner.pool(rng, best, score)
        if not self.guided:
            return found
        met = {c.text for c in best}
        order = np.argsort(score(found.prior, found.features), kind="stable")
        rows = dict.fromkeys(map(int, [*order[: _SCORED // 2 + len(met)],
                                       *rng.permutation(len(found))[: _SCORED // 2]]))  # fmt: skip
        drawn = [(n, c) for n in rows if (c := found.candidate(n)).text not in met]
        kept = [(n, c, s) for n, c in drawn[:_SCORED] if (s := self.look(c)) is not None]
        scores = self.scores([s for _, _, s in kept])
        good = np.flatnonzero(scores > -np.inf)
        features = found.features[[kept[n][0] for n in good]]
        return Pool(-scores[good], features, lambda n: kept[int(good[n])][1])


def checked_scores(model: object, given: Any, count: int, what: str) -> Array:
    """The scores that a model gave for so many candidates. Raises CompileError."""
    found = np.asarray(given, float).reshape(-1)
    if len(found) != count or np.isnan(found).any():
        raise CompileError(
            f"{type(model).__name__}.predict gave {len(found)} scores for {count} {what}; legal: a "
            "number for each, the higher the better, -inf for none"
        )
    return found
