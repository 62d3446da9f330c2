"""The command `profile`: the times of a model's kernels beside what the machine can do."""

import json as _json
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Annotated

import typer

import smelt
from smelt.cli.console import say, say_json
from smelt.cli.results import Array
from smelt.display import profile_page
from smelt.runtime import Executable, ProfileReport
from smelt.runtime.files import check_target, is_special, write_file
from smelt.runtime.limits import MachineLimits

from . import options

RUNS = 3
"""Runs between two measurements of the machine's limits."""


def profile(
    model: options.Loadable,
    given: options.Run,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the table as a page.")
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the runs as a trace, for ui.perfetto.dev."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Time every kernel of a model: GFLOP/s, and the share of the machine's measured limit."""
    written = [file for file in (html, trace) if file is not None]
    for file in written:
        check_target(file)
    exe, inputs = given.ready(model)
    report, limits = profiled(exe, inputs, given.threads, here=given.device is None)
    if html is not None:
        page = profile_page(report, limits)
        write_file(html, lambda file: file.write(page.encode()))
    if trace is not None:
        events = report.trace()
        write_file(trace, lambda file: file.write(events.encode()))
    if any(is_special(file) for file in written):
        return  # standard output may be what was written to
    if json:
        say_json(_json.loads(report.json(limits)))
    else:
        say(report.table(limits=limits))


def profiled(
    exe: Executable, inputs: Sequence[Array], threads: int | None, here: bool = True
) -> tuple[ProfileReport, MachineLimits | None]:
    """The times of a model's kernels, and the machine's limits, measured between its runs; None of
    another machine."""
    if not here:
        return exe.profile(*inputs), None
    reports: list[ProfileReport] = []
    limits = smelt.machine_limits(
        threads, lambda: reports.append(exe.profile(*inputs, repeat=RUNS))
    )
    return reduce(add, reports), limits
