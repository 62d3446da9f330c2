"""The commands on a model: compile, run, check, bench, profile."""

import dataclasses
import json as _json
import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

import smelt
from smelt.cli.console import UsageError, megabytes, out, progress, say, say_json
from smelt.cli.inputs import (
    Sizes,
    check_output_name,
    input_infos,
    load,
    load_any,
    output_names,
    read_inputs,
    read_numbers,
    write_outputs,
)
from smelt.cli.peer import Peer
from smelt.cli.results import Array, arrays, largest_error, memory_bytes
from smelt.cli.timing import cores, interleave, summary
from smelt.frontend.onnx import Survey, survey
from smelt.ir.sizes import plain_shapes
from smelt.model import Model as Loaded
from smelt.runtime import Executable, TensorInfo
from smelt.runtime.files import LIBRARY, check_target, is_special

Model = Annotated[str, typer.Argument(help="A model file (.onnx).", show_default=False)]
Loadable = Annotated[str, typer.Argument(help="A model file, or a library (.so) compiled before.")]
Target = Annotated[
    str | None, typer.Option(help="What to compile for, such as 'llvm -mcpu=native'.")
]
Shape = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        help="The shape of an input: NAME=1,3,224,224 or NAME=n,3,224,224; once for each input.",
    ),
]
Range = Annotated[
    list[str] | None,
    typer.Option("--range", help="The values a symbolic size may have: n=1..16, n=0.. or n=..512."),
]
Likely = Annotated[
    list[str] | None,
    typer.Option("--likely", help="Values of a symbolic size that get code of their own: n=1,8."),
]
At = Annotated[
    list[str] | None,
    typer.Option("--at", help="A symbolic size of the random inputs: n=4."),
]
Input = Annotated[
    str | None, typer.Option("--input", help="A .npy or .npz file; random inputs without one.")
]
Threads = Annotated[int | None, typer.Option(min=1, help="Cores to use; all without it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def compile_model(
    model: Model,
    target: Target = None,
    shape: Shape = None,
    range_: Range = None,
    likely: Likely = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="Write a shared library here (.so, .tar), or code and constants for any target "
            "(.o, and a header beside it).",
        ),
    ] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Compile a model, and write it as a shared library or an object file."""
    _needs_source(model)
    if output is not None:
        endings = (".so", ".tar", ".vm", ".o")
        check_target(output, endings, f"{LIBRARY[1]}, or code for any target, model.o")
    sizes = Sizes(shape or (), range_ or (), likely or ())
    start = time.perf_counter()
    if output is not None and output.endswith(".o"):
        _write_object(model, target, sizes, threads, output, json)
        return
    exe = load_any(model, target, sizes, threads)
    if output is not None:
        exe.export_library(output)
    if output is not None and is_special(output):
        return  # standard output may be what was written to
    seconds = time.perf_counter() - start
    memory = None if isinstance(exe, Loaded) else exe.memory
    if json:
        bytes_ = {} if memory is None else memory_bytes(memory)
        say_json({"model": model, "seconds": seconds, **bytes_, "output": output})
        return
    say(
        f"{model}: compiled in {seconds:.2f} s; "
        + (
            "it decides while it runs, or its form depends on its inputs"
            if memory is None
            else f"weights {megabytes(memory.weights)}, workspace {megabytes(memory.workspace)} "
            f"(at least {megabytes(memory.live)} is alive at once)"
        )
    )
    say(f"written to {output}" if output else "nothing written: -o FILE.so writes a library")


def _write_object(
    model: str, target: str | None, sizes: Sizes, threads: int | None, output: str, json: bool
) -> None:
    """Compile a model for any target, and write its code and constants."""
    start = time.perf_counter()
    options = None if threads is None else smelt.Options(threads=threads)
    with progress() as report:
        made = smelt.compile_artifact(
            model, target, shapes=sizes.shapes() or None, options=options, progress=report
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


def run(
    model: Loadable,
    input_file: Input = None,
    output: Annotated[
        str | None, typer.Option(help="Write the results to a .npy or .npz file.")
    ] = None,
    target: Target = None,
    shape: Shape = None,
    range_: Range = None,
    likely: Likely = None,
    threads: Threads = None,
    at: At = None,
    json: Json = False,
) -> None:
    """Run a model once."""
    if output is not None:
        check_output_name(output)
    exe = load_any(model, target, Sizes(shape or (), range_ or (), likely or ()), threads)
    infos, names = input_infos(model, exe), output_names(exe)
    values = arrays(exe(*read_inputs(input_file, infos, _sizes(exe, infos, at))))
    if output is not None:
        write_outputs(output, names, values)
    rows = [
        (name, str(value.dtype), list(value.shape), *_extremes(value))
        for name, value in zip(names, values, strict=True)
    ]
    columns = ("name", "dtype", "shape", "min", "mean", "max")
    if json:
        say_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    table = Table(*columns)
    for name, dtype, shape_, *figures in rows:
        table.add_row(name, dtype, str(shape_), *(f"{figure:.6g}" for figure in figures))
    out.print(table)


def check(
    model: Model,
    input_file: Input = None,
    tolerance: Annotated[
        float, typer.Option(min=0, help="The largest max |a - b| / max |b| that passes.")
    ] = 1e-4,
    target: Target = None,
    shape: Shape = None,
    range_: Range = None,
    likely: Likely = None,
    threads: Threads = None,
    at: At = None,
    operators: Annotated[
        bool, typer.Option("--operators", help="Only say what works; compile and compare nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Say what of a model works, operator by operator, and compare its results with onnxruntime's.

    Exit code 1 where something is not supported, or where the results differ.
    """
    _needs_source(model)
    sizes = Sizes(shape or (), range_ or (), likely or ())
    found = survey(model, plain_shapes(sizes.shapes() or None)[0])
    if not json:
        _print_survey(found)
    if not found.works or operators:
        if json:
            say_json(_survey_json(found))
        raise typer.Exit(0 if found.works else 1)
    exe = load_any(model, target, sizes, threads)
    peer = Peer(model, threads or cores())
    infos = input_infos(model, exe)
    inputs = read_inputs(input_file, infos, _sizes(exe, infos, at))
    error = largest_error(arrays(exe(*inputs)), peer(_feeds(infos, inputs)))
    passed = error <= tolerance
    if json:
        say_json({"model": model, "error": error, "tolerance": tolerance, "passed": passed})
    else:
        relation = "within" if passed else "ABOVE"
        say(f"{model}: largest error {error:.2e}, {relation} the tolerance of {tolerance:g}")
    if not passed:
        raise typer.Exit(1)


