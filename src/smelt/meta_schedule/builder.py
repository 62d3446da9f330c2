"""Builders: from scheduled modules to libraries."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.ir.errors import SmeltError
from smelt.pipeline import build
from smelt.target import Target

from .utils import chosen, workers_of


@dataclass
class BuilderInput:
    """What is to be built: a scheduled module, for a target."""

    mod: Any
    target: Target
    params: Mapping[str, Any] | None = None


@dataclass
class BuilderResult:
    """A library's path, or why there is none."""

    artifact_path: str | None
    error_msg: str | None = None


class Builder:
    """Builds scheduled modules."""

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """A result for each."""
        raise NotImplementedError(f"{type(self).__name__} has no method build")

    @staticmethod
    def create(kind: str = "local", *args: Any, **keywords: Any) -> Builder:
        """A builder by its kind: local."""
        return chosen("Builder.create", {"local": LocalBuilder}, kind, *args, **keywords)


class PyBuilder(Builder):
    """The base of builders of one's own: override `build`."""


def default_build(mod: Any, target: Target, _params: Any = None) -> Any:
    """A module as a program of this machine."""
    return build(mod, target=target)


def default_export(mod: Any) -> str:
    """Write a program as a library into a folder of its own; the path."""
    path = Path(tempfile.mkdtemp(prefix="smelt-candidate-")) / "candidate.so"
    mod.export_library(str(path))
    return str(path)


class LocalBuilder(Builder):
    """Builds on this machine. In a session without functions of one's own, candidates are built by
    the engine's worker processes."""

    def __init__(
        self,
        *,
        max_workers: int | None = None,
        timeout_sec: float = 30.0,
        f_build: Callable[[Any, Target, Any], Any] | None = None,
        f_export: Callable[[Any], str] | None = None,
        initializer: Callable[[], None] | None = None,
    ) -> None:
        """max_workers: of the engine; None: one a processor. timeout_sec is accepted: no build
        takes long. f_build: (mod, target, params) -> program; f_export: (program) -> path."""
        self.max_workers, self.timeout_sec = max_workers, timeout_sec
        self.f_build, self.f_export = f_build or default_build, f_export or default_export
        self.plain = f_build is None and f_export is None
        if initializer is not None:
            initializer()

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """Build one after the other, in this process."""
        return [self._one(i) for i in build_inputs]

    def _one(self, given: BuilderInput) -> BuilderResult:
        try:
            return BuilderResult(self.f_export(self.f_build(given.mod, given.target, given.params)))
        except (SmeltError, OSError) as e:
            return BuilderResult(None, "\n".join(str(e).splitlines()[:4]))


def builder_on(num_tuning_cores: str | int, builder: Any) -> Any:
    """A builder on so many processors, where one of the engine's is asked for."""
    workers = workers_of(num_tuning_cores)
    return LocalBuilder(max_workers=workers) if workers and builder == "local" else builder
