"""The command `show`: a stage of a model as text, or pages."""

from pathlib import Path
from typing import Annotated

import typer

import smelt
from smelt.artifact.vm_construct import vm_construct
from smelt.cli.console import UsageError, notice, progress, say
from smelt.cli.inputs import given_inputs
from smelt.cli.options import Build, Database, Model, OptLevel, Shape, Target, Threads, needs_source
from smelt.cli.profile import profiled
from smelt.cli.sizes import SizeOptions
from smelt.codegen.llvm import is_native, resolve
from smelt.display import Measured, model_page
from smelt.frontend.source import import_model
from smelt.ir.module import IRModule
from smelt.pipeline import as_target
from smelt.runtime.errors import InputError, LoadError
from smelt.runtime.files import check_target, write_file
from smelt.stages import STAGES


def show(
    model: Model,
    stage: Annotated[
        str | None,
        typer.Option(
            help=f"What to show: {', '.join(STAGES)}. If not given, graph, or scheduled with "
            "--kernel."
        ),
    ] = None,
    kernel: Annotated[str | None, typer.Option(help="This kernel only.")] = None,
    target: Target = None,
    shape: Shape = None,
    threads: Threads = None,
    opt_level: OptLevel = None,
    database: Database = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write a page (.html) or the stage's text (.txt). A page without --stage and "
            "--kernel is of the whole model: graph, kernels and their times.",
        ),
    ] = None,
    no_times: Annotated[
        bool,
        typer.Option("--no-times", help="Compile and measure nothing for a whole model's page."),
    ] = False,
) -> None:
    """Print a model as it stands at some stage of the compiler, or write a page of all of it."""
    needs_source(model)
    shapes = SizeOptions(shape).shapes(list) or None
    whole = stage is None and kernel is None and output is not None and output.suffix == ".html"
    if output is not None:
        check_target(output, (".html", ".txt"), "a page, e.g. model.html, or text, model.txt")
    if not whole and no_times:
        raise UsageError("--no-times is for the page of a whole model: -o model.html")
    options = Build(threads=threads, opt_level=opt_level, database=database).options()
    if whole and output is not None:
        _write_model_page(import_model(model, shapes), output, target, options, not no_times)
    else:
        chosen = stage or ("graph" if kernel is None else "scheduled")
        if output is not None and output.suffix == ".txt":
            text = smelt.stage_text(model, chosen, kernel, target, shapes, options)
            write_file(output, lambda file: file.write(f"{text.rstrip()}\n".encode()))
        else:
            smelt.show(model, chosen, kernel=kernel, target=target, shapes=shapes, options=options,
                       html=output)  # fmt: skip
    if output is not None:
        say(f"wrote {output}")


def _write_model_page(
    mod: IRModule, output: Path, target: str | None, options: smelt.Options, times: bool
) -> None:
    """Compile and time the model, as far as that can be done, and write its page."""
    measured, note = None, "The times were left out (--no-times)."
    if times:
        note = _obstacle(mod, target)
    if times and not note:
        try:
            measured = _measured(mod, target, options)
        except (UsageError, LoadError, InputError) as error:
            note = f"No times: {error}"
    if note and times:
        notice(note)
    with progress() as report:
        model_page(mod, output, measured=measured, note=note, target=target, options=options,
                   progress=report)  # fmt: skip


def _obstacle(mod: IRModule, target: str | None) -> str:
    """Why a model's kernels cannot be timed here; "" where they can."""
    if not is_native(resolve(as_target(target))):
        return f"No times: this machine cannot run what is compiled for {target}."
    if vm_construct(mod) is not None:
        return (
            "No kernels and no times: this model decides while it runs. The graph is as imported."
        )
    return ""


def _measured(mod: IRModule, target: str | None, options: smelt.Options) -> Measured:
    with progress() as report:
        exe = smelt.compile(mod, target, options=options, progress=report)
        inputs = given_inputs(str(mod.attrs.get("name", "model")), exe, None, None)
        report("times", 0, 1)
        profile, limits = profiled(exe, inputs, options.threads)
        report("times", 1, 1)
    return Measured(profile, limits, exe.memory)
