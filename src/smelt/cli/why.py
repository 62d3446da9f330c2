"""The command `why`: what was chosen for a model's kernels, and what was not."""

from typing import Annotated

import typer

from smelt.choices import why as choices
from smelt.cli.console import progress, say, say_json
from smelt.cli.options import (
    Build,
    Database,
    Json,
    Model,
    OptLevel,
    Shape,
    Target,
    Threads,
    needs_source,
)
from smelt.cli.sizes import SizeOptions


def why(
    model: Model,
    kernel: Annotated[str | None, typer.Argument(help="This kernel only.")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Build every candidate and time it on this machine.")
    ] = False,
    runners_up: Annotated[
        int, typer.Option(min=0, help="Further decisions of the chosen sketch.")
    ] = 3,
    target: Target = None,
    shape: Shape = None,
    threads: Threads = None,
    opt_level: OptLevel = None,
    database: Database = None,
    json: Json = False,
) -> None:
    """Print how kernels are scheduled, what else fits and is predicted to take longer, and what
    was refused with its reason.

    The chosen way is marked with *. With --measure every candidate is built and timed.
    """
    needs_source(model)
    shapes = SizeOptions(shape).shapes(list) or None
    options = Build(threads=threads, opt_level=opt_level, database=database).options()
    with progress() as report:
        found = choices(model, kernel, target, shapes, options, runners_up=runners_up,
                        measure=measure, progress=report)  # fmt: skip
    if json:
        say_json([k.json() for k in found])
    else:
        say("\n".join([k.text() for k in found]))
