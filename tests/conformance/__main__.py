"""python -m tests.conformance [PATTERN] [--update] [--report] [--workers N]"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence

import onnx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from . import ratchet
from .report import PAGE, counts, grouped, page
from .run import Result, run

out = Console()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases, say how they went, and update the ratchet where that is asked for."""
    parser = argparse.ArgumentParser("python -m tests.conformance", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="regular expression on kind/name")
    parser.add_argument("--update", action="store_true", help="write passing.txt and the page")
    parser.add_argument(
        "--report", action="store_true", help="say why cases fail, and what is slow"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    given = parser.parse_args(arguments)
    known = ratchet.read() if (ratchet.FOLDER / "passing.txt").exists() else None
    if given.update and given.pattern and (known is None or known.version != onnx.__version__):
        parser.error("the list is of another onnx; --update without a pattern writes it anew")
    results = execute(re.compile(given.pattern), given.workers)
    found = ratchet.updated(None, results)
    summary(found)
    if given.report:
        report(found, results)
    if given.update:
        new = ratchet.updated(known if given.pattern else None, results)
        ratchet.write(new)
        PAGE.write_text(page(new), encoding="utf-8")
        return 0
    wrong = [] if known is None else ratchet.complaints(known, results)
    for line in wrong:
        out.print(line, markup=False, highlight=False, soft_wrap=True)
    return 1 if wrong else 0


def execute(pattern: re.Pattern[str], workers: int) -> list[Result]:
    """The results of the cases that match."""
    results = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]} failed"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=out, transient=True) as bars:
        bar = bars.add_task("making data", total=None, failed=0)
        for found in run(lambda names: [n for n in names if pattern.search(n)], workers):
            if isinstance(found, Result):
                results.append(found)
                failed = sum(r.error is not None for r in results)
                bars.update(bar, completed=len(results), failed=failed)
            else:
                bars.update(bar, description="running", total=len(found))
    return sorted(results, key=lambda r: r.name)


def summary(found: ratchet.Ratchet) -> None:
    """A line a kind."""
    table = Table("kind", "pass", "of", "per cent")
    for kind, (passing, known) in counts(found).items():
        table.add_row(kind, f"{passing:,}", f"{known:,}", f"{100 * passing / max(known, 1):.1f}")
    out.print(table)


def report(found: ratchet.Ratchet, results: Sequence[Result]) -> None:
    """Every case that failed under its reason, and what took longest."""
    for why, names in grouped(found.failing).items():
        out.print(f"{len(names):5}  {why}", markup=False, highlight=False, soft_wrap=True)
        for name in names:
            out.print(f"         {name}", markup=False, highlight=False)
    out.print(f"\nprocessor time: {sum(r.seconds for r in results):.1f} s; the longest:")
    for r in sorted(results, key=lambda r: -r.seconds)[:10]:
        out.print(f"{r.seconds:7.2f} s  {r.name}", markup=False, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
