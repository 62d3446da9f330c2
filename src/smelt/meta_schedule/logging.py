"""Loggers of sessions: those of the standard library."""

from __future__ import annotations

import logging
import logging.config
import os
from collections.abc import Callable, Sequence
from logging import Logger
from pathlib import Path
from typing import Any


def get_logger(name: str) -> Logger:
    """The logger of a name. Sessions write to "smelt.meta_schedule"."""
    return logging.getLogger(name)


def get_logging_func(logger: Logger | None) -> Callable[[int, str, int, str], None] | None:
    """A function (level, file, line, text) that logs; None without a logger."""
    if logger is None:
        return None
    return lambda level, filename, lineo, msg: logger.log(level or logging.DEBUG, msg)


def get_loggers_from_work_dir(
    work_dir: str | os.PathLike[str], task_names: Sequence[str]
) -> list[Logger]:
    """A logger for each task, which writes to a file of its own in work_dir/logs."""
    folder = Path(work_dir) / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name in task_names:
        logger = logging.getLogger(f"smelt.meta_schedule.{name}")
        path = folder / f"{logger.name}.log"
        known = [h for h in logger.handlers if getattr(h, "baseFilename", "") == str(path)]
        if not known:
            logger.addHandler(logging.FileHandler(path, delay=True))
        found.append(logger)
    return found


def create_loggers(
    log_dir: str, params: Sequence[dict[str, Any]], logger_config: dict[str, Any] | None = None,
    disable_existing_loggers: bool = False,
) -> None:  # fmt: skip
    """Set up loggers as `logging.config.dictConfig` does."""
    Path(log_dir).mkdir(parents=True, exist_ok=True)
    if logger_config:
        logging.config.dictConfig(
            {"version": 1, "disable_existing_loggers": disable_existing_loggers, **logger_config}
        )
