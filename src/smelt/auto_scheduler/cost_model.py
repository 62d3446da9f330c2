"""What says which candidates are worth a measurement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from smelt.ir.errors import CompileError

from .dag import State
from .log import LogLine, PathLike, read_log
from .measure import MeasureInput, MeasureResult

if TYPE_CHECKING:
    from .task import SearchTask


class CostModel:
    """Scores candidates; the higher the better."""

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """See what was measured."""

    def predict(self, task: SearchTask, states: Sequence[State]) -> Any:
        """A score for each; -inf: not to be measured."""
        raise NotImplementedError(f"{type(self).__name__} has no method predict")


class PythonBasedModel(CostModel):
    """The base of models of one's own: override `update` and `predict`."""

    def predict_stages(self, task: SearchTask, states: Sequence[State]) -> Never:
        """Refused: candidates are scored whole."""
        raise CompileError("predict_stages: candidates are scored whole; legal: predict")


class RandomModel(CostModel):
    """Knows nothing."""

    def __init__(self, seed: int = 0) -> None:
        """seed: of the scores."""
        self._rng = np.random.default_rng(seed)

    def predict(self, search_task: SearchTask, states: Sequence[State]) -> Any:
        """A number at random for each."""
        return self._rng.random(len(states))


class XGBModel(PythonBasedModel):
    """The engine's own: a closed form, corrected by what was measured.

    The name is the classic one; nothing of XGBoost is needed.
    """

    def __init__(
        self,
        verbose_eval: int = 25,
        num_warmup_sample: int = 100,
        seed: int | None = None,
        model_file: str | None = None,
        adaptive_training: bool = False,
    ) -> None:
        """seed: of what is drawn; the others are accepted, model_file is refused."""
        if model_file is not None:
            self.load(model_file)
        self.seed = seed
        self.known: list[LogLine] = []
        """Of logs that it was shown."""

    def update_from_file(self, file_name: PathLike, n_lines: int | None = None) -> None:
        """Learn from a log."""
        self.known += read_log(file_name, n_lines)

    def predict(self, task: SearchTask, states: Sequence[State]) -> Any:
        """By the closed form: the shorter, the higher."""
        seconds = np.array([s.predicted or np.inf for s in states])
        return -np.log(seconds)

    def save(self, file_name: str) -> Never:
        """Refused: a log is what keeps."""
        raise CompileError("XGBModel.save: models are learned anew from logs, in no time; keep the "
                           "log (RecordToFile)")  # fmt: skip

    def load(self, file_name: str) -> Never:
        """Refused: see `save`."""
        raise CompileError(f"XGBModel: {file_name!r} cannot be loaded: models are not kept; legal: "
                           "XGBModel().update_from_file(log)")  # fmt: skip
