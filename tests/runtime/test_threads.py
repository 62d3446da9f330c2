"""The threads of a process: how many there are, and how callers share them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from smelt.runtime import native
from tests.runtime.conftest import CC, NATIVE, ROOT

pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")
SOURCES = [str(path) for path in sorted(NATIVE.glob("*.c"))]
TASK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)
SECONDS = 30.0
"""How long threads wait for each other before the test has failed."""

# ---- counting -------------------------------------------------------------------------------

GROUPS = "sys/fs/cgroup"


def topology(*cores: str) -> dict[str, str]:
    """The files of CPUs 0, 1, ...: which hardware threads each core has."""
    folder = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    return {folder.format(n): siblings for n, siblings in enumerate(cores)}


def v2(path: str, **quotas: str) -> dict[str, str]:
    """A process in one cgroup of version 2; `/` in the names of quotas is written `_`."""
    files = {f"{GROUPS}/{k.replace('_', '/')}/cpu.max": q for k, q in quotas.items()}
    return {"proc/self/cgroup": f"0::{path}\n", **files}


def v1(path: str, folder: str, quota: int, period: int = 100000) -> dict[str, str]:
    """A process in cgroups of version 1, one of which has a quota."""
    return {
        "proc/self/cgroup": f"4:memory:/elsewhere\n2:cpu,cpuacct:{path}\n0::{path}\n",
        f"{GROUPS}/cpu{folder}/cpu.cfs_quota_us": f"{quota}\n",
        f"{GROUPS}/cpu{folder}/cpu.cfs_period_us": f"{period}\n",
        f"{GROUPS}/memory/elsewhere/cpu.max": "100000 100000\n",
    }


CASES: dict[str, tuple[dict[str, str], set[int], int]] = {
    "no files": ({}, {0, 1, 5}, 3),
    "beyond the first word": ({}, {3, 64, 1023}, 3),
    "two threads a core, neighbours": (topology("0-1", "0-1", "2-3", "2-3"), {0, 1, 2, 3}, 2),
    "two threads a core, apart": (topology("0,2", "1,3", "0,2", "1,3"), {0, 1, 2, 3}, 2),
    "four threads a core": (topology(*["0-1,4-5"] * 2), {0, 1, 4, 5}, 1),
    "only second threads": (topology("0,2", "1,3", "0,2", "1,3"), {2, 3}, 2),
    "a damaged list": (topology("0-", "no"), {0, 1}, 2),
    "version 2": (v2("/a", a="200000 100000\n"), set(range(8)), 2),
    "rounded up": (v2("/a", a="210000 100000\n"), set(range(8)), 3),
    "less than one": (v2("/a", a="5000 100000\n"), set(range(8)), 1),
    "no quota": (v2("/a", a="max 100000\n"), set(range(8)), 8),
    "more than there are": (v2("/a", a="900000 100000\n"), set(range(8)), 8),
    "a parent has less": (
        v2("/a/b/c", a_b_c="max 100000", a_b="300000 100000", a="400000 100000"),
        set(range(8)),
        3,
    ),
    "a neighbour has less": (v2("/a/b", a_c="100000 100000"), set(range(8)), 8),
    "the folder is the container's": (
        {**v2("/docker/x"), f"{GROUPS}/cpu.max": "200000 100000\n"},
        set(range(8)),
        2,
    ),
    "version 2 beside version 1": (v2("/a", unified_a="200000 100000\n"), set(range(8)), 2),
    "version 1": (v1("/a/b", "/a/b", 250000), set(range(8)), 3),
    "version 1, its parent": (v1("/a/b", "/a", 250000, 50000), set(range(8)), 5),
    "version 1, no quota": (v1("/a", "/a", -1), set(range(8)), 8),
    "quota and cores": (
        {**topology("0-1", "0-1", "2-3", "2-3"), **v2("/a", a="300000 100000\n")},
        {0, 1, 2, 3},
        2,
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="files of Linux")
@pytest.mark.parametrize("case", CASES)
def test_what_a_process_may_use(case: str, tmp_path: Path) -> None:
    files, allowed, expected = CASES[case]
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    cpus = (ctypes.c_ulong * (1024 // (8 * ctypes.sizeof(ctypes.c_ulong))))()
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    for cpu in allowed:
        cpus[cpu // bits] |= 1 << cpu % bits
    assert native.library().smelt_count_cpus(str(tmp_path).encode(), cpus) == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_the_pool_has_as_many_threads_as_python_counts() -> None:
    program = (
        "import os; from smelt.runtime import native\n"
        "os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{}])\n"
        "print(native.cores(), native.num_threads())"
    )
    environment = {k: v for k, v in os.environ.items() if k != "SMELT_NUM_THREADS"}
    for limit, most in (("1", 1), ("None", os.cpu_count() or 1)):
        done = subprocess.run(
            [sys.executable, "-c", program.format(limit)],
            env={**environment, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        cores, threads = map(int, done.stdout.split())
        assert cores == threads <= most


# ---- sharing --------------------------------------------------------------------------------


class Pool:
    """A pool of its own, whose tasks are Python functions of their index."""

    def __init__(self, threads: int) -> None:
        self.library = native.library()
        make = self.library.smelt_pool_create
        make.restype = ctypes.c_void_p
        self.address = ctypes.c_void_p(make(threads))

    def launch(self, task: Callable[[int], object], count: int, threads: int | None = None) -> int:
        """Run `task` for all indices, on at most so many threads; 1 where one returned a value."""

        def run(_closure: object, index: int) -> int:
            return 0 if task(index) is None else 1

        arguments = TASK(run), None, ctypes.c_int64(count)
        if threads is None:
            return int(self.library.smelt_pool_for(self.address, *arguments))
        view = native.PoolView(self.address, threads)
        return int(self.library.smelt_pool_view_for(ctypes.byref(view), *arguments))


@pytest.fixture
def pool() -> Iterator[Pool]:
    """Three workers beside the callers."""
    made = Pool(4)
    yield made
    made.library.smelt_pool_destroy(made.address)


def at_once(launches: list[Callable[[], int]]) -> list[int]:
    """Their statuses; each is called by a thread of its own."""
    with ThreadPoolExecutor(len(launches)) as callers:
        return [f.result(2 * SECONDS) for f in [callers.submit(x) for x in launches]]


@pytest.mark.parametrize("threads", [None, 2], ids=["whole pool", "views of two threads"])
def test_callers_share_the_workers(pool: Pool, threads: int | None) -> None:
    """Six tasks of three launches wait for each other: three callers and all three workers."""
    meeting = threading.Barrier(6)
    names: set[int] = set()

    def task(_index: int) -> None:
        names.add(threading.get_ident())
        meeting.wait(SECONDS)

    assert at_once([lambda: pool.launch(task, 2, threads)] * 3) == [0, 0, 0]
    assert len(names) == 6


def test_a_task_that_launches_has_help(pool: Pool) -> None:
    """Two tasks launch two tasks each, and these four wait for each other."""
    meeting = threading.Barrier(4)

    def inner(_index: int) -> None:
        meeting.wait(SECONDS)

    def outer(_index: int) -> int | None:
        return pool.launch(inner, 2) or None

    assert pool.launch(outer, 2) == 0


def test_a_view_limits_its_threads(pool: Pool) -> None:
    names: set[int] = set()
    begun = threading.Barrier(2)

    def task(index: int) -> None:
        names.add(threading.get_ident())
        if index < 2:
            begun.wait(SECONDS)

    for _ in range(20):
        names.clear()
        assert pool.launch(task, 50, threads=2) == 0
        assert len(names) == 2


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_workers_keep_their_affinity(pool: Pool) -> None:
    """A worker may leave its caller's CPU, but is not kept away from it."""
    meeting = threading.Barrier(4)
    workers: set[int] = set()

    def task(_index: int) -> None:
        workers.add(threading.get_native_id())
        meeting.wait(SECONDS)

    assert pool.launch(task, 4) == 0
    workers.remove(threading.get_native_id())
    allowed = os.sched_getaffinity(0)
    for _ in range(200):
        assert pool.launch(lambda _: None, 4) == 0
    end = time.monotonic() + SECONDS  # one that moves just now has another affinity for a moment
    while any(os.sched_getaffinity(w) != allowed for w in workers) and time.monotonic() < end:
        time.sleep(0.01)
    assert [os.sched_getaffinity(w) for w in workers] == [allowed] * 3


