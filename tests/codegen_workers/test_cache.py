"""The cache on disk: what it keeps, and what it does when the disk does not."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from smelt.codegen import cache as module
from smelt.codegen.cache import CacheInfo, ObjectCache, cache_key
from smelt.ir.errors import CompileError, InternalError
from smelt.ir.folders import cache_folder

ROOT = Path(__file__).resolve().parents[2]
KEY = "ab" * 32


def entry(folder: Path, key: str = KEY) -> Path:
    return folder / "objects" / key[:2] / key


def keys(count: int) -> list[str]:
    return [cache_key(str(i)) for i in range(count)]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SMELT_CACHE", "SMELT_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


def test_what_is_put_is_found_by_other_caches_too(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    assert cache.get(KEY) is None
    for data in (b"", b"\0" * 10, os.urandom(1 << 20)):
        cache.put(KEY, data)
        assert cache.get(KEY) == ObjectCache(tmp_path).get(KEY) == data
    assert [p.name for p in (tmp_path / "objects" / "ab").iterdir()] == [KEY]


def test_the_environment_says_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "xdg" / "smelt"
    assert ObjectCache().folder == tmp_path / "xdg" / "smelt"
    for other in ("", "not/absolute"):
        monkeypatch.setenv("XDG_CACHE_HOME", other)
        assert cache_folder() == Path.home() / ".cache" / "smelt"
    monkeypatch.setenv("SMELT_CACHE_DIR", str(tmp_path / "named"))
    assert ObjectCache().folder == tmp_path / "named"
    assert ObjectCache(tmp_path / "given").folder == tmp_path / "given"


def test_without_a_home_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    cache = ObjectCache()
    cache.put(KEY, b"data")
    assert (cache.get(KEY), cache.folder) == (None, None)


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SMELT_CACHE", "0")
    for cache in (ObjectCache(), ObjectCache(tmp_path / "given")):
        cache.put(KEY, b"data")
        assert cache.get(KEY) is None
        assert cache.info() == cache.clear() == CacheInfo(None, 0, 0)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("SMELT_CACHE", "no")
    with pytest.raises(CompileError) as raised:
        ObjectCache()
    assert str(raised.value) == "environment variable SMELT_CACHE='no' is neither 0 nor 1"


def flip(data: bytes) -> bytes:
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: b"",
        lambda d: d[:5],
        lambda d: d[:-1],
        flip,
        lambda d: b"x" + d[1:],
        lambda d: d * 2,
    ],
)
def test_damage_is_a_miss_and_is_repaired(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    cache = ObjectCache(tmp_path)
    cache.put(KEY, b"some data")
    entry(tmp_path).write_bytes(damage(entry(tmp_path).read_bytes()))
    assert cache.get(KEY) is None
    assert not entry(tmp_path).exists()
    cache.put(KEY, b"some data")
    assert cache.get(KEY) == b"some data"


def test_an_entry_under_another_key_is_a_miss(tmp_path: Path) -> None:
    cache, other = ObjectCache(tmp_path), "ab" + "0" * 62
    cache.put(KEY, b"some data")
    entry(tmp_path).rename(entry(tmp_path, other))
    assert cache.get(other) is None


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "ab" * 7, KEY.upper(), KEY + "/x"])
def test_only_keys_are_keys(tmp_path: Path, key: str) -> None:
    with pytest.raises(InternalError, match="is no key of the cache: cache_key makes them"):
        ObjectCache(tmp_path).get(key)


def test_keys_depend_on_every_part_and_on_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[tuple[str | bytes, ...]] = [
        (),
        ("",),
        ("ab",),
        ("a", "b"),
        ("b", "a"),
        (b"ab",),
        ("ab", ""),
        ("ab\0",),
    ]
    assert len({cache_key(*p) for p in parts}) == len(parts)
    before = cache_key("ab")
    assert before == cache_key("ab")
    monkeypatch.setattr(module, "_compiler", lambda: b"another")
    assert cache_key("ab") != before


def test_a_changed_source_file_is_another_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "smelt"
    for name in ("codegen/cache.py", "ir/node.py", "ir/node.pyc", "codegen/__pycache__/x.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("1")
    monkeypatch.setattr(module, "__file__", str(package / "codegen" / "cache.py"))
    compiler = module._compiler.__wrapped__
    first = compiler()
    (package / "ir/node.pyc").write_text("22")
    (package / "codegen/__pycache__/x.py").write_text("22")
    assert compiler() == first
    (package / "ir/node.py").write_text("22")
    second = compiler()
    os.utime(package / "ir/node.py", (1, 1))
    third = compiler()
    (package / "ir/more.py").touch()
    assert len({first, second, third, compiler()}) == 4


CURES = "name another one (SMELT_CACHE_DIR), or compile without a cache (SMELT_CACHE=0)"


def test_a_named_folder_that_cannot_be_written_is_an_error_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "cache"
    cache = ObjectCache(folder)
    assert cache.get(KEY) is None
    with pytest.raises(CompileError) as raised:
        cache.put(KEY, b"data")
    assert str(raised.value) == (
        f"cannot write to the cache folder {folder}: Not a directory\n  {CURES}"
    )
    cache.put(KEY, b"data")
    assert cache.get(KEY) is None
    assert cache.info().entries == cache.clear().entries == 0


def test_so_is_one_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMELT_CACHE_DIR", "/proc/smelt")
    with pytest.raises(CompileError, match=r"^cannot write to the cache folder /proc/smelt: "):
        ObjectCache().put(KEY, b"data")


def test_the_usual_folder_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            cache = ObjectCache()
            cache.put(KEY, b"data")
            cache.put(KEY, b"data")
    (warning,) = caught
    assert str(warning.message) == (
        f"cannot write to the cache folder {tmp_path}/file/smelt: Not a directory\n  {CURES}"
    )
    assert warning.filename == __file__


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "No space left on device\n  free some space there"),
        (errno.EDQUOT, "Disk quota exceeded\n  free some space there"),
        (errno.EROFS, "Read-only file system\n  make it writable"),
        (errno.EACCES, "Permission denied\n  make it writable"),
    ],
)
def test_a_full_disk_is_told_and_what_is_there_stays_readable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, reason: str
) -> None:
    cache, other = ObjectCache(tmp_path), "cd" * 32
    cache.put(KEY, b"data")
    write = os.write

    def full(file: int, data: bytes) -> int:
        if len(data) > 10:
            return write(file, data[:10])
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(CompileError) as raised:
            cache.put(other, b"more data")
    assert str(raised.value) == (f"cannot write to the cache folder {tmp_path}: {reason}, {CURES}")
    assert cache.get(KEY) == b"data"
    assert cache.get(other) is None
    assert list((tmp_path / "objects" / "cd").iterdir()) == []  # nothing half written


def test_a_really_full_disk() -> None:
    """`/dev/full` as a folder is no folder; a file-size limit is the nearest to a full disk."""
    script = (
        "import resource, signal, sys\n"
        "from smelt.codegen.cache import ObjectCache\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "import tempfile, os\n"
        "with tempfile.TemporaryDirectory() as d:\n"
        "    try:\n"
        "        ObjectCache(d).put('ab' * 32, b'x' * 5000)\n"
        "    except Exception as e:\n"
        "        print(str(e).replace(d, 'D').splitlines()[0])\n"
        "    print([f for _, _, fs in os.walk(d) for f in fs])\n"
    )
    done = python(script)
    assert done.communicate()[0].splitlines() == [
        "cannot write to the cache folder D: File too large",
        "[]",
    ]


def python(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


CONCURRENT = """
import sys, random
from smelt.codegen.cache import ObjectCache
cache = ObjectCache(sys.argv[1], limit=200_000)
chance, hits = random.Random(int(sys.argv[2])), 0
for _ in range(1500):
    i = chance.randrange(60)
    key = f"{i:02x}" * 32
    data = cache.get(key)
    if data is None:
        cache.put(key, bytes([i]) * (1000 * (i % 7 + 1)))
    else:
        assert data == bytes([i]) * (1000 * (i % 7 + 1)), i
        hits += 1
