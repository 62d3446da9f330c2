"""A model on another machine, called as one here."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from smelt.runtime import NDArray, Results
from smelt.runtime.errors import ExportError
from smelt.runtime.executable import Executable, Metadata
from smelt.runtime.report import BenchmarkResult, MemoryInfo, ProfileReport
from smelt.runtime.signature import TensorInfo

from .client import RPCSession


class RemoteExecutable(Executable):
    """A library that was sent to a session, which ends it. Arrays are here, and go there with each
    call; times and profiles are measured there."""

    def __init__(self, session: RPCSession, path: str | os.PathLike[str], metadata: Any) -> None:
        """path: of the library; metadata: its description. Raises what loading it there does."""
        self.session = session
        self._there = session.load_module(session.upload(path))
        self.metadata: Metadata = metadata
        self.name = str(metadata["name"])
        self.inputs: tuple[TensorInfo, ...] = tuple(self._there.inputs)
        self.outputs: tuple[TensorInfo, ...] = tuple(self._there.outputs)

    @property
    def memory(self) -> MemoryInfo:
        """The bytes it needs there besides inputs and outputs."""
        data = self.metadata
        known = data.get("workspace_bytes"), data.get("live_bytes")
        return MemoryInfo(data.get("weights_bytes", 0), *known, None)

    def __call__(self, *args: Any, **named: Any) -> NDArray | Results:
        """Run it there. Raises what it raises there, and RPCError."""
        found: NDArray | Results = self._there(*args, **named)
        return found

    def benchmark(
        self, *args: Any, repeat: int = 10, number: int | None = None, **named: Any
    ) -> BenchmarkResult:
        """Time calls there; arrays are sent once."""
        found = self._there.benchmark(*args, repeat=repeat, number=number, **named)
        assert isinstance(found, BenchmarkResult)
        return found

    def profile(self, *args: Any, repeat: int = 10, **named: Any) -> ProfileReport:
        """Time each kernel there."""
        found = self._there.profile(*args, repeat=repeat, **named)
        assert isinstance(found, ProfileReport)
        return found

    def export_library(self, path: Any, **others: Any) -> NoReturn:
        """Refused: what was sent is a library."""
        raise ExportError(f"{self.name}: it is on another machine; what was sent is here")


def send(session: RPCSession, artifact: Any, name: str = "model.so") -> RemoteExecutable:
    """A compiled model (an Artifact, an Executable, Levels) on another machine.

    name  of the file there. Raises ExportError where no library can be written, and RPCError.
    """
    with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
        path = Path(folder, name)
        artifact.export_library(path)
        return RemoteExecutable(session, path, artifact.metadata)
