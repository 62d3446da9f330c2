"""`python -m smelt.practice PHASE`."""

from __future__ import annotations

from typing import Annotated

import typer

from . import auto_tune, manual_schedule, relay_import, schedule_analysis, te_basics
from .main import main as all_phases

Size = Annotated[int, typer.Option("--size", "-n", min=8, help="Rows and columns of the matrices.")]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Programs that teach the tensor level: they explain themselves and measure what they say.",
)


@app.command("te_basics")
def basics(size: Size = 256) -> None:
    """Phase 1: tensor expressions, and why they are apart from schedules."""
    te_basics.main(size)


@app.command("manual_schedule")
def by_hand(size: Size = 256) -> None:
    """Phase 2: five primitives, the loops before and after each, and the cache traffic."""
    manual_schedule.main(size)


@app.command("schedule_analysis")
def analysis(
    largest: Annotated[
        int, typer.Option("--largest", min=16, help="The largest size; the others halve it.")
    ] = 512,
) -> None:
    """Phase 3: schedules over sizes, as a table and a chart; where parallel loops pay."""
    sizes = [n for n in (largest >> i for i in range(6)) if n >= 16]
    schedule_analysis.main(sizes[::-1])


@app.command("relay_import")
def through_relay() -> None:
    """Phase 4: a PyTorch model through Relay, and what graph passes add."""
    relay_import.main()


@app.command("auto_tune")
def tuning(
    size: Size = 512,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"{auto_tune.QUICK} measurements only.")
    ] = False,
) -> None:
    """Phase 5: a search for schedules, compared with schedules by hand."""
    auto_tune.main(size, quick=quick)


@app.command("main")
def everything() -> None:
    """All phases, one after the other."""
    all_phases()


if __name__ == "__main__":
    app(prog_name="python -m smelt.practice")
