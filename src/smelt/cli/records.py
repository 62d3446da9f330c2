"""The command `records`: what tuning found, listed, carried from place to place, thinned out."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from smelt.cli.console import UsageError, out, say, say_json
from smelt.runtime.errors import unknown
from smelt.runtime.files import check_target, write_file
from smelt.search.database import Database, add_records, copy_records
from smelt.search.record import Record
from smelt.search.record_text import read_lines, to_lines
from smelt.search.stores import open_database

Chosen = tuple[Record, ...]
Where = Annotated[
    str,
    typer.Argument(
        help="A file of SQLite (.db) or JSON (.json), a folder with the classic pair of files, or "
        "the URL of a PostgreSQL database.",
        show_default=False,
    ),
]


_Unconfirmed = Annotated[
    bool,
    typer.Option(
        "--unconfirmed",
        help="best: the fastest record, whether or not it was confirmed to beat the default.",
    ),
]
_Keep = Annotated[
    int | None,
    typer.Option(
        min=0,
        show_default=False,
        help="prune: so many of the fastest records stay of each program on each machine; "
        "confirmed ones always do.",
    ),
]


def records(
    database: Where,
    action: Annotated[
        str, typer.Argument(help="list, best, export, import, merge or prune.", show_default=False)
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="The file that export writes (if not given, stdout), those that import reads, or "
            "the databases that merge reads.",
            show_default=False,
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(help="Only programs whose name or key begins so: list, best, export."),
    ] = None,
    machine: Annotated[
        str | None, typer.Option(help="Only machines whose key begins so: list, best, export.")
    ] = None,
    unconfirmed: _Unconfirmed = False,
    keep: _Keep = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """List the records of tuning, or carry them from one database to another.

    list: what was measured of each program on each machine. best: the schedule that is used.
    export, import: a file with one JSON value a line. merge: add what other databases hold. prune:
    leave out slow and failed records.
    """
    if action not in _ACTIONS:
        raise UsageError(unknown("action", action, _ACTIONS))
    _check(action, files or [], keep, workload or machine, unconfirmed)
    with open_database(database, make=action in ("import", "merge")) as opened:
        if action in ("import", "merge"):
            added = sum(_ACTIONS[action](opened, name) for name in files or [])
            _report(json, "added", added, f"added to {database}")
        elif action == "prune":
            _report(json, "removed", opened.prune(keep or 0), f"removed from {database}")
        elif action == "export":
            _export(opened, _filter(opened, workload, machine), files)
        else:
            chosen = _filter(opened, workload, machine)
            _ACTIONS[action](opened, chosen, json, unconfirmed)


def _check(
    action: str, files: Sequence[str], keep: int | None, chosen: object, unconfirmed: bool
) -> None:
    """Refuse arguments that the action has no use for, and ask for those that it needs."""
    if action in ("import", "merge") and not files:
        what = "files that export wrote" if action == "import" else "databases"
        raise UsageError(f"{action}: nothing to read from; give {what}")
    if files and action not in ("import", "merge", "export"):
        raise UsageError(f"{action}: takes no files; given: {', '.join(files)}")
    if action == "export" and len(files) > 1:
        raise UsageError(f"export: writes one file; given: {', '.join(files)}")
    if (keep is None) == (action == "prune"):
        need = "needs" if action == "prune" else "has no use for"
        raise UsageError(f"{action}: {need} --keep NUMBER")
    if chosen and action not in ("list", "best", "export"):
        raise UsageError(f"{action}: has no use for --workload and --machine")
    if unconfirmed and action != "best":
        raise UsageError(f"{action}: has no use for --unconfirmed")


def _filter(database: Database, workload: str | None, machine: str | None) -> Chosen:
    """The records of the programs and machines that were asked for."""
    names = {w.key: w.name for w in database.workloads()}
    return tuple(
        r
        for r in database.records()
        if any(n.startswith(workload or "") for n in (names.get(r.workload, ""), r.workload))
        and r.machine.startswith(machine or "")
    )


def _report(json: bool, name: str, count: int, text: str) -> None:
    if json:
        say_json({name: count})
    else:
        say(f"{count} record{'' if count == 1 else 's'} {text}")


def _import(database: Database, name: str) -> int:
    return add_records(*read_lines(name), database)


def _merge(database: Database, name: str) -> int:
    with open_database(name, make=False) as other:
        return copy_records(other, database)


def _export(database: Database, chosen: Chosen, files: Sequence[str] | None) -> None:
    used = {r.workload for r in chosen}
    lines = to_lines([w for w in database.workloads() if w.key in used], chosen)
    if not files:
        sys.stdout.writelines(lines)
        return
    check_target(files[0])
    write_file(Path(files[0]), lambda file: file.writelines(text.encode() for text in lines))


def _groups(chosen: Chosen) -> dict[tuple[str, str], list[Record]]:
    """The records of each program on each machine."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for r in chosen:
        groups.setdefault((r.workload, r.machine), []).append(r)
    return groups


def _list(database: Database, chosen: Chosen, json: bool, _: bool) -> None:
    names = {w.key: w.name for w in database.workloads()}
    rows: list[dict[str, Any]] = []
    for (workload, machine), group in _groups(chosen).items():
        fastest = min(r.time for r in group)
        gains = [r.relative for r in group if r.confirmed and r.relative is not None]
        rows.append({
            "name": names.get(workload, ""), "workload": workload, "machine": machine,
            "target": group[-1].target, "records": len(group),
            "failed": sum(bool(r.error) for r in group), "confirmed": len(gains),
            "seconds": fastest if fastest < float("inf") else None,
            "relative": min(gains, default=None),
        })  # fmt: skip
    if json:
        say_json(rows)
        return
    heads = ("program", "machine", "records", "failed", "confirmed", "fastest", "of the default")
    _print(heads, ([r["name"] or r["workload"][:8], r["machine"][:8], r["records"], r["failed"],
                    r["confirmed"], _time(r["seconds"]), _share(r["relative"])]
                   for r in rows))  # fmt: skip


def _best(database: Database, chosen: Chosen, json: bool, unconfirmed: bool) -> None:
    names = {w.key: w.name for w in database.workloads()}
    each = (database.best(w, m, not unconfirmed) for w, m in _groups(chosen))
    found = [r for r in each if r is not None]
    if json:
        say_json([
            {"name": names.get(r.workload, ""), "workload": r.workload, "machine": r.machine,
             "target": r.target, "source": r.source, "body": r.body, "decision": r.decision,
             "seconds": r.time, "relative": r.relative, "confirmed": r.confirmed,
             "trace": r.trace}
            for r in found
        ])  # fmt: skip
        return
    heads = ("program", "machine", "source", "decision", "time", "of the default")
    _print(heads, ([names.get(r.workload, "") or r.workload[:8], r.machine[:8], r.source,
                    r.decision, _time(median(r.seconds)), _share(r.relative)]
                   for r in found))  # fmt: skip


def _print(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; the database's texts are shown as they are, without what steers a terminal."""
    table = Table()
    for head in heads:
        table.add_column(head, overflow="fold")
    shown = 0
    for row in rows:
        cells = ("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(v))
                 for v in row)  # fmt: skip
        table.add_row(*map(Text, cells))
        shown += 1
    if shown:
        out.print(table)
    else:
        say("no such records")


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:.4g} us"


def _share(relative: float | None) -> str:
    return "" if relative is None else f"{100 * relative:.1f} %"


_ACTIONS: dict[str, Callable[..., Any]] = {
    "list": _list, "best": _best, "export": _export, "import": _import, "merge": _merge,
    "prune": Database.prune,
}  # fmt: skip
