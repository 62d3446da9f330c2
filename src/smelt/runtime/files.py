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

from smelt.runtime.errors import ExportError

LIBRARY = (".so", ".tar"), "a shared library, e.g. model.so, or model.tar"
"""What a model is written as: the endings, and what an error says of them."""

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
