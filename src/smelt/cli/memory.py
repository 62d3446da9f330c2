"""The command `memory`: what a model needs of a microcontroller."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Column, Table

from smelt.cli.console import UsageError, out, progress, say, say_json
from smelt.display.memory import memory_page
from smelt.micro import compile_c, is_c
from smelt.micro.memory import MemoryReport
from smelt.runtime.files import check_target, is_special, write_file

from . import options

_BAR = 24
Ram = Annotated[
    int | None,
    typer.Option(min=0, show_default=False, help="Bytes of RAM that there are; more is an error."),
]
Flash = Annotated[
    int | None,
    typer.Option(min=0, show_default=False, help="Bytes of flash for constants; more is an error."),
]


def memory(
    model: options.Model,
    target: Annotated[str, typer.Option(help="A target of the kind c.")] = "c",
    shape: options.Shape = None,
    ram: Ram = None,
    flash: Flash = None,
    pool: options.Pools = None,
    constant_pool: options.ConstantPools = None,
    page: Annotated[
        str | None,
        typer.Option(metavar="FILE", show_default=False, help="Draw the plan as a page (.html)."),
    ] = None,
    stream: options.Stream = True,
    json: options.Json = False,
) -> None:
    """Print the memory that a model needs as C: step by step, its peak, its constants.

    Nothing is written but the page. A model that does not fit into --ram and --flash is an error
    that says by how much, and where.
    """
    options.needs_source(model)
    if not is_c(target):
        raise UsageError(f'--target {target}: legal: c, "c -mcpu=cortex-m4"')
    if page is not None:
        check_target(page, (".html",), "a page, memory.html")
    build = options.Build(target, shape)
    with progress() as report:
        made = compile_c(model, target, shapes=build.shapes(model), progress=report,
                         pools=options.pools(pool, constant_pool), stream=stream)  # fmt: skip
    if page is not None:
        text = memory_page(made.memory)
        write_file(page, lambda file: file.write(text.encode()))
        if is_special(page):
            return
    if json:
        say_json(asdict(made.memory))
    else:
        _print(made.memory)
    made.memory.check(ram, flash)


def _print(report: MemoryReport) -> None:
    bars = Column("", min_width=_BAR, no_wrap=True)
    table = Table("step", Column("kernel", overflow="fold"), "bytes alive", bars, "constants")
    for column in (0, 2, 4):
        table.columns[column].justify = "right"
    most = max([s.live for s in report.steps], default=0) or 1
    for n, s in enumerate(report.steps):
        bar = "█" * round(_BAR * s.live / most)
        table.add_row(str(n), s.kernel, f"{s.live:,}", bar, f"{s.constants:,}")
    out.print(table)
    proved = (
        "no plan of these steps takes less"
        if report.workspace == report.least
        else (f"one step needs at least {report.least:,}")
    )
    say(f"workspace {report.workspace:,} bytes: {proved}")
    for p in report.pools:
        size, kind = "" if p.size is None else f" of {p.size:,}", " of constants" * p.constants
        say(f"{p.name}: {p.used:,} bytes{kind}{size}")
    say(f"constants {report.constants:,} bytes; inputs {report.inputs:,}, outputs "
        f"{report.outputs:,}")  # fmt: skip
