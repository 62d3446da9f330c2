"""A tuning session as a page: what was gained, over trials and time, and by which schedules."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import isfinite

from smelt.ir.errors import CompileError, ScheduleError
from smelt.search.build import applied
from smelt.search.genes import ScheduledProgram
from smelt.search.space import Candidate, RuleSpace
from smelt.search.timing import Unit
from smelt.search.tune import State, Task
from smelt.tir.printer import script

from .charts import Axis, Point, cloud, steps
from .element import Html, element, join, table, totals
from .page import document
from .source import source

_COLOURED = 300
"""Lines of a program up to which its text is coloured."""


def tuning_page(state: State, name: str, database: str = "", refresh: float | None = None) -> str:
    """The text of an HTML file about a session.

    name      the model's
    database  where the records are, for people
    refresh   seconds after which a page of a session that still runs asks for a newer one; such a
              page has no programs
    """
    title = f"Tuning of {name}"
    parts: list[Html | None] = [_model(state), _tasks(state), _failures(state.tasks)]
    parts += [element("h2", "Each task")]
    parts += [_details(n, t, refresh is None, state.unit) for n, t in enumerate(state.tasks)]
    header = element(
        "header",
        element("h1", title),
        totals(_facts(state, database).items()),
        element("p", _told(state), class_="hint", data_refresh=refresh),
    )
    resources = ("page.css", "tuning.css", "profile.js", "tuning.js")
    content = join(header, element("main", *parts))
    return document(title, content, resources, asks=refresh is not None)


def _facts(state: State, database: str) -> dict[str, str]:
    before, after = state.before, state.after
    text, name = state.unit.text, state.unit.name
    facts = {"kernels of a run": f"{text(before)} -> {text(after)} {name}"}
    if after > 0:
        facts["gain"] = f"{before / after:.2f}x"
    rate = state.trials / state.elapsed if state.elapsed > 0 else 0.0
    facts["tuned"] = f"{sum(t.winner is not None for t in state.tasks)} of {len(state.tasks)}"
    facts["trials"] = f"{state.trials:,} in {state.elapsed:.1f} s, {rate:.1f}/s"
    facts["decisions scored"] = f"{state.scored:,}"
    if state.model is not None:
        facts["the model"] = " -> ".join([f"{text(seconds)} {name}" for seconds in state.model])
    if database:
        facts["kept in"] = database
    return facts


def _told(state: State) -> str:
    said = state.message
    if not said and state.current is not None:
        said = f"now: {state.current.name}"
    return f"{said[:1].upper()}{said[1:]}." if said else ""


# --------------------------------------------------------------------------------------- the model


def _model(state: State) -> Html:
    """The model's latency over trials and over time; predicted and measured times of all tasks."""
    whole = [h for h in state.history if h[2] == state.before]  # every default was timed by then
    each, name = state.unit.per_second, state.unit.name
    trials = _changes([(float(n), each * after) for n, _, _, after in whole])
    times = _changes([(elapsed, each * after) for _, elapsed, _, after in whole])
    y = Axis.of(f"{name} a run", [v for _, v in trials] + [each * state.before])
    charts = [
        steps(points, Axis.of(x, [p[0] for p in points]), y, f"Kernels of a run over {x}")
        for x, points in (("trials", trials), ("seconds", times))
        if points
    ]
    charts += _predictions(state.tasks, "all tasks", state.unit)
    return join(element("h2", "The model"), element("div", charts, class_="charts"))


def _changes(points: Sequence[Point]) -> list[Point]:
    """Points where the height changes, and the last one."""
    heads = [next(group) for _, group in groupby(points, key=lambda p: p[1])]
    return [*heads, *points[-1:]]


def _predictions(tasks: Sequence[Task], whose: str, unit: Unit) -> list[Html]:
    """Measured times over predicted ones."""
    each = unit.per_second
    met = [(each * p, each * s, e) for t in tasks for p, s, e in t.met if p > 0]
    good = [(p, s) for p, s, e in met if not e and isfinite(s) and s > 0]
    failed = [p for p, _, e in met if e]
    if not good:
        return []
    x = Axis.of(f"predicted {unit.name}", [p for p, _ in good] + failed, log=True)
    y = Axis.of(f"measured {unit.name}", [s for _, s in good], log=True)
    more = f"; {len(failed)} failed, the crosses" if failed else ""
    title = f"Measured over predicted times, {whose}: {len(good)} trials{more}"
    return [cloud(good, failed, x, y, title)]


# --------------------------------------------------------------------------------------- the tasks

_COLUMNS = ("task", "calls", "default {}", "best {}", "gain", "confirmed", "predicted {}",
            "% of the run", "trials", "errors", "status", "note")  # fmt: skip


