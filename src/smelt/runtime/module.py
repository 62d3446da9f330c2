"""Loading an exported library."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.runtime.abi import ABI_VERSION
from smelt.runtime.archive import unpack_archive
from smelt.runtime.errors import LoadError
from smelt.runtime.executable import Executable
from smelt.runtime.linking import FOOTER, MAGIC, SIDECAR_FLAG
from smelt.runtime.native import ModelInfo, missing_features
from smelt.runtime.program import Module, TensorFunction
from smelt.runtime.vm_file import is_archive, load_program

__all__ = ["load_module", "read_metadata"]

# ELF e_machine by platform.machine(); source: elf.h
_MACHINES = {"x86_64": 62, "aarch64": 183, "i686": 3, "armv7l": 40, "riscv64": 243, "ppc64le": 21}


@dataclass(frozen=True)
class _Footer:
    flags: int
    weights_offset: int
    weights_bytes: int
    metadata_offset: int
    metadata_bytes: int
    id: int


def _read_footer(path: Path) -> _Footer:
    """Reads and checks the last bytes of a file."""
    try:
        with open(path, "rb") as file:
            start = file.read(4)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - FOOTER.size))
            data = file.read(FOOTER.size)
    except OSError as error:
        raise LoadError(f"cannot load {path}: {error.strerror}") from None
    if len(data) < FOOTER.size or not data.startswith(MAGIC):
        if start == b"\x7fELF":
            raise LoadError(
                f"cannot load {path}: it is a shared library, but the model at its end is missing\n"
                "  it was not written by smelt's export_library, or was truncated or stripped"
            )
        raise LoadError(
            f"cannot load {path}: it is not a library written by smelt's export_library"
        )
    _, abi, flags, *places, export_id, file_bytes = FOOTER.unpack(data)
    if abi != ABI_VERSION:
        raise LoadError(
            f"cannot load {path}: it has ABI version {abi}, this runtime has {ABI_VERSION}; "
            "export the model again"
        )
    footer = _Footer(flags, places[0], places[1], places[2], places[3], export_id)
    ends = [footer.metadata_offset + footer.metadata_bytes]
    if not flags & SIDECAR_FLAG:
        ends.append(footer.weights_offset + footer.weights_bytes)
    if size != file_bytes or max(ends) + FOOTER.size > size:
        raise LoadError(
            f"cannot load {path}: it has {size} bytes, {file_bytes} expected; it is damaged"
        )
    return footer


def _read_metadata(path: Path, footer: _Footer) -> dict[str, Any]:
    with open(path, "rb") as file:
        file.seek(footer.metadata_offset)
        text = file.read(footer.metadata_bytes)
    try:
        metadata = json.loads(text)
    except ValueError:
        raise LoadError(f"cannot load {path}: its metadata is damaged") from None
    if not isinstance(metadata, dict):
        raise LoadError(f"cannot load {path}: its metadata is damaged")
    return metadata


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What an exported library says about itself; no code of it is loaded."""
    return _read_metadata(Path(path), _read_footer(Path(path)))


def _check_machine(path: Path, metadata: dict[str, Any]) -> None:
    """Refuses code for other machines before any of it is loaded."""
    with open(path, "rb") as file:
        head = file.read(20)
    machine = int.from_bytes(head[18:20], "little")
    here = platform.machine()
    if head.startswith(b"\x7fELF") and machine != _MACHINES.get(here, machine):
        names = {number: name for name, number in _MACHINES.items()}
        raise LoadError(
            f"cannot load {path}: compiled for {names.get(machine, f'ELF machine {machine}')}, "
            f"this machine is {here}"
        )
    missing = missing_features(list(metadata.get("features", ())))
    if missing:
        raise LoadError(
            f"cannot load {path}: compiled for a CPU with {', '.join(missing)}, "
            f"which this CPU lacks\n  target: {metadata.get('target', 'unknown')}"
        )


# ---- code and constants --------------------------------------------------------------------------


def _open_code(path: Path, name: Path) -> tuple[ctypes.CDLL, ModelInfo]:
    try:
        code = ctypes.CDLL(str(name))
        return code, ModelInfo.in_dll(code, "smelt_model_descriptor")
    except (OSError, ValueError) as error:
        raise LoadError(f"cannot load {path}: {error}") from None


def _load_code(path: Path, footer: _Footer) -> tuple[ctypes.CDLL, ModelInfo]:
    code, info = _open_code(path, path.resolve())
    if info.id == footer.id:
        return code, info
    # The system's loader knows libraries by name, and this name is a file that was replaced
    # since: another name makes it look again.
    with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
        alias = Path(folder) / path.name
        alias.symlink_to(path.resolve())
        code, info = _open_code(path, alias)
    if info.id != footer.id:
        raise LoadError(f"cannot load {path}: its code and its constants do not belong together")
    return code, info


def _map_weights(path: Path, footer: _Footer) -> npt.NDArray[np.uint8] | None:
    if footer.weights_bytes == 0:
        return None
    source = path
    if footer.flags & SIDECAR_FLAG:
        source = path.with_name(path.name + ".weights")
        if not source.exists():
            raise LoadError(f"cannot load {path}: its constants, {source}, are missing")
        if _read_footer(source).id != footer.id:
            raise LoadError(f"cannot load {path}: {source} belongs to another export")
    with open(source, "rb") as file:
        try:
            mapping = mmap.mmap(
                file.fileno(),
                footer.weights_bytes,
                access=mmap.ACCESS_READ,
                offset=footer.weights_offset,
            )
        except (OSError, ValueError) as error:
            raise LoadError(f"cannot load {path}: mapping its constants: {error}") from None
    return np.frombuffer(mapping, np.uint8)


_FORMATS = ("", "so", "tar")


def load_module(path: str | os.PathLike[str], fmt: str = "", *, threads: int | None = None) -> Any:
    """Loads a library written by `export_library`; nothing is compiled.

    Gives an Executable for a model, a Module for a tensor program, a VMExecutable for a program of
    the virtual machine.
    fmt: "so" or "tar" (objects, which a C compiler links now); "": as the name ends.
    threads: at most this many, the caller's included; None for all of the process's pool.
    """
    place = Path(path)
    if fmt not in _FORMATS:
        raise LoadError(f"load_module: fmt={fmt!r}; legal: {', '.join(map(repr, _FORMATS))}")
    if not fmt and is_archive(place):
        return load_program(place, lambda segment: load_module(segment, threads=threads))
    if fmt == "tar" or (not fmt and place.suffix == ".tar"):
        with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
            # Once it is mapped, the file is needed no more.
            return _load(unpack_archive(place, Path(folder)), threads)
    return _load(place, threads)


def _load(place: Path, threads: int | None) -> Any:
    footer = _read_footer(place)
    metadata = _read_metadata(place, footer)
    _check_machine(place, metadata)
    code, info = _load_code(place, footer)
    weights = _map_weights(place, footer)
    exe = Executable(info.entry, info.plan, metadata, weights, code, threads)
    return Module([TensorFunction(exe, {})]) if metadata.get("kind") == "program" else exe
