"""Models of bytes as C on emulated microcontrollers: memory, instructions, code, and results beside
the reference kernels'. `python -m benchmarks.micro`; the models are those of MLPerf Tiny, in the
folder that SMELT_MODELS names.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.options import arguments, report
from benchmarks.report import Results, table
from smelt.micro import BOARDS, compile_c, open_board
from smelt.micro.program import write_program
from smelt.micro.toolchain import build
from tests.tflite.build import Oracle

INPUTS = 100
QUICK_INPUTS = 3
MODELS = {
    "ic_int8": ("image classification", 12_501_632, 33_000, 20_000, 1.8, 0.3),
    "kws_int8": ("keyword spotting", 2_656_768, 9_200, 6_500, 2.2, 0.5),
    "vww_int8": ("visual wake words", 7_489_664, 38_500, 16_000, 2.0, 0.4),
    "ad_int8": ("anomaly detection", 264_192, 256, 256, 1.8, 0.5),
}
"""What they are called, their multiply-accumulates, workspaces (must, wanted), instructions per
multiply-accumulate that are wanted of an M4 and an M55."""
TARGETS = {"M4": "mps2-an386", "M55": "mps3-an547"}
LEVELS = ("-O3", "-Os")
_ARENA = """
import sys
import numpy as np
from tflite_micro.python.tflite_micro import runtime
made = runtime.Interpreter.from_file(sys.argv[1], arena_size=1 << 20)
made.set_input(np.zeros(made.get_input_details(0)["shape"], np.int8), 0)
made.invoke()
made.print_allocations()
"""


def arena(path: Path) -> int | None:
    """Bytes that TensorFlow Lite Micro takes; None where its package is not there."""
    done = subprocess.run([sys.executable, "-c", _ARENA, path], capture_output=True, text=True,
                          check=False)  # fmt: skip
    found = re.search(r"total (\d+) bytes", done.stderr + done.stdout)
    return int(found[1]) if found and done.returncode == 0 else None


def text_bytes(program: Path) -> int:
    """Bytes of code and constants of a program for a board."""
    done = subprocess.run(["arm-none-eabi-size", program], capture_output=True, text=True,
                          check=True)  # fmt: skip
    return int(done.stdout.splitlines()[1].split()[0])


def row(name: str, path: Path, chip: str, level: str, inputs: int) -> Results:
    """A model on a board: its memory, and what runs of it take, compared with TFLite's reference
    kernels."""
    board, start = BOARDS[TARGETS[chip]], time.perf_counter()
    made = compile_c(str(path), board.target, cache_dir="")
    seconds = time.perf_counter() - start
    rng, oracle, wrong, counts = np.random.default_rng(0), Oracle(path.read_bytes()), 0, []
    with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
        write_program(made, board, Path(folder))
        size = text_bytes(build(Path(folder), board, level))
        with open_board(made, board, level=level) as session:
            for _ in range(inputs):
                x = rng.integers(-128, 128, session.inputs[0].shape).astype("int8")
                (found,) = session.run(x)
                wrong += not np.array_equal(found, oracle(x)[0])
                counts.append(session.instructions or 0)
            stack = session.stack()
    return {
        "model": name, "chip": chip, "level": level, "seconds": seconds, "inputs": inputs,
        "wrong": wrong, "instructions": max(counts), "least": min(counts),
        "workspace": made.workspace_bytes, "constants": made.constant_bytes, "text": size,
        "stack": None if stack is None else stack[0], "kernels": len(made.kernels),
        "arena": arena(path) if chip == "M4" and level == LEVELS[0] else None,
    }  # fmt: skip


def measure(only: Sequence[str] = (), quick: bool = False) -> Results:
    """All models on all boards at all levels of the C compiler."""
    folder = Path(os.environ.get("SMELT_MODELS", "build/models"))
    rows = []
    for name in MODELS:
        path = folder / f"{name}.tflite"
        if (only and name not in only) or not path.exists():
            print(f"{name}: left out" if path.exists() else f"{path} is missing", file=sys.stderr)
            continue
        for chip in TARGETS:
            for level in LEVELS:
                full = chip == "M4" and level == LEVELS[0] and not quick
                rows.append(row(name, path, chip, level, INPUTS if full else QUICK_INPUTS))
                print(rows[-1], flush=True)
    return {"rows": rows}


def section(results: Results) -> str:
    """The results as markdown."""
    rows = {(r["model"], r["chip"], r["level"]): r for r in results["rows"]}
    memory, speed = [], []
    for name, (called, macs, most, wanted, m4, m55) in MODELS.items():
        if (name, "M4", LEVELS[0]) not in rows:
            continue
        first = rows[name, "M4", LEVELS[0]]
        small = rows[name, "M4", "-Os"]
        memory.append([
            called, f"{first['workspace']:,}", f"{most:,} / {wanted:,}", f"{first['stack']:,}",
            f"{first['constants']:,}", f"{small['text']:,}",
            "-" if first["arena"] is None else f"{first['arena']:,}", f"{first['seconds']:.1f}",
        ])  # fmt: skip
        each = [f"{rows[name, chip, level]['instructions'] / macs:.2f}"
                for chip in TARGETS for level in LEVELS]  # fmt: skip
        wrong = sum([r["wrong"] for k, r in rows.items() if k[0] == name])
        count = sum([r["inputs"] for k, r in rows.items() if k[0] == name])
        speed.append([called, each[0], each[1], m4, each[2], each[3], m55, f"{wrong} of {count}"])
    heads = [
        ["model", "workspace", "must / wanted", "stack", "constants", "program, -Os",
         "TFLM's arena", "seconds to C"],
        ["model", "M4 -O3", "M4 -Os", "wanted", "M55 -O3", "M55 -Os", "wanted",
         "results that differ"],
    ]  # fmt: skip
    return (
        table(heads[0], memory) + "\n\nBytes. The stack is what a run used of it, on the M4 with "
        "-O3; the program is code and constants with what serves it over the serial line; the "
        "arena is that of TensorFlow Lite Micro for the same model (package tflite-micro).\n\n"
        "### Instructions per multiply-accumulate\n\n"
        + table(heads[1], speed)
        + "\n\nCounted by QEMU, the largest of all runs. Results are compared with TFLite's "
        "reference kernels byte for byte. They are no cycles: QEMU has no pipeline."
    )


if __name__ == "__main__":
    asked = arguments(__doc__ or "", MODELS)
    found = measure(asked.only or (), asked.quick)
    report("micro", asked, found, section(found))
