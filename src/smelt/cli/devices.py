"""The command `devices`: other machines by name, what they are, how fast they answer."""

import statistics
import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from smelt.cli.console import UsageError, megabytes, out, say, say_json
from smelt.exec.common import place
from smelt.ir.errors import SmeltError
from smelt.rpc import devices as known
from smelt.runtime.errors import unknown
from smelt.target import machine_of, machine_text

_PINGS = 20

Action = Annotated[
    str, typer.Argument(help="list, add, remove, ping or describe.", show_default=False)
]
Name = Annotated[str | None, typer.Argument(help="A device.", show_default=False)]
Place = Annotated[
    str | None,
    typer.Argument(
        metavar="HOST:PORT",
        help="add: where its server is, or with --key a tracker.",
        show_default=False,
    ),
]
Key = Annotated[
    str | None,
    typer.Option(show_default=False, help="add: what the machines are called at the tracker."),
]
Code = Annotated[
    str | None,
    typer.Option(
        "--target",
        show_default=False,
        help="add: what to compile for it with; by default as it says of itself.",
    ),
]


def devices(
    action: Action = "list",
    name: Name = None,
    place_: Place = None,
    key: Key = None,
    target: Code = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Keep other machines under names, and ask them what they are.

    add NAME HOST:PORT: a machine where a server runs (python -m smelt.exec.rpc_server, or
    smelt-server). list: those that are known. ping: how long an answer takes. describe: processor,
    memory, target. run, bench, profile and tune take --device NAME.
    """
    if action not in _ACTIONS:
        raise UsageError(unknown("action", action, _ACTIONS))
    if action == "add":
        _add(name, place_, key, target)
        return
    if place_ or key or target:
        raise UsageError(f"devices {action}: HOST:PORT, --key and --target belong to add")
    if name is None and action in ("remove", "describe"):
        raise UsageError(f"devices {action}: give the device's name")
    _ACTIONS[action](name, json)


def _add(name: str | None, where: str | None, key: str | None, target: str | None) -> None:
    if name is None or where is None:
        raise UsageError("devices add: give a name and a place: smelt devices add rpi4 HOST:PORT")
    try:
        host, port = place(where)
    except ArgumentTypeError as e:
        raise UsageError(f"devices add: {e}") from None
    made = known.KnownDevice(name, host, port, key or "", target or "")
    known.add_device(made)
    say(f"{name}: {made.place}; smelt devices ping {name} asks whether it answers")


def _remove(name: str | None, json: bool) -> None:
    known.remove_device(str(name))
    say(f"{name} is forgotten")


def _chosen(name: str | None) -> list[known.KnownDevice]:
    return [*known.known_devices().values()] if name is None else [known.find_device(name)]


def _list(name: str | None, json: bool) -> None:
    found = _chosen(name)
    if json:
        say_json([asdict(d) for d in found])
        return
    if not found:
        say("no devices; smelt devices add NAME HOST:PORT makes one known")
        return
    table = Table("device", "where", "target")
    for d in found:
        table.add_row(d.name, d.place, d.target or "as it says")
    out.print(table)


def _ping(name: str | None, json: bool) -> None:
    """All devices, or one; that some do not answer ends it only after the others were asked."""
    rows: list[dict[str, Any]] = []
    for device in _chosen(name):
        row: dict[str, Any] = {"name": device.name, "ms": None, "error": None}
        try:
            with device.open() as session:
                row["ms"] = 1e3 * statistics.median(_times(session.listdir))
        except SmeltError as e:
            row["error"] = str(e)
        rows.append(row)
    if json:
        say_json(rows)
    else:
        for row in rows:
            said = row["error"] or f"answers in {row['ms']:.3f} ms"
            say(f"{row['name']}: {said}")
    if any(row["error"] for row in rows):
        raise typer.Exit(1)


def _times(call: Callable[[], object]) -> list[float]:
    found = []
    for _ in range(_PINGS):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return found


def _describe(name: str | None, json: bool) -> None:
    device = known.find_device(str(name))
    with device.open() as session:
        about = dict(session.about)
    target = known.target_for(device, about)
    if json:
        say_json({**about, "target": str(target)})
        return
    warmth = about.get("temperature")
    rows = {
        "host": about.get("host"),
        "server": f"smelt {about.get('version')} in {about.get('server')}",
        "processor": f"{about.get('cpu') or 'unknown'} ({about.get('machine')})",
        "cores": about.get("cores"),
        "memory": megabytes(about["memory"]) if about.get("memory") else "unknown",
        "temperature": "not told" if warmth is None else f"{warmth:.1f} °C",
        "features": " ".join(about.get("features", ())) or "none",
        "target": target,
    }
    for what, value in rows.items():
        say(f"{what:<12} {value}")
    say(f"\nas smelt knows it, by the table of processors:\n{machine_text(machine_of(target))}")


_ACTIONS: dict[str, Callable[[str | None, bool], None]] = {
    "list": _list, "add": _list, "remove": _remove, "ping": _ping, "describe": _describe,
}  # fmt: skip
