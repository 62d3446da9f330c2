"""The page of a tuning session, and its charts."""

from __future__ import annotations

import re
from collections import Counter
from math import nan

import pytest

import smelt
from smelt.display.charts import Axis, cloud, steps
from smelt.display.tuning import tuning_page
from smelt.search.record import ErrorCode
from smelt.search.space import SearchSpace
from smelt.search.tune import FAILED, Settings, State, Task
from tests.cli.sessions import ONE, network, session
from tests.display.dom import Element, read

EVIL = '<script src="//x">&\'"</script>'


@pytest.fixture(name="state", scope="module")
def fixture_state() -> State:
    return session()


@pytest.fixture(name="page", scope="module")
def fixture_page(state: State) -> Element:
    return read(tuning_page(state, "net.onnx", "net.smelt.db"))


def nothing() -> SearchSpace:
    raise AssertionError("a space was opened to be looked at")


def hostile(count: int) -> State:
    """Tasks of which everything that is text is hostile."""
    tasks = []
    for n in range(count):
        t = Task(nothing, f"{EVIL}{n}", 2.0)
        t.status, t.note, t.trials = FAILED, EVIL, 3
        t.default_seconds = nan if n % 2 else 1e-5
        t.history = [(0, 1.0), (1, 1.0), (2, 0.75), (3, 0.75)]
        t.met = [(1e-5, 1e-5, 0), (2e-5, 1e-6, 0), (3e-5, nan, int(ErrorCode.CRASH))]
        t.failures = Counter({(ErrorCode.CRASH, EVIL): n + 1})
        tasks.append(t)
    state = State(tasks, Settings(trials=3), 3, 1.0, message=EVIL)
    state.history = [(0, 0.5, state.before, state.before), (3, 1.0, state.before, state.after)]
    return state


def test_a_row_for_each_task(page: Element, state: State) -> None:
    table = page.find("table")[0]
    names = [h.text for h in table.find("th")]
    rows = [dict(zip(names, r.find("td"), strict=True)) for r in table.find("tr")[1:]]
    assert [r["task"].text for r in rows] == [t.name for t in state.tasks]
    for r, t in zip(rows, state.tasks, strict=True):
        assert r["trials"].text == str(t.trials)
        assert r["gain"].text == f"{1 / t.confirmed:.2f}x"
        assert float(r["default us"].attributes["data-value"]) == t.default_seconds
        assert r["confirmed"].text == ("yes" if t.winner is not None else "")
    shares = [float(r["% of the run"].text) for r in rows]
    assert sum(shares) == pytest.approx(100, abs=0.5)


def test_the_facts(page: Element, state: State) -> None:
    said = page.find("dl")[0].text
    tuned = [t for t in state.tasks if t.winner is not None]
    assert 0 < len(tuned) < len(state.tasks)
    assert f"tuned{len(tuned)} of {len(state.tasks)}" in said
    assert f"gain{state.before / state.after:.2f}x" in said
    assert "kept innet.smelt.db" in said


def test_errors_have_a_table(page: Element, state: State) -> None:
    table = page.find("table")[1]
    rows = [[c.text for c in r.find("td")] for r in table.find("tr")[1:]]
    assert sum(int(r[0]) for r in rows) == sum(t.errors for t in state.tasks) > 0
    assert {(r[2], r[3]) for r in rows} == {("crash", "it <b>fell</b>\nand more")}


def test_schedules_and_programs_before_and_after(page: Element, state: State) -> None:
    """The default's are those that `show` has; a task without a winner has none."""
    for t, part in zip(state.tasks, page.find("details", "task"), strict=True):
        sources = ["\n".join([x.text for x in s.find("span", "line")])
                   for s in part.find("pre", "source")]  # fmt: skip
        if t.winner is None:
            assert not sources
            continue
        _, _, default, tuned = sources
        shown = smelt.stage_text(network(), "scheduled", t.name, options=ONE)
        assert default.rstrip() == shown.rstrip()
        assert tuned != default
        assert [c.text for c in part.find("code")[:2]] == [
            t.default.text if t.default else "", t.winner.text
        ]  # fmt: skip


