"""Packing files, under the classic name: `lib.export_library("model.tar", tar.tar)`."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path


def tar(output: str, files: str | Sequence[str]) -> None:
    """Pack files, without their folders, into a .tar file."""
    with tarfile.open(output, "w") as made:
        for f in [files] if isinstance(files, str) else files:
            made.add(f, Path(f).name)


def untar(tar_file: str, directory: str) -> None:
    """Unpack a .tar file into a folder; members that would leave it are refused."""
    with tarfile.open(tar_file) as given:
        given.extractall(directory, filter="data")
