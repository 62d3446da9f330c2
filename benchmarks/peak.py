"""The machine's limits, as `python -m benchmarks.peak` prints them and as the others divide by."""

import ctypes

from benchmarks.report import Results, table, write
from smelt.codegen.llvm import ObjectCompiler, link_in_process, resolve
from smelt.codegen.peak import FLOAT, FMA, Peak
from smelt.runtime.native import cores
from smelt.target import Machine, Target, machine_of

SLOWER = 32
"""What fmaf takes at least, as a function of the C library, of a multiplication and an addition."""


def probe(threads: int, cpu: str = "native") -> Peak:
    """A peak that can be measured again and again, between other measurements.

    cpu  whose instructions it may use: the limit of its vector width
    """
    target = resolve(Target(f"llvm -mcpu={cpu}"))
    machine = machine_of(target)
    return (Peak if machine.fma else Unfused)(threads, target, machine)


class Unfused(Peak):
    """The peak of processors without a fused multiply-add: a multiplication and an addition."""

    def __init__(self, threads: int, target: Target, machine: Machine) -> None:
        """Make the code in place of Peak's, which calls fmaf here."""
        super().__init__(threads, target, machine)
        made = [ObjectCompiler(target).object(unfused_text(machine), FMA)]
        addresses, self._code = link_in_process(made, [FMA])
        signature = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_float, ctypes.c_void_p)
        self._fma = signature(addresses[FMA])
        self._turns *= SLOWER

    def gflops(self) -> float:
        """As Peak's, which counts on three of four registers for sums; here all but two are."""
        registers = self.machine.vector_registers
        return super().gflops() * (registers - 2) / (registers * 3 // 4)


def unfused_text(machine: Machine) -> str:
    """`fma(i64 turns, float x, ptr total)` as Peak has it: sum = sum * x + x, at least one turn."""
    chains, vector = machine.vector_registers - 2, f"<{machine.lanes(FLOAT)} x float>"
    starts = [f"splat (float {float(n)})" for n in range(chains)]
    lines = [f"define void @{FMA}(i64 %turns, float %s, ptr %total) {{", "entry:"]
    lines += [f"%one = insertelement {vector} poison, float %s, i64 0"]
    zeros = f"<{machine.lanes(FLOAT)} x i32> zeroinitializer"
    lines += [f"%x = shufflevector {vector} %one, {vector} poison, {zeros}", "br label %loop"]
    lines += ["loop:", "%turn = phi i64 [ 0, %entry ], [ %next, %loop ]"]
    lines += [
        f"%sum{n} = phi {vector} [ {start}, %entry ], [ %new{n}, %loop ]"
        for n, start in enumerate(starts)
    ]
    for n in range(chains):
        lines += [f"%product{n} = fmul {vector} %sum{n}, %x"]
        lines += [f"%new{n} = fadd {vector} %product{n}, %x"]
    lines += ["%next = add i64 %turn, 1", "%more = icmp slt i64 %next, %turns"]
    lines += ["br i1 %more, label %loop, label %end", "end:", f"%all0 = fadd {vector} %new0, %x"]
    for n in range(1, chains):
        lines += [f"%all{n} = fadd {vector} %all{n - 1}, %new{n}"]
    lines += [f"store {vector} %all{chains - 1}, ptr %total, align 4", "ret void", "}"]
    return "\n".join(lines)


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