def _print_survey(found: Survey) -> None:
    """A line for each operator and state; reasons below."""
    table = Table("operator", "nodes", "state", title=found.model)
    for o in found.operators:
        table.add_row(o.operator, str(len(o.nodes)), o.state)
    out.print(table)
    for o in found.operators:
        if o.reason:
            more = ", ..." if len(o.nodes) > 5 else ""
            say(f"{o.operator} ({', '.join(o.nodes[:5])}{more}): {o.reason}")
    if found.run_time:
        say("the program decides while it runs: the virtual machine will run it")


def _survey_json(found: Survey) -> dict[str, object]:
    return {
        "model": found.model,
        "works": found.works,
        "run_time": found.run_time,
        "operators": [dataclasses.asdict(o) for o in found.operators],
    }


def bench(
    model: Loadable,
    threads: Threads = None,
    against: Annotated[
        str | None, typer.Option(help="Time this beside it, in turns: onnxruntime.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="How long to measure.")] = 3.0,
    input_file: Input = None,
    target: Target = None,
    shape: Shape = None,
    range_: Range = None,
    likely: Likely = None,
    at: At = None,
    json: Json = False,
) -> None:
    """Time a model."""
    if against not in (None, "onnxruntime"):
        raise UsageError(f"--against {against}: only onnxruntime can be timed beside smelt")
    if against:
        _needs_source(model)
    exe = load_any(model, target, Sizes(shape or (), range_ or (), likely or ()), threads)
    infos = input_infos(model, exe)
    inputs = read_inputs(input_file, infos, _sizes(exe, infos, at))
    calls = {"smelt": lambda: exe(*inputs)}
    if against:
        peer, feeds = Peer(model, threads or cores()), _feeds(infos, inputs)
        calls["onnxruntime"] = lambda: peer(feeds)
    samples = interleave(list(calls.values()), seconds)
    figures = {name: summary(taken) for name, taken in zip(calls, samples, strict=True)}
    ratio = None
    if against:
        ratio = figures["smelt"]["median_ms"] / figures["onnxruntime"]["median_ms"]
    if json:
        say_json({"model": model, "threads": threads, **figures, "ratio": ratio})
        return
    table = Table("ms", "median", "mean", "std", "min", "max", "calls")
    for name, row in figures.items():
        cells = [f"{value:.4g}" for key, value in row.items() if key != "calls"]
        table.add_row(name, *cells, str(row["calls"]))
    out.print(table)
    if ratio is not None:
        say(f"smelt takes {ratio:.2f} times as long as onnxruntime")


def profile(
    model: Loadable,
    threads: Threads = None,
    input_file: Input = None,
    target: Target = None,
    shape: Shape = None,
    range_: Range = None,
    likely: Likely = None,
    at: At = None,
    json: Json = False,
) -> None:
    """Time every kernel of a model: GFLOP/s, and the share of the machine's measured limit."""
    exe = load(model, target, Sizes(shape or (), range_ or (), likely or ()), threads)
    report = exe.profile(*read_inputs(input_file, exe.inputs, _sizes(exe, exe.inputs, at)))
    limits = smelt.machine_limits(threads)
    if json:
        say_json(_json.loads(report.json(limits)))
        return
    say(report.table(limits=limits))
    say(
        f"this machine, measured: {limits.gflops:.0f} GFLOP/s, {limits.gbytes:.0f} GB/s from "
        "memory; what stays in the caches can exceed the latter"
    )


def _sizes(
    exe: Executable | Loaded, infos: Sequence[TensorInfo], at: list[str] | None
) -> dict[str, int]:
    """The symbolic sizes of random inputs: as given, or the first that are likely."""
    variants = getattr(exe, "metadata", {}).get("variants", [{}])
    likely = {n: v for n, v in variants[0].items() if isinstance(v, int)}
    given = read_numbers("--at", at or ())
    symbols = dict.fromkeys([e for i in infos for e in i.shape if isinstance(e, str)])
    for name, values in given.items():
        if name not in symbols or len(values) != 1:
            known = ", ".join(symbols) or "none"
            raise UsageError(f"--at {name}={values[0]}: one value for one of the sizes: {known}")
    return {**likely, **{name: values[0] for name, values in given.items()}}


def _needs_source(model: str) -> None:
    if model.endswith(".so"):
        raise UsageError(f"{model} is a compiled library: this command needs the model itself")


def _feeds(infos: Sequence[TensorInfo], inputs: list[Array]) -> dict[str, Array]:
    return {tensor.name: value for tensor, value in zip(infos, inputs, strict=True)}


def _extremes(value: Array) -> tuple[float, float, float]:
    if not value.size:
        return (float("nan"),) * 3
    wide = value.astype("float64")
    return float(wide.min()), float(wide.mean()), float(wide.max())
