"""Times models with a cache beside onnxruntime: `python -m benchmarks.state`.

Both run on one thread of one process, in turns, called from Python. smelt keeps the cache; for
onnxruntime, once input and output are bound to the same memory, and once the output is new.
"""

import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

import smelt
from benchmarks.control import THREADS, session, time_rounds
from benchmarks.options import arguments, report
from benchmarks.peers import QUICKLY, Pace
from benchmarks.processes import Foreign, give_back, worker
from benchmarks.report import Results, table
from benchmarks.zoo import NOISY
from smelt.cli.timing import Call
from tests.updates import nets

PACE = Pace(3.0)
HEADS, DEPTH = 8, 128
CACHES = {"past_k": "present_k", "past_v": "present_v"}
APPENDS = {f"append_{rows}": rows for rows in (1024, 16384, 262144)}
"""A row of 4 KB is added to a cache of so many: 4 MB, 64 MB, 1 GB."""
STEPS = {f"attend_{rows}": rows for rows in (512, 4096)}
"""The same for keys and values, and a query attends to all rows."""
LOOPS = {f"loop_{rows}": rows for rows in (256, 4096)}
"""A Loop that changes each row of a cache [rows, 8]."""
CASES = (*APPENDS, *STEPS, *LOOPS)
QUICK = ("append_1024", "attend_512", "loop_256")
SIDES = ("smelt", "bound", "plain")


def kept(proto: onnx.ModelProto, given: Sequence[Any]) -> Call:
    """A call of a model that keeps its caches."""
    names = [i.name for i in proto.graph.input]
    state = {n: o for n, o in CACHES.items() if n in names}
    exe = smelt.compile(proto, state=state, options=smelt.Options(threads=THREADS))
    return lambda: exe(*given)


def bound(proto: onnx.ModelProto, given: Sequence[Any]) -> Call:
    """A run of onnxruntime whose caches are inputs and outputs in the same memory."""
    peer = session(proto)
    binding = peer.io_binding()
    for i, value in zip(peer.get_inputs(), given, strict=False):
        binding.bind_cpu_input(i.name, value)
    for i in peer.get_inputs()[len(given) :]:
        cache = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(i.shape, "float32"))
        binding.bind_ortvalue_input(i.name, cache)
        binding.bind_ortvalue_output(CACHES[i.name], cache)
    for o in peer.get_outputs():
        if o.name not in CACHES.values():
            binding.bind_output(o.name)
    return lambda: peer.run_with_iobinding(binding)


def plain(proto: onnx.ModelProto, given: Sequence[Any]) -> Call:
    """A run of onnxruntime that gives new caches."""
    peer = session(proto)
    caches = [np.zeros(i.shape, "float32") for i in peer.get_inputs()[len(given) :]]
    feeds = dict(zip([i.name for i in peer.get_inputs()], [*given, *caches], strict=True))
    return lambda: peer.run(None, feeds)


def calls_of(name: str) -> list[Call]:
    """What runs a case in each of SIDES; a Loop cannot be bound."""
    if name in LOOPS:
        rows = LOOPS[name]
        proto, cache = nets.filled(rows), np.zeros((rows, 8), "float32")
        exe = smelt.compile(proto, options=smelt.Options(threads=THREADS))
        peer, most = session(proto), np.asarray(rows)
        feeds = {"most": most, "cache": cache}
        return [lambda: exe(most, cache), lambda: peer.run(None, feeds)]
    rows = {**APPENDS, **STEPS}[name]
    given = nets.step_inputs(5, HEADS, DEPTH)
    if name in APPENDS:
        proto, given = nets.appended(rows, HEADS, DEPTH), [given[1], given[3]]
    else:
        proto = nets.step("scatter_elements", rows, HEADS, DEPTH)
    return [kept(proto, given), bound(proto, given), plain(proto, given)]


def time_case(name: str, pace: Pace) -> Results:
    """The medians of a case in each."""
    calls = calls_of(name)
    sides = SIDES if len(calls) == len(SIDES) else (SIDES[0], SIDES[2])
    foreign = Foreign()
    found: Results = dict(zip(sides, time_rounds(calls, pace), strict=True))
    return {**found, "foreign_cores": foreign.cores()}


def measure(
    names: Collection[str] = CASES, quick: bool = False, say: Callable[[str], object] = print
) -> Results:
    """Some cases, by default all."""
    rows = []
    for name in names:
        row = worker("benchmarks.state", name, *["quick"] * quick, threads=THREADS)
        rows.append({"case": name, **row})
        say(f"{name}: {row.get('error') or row['smelt']['median_ms']}")
    return {"rows": rows}


def section(results: Results) -> str:
    """The results as markdown."""
    lines, errors = [], []
    for r in results["rows"]:
        if "smelt" not in r:
            errors.append(f"{r['case']}: {r['error']}.")
            continue
        ms = {side: r[side]["median_ms"] for side in SIDES if side in r}
        cells = [f"{ms[side]:.4f}" if side in ms else "" for side in SIDES]
        ratios = [f"{ms[side] / ms['smelt']:.1f}" if side in ms else "" for side in SIDES[1:]]
        noise = " ~" if r["foreign_cores"] > NOISY else ""
        lines.append([f"{r['case']}{noise}", *cells, *ratios])
    heads = ["case", "smelt, ms", "onnxruntime bound, ms", "new output, ms", "ratio", "ratio"]
    note = (
        f"Caches of float32[1, {HEADS}, rows, {DEPTH}]. append: another row (1024 rows are 4 MB, "
        "262144 are 1 GB); attend: the same for keys and values, then attention to all rows; loop: "
        "a Loop that changes a row of float32[rows, 8] in each turn. Bound: the cache is input and "
        "output in the same memory. Ratios: onnxruntime's time over smelt's. One thread; calls "
        "from Python. ~: other work disturbed the row."
    )
    return "\n\n".join([table(heads, lines), note, *errors])


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        give_back(time_case(sys.argv[2], QUICKLY if "quick" in sys.argv[3:] else PACE))
    else:
        asked = arguments(__doc__, CASES)
        names = asked.only or (QUICK if asked.quick else CASES)
        found = measure(names, asked.quick)
        report("state", asked, found, section(found))
