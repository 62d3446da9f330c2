"""Worker processes: what they bring back, how they die, and what is left of them."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smelt.codegen import worker_process
from smelt.codegen.frames import frame, read_frame
from smelt.codegen.workers import WorkerPool, default_pool
from smelt.ir.errors import CompileError, InternalError, ScheduleError
from tests.codegen_workers import jobs

ROOT = Path(__file__).resolve().parents[2]
PATH = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
HERE = "tests.codegen_workers.jobs:"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SMELT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    with WorkerPool(2, crashes=tmp_path_factory.mktemp("crashes")) as made:
        yield made


def one(pool: WorkerPool, function: str, *arguments: Any) -> Any:
    return pool.submit(HERE + function, arguments, "kernel conv1").result()


def gone(pid: int, seconds: float = 5.0) -> bool:
    """Whether a process is no more, or is a zombie of somebody else's."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if " Z " in Path(f"/proc/{pid}/stat").read_text():
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def run(*arguments: str, path: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_frames_are_cut_out_of_any_pieces() -> None:
    stream = frame(1, b"one") + frame(2, b"") + frame(3, b"x" * 5000)
    for step in (1, 7, 100_000):
        source, sink = os.pipe()

        def write(sink: int = sink, step: int = step) -> None:
            for at in range(0, len(stream), step):
                os.write(sink, stream[at : at + step])
            os.close(sink)

        writer = threading.Thread(target=write)
        writer.start()
        found = [read_frame(source) for _ in range(3)]
        assert found == [(1, b"one"), (2, b""), (3, b"x" * 5000)]
        with pytest.raises(EOFError):
            read_frame(source)
        writer.join()
        os.close(source)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_map_keeps_the_order_and_tells_of_progress(count: int) -> None:
    told: list[tuple[int, int]] = []
    with WorkerPool(count) as pool:
        names = [f"job {i}" for i in range(20)]
        work = [(i,) for i in range(20)]
        result = pool.map(HERE + "double", work, names, lambda *at: told.append(at))
    assert result == [2 * i for i in range(20)]
    assert told[-1] == (20, 20)
    assert told == sorted(set(told))


def test_no_jobs_are_no_work() -> None:
    with WorkerPool(2) as pool:
        assert pool.map(HERE + "double", [], []) == []
        assert pool.pids == []


def test_large_payloads_pass(pool: WorkerPool) -> None:
    data = os.urandom(5 << 20)
    results = pool.map(HERE + "echo", [(data,)] * 6, ["big"] * 6)
    assert all(r == data for r in results)


def test_jobs_go_in_order_and_both_workers_work() -> None:
    with WorkerPool(2) as pool:
        pool.map(HERE + "nap", [(0.3,), (0.3,)], ["a", "b"])  # both run
        pids = pool.map(HERE + "nap", [(s,) for s in (1.0, 0.05, 0.05, 0.05)], ["nap"] * 4)
    assert len(set(pids)) == 2
    assert pids.count(pids[0]) == 1  # while the other worker did the others


def test_smelts_errors_travel_as_they_are(pool: WorkerPool) -> None:
    with pytest.raises(ScheduleError) as raised:
        one(pool, "refuse")
    assert str(raised.value) == "split('i', 4): no loop 'i'"


@pytest.mark.parametrize("count", [0, 1])
def test_other_errors_become_internal_ones_with_their_trace(count: int) -> None:
    with WorkerPool(count) as pool, pytest.raises(InternalError) as raised:
        one(pool, "stumble")
    lines = str(raised.value).splitlines()
    assert lines[0] == "kernel conv1: ValueError: bad"
    assert lines[1] == "  Traceback (most recent call last):"
    assert lines[-1] == "  ValueError: bad"
    assert any("in stumble" in line for line in lines)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("picky", "kernel conv1: Picky: odd at conv1"),
        ("leave_politely", "kernel conv1: SystemExit: 7"),
        ("missing", "kernel conv1: AttributeError: module 'tests.codegen_workers.jobs' has no"),
        ("unpicklable", "kernel conv1: "),
    ],
)
def test_odd_errors_are_answers_too(pool: WorkerPool, function: str, text: str) -> None:
    with pytest.raises(InternalError, match=f"^{re.escape(text)}"):
        one(pool, function)
    assert one(pool, "double", 4) == 8


