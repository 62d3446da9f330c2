"""Cost models: what says which candidates are worth a measurement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from smelt.ir.errors import CompileError
from smelt.search.guided import checked_scores
from smelt.search.model import CostModel as Learned

from .database import MeasureCandidate
from .feature_extractor import FeatureExtractor, PerStoreFeature, numbers
from .runner import RunnerResult
from .utils import chosen, median_of

if TYPE_CHECKING:
    from .tune_context import TuneContext


class CostModel:
    """Scores candidates; the higher the better."""

    def load(self, path: str) -> None:
        """Go on from a file."""
        raise CompileError(f"{type(self).__name__}: models are learned anew from the database, in "
                           "no time; there is no file to load")  # fmt: skip

    def save(self, path: str) -> None:
        """Write to a file."""
        raise CompileError(f"{type(self).__name__}: models are learned anew from the database, in "
                           "no time; keep that")  # fmt: skip

    def update(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate],
        results: Sequence[RunnerResult],
    ) -> None:  # fmt: skip
        """See what was measured."""

    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> Any:
        """A score for each; -inf: not to be measured."""
        raise NotImplementedError(f"{type(self).__name__} has no method predict")

    @staticmethod
    def create(kind: str, *args: Any, **keywords: Any) -> CostModel:
        """A model by its kind: xgb, random, none."""
        kinds = {"xgb": XGBModel, "random": RandomModel, "none": RandomModel, "mlp": MLPModel}
        return chosen("CostModel.create", kinds, kind, *args, **keywords)


class PyCostModel(CostModel):
    """The base of models of one's own: override `predict` and `update`."""


class RandomModel(CostModel):
    """Knows nothing."""

    def __init__(
        self, *, seed: int | None = None, path: str | None = None, max_range: int = 100
    ) -> None:
        """seed: of the scores; max_range: their bound."""
        if path is not None:
            self.load(path)
        self._rng, self.max_range = np.random.default_rng(seed or 0), max_range

    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> Any:
        """A number at random for each."""
        return self._rng.random(len(candidates)) * self.max_range


class XGBModel(CostModel):
    """The engine's own: a closed form, corrected by what was measured.

    Where the package xgboost is not installed nothing is corrected.
    """

    def __init__(
        self,
        *,
        extractor: FeatureExtractor | None = None,
        config: Any = None,
        num_warmup_samples: int = 100,
        early_stopping_rounds: int = 50,
        verbose_eval: int = 25,
        average_peak_n: int = 32,
        adaptive_training: bool = True,
        num_tuning_cores: int | None = None,
        tree_method: str | None = None,
    ) -> None:
        """All but extractor is accepted, and is the engine's to decide."""
        if extractor is not None and not isinstance(extractor, PerStoreFeature):
            raise CompileError("XGBModel: extractor is refused: the engine has features of its "
                               "own; legal: PerStoreFeature(), or a PyCostModel")  # fmt: skip
        self.learned = Learned()

    def update(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate],
        results: Sequence[RunnerResult],
    ) -> None:  # fmt: skip
        """Learn of measurements; those that failed are left out."""
        rows = [(numbers(context, c.sch), median_of(r.run_secs)) for c, r in
                zip(candidates, results, strict=True) if r.run_secs]  # fmt: skip
        if rows:
            self.learned.add(np.stack([f for (_, f), _ in rows]),
                             np.log([max(s, 1e-12) for (s, _), _ in rows]),
                             [t for _, t in rows], context.key)  # fmt: skip
            self.learned.fit()

    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> Any:
        """By the closed form, corrected: the shorter, the higher."""
        if not candidates:
            return np.zeros(0)
        found = [numbers(context, c.sch) for c in candidates]
        prior = np.log([max(s, 1e-12) for s, _ in found])
        return -(prior + self.learned.predict(np.stack([f for _, f in found])))


class MLPModel(CostModel):
    """Refused: there is no network to score with."""

    def __init__(self, *, trainer: object = None) -> Never:
        """Raise."""
        raise CompileError("MLPModel is not there; legal: XGBModel(), RandomModel(), or a "
                           "PyCostModel of your own")  # fmt: skip


def scores_of(model: CostModel, context: TuneContext, candidates: Sequence[Any]) -> Any:
    """A model's scores, checked. Raises CompileError."""
    given = model.predict(context, list(candidates))
    return checked_scores(model, given, len(candidates), "candidates")


__all__ = ["CostModel", "MLPModel", "PyCostModel", "RandomModel", "XGBModel", "scores_of"]
