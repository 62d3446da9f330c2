"""Cold and cached compilation, import, cost of a call: `python -m benchmarks.compile_time`."""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import smelt
from benchmarks import models
from benchmarks.processes import give_back, worker
from benchmarks.report import Results, table, write
from smelt.runtime.native import cores

CALLS = 2000


def compile_once(path: str) -> Results:
    """Seconds to read a model, and to read and compile it."""
    start = time.perf_counter()
    onnx.load(path)
    read = time.perf_counter()
    smelt.compile(path)
    return {"read_s": read - start, "compile_s": time.perf_counter() - read}


def compile_models(folder: Path) -> list[Results]:
    """Every model twice, each time in a new process, with a cache that is empty at first."""
    rows = []
    for path in sorted(folder.glob("*.onnx")):
        if path.stem.endswith("_int8"):
            continue
        with tempfile.TemporaryDirectory() as cache:
            row: Results = {"model": path.stem}
            for state in ("cold", "cached"):
                row[state] = worker(
                    "benchmarks.compile_time",
                    "compile",
                    str(path),
                    threads=cores(),
                    env={"SMELT_CACHE_DIR": cache},
                )
        rows.append(row)
        print(row, flush=True)
    return rows


def import_ms(module: str, times: int = 9) -> float:
    """The median time to import a module in a new process."""
    program = (
        f"import time; t = time.perf_counter(); import {module}; "
        "print((time.perf_counter() - t) * 1e3)"
    )
    command = [sys.executable, "-c", program]
    return statistics.median(float(subprocess.check_output(command)) for _ in range(times))


def call_us() -> Results:
    """Microseconds of a call of the identity, through `exe(x)` and `bind`; KB of its library."""
    x_info, y_info = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [16]) for name in ("x", "y")
    )
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "identity", [x_info], [y_info])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    exe = smelt.compile(model)
    x, y = np.ones(16, np.float32), np.empty(16, np.float32)
    bound = exe.bind([x], [y])
    with tempfile.TemporaryDirectory() as folder:
        exe.export_library(library := Path(folder, "identity.so"))
        size = library.stat().st_size / 1000
    return {
        "call_us": _microseconds(lambda: exe(x)),
        "bind_us": _microseconds(bound),
        "library_kb": size,
    }


def _microseconds(call: Callable[[], object]) -> float:
    taken = []
    for _ in range(15):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        taken.append((time.perf_counter() - start) / CALLS * 1e6)
    return statistics.median(taken)


def measure(folder: Path) -> Results:
    """Everything of this page."""
    return {
        "rows": compile_models(folder),
        "import_ms": {name: import_ms(name) for name in ("numpy", "smelt.runtime", "smelt")},
        "call": worker("benchmarks.compile_time", "call", threads=cores()),
    }


def section(results: Results) -> str:
    """The results as markdown."""
    lines = []
    for row in results["rows"]:
        cells = [row["model"]]
        for state in ("cold", "cached"):
            found = row[state]
            failed = found.get("error")
            cells.append(failed or f"{found['compile_s']:.2f}")
            if not failed:
                cells.append(f"{found['compile_s'] - found['read_s']:.2f}")
            else:
                cells.append("–")
        lines.append(cells)
    heading = ["model", "cold, s", "beyond reading", "cached, s", "beyond reading"]
    imports = ", ".join(f"`{name}` {ms:.0f} ms" for name, ms in results["import_ms"].items())
    call = results["call"]
    cost = (
        call.get("error")
        or f"`exe(x)` {call['call_us']:.2f} us, `bind` {call['bind_us']:.2f} us; "
        f"its library, runtime included: {call['library_kb']:.0f} KB"
    )
    return table(heading, lines) + f"\n\nImport: {imports}. A call of the identity model: {cost}."


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["worker", "compile", path]:
            give_back(compile_once(path))
        case ["worker", "call"]:
            give_back(call_us())
        case arguments:
            found = measure(Path(arguments[0]) if arguments else models.zoo())
            write("compile_time", found)
            print(section(found))
