"""The command on the machine itself: targets."""

from typing import Annotated

import typer
from rich.table import Table

from smelt.cli.console import out, say, say_json
from smelt.cli.timing import cores
from smelt.codegen.llvm import host_cpu
from smelt.target.target import Target


def targets(
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """List what smelt can compile for, and describe this machine's CPU."""
    kinds = [str(kind) for kind in Target.list_kinds()]
    cpu, features = host_cpu()
    if json:
        say_json({"kinds": kinds, "cpu": cpu, "cores": cores(), "features": list(features)})
        return
    say("kinds: " + ", ".join(kinds))
    table = Table("this machine", "", show_header=True)
    table.add_row("cpu", cpu)
    table.add_row("cores", str(cores()))
    table.add_row("features", " ".join(features))
    out.print(table)
