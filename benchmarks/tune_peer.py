"""A model after so many minutes of tuning by smelt and by apache-tvm; see `benchmarks.tune`.

Each tunes alone on the machine. Then both, smelt's default and onnxruntime take turns.
"""

import os
import signal
import subprocess
import tempfile
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

MODEL, MINUTES, PACE = "resnet18", 17.0, Pace(12.0, 11)
TVM, TUNED = "tvm", "smelt tuned"
MANY = 1000
"""Trials of apache-tvm: it writes its first records when all its tasks have had 64, or when these
are used up, which has to be within the time."""
WANTED = "0.5"


def by_tvm(model: Path, folder: Path, minutes: float, threads: int) -> Results:
    """Tune until the time is over, and compile what was found. Raises Failed."""
    cpu = str(resolve(Target("llvm -mcpu=native")).attrs["mcpu"])
    command = [python(TVM), "-m", "benchmarks.tvm_tuner", str(model), str(folder)]
    env = os.environ | {"TVM_NUM_THREADS": str(threads)}
    log = folder / "tvm.log"
    with log.open("w") as out:
        tuner = subprocess.Popen([*command, str(MANY), str(threads), cpu], cwd=ROOT, env=env,
                                 stdout=out, stderr=out, start_new_session=True)  # fmt: skip
        try:
            ended = tuner.wait(minutes * 60)
        except subprocess.TimeoutExpired:
            os.killpg(tuner.pid, signal.SIGKILL)
            ended = tuner.wait()
        records = folder / "database_tuning_record.json"
        count = len(records.read_text().splitlines()) if records.exists() else 0
        if not count:
            raise Failed(f"apache-tvm has no record after {minutes:g} minutes (code {ended})")
        done = subprocess.run([*command, "0", str(threads), cpu], cwd=ROOT, env=env,
                              stdout=out, stderr=out)  # fmt: skip
    if done.returncode:
        raise Failed(f"apache-tvm cannot compile it: {log.read_text().strip().splitlines()[-1]}")
    return {"trials": count, "library": str(folder / "model.so")}


def measure(folder: Path, threads: Sequence[int], quick: bool = False) -> list[Results]:
    """The model on so many threads; quickly: nothing, TVM's first round takes minutes."""
    rows: list[Results] = []
    for count in () if quick else threads:
        model = (folder / f"{MODEL}.onnx").resolve()
        with tempfile.TemporaryDirectory(prefix="smelt-tune-") as made:
            try:
                rows.append({"model": MODEL, "threads": count,
                             "found": row(model, Path(made), count)})  # fmt: skip
            except Failed as error:
                rows.append({"model": MODEL, "threads": count, "error": str(error)})
        print(MODEL, count, "done", flush=True)
    return rows


def row(model: Path, made: Path, threads: int) -> Results:
    """Tune by both, then time. Raises Failed."""
    theirs = by_tvm(model, made, MINUTES, threads)
    own = str(made / "own.db")
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
            "tvm_trials": theirs["trials"], "foreign_cores": found["foreign_cores"]}  # fmt: skip


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
                      f"{f['tvm_trials']}, {60 * f['minutes']:.0f} s", WANTED])  # fmt: skip
    heading = ["model, threads", "default, ms", "tuned, ms", "apache-tvm tuned, ms",
               "onnxruntime, ms", "tuned / TVM", "trials", "its trials", "wanted"]  # fmt: skip
    note = (
        "Each was tuned alone, then all took turns. apache-tvm 0.27: MetaSchedule over the "
        "imported graph, constants packed at compile time, stopped when the time was over."
    )
    return "\n\n".join([table(heading, lines), note, *errors])
