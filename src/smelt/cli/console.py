"""Where the command line writes: results to stdout; progress and errors to stderr."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from smelt.cli.main import INTERRUPTED
from smelt.ir.errors import InternalError, SmeltError

Report = Callable[[str, int, int], None]

out = Console()
err = Console(stderr=True)


class UsageError(SmeltError):
    """Arguments that cannot be carried out."""


USER_ERROR = 2
INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h


def exit_code(error: Exception) -> int:
    """One message about what ended a command, and the code to end with; a bug is raised again."""
    if isinstance(error, typer.Abort):
        return INTERRUPTED
    if hasattr(error, "format_message"):  # the argument parser's errors share no public base
        _complain_of_arguments(error)
        return USER_ERROR
    if isinstance(error, SmeltError):
        complain(str(error))
        return INTERNAL_ERROR if isinstance(error, InternalError) else USER_ERROR
    if isinstance(error, MemoryError):
        complain(f"out of memory: {error}")
        return USER_ERROR
    if isinstance(error, OSError) and error.filename is not None:
        complain(f"{error.filename}: {error.strerror}")
        return USER_ERROR
    raise error


def complain(message: str) -> None:
    """One message on stderr, as it is: brackets are not markup, lines are not broken."""
    err.print("smelt: error:", style="bold red", end=" ", highlight=False)
    err.print(message, markup=False, highlight=False, soft_wrap=True)


def _complain_of_arguments(error: Any) -> None:
    """A mistake in the arguments; without any, the help."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    message = error.format_message().rstrip(".")
    if near := getattr(error, "possibilities", None):
        message = f"no such option: {error.option_name}; nearest: {', '.join(near)}"
    reasons: list[Any] = getattr(error.__cause__, "errors", list)()
    if reasons and (option := getattr(error, "param", None)):
        reason = reasons[0]["msg"].replace("Input", "it", 1).partition(", unable")[0]
        message = f"{option.opts[0]} {reasons[0]['input']}: {reason}"
    hint = f"; see {context.command_path} --help" if context is not None else ""
    complain(f"{message[:1].lower()}{message[1:]}{hint}")


def tell(loudness: int) -> None:
    """Let the compiler's log be seen on stderr: 1: what it does; 2: every pass."""
    handler = RichHandler(console=err, show_path=False, markup=False, log_time_format="%X")
    log = logging.getLogger("smelt")
    log.setLevel(logging.DEBUG if loudness > 1 else logging.INFO)
    log.addHandler(handler)


def notice(text: str) -> None:
    """A line beside the result, on stderr."""
    err.print(f"smelt: {text}", markup=False, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """A line of result on stdout, as it is."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def say_json(value: object) -> None:
    """A result for programs."""
    print(json.dumps(value, indent=2))


@contextmanager
def progress() -> Iterator[Report]:
    """A callback `(stage, done, total)` that draws one bar a stage while stderr is a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bars:
        known = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in known:
                known[stage] = bars.add_task(stage, total=total)
            bars.update(known[stage], completed=done, total=total)

        yield report


def megabytes(count: int | None) -> str:
    """Bytes for people; None where they depend on sizes."""
    return "depending on sizes" if count is None else f"{count / 1e6:.2f} MB"
