"""Objects on disk, found by what they were made from.

    cache = ObjectCache()
    key = cache_key("object", ir_text, str(target))
    data = cache.get(key)
    if data is None:
        data = compile_it()
        cache.put(key, data)

Entries are written whole under another name and then renamed, and carry a checksum, so that
several processes may use one folder, and damage is a miss. The oldest-used go first where the
folder grows too large. `SMELT_CACHE_DIR` names the folder, `SMELT_CACHE=0` switches it off.

What is read is run: whoever can write an entry runs code as its reader. So a folder is used, and an
entry read, only where it belongs to the user or to root and nobody else can write it; what is made
is the user's alone.
"""

from __future__ import annotations

import errno
import importlib.util
import itertools
import os
import re
import stat
import struct
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path

from smelt.codegen.frames import write_all
from smelt.ir.errors import CompileError, InternalError
from smelt.ir.folders import cache_folder, cache_is_on

_MAGIC = b"smelt/1\n"
_HEAD = len(_MAGIC) + 16
_KEY = re.compile(r"[0-9a-f]{16,128}")
_LENGTH = struct.Struct("<cQ")
_SWEEPS = 16  # as many sweeps, on average, while a folder fills up once
_KEPT = 0.8  # the share of the limit that a sweep leaves
_STALE_SECONDS = 3600.0  # after which an unfinished file is a dead process's
_REASONS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space there"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "make it writable"),
}
_names = itertools.count()
_warned: set[Path] = set()


def cache_key(*parts: bytes | str) -> str:
    """The name of what these parts, this smelt and this LLVM make."""
    digest = blake2b(_compiler(), digest_size=32)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(_LENGTH.pack(b"s" if isinstance(part, str) else b"b", len(data)))
        digest.update(data)
    return digest.hexdigest()


@cache
def _compiler() -> bytes:
    """What stands for smelt's own source (names, sizes, times) and the version of llvmlite."""
    digest = blake2b(digest_size=16)
    root = Path(__file__).resolve().parents[1]
    for name, status in sorted(_sources(str(root))):
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    found = importlib.util.find_spec("llvmlite")  # which does not import it
    if found is not None and found.origin:
        digest.update(Path(found.origin).with_name("_version.py").read_bytes())
    return digest.digest()


def _sources(folder: str, inside: str = "") -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".so")):
                yield inside + entry.name, entry.stat()
            elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                yield from _sources(entry.path, f"{inside}{entry.name}/")


@dataclass(frozen=True)
class CacheInfo:
    """What a cache holds."""

    folder: Path | None
    entries: int
    bytes: int


