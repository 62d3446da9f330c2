"""The commands `run` and `bench`."""

from typing import Annotated

import typer
from rich.table import Table

from smelt.cli.console import UsageError, notice, out, say, say_json
from smelt.cli.inputs import check_output_name, write_outputs
from smelt.cli.peer import Peer, needs_peer
from smelt.cli.results import Array, arrays, summary_of, summary_table
from smelt.cli.timing import Call, interleave, summary
from smelt.frontend.tflite import is_tflite
from smelt.runtime import Executable
from smelt.runtime.native import cores

from . import options


def run(
    model: options.Loadable,
    given: options.Run,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Write the results to a .npy or .npz file.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Run a model once."""
    if output is not None:
        check_output_name(output)
    exe, inputs = given.ready(model)
    names = [o.name for o in exe.outputs]
    values = arrays(exe(*inputs))
    if output is not None:
        write_outputs(output, names, values)
    rows = summary_of(names, values)
    if json:
        say_json(rows)
    else:
        out.print(summary_table(rows))


def bench(
    model: options.Loadable,
    given: options.Run,
    against: Annotated[
        str | None, typer.Option(help="Time this beside it, in turns: onnxruntime.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="How long to measure.")] = 3.0,
    json: options.Json = False,
) -> None:
    """Time a model."""
    if against not in (None, "onnxruntime"):
        raise UsageError(f"--against {against}: only onnxruntime can be timed beside smelt")
    if against:
        options.needs_source(model)
        needs_peer()
        if is_tflite(model):
            raise UsageError("--against onnxruntime: it reads no TFLite models; leave it out")
        if given.state:
            raise UsageError("--against onnxruntime: it keeps no state; leave --state out")
    if against and given.device:
        raise UsageError("--against: it is timed here, and --device is elsewhere; give one of them")
    exe, inputs = given.ready(model)
    calls: dict[str, Call] = {"smelt": lambda: exe(*inputs)}
    if against:
        peer = Peer(model, given.threads or cores())
        feeds = dict(zip([i.name for i in exe.inputs], inputs, strict=True))
        calls["onnxruntime"] = lambda: peer(feeds)
    if given.device:
        samples = [_times_there(exe, inputs, seconds)]
    else:
        samples = interleave(list(calls.values()), seconds)
    figures = {name: summary(taken) for name, taken in zip(calls, samples, strict=True)}
    ratio = None
    if against:
        ratio = figures["smelt"]["median_ms"] / figures["onnxruntime"]["median_ms"]
    kernels = exe.metadata.get("kernels", ())
    tuned = sum("tuned" in k.get("sketches", ()) for k in kernels)
    if json:
        said = {"model": model, "threads": given.threads, **figures, "ratio": ratio}
        say_json(said if given.database is None else {**said, "tuned": tuned})
        return
    table = Table("ms", "median", "mean", "std", "min", "max", "calls")
    for name, row in figures.items():
        cells = [f"{value:.4g}" for key, value in row.items() if key != "calls"]
        table.add_row(name, *cells, str(row["calls"]))
    out.print(table)
    if given.database is not None:
        for text in [f for k in kernels for f in k.get("failed", ()) if f.startswith("the tuned")]:
            notice(text)
        say(f"{tuned} of {len(kernels)} kernels are scheduled as {given.database} has it")
    if ratio is not None:
        say(f"smelt takes {ratio:.2f} times as long as onnxruntime")


def _times_there(exe: Executable, inputs: list[Array], seconds: float) -> list[float]:
    """Milliseconds of runs on another machine, as its own clock has them."""
    once = exe.benchmark(*inputs, repeat=3, number=1).median
    repeat = max(3, min(10_000, round(1e3 * seconds / max(once, 1e-3))))
    return list(exe.benchmark(*inputs, repeat=repeat, number=1).results)
