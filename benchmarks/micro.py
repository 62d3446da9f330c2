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
from smelt.micro import BOARDS, Board, ProcessTransport, Session, compile_c, open_board
from smelt.micro.program import write_program
from smelt.micro.toolchain import build, cross_compiler
from tests.tflite.build import Oracle

HERE = Path(__file__).resolve().parent
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
CASES = (("M4", "zig", "-O3"), ("M4", "gcc", "-O3"), ("M4", "zig", "-Os"), ("M4", "gcc", "-Os"),
         ("M55", "zig", "-O3"), ("M55", "gcc", "-O3"))  # fmt: skip
FIRST = CASES[0]
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


def cycles_of(folder: Path, board: Board, x: np.ndarray) -> tuple[int, int]:
    """Instructions of a run in the model's own functions, and the cycles that an M4 needs for them
    as its manual has it: see cycles.c. folder: of a program that was built."""
    plugin, ranges, said = (folder / n for n in ("cycles.so", "ranges.txt", "cycles.txt"))
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", HERE / "cycles.c", "-o", plugin],
                   check=True)  # fmt: skip
    names = subprocess.run(["nm", "-S", folder / "program.elf"], capture_output=True, text=True,
                           check=True).stdout  # fmt: skip
    found = re.findall(r"^(\w+) (\w+) [tT] (\w+)$", names, re.MULTILINE)
    own = [(int(a, 16) & ~1, int(n, 16)) for a, n, name in found
           if re.search("_fused_|_run$|_max|_subtract", name)]  # fmt: skip
    ranges.write_text("".join([f"{a:x} {a + n:x}\n" for a, n in own]))
    command: list[str | Path] = [
        "qemu-system-arm", "-M", board.machine, "-kernel", folder / "program.elf", "-nographic",
        "-semihosting", "-monitor", "none", "-serial", "stdio",
        "-plugin", f"{plugin},ranges={ranges}", "-d", "plugin", "-D", said,
    ]  # fmt: skip
    with Session(ProcessTransport(command)) as session:
        session.run(x)
    instructions, cycles = map(int, said.read_text().split())
    return instructions, cycles


def row(name: str, path: Path, case: tuple[str, str, str], inputs: int) -> Results:
    """A model on a board: its memory, and what runs of it take, compared with TFLite's reference
    kernels."""
    chip, compiler, level = case
    board, start = BOARDS[TARGETS[chip]], time.perf_counter()
    made = compile_c(str(path), board.target, cache_dir="")
    seconds = time.perf_counter() - start
    rng, oracle, wrong, counts = np.random.default_rng(0), Oracle(path.read_bytes()), 0, []
    with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
        write_program(made, board, Path(folder))
        size = text_bytes(build(Path(folder), board, level, wanted=compiler))
        with open_board(made, board, level=level, wanted=compiler) as session:
            for _ in range(inputs):
                x = rng.integers(-128, 128, session.inputs[0].shape).astype("int8")
                (found,) = session.run(x)
                wrong += not np.array_equal(found, oracle(x)[0])
                counts.append(session.instructions or 0)
            stack = session.stack()
        counted = cycles_of(Path(folder), board, x) if case == FIRST else (1, 0)
    return {
        "model": name, "case": list(case), "seconds": seconds, "inputs": inputs,
        "wrong": wrong, "instructions": max(counts), "least": min(counts),
        "workspace": made.workspace_bytes, "constants": made.constant_bytes, "text": size,
        "stack": None if stack is None else stack[0], "kernels": len(made.kernels),
        "cycles": max(counts) * counted[1] / counted[0],
        "arena": arena(path) if case == FIRST else None,
    }  # fmt: skip


def parts(name: str, path: Path) -> Results:
    """Bytes of code of a model's parts on an M4 with -Os: what runs kernels, and kernels; without a
    graph, and with one that the graph executor reads."""
    board, found = BOARDS[TARGETS["M4"]], Results(model=name)
    # Or kernels that are called once would stand in what calls them.
    flags = ["-Os", "-ffunction-sections", "-fno-inline-functions-called-once"]
    for form in ("aot", "graph"):
        start = time.perf_counter()
        made = compile_c(str(path), board.target, cache_dir="", graph=form == "graph")
        found[f"{form} seconds"] = time.perf_counter() - start
        with tempfile.TemporaryDirectory(prefix="smelt-") as text:
            folder = Path(text)
            write_program(made, board, folder)
            command = [*cross_compiler(board, wanted="gcc"), "-std=c11", *flags, "-c"]
            subprocess.run([*command, "net.c", *[n for n in made.runtime if n.endswith(".c")]],
                           cwd=folder, check=True)  # fmt: skip
            said = subprocess.run(["arm-none-eabi-nm", "-S", "net.o"], cwd=folder, check=True,
                                  capture_output=True, text=True).stdout  # fmt: skip
            sizes = {n: int(size, 16) for size, n in re.findall(r" (\w+) [tT] (\w+)", said)}
            glue = [n for n in sizes if re.search("^[^_]+(_int8)?_(run|call_|done)", n)]
            found[f"{form} glue"] = sum([sizes[n] for n in glue])
            found[f"{form} kernels"] = sum(sizes.values()) - found[f"{form} glue"]
            found[f"{form} program"] = text_bytes(build(folder, board, "-Os", wanted="gcc"))
            found[f"{form} workspace"] = made.workspace_bytes
            if form == "graph":
                found["executor"] = text_bytes(folder / "smelt_graph.o")
                found["json"] = len(made.graph)
    return found | {"arena": arena(path)}


