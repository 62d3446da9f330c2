"""Models as .tar files: objects, constants and metadata, linked where they are loaded.

model0.o ...      object code
weights.bin       the constants
metadata.json     the description
model.so          in place of all, where the exporter linked already (cc=...)
"""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from smelt.runtime.errors import ExportError, LoadError
from smelt.runtime.files import write_file
from smelt.runtime.linking import Exportable, Linker, check_writable, export_library

__all__ = ["export_archive", "unpack_archive"]

_LIBRARY, _WEIGHTS, _METADATA = "model.so", "weights.bin", "metadata.json"


def export_archive(
    exe: Exportable,
    path: str | os.PathLike[str],
    *,
    cc: str | Sequence[str] | None = None,
    fcompile: Linker | None = None,
) -> None:
    """Writes a model as a .tar file.

    cc        link already, with this C compiler: loading then needs none
    fcompile  packs in place of tarfile: (path, files)
    """
    target = Path(path)
    check_writable(exe, target)
    with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
        files = _files(exe, Path(folder), cc)
        if fcompile is not None:
            fcompile(str(target), [str(f) for f in files])
            if not target.exists():
                raise ExportError(f"fcompile={fcompile!r} wrote no file {target}")
            return
        write_file(target, lambda file: _pack(file, files))


def _pack(file: BinaryIO, files: Sequence[Path]) -> None:
    with tarfile.open(fileobj=file, mode="w") as tar:
        for f in files:
            tar.add(f, f.name)


def _files(exe: Exportable, folder: Path, cc: str | Sequence[str] | None) -> list[Path]:
    if cc is not None:
        export_library(exe, folder / _LIBRARY, cc=cc)
        return sorted(folder.iterdir())
    weights = exe.weights if exe.weights is not None else np.empty(0, np.uint8)
    description = {**exe.metadata, "weights_bytes": weights.nbytes, "plan": bool(exe.plan_address)}
    (folder / _METADATA).write_text(json.dumps(description))
    weights.tofile(folder / _WEIGHTS)
    for i, data in enumerate(exe.objects):
        (folder / f"model{i}.o").write_bytes(data)
    return [folder / _METADATA, folder / _WEIGHTS, *sorted(folder.glob("model*.o"))]


class _Unpacked:
    """What an archive holds, as linking wants it."""

    def __init__(self, path: Path, folder: Path) -> None:
        try:
            self.metadata: dict[str, Any] = json.loads((folder / _METADATA).read_text())
            self.weights: npt.NDArray[Any] | None = np.fromfile(folder / _WEIGHTS, np.uint8)
            self.plan_address: int | None = 1 if self.metadata.pop("plan") else None
            self.name = str(self.metadata["name"])
            damaged = self.weights.nbytes != self.metadata["weights_bytes"]
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            raise LoadError(f"cannot load {path}: its metadata is missing or damaged") from None
        count = len(list(folder.glob("model*.o")))
        self.objects = [
            (folder / f"model{i}.o").read_bytes()
            for i in range(count)
            if (folder / f"model{i}.o").exists()
        ]
        if damaged or not count or len(self.objects) != count:
            raise LoadError(f"cannot load {path}: objects or constants are missing or damaged")


def unpack_archive(path: Path, folder: Path) -> Path:
    """The shared library of an archive, in a folder: as it came, or linked now."""
    try:
        with tarfile.open(path) as tar:
            for member in tar.getmembers():
                plain = member.isfile() and Path(member.name).name == member.name
                source = tar.extractfile(member) if plain else None
                if source is None:
                    raise LoadError(f"cannot load {path}: it holds {member.name!r}, which is no "
                                    "file of a model")  # fmt: skip
                (folder / member.name).write_bytes(source.read())
    except (OSError, tarfile.TarError) as error:
        raise LoadError(f"cannot load {path}: {error}") from None
    library = folder / _LIBRARY
    if library.exists():
        return library
    unpacked = _Unpacked(path, folder)
    try:
        export_library(unpacked, library)
    except ExportError as error:
        raise LoadError(
            f"cannot load {path}: a .tar is linked where it is loaded: {error}\n"
            "  export_library(..., cc=...) links it before"
        ) from None
    return library
