"""The machine's limits, as `python -m benchmarks.peak` prints them and as the others divide by."""

import platform

import llvmlite.binding as llvm

from benchmarks.report import Results, table, write
from smelt.codegen.llvm import resolve
from smelt.codegen.peak import Peak, Registers
from smelt.runtime.native import cores
from smelt.target import Target


def registers() -> Registers:
    """The vector registers of this CPU."""
    if platform.machine() in ("aarch64", "arm64"):
        return Registers(128, 32)
    features = llvm.get_host_cpu_features()
    return Registers(512, 32) if features.get("avx512f") else Registers(256, 16)


def probe(threads: int) -> Peak:
    """A peak that can be measured again and again, between other measurements."""
    return Peak(threads, resolve(Target("llvm -mcpu=native")), registers())


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