print(hits)
"""


def test_several_processes_share_a_folder(tmp_path: Path) -> None:
    processes = [python(CONCURRENT, str(tmp_path), str(n)) for n in range(3)]
    hits = [int(p.communicate(timeout=60)[0]) for p in processes]
    assert all(p.returncode == 0 for p in processes)
    assert min(hits) > 100
    names = [f for _, _, files in os.walk(tmp_path) for f in files]
    assert names
    assert all(re.fullmatch("[0-9a-f]{64}", n) for n in names)


def test_the_oldest_used_go_first(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, limit=10_000)
    names = keys(8)
    for age, key in enumerate(names):
        cache.put(key, b"x" * 1000)
        os.utime(entry(tmp_path, key), (1000 + age, 1000 + age))
    assert cache.get(names[0]) is not None  # used just now
    for key in (late := keys(12)[8:]):
        cache.put(key, b"x" * 1000)
    assert cache.get(names[0]) is not None
    assert cache.get(names[1]) is None
    assert all(cache.get(key) is not None for key in late)
    assert 7_000 <= cache.info().bytes <= 10_000


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, limit=100)
    cache.put(KEY, b"x" * 101)
    assert cache.info().entries == 0


def test_sweeps_are_rare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cache, sweeps = ObjectCache(tmp_path, limit=1_000_000), []
    monkeypatch.setattr(cache, "_sweep", lambda: sweeps.append(1))
    for i in range(1000):
        cache.put(f"{i * 4294967:08x}" + "0" * 56, b"x" * 1000)  # fills it once
    assert 14 <= len(sweeps) <= 18


def test_unfinished_files_of_dead_processes_are_swept(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, limit=1000)
    cache.put(KEY, b"x" * 100)
    old, new = (entry(tmp_path).with_name(f".new-{n}") for n in ("old", "new"))
    for file in (old, new):
        file.touch()
    os.utime(old, (1, time.time() - 4000))
    cache.put(KEY, b"x" * 100)
    assert (old.exists(), new.exists()) == (False, True)


def test_info_and_clear_touch_entries_only(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    for key in keys(5):
        cache.put(key, b"x" * 100)
    (tmp_path / "letter.txt").write_text("mine")
    (tmp_path / "objects" / "note.txt").write_text("mine")
    size = 5 * entry(tmp_path, keys(1)[0]).stat().st_size
    assert cache.info() == CacheInfo(tmp_path, 5, size)
    assert cache.clear() == CacheInfo(tmp_path, 5, size)
    assert cache.info() == CacheInfo(tmp_path, 0, 0)
    assert (tmp_path / "letter.txt").exists()
    assert (tmp_path / "objects" / "note.txt").exists()


def test_a_folder_removed_meanwhile_is_made_again(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "deep" / "down")
    cache.put(KEY, b"1")
    for file in sorted(tmp_path.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    assert cache.get(KEY) is None
    cache.put(KEY, b"2")
    assert cache.get(KEY) == b"2"


def test_what_is_made_is_the_users_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        ObjectCache(tmp_path / "deep" / "down").put(KEY, b"data")
    finally:
        os.umask(old)
    made = entry(tmp_path / "deep" / "down")
    folders = [made.parent, made.parents[1], made.parents[2]]
    assert [f.stat().st_mode & 0o777 for f in (made, *folders)] == [0o600, 0o700, 0o700, 0o700]


@pytest.mark.parametrize("inside", ["", "objects"])
@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_folder_that_others_can_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str, mode: int
) -> None:
    folder = tmp_path / "smelt"
    ObjectCache(folder).put(KEY, b"data")
    place = folder / inside
    place.chmod(mode)
    text = (
        f"the cache folder {folder} is not used, since others can put code there: {place}: "
        f"others may write to it (mode {mode:04o})\n"
        f"  keep them out (chmod -R go-w {folder}), {CURES}"
    )
    cache = ObjectCache(folder)
    with pytest.raises(CompileError) as raised:
        cache.get(KEY)
    assert str(raised.value) == text
    assert cache.get(KEY) is None  # said once
    with pytest.raises(CompileError, match="others can put code there"):
        ObjectCache(folder).put(KEY, b"data")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        usual = ObjectCache()
        assert usual.get(KEY) is None
        usual.put("cd" * 32, b"data")
        assert ObjectCache().get(KEY) is None
    assert [str(w.message) for w in caught] == [text]  # once
    assert not (folder / "objects" / "cd").exists()
    place.chmod(0o755)
    assert ObjectCache(folder).get(KEY) == b"data"


def test_a_folder_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ObjectCache(tmp_path)
    cache.put(KEY, b"data")
    stat, owner = os.stat, os.geteuid() + 1
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda p, **k: _of(stat(p, **k), owner))
        with pytest.raises(CompileError) as raised:
            ObjectCache(tmp_path).get(KEY)
    assert str(raised.value) == (
        f"the cache folder {tmp_path} is not used, since others can put code there: {tmp_path}: "
        f"it belongs to the user {owner}\n  {CURES}"
    )


def _of(status: os.stat_result, owner: int) -> os.stat_result:
    return os.stat_result([owner if i == 4 else v for i, v in enumerate(status)])


def test_entries_of_others_are_misses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ObjectCache(tmp_path)
    place, planted = entry(tmp_path), tmp_path / "planted"
    cache.put(KEY, b"data")
    content = place.read_bytes()
    place.chmod(0o666)
    assert cache.get(KEY) is None
    cache.put(KEY, b"data")
    fstat = os.fstat
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", lambda f: _of(fstat(f), os.geteuid() + 1))
        assert cache.get(KEY) is None
    planted.write_bytes(content)
    place.symlink_to(planted)
    assert cache.get(KEY) is None
    place.unlink()
    os.mkfifo(place)
    assert cache.get(KEY) is None
    cache.put(KEY, b"data")
    assert cache.get(KEY) == b"data"
