"""The command `show`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import smelt
from smelt.cli.console import say
from smelt.cli.options import Model, Shape, Target, needs_source
from smelt.cli.sizes import Sizes


class Stage(StrEnum):
    """How far `smelt show` walks with a model."""

    graph = "graph"
    fused = "fused"
    layout = "layout"
    tir = "tir"
    scheduled = "scheduled"
    lowered = "lowered"
    llvm = "llvm"
    asm = "asm"


def show(
    model: Model,
    stage: Annotated[Stage, typer.Option(help="What to show.")] = Stage.graph,
    kernel: Annotated[str | None, typer.Option(help="This kernel only.")] = None,
    target: Target = None,
    shape: Shape = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page: loops, text, memory footprint."),
    ] = None,
) -> None:
    """Print a model as it stands at some stage of the compiler."""
    needs_source(model)
    shapes = Sizes.of(shape).shapes(list) or None
    smelt.show(model, stage.value, kernel=kernel, target=target, shapes=shapes, html=html)
    if html is not None:
        say(f"wrote {html}")
