"""Models as .tar files: what a library is linked from, linked where it is loaded.

model.c ...       the description as the code knows it, one for each processor
model0.o ...      the model's object code
metadata.json     the description
weights.bin       the constants
model.so          in place of all, where the exporter linked already (cc=...)
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from smelt.runtime.errors import ExportError, LoadError
from smelt.runtime.files import write_file
from smelt.runtime.metadata import open_artifact, parse_levels, weights_end

from . import linking

_LIBRARY, _WEIGHTS, _METADATA = "model.so", "weights.bin", "metadata.json"
_MEMBERS = re.compile(
    r"model\.so(\.weights)?|model[0-9]{0,6}\.c|model[0-9]{1,6}\.o|weights\.bin|metadata\.json"
)


def export(
    exe: linking.Exportable,
    path: str | os.PathLike[str],
    *,
    cc: str | Sequence[str] | None = None,
    fcompile: linking.Linker | None = None,
    header: bool = False,
) -> None:
    """Writes a model as a .tar file or a shared library.

    cc        the C compiler to link with; a .tar is then linked already
    fcompile  what links or packs instead
    header    also write the C header beside it
    """
    if fcompile is not None and cc is not None:
        raise ExportError(f"{exe.name}: give cc or fcompile to export_library, not both")
    stem, suffix = os.path.splitext(os.fspath(path))
    write = export_archive if suffix == ".tar" else linking.export_library
    write(exe, path, cc=cc, fcompile=fcompile)
    if header:
        linking.write_header(exe, stem + ".h")


def export_archive(
    exe: linking.Exportable,
    path: str | os.PathLike[str],
    *,
    cc: str | Sequence[str] | None = None,
    fcompile: linking.Linker | None = None,
) -> None:
    """Writes a model as a .tar file.

    cc        link already, with this C compiler: loading then needs none
    fcompile  packs in place of tarfile: (path, files)
    """
    target = Path(path)
    linking.check_writable(exe, target)
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


def _files(exe: linking.Exportable, folder: Path, cc: str | Sequence[str] | None) -> list[Path]:
    if cc is not None:
        linking.export_library(exe, folder / _LIBRARY, cc=cc)
        return sorted(folder.iterdir())
    parts = linking.parts_of(exe)
    (folder / _METADATA).write_bytes(parts.metadata)
    (folder / _WEIGHTS).write_bytes(parts.weights)
    return [folder / _METADATA, folder / _WEIGHTS, *parts.write(folder)]


def _parts(folder: Path) -> linking.Parts:
    """What an archive holds, as linking wants it."""
    if not (folder / _METADATA).exists():
        raise LoadError(f"its metadata is missing or damaged: no {_METADATA}")
    text = (folder / _METADATA).read_bytes()
    levels = parse_levels(text)
    count = len(list(folder.glob("*.o")))
    try:
        weights = np.fromfile(folder / _WEIGHTS, np.uint8)
        sources = [(folder / f"model{n or ''}.c").read_text(encoding="ascii")
                   for n in range(len(levels))]  # fmt: skip
        objects = [(folder / f"model{i}.o").read_bytes() for i in range(count)]
        damaged = not count or weights.nbytes != weights_end(levels)
    except (OSError, ValueError):
        damaged = True
    if damaged:
        raise LoadError("objects or constants are missing or damaged")
    return linking.Parts(levels[0]["name"], sources, objects, text, weights.data)


def _unpack(file: BinaryIO, folder: Path) -> None:
    """Writes the members to a folder; LoadError where they are others than export_archive's.

    Names are compared with those that there are, and sizes with the file's: a member is no path,
    no link, no hole, and none is packed more densely than it was written.
    """
    limit = os.fstat(file.fileno()).st_size
    with tarfile.open(fileobj=file, mode="r:") as tar:
        for member in tar:
            plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse()
            known = _MEMBERS.fullmatch(member.name) and not (folder / member.name).exists()
            source = tar.extractfile(member) if plain and known else None
            if source is None or not 0 <= member.size <= limit:
                raise LoadError(f"it holds {member.name!r}, which is no file of a model")
            limit -= member.size
            with open(folder / member.name, "xb") as made:
                shutil.copyfileobj(source, made)


def unpack_archive(path: Path, folder: Path) -> Path:
    """The shared library of an archive, in a folder: as it came, or linked now."""
    library = folder / _LIBRARY
    with open_artifact(path, tarfile.TarError) as file:
        _unpack(file, folder)
        if library.exists():
            return library
        parts = _parts(folder)
        try:
            linking.link_parts(parts, library)
        except ExportError as error:
            raise LoadError(
                f"a .tar is linked where it is loaded: {error}\n"
                "  export_library(..., cc=...) links it before"
            ) from None
    return library
