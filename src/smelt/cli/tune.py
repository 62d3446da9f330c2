"""The command `tune`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

import smelt
from smelt import tuning
from smelt.cli.console import UsageError, err, notice, out, say, say_json
from smelt.cli.live_page import served
from smelt.cli.watch import Told, errors, gain, rate, watched
from smelt.display.tuning import tuning_page
from smelt.ir.options import Options
from smelt.levels import is_list
from smelt.micro import BOARDS, BoardRunner, is_c
from smelt.rpc import RPCRunner
from smelt.rpc.devices import find_device, target_for
from smelt.runtime.errors import ExportError
from smelt.runtime.files import check_target, write_file
from smelt.search.runner import Runner
from smelt.search.timing import Unit
from smelt.search.tune import FAILED, Settings, State, Task
from smelt.target import Target

from . import options

Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default=False,
        help="Measure on another machine, which `smelt devices add` has made known; schedules are "
        "for its processor.",
    ),
]
BoardName = Annotated[
    str | None,
    typer.Option("--board", metavar="NAME", show_default=False,
                 help="Measure C on a board, in instructions where QEMU emulates it: "
                 f"{', '.join(BOARDS)}. Schedules are for its processor."),
]  # fmt: skip
_USUAL = Settings(trials=1)
_MINUTES = 5.0
"""Without --trials and --minutes."""
_REFRESH = 2.0
"""Seconds between two versions of a page that is served."""


@dataclass(frozen=True)
class How:
    """What the command says of how to tune."""

    trials: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="End after so many measurements.")
    ] = None
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            show_default=False,
            help=f"End after so many minutes; {_MINUTES:g} without --trials and --minutes. With "
            "both, whatever comes first.",
        ),
    ] = None
    kernel: Annotated[
        str | None,
        typer.Option(show_default=False, help="Tune this kernel only; smelt why names them."),
    ] = None
    seed: Annotated[int, typer.Option(min=0, help="Of what is drawn at random.")] = _USUAL.seed
    batch: Annotated[
        int, typer.Option(min=1, help="Candidates of a kernel that are built together.")
    ] = _USUAL.batch
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds of one measurement after which it has failed.")
    ] = _USUAL.timeout

    parallel: Annotated[
        int, typer.Option(min=1, help="With --device: machines of its key that measure at a time.")
    ] = 1

    def settings(self) -> Settings:
        """The settings of the session."""
        minutes = _MINUTES if self.trials is None and self.minutes is None else self.minutes
        seconds = None if minutes is None else 60 * minutes
        return Settings(self.trials, seconds, self.batch, seed=self.seed, timeout=self.timeout)


def tune(
    model: options.Model,
    how: How,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Where schedules are kept: a file, which may be there already, or a URL. Without "
            "it MODEL.smelt.db in the current folder.",
        ),
    ] = None,
    target: options.Target = None,
    shape: options.Shape = None,
    range_: options.Range = None,
    likely: options.Likely = None,
    state: options.State = None,
    threads: options.Threads = None,
    opt_level: options.OptLevel = None,
    device: Device = None,
    board: BoardName = None,
    page: Annotated[
        str | None,
        typer.Option(
            metavar="[FILE]",
            show_default=False,
            help="Write a report as a page (.html). Without FILE the page is served on this "
            "machine while the session runs, too, and written to MODEL.tuning.html at the end.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Look for faster schedules of a model's kernels by measuring, and keep them in a file.

    What was found is used with --database FILE: `smelt compile MODEL --database FILE`. Everything
    that was measured is kept at once: Ctrl-C loses nothing, and the same command goes on.
    """
    options.needs_source(model)
    stem = Path(model).stem
    kept = database or f"{stem}.smelt.db"
    _check_database(kept)
    file = None if page is None else page or f"{stem}.tuning.html"
    if file is not None:
        check_target(file, (".html",), "a page, report.html")
    build = options.Build(target, shape, range_, likely, state, threads, opt_level)
    where = _where(build, how, device, board)
    shapes, states = build.shapes(model), list[State]()
    interrupted = False
    try:
        with _told(states, model, kept, page == "", json) as progress:
            tuning.tune(model, kept, where.target, shapes=shapes, state=build.states(),
                        options=where.options, settings=how.settings(), kernel=how.kernel,
                        runner=where.runner, progress=progress)  # fmt: skip
    except KeyboardInterrupt:
        interrupted = True
    for last in states:
        _end(model, where.target, kept, file, last, json, interrupted)
    _leave(states, interrupted)


def _leave(states: list[State], interrupted: bool) -> None:
    """End with 1 where no kernel could be tuned."""
    if interrupted:
        raise KeyboardInterrupt
    if any(state.tasks and all(t.status == FAILED for t in state.tasks) for state in states):
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Where:
    """What is measured on, and what code is made for; runner: None: this machine."""

    target: str | Target | None
    options: Options
    runner: Runner | None = None


