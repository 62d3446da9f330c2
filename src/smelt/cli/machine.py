"""The command on the machine itself: targets."""

from typing import Annotated

import typer
from rich.table import Table

from smelt.cli.console import out, say, say_json
from smelt.codegen.llvm import host_cpu
from smelt.runtime.native import cores
from smelt.target.target import Target

TODAY = {
    "llvm": (
        "compiled and run on this machine's CPU; object files for any CPU that LLVM knows",
        "llvm -mcpu=native, llvm -mcpu=x86-64-v3, llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72",
    )
}
"""What can be done with the kinds of targets that something can be done with."""
NOT_YET = "understood in programs; models are not compiled for it yet"


def targets(
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """List what smelt can compile for today, and describe this machine's CPU."""
    kinds = [str(kind) for kind in Target.list_kinds()]
    cpu, features = host_cpu()
    if json:
        today = {kind: TODAY.get(kind, (NOT_YET,))[0] for kind in kinds}
        say_json({"kinds": kinds, "today": today, "cpu": cpu, "cores": cores(),
                  "features": list(features)})  # fmt: skip
        return
    table = Table("kind", "today", "example")
    for kind in kinds:
        table.add_row(kind, *TODAY.get(kind, (NOT_YET, "")))
    out.print(table)
    say("")
    table = Table("this machine", "", show_header=True)
    table.add_row("cpu", cpu)
    table.add_row("cores", str(cores()))
    table.add_row("features", " ".join(features))
    out.print(table)
