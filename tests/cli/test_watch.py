"""What a session looks like on a terminal, and where there is none."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator

import pytest
from rich.console import Console

from smelt.cli.watch import Lines, drawn, errors, watched
from smelt.search.record import ErrorCode
from smelt.search.space import SearchSpace
from smelt.search.tune import DONE, TUNING, Settings, State, Task


def nothing() -> SearchSpace:
    raise AssertionError("a space was opened to be looked at")


def task(name: str, **found: object) -> Task:
    made = Task(nothing, name, 2.0)
    vars(made).update(found)
    return made


@pytest.fixture(name="state")
def fixture_state() -> State:
    sure = task("sure", default_seconds=3e-4, relative=0.5, confirmed=0.5, status=DONE, trials=7)
    unsure = task("[b]unsure[/b]", default_seconds=1e-4, relative=0.8, status=TUNING)
    new = task("new")
    return State((new, unsure, sure), Settings(trials=20), trials=7, elapsed=2.0, scored=12345)


def text(state: State, rows: int) -> list[str]:
    console = Console(file=io.StringIO(), width=150)
    with console.capture() as kept:
        console.print(drawn(state, rows))
    return kept.get().splitlines()


def cells(line: str) -> list[str]:
    return [c.strip() for c in line.strip("│").split("│")]


def test_a_row_says_what_is_known_of_a_task(state: State) -> None:
    head, *table = text(state, 10)
    assert head.rstrip() == (
        "model 800.0 -> 500.0 us (1.60x); 7 trials in 2.0 s (3.5/s); 12,345 decisions scored"
    )
    sure, unsure, new = [cells(line) for line in table if line.startswith("│")]
    assert sure == ["sure", "2", "300.0", "150.0", "2.00x", "confirmed", "", "7", "", "done"]
    assert unsure[:6] == ["[b]unsure[/b]", "2", "100.0", "80.00", "1.25x", "not confirmed"]
    assert new == ["new", "2", "", "", "", "", "", "0", "", "waiting"]


def test_times_that_are_not_sure_are_dim(state: State) -> None:
    console = Console(file=io.StringIO(), width=150, force_terminal=True, color_system="standard")
    with console.capture() as kept:
        console.print(drawn(state, 10))
    (unsure,) = [line for line in kept.get().splitlines() if "unsure" in line]
    (sure,) = [line for line in kept.get().splitlines() if "│sure" in line]
    assert "\x1b[2m" in unsure
    assert "\x1b[2m" not in sure


def test_what_has_no_room_is_counted(state: State) -> None:
    lines = text(state, 1)
    assert [cells(line)[0] for line in lines if line.startswith("│")] == ["sure"]
    assert lines[-1].rstrip() == "and 2 more tasks"


def test_lines_say_what_has_changed(state: State) -> None:
    lines = Lines()
    first = lines.changed(state).splitlines()
    assert len(first) == 2
    assert first[0].endswith("7 trials  [b]unsure[/b]  default 100.0 us  best 80.00 us (1.25x)")
    assert first[1].endswith("best 150.0 us (2.00x, confirmed)")
    assert lines.changed(state) == ""
    state.tasks[0].status, state.tasks[0].note = "failed", "it has no schedule"
    assert lines.changed(state).endswith("7 trials  new  failed: it has no schedule")


def test_errors_are_counted_by_kind() -> None:
    crash, late = ErrorCode.CRASH, ErrorCode.TIMEOUT
    one = task("one", failures=Counter({(crash, "a"): 2, (crash, "b\nmore"): 2, (late, "c"): 3}))
    other = task("other", failures=Counter({(crash, "b"): 1}))
    assert errors([one, other]) == [("crash", 5, "b"), ("timeout", 3, "c")]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_has_a_table(state: State, terminal: bool) -> None:
    file = io.StringIO()
    console = Console(file=file, width=120, height=20, force_terminal=terminal)
    with watched(console) as tell:
        for s in _twice(state):
            tell(s)
    assert ("┏" in file.getvalue()) == terminal
    assert file.getvalue().count("confirmed)") == (0 if terminal else 1)


def _twice(state: State) -> Iterator[State]:
    yield state
    yield state