def test_a_job_that_cannot_be_sent_says_so(pool: WorkerPool) -> None:
    with pytest.raises(InternalError, match=r"^kernel conv1: the job cannot be sent to a worker: "):
        pool.submit(HERE + "double", (lambda: 1,), "kernel conv1")


def test_the_first_error_is_raised_after_all_jobs_and_names_the_others(pool: WorkerPool) -> None:
    done: list[int] = []
    names = ["a", "b", "c"]
    with pytest.raises(InternalError, match=r"^b: TypeError") as raised:
        pool.map(HERE + "double", [(1,), (None,), (None,)], names, lambda n, _: done.append(n))
    assert done[-1] == 3
    assert raised.value.__notes__ == ["failed too: c"]


def test_prints_do_not_disturb(pool: WorkerPool) -> None:
    assert one(pool, "chat") == "nothing to read"
    assert one(pool, "double", 2) == 4


def test_workers_have_one_thread_and_inherit_no_files(pool: WorkerPool, tmp_path: Path) -> None:
    with open(tmp_path / "open", "w") as file:
        os.set_inheritable(file.fileno(), True)
        with WorkerPool(1) as fresh:
            assert one(fresh, "descriptors") == []
    assert one(pool, "threads") == ("1", "1")
    assert one(pool, "ignores_interrupt")


def test_an_aborting_worker_is_an_error_that_names_job_signal_and_file(tmp_path: Path) -> None:
    with WorkerPool(2, crashes=tmp_path / "crashes") as pool:
        good = [pool.submit(HERE + "double", (i,), f"good {i}") for i in range(10)]
        bad = pool.submit(HERE + "abort", (), "kernel conv1/relu")
        with pytest.raises(InternalError) as raised:
            bad.result()
        assert [job.result() for job in good] == [2 * i for i in range(10)]
        assert one(pool, "double", 21) == 42
    (saved,) = (tmp_path / "crashes").glob("*.job")
    assert re.fullmatch(r"kernel_conv1_relu-[0-9a-f]{8}\.job", saved.name)
    assert str(raised.value) == (
        "kernel conv1/relu: its worker process died of SIGABRT\n"
        "  LLVM ERROR: Cannot select: a thing\n"
        f"  the job is saved in {saved}\n"
        f"  to repeat it: python -m smelt.codegen.worker {saved}"
    )
    assert pickle.loads(saved.read_bytes()) == (HERE + "abort", (), "kernel conv1/relu")
    assert "in abort" in saved.with_suffix(".log").read_text()
    again = run("-m", "smelt.codegen.worker", str(saved), path=PATH, cwd=tmp_path)
    assert again.returncode == -signal.SIGABRT


