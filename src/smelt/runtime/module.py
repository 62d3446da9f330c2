"""Loading an exported library."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from smelt.runtime.abi import ABI_VERSION
from smelt.runtime.archive import unpack_archive
from smelt.runtime.errors import LoadError
from smelt.runtime.executable import Executable
from smelt.runtime.foreign import foreign_file, foreign_object
from smelt.runtime.linking import FOOTER, MAGIC, SIDECAR_FLAG, digest_of
from smelt.runtime.metadata import check_code, open_artifact, parse_levels, weights_end
from smelt.runtime.native import ModelInfo, check_cpu, missing_features
from smelt.runtime.native_executable import NativeExecutable
from smelt.runtime.program import Module, TensorFunction
from smelt.runtime.state import owning
from smelt.runtime.vm_file import executable_of, read_program

# ELF e_machine by platform.machine(); source: elf.h
_MACHINES = {"x86_64": 62, "aarch64": 183, "i686": 3, "armv7l": 40, "riscv64": 243, "ppc64le": 21}
_OTHERS = b"MZ", b"\xcf\xfa\xed\xfe"  # what libraries of Windows and macOS begin with


@dataclass(frozen=True)
class _Footer:
    flags: int
    weights_offset: int
    weights_bytes: int
    metadata_offset: int
    metadata_bytes: int
    id: int


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, _Footer]]:
    """A file with its footer: all that is read comes from this one file, whatever replaces it."""
    with open_artifact(path) as file:
        yield file, _read_footer(path.name, file)


def _read_footer(name: str, file: BinaryIO) -> _Footer:
    """Reads and checks the last bytes of a file."""
    start = file.read(256)
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - FOOTER.size))
    data = file.read(FOOTER.size)
    if len(data) < FOOTER.size or not data.startswith(MAGIC):
        if start.startswith(b"\x7fELF"):
            raise LoadError(
                "it is a shared library, but the model at its end is missing\n"
                "  it was not written by smelt's export_library, or was truncated or stripped"
            )
        raise _no_library(name, start)
    _, abi, flags, *places, export_id, file_bytes = FOOTER.unpack(data)
    if abi != ABI_VERSION:
        raise LoadError(
            f"it has ABI version {abi}, this runtime has {ABI_VERSION}; export the model again"
        )
    footer = _Footer(flags, places[0], places[1], places[2], places[3], export_id)
    ends = [footer.metadata_offset + footer.metadata_bytes]
    if not flags & SIDECAR_FLAG:
        ends.append(footer.weights_offset + footer.weights_bytes)
    if size != file_bytes or max(ends) + FOOTER.size > size or flags & ~SIDECAR_FLAG:
        raise LoadError(f"it has {size} bytes, {file_bytes} expected; it is damaged")
    return footer


def _no_library(name: str, start: bytes) -> LoadError:
    """The error for another file: what it is instead, where that can be told."""
    model = ("an ONNX model", "smelt.compile takes it")
    found = model if name.endswith(".onnx") else foreign_file(name, start)
    more = f", but {found[0]}; {found[1]}" if found else ""
    return LoadError(f"it is not a library written by smelt's export_library{more}")


def _read_levels(file: BinaryIO, footer: _Footer) -> list[dict[str, Any]]:
    file.seek(footer.metadata_offset)
    text = file.read(footer.metadata_bytes)
    levels = parse_levels(text)
    if digest_of(text) != footer.id or footer.weights_bytes != weights_end(levels):
        raise LoadError("its metadata is damaged: they were written for another library")
    return levels


def _fitting(levels: Sequence[Mapping[str, Any]]) -> int:
    """The first that this CPU can run, as smelt_model_fitting has it; else the last."""
    fit = (n for n, m in enumerate(levels) if not missing_features([*m.get("features", ())]))
    return next(fit, len(levels) - 1)


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What an exported .so library says about itself; no code of it is loaded. Of one for several
    processors it is what this one runs.

    Raises LoadError where it is missing or damaged.
    """
    with _opened(Path(path)) as (file, footer):
        levels = _read_levels(file, footer)
        return levels[_fitting(levels)]


def _check_machine(file: BinaryIO, metadata: dict[str, Any]) -> None:
    """Refuses code for other machines before any of it is loaded."""
    file.seek(0)
    head = file.read(20)
    machine = int.from_bytes(head[18:20], "little")
    here = platform.machine()
    if sys.platform == "linux" and head.startswith(_OTHERS):
        raise LoadError("compiled for another system, this machine has Linux")
    if head.startswith(b"\x7fELF") and machine != _MACHINES.get(here, machine):
        names = {number: name for name, number in _MACHINES.items()}
        raise LoadError(
            f"compiled for {names.get(machine, f'ELF machine {machine}')}, this machine is {here}"
        )
    check_cpu(metadata)


