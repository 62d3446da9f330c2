"""The machine's limits, as `python -m benchmarks.peak` prints them and as the others divide by."""

from benchmarks.report import Results, table, write
from smelt.codegen.llvm import resolve
from smelt.codegen.peak import Peak
from smelt.runtime.native import cores
from smelt.target import Target, machine_of


def probe(threads: int) -> Peak:
    """A peak that can be measured again and again, between other measurements."""
    target = resolve(Target("llvm -mcpu=native"))
    return Peak(threads, target, machine_of(target))


def measure() -> Results:
    """Multiply-adds and reading, on one core and on all."""
    rows = []
    for threads in sorted({1, cores()}):
        peak = probe(threads)
        gflops = sorted(peak.gflops() for _ in range(15))
        rows.append(
            {
                "threads": threads,
                "gflops_best": gflops[-1],
                "gflops_median": gflops[len(gflops) // 2],
                "gigabytes": peak.gigabytes(),
            }
        )
    return {"rows": rows}


def section(results: Results) -> str:
    """The results as markdown."""
    return table(
        ["threads", "multiply-add, best GFLOP/s", "median", "reading, GB/s"],
        [
            [r["threads"], *(f"{r[k]:.1f}" for k in ("gflops_best", "gflops_median", "gigabytes"))]
            for r in results["rows"]
        ],
    )


if __name__ == "__main__":
    found = measure()
    write("peak", found)
    print(section(found))