def test_a_crash_is_told_where_nothing_can_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()

    def full(**_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    crashes = tmp_path / "file" / "below"
    with WorkerPool(1, crashes=crashes) as pool, pytest.raises(InternalError) as raised:
        one(pool, "leave")
    assert str(raised.value) == "kernel conv1: its worker process ended with exit code 3"


def test_a_killed_worker_is_replaced_and_its_job_done_again(tmp_path: Path) -> None:
    with WorkerPool(1, crashes=tmp_path) as pool:
        assert one(pool, "kill_once", str(tmp_path / "mark")) == "alive"
    assert not list(tmp_path.glob("*.job"))


def test_a_job_whose_workers_are_killed_twice_is_given_up(tmp_path: Path) -> None:
    with WorkerPool(2, crashes=tmp_path) as pool:
        others = [pool.submit(HERE + "double", (i,), "good") for i in range(10)]
        with pytest.raises(InternalError) as raised:
            one(pool, "kill_always")
        assert [job.result() for job in others] == [2 * i for i in range(10)]
    (saved,) = tmp_path.glob("*.job")
    assert str(raised.value) == (
        "kernel conv1: its worker process was killed twice (SIGKILL), as where memory runs out\n"
        f"  the job is saved in {saved}\n"
        f"  to repeat it: python -m smelt.codegen.worker {saved}"
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_killed_while_idle_is_no_jobs_fault(number: signal.Signals) -> None:
    with WorkerPool(1) as pool:
        first = one(pool, "nap", 0)
        os.kill(first, number)
        assert gone(first)
        second = one(pool, "nap", 0)
        assert second != first


def test_killed_from_outside_amid_many_jobs() -> None:
    with WorkerPool(2) as pool:
        work = [pool.submit(HERE + "nap", (0.02,), f"nap {i}") for i in range(30)]
        victim = work[3].result()
        os.kill(victim, signal.SIGKILL)
        late = {job.result() for job in work[20:]}
        assert all(job.error is None for job in work)
        assert victim not in pool.pids
    assert late


def test_ctrl_c_kills_the_workers_and_the_pool_lives_on() -> None:
    with WorkerPool(2) as pool:
        pids = pool.map(HERE + "nap", [(0.1,), (0.1,)], ["a", "b"])
        timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
        timer.start()
        job = pool.submit(HERE + "nap", (0.0,), "d")
        start = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            pool.map(HERE + "nap", [(30.0,)] * 3, ["x", "y", "z"])
        assert time.perf_counter() - start < 5
        job.result()
        assert all(gone(pid) for pid in pids)
        assert one(pool, "double", 1) == 2


def test_an_error_of_progress_cancels() -> None:
    def stop(done: int, total: int) -> None:
        raise RuntimeError("no more")

    with WorkerPool(1) as pool:
        with pytest.raises(RuntimeError, match="no more"):
            pool.map(HERE + "nap", [(0.0,), (30.0,)], ["a", "b"], stop)
        slow = pool.submit(HERE + "nap", (30.0,), "slow")
        pool.cancel()
        with pytest.raises(CompileError, match=r"^slow: cancelled$"):
            slow.result()


def test_a_closed_pool_leaves_no_process() -> None:
    pool = WorkerPool(2)
    pids = pool.map(HERE + "nap", [(0.1,), (0.1,)], ["a", "b"])
    slow = pool.submit(HERE + "nap", (30.0,), "slow")
    pool.close()
    assert all(gone(pid) for pid in pids)
    with pytest.raises(CompileError, match=r"^slow: cancelled$"):
        slow.result()
    with pytest.raises(InternalError, match=r"^the pool of workers is closed$"):
        pool.submit(HERE + "double", (1,), "late")


def test_warm_imports_ahead_and_starts_every_worker() -> None:
    with WorkerPool(2) as pool:
        start = time.perf_counter()
        pool.warm("wave", "no.such.module")
        assert time.perf_counter() - start < 0.1
        jobs = pool.map(HERE + "knows", [("wave",)] * 4, ["knows"] * 4)
        assert jobs == [True] * 4
        assert len(pool.pids) == 2
        pool.warm("chunk" if sys.version_info < (3, 13) else "colorsys")
        assert len(pool.map(HERE + "nap", [(0.05,)] * 4, ["nap"] * 4)) == 4


def test_idle_workers_end_and_come_back() -> None:
    with WorkerPool(1, idle_seconds=0.1) as pool:
        first = one(pool, "nap", 0)
        assert gone(first)
        assert one(pool, "nap", 0) != first


def test_the_number_of_workers_may_change() -> None:
    with WorkerPool(2) as pool:
        pool.map(HERE + "nap", [(0.1,), (0.1,)], ["a", "b"])
        assert len(pool.pids) == 2
        pool.resize(1)
        assert len(set(pool.map(HERE + "nap", [(0.02,)] * 6, ["nap"] * 6))) == 1
        pool.resize(2)
        assert len(set(pool.map(HERE + "nap", [(0.1,)] * 4, ["nap"] * 4))) == 2
    with pytest.raises(InternalError, match=r"^a pool of -1 workers$"):
        WorkerPool(-1)


def test_several_threads_share_a_pool(pool: WorkerPool) -> None:
    results: dict[int, list[int]] = {}

    def work(n: int) -> None:
        results[n] = pool.map(HERE + "double", [(n + i,) for i in range(20)], ["job"] * 20)

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert results == {100 * n: [200 * n + 2 * i for i in range(20)] for n in range(4)}


def test_workers_that_cannot_be_started_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "_ROOT", "/nowhere")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    with WorkerPool(2) as pool, pytest.raises(CompileError) as raised:
        pool.map(HERE + "double", [(1,)] * 50, ["job"] * 50)
    text = str(raised.value)
    assert text.startswith(
        "worker processes cannot be started: python -m smelt.codegen.worker ended with exit code 1"
    )
    monkeypatch.setattr(sys, "executable", "/no/python")
    with WorkerPool(2) as pool, pytest.raises(CompileError) as raised:
        one(pool, "double", 1)
    assert str(raised.value) == (
        "worker processes cannot be started: [Errno 2] No such file or directory: '/no/python'"
    )


def test_a_forked_child_makes_its_own_workers() -> None:
    pool = default_pool(2)
    mine = pool.map(HERE + "nap", [(0.1,), (0.1,)], ["a", "b"])
    pending = pool.submit(HERE + "nap", (0.3,), "pending")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            text = ""
            try:
                pending.result()
            except CompileError as e:
                text = str(e)
            theirs = pool.map(HERE + "nap", [(0.1,), (0.1,)], ["a", "b"])
            same = default_pool(2) is pool and not set(mine) & set(theirs)
            pool.close()
            if same and text == "pending: given up, as the process was forked":
                code = 0 if all(gone(p) for p in theirs) else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert pending.result() in mine
    assert set(pool.map(HERE + "nap", [(0.1,), (0.1,)], ["a", "b"])) == set(mine)
    pool.close()
    with default_pool(1) as other:
        assert other is not pool
        assert one(other, "double", 1) == 2


UNGUARDED = """
import sys
print("the script runs")
from smelt.codegen.workers import default_pool
pool = default_pool(2)
texts = ["define void @f%d() { ret void }" % i for i in range(4)]
objects = pool.map("tests.codegen_workers.jobs:emit", [(t,) for t in texts], texts)
print([o[:4] for o in objects] == [b"\\x7fELF"] * 4, "llvmlite" in sys.modules)
print(*pool.pids)
"""


def test_an_unguarded_script_compiles_and_leaves_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    (tmp_path / "struct.py").write_text("raise SystemExit('shadowed')")
    done = run("-P", str(script), path=PATH, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first, second, pids = done.stdout.splitlines()
    assert (first, second) == ("the script runs", "True False")
    assert len(pids.split()) == 2
    assert all(gone(int(pid)) for pid in pids.split())


def test_smelt_may_have_been_found_in_any_way(tmp_path: Path) -> None:
    """In a source checkout that only the parent's sys.path knows."""
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nsys.path += [{str(ROOT / 'src')!r}, {str(ROOT)!r}]" + UNGUARDED)
    done = run(str(script), path="", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


CTRL_C = """
import signal, threading
from smelt.codegen.workers import default_pool
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
pool = default_pool(2)
print(*pool.map("tests.codegen_workers.jobs:nap", [(0.1,), (0.1,)], "ab"), flush=True)
pool.map("tests.codegen_workers.jobs:nap", [(60.0,), (60.0,)], "ab")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent_even_amid_a_job(number: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", CTRL_C],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": PATH},
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    time.sleep(0.2)
    parent.send_signal(number)
    _, said = parent.communicate(timeout=10)
    assert parent.returncode == -number
    assert said.rstrip().endswith("KeyboardInterrupt" if number == signal.SIGINT else "")
    assert all(gone(pid) for pid in pids)


def test_nothing_is_done_elsewhere_without_workers() -> None:
    with WorkerPool(0) as pool:
        pool.warm("wave")
        assert pool.submit(HERE + "nap", (0,), "nap").result() == os.getpid()
        with pytest.raises(ScheduleError):
            pool.map(HERE + "refuse", [()], ["refuse"])
        assert pool.pids == []
    assert jobs.double(2) == 4
