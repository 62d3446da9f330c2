"""The command `compile`."""

import time
from pathlib import Path
from typing import Annotated

import typer

import smelt
from smelt.cli.console import UsageError, megabytes, progress, say, say_json
from smelt.cli.results import memory_bytes
from smelt.runtime.files import LIBRARY, check_target, is_special

from . import options

_ENDINGS = (".so", ".tar", ".vm", ".o")


def compile_model(
    model: options.Model,
    build: options.Build,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            show_default=False,
            help="Write a shared library here (.so, .tar; .vm if the model decides while it runs), "
            "or code and constants for any target (.o, and a header beside it).",
        ),
    ] = None,
    header: Annotated[
        bool, typer.Option("--header", help="Write a C header beside the library, too.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Compile a model, and write it as a shared library or an object file."""
    options.needs_source(model)
    if output is not None:
        check_target(output, _ENDINGS, f"{LIBRARY[1]}, or code for any target, model.o")
    elif header:
        raise UsageError("--header writes a header beside the library: give -o FILE.so too")
    start = time.perf_counter()
    if output is not None and output.endswith(".o"):
        _write_object(model, build, output, json)
        return
    exe = build.load(model)
    if output is not None:
        exe.export_library(output, header=header)
    if output is not None and is_special(output):
        return  # standard output may be what was written to
    seconds, memory = time.perf_counter() - start, exe.memory
    if json:
        say_json({"model": model, "seconds": seconds, **memory_bytes(memory), "output": output})
        return
    live = "" if memory.live is None else f" (at least {megabytes(memory.live)} alive at once)"
    say(
        f"{model}: compiled in {seconds:.2f} s; weights {megabytes(memory.weights)}, "
        f"workspace {megabytes(memory.workspace)}{live}"
    )
    if output is None:
        say(f"nothing written: -o {Path(model).stem}.so writes a library, which smelt run takes")
        return
    beside = f" and {Path(output).with_suffix('.h')}" if header else ""
    say(f"written to {output}{beside}; smelt run {output} runs it")


def _write_object(model: str, build: options.Build, output: str, json: bool) -> None:
    """Compile a model for any target, and write its code and constants."""
    start = time.perf_counter()
    said = any(v is not None for v in (build.threads, build.opt_level, build.database))
    with progress() as report:
        made = smelt.compile_artifact(
            model,
            build.target,
            shapes=build.shapes(model),
            state=build.states(),
            options=build.options() if said else None,
            progress=report,
        )
    file, header = made.write(output)
    seconds, machine = time.perf_counter() - start, made.target.mtriple
    if json:
        say_json({"model": model, "seconds": seconds, "target": machine, "output": str(file),
                  "header": str(header)})  # fmt: skip
        return
    say(
        f"{model}: compiled for {machine} in {seconds:.2f} s; "
        f"weights {megabytes(made.weights.nbytes)}\nwritten to {file}, declared in {header}"
    )
