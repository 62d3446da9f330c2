"""The command on the machine itself: targets."""

import json as _json
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.table import Table

from smelt.cli.console import notice, out, progress, say, say_json
from smelt.codegen.cache import make_private
from smelt.codegen.llvm import host_cpu, resolve
from smelt.codegen.peak import Measured, measure_machine
from smelt.ir.options import Options
from smelt.runtime.files import write_file
from smelt.runtime.native import cores
from smelt.target import Machine, Target, machine_of, machine_text
from smelt.target.measured import measured_file

TODAY = {
    "llvm": (
        "compiled and run on this machine's CPU; object files for any CPU that LLVM knows",
        "llvm -mcpu=native, llvm -mcpu=x86-64-v3, llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72",
    ),
    "c": (
        "plain C for microcontrollers, or for any compiler of C; cmsis-nn,c calls CMSIS-NN",
        "c, c -mcpu=cortex-m4, cmsis-nn,c -mcpu=cortex-m55",
    ),
}
"""What can be done with the kinds of targets that something can be done with."""
NOT_YET = "understood in programs; models are not compiled for it yet"


def targets(
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Measure this machine beside the table's figures, and keep what was found for "
            "targets with -measured.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """List what smelt can compile for today, and describe this machine's CPU."""
    machine = machine_of(resolve(Target("llvm -mcpu=native")), Options().cores)
    if measure:
        _measure(machine, json)
        return
    kinds = [str(kind) for kind in Target.list_kinds()]
    cpu, features = host_cpu()
    if json:
        today = {kind: TODAY.get(kind, (NOT_YET,))[0] for kind in kinds}
        say_json({"kinds": kinds, "today": today, "cpu": cpu, "cores": cores(),
                  "features": list(features), "machine": machine.to_json()})  # fmt: skip
        return
    table = Table("kind", "today", "example")
    for kind in kinds:
        table.add_row(kind, *TODAY.get(kind, (NOT_YET, "")))
    out.print(table)
    say(f"\nthis machine, by the table of processors:\n{machine_text(machine)}")
    say(f"features          {' '.join(features)}")


def _measure(machine: Machine, json: bool) -> None:
    """Measure, keep what was found, and print it beside the table's figures."""
    file = measured_file(machine.cpu)
    with progress() as report:
        found = measure_machine(report)
    make_private(str(file.parent), 2)
    data = found.machine.to_json()
    write_file(file, lambda f: f.write(_json.dumps(data, indent=2).encode()))
    if json:
        say_json({"machine": machine.to_json(), "measured": data, "file": str(file)})
        return
    table = Table(f"{machine.cpu}, {machine.cores} cores", "table", "measured", "ratio", "")
    for name, known, seen, unit in _rows(machine, found):
        table.add_row(name, f"{known:.4g}", f"{seen:.4g}", f"{seen / known:.2f}", unit)
    out.print(table)
    notice(f"kept for targets with -measured: {file}")


def _rows(m: Machine, found: Measured) -> Iterator[tuple[str, float, float, str]]:
    """Names, the table's figures, those measured, and their units."""
    one, every, count = found.one, found.every, m.cores
    yield "float32, one core", m.flops / 1e9, one.gflops, "GFLOP/s"
    yield "float32, all cores", count * m.flops / 1e9, every.gflops, "GFLOP/s"
    single, all_ = ({b.level: b.gbytes for b in limits.levels} for limits in (one, every))
    for c in m.caches:
        known = c.bytes_per_cycle * m.clock / 1e9
        if c.name in single:
            yield f"{c.name} read, one core", known, single[c.name], "GB/s"
        if c.name in all_:
            yield f"{c.name} read, all cores", count * known, all_[c.name], "GB/s"
    yield "memory read, one core", m.memory / 1e9, one.gbytes, "GB/s"
    yield "memory read, all cores", m.memory_all / 1e9, every.gbytes, "GB/s"
    yield "memory latency", m.memory_latency * 1e9, found.machine.memory_latency * 1e9, "ns"
    yield "parallel loop", m.launch * 1e6, found.machine.launch * 1e6, "us"
