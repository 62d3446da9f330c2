"""The C runtime itself: warnings, the thread pool under stress, the CPU's features."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from smelt.runtime import cpu_features
from smelt.runtime.native import missing_features
from tests.runtime.conftest import CC, NATIVE, ROOT

pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")
SOURCES = [str(path) for path in sorted(NATIVE.glob("*.c"))]


@pytest.fixture(scope="module")
def stress(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stress program, compiled with every warning an error."""
    path = tmp_path_factory.mktemp("native") / "stress"
    program = str(ROOT / "tests/native/stress_pool.c")
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{NATIVE}"]
    command = [str(CC), *flags, program, *SOURCES, "-o", str(path), "-lpthread", "-ldl"]
    subprocess.run(command, check=True)
    return path


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_pool_under_stress(stress: Path, threads: int) -> None:
    done = subprocess.run(
        [str(stress), str(threads), "20000"], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("text", "threads"), [("1", 1), ("100000000", None), ("0", None)])
def test_thread_count_from_the_environment(stress: Path, text: str, threads: int | None) -> None:
    program = (
        "from smelt.runtime.native import cores, library as l; "
        "print(l().smelt_pool_threads(l().smelt_pool_default(0)), cores())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"SMELT_NUM_THREADS": text, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    found, cpus = map(int, done.stdout.split())
    assert found == (threads or cpus)


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="compares with Linux")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of x86")
def test_features_are_those_linux_sees() -> None:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next(line for line in lines if line.startswith("flags")).split(":")[1].split()
    found = cpu_features()
    same = (
        "sse2",
        "ssse3",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "bmi2",
        "avx512f",
        "avx512vl",
        "avx512bw",
        "avx512dq",
        "popcnt",
        "movbe",
        "aes",
        "adx",
    )
    assert [f for f in same if f in found] == [f for f in same if f in flags]
    assert ("avx512vnni" in found) == ("avx512_vnni" in flags)
    assert ("avx512bf16" in found) == ("avx512_bf16" in flags)
    assert missing_features([*found, "avx10.9"]) == ["avx10.9"]