# ---- code and constants --------------------------------------------------------------------------


def _open_code(name: Path) -> tuple[ctypes.CDLL, ModelInfo]:
    code = ctypes.CDLL(str(name))
    return code, ModelInfo.in_dll(code, "smelt_model_descriptor")


def _load_code(path: Path, footer: _Footer) -> tuple[ctypes.CDLL, ModelInfo]:
    code, info = _open_code(path.resolve())
    if info.id == footer.id:
        return code, info
    # The system's loader knows libraries by name, and this name is a file that was replaced
    # since: another name makes it look again.
    with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
        alias = Path(folder) / path.name
        alias.symlink_to(path.resolve())
        code, info = _open_code(alias)
    if info.id != footer.id:
        raise LoadError("its code and its constants do not belong together")
    return code, info


def _map_weights(
    path: Path, file: BinaryIO, footer: _Footer, place: tuple[int, int]
) -> npt.NDArray[np.uint8] | None:
    """The constants of a file, which is the library or lies beside it; place: which of them, as an
    offset and a number of bytes."""
    if place[1] == 0:
        return None
    if footer.flags & SIDECAR_FLAG:
        source = path.resolve()
        source = source.with_name(source.name + ".weights")
        if not source.exists():
            raise LoadError(f"its constants, {source}, are missing")
        with _opened(source) as (beside, found):
            own = found.id, found.weights_bytes, found.flags
            if own == (footer.id, footer.weights_bytes, 0):
                return _map_weights(source, beside, found, place)
        raise LoadError(f"{source} belongs to another export")
    try:
        start, size = footer.weights_offset + place[0], place[1]
        mapping = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ, offset=start)
    except (OSError, ValueError) as error:
        raise LoadError(f"mapping its constants: {error}") from None
    return np.frombuffer(mapping, np.uint8)


_FORMATS = ("", "so", "tar")


def load_module(path: str | os.PathLike[str], fmt: str = "", *, threads: int | None = None) -> Any:
    """Loads what `export_library` wrote; nothing is compiled. `load` is the same for models only.

    Gives an Executable for a model, whatever it takes to run it; a Module for a tensor program.
    fmt: "so" or "tar" (objects, which a C compiler links now); "": as the name ends.
    threads: at most this many, the caller's included; None for all of the process's pool.
    Raises LoadError where the file is missing, damaged or for another machine.
    """
    if not isinstance(path, str | os.PathLike):
        raise LoadError(
            f"load takes the path of a compiled file, e.g. 'model.so', not {type(path).__name__}"
            f"{foreign_object(path)}"
        )
    place = Path(path)
    if fmt not in _FORMATS:
        raise LoadError(f"load_module: fmt={fmt!r}; legal: {', '.join(map(repr, _FORMATS))}")
    if fmt == "tar" or (not fmt and place.suffix == ".tar"):
        with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
            # Once it is mapped, the file is needed no more.
            return _load(unpack_archive(place, Path(folder)), threads)
    return _load(place, threads)


def load(path: str | os.PathLike[str], *, threads: int | None = None) -> Executable:
    """A model that `export_library` wrote, ready to be called; nothing is compiled.

    Gives the kind of executable that was written: a NativeExecutable or a VMExecutable.
    path: a file in .so or .vm, or .tar, which needs a C compiler.
    threads: at most this many, the caller's included; None for all of the process's pool.
    Raises LoadError where the file is missing, damaged, for another machine or no model.
    """
    found = load_module(path, threads=threads)
    if not isinstance(found, Executable):
        raise LoadError(f"{path} holds a tensor program, not a model: {found}\n"
                        "  smelt.runtime.load_module loads it")  # fmt: skip
    return found


def _load(place: Path, threads: int | None) -> Executable | Module:
    with _opened(place) as (file, footer):
        levels = _read_levels(file, footer)
        level = _fitting(levels)
        metadata = levels[level]
        _check_machine(file, metadata)
        constants = metadata.get("weights_offset", 0), metadata.get("weights_bytes", 0)
        weights = _map_weights(place, file, footer, constants)
        code, best = _load_code(place, footer)
        info = best.at(level)
        check_code(metadata, info)
        if metadata.get("kind") == "vm":
            program = read_program(metadata, weights)
            return owning(executable_of(program, metadata, info.program, weights, code, threads))
    exe = NativeExecutable(info.entry, info.plan, metadata, weights, code, threads)
    return Module([TensorFunction(exe, {})]) if metadata.get("kind") == "program" else owning(exe)
