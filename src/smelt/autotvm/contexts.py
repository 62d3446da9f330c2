"""Which config a template gets: that of the innermost context around the call.

    with autotvm.apply_history_best("log.json"):
        s, args = matmul(512, 512, 512, "float32")

Outside of any context it is a fallback, and that is said once for each program.
"""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Self, TypeAlias

from smelt.ir.errors import CompileError
from smelt.runtime.entered import Entered
from smelt.target import Target

from .space import FallbackConfigEntity

Workload: TypeAlias = tuple[Any, ...]
"""A template's name and its arguments, as logs have them."""

_CURRENT: ContextVar[DispatchContext | None] = ContextVar("dispatch", default=None)


class _Current(ABCMeta):
    """DispatchContext.current is that of the block around the reader."""

    @property
    def current(cls) -> DispatchContext:
        """The innermost context; the fallback where there is none."""
        return _CURRENT.get() or FALLBACK


class DispatchContext(Entered, metaclass=_Current):
    """Gives templates their configs in a `with` block; what it does not know the one around it is
    asked for."""

    _current = _CURRENT

    def __init__(self) -> None:
        self._outer: DispatchContext | None = None

    def query(self, target: Target | None, workload: Workload | None) -> Any:
        """The config of a program on a target."""
        found = self.find(target, workload)
        if found is not None:
            return found
        return (self._outer or FALLBACK).query(target, workload)

    @abstractmethod
    def find(self, target: Target | None, workload: Workload | None) -> Any:
        """The config that it knows itself; None: none."""

    def update(self, target: Target | None, workload: Workload | None, cfg: Any) -> None:
        """Let a program have this config from now on."""
        raise CompileError(f"{type(self).__name__}.update: its configs are given once")

    def __enter__(self) -> Self:
        self._outer = _CURRENT.get()
        return super().__enter__()


class ApplyConfig(DispatchContext):
    """The same config for every template: how a task is made with one."""

    def __init__(self, config: Any) -> None:
        """config  a ConfigEntity, or the space to be defined."""
        super().__init__()
        self._config = config
        self.workload: Workload | None = None

    def find(self, target: Target | None, workload: Workload | None) -> Any:
        """The config."""
        self.workload = workload
        return self._config

    def update(self, target: Target | None, workload: Workload | None, cfg: Any) -> None:
        """Take another config."""
        self.workload, self._config = workload, cfg


class ApplyFixedConfig(DispatchContext):
    """The first config of each of some tasks; those with other names than `schedule_names` are said
    to be slow."""

    def __init__(self, tasks: Sequence[Any], schedule_names: str | Sequence[str]) -> None:
        """tasks  of `task.extract_from_program`; schedule_names: those that are wanted."""
        super().__init__()
        given = [schedule_names] if isinstance(schedule_names, str) else schedule_names
        self._names, self.tasks = [*given], [*tasks]

    def find(self, target: Target | None, workload: Workload | None) -> Any:
        """The first config of the task with that name."""
        for task in self.tasks:
            if workload is not None and task.name == workload[0]:
                config = task.config_space.get(0)
                config.cost = 1e-6 if task.name in self._names else 1e5
                return config
        return None

    def update(self, target: Target | None, workload: Workload | None, cfg: Any) -> None:
        """Take a task's config for another one."""


class FallbackContext(DispatchContext):
    """Configs of programs that were not tuned: the first value of every knob.

    silent  whether nothing is said about it
    """

    def __init__(self) -> None:
        super().__init__()
        self.memory: dict[tuple[str, Workload], Any] = {}
        self.messages: set[str] = set()
        self.silent = False

    def query(self, target: Target | None, workload: Workload | None) -> Any:
        """The config that was given, or a fallback."""
        return self.find(target, workload)

    def find(self, target: Target | None, workload: Workload | None) -> Any:
        """The config that was given, or a fallback."""
        if workload is None:
            return FallbackConfigEntity()
        known = self.memory.get((str(target), workload))
        if known is not None:
            return known
        said = (
            f"Cannot find config for target={target}, workload={workload}. A fallback "
            "configuration is used, which may bring great performance regression."
        )
        if not self.silent and said not in self.messages:
            self.messages.add(said)
            warnings.warn(said, stacklevel=2)
        return FallbackConfigEntity()

    def clear_cache(self, target: Target | None, workload: Workload) -> None:
        """Forget the config of a program."""
        self.memory.pop((str(target), workload), None)

    def update(self, target: Target | None, workload: Workload | None, cfg: Any) -> None:
        """Let a program have this config."""
        if workload is not None:
            self.memory[str(target), workload] = cfg


FALLBACK = FallbackContext()


def clear_fallback_cache(target: Target | None, workload: Workload) -> None:
    """Forget the config that a program got where nothing was tuned."""
    FALLBACK.clear_cache(target, workload)
