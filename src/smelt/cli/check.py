"""The command `check`: what of a model works, and whether its results are onnxruntime's, or those
of TFLite's reference kernels."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from smelt.cli.compare import Difference, compare, tolerances
from smelt.cli.console import UsageError, notice, out, say, say_json
from smelt.cli.inputs import given_inputs
from smelt.cli.litert import Interpreter
from smelt.cli.peer import Peer, needs_peer
from smelt.cli.results import Array, arrays
from smelt.cli.sizes import Shapes
from smelt.frontend.common import NeedsValues
from smelt.frontend.common.survey import Survey
from smelt.frontend.source import import_model, load_model, survey
from smelt.frontend.tflite import is_tflite
from smelt.relax.transform.compute_in_integers import products_of
from smelt.runtime import Executable
from smelt.runtime.native import cores
from smelt.runtime.state import StatefulExecutable

from . import options


def check(
    model: options.Loadable,
    given: options.Run,
    source: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="The model file that something compiled is compared with.",
            show_default=False,
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            show_default=False,
            help="The largest max |a - b| / max |b| that passes; by element type and depth of the "
            "model without it.",
        ),
    ] = None,
    operators: Annotated[
        bool, typer.Option("--operators", help="Only say what works; compile and compare nothing.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Say what of a model works, and compare its results with onnxruntime's or TFLite's.

    Something compiled before (.so, .tar, .vm) is compared with the model that --model names. Exit
    code 1 where something is not supported, or where the results differ.
    """  # fmt: skip
    file = _source(model, source)
    if file == model:
        shapes = given.shapes(model)
        found = survey(model, shapes)
        if not json:
            _print_survey(found)
        if not found.works or operators:
            if json:
                say_json(_survey_json(found))
            raise typer.Exit(0 if found.works else 1)
    elif operators:
        raise UsageError(f"--operators looks at a model file; {model} is compiled already")
    if file == model and not json:
        _tell_products(file, given.shapes(model))
    if not is_tflite(file):
        needs_peer()
    exe = _one_call(given.load(model), file)
    inputs = given_inputs(model, exe, given.input_file, given.at)
    feeds = dict(zip([i.name for i in exe.inputs], inputs, strict=True))
    ours = arrays(exe(*[i.copy() for i in inputs]))
    names = [o.name for o in exe.outputs]
    allowed = tolerances(load_model(file).graph, ours, tolerance)
    kernels = exe.metadata.get("kernels", ())
    if python := exe.metadata.get("python"):
        notice(f"the program decides while it runs, in Python, because of {', '.join(python)}")
    for text in [f for k in kernels for f in k.get("failed", ())]:
        notice(f"a schedule that fits could not be built, another one was taken: {text}")
    rows = _compared(file, feeds, names, ours, allowed, given.threads or cores())
    _tell(model, rows, Interpreter.name if is_tflite(file) else Peer.name, json)


def _one_call(exe: Executable, file: str) -> Executable:
    """What runs one call from a given state; TFLite's kernels begin with that of the file."""
    return exe.code if isinstance(exe, StatefulExecutable) and not is_tflite(file) else exe


def _tell_products(file: str, shapes: Shapes | None) -> None:
    """Say what of a quantized model is computed in integers."""
    try:
        found = products_of(import_model(file, shapes))
    except NeedsValues:
        return
    if found.integers or found.floats:
        whole = found.integers + len(found.floats)
        say(f"{found.integers} of {whole} products of quantized numbers are computed in integers")
    if found.small:
        say(f"products of floats with weights of few bits, which stay so: {found.small}")
    for name, why in found.floats:
        notice(f"{name} is computed in floats: {why}")


def _tell(model: str, rows: Sequence[Difference], peer: str, json: bool) -> None:
    """Print the comparison; end with exit code 1 where something differs."""
    passed = all(r.passed for r in rows)
    if json:
        worst = max([r.error for r in rows], default=0.0)
        listed = [dataclasses.asdict(r) | {"passed": r.passed} for r in rows]
        say_json({"model": model, "error": worst, "passed": passed, "outputs": listed})
    else:
        _print(model, rows, peer)
    if not passed:
        raise typer.Exit(1)


def _source(model: str, source: str | None) -> str:
    """The model file to compare with."""
    if not model.endswith(options.COMPILED):
        if source is not None:
            raise UsageError(f"--model {source}: {model} is a model itself; it is its own measure")
        return model
    if source is None:
        raise UsageError(
            f"{model} is compiled already: say which model its results are to be compared with, "
            f"--model {Path(model).stem}.onnx"
        )
    return source


def _compared(
    file: str,
    feeds: Mapping[str, Array],
    names: Sequence[str],
    ours: Sequence[Array],
    allowed: Sequence[float],
    threads: int,
) -> list[Difference]:
    """Each output beside the reference's; where onnxruntime's differ, beside those without its
    optimiser."""
    if is_tflite(file):
        return compare(names, ours, Interpreter(file)(feeds), allowed, Interpreter.name)
    rows = compare(names, ours, Peer(file, threads)(feeds), allowed)
    if all(r.passed for r in rows):
        return rows
    plain = compare(names, ours, Peer(file, threads, optimises=False)(feeds), allowed)
    return [
        r if r.passed or r.error <= p.error else dataclasses.replace(p, optimised=False)
        for r, p in zip(rows, plain, strict=True)
    ]


def _print(model: str, rows: Sequence[Difference], peer: str) -> None:
    table = Table("output", "type", "shape", "largest error", "tolerance", "beyond it", "")
    for r in rows:
        beyond = f"{r.beyond} of {r.elements}" if r.beyond else "none"
        table.add_row(r.name, r.dtype, str(r.shape), f"{r.error:.2e}", f"{r.tolerance:.2e}",
                      beyond, "agrees" if r.passed else "DIFFERS")  # fmt: skip
    out.print(table)
    for r in rows:
        if not r.optimised:
            say(
                f"{r.name}: compared with onnxruntime without its optimiser, which rounds otherwise"
            )
        if not r.passed:
            say(f"{r.name}: {r.where}")
    verdict = f"as {peer}" if all(r.passed for r in rows) else f"NOT as {peer}"
    say(f"{model}: {verdict}")


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
        say("the program decides while it runs")


def _survey_json(found: Survey) -> dict[str, object]:
    return {
        "model": found.model,
        "works": found.works,
        "run_time": found.run_time,
        "operators": [dataclasses.asdict(o) for o in found.operators],
    }
