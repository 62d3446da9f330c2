"""Programs of the virtual machine as one file: a zip archive, nothing in it compressed.

program.json    the functions, and what the other members are
segment0.so     the compiled segments, as export_library writes them
constants.bin   what LoadConst loads, one array after another
"""

from __future__ import annotations

import io
import json
import math
import os
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import numpy as np

from smelt.runtime.abi import ABI_VERSION
from smelt.runtime.dtypes import C_DTYPES, numpy_dtype
from smelt.runtime.errors import LoadError
from smelt.runtime.metadata import open_artifact, parse_interface, parse_json
from smelt.runtime.native_executable import NativeExecutable
from smelt.runtime.vm import VMExecutable
from smelt.runtime.vm_host import HOST_OPS
from smelt.runtime.vm_program import Program, check, of_json

_PROGRAM, _CONSTANTS = "program.json", "constants.bin"
_HEAD = 30  # bytes before the name of an archive's first member
_MOST_JSON = 256 << 20
_MOST_SEGMENTS = 1 << 16

LoadSegment = Callable[[Path], Any]


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a program's archive. Raises LoadError where it cannot be read."""
    with open_artifact(path) as file:
        head = file.read(_HEAD + len(_PROGRAM))
    return head.startswith(b"PK\x03\x04") and head.endswith(_PROGRAM.encode())


def save_program(
    exe: VMExecutable, write: Callable[[bytes], Any], cc: str | Sequence[str] | None = None
) -> None:
    """Give the content of the file to `write`.

    cc  the C compiler to link the segments with
    """
    program, out = exe.program, io.BytesIO()
    described = {
        "abi": ABI_VERSION,
        "kind": "vm",
        "name": exe.name,
        "globals": program.globals,
        "segments": len(program.segments),
        "constants": [[_dtype_name(c), list(c.shape)] for c in program.constants],
        "functions": [astuple(f) for f in program.functions],
        "inputs": [asdict(i) for i in program.inputs],
        "outputs": [asdict(o) for o in program.outputs],
        "groups": program.groups,
    }
    with (
        tempfile.TemporaryDirectory(prefix="smelt-") as folder,
        zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive,
    ):
        archive.writestr(_PROGRAM, json.dumps(described))
        archive.writestr(_CONSTANTS, b"".join([c.tobytes() for c in program.constants]))
        for n, segment in enumerate(program.segments):
            place = Path(folder) / f"segment{n}.so"
            if n in program.files:
                archive.write(program.files[n], place.name)
                continue
            segment.export_library(place, cc=cc)
            archive.write(place, place.name)
    write(out.getvalue())


def _dtype_name(a: np.ndarray) -> str:
    name = str(a.dtype)
    if name not in C_DTYPES:
        raise LoadError(f"a constant is {name}; known: {', '.join(C_DTYPES)}")
    return name


def load_program(path: str | os.PathLike[str], load_segment: LoadSegment) -> VMExecutable:
    """Read a file. Raises LoadError where it is damaged, or of another version.

    load_segment  loads one segment's library
    """
    damages = zipfile.BadZipFile, KeyError, RuntimeError
    with open_artifact(path, *damages) as source, zipfile.ZipFile(source) as archive:
        return _read(archive, load_segment)


def _read(archive: zipfile.ZipFile, load_segment: LoadSegment) -> VMExecutable:
    described = _described(archive)
    count = described["segments"]
    names = [f"segment{n}.so" for n in range(count)]
    found = sorted([i.filename for i in archive.infolist()])
    if found != sorted([_PROGRAM, _CONSTANTS, *names]):
        raise LoadError(f"the file is damaged: it holds {', '.join(found)}")
    # Nothing is packed, so that nothing is larger than the file.
    if any(i.compress_type != zipfile.ZIP_STORED for i in archive.infolist()):
        raise LoadError("the file is damaged: it holds compressed members")
    try:
        program = Program([], [], [], dict(described["globals"]), *parse_interface(described))
    except LoadError as e:
        raise LoadError(f"the file is damaged: {e}") from None
    program.constants = _constants(archive, described["constants"])
    folder = tempfile.TemporaryDirectory(prefix="smelt-")
    for n, name in enumerate(names):
        place = program.files[n] = Path(folder.name, name)
        with archive.open(name) as member, open(place, "wb") as file:
            while block := member.read(1 << 20):
                file.write(block)
        segment = load_segment(place)
        if not isinstance(segment, NativeExecutable):
            raise LoadError(f"{name} is no model")
        program.segments.append(segment)
    program.functions = of_json(described["functions"])
    check(program)
    unknown = {i[2] for f in program.functions for i in f.code if i[0] == "InvokeHost"}
    if unknown := unknown - set(HOST_OPS):
        raise LoadError(f"the program is damaged: no operator is named {sorted(unknown)[0]!r}")
    exe = VMExecutable(program, save_program, described["name"])
    exe.keepalive = folder
    return exe


def _described(archive: zipfile.ZipFile) -> dict[str, Any]:
    """The program's description, as far as its own form goes."""
    with archive.open(_PROGRAM) as member:
        text = member.read(_MOST_JSON + 1)
    if len(text) > _MOST_JSON:
        raise LoadError(f"{_PROGRAM} is longer than {_MOST_JSON} bytes")
    found = parse_json(text)
    if not isinstance(found, dict) or found.get("kind") != "vm":
        raise LoadError("it holds no program of the virtual machine")
    if found.get("abi") != ABI_VERSION:
        raise LoadError(
            f"it has ABI version {found.get('abi')}, this runtime has {ABI_VERSION}; "
            "export the program again"
        )
    wanted = {"name": str, "globals": dict, "segments": int, "constants": list, "functions": list}
    for key, kind in wanted.items():
        if type(found.get(key)) is not kind:
            raise LoadError(f"the file is damaged: {key}")
    if not 0 <= found["segments"] <= _MOST_SEGMENTS:
        raise LoadError(f"the file is damaged: {found['segments']} segments")
    return found


def _constants(archive: zipfile.ZipFile, described: list[Any]) -> list[Any]:
    """The constants, whose sizes have to be those of the member."""
    made, at = [], 0
    data = archive.read(_CONSTANTS)
    try:
        for name, shape in described:
            dtype, sizes = numpy_dtype(str(name)), tuple(shape)
            if any(type(n) is not int or n < 0 for n in sizes):
                raise ValueError
            size = math.prod(sizes) * dtype.itemsize
            if at + size > len(data):
                raise ValueError
            made.append(np.frombuffer(data[at : at + size], dtype).reshape(sizes))
            at += size
    except (TypeError, ValueError):
        at = -1
    if at != len(data):
        raise LoadError(f"the file is damaged: {_CONSTANTS}")
    return made