def _where(build: options.Build, how: How, device: str | None, board: str | None) -> _Where:
    if device is not None:
        if board is not None:
            raise UsageError("--device and --board: candidates are measured in one place")
        return _there(build, how, device)
    if how.parallel > 1:
        raise UsageError("--parallel: this machine measures one candidate at a time; give --device")
    if board is not None:
        runner = BoardRunner(board, timeout=how.timeout)
        return _Where(runner.target(build.target), build.options(), runner)
    if build.target is not None and not is_list(build.target) and is_c(build.target):
        raise UsageError(f"--target {build.target}: C is measured on a board; give --board")
    return _Where(build.target, build.options())


def _there(build: options.Build, how: How, name: str) -> _Where:
    """A machine that has a name here. Raises RPCError where it does not answer."""
    known = find_device(name)
    with known.open() as session:
        about = session.about
    cores = build.threads or int(about.get("cores") or 1)
    made = replace(build.options(), threads=cores)
    runner = RPCRunner(known.key, known.host, known.port, timeout=how.timeout,
                       parallel=how.parallel)  # fmt: skip
    return _Where(build.target or target_for(known, about), made, runner)


def _check_database(database: str) -> None:
    """Refuse a file that cannot be written, before anything is measured."""
    if "://" in database or Path(database).is_dir():  # a folder holds the classic pair of files
        return
    try:
        check_target(database)
    except ExportError as e:
        raise UsageError(f"--database: {e}") from None


@contextmanager
def _told(states: list[State], model: str, kept: str, live: bool, json: bool) -> Iterator[Told]:
    """What is called after every batch: it shows the state, and keeps it."""
    console = (err if err.is_terminal else None) if json else out
    if not live:
        with watched(console) as tell:

            def keep(state: State) -> None:
                states[:] = [state]
                tell(state)

            yield keep
        return
    with served() as page:
        page.set(tuning_page(State((), _USUAL), Path(model).name, kept, _REFRESH))
        page.asked = True
        notice(f"the session can be watched at {page.url}")
        with _told(states, model, kept, False, json) as tell:
            drawn = [-_REFRESH]

            def serve(state: State) -> None:
                tell(state)
                if page.asked and state.elapsed - drawn[0] >= _REFRESH / 2:
                    page.set(tuning_page(state, Path(model).name, kept, _REFRESH))
                    drawn[0] = state.elapsed

            yield serve


# ---------------------------------------------------------------------------------------- the end


def _end(
    model: str,
    target: str | Target | None,
    kept: str,
    file: str | None,
    state: State,
    json: bool,
    interrupted: bool,
) -> None:
    """What was found, and how it is used."""
    if interrupted:
        state.message = "interrupted"
    if file is not None:
        text = tuning_page(state, Path(model).name, kept)
        write_file(file, lambda f: f.write(text.encode()))
    if json:
        say_json({"model": model, "database": kept, "page": file, **_json(state)})
        return
    tuned = [t for t in state.tasks if t.winner is not None]
    for t in state.tasks:
        if t.status == FAILED:
            notice(f"{t.name} was not tuned: {t.note}")
    say(f"{rate(state)}, {state.scored:,} decisions scored; {state.message}")
    for kind, count, said in errors(state.tasks):
        say(f"{count} {'error' if count == 1 else 'errors'} ({kind}), most often: {said}")
    say(f"kernels of a run: {gain(state.before, state.after, state.unit)}; "
        f"{len(tuned)} of {len(state.tasks)} have a faster schedule than the default")  # fmt: skip
    if state.model is not None:
        say(f"the model with them, in turns with the default: {gain(*state.model, state.unit)}")
    if file is not None:
        say(f"wrote {file}")
    asked = "" if target is None else f' --target "{target}"'
    use = f"; smelt compile {model}{asked} --database {kept} uses it" if tuned else ""
    again = "; the same command goes on" if interrupted else ""
    say(f"kept in {kept}{again}{use}")


def _json(state: State) -> dict[str, Any]:
    each, unit = state.unit.per_second, state.unit.name
    found = [dict(zip(("kind", "count", "message"), e, strict=True)) for e in errors(state.tasks)]
    return {
        "version": smelt.__version__,
        "message": state.message,
        "trials": state.trials,
        "seconds": state.elapsed,
        "scored": state.scored,
        f"before_{unit}": each * state.before,
        f"after_{unit}": each * state.after,
        f"model_{unit}": None if state.model is None else [each * s for s in state.model],
        "errors": found,
        "tasks": [_task(t, state.unit) for t in state.tasks],
    }


def _task(t: Task, unit: Unit) -> dict[str, Any]:
    def told(seconds: float) -> float | None:
        return unit.per_second * seconds if isfinite(seconds) else None

    return {
        "name": t.name,
        "calls": t.weight,
        "status": t.status,
        "note": t.note,
        f"default_{unit.name}": told(t.default_seconds),
        f"best_{unit.name}": told(t.default_seconds * t.relative),
        f"confirmed_{unit.name}": told(t.seconds),
        f"predicted_{unit.name}": told(t.best.predicted) if t.best is not None else None,
        "trials": t.trials,
        "errors": t.errors,
        "default": t.default.text if t.default is not None else None,
        "winner": t.winner.text if t.winner is not None else None,
        "trace": t.trace,
    }