def test_a_failure_is_of_its_own_launch(pool: Pool) -> None:
    meeting = threading.Barrier(4)

    def launch(fails: bool) -> int:
        def task(index: int) -> int | None:
            meeting.wait(SECONDS)
            return 1 if fails and index else None

        return pool.launch(task, 2)

    assert at_once([lambda: launch(False), lambda: launch(True)]) == [0, 1]


def test_more_callers_than_launches_at_once(pool: Pool) -> None:
    """Twenty callers, of whom most find no slot, and do their tasks alone."""
    hits = [[0] * 5 for _ in range(20)]
    begun = threading.Barrier(20)

    def launch(caller: int) -> int:
        def task(index: int) -> None:
            hits[caller][index] += 1
            if index == 0:
                begun.wait(SECONDS)

        return pool.launch(task, 5)

    assert at_once([partial(launch, n) for n in range(20)]) == [0] * 20
    assert hits == [[1] * 5] * 20


# ---- races ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the stress program, built with the thread sanitizer."""
    folder = tmp_path_factory.mktemp("sanitized")
    empty = folder / "empty.c"
    empty.write_text("int main(void) { return 0; }\n")
    flags = ["-std=c11", "-O1", "-g", "-fsanitize=thread", f"-I{NATIVE}"]

    def built(name: str, *sources: str) -> list[str]:
        command = [str(CC), *flags, *sources, "-o", str(folder / name), "-lpthread", "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
        return [str(folder / name)]

    try:
        subprocess.run(built("empty", str(empty)), check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        why = (error.stderr or b"no message").decode(errors="replace").strip().splitlines()[-1]
        pytest.skip(f"{CC} -fsanitize=thread does not work here: {why}")
    return built("stress", str(ROOT / "tests/native/stress_pool.c"), *SOURCES)


@pytest.mark.parametrize("threads", [2, 5])
def test_no_data_races(sanitized: list[str], threads: int) -> None:
    done = subprocess.run(
        [*sanitized, str(threads), "3000", "0"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1"},
    )
    assert (done.returncode, done.stderr) == (0, "")
