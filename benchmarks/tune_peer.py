"""A model after 17 minutes of tuning by smelt, and after the first round of all tasks, which takes
longer, by apache-tvm; see `benchmarks.tune`.

Each tunes alone on the machine. Then both, smelt's default and onnxruntime take turns.
"""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import smelt
from benchmarks.peers import REFERENCE, SMELT, Pace, Side, beside, python
from benchmarks.processes import ROOT, Failed
from benchmarks.report import Results, table
from benchmarks.zoo import NOISY
from smelt.codegen.llvm import resolve
from smelt.target import Target
from smelt.tuning import tune

MODEL, MINUTES, MOST, PACE = "resnet18", 17.0, 40.0, Pace(12.0, 11)
TVM, TUNED = "tvm", "smelt tuned"
MANY = 1300
"""Trials of apache-tvm: it writes its first records when all its tasks have had 64, or when these
are used up, which takes 20 to 25 minutes; it is stopped after MOST of them."""
WANTED = "0.5"


def by_tvm(model: Path, folder: Path, threads: int) -> Results:
    """Tune by its first round, and compile what was found; what is there already is used.

    Raises Failed.
    """
    library, records = folder / "model.so", folder / "database_tuning_record.json"
    if library.exists():
        return dict(json.loads((folder / "found.json").read_text()))
    folder.mkdir(parents=True, exist_ok=True)
    cpu = str(resolve(Target("llvm -mcpu=native")).attrs["mcpu"])
    command = [python(TVM), "-m", "benchmarks.tvm_tuner", str(model), str(folder)]
    env = os.environ | {"TVM_NUM_THREADS": str(threads)}
    log, start = folder / "tvm.log", time.perf_counter()
    with log.open("w") as out:
        tuner = subprocess.Popen([*command, str(MANY), str(threads), cpu], cwd=ROOT, env=env,
                                 stdout=out, stderr=out, start_new_session=True)  # fmt: skip
        try:
            ended = tuner.wait(MOST * 60)
        except subprocess.TimeoutExpired:
            os.killpg(tuner.pid, signal.SIGKILL)
            ended = tuner.wait()
        count = len(records.read_text().splitlines()) if records.exists() else 0
        if not count:
            raise Failed(f"apache-tvm has no record after {MOST:g} minutes (code {ended})")
        seconds = time.perf_counter() - start
        done = subprocess.run([*command, "0", str(threads), cpu], cwd=ROOT, env=env,
                              stdout=out, stderr=out)  # fmt: skip
    if done.returncode:
        raise Failed(f"apache-tvm cannot compile it: {log.read_text().strip().splitlines()[-1]}")
    found = {"trials": count, "elapsed": seconds, "library": str(library)}
    (folder / "found.json").write_text(json.dumps(found))
    return found


def measure(folder: Path, threads: Sequence[int], kept: Path, quick: bool = False) -> list[Results]:
    """The model on so many threads; quickly: nothing, TVM's first round takes minutes.

    kept  where its records and library stay: a run that was stopped goes on there
    """
    rows: list[Results] = []
    for count in () if quick else threads:
        model = (folder / f"{MODEL}.onnx").resolve()
        try:
            theirs = by_tvm(model, (kept / f"tvm-{count}").resolve(), count)
            rows.append({"model": MODEL, "threads": count, "found": row(model, theirs, count)})
        except Failed as error:
            rows.append({"model": MODEL, "threads": count, "error": str(error)})
        print(MODEL, count, "done", flush=True)
    return rows


def row(model: Path, theirs: Results, threads: int) -> Results:
    """Tune by smelt, then time all. Raises Failed."""
    with tempfile.TemporaryDirectory(prefix="smelt-tune-") as made:
        own = str(Path(made) / "own.db")
        state = tune(str(model), own, options=smelt.Options(threads=threads), minutes=MINUTES)
        sides = [
            Side(SMELT, threads),
            Side(TUNED, threads, SMELT, {"database": own}),
            Side(TVM, threads, TVM, {"library": theirs["library"]}),
            Side(REFERENCE, threads, REFERENCE),
        ]
        with beside(sides) as workers:
            workers.load(model, model.with_suffix(".inputs.npz"))
            found = workers.time(PACE)
            failed = dict(workers.failed)
    if failed:
        raise Failed("; ".join([f"{k}: {v}" for k, v in failed.items()]))
    return {"minutes": MINUTES, "times": {s.name: found[s.name] for s in sides},
            "trials": state.trials, "elapsed": state.elapsed, "message": state.message,
            "tvm_trials": theirs["trials"], "tvm_elapsed": theirs["elapsed"],
            "foreign_cores": found["foreign_cores"]}  # fmt: skip


def section(rows: Sequence[Results]) -> str:
    """The results as markdown."""
    lines, errors = [], []
    for r in rows:
        title = f"{r['model']}, {r['threads']}"
        if "error" in r:
            errors.append(f"{title}: {r['error']}.")
            continue
        f = r["found"]
        ms = {k: v["median_ms"] for k, v in f["times"].items()}
        noise = " ~" if f["foreign_cores"] > NOISY else ""
        lines.append([title + noise, *[f"{ms[k]:.3f}" for k in (SMELT, TUNED, TVM, REFERENCE)],
                      f"{ms[TUNED] / ms[TVM]:.2f}", f"{f['trials']}, {f['elapsed']:.0f} s",
                      f"{f['tvm_trials']}, {f['tvm_elapsed']:.0f} s", WANTED])  # fmt: skip
    heading = ["model, threads", "default, ms", "tuned, ms", "apache-tvm tuned, ms",
               "onnxruntime, ms", "tuned / TVM", "trials", "its trials", "wanted"]  # fmt: skip
    note = (
        "Each was tuned alone, then all took turns. apache-tvm 0.27: MetaSchedule over the "
        "imported graph, constants packed at compile time, stopped after the first round of all "
        "its tasks: before that it has no record."
    )
    return "\n\n".join([table(heading, lines), note, *errors])