def test_charts_over_trials_and_time(page: Element, state: State) -> None:
    captions = [f.find("figcaption")[0].text for f in page.find("figure")]
    assert captions[:2] == ["Kernels of a run over trials", "Kernels of a run over seconds"]
    met = [m for t in state.tasks for m in t.met]
    good = sum(not e for _, _, e in met)
    assert captions[2] == (
        f"Measured over predicted times, all tasks: {good} trials; "
        f"{len(met) - good} failed, the crosses"
    )
    clouds = page.find("figure")[2]
    assert 0 < len(clouds.find("circle")) <= good
    assert clouds.find("path", "failed")


@pytest.mark.parametrize("refresh", [None, 2.0])
def test_names_and_messages_become_no_markup(refresh: float | None) -> None:
    state = hostile(100)
    text = tuning_page(state, EVIL, EVIL, refresh)
    assert text.count("<script") == 1
    assert not re.search(r"(src|href|url\()=?[\"']?(https?:)?//", text)
    page = read(text)
    assert len(page.find("details", "task")) == 100
    assert len({e.attributes["id"] for e in page.walk() if "id" in e.attributes}) >= 100
    policy = page.find("meta")[3].attributes["content"]
    assert "default-src 'none'" in policy
    assert ("connect-src 'self'" in policy) == (refresh is not None)


def test_a_session_that_has_not_begun() -> None:
    page = read(tuning_page(State((), Settings(trials=1)), "net.onnx", refresh=1.0))
    assert not page.find("figure")
    assert "gain" not in page.find("dl")[0].text


def test_links_lead_to_details(page: Element) -> None:
    there = {e.attributes.get("id") for e in page.walk()}
    links = [a.attributes["href"] for a in page.find("a")]
    assert links
    assert all(a.removeprefix("#") in there for a in links)


@pytest.mark.parametrize("values", [[1.0], [0.0], [0.0, 0.0], [3.0, 7.0], [1e-9, 1e9], [-5.0, 5.0]])
@pytest.mark.parametrize("log", [False, True])
def test_an_axis_has_a_place_for_every_value(values: list[float], log: bool) -> None:
    if log:
        values = [abs(v) or 1.0 for v in values]
    axis = Axis.of("x", values, log)
    assert all(0 <= axis.at(v) <= 1 for v in [*values, *axis.ticks()])
    assert axis.at(axis.low) == 0
    assert axis.at(axis.high) == pytest.approx(1)
    assert len(axis.ticks()) <= 20
    assert log or len(axis.ticks()) >= 2


def test_a_line_goes_in_steps() -> None:
    x, y = Axis("x", 0, 10), Axis("y", 0, 10)
    path = read_chart(steps([(0, 10), (5, 10), (10, 0)], x, y, "t")).find("path")[0]
    moves = re.findall(r"[MHV][\d. ]+", path.attributes["d"])
    assert [m[0] for m in moves] == ["M", "H", "V", "H", "V"]
    assert float(moves[2][1:]) < float(moves[4][1:]), "down is larger"


def test_points_on_the_line_are_equal() -> None:
    x, y = Axis("x", 1, 100, True), Axis("y", 1, 100, True)
    chart = read_chart(cloud([(10, 10), (10, 10)], [50], x, y, "t"))
    (circle,) = chart.find("circle")
    (line,) = chart.find("line", "equal")
    place = {k: float(v) for k, v in line.attributes.items() if k != "class"}
    across = (place["x1"] + place["x2"]) / 2
    down = (place["y1"] + place["y2"]) / 2
    assert float(circle.attributes["cx"]) == pytest.approx(across, abs=1)
    assert float(circle.attributes["cy"]) == pytest.approx(down, abs=1)
    assert len(chart.find("path", "failed")) == 1


def read_chart(text: str) -> Element:
    return read(f"<!DOCTYPE html>\n{text}")
