"""Sessions that are killed while they tune; see `benchmarks.tune`.

A process tunes small models into a file of SQLite and tells of each record when `put` has returned.
It is killed at a random moment, again and again, the file is always the same. Whatever was told of
has to be there afterwards.
"""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from benchmarks.processes import ROOT
from benchmarks.report import Results, table
from smelt.ir.errors import DatabaseError
from smelt.search.record import Record
from smelt.search.stores import open_database

TIMES, QUICK = 50, 2
LONGEST = 4.0
"""Seconds behind the first record in which a process is killed."""
PATIENCE = 120.0
_GONE = 20.0
"""Seconds in which workers of a killed process end."""

PROGRAM = """
import json, sys
import numpy as np
from onnx import TensorProto, helper, numpy_helper
import smelt
from smelt.search.sql_database import SQLDatabase
from smelt.search.tune import Settings

class Telling(SQLDatabase):
    def put(self, workload, records=()):
        super().put(workload, records)
        for r in records:
            print(json.dumps([r.workload, r.decision, r.source, r.when]), flush=True)

width = int(sys.argv[2])
widths = (24, width, width + 3, 10)
weights = [numpy_helper.from_array(np.ones(s, np.float32), f"w{n}")
           for n, s in enumerate(zip(widths, widths[1:]))]
nodes = []
for n in range(3):
    nodes.append(helper.make_node("MatMul", [f"y{n}", f"w{n}"], [f"z{n}"], name=f"product{n}"))
    nodes.append(helper.make_node("Relu", [f"z{n}"], [f"y{n + 1}"], name=f"relu{n}"))
ends = [[helper.make_tensor_value_info(k, TensorProto.FLOAT, (16, w))]
        for k, w in (("y0", widths[0]), ("y3", widths[-1]))]
model = helper.make_model(helper.make_graph(nodes, "mlp", *ends, weights),
                          opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
settings = Settings(seconds=600, batch=2, seed=width, patience=1 << 20)
smelt.tune(model, Telling(sys.argv[1]), options=smelt.Options(threads=2), settings=settings)
"""

Told = tuple[str, str, str, float]
"""What identifies a record: program, decision, source, time."""


def killed(database: Path, width: int, delay: float) -> tuple[list[Told], bool, bool]:
    """What a process told of before it was killed, whether it had not ended before that, and
    whether processes of it stayed behind."""
    env = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}"}
    command = [sys.executable, "-c", PROGRAM, str(database), str(width)]
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=out, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        end = time.monotonic() + PATIENCE
        while os.fstat(out.fileno()).st_size == 0 and process.poll() is None:
            if time.monotonic() > end:
                break
            time.sleep(0.01)
        time.sleep(delay)
        running = process.poll() is None
        process.kill()
        process.wait()
        stayed = left_behind(process.pid)
        _, said = process.communicate()
        if process.returncode > 0:
            raise RuntimeError(f"the session failed: {said.strip().splitlines()[-1]}")
        out.seek(0)
        # the last line may have been cut off by the kill: it was not told
        lines = [line for line in out.read().splitlines(keepends=True) if line.endswith("\n")]
    return [_told(json.loads(line)) for line in lines], running, stayed


def _told(values: Sequence[object]) -> Told:
    workload, decision, source, when = values
    return str(workload), str(decision), str(source), float(str(when))


def left_behind(group: int) -> bool:
    """Whether processes of a session's group outlive it; then they are ended."""
    end = time.monotonic() + _GONE
    while _members(group):
        if time.monotonic() > end:
            os.killpg(group, signal.SIGKILL)
            return True
        time.sleep(0.05)
    return False


def _members(group: int) -> int:
    """Processes of a group that still run; those that only nobody has waited for do not."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, _, of, *_ = path.read_text().rpartition(")")[2].split()
            found += int(of) == group and state != "Z"
    return found


def whole(database: Path) -> tuple[list[Record], int]:
    """The records of a file, and how many things are wrong with it."""
    with closing(sqlite3.connect(database)) as raw:
        answers = [str(a) for (a,) in raw.execute("PRAGMA integrity_check")]
    wrong = sum([a != "ok" for a in answers])
    try:
        with open_database(database, make=False) as found:
            return found.records(), wrong
    except DatabaseError:
        return [], wrong + 1


def measure(quick: bool = False, seed: int = 0) -> list[Results]:
    """Kill sessions, and look at the file after each."""
    source, told = random.Random(seed), set[Told]()
    lost: set[Told] = set()
    corrupt, alive, met, stayed, times = 0, 0, 0, 0, QUICK if quick else TIMES
    with tempfile.TemporaryDirectory(prefix="smelt-killed-") as folder:
        path = Path(folder) / "t.db"
        for n in range(times):
            delay = source.uniform(0, 1.0 if quick else LONGEST)
            new, running, behind = killed(path, 16 + n, delay)
            told.update(new)
            alive += running
            stayed += behind
            records, wrong = whole(path)
            kept = {(r.workload, r.decision, r.source, r.when) for r in records}
            lost |= told - kept
            corrupt, met = corrupt + wrong, len(records)
    return [{"store": "SQLite", "found": {
        "kills": times, "alive": alive, "told": len(told), "kept": met, "lost": len(lost),
        "corrupt": corrupt, "stayed": stayed,
    }}]  # fmt: skip


def section(rows: Sequence[Results]) -> str:
    """The results as markdown."""
    names = ("kills", "alive", "told", "kept", "lost", "corrupt", "stayed")
    lines = [[r["store"], *[r["found"][k] for k in names], "0; 0; 0"] for r in rows]
    heading = ["store", "kills", "while it worked", "records told of", "records kept", "lost",
               "corrupt", "workers left", "wanted: lost, corrupt, workers"]  # fmt: skip
    return table(heading, lines)
