"""The command `micro`: a model on a board, from the file to its results."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Column, Table

import smelt
from smelt.cli.compare import compare, tolerances
from smelt.cli.console import UsageError, notice, out, progress, say, say_json
from smelt.cli.inputs import check_output_name, random_inputs, read_inputs, write_outputs
from smelt.cli.results import Array, arrays, summary_of, summary_table
from smelt.frontend.source import import_loaded, load_model
from smelt.micro import CSource, Session, compile_c, open_board
from smelt.micro.board import BOARDS, Board, find_board
from smelt.micro.session import needs_tools
from smelt.micro.toolchain import LEVELS
from smelt.relax.transform.rescale_in_integers import as_on_boards
from smelt.runtime.errors import unknown
from smelt.runtime.signature import TensorInfo

from . import options

Action = Annotated[str, typer.Argument(help="run or profile.", show_default=False)]
BoardName = Annotated[
    str,
    typer.Option(
        "--board", show_default=False, help=f"What it runs on: {', '.join(BOARDS)} (this machine)."
    ),
]
Output = Annotated[
    str | None, typer.Option("--output", "-o", help="run: write the results to .npy or .npz.")
]
Level = Annotated[
    str, typer.Option("-O", metavar="LEVEL", help="Of the C compiler: 0 to 3, or s for size.")
]
Check = Annotated[
    bool, typer.Option("--check", help="Compare with what the model gives on this machine.")
]


def micro(
    action: Action,
    model: options.Model,
    board: BoardName,
    shape: options.Shape = None,
    input_file: options.Input = None,
    database: options.Database = None,
    output: Output = None,
    level: Level = "3",
    check: Check = False,
    stream: options.Stream = True,
    json: options.Json = False,
) -> None:
    """Run a model on a board that QEMU emulates, or profile it there.

    The model becomes C, the C a program, which serves the model over the board's serial line. run:
    the results, the instructions that they took, the stack. profile: the instructions of each
    kernel.
    """
    if action not in _ACTIONS:
        raise UsageError(unknown("action", action, _ACTIONS))
    if f"-O{level}" not in LEVELS:
        raise UsageError(f"-O {level}: legal: {', '.join(n.removeprefix('-O') for n in LEVELS)}")
    if output is not None:
        if action != "run":
            raise UsageError(f"micro {action}: --output belongs to run")
        check_output_name(output)
    options.needs_source(model)
    place = find_board(board)
    needs_tools(place)
    build = options.Build(None, shape, database=database)
    with progress() as report:
        made = compile_c(model, place.target, shapes=build.shapes(model), stream=stream,
                         options=build.options(), progress=report)  # fmt: skip
        if output is not None:
            check_output_name(output, outputs=len(made.outputs))
        tensors = [TensorInfo(t.name, t.dtype, t.shape) for t in made.inputs]
        inputs = read_inputs(input_file, tensors) if input_file else random_inputs(tensors)
        report("program", 0, 1)
        with open_board(made, place, level=f"-O{level}") as session:
            report("program", 1, 1)
            report("run", 0, 1)
            values = session.run(*inputs)
            report("run", 1, 1)
            said = _ACTIONS[action](session, made, place, values)
    if output is not None:
        write_outputs(output, [t.name for t in made.outputs], values)
    if json:
        say_json(said)
    else:
        _SHOWN[action](said)
    if check:
        _check(model, build, inputs, values)


def _run(session: Session, made: CSource, board: Board, values: list[Array]) -> dict[str, Any]:
    stack = session.stack()
    return {
        "board": board.name,
        "outputs": summary_of([t.name for t in made.outputs], values),
        "instructions": session.instructions,
        "seconds": session.seconds if session.instructions is None else None,
        "stack_bytes": None if stack is None else stack[0],
        "workspace_bytes": made.workspace_bytes,
        "constant_bytes": made.constant_bytes,
    }


def _profile(session: Session, made: CSource, board: Board, values: list[Array]) -> dict[str, Any]:
    rows = [
        {**asdict(step), "kernel": known.kernel, "operations": n}
        for step, known, n in zip(session.steps(), made.memory.steps, made.operations, strict=True)
    ]
    return {"board": board.name, "instructions": session.instructions, "ticks": session.ticks,
            "ticks_per_second": session.ticks_per_second, "steps": rows}  # fmt: skip


def _show_run(said: dict[str, Any]) -> None:
    out.print(summary_table(said["outputs"]))
    if said["instructions"] is not None:
        say(f"{said['instructions']:,} instructions on {said['board']}")
    else:
        say(f"{1e3 * said['seconds']:.4g} ms on {said['board']}")
    stack = said["stack_bytes"]
    say(f"workspace {said['workspace_bytes']:,} bytes, constants {said['constant_bytes']:,}"
        + ("" if stack is None else f", stack used {stack:,}"))  # fmt: skip


def _show_profile(said: dict[str, Any]) -> None:
    """A row for each kernel; what nobody counts is shown in ticks of the clock."""
    counted = said["instructions"] is not None
    unit = "instructions" if counted else "ticks"
    table = Table("step", Column("kernel", overflow="fold"), unit, "share", "operations", "each")
    for column in (0, 2, 3, 4, 5):
        table.columns[column].justify = "right"
    most = max(1, said[unit])
    for n, s in enumerate(said["steps"]):
        each = f"{s[unit] / s['operations']:.2f}" if s["operations"] else ""
        table.add_row(str(n), s["kernel"], f"{s[unit]:,}", f"{100 * s[unit] / most:.1f} %",
                      f"{s['operations'] or 0:,}", each)  # fmt: skip
    out.print(table)
    say(f"{said[unit]:,} {unit} on {said['board']}")
    if counted:
        say("instructions, not cycles: the emulator knows no pipeline and no memory's delays")
    else:
        say(f"a tick is {1e9 / said['ticks_per_second']:,.0f} ns")


def _check(model: str, build: options.Build, inputs: list[Array], values: list[Array]) -> None:
    """Compare with this machine's results; exit code 1 where they are too far apart."""
    loaded = load_model(model)
    mod = as_on_boards(import_loaded(loaded, build.shapes(model)))
    with progress() as report:
        exe = smelt.compile(mod, options=build.options(), progress=report)
    wanted, allowed = arrays(exe(*inputs)), tolerances(loaded.graph, values, None)
    rows = compare(loaded.graph.outputs, values, wanted, allowed, "this machine")
    for r in rows:
        verdict = "as on this machine" if r.passed else f"differs from this machine: {r.where}"
        notice(f"{r.name}: {verdict}; largest error {r.error:.2e}, tolerance {r.tolerance:.2e}")
    if not all(r.passed for r in rows):
        raise typer.Exit(1)


_ACTIONS: dict[str, Callable[[Session, CSource, Board, list[Array]], dict[str, Any]]] = {
    "run": _run, "profile": _profile,
}  # fmt: skip
_SHOWN: dict[str, Callable[[dict[str, Any]], None]] = {"run": _show_run, "profile": _show_profile}
