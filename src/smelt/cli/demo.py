"""`smelt demo`: a ResNet-18 from its definition to figures beside onnxruntime's."""

import time
from dataclasses import asdict, dataclass
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

import smelt
from smelt.cli.console import megabytes, out, progress, say, say_json
from smelt.cli.peer import Peer, installed
from smelt.cli.resnet import resnet18
from smelt.cli.results import Array, arrays, largest_error, memory_bytes
from smelt.cli.timing import interleave, summary
from smelt.runtime import Executable
from smelt.runtime.native import cores

TOLERANCE = 1e-4  # of max |a - b| / max |b|


@dataclass(frozen=True)
class Row:
    """What was measured with one number of threads; times are medians."""

    threads: int
    compile_s: float
    smelt_ms: float
    onnxruntime_ms: float | None
    error: float | None

    @property
    def ratio(self) -> float | None:
        """How many times as long as onnxruntime smelt takes."""
        return self.smelt_ms / self.onnxruntime_ms if self.onnxruntime_ms else None


def demo(
    seconds: Annotated[
        float, typer.Option(min=0.01, help="How long to time each of them, per thread count.")
    ] = 2.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Build a ResNet-18, compile it, check it against onnxruntime, and time both."""
    model = resnet18()
    x = np.random.default_rng(1).standard_normal((1, 3, 224, 224), np.float32)
    rows = []
    for threads in sorted({cores(), 1}, reverse=True):
        start = time.perf_counter()
        with progress() as report:
            exe = smelt.compile(model, options=smelt.Options(threads=threads), progress=report)
        rows.append(measure(exe, model.SerializeToString(), x, threads, start, seconds))
    if json:
        shown = [asdict(row) | {"ratio": row.ratio} for row in rows]
        say_json({"rows": shown, **memory_bytes(exe.memory)})
    else:
        _print(rows, exe)
    if any(row.error is not None and not row.error <= TOLERANCE for row in rows):
        say(f"The results differ from onnxruntime's by more than {TOLERANCE:g}.")
        raise typer.Exit(1)


def measure(
    exe: Executable, model: bytes, x: Array, threads: int, start: float, seconds: float
) -> Row:
    """Check and time a compiled model whose compilation began at `start`."""
    compile_s = time.perf_counter() - start
    ours = arrays(exe(x))
    if not installed():
        taken = interleave([lambda: exe(x)], seconds)[0]
        return Row(threads, compile_s, summary(taken)["median_ms"], None, None)
    peer = Peer(model, threads)
    feeds = {"input": x}
    error = largest_error(ours, peer(feeds))
    a, b = interleave([lambda: exe(x), lambda: peer(feeds)], 2 * seconds)
    return Row(threads, compile_s, summary(a)["median_ms"], summary(b)["median_ms"], error)


def _print(rows: list[Row], exe: Executable) -> None:
    def cell(value: float | None, form: str) -> str:
        return "–" if value is None else format(value, form)

    table = Table(title="ResNet-18, 1 x 3 x 224 x 224, f32")
    table.add_column("threads", justify="right")
    for heading in ("compile", "smelt", "onnxruntime", "ratio", "largest error"):
        table.add_column(heading, justify="right")
    for row in rows:
        peer = "–" if row.onnxruntime_ms is None else f"{row.onnxruntime_ms:.2f} ms"
        table.add_row(
            str(row.threads),
            f"{row.compile_s:.2f} s",
            f"{row.smelt_ms:.2f} ms",
            peer,
            cell(row.ratio, ".2f"),
            cell(row.error, ".1e"),
        )
    out.print(table)
    memory = exe.memory
    say(
        f"planned memory {megabytes(memory.workspace)} "
        f"(live bytes, the lower bound: {megabytes(memory.live)}), "
        f"weights {megabytes(memory.weights)}"
    )
    if not installed():
        say("onnxruntime is not installed, so nothing was compared: pip install onnxruntime")