def measure(only: Sequence[str] = (), quick: bool = False) -> Results:
    """All models on all boards at all levels of the C compiler."""
    folder = Path(os.environ.get("SMELT_MODELS", "build/models"))
    rows, sizes = [], []
    for name in MODELS:
        path = folder / f"{name}.tflite"
        if (only and name not in only) or not path.exists():
            print(f"{name}: left out" if path.exists() else f"{path} is missing", file=sys.stderr)
            continue
        sizes.append(parts(name, path))
        print(sizes[-1], flush=True)
        for case in CASES:
            full = case == FIRST and not quick
            rows.append(row(name, path, case, INPUTS if full else QUICK_INPUTS))
            print(rows[-1], flush=True)
    return {"rows": rows, "parts": sizes}


def section(results: Results) -> str:
    """The results as markdown."""
    memory, speed, code = [], [], []
    sizes = {r["model"]: r for r in results["parts"]}
    for name, (called, macs, most, wanted, m4, m55) in MODELS.items():
        rows = {tuple(r["case"]): r for r in results["rows"] if r["model"] == name}
        if not rows:
            continue
        first, small = rows[FIRST], rows["M4", "zig", "-Os"]
        memory.append([
            called, f"{first['workspace']:,}", f"{most:,} / {wanted:,}", f"{first['stack']:,}",
            f"{first['constants']:,}", f"{small['text']:,}",
            "-" if first["arena"] is None else f"{first['arena']:,}", f"{first['seconds']:.1f}",
        ])  # fmt: skip
        own = sizes[name]
        keys = ("aot glue", "graph glue", "executor", "json", "aot kernels", "aot program",
                "graph program", "aot workspace", "graph workspace", "arena")  # fmt: skip
        code.append([called, *["-" if own[k] is None else f"{own[k]:,}" for k in keys],
                     f"{own['aot seconds']:.1f} / {own['graph seconds']:.1f}"])  # fmt: skip
        each = [f"{rows[c]['instructions'] / macs:.2f}" for c in CASES]
        wrong, count = (sum([r[k] for r in rows.values()]) for k in ("wrong", "inputs"))
        speed.append([called, *each[:4], m4, f"{first['cycles'] / macs:.2f}", *each[4:], m55,
                      f"{wrong} of {count}"])  # fmt: skip
    heads = [
        ["model", "workspace", "must / wanted", "stack", "constants", "program, -Os",
         "TFLM's arena", "seconds to C"],
        ["model", *[f"{chip} {compiler} {level}" for chip, compiler, level in CASES[:4]],
         "M4 must", "M4 cycles, zig -O3", "M55 zig -O3", "M55 gcc -O3", "M55 must",
         "results that differ"],
        ["model", "run function", "calls of a graph", "graph executor", "graph", "kernels",
         "program", "program with a graph", "workspace", "workspace with a graph", "TFLM's arena",
         "seconds to C, without / with a graph"],
    ]  # fmt: skip
    return (
        table(heads[0], memory) + "\n\nBytes. The stack is what a run used of it, on the M4 with "
        "-O3; the program is code and constants with what serves it over the serial line; the "
        "arena is that of TensorFlow Lite Micro for the same model (package tflite-micro).\n\n"
        "### Code\n\n" + table(heads[2], code) + "\n\nBytes on the M4 by gcc with -Os. The run "
        "function calls the kernels; with a graph there are the functions that the executor calls "
        "them by, the executor itself and the graph as JSON. Programs are whole images, with "
        "weights and with what serves them over the serial line; they link without a heap. "
        "Must: a run function of at most 10,240, an executor of at most 10,240, a program for "
        "keyword spotting below 65,536, C in at most 10 s.\n\n"
        "### Instructions per multiply-accumulate\n\n" + table(heads[1], speed)
        + "\n\nCounted by QEMU, the largest of all runs. Cycles are estimated from the "
        "instructions that were executed, by the M4's manual, without wait states of its memory. "
        "Results are compared with TFLite's reference kernels byte for byte."
    )  # fmt: skip


if __name__ == "__main__":
    asked = arguments(__doc__ or "", MODELS)
    found = measure(asked.only or (), asked.quick)
    report("micro", asked, found, section(found))
