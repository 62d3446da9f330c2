"""The command `convert`."""

from typing import Annotated

import typer

import smelt
from smelt.cli.console import megabytes, say
from smelt.cli.sizes import SizeOptions
from smelt.runtime.files import check_target, is_special

from . import options


def convert(
    model: options.Model,
    output: Annotated[
        str, typer.Option("--output", "-o", show_default=False, help="The .onnx file to write.")
    ],
    shape: options.Shape = None,
    opset: Annotated[int, typer.Option(help="The operator set that nodes are of.")] = 21,
) -> None:
    """Write a model as a standard ONNX model."""
    options.needs_source(model)
    check_target(output, (".onnx",), "model.onnx")
    options.keeps_source(model, output)
    made = smelt.to_onnx(model, output, shapes=SizeOptions(shape).shapes(list) or None, opset=opset)
    if not is_special(output):
        size = sum(len(t.raw_data) for t in made.graph.initializer)
        say(f"written to {output}: {len(made.graph.node)} nodes, weights {megabytes(size)}")
