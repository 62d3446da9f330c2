"""Many seeds, several workers, a summary that a stopped run goes on from."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from .case import Case
from .generate import generate
from .judge import FAILURES, Verdict
from .minimise import minimise
from .worker import Worker

__all__ = ["Campaign"]

Outcome = tuple[Verdict, list[str], Case | None]


class Campaign:
    """Seeds from `seed` on; verdicts are counted in their order, so that a summary is a prefix."""

    def __init__(
        self, seed: int, graphs: int, out: Path, regressions: Path, seconds: float = 60.0
    ) -> None:
        """seconds: how long a failure may be made smaller."""
        self.seed, self.graphs, self.out, self.regressions = seed, graphs, out, regressions
        self.seconds = seconds
        self.done = 0
        self.spent = 0.0
        self.kinds: Counter[str] = Counter()
        self.oracles: Counter[str] = Counter()
        self.operators: Counter[str] = Counter()
        self.unsupported: Counter[str] = Counter()
        self.failures: list[dict[str, Any]] = []
        self.seen: set[str] = set()
        self.lock = threading.Lock()
        self.next = 0
        self.waiting: dict[int, Outcome] = {}
        self.stopping = False

    def resume(self) -> None:
        """Go on from the summary of a run with the same first seed."""
        if not self.out.exists():
            return
        old = json.loads(self.out.read_text())
        if old.get("seed") != self.seed or old["graphs"] >= self.graphs:
            return
        self.done = self.next = old["graphs"]
        self.spent = old["seconds"]
        self.kinds, self.oracles = Counter(old["verdicts"]), Counter(old["oracles"])
        self.operators, self.unsupported = Counter(old["operators"]), Counter(old["unsupported"])
        self.failures = old["failures"]
        print(f"going on after {self.done} graphs")

    def run(self, workers: int) -> int:
        """All seeds; Ctrl-C stops, and leaves the summary of what was done."""
        start = time.monotonic() - self.spent
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]
        for t in threads:
            t.start()
        try:
            while any(t.is_alive() for t in threads):
                time.sleep(1)
                self._show(time.monotonic() - start)
        except KeyboardInterrupt:
            self.stopping = True
            print("\nstopping: what is under way comes to its end")
            for t in threads:
                t.join(100)
        self._show(time.monotonic() - start)
        print()
        self._print()
        return 1 if self.failures else 0

    def _work(self) -> None:
        worker = Worker()
        while (number := self._take()) is not None:
            seed = self.seed + number
            verdict, ops = worker.judge("seed", seed)
            small = None
            if verdict.label == "oracle" or verdict.kind in FAILURES:
                case = generate(seed)
            if verdict.label == "oracle" and case.at_least(1).feeds:
                verdict = worker.judge("case", case.at_least(1))[0]
            if verdict.kind in FAILURES:
                ops = [n.op for n in case.graph.nodes]
                small, verdict = self._small(case, verdict, worker)
            self._put(number, (verdict, ops, small))
        worker.stop()

    def _small(self, case: Case, verdict: Verdict, worker: Worker) -> tuple[Case, Verdict]:
        """A failure made small; its label begins with what it takes: sizes of 0, of 1, or neither.

        What fails without the runs that have such sizes is judged by the others.
        """
        sort = "sizes of 0"
        for least, name in ((2, "other"), (1, "sizes of 1")):
            fewer = case.at_least(least)
            if not fewer.feeds:
                continue
            whole = len(fewer.feeds) == len(case.feeds)
            found = verdict if whole else worker.judge("case", fewer)[0]
            if found.kind in FAILURES:
                case, verdict, sort = fewer, found, name
                break
        known = f"{sort}: {verdict.label}"
        with self.lock:
            seen = known in self.seen
            self.seen.add(known)
        if not seen:
            case = minimise(case, verdict, worker, self.seconds)
            again = worker.judge("case", case)[0]
            verdict = again if again.kind == verdict.kind else verdict
        return case, replace(verdict, label=f"{sort}: {verdict.label}")

    def _take(self) -> int | None:
        with self.lock:
            if self.stopping or self.next >= self.graphs:
                return None
            self.next += 1
            return self.next - 1

    def _put(self, number: int, outcome: Outcome) -> None:
        with self.lock:
            self.waiting[number] = outcome
            while self.done in self.waiting:
                self._count(self.seed + self.done, *self.waiting.pop(self.done))
                self.done += 1

    def _count(self, seed: int, verdict: Verdict, ops: list[str], small: Case | None) -> None:
        self.kinds[verdict.kind] += 1
        if verdict.oracle:
            self.oracles[verdict.oracle] += 1
        self.operators.update(ops)
        if verdict.kind == "unsupported":
            self.unsupported[verdict.label] += 1
        if small is not None:
            entry = {"seed": seed, "kind": verdict.kind, "label": verdict.label}
            entry |= {"oracle": verdict.oracle, "message": verdict.message}
            entry["file"] = self._save(seed, verdict, small)
            self.failures.append(entry)
            print(f"\nseed {seed}: {verdict.kind}: {verdict.message[:300]}", flush=True)

    def _save(self, seed: int, verdict: Verdict, case: Case) -> str:
        """Write a failure down, unless one that looks the same was."""
        for old in self.failures:
            if old["label"] == verdict.label and old["file"]:
                return str(old["file"])
        ops = "_".join(dict.fromkeys([n.op.lower() for n in case.graph.nodes][:3]))
        file = self.regressions / f"{verdict.kind}_{ops}_{seed}.json"
        note = f"seed {seed}, {verdict.oracle}: {verdict.message}"
        self.regressions.mkdir(parents=True, exist_ok=True)
        file.write_text(replace(case, note=note).text())
        return file.name

    def _show(self, seconds: float) -> None:
        with self.lock:
            self.spent = seconds
            counts = ", ".join(f"{n} {kind}" for kind, n in self.kinds.most_common())
            text = f"{self.done}/{self.graphs} graphs, {seconds:.0f} s: {counts}"
            if sys.stdout.isatty():
                print(f"\r{text}  ", end="", flush=True)
            elif int(seconds) % 60 == 0 or self.done == self.graphs:
                print(text, flush=True)
            self._write()

    def _write(self) -> None:
        data = {
            "graphs": self.done,
            "seed": self.seed,
            "seconds": round(self.spent, 1),
            "verdicts": dict(self.kinds.most_common()),
            "oracles": dict(self.oracles.most_common()),
            "failures": self.failures,
            "unsupported": dict(self.unsupported.most_common()),
            "nodes": self.operators.total(),
            "operators": dict(sorted(self.operators.items())),
        }
        self.out.parent.mkdir(parents=True, exist_ok=True)
        new = self.out.with_suffix(".new")
        new.write_text(json.dumps(data, indent=1) + "\n")
        new.replace(self.out)

    def _print(self) -> None:
        print(f"{len(self.operators)} operators, {self.operators.total()} nodes")
        for label, n in self.unsupported.most_common(20):
            print(f"  unsupported, {n} graphs: {label}")
        for f in self.failures:
            print(f"  seed {f['seed']}: {f['kind']}: {f['label']} ({f['file']})")
        print(f"written: {self.out}")
