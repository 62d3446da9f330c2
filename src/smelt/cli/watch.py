"""A tuning session on the terminal: a table that is drawn anew after every batch, or lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from smelt.search.timing import MICROSECONDS, Unit
from smelt.search.tune import State, Task

Told = Callable[[State], None]

_AROUND = 9
"""Lines of a terminal that are not rows of the table."""


@contextmanager
def watched(console: Console | None) -> Iterator[Told]:
    """What is called with the state after every batch.

    console  a terminal has the table, anything else a line for whatever has changed; None: nothing
    """
    if console is None:
        yield lambda state: None
    elif console.is_terminal:
        # Drawn after batches only: while candidates are timed, the processors are theirs.
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield lambda state: live.update(drawn(state, console.height - _AROUND), refresh=True)
    else:
        lines = Lines()

        def tell(state: State) -> None:
            if said := lines.changed(state):
                console.print(said, markup=False, highlight=False, soft_wrap=True)

        yield tell


class Lines:
    """What has changed since the state before, as lines."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, ...]] = {}

    def changed(self, state: State) -> str:
        """Lines about the tasks that have another best time or another status; "": none has."""
        found = []
        for t in state.tasks:
            now = t.relative, t.confirmed, t.status, t.note
            if now != self._known.get(id(t), (1.0, 1.0, "waiting", "")):
                found.append(f"{_clock(state)}  {_line(t, state.unit)}")
            self._known[id(t)] = now
        return "\n".join(found)


def _clock(state: State) -> str:
    return f"{state.elapsed:7.1f} s {state.trials:6} trials"


def _line(t: Task, unit: Unit) -> str:
    parts = [
        t.name,
        f"default {unit.text(t.default_seconds)} {unit.name}" if isfinite(t.seconds) else "",
    ]
    if t.relative < 1:
        sure = ", confirmed" if t.relative >= t.confirmed else ""
        parts.append(f"best {unit.text(_best(t))} {unit.name} ({1 / t.relative:.2f}x{sure})")
    parts.append(f"{t.status}: {t.note}" if t.note else "")
    return "  ".join([p for p in parts if p])


def _best(t: Task) -> float:
    return t.default_seconds * min(t.relative, t.confirmed)


def gain(before: float, after: float, unit: Unit = MICROSECONDS) -> str:
    """Times, and how many times faster the second one is."""
    told = f"{unit.text(before)} -> {unit.text(after)} {unit.name}"
    return f"{told} ({before / after:.2f}x)" if after > 0 else told


def rate(state: State) -> str:
    """Trials, seconds, and how many a second."""
    each = state.trials / state.elapsed if state.elapsed > 0 else 0.0
    return f"{state.trials:,} trials in {state.elapsed:.1f} s ({each:.1f}/s)"


def drawn(state: State, rows: int) -> Group:
    """The model's line and a row for each task, for at most so many of them."""
    gained = gain(state.before, state.after, state.unit)
    said = f"model {gained}; {rate(state)}; {state.scored:,} decisions scored"
    head = Text(said, no_wrap=True, overflow="ellipsis")
    table = Table(pad_edge=False)
    table.add_column("task", no_wrap=True, overflow="ellipsis", max_width=36)
    for name in ("calls", f"default {state.unit.name}", f"best {state.unit.name}", "gain"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for name in ("predicted", "trials", "errors"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True, overflow="ellipsis")
    ordered = _by_interest(state)
    for t in ordered[: max(rows, 1)]:
        table.add_row(*_cells(t, state.unit), style="bold" if t is state.current else "")
    left = len(ordered) - max(rows, 1)
    return Group(head, table, *([Text(f"and {left} more tasks")] if left > 0 else []))


def _by_interest(state: State) -> Sequence[Task]:
    """The tasks in which a run spends most of its time first; those that were not timed last."""

    def key(t: Task) -> tuple[bool, float]:
        known = isfinite(t.seconds)
        return not known, -t.weight * (t.seconds if known else t.work)

    return sorted(state.tasks, key=key)


def _cells(t: Task, unit: Unit) -> list[Text]:
    sure = t.relative >= t.confirmed
    state = "" if t.relative >= 1 else "confirmed" if sure else "not confirmed"
    if t.winner is not None and not sure:
        state = f"{1 / t.confirmed:.2f}x confirmed"
    gained = "" if t.relative >= 1 else f"{1 / min(t.relative, t.confirmed):.2f}x"
    dim = "" if sure else "dim"
    predicted = "" if t.best is None else unit.text(t.best.predicted)
    return [
        Text(t.name), Text(f"{t.weight:g}"), Text(unit.text(t.default_seconds)),
        Text(unit.text(_best(t)), dim), Text(gained, dim), Text(state, dim), Text(predicted),
        Text(str(t.trials)), Text(str(t.errors) if t.errors else ""),
        Text(f"{t.status}: {t.note}" if t.note else t.status),
    ]  # fmt: skip


def errors(tasks: Sequence[Task]) -> list[tuple[str, int, str]]:
    """Kinds of errors with their number and the most frequent message, the most frequent first."""
    kinds: dict[str, Counter[str]] = {}
    for t in tasks:
        for (code, said), count in t.failures.items():
            first = said.partition("\n")[0]
            kinds.setdefault(code.name.lower(), Counter())[first] += count
    found = [(k, c.total(), c.most_common(1)[0][0]) for k, c in kinds.items()]
    return sorted(found, key=lambda v: -v[1])
