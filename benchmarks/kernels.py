"""Single operators as shares of the machine's limits: `python -m benchmarks.kernels`.

Each case is an ONNX model of one node. In every round the limits of as many cores are measured
first, then the model; the share is the median over the rounds of the time that the nearer limit
allows, of multiply-adds or of reading bytes, divided by the time taken. The share of `kernel`
counts the kernels that multiply, as `profile` times them; that of `model` the whole call, with the
changes of layout that a network of many layers would not have between them.

Weights are hot where one model is called again and again: they stay in the cache that holds them.
They are cold where calls walk over copies of the model that no cache holds together; cases that
would need more than 512 copies are not measured so.
"""

import copy
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

import smelt
from benchmarks.options import arguments, report
from benchmarks.peak import probe
from benchmarks.peers import QUICKLY, REFERENCE, SMELT, Pace, Side, beside
from benchmarks.processes import Foreign, give_back, worker
from benchmarks.real_models import written
from benchmarks.report import Results, table
from benchmarks.shapes import GROUPS, Case, cases, normal, smallest
from benchmarks.zoo import NOISY, ratios
from smelt.codegen.peak import MEMORY, Peak
from smelt.runtime import NativeExecutable
from smelt.runtime.errors import SmeltError

ROUNDS = 7
BATCH_SECONDS = 0.03
THREADS = (1, 2)
FAR, COPIES = 4, 512
"""How often the copies of a model fill the last cache, and how many there may be."""
TARGETS = ("x86-64-v3", "x86-64-v2", "x86-64")
PEERS = (REFERENCE, "openvino")
PACE = Pace(0.3)
MANY, WORST = 20, 5
"""From so many random cases on, the table shows tenths of them; so many of the worst are named."""
TENTHS = ("tenth percentile", "median", "ninetieth")
NOTE = "~: other work disturbed the row, or more than five of the cases behind it."
COLUMNS = {"kernel": "kernel", "model": "whole call"}


@dataclass(frozen=True)
class Part:
    """Some cases, measured in one way.

    cpu  whose instructions may be used; the limit is that of its vector width
    """

    group: str
    cold: bool = False
    cpu: str = "native"

    @property
    def many(self) -> bool:
        """Whether single cases say little."""
        return self.group in ("random", "grouped")

    @property
    def title(self) -> str:
        """For the table."""
        ways = ["cold weights"] if self.cold else []
        return ", ".join([GROUPS[self.group][0], *ways, *([self.cpu] * (self.cpu != "native"))])


PARTS = {
    **{name: Part(name) for name in GROUPS},
    **{f"{name}-cold": Part(name, cold=True) for name in ("matmul", "rows", "conv")},
    **{cpu: Part("random", cpu=cpu) for cpu in TARGETS},
}


def last_cache() -> int:
    """Bytes of the largest cache, as Linux tells them; 0: it does not."""
    found = [0]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        found.append(int(path.read_text().strip().removesuffix("K")) * 1024)
    return max(found)


def far() -> int:
    """Bytes that no cache holds."""
    return max(MEMORY, FAR * last_cache())


def copies(exe: NativeExecutable) -> list[NativeExecutable]:
    """The same model with constants at so many places that no cache holds all of them."""
    assert exe.weights is not None
    found = [copy.copy(exe) for _ in range(math.ceil(far() / exe.weights.nbytes))]
    for one in found:
        one.weights = smelt.nd.array(exe.weights).numpy()
    return found


def allowed(case: Case, moved: int, gflops: float, gbytes: float) -> float:
    """The seconds that a case takes at least; `moved` bytes are read."""
    return max(case.flops / gflops, moved / gbytes) / 1e9


def share(case: Case, part: Part, threads: int, peak: Peak, rounds: int = ROUNDS) -> Results:
    """How near one case comes to the limit."""
    options = smelt.Options(threads=threads)
    exe = smelt.compile(case.model(), f"llvm -mcpu={part.cpu}", options=options)
    assert isinstance(exe, NativeExecutable)
    inputs = [normal(*case.inputs[tensor.name]) for tensor in exe.inputs]
    outputs = [smelt.nd.empty([int(str(n)) for n in tensor.shape]) for tensor in exe.outputs]
    calls = [one.bind(inputs, outputs) for one in (copies(exe) if part.cold else [exe])]
    size, moved = (far(), case.weight_bytes) if part.cold else (case.bytes, case.bytes)
    model, kernel, foreign = [], [], Foreign()
    for _ in range(rounds):
        time.sleep(0.01)  # spinning threads of the model have gone to sleep
        least = allowed(case, moved, peak.gflops(), peak.gigabytes(size))
        seconds = _seconds(calls)
        model.append(least / seconds)
        if not part.cold:
            profile = exe.profile(*inputs, repeat=max(10, int(BATCH_SECONDS / seconds)))
            rows = json.loads(profile.json())["kernels"]
            spent = sum(r["milliseconds"] for r in rows if r["flops"] > 0.01 * case.flops)
            kernel.append(1e3 * least / spent)
    found = {"model": statistics.median(model), "foreign_cores": foreign.cores()}
    return found | ({"kernel": statistics.median(kernel)} if kernel else {})


def _seconds(calls: Sequence[Callable[[], object]]) -> float:
    """The median time of a call, all of them in turns: at least once, after a first turn."""
    for call in calls:
        call()
    taken: list[float] = []
    begin = time.perf_counter()
    for call in cycle(calls):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
        enough = time.perf_counter() - begin > BATCH_SECONDS
        if enough and len(taken) >= max(3, len(calls)):
            break
    return statistics.median(taken)


