"""What tuning makes of programs by themselves; see `benchmarks.tune`.

Formulas as tensor expressions, built as they are written, with the default schedule, and with what
was found in some seconds; all take turns. Their shares are of what the machine's limits allow.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

import smelt
from benchmarks.peak import probe
from benchmarks.processes import Foreign
from benchmarks.report import Results, table
from benchmarks.zoo import NOISY
from smelt import te
from smelt.artifact.arithmetic import flops
from smelt.choices import default_schedule
from smelt.cli.results import largest_error
from smelt.codegen.llvm import resolve
from smelt.codegen.peak import Peak
from smelt.ir.errors import CompileError
from smelt.lowering.lower import for_target
from smelt.pipeline import LOWER, build
from smelt.rules.cpu.analysis import guess
from smelt.search.database import MemoryDatabase
from smelt.search.space import ProgramSpec, RuleSpace
from smelt.search.tune import Session, Settings, Task
from smelt.target import Target
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule, Trace

NATIVE = "llvm -mcpu=native"
SECONDS, QUICK_SECONDS = 20.0, 1.0
ROUNDS, TURN = 7, 0.03
SIDES = ("naive", "default", "tuned")

Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Formula:
    """A program, what it is called with (the result comes last), and the bytes that it has to read
    and to write."""

    func: PrimFunc
    arrays: Arrays
    bytes: int

    @property
    def operations(self) -> float:
        """Float operations; a multiply-add counts two."""
        return float(guess(flops(self.func)))


def _floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32)


def _formula(name: str, given: Arrays, args: Sequence[te.Tensor], read: int = -1) -> Formula:
    """read: bytes of inputs, where these are not read whole."""
    shape = [guess(n) for n in args[-1].shape]
    arrays = {**given, "out": np.zeros(shape, np.float32)}
    size = sum([a.nbytes for a in given.values()]) if read < 0 else read
    func = te.create_prim_func([*args], name)
    return Formula(func, arrays, size + arrays["out"].nbytes)


def matmul(n: int = 512) -> Formula:
    """C[i, j] = sum of A[i, k] * B[k, j]."""
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return _formula("matmul", {"A": _floats(n, n), "B": _floats(n, n)}, [a, b, c])


def convolution(i: int = 37, o: int = 53, size: int = 61, side: int = 3) -> Formula:
    """A convolution whose sizes divide nothing."""
    out = size - side + 1
    x, w = te.placeholder((i, size, size), name="X"), te.placeholder((o, i, side, side), name="W")
    c, p, q = (te.reduce_axis((0, n), v) for n, v in ((i, "c"), (side, "p"), (side, "q")))
    y = te.compute(
        (o, out, out),
        lambda f, h, v: te.sum(x[c, h + p, v + q] * w[f, c, p, q], axis=[c, p, q]), name="Y",
    )  # fmt: skip
    given = {"X": _floats(i, size, size), "W": _floats(o, i, side, side)}
    return _formula("convolution", given, [x, w, y])


def softmax(rows: int = 512, columns: int = 1000) -> Formula:
    """exp(x - max) over its sum, of each row."""
    x = te.placeholder((rows, columns), name="X")
    k, r = (te.reduce_axis((0, columns), v) for v in ("k", "r"))
    top = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="top")
    e = te.compute((rows, columns), lambda i, j: te.exp(x[i, j] - top[i]), name="E")
    total = te.compute((rows,), lambda i: te.sum(e[i, r], axis=r), name="total")
    y = te.compute((rows, columns), lambda i, j: e[i, j] / total[i], name="Y")
    return _formula("softmax", {"X": _floats(rows, columns)}, [x, y])


def stencil(n: int = 1022) -> Formula:
    """The mean of an element and its four neighbours."""
    x = te.placeholder((n + 2, n + 2), name="X")
    y = te.compute(
        (n, n),
        lambda i, j: (x[i + 1, j + 1] + x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j]
                      + x[i + 1, j + 2]) * 0.2, name="Y",
    )  # fmt: skip
    return _formula("stencil", {"X": _floats(n + 2, n + 2)}, [x, y])


def bag(words: int = 50_000, width: int = 128, bags: int = 256, each: int = 32) -> Formula:
    """The sum of some rows of a table."""
    x = te.placeholder((words, width), name="X")
    at = te.placeholder((bags, each), "int32", name="at")
    r = te.reduce_axis((0, each), "r")
    y = te.compute((bags, width), lambda b, d: te.sum(x[at[b, r], d], axis=r), name="Y")
    rows = np.random.default_rng(0).integers(words, size=(bags, each)).astype(np.int32)
    given = {"X": _floats(words, width), "at": rows}
    return _formula("bag", given, [x, at, y], rows.nbytes + rows.size * width * 4)


def distance(m: int = 256, n: int = 200, width: int = 96) -> Formula:
    """The sum of absolute differences of each row of A and each of B."""
    a, b = te.placeholder((m, width), name="A"), te.placeholder((n, width), name="B")
    k = te.reduce_axis((0, width), "k")
    d = te.compute((m, n), lambda i, j: te.sum(te.abs(a[i, k] - b[j, k]), axis=k), name="D")
    return _formula("distance", {"A": _floats(m, width), "B": _floats(n, width)}, [a, b, d])


FORMULAS: dict[str, Callable[[], Formula]] = {
    "product of 512": matmul,
    "convolution, odd sizes": convolution,
    "softmax of 512 x 1000": softmax,
    "5-point stencil": stencil,
    "embedding bag": bag,
    "L1 distances": distance,
}
QUICK = {"5-point stencil": partial(stencil, 62), "L1 distances": partial(distance, 32, 24, 16)}


def schedules(
    formula: Formula, threads: int, seconds: float
) -> tuple[dict[str, Schedule | PrimFunc], Results]:
    """The program of each side, and what tuning tells."""
    options, target = smelt.Options(threads=threads), resolve(Target(NATIVE))
    sides: dict[str, Schedule | PrimFunc] = {"naive": formula.func}
    told: Results = {"trials": 0, "decisions": 1.0, "note": ""}
    try:
        default = default_schedule(formula.func, NATIVE, options=options)
        sides |= {"default": default, "tuned": default}
        spec = ProgramSpec(formula.func, target, threads)
        task = Task(partial(RuleSpace, spec, formula.func.name), formula.func.name, cores=threads)
        session = Session([task], MemoryDatabase(), Settings(seconds=seconds), LOWER)
        for _ in session.run():
            pass
        told = {"trials": task.trials, "note": task.note, "failed": task.errors}
        told["decisions"] = task.space.size
        if task.trace:
            sides["tuned"] = tuned = Schedule(for_target(formula.func, target))
            Trace.from_text(task.trace).apply(tuned)
    except CompileError as e:  # no rule fits: the loops stay as they are written
        told["note"] = str(e).splitlines()[0]
    return sides, told


def formula_row(name: str, formula: Formula, threads: int, seconds: float) -> Results:
    """One formula on so many threads."""
    sides, told = schedules(formula, threads, seconds)
    calls: dict[str, Any] = {}
    errors, wanted = {}, None
    for side, program in sides.items():
        module = build(cast(Any, program), target=NATIVE, options=smelt.Options(threads=threads))
        arrays = {k: v.copy() for k, v in formula.arrays.items()}
        calls[side] = module[module.entry_name].bind(*arrays.values())
        calls[side]()
        wanted = arrays["out"] if wanted is None else wanted
        errors[side] = float(largest_error([arrays["out"]], [wanted]))
    peak, foreign = probe(threads), Foreign()
    taken: dict[str, list[float]] = {side: [] for side in calls}
    allowed = []
    for _ in range(2 if seconds < SECONDS else ROUNDS):
        allowed.append(limit(formula, peak))
        for side, call in calls.items():
            taken[side] += _turn(call)
    return {"formula": name, "threads": threads, "found": {
        "seconds": {side: statistics.median(t) for side, t in taken.items()},
        "limit": statistics.median(allowed), "errors": errors, **told,
        "foreign_cores": foreign.cores(),
    }}  # fmt: skip


def _turn(call: Any) -> list[float]:
    """Seconds of some runs of one side."""
    time.sleep(0.01)  # threads of the one before have stopped looking for work
    call.time(1)
    found: list[float] = []
    end = time.perf_counter() + TURN
    while time.perf_counter() < end or len(found) < 3:
        found.append(call.time(1) / 1e3)
    return found


def limit(formula: Formula, peak: Peak) -> float:
    """Seconds that the machine's nearer limit allows."""
    reading = formula.bytes / peak.gigabytes(formula.bytes)
    return max(formula.operations / peak.gflops(), reading) / 1e9


