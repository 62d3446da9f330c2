"""What models see of a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt import nd
from smelt.lowering.lower import lower
from smelt.pipeline import LOWER
from smelt.search.features import loop_features
from smelt.search.loops import Loops, loop_seconds
from smelt.tir.schedule import Schedule

from .utils import chosen

if TYPE_CHECKING:
    from .tune_context import TuneContext


def numbers(context: TuneContext, sch: Schedule) -> tuple[float, Any]:
    """Seconds by the closed form, and the engine's features, of a scheduled program."""
    loops = Loops(lower(sch.func, LOWER), context.machine)
    return loop_seconds(loops, context.machine), loop_features(loops, context.machine)


class FeatureExtractor:
    """Makes arrays of candidates."""

    def extract_from(self, context: TuneContext, candidates: Sequence[Any]) -> list[Any]:
        """An array with rows of features for each."""
        raise NotImplementedError(f"{type(self).__name__} has no method extract_from")

    @staticmethod
    def create(kind: str, *args: Any, **keywords: Any) -> FeatureExtractor:
        """An extractor by its kind: per-store-feature, random."""
        kinds = {"per-store-feature": PerStoreFeature, "random": RandomFeatureExtractor}
        return chosen("FeatureExtractor.create", kinds, kind, *args, **keywords)


class PyFeatureExtractor(FeatureExtractor):
    """The base of extractors of one's own: override `extract_from`."""


class PerStoreFeature(FeatureExtractor):
    """The engine's features, of the whole program in one row.

    The classic extractor has a row for each store, in other numbers: its parameters are accepted.
    """

    def __init__(
        self, buffers_per_store: int = 5, arith_intensity_curve_num_samples: int = 10,
        cache_line_bytes: int = 64, extract_workload: bool = False,
    ) -> None:  # fmt: skip
        """Nothing of it has a meaning here."""

    def extract_from(self, context: TuneContext, candidates: Sequence[Any]) -> list[Any]:
        """A row for each."""
        return [nd.array(numbers(context, c.sch)[1][None]) for c in candidates]


class RandomFeatureExtractor(FeatureExtractor):
    """Numbers at random, for tests of models."""

    def __init__(
        self, *, feature_size: int = 30, max_block_num: int = 5, seed: int | None = None
    ) -> None:
        """feature_size: numbers of a row; max_block_num: rows, at most."""
        self.feature_size, self.max_block_num = feature_size, max_block_num
        self._rng = np.random.default_rng(seed or 0)

    def extract_from(self, context: TuneContext, candidates: Sequence[Any]) -> list[Any]:
        """Some rows for each."""
        counts = self._rng.integers(1, self.max_block_num + 1, len(candidates))
        return [nd.array(self._rng.random((int(n), self.feature_size)).astype("float32"))
                for n in counts]  # fmt: skip
