"""Mutated artifacts: child processes load and run them, and refuse them or give the right answer.

    python -m tests.fuzz --artifacts 5000 --seed 0          (--coverage: lines of the C runtime)

Machine code is trusted and stays as it is; everything beside it is mutated: constants, metadata,
footers, sidecars, members of archives, programs of the virtual machine. Checksums are made valid
again, those that the code carries too, so that the checks behind them are reached.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from .artifact_child import Verdict
from .artifact_samples import make_samples

__all__ = ["Artifacts"]

BATCH = 50
FAILURES = ("wrong", "raw", "crash", "hang")


def judged(samples: Path, first: int, count: int) -> Iterator[Verdict]:
    """The verdicts of some cases, by as many child processes as it takes."""
    end = first + count
    while first < end:
        command = [sys.executable, "-m", "tests.fuzz.artifact_child", str(samples), str(first)]
        command.append(str(end - first))
        done = subprocess.run(command, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        for seed, verdict in zip(lines[::2], lines[1::2], strict=False):
            yield Verdict(int(seed), *json.loads(verdict))
        first += len(lines) // 2
        if first < end:
            kind = "hang" if done.returncode == -signal.SIGALRM else "crash"
            said = f"the process ended with code {done.returncode}: {done.stderr[-500:]}"
            yield Verdict(first, kind, said)
            first += 1


class Artifacts:
    """A campaign: `count` cases from a seed on. `run` gives 1 where something failed."""

    def __init__(self, seed: int, count: int, coverage: bool = False) -> None:
        """coverage: count the lines of the C runtime that are run, with gcc and gcov."""
        self.first = self.seed = seed
        self.end = seed + count
        self.coverage = coverage
        self.kinds: Counter[str] = Counter()
        self.failures: list[Verdict] = []
        self.lock = threading.Lock()

    def run(self, workers: int) -> int:
        """Makes the samples, mutates them, and prints what came out."""
        with tempfile.TemporaryDirectory(prefix="smelt-fuzz-") as made:
            samples, counts = Path(made, "samples"), Path(made, "coverage")
            samples.mkdir()
            counts.mkdir()
            make_samples(samples, counts, self.coverage)
            threads = [threading.Thread(target=self._work, args=(samples,)) for _ in range(workers)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            print(f"{self.kinds.total()} artifacts: "
                  + ", ".join(f"{n} {kind}" for kind, n in self.kinds.most_common()))  # fmt: skip
            if self.coverage:
                print(covered(counts))
        return 1 if self.failures else 0

    def _work(self, samples: Path) -> None:
        while True:
            with self.lock:
                first = self.first
                self.first = min(self.end, first + BATCH)
            if first >= self.end:
                return
            for verdict in judged(samples, first, min(BATCH, self.end - first)):
                with self.lock:
                    self.kinds[verdict.kind] += 1
                    if verdict.kind in FAILURES:
                        self.failures.append(verdict)
                        print(f"seed {verdict.seed}: {verdict.kind}: {verdict.message}", flush=True)


def covered(folder: Path) -> str:
    """Which share of the lines of the runtime's files was run."""
    found = []
    for name in ("blob", "module"):
        done = subprocess.run(["gcov", "-n", f"{name}.gcda"], cwd=folder, capture_output=True,
                              text=True, check=True)  # fmt: skip
        lines = [x for x in done.stdout.splitlines() if x.startswith("Lines executed")]
        found.append(f"{name}.c: {lines[0]}")
    return "\n".join(found)