class ObjectCache:
    """Bytes in a folder, by key. Without a folder given, the environment's, which may be none."""

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, limit: int = 2 << 30):
        """Nothing is touched before the first `get` or `put`; `limit` is in bytes."""
        named = folder is not None or bool(os.environ.get("SMELT_CACHE_DIR"))
        at = Path(folder).absolute() if folder is not None and cache_is_on() else cache_folder()
        self.folder, self.limit = at, limit
        self._objects = str(at / "objects") if at is not None else None
        self._named = named  # by the user, who is told by an error where it cannot be written
        self._writes = at is not None
        self._trusted: bool | None = None  # not looked at yet

    def get(self, key: str) -> bytes | None:
        """What was put under a key; none if nothing was, or if it is damaged or somebody else's.

        A folder that others can write is left alone, as in `put`.
        """
        path = self._path(key)
        if path is None or not self._is_private():
            return None
        try:
            with open(path, "rb", buffering=0, opener=_open) as file:
                status = os.fstat(file.fileno())
                foreign = _foreign(status) or not stat.S_ISREG(status.st_mode)
                text = b"" if foreign else file.readall()
                with suppress(OSError):
                    os.utime(file.fileno())  # used just now
        except OSError:
            return None
        data = text[_HEAD:]
        if text[:_HEAD] == _head(key, data):
            return data
        with suppress(OSError):
            os.unlink(path)
        return None

    def put(self, key: str, data: bytes) -> None:
        """Keep data under a key.

        Where the folder cannot be written, or others can write it, nothing is from then on: a
        folder that the user has named is a CompileError, the usual one a warning.
        """
        path = self._path(key)
        if path is None or not self._writes or len(data) > self.limit or not self._is_private():
            return
        try:
            _write(path, _head(key, data) + data)
        except OSError as e:
            self._writes = False
            self._complain(f"cannot write to the cache folder {self.folder}: {_why(e)}",
                           _REASONS.get(e.errno or 0), e)  # fmt: skip
            return
        # By chance, but by the same chance for the same key: a sweep reads the whole folder.
        if int(key[:8], 16) * self.limit < (len(data) * _SWEEPS) << 32:
            self._sweep()

    def info(self) -> CacheInfo:
        """How much there is."""
        sizes = [size for _, size, _ in self._entries()]
        return CacheInfo(self.folder, len(sizes), sum(sizes))

    def clear(self) -> CacheInfo:
        """Remove every entry, and nothing else that may be in the folder; what was removed."""
        count = total = 0
        for _, size, path in self._entries(unfinished=True):
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue
            except OSError as e:
                raise CompileError(f"cannot clear the cache folder {self.folder}: {_why(e)}") from e
            count, total = count + 1, total + size
        return CacheInfo(self.folder, count, total)

    def _path(self, key: str) -> str | None:
        if not _KEY.fullmatch(key):
            raise InternalError(f"{key!r} is no key of the cache: cache_key makes them")
        return None if self._objects is None else f"{self._objects}/{key[:2]}/{key}"

    def _is_private(self) -> bool:
        """Whether nobody else can have written what is there; said once where somebody can."""
        if self._trusted is None:
            problem = next(filter(None, map(_shared, (str(self.folder), str(self._objects)))), None)
            self._trusted = problem is None
            if problem is not None:
                # Whoever it belongs to has to do something else.
                cure = f"keep them out (chmod -R go-w {self.folder})" if "mode" in problem else None
                self._complain(f"the cache folder {self.folder} is not used, since others can "
                               f"put code there: {problem}", cure)  # fmt: skip
        return self._trusted

    def _complain(
        self, problem: str, cure: str | None = None, error: OSError | None = None
    ) -> None:
        cures = [cure] if cure else []
        cures += ["name another one (SMELT_CACHE_DIR)", "compile without a cache (SMELT_CACHE=0)"]
        text = f"{problem}\n  {', '.join(cures[:-1])}, or {cures[-1]}"
        if self._named:
            raise CompileError(text) from error
        if self.folder is not None and self.folder not in _warned:
            _warned.add(self.folder)
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def _entries(self, unfinished: bool = False) -> Iterator[tuple[float, int, str]]:
        """Last use, size and path of each entry."""
        for shelf in _listed(self._objects):
            for entry in _listed(shelf.path):
                if _KEY.fullmatch(entry.name) or (unfinished and entry.name.startswith(".new-")):
                    with suppress(OSError):
                        status = entry.stat()
                        yield status.st_mtime, status.st_size, entry.path

    def _sweep(self) -> None:
        """Remove the oldest-used where there is too much, and what dead processes have left."""
        entries = sorted(self._entries(unfinished=True))
        total, now = sum(size for _, size, _ in entries), time.time()
        kept = self.limit * _KEPT if total > self.limit else total
        for used, size, path in entries:
            stale = "/.new-" in path and used < now - _STALE_SECONDS
            if stale or (total > kept and "/.new-" not in path):
                with suppress(OSError):
                    os.unlink(path)
                total -= size


def _head(key: str, data: bytes) -> bytes:
    """What stands before an entry: a copy under another key is as wrong as a changed byte."""
    digest = blake2b(key.encode(), digest_size=16)
    digest.update(data)
    return _MAGIC + digest.digest()


def _write(path: str, text: bytes) -> None:
    """Write a file that is there wholly or not at all."""
    folder, name = os.path.split(path)
    new = f"{folder}/.new-{name[:16]}-{os.getpid()}-{next(_names)}-{time.time_ns():x}"
    try:
        file = _create(new)
    except FileNotFoundError:
        make_private(folder, 3)  # the cache's own, `objects`, the shelf
        file = _create(new)
    try:
        try:
            write_all(file, text)
        finally:
            os.close(file)
        os.replace(new, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(new)
        raise


def make_private(folder: str, levels: int) -> None:
    """Makes a folder; it and those above it, in so many levels, are the user's alone if new."""
    above = os.path.dirname(folder)
    if levels > 1:
        make_private(above, levels - 1)
    else:
        os.makedirs(above, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)


def _create(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _foreign(status: os.stat_result) -> str | None:
    """Who else than the user and root can write a file; None: nobody."""
    if status.st_uid not in (0, os.geteuid()):
        return f"it belongs to the user {status.st_uid}"
    if status.st_mode & 0o022:
        return f"others may write to it (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def _shared(folder: str) -> str | None:
    """What is wrong with a folder that is there; None: nothing."""
    try:
        who = _foreign(os.stat(folder))
    except OSError:
        return None
    return who and f"{folder}: {who}"


def _listed(folder: str | None) -> list[os.DirEntry[str]]:
    if folder is None:
        return []
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _why(error: OSError) -> str:
    return error.strerror or str(error)
