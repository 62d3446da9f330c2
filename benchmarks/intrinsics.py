"""Instructions against plain code: `python -m benchmarks.intrinsics`.

Products of 8-bit integers (u8 x s8, summed in 32 bits) by VPDPBUSD, one call a register of the
result, against what the compiler makes of the same program without instructions, and against its
float32 product. All run on one core and take turns; B is packed as each schedule wants it.
"""

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

import smelt
from benchmarks.report import Results, table, write
from smelt import te
from smelt.choices import default_schedule
from smelt.codegen.llvm import cpu_features, resolve
from smelt.ir.options import Options
from smelt.target import Target
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule

SIZES = (256, 512)
TILES = ((4, 64), (8, 32))
ROUNDS = 15


def product(n: int, a: str, b: str, c: str) -> PrimFunc:
    """C = A B for square matrices, summed in the type of C."""
    x, y = te.placeholder((n, n), a, name="A"), te.placeholder((n, n), b, name="B")
    k = te.reduce_axis((0, n), "k")
    z = te.compute(
        (n, n), lambda i, j: te.sum(x[i, k].astype(c) * y[k, j].astype(c), axis=k), name="C"
    )
    return te.create_prim_func([x, y, z], "matmul")


def by_instruction(func: PrimFunc, rows: int, columns: int) -> Schedule:
    """Tiles of rows x columns sums in registers, each updated by VPDPBUSD."""
    s = Schedule(func)
    s.transform_layout("C", "B", lambda k, j: (j // 16, k // 4, j % 16, k % 4))
    result = s.cache_write("C", 0, "local")
    i, j, k = s.get_loops("C")
    i_o, i_i = s.split(i, [None, rows])
    j_o, j_i = s.split(j, [None, columns])
    k_o, k_i = s.split(k, [None, 4])
    s.reorder(j_o, i_o, k_o, i_i, j_i, k_i)
    s.reverse_compute_at(result, i_o)
    start = s.decompose_reduction("C", k_o)
    s.tensorize(i_i, f"x86.avx512.vnni_tile_{rows}x{columns}")
    for block in (start, result):
        y, x = s.get_loops(block)[-2:]
        s.unroll(y)
        s.vectorize(x)
    return s


def timer(s: Schedule) -> Callable[[], float]:
    """A function that gives the seconds of one run, on zeros: nothing depends on the values."""
    function = smelt.build(s, options=Options(threads=1))["matmul"]
    arrays: list[Any] = [np.zeros(b.fixed_shape() or (), b.dtype) for b in s.func.buffers]
    evaluate = function.time_evaluator(number=1, repeat=1, min_repeat_ms=20)
    return lambda: float(evaluate(*arrays).median)


def schedules(n: int) -> dict[str, Schedule]:
    """What takes turns, by name; without VPDPBUSD where the processor lacks it."""
    one = Options(threads=1)
    has_it = "avx512vnni" in cpu_features(resolve(Target("llvm -mcpu=native")))
    found = {
        f"vpdpbusd, tile {rows} x {columns}": by_instruction(
            product(n, "uint8", "int8", "int32"), rows, columns
        )
        for rows, columns in (TILES if has_it else ())
    }
    for name, types in (
        ("int8, plain", ("uint8", "int8", "int32")),
        ("float32, plain", ("float32",) * 3),
    ):
        found[name] = default_schedule(product(n, *types), constants={"B"}, options=one)
    return found


def measure() -> Results:
    """Operations a second of every schedule at every size; a multiply-add counts two."""
    results: dict[str, dict[str, float]] = {}
    for n in SIZES:
        timers = {name: timer(s) for name, s in schedules(n).items()}
        seconds: dict[str, list[float]] = {name: [] for name in timers}
        for _ in range(ROUNDS):
            for name, run in timers.items():
                seconds[name].append(run())
        results[str(n)] = {
            name: 2 * n**3 / statistics.median(t) / 1e9 for name, t in seconds.items()
        }
    return {"gops": results}


def section(results: Results) -> str:
    """The table of the results."""
    gops: dict[str, dict[str, float]] = results["gops"]
    rows = []
    for n, by_name in gops.items():
        plain = by_name["int8, plain"]
        rows += [
            (f"{n} x {n} x {n}", name, f"{rate:.0f}", f"{rate / plain:.2f}")
            for name, rate in by_name.items()
        ]
    text = "Products of 8-bit integers on one core; a multiply-add counts two operations.\n\n"
    return text + table(("product", "schedule", "Gop/s", "against plain int8"), rows)


if __name__ == "__main__":
    results = measure()
    write("intrinsics", results)
    print(section(results))
