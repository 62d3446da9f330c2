"""Files that are written whole or not at all; devices and pipes are written to, never replaced."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from smelt.runtime.compilers import machine_of
from smelt.runtime.errors import ExportError

_LIBRARY = (".so", ".tar"), "a shared library, e.g. model.so, or model.tar"
_OF_WINDOWS = (".dll", ".tar"), "a shared library of Windows, e.g. model.dll, or model.tar"
_CODE = (".o",), "code and constants alone, model.o"

PROGRAM = (".so", ".vm", ".tar"), "a program for load_module, e.g. model.so, model.vm or model.tar"
"""What a program for the virtual machine is written as."""


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a device, a pipe or an open file of a process, not a file's place."""
    absolute = os.path.abspath(path)
    if absolute.startswith(("/dev/fd/", "/dev/std", "/proc/")):
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def check_target(path: object, endings: Sequence[str] = (), legal: str = "") -> None:
    """ExportError where a file cannot be written, or where its name's ending means nothing.

    endings  those that mean something; none: any
    legal    what the error says would be legal
    """
    if not isinstance(path, str | os.PathLike):
        kind = type(path).__name__
        raise ExportError(f"cannot write to a {kind}; give the path of a file, e.g. 'model.so'")
    target = Path(path)
    if is_special(target):
        return
    if endings and target.suffix not in endings:
        what = f"{target.suffix} files" if target.suffix else "files without an ending"
        raise ExportError(f"cannot write {target}: {what} cannot be written; legal: {legal}")
    if target.is_dir():
        raise ExportError(f"cannot write {target}: it is a folder")
    if not target.parent.is_dir():
        raise ExportError(f"cannot write {target}: the folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise ExportError(f"cannot write {target}: the folder {target.parent} is not writable")


def library_kind(triple: str = "") -> tuple[tuple[str, ...], str]:
    """What a model is written as for the machine of a triple ("": this one): the endings, and
    what an error says of them."""
    return _OF_WINDOWS if machine_of(triple).system == "windows" else _LIBRARY


def check_library(path: object, triple: str = "", *, code: bool = False, vm: bool = False) -> None:
    """`check_target` of a model for the machine of a triple; "": for this one.

    code  whether it may be an object file, too; vm: or a program for the virtual machine
    """
    endings, legal = library_kind(triple)
    if code:
        endings, legal = (*endings, *_CODE[0]), f"{legal}, or {_CODE[1]}"
    given = isinstance(path, str | os.PathLike) and not is_special(path)
    suffix = os.path.splitext(str(path))[1] if given else ""
    if suffix in {".so", ".dll"} - {*endings}:
        whose = "Windows" if suffix == ".dll" else "Linux and macOS"
        raise ExportError(
            f"cannot write {path}: {suffix} files are libraries of {whose}, and the model is "
            f"compiled for {triple or 'this machine'}; legal: {legal}"
        )
    check_target(path, (*endings, ".vm") if vm else endings, legal)


def write_file(
    path: str | os.PathLike[str], write: Callable[[BinaryIO], object], mode: int = 0o666
) -> None:
    """A file with what `write` writes; what fails leaves the place as it was. Raises ExportError.

    mode  the file's permissions, less what the user's umask takes
    """
    check_target(path)
    try:
        if is_special(path):
            with tempfile.TemporaryFile() as made, open(path, "wb") as out:
                write(made)
                made.seek(0)
                shutil.copyfileobj(made, out)
            return
        target = Path(os.path.realpath(path))  # the file behind a link, not the link
        # No name that others could foresee, and no file that is there: the folder may be shared.
        fresh = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
        try:
            opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with open(opened, "wb") as file:
                write(file)
            os.replace(fresh, target)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise ExportError(f"cannot write {path}: {error.strerror or error}") from None