def measure(threads: Sequence[int], quick: bool = False) -> list[Results]:
    """All formulas; quickly two small ones."""
    rows = []
    for name, make in (QUICK if quick else FORMULAS).items():
        for count in threads[-1:] if quick else threads:
            rows.append(formula_row(name, make(), count, QUICK_SECONDS if quick else SECONDS))
            print(name, count, "done", flush=True)
    return rows


def section(rows: Sequence[Results]) -> str:
    """The results as markdown."""
    lines = []
    for r in rows:
        f = r["found"]
        s, noise = f["seconds"], " ~" if f["foreign_cores"] > NOISY else ""
        cells = [f"{1e3 * s[k]:.3f}" if k in s else "–" for k in SIDES]
        shares = [f"{100 * f['limit'] / s[k]:.0f} %" if k in s else "–" for k in SIDES]
        ratio = f"{s['tuned'] / s['default']:.2f}" if "tuned" in s else "–"
        lines.append([f"{r['formula']}, {r['threads']}{noise}", *cells, *shares, ratio,
                      f"{f['decisions']:.0f}, {f['trials']}", f"{max(f['errors'].values()):.1e}",
                      "1.00"])  # fmt: skip
    heading = ["formula, threads", *[f"{k}, ms" for k in SIDES], *[f"{k}, share" for k in SIDES],
               "tuned / default", "decisions, trials", "error", "wanted, at most"]  # fmt: skip
    notes = {r["formula"]: r["found"]["note"] for r in rows if r["found"]["note"]}
    said = [f"{name}: {note}." for name, note in notes.items()]
    return "\n\n".join([table(heading, lines), (
        "Naive: the loops as they are written. Share: of what multiply-adds, or reading so many "
        "bytes, allow on as many cores. Error: of results, against those of the naive program. "
        "~: other work disturbed the row."
    ), *said])  # fmt: skip
