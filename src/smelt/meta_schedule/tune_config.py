"""How much is tuned, in the form that came before keyword arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from smelt.ir.errors import CompileError


@dataclass(frozen=True)
class TuneConfig:
    """How to tune.

    max_trials_global    measurements in all; None: as many as max_trials_per_task makes together
    num_trials_per_iter  candidates that are built together, at most
    max_trials_per_task  measurements of one task
    task_scheduler       "gradient", "round-robin"; strategy: "evolutionary", "replay-trace"
    """

    max_trials_global: int | None = None
    num_trials_per_iter: int = 64
    max_trials_per_task: int | None = None
    task_scheduler: Any = "gradient"
    strategy: Any = "evolutionary"
    task_scheduler_config: dict[str, Any] | None = None
    search_strategy_config: dict[str, Any] | None = None
    logger_config: dict[str, Any] | None = None
    adaptive_training: bool | None = None

    def __post_init__(self) -> None:
        """Check what is given."""
        for name in ("max_trials_global", "num_trials_per_iter", "max_trials_per_task"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (whole and value > 0):
                raise CompileError(f"TuneConfig: {name} is {value!r}; legal: from 1 on")


def settled(
    who: str, config: TuneConfig | None, tasks: int, trials: int | None, per_task: int | None,
    batch: int, scheduler: Any, strategy: Any,
) -> TuneConfig:  # fmt: skip
    """How to tune, from a config or from numbers; trials are known. Raises CompileError."""
    if config is not None and not isinstance(config, TuneConfig):
        raise CompileError(f"{who}: config is {config!r:.60}; legal: a TuneConfig")
    made = config or TuneConfig(trials, batch, per_task, scheduler, strategy)
    if made.max_trials_global is None:
        if made.max_trials_per_task is None:
            raise CompileError(f"{who}: tuning without an end: give max_trials_global")
        made = replace(made, max_trials_global=made.max_trials_per_task * max(tasks, 1))
    return made
