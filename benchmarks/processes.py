"""Workers: a benchmark runs in a process of its own, pinned to as many cores as it may use."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MARK = "@@"


def worker(module: str, *arguments: str, threads: int, env: dict[str, str] | None = None) -> Any:
    """Run `python -m MODULE worker ARGUMENTS` on the first `threads` cores; what it gave back.

    A worker that fails gives {"error": its last line}.
    """
    settings = os.environ | {"SMELT_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(mine)[:threads])  # a child inherits it
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, "worker", *arguments],
            cwd=ROOT,
            env=settings | (env or {}),
            capture_output=True,
            text=True,
        )
    finally:
        os.sched_setaffinity(0, mine)
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return json.loads(line.removeprefix(MARK))
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return {"error": lines[-1][:300]}


def give_back(value: object) -> None:
    """Hand a result to the process that started this worker."""
    print(MARK + json.dumps(value), flush=True)


class Foreign:
    """The CPU time that other processes took, in cores, since this was made."""

    def __init__(self) -> None:
        """Start to count."""
        self._start = self._now()

    def cores(self) -> float:
        """Cores kept busy by others, on average."""
        busy, own, now = (b - a for a, b in zip(self._start, self._now(), strict=True))
        return max(0.0, (busy - own) / now)

    @staticmethod
    def _now() -> tuple[float, float, float]:
        path = Path("/proc/stat")
        if not path.exists():
            return 0.0, 0.0, time.perf_counter()
        ticks = [int(field) for field in path.read_text().splitlines()[0].split()[1:]]
        # user, nice, system, (idle, waiting,) interrupts, soft interrupts, stolen
        busy = sum(ticks[:3] + ticks[5:8]) / os.sysconf("SC_CLK_TCK")
        own = os.times()
        return busy, own.user + own.system, time.perf_counter()