def _tasks(state: State) -> Html:
    rows = [
        element("tr", _cells(n, t, state), class_="tuning" if t is state.current else None)
        for n, t in enumerate(state.tasks)
    ]
    heads = [c.format(state.unit.name) for c in _COLUMNS]
    note = "Best times in italics were not confirmed: nobody can be sure that they are faster."
    return join(element("h2", "Tasks"), element("p", note, class_="hint"), table(heads, rows))


def _cells(n: int, t: Task, state: State) -> list[Html]:
    sure, text = t.relative >= t.confirmed, state.unit.text
    best = t.default_seconds * (t.confirmed if sure else t.relative)
    share = 100 * t.weight * t.seconds / state.after if isfinite(t.seconds) else None
    cells = [element("td", element("a", t.name, href=f"#t{n}"))]
    cells += [
        _number(t.weight, f"{t.weight:g}"),
        _number(t.default_seconds, text(t.default_seconds)),
    ]
    cells += [_number(best, text(best), "" if sure else "unsure")]
    cells += [_number(1 / t.confirmed, f"{1 / t.confirmed:.2f}x")]
    cells += [element("td", _confirmed(t))]
    predicted = t.best.predicted if t.best else float("nan")
    cells += [_number(predicted, text(predicted))]
    cells += [_number(share or float("nan"), "" if share is None else f"{share:.1f}")]
    cells += [_number(t.trials, f"{t.trials}"), _number(t.errors, f"{t.errors}")]
    return [*cells, element("td", t.status), element("td", t.note)]


def _confirmed(t: Task) -> str:
    if t.winner is None:
        return "" if t.relative >= 1 else "not yet"
    return "yes" if t.relative >= t.confirmed else "an earlier one"


def _number(value: float, text: str, more: str = "") -> Html:
    """A figure."""
    return element("td", text, class_=f"amount {more}".strip(),
                   data_value=str(value if isfinite(value) else -1))  # fmt: skip


def _failures(tasks: Sequence[Task]) -> Html | None:
    """What went wrong, most often first."""
    found = [(count, t.name, code.name.lower(), said)
             for t in tasks for (code, said), count in t.failures.items()]  # fmt: skip
    if not found:
        return None
    rows = [
        element("tr", _number(count, f"{count}"), [element("td", v) for v in words])
        for count, *words in sorted(found, key=lambda v: -v[0])
    ]
    return join(element("h2", "Errors"), table(["times", "task", "kind", "message"], rows))


# ----------------------------------------------------------------------------------------- details


def _details(n: int, t: Task, programs: bool, unit: Unit) -> Html:
    gained = f"{1 / t.confirmed:.2f}x" if t.winner is not None else t.note or t.status
    points = _changes([(float(k), unit.per_second * t.default_seconds * r) for k, r in t.history])
    charts = _predictions([t], t.name, unit)
    if points and t.trials and isfinite(t.default_seconds):
        x = Axis.of("trials", [p[0] for p in points])
        y = Axis.of(f"best {unit.name} so far", [p[1] for p in points])
        charts.insert(0, steps(points, x, y, f"The best time so far, {t.name}"))
    content = [element("div", charts, class_="charts")]
    for what, c in (("default", t.default), ("tuned", t.winner)):
        if c is not None:
            content.append(element("p", f"{what}: ", element("code", c.text), class_="decision"))
    if programs and t.default is not None and t.winner is not None:
        content += _schedules(n, t, t.default, t.winner)
    return element("details", element("summary", element("b", t.name), element("small", gained)),
                   content, class_="task", id=f"t{n}")  # fmt: skip


def _schedules(n: int, t: Task, default: Candidate, winner: Candidate) -> list[Html]:
    """The traces and the programs of the default and of the winner, side by side."""
    found = [schedule_texts(t, c) for c in (default, winner)]
    parts = []
    for what, at in (("Traces", 0), ("Programs", 1)):
        panes = [
            element("div", element("h3", head, class_="part"),
                    _text(texts[at], f"t{n}-{head}-{what.lower()}"), class_="pane")
            for head, texts in zip(("default", "tuned"), found, strict=True)
        ]  # fmt: skip
        parts.append(element("details", element("summary", what),
                             element("div", panes, class_="panes")))  # fmt: skip
    return parts


def _text(text: str, prefix: str) -> Html:
    lines = text.rstrip("\n").split("\n")
    return source(lines, prefix, language="python" if len(lines) <= _COLOURED else "")


def schedule_texts(t: Task, c: Candidate) -> tuple[str, str]:
    """The trace of a candidate, and the program that it makes; why not, where it makes none."""
    try:
        given = t.space.source(c)
        if isinstance(given, ScheduledProgram):
            return given.trace, script(given.func)
        if isinstance(t.space, RuleSpace):
            sch = applied(t.space.spec, c.choice[0], [a.plan for a in t.space.algorithms])
            return str(sch.trace), script(sch.func.with_attrs(name=t.name))
    except (CompileError, ScheduleError) as e:
        return "", str(e)
    return "", ""