def part_rows(name: str, threads: int, quick: bool) -> list[Results]:
    """All cases of a part; a case that fails says why."""
    part, rows = PARTS[name], []
    peak = probe(threads, part.cpu)
    found = [c for c in cases(part.group) if not part.cold or c.weight_bytes * COPIES >= far()]
    for case in smallest(found) if quick else found:
        row = described(case)
        try:
            row |= share(case, part, threads, peak, 2 if quick else ROUNDS)
        except SmeltError as error:
            row["error"] = str(error)
        rows.append(row)
    return rows


def described(case: Case) -> Results:
    """What a case is, in the results."""
    return {"case": case.label, "kind": type(case).__name__, **asdict(case)}


def peer_rows(threads: int, quick: bool) -> list[Results]:
    """Convolutions in groups beside other runtimes, which take turns."""
    sides = [Side(SMELT, threads), *[Side(name, threads, name) for name in PEERS]]
    rows = []
    with beside(sides) as workers:
        found = cases("grouped")
        for case in smallest(found) if quick else found:
            feeds = {name: normal(*shape) for name, shape in case.inputs.items()}
            with written("case", case.model(), feeds) as files:
                workers.load(*files)
            row = described(case) | workers.time(QUICKLY if quick else PACE)
            rows.append(row | (ratios(row, PEERS) if SMELT in row else {}))
            if workers.failed:
                rows[-1]["error"] = ", ".join(f"{k}: {v}" for k, v in workers.failed.items())
    return rows


def measure(only: Collection[str] = (), quick: bool = False) -> Results:
    """Every part, or only some, on one core and on two; quickly: two cases of each, on two."""
    found: Results = {"groups": [], "peers": []}
    for name in [*PARTS, "peers"]:
        for threads in THREADS[-1:] if quick else THREADS:
            if only and name not in only:
                continue
            if name == "peers":
                found["peers"].append({"threads": threads, "rows": peer_rows(threads, quick)})
            else:
                given = (name, str(threads), "quick" if quick else "")
                rows = worker("benchmarks.kernels", *given, threads=threads)
                found["groups"].append({"group": name, "threads": threads, "rows": rows})
            print(name, threads, "done", flush=True)
    return found


def percent(value: float) -> str:
    """A share for people."""
    return f"{100 * value:.0f} %"


def tenths(values: Sequence[float], form: Callable[[float], str]) -> list[str]:
    """The tenth percentile, the median and the ninetieth."""
    found = statistics.quantiles(values, n=10)
    return [form(found[place]) for place in (0, 4, 8)]


def section(results: Results) -> str:
    """The results as markdown."""
    parts = []
    for entry in results["groups"]:
        title = f"**{PARTS[entry['group']].title}, {entry['threads']} thread(s)**"
        rows = entry["rows"]
        if isinstance(rows, dict):
            parts.append(f"{title}: {rows['error']}")
            continue
        columns = {k: v for k, v in COLUMNS.items() if any(k in r for r in rows)}
        good = [row for row in rows if "error" not in row]
        noisy = [row["case"] for row in good if row.get("foreign_cores", 0.0) > NOISY]
        lines = [[_marked(r["case"], noisy), *[percent(r[k]) for k in columns]] for r in good]
        if len(good) >= MANY and PARTS[entry["group"]].many:
            spread = [tenths([r[k] for r in good], percent) for k in columns]
            names = [_marked(name, noisy) for name in TENTHS]
            lines = [list(line) for line in zip(names, *spread, strict=True)]
        none = [""] * (len(columns) - 1)
        lines += [[row["case"], row["error"], *none] for row in rows if "error" in row]
        parts += [title, table(["case", *columns.values()], lines)]
    parts.append(NOTE)
    return "\n\n".join(parts + [peer_table(entry) for entry in results.get("peers", ())])


def _marked(name: str, noisy: Collection[str]) -> str:
    """A case, or a figure over all cases: one that enough disturbed cases may have moved."""
    return f"{name} ~" if name in noisy or (name in TENTHS and len(noisy) > WORST) else name


def peer_table(entry: Results) -> str:
    """Ratios of convolutions in groups to the best peer: their spread, and the worst of them."""
    rows = [row for row in entry["rows"] if "best_ratio" in row]
    title = (
        f"**Convolutions in groups, against {' and '.join(PEERS)}, {entry['threads']} thread(s)**"
    )
    worst = sorted(rows, key=lambda row: -row["best_ratio"])[:WORST]
    lines = [[row["case"], f"{row['best_ratio']:.2f}", row["best"]] for row in worst]
    if len(rows) >= MANY:
        spread = tenths([row["best_ratio"] for row in rows], "{:.2f}".format)
        lines = [[name, one, ""] for name, one in zip(TENTHS, spread, strict=True)] + lines
    lines += [[row["case"], row["error"], ""] for row in entry["rows"] if "error" in row]
    return f"{title}\n\n{table(['case', 'time / the best', 'the best'], lines)}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        give_back(part_rows(sys.argv[2], int(sys.argv[3]), quick=sys.argv[4] == "quick"))
    else:
        asked = arguments(__doc__, [*PARTS, "peers"])
        found = measure(asked.only or (), asked.quick)
        report("kernels", asked, found, section(found))
