"""The command `quantize`."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

import smelt
from smelt.cli.console import UsageError, megabytes, notice, out, progress, say, say_json
from smelt.display.quantization import quantization_page
from smelt.quantization import LayerReport, Report, Settings
from smelt.quantization.numbers import WEIGHT_SCALES
from smelt.quantization.ranges import METHODS
from smelt.quantization.settings import ACTIVATIONS, RANGED, WEIGHTS
from smelt.runtime.files import check_target, write_file

from . import options

_USUAL = Settings()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


@dataclass(frozen=True)
class How:
    """What the command says of how a model is quantized: fields of `Settings`."""

    method: Annotated[str, typer.Option(help=f"How ranges are found: {_listed(METHODS)}.")] = (
        _USUAL.method
    )
    activations: Annotated[
        str,
        typer.Option(
            help=f"{_listed(ACTIVATIONS)}; the last two: weights alone, which are multiplied with "
            "floats, or with bytes that the run makes."
        ),
    ] = _USUAL.activations
    weights: Annotated[
        str, typer.Option(help=f"{_listed(WEIGHTS)}; the last one for weights alone.")
    ] = _USUAL.weights
    weight_scale: Annotated[
        str, typer.Option(help=f"What of weights has a scale: {_listed(WEIGHT_SCALES)}.")
    ] = _USUAL.weight_scale
    narrow: Annotated[
        bool,
        typer.Option(
            "--narrow",
            help="Weights lie between -63 and 63: for runtimes that saturate sums of two products.",
        ),
    ] = False
    block: Annotated[
        int, typer.Option(help="With weights alone: so many of a column share a scale.")
    ] = _USUAL.block
    symmetric: Annotated[
        bool, typer.Option("--symmetric", help="Zero points of activations are 0.")
    ] = False
    equalize: Annotated[
        bool,
        typer.Option("--equalize", help="Give weights of neighbouring layers like sizes first."),
    ] = False
    smooth: Annotated[
        float | None,
        typer.Option(
            show_default=False,
            help="0 to 1: move so much of the size of activations behind a normalisation into "
            "weights; 0.5 is usual for transformers.",
        ),
    ] = None
    bias_correction: Annotated[
        bool, typer.Option(help="Biases make up for what rounded weights take away on average.")
    ] = True
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A layer that stays in floats, by its name in the report; repeatable."),
    ] = None
    max_drop: Annotated[
        float | None,
        typer.Option(
            show_default=False,
            help="Leave layers in floats until results are no worse than this, in percent: of "
            "samples with another class, or else the distance of the results.",
        ),
    ] = None
    samples: Annotated[
        int | None, typer.Option(show_default=False, help="Use so many samples.")
    ] = None

    def values(self) -> dict[str, Any]:
        """As keywords of `smelt.quantize`."""
        return {**vars(self), "keep": tuple(self.keep or ())}


def quantize(
    model: options.Model,
    output: Annotated[
        str, typer.Option("--output", "-o", show_default=False, help="The model to write: .onnx.")
    ],
    how: How,
    data: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="Samples of the inputs: a folder of .npy or .npz files, or one of them with many "
            "samples along the first dimension.",
        ),
    ] = None,
    shape: options.Shape = None,
    threads: options.Threads = None,
    page: Annotated[
        str | None, typer.Option(show_default=False, help="Write the report as a page: .html.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Quantize a model with samples of its inputs, and write it as an ONNX model.

    The report says of each layer what its integers cover, what they cut off, and how much noise
    there is in its result.
    """  # fmt: skip
    options.needs_source(model)
    check_target(output, (".onnx",), "an ONNX model, model.int8.onnx")
    options.keeps_source(model, output)
    if page is not None:
        check_target(page, (".html",), "a page, report.html")
    if data is None and how.activations in RANGED:
        raise UsageError(
            "--data is missing: give samples of the model's inputs, or quantize weights alone "
            "with --activations float32"
        )
    build = options.Build(shape=shape, threads=threads)
    start = time.perf_counter()
    with progress() as report:
        made = smelt.quantize(model, data, shapes=build.shapes(model), options=build.options(),
                              progress=report, **how.values())  # fmt: skip
    made.save(output)
    if page is not None:
        text = quantization_page(made.report, Path(model).name)
        write_file(page, lambda file: file.write(text.encode()))
    if json:
        say_json({"model": model, "output": output, **made.report.as_dict()})
        return
    _print(made.report, time.perf_counter() - start)
    say(f"written to {output}; smelt check {output} compares it with onnxruntime")


def _print(report: Report, seconds: float) -> None:
    """The table of layers, and what the whole model became."""
    table = Table("layer", "weights", "form", "input", "cut off", "noise", "")
    for v in report.layers:
        table.add_row(*_cells(v))
    out.print(table)
    for note in report.notes:
        notice(note)
    before, after = report.bytes
    how = report.method + (f", {report.samples} samples" if report.samples else "")
    say(f"{report.quantized} of {len(report.layers)} layers quantized ({how}) in {seconds:.1f} s")
    say(f"weights {megabytes(before)} -> {megabytes(after)}")
    if report.distance is not None:
        same = report.agreement
        classes = "" if same is None else f"; the same class for {same:.1f} % of the samples"
        say(f"results differ by {report.distance:.2f} %{classes}")
    if report.drop is not None:
        say(f"drop: {report.drop:.2f}")


def _cells(v: LayerReport) -> list[str]:
    """One layer's row."""
    shape = "x".join(map(str, v.weights))
    ends = "" if v.input is None else f"{v.input[0]:.3g} .. {v.input[1]:.3g}"
    cut = "" if v.saturated is None else f"{v.saturated:.3f} %"
    noise = "" if v.noise is None else f"{v.noise:.1f} dB"
    return [v.name, shape, v.form, ends, cut, noise, v.why]
