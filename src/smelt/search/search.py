"""Which candidates to measure next."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from smelt.rules.cost import Array

from .space import Candidate, Pool, Score

EXPLORED = 0.2
"""The part of a batch that is drawn at random, of what is not hopeless by its score."""
_HOPEFUL = 4.0
"""How much longer than the best a candidate may be expected to take and still be drawn."""


def choose(
    pool: Pool,
    score: Score,
    seen: Collection[str],
    count: int,
    rng: np.random.Generator,
    explored: float = EXPLORED,
) -> list[Candidate]:
    """The candidates of a pool to measure next: those of which most is expected, and some others.

    seen  the texts of those that were measured
    """
    if not len(pool):
        return []
    expected = np.asarray(score(pool.prior, pool.features), float)
    order = np.argsort(expected, kind="stable")
    lucky = max(1, round(count * explored)) if explored and count > 1 else 0
    found = _first(pool, order, seen, count - lucky)
    taken = {*seen, *[c.text for c in found]}
    limit = expected[order[0]] + np.log(_HOPEFUL)
    hopeful = order[expected[order] <= limit]
    drawn = rng.permutation(hopeful)[: 8 * count]
    found += _first(pool, drawn, taken, count - len(found))
    if len(found) < count:  # most of what is hopeful was measured: in order, then
        taken = {*seen, *[c.text for c in found]}
        found += _first(pool, order, taken, count - len(found))
    return found


def _first(pool: Pool, order: Array, seen: Collection[str], count: int) -> list[Candidate]:
    """The first so many in an order that were not seen."""
    found: list[Candidate] = []
    taken = set(seen)
    for n in order:
        if len(found) >= count:
            break
        c = pool.candidate(int(n))
        if c.text not in taken:
            taken.add(c.text)
            found.append(c)
    return found
