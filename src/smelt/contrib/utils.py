"""Temporary folders, under the classic name: `utils.tempdir().relpath("model.so")`."""

from __future__ import annotations

import os
import tempfile
from typing import Self


class TempDirectory:
    """A folder that goes with its object, or at the end of a `with` block.

    temp_dir  its path
    """

    def __init__(self, custom_path: str | os.PathLike[str] | None = None) -> None:
        """custom_path: a folder to make and keep; None: a new one, which is removed."""
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if custom_path is not None:
            os.makedirs(custom_path, exist_ok=True)
            self.temp_dir = os.fspath(custom_path)
        else:
            self._folder = tempfile.TemporaryDirectory(prefix="smelt-")
            self.temp_dir = self._folder.name

    @property
    def path(self) -> str:
        """Its path."""
        return self.temp_dir

    def relpath(self, name: str) -> str:
        """The path of a file in it."""
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """The names of what is in it, sorted."""
        return sorted(os.listdir(self.temp_dir))

    def remove(self) -> None:
        """Remove it with all that is in it, unless it was named by the caller."""
        if self._folder is not None:
            self._folder.cleanup()

    def __truediv__(self, name: str) -> str:
        return self.relpath(name)

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Remove it."""
        self.remove()


def tempdir(custom_path: str | os.PathLike[str] | None = None) -> TempDirectory:
    """A temporary folder."""
    return TempDirectory(custom_path)
