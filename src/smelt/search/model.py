"""What measurements teach about predictions: a correction of the closed form.

    model.add(features, prior, seconds, "conv2d")     # what was measured, task by task
    model.fit()
    best = (prior + model.predict(features)).argmin()

Boosted trees learn which of two candidates of the same kernel is faster. They start from the closed
form, so that where nothing is known its order stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from smelt.rules.cost import Array

from .features import LENGTH

_SCALE = 10.0
"""Scores are so many times the logarithm of seconds: a tenth longer is one unit worse."""
_ROUNDS = 60
_PARAMETERS = {
    "objective": "rank:pairwise", "lambdarank_pair_method": "mean",
    "lambdarank_num_pair_per_sample": 8, "eta": 0.1, "max_depth": 4, "min_child_weight": 0.1,
    "subsample": 0.8, "colsample_bytree": 0.5, "base_score": 0.0, "nthread": 1,
}  # fmt: skip
_LEAST, _MORE = 32, 1.15
"""Candidates before there is a model, and by which factor their number grows between two."""


class CostModel:
    """Learns from measured candidates of several tasks what the closed form gets wrong.

    available  whether the package that learns is installed; without it nothing is corrected
    """

    available: bool = find_spec("xgboost") is not None

    def __init__(self, seed: int = 0) -> None:
        """Nothing is known yet."""
        self._seed = seed
        self._groups: dict[str, list[tuple[Array, Array, Array]]] = {}
        self._learned_from = 0
        self._trees: Any = None

    @property
    def count(self) -> int:
        """Candidates that were added."""
        return sum([len(rows[0]) for group in self._groups.values() for rows in group])

    @property
    def trained(self) -> bool:
        """Whether it corrects anything."""
        return self._trees is not None

    def add(
        self,
        features: Array,
        prior: Array | Sequence[float],
        seconds: Array | Sequence[float],
        group: str,
    ) -> None:
        """Measured candidates of a task.

        features  a row for each; see `features`
        prior     logarithms of the seconds that the closed form predicts
        seconds   what they took; those that failed are left out
        group     the task: only candidates of the same one are compared
        """
        rows, before = np.asarray(features, np.float32), np.asarray(prior, float)
        taken = np.asarray(seconds, float)
        if rows.shape != (len(taken), LENGTH) or before.shape != taken.shape:
            raise ValueError(
                f"add: features of shape {rows.shape}, prior of shape {before.shape} for "
                f"{len(taken)} candidates; legal: ({len(taken)}, {LENGTH}) and ({len(taken)},)"
            )
        known = np.isfinite(taken) & (taken > 0) & np.isfinite(before)
        if known.any():
            found = rows[known], before[known], np.log(taken[known])
            self._groups.setdefault(group, []).append(found)

    def fit(self, force: bool = False) -> bool:
        """Learn again, where enough is new; returns whether it did.

        force  learn from whatever there is
        """
        count = self.count
        enough = count >= max(_LEAST, _MORE * self._learned_from)
        if not self.available or not (enough or (force and count > 1)):
            return False
        import xgboost  # noqa: PLC0415

        xgboost.set_config(verbosity=0)
        names = sorted(self._groups)
        rows, prior, taken = (
            np.concatenate([part[k] for name in names for part in self._groups[name]])
            for k in range(3)
        )
        sizes = [sum([len(part[0]) for part in self._groups[name]]) for name in names]
        data = xgboost.DMatrix(
            rows, label=taken.max() - taken, base_margin=-_SCALE * prior,
            qid=np.repeat(np.arange(len(names)), sizes), nthread=1,
        )  # fmt: skip
        self._trees = xgboost.train({**_PARAMETERS, "seed": self._seed}, data, _ROUNDS)
        self._learned_from = count
        return True

    def predict(self, features: Array) -> Array:
        """What to add to the logarithms of predicted seconds; zeros until something is learned.

        The sum tells which candidate of a kernel is faster, not how long one takes.
        """
        rows = np.asarray(features, np.float32)
        if rows.ndim != 2 or rows.shape[1] != LENGTH:
            raise ValueError(f"predict: features of shape {rows.shape}; legal: (n, {LENGTH})")
        if self._trees is None or not len(rows):
            return np.zeros(len(rows))
        return np.asarray(self._trees.inplace_predict(rows, predict_type="margin"), float) / -_SCALE
