"""One static page about a program: it needs nothing but itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import resources

from smelt.ir.build import value_of
from smelt.ir.node import Node
from smelt.tir.analysis import Level, footprint
from smelt.tir.nodes import LOOP_KINDS, For, walk
from smelt.tir.printer import listing

from .amounts import Amounts, Cache
from .bars import bars, summary
from .element import Html, element, join, totals
from .nest import nest
from .source import source
from .steps import steps
from .subject import Program, Subject, Text

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def page(subject: Subject, caches: Sequence[Cache]) -> str:
    """The text of an HTML file."""
    places = {part.name: f"f{n}" for n, part in enumerate(subject.parts)}
    sections = [
        element(
            "section",
            element("h2", part.name) if len(subject.parts) > 1 else None,
            program(part, f"f{n}", caches, "h3" if len(subject.parts) > 1 else "h2")
            if isinstance(part, Program)
            else _text(part, f"f{n}", places),
            id=f"f{n}",
            class_="program" if isinstance(part, Program) else None,
        )
        for n, part in enumerate(subject.parts)
    ]
    programs = [p.func for p in subject.parts if isinstance(p, Program)]
    kinds = {s.kind for f in programs for s in walk(f.body) if isinstance(s, For)}
    header = element(
        "header",
        element("h1", subject.title),
        _legend(kinds) if kinds else None,
        _contents(subject.parts) if len(sections) > 1 else None,
    )
    content = join(header, element("main", sections))
    return document(subject.title, content, ("page.css", "page.js"))


def document(title: str, content: Html, resources: Sequence[str], asks: bool = False) -> str:
    """The text of an HTML file.

    resources  the styles and scripts of this folder that it needs
    asks       whether its scripts may ask the server that it comes from
    """
    policy = f"{_POLICY}; connect-src 'self'" if asks else _POLICY
    style, script = [
        "\n".join([_resource(name) for name in resources if name.endswith(ending)])
        for ending in (".css", ".js")
    ]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("title", title),
        element("style", Html(style)),
    )
    body = element("body", content, element("script", Html(script)))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def report_page(
    title: str, facts: Mapping[str, str], notes: Iterable[str], content: Iterable[Html]
) -> str:
    """A file about something measured: its figures, notes on them, and tables."""
    hints = [element("p", note, class_="hint") for note in notes]
    header = element("header", element("h1", title), totals(facts.items()), hints)
    return document(title, join(header, element("main", content)), ("page.css", "profile.js"))


def _resource(name: str) -> str:
    return resources.files(__package__ or "smelt.display").joinpath(name).read_text("utf-8")


def _legend(kinds: Collection[str]) -> Html:
    shown = [
        element("li", element("span", k, class_="kind"), class_=f"loop {k.split('_')[0]}")
        for k in LOOP_KINDS
        if k in kinds
    ]
    return element("ul", shown, class_="legend", aria_label="kinds of loops")


def _contents(parts: Sequence[Program | Text]) -> Html:
    links = [element("li", element("a", part.name, href=f"#f{n}")) for n, part in enumerate(parts)]
    return element("nav", element("ol", links), aria_label="functions")


def _text(part: Text, prefix: str, places: dict[str, str]) -> Html:
    links = {name: place for name, place in places.items() if place != prefix}
    lines = part.text.rstrip("\n").split("\n")
    return source(lines, prefix, links=links, language=part.language)


def program(part: Program, prefix: str, caches: Sequence[Cache], heading: str) -> Html:
    """Loops, text, memory footprint and steps of one program.

    prefix   of all ids
    heading  the tag of the parts' headings
    """

    def title(text: str) -> Html:
        return element(heading, text, class_="part")

    found = footprint(part.func)
    lines = listing(part.func, part.mark).lines
    if any(level.kind == "thread_binding" for level in found.levels):
        caches = ()  # threads share caches in ways that the footprint of one does not say
    largest = max(value_of(level.bytes) or 0 for level in found.levels)
    amounts = Amounts(found.names, caches, largest)
    levels: dict[Node, Level] = {x.source: x for x in found.levels if x.source is not None}
    drawn, boxes = nest(lines, levels, amounts, prefix)
    content = [
        summary(found, amounts),
        element(
            "div",
            element("div", title("Loops"), drawn, class_="pane"),
            element(
                "div",
                title("Text"),
                source([str(line) for line in lines], prefix, boxes),
                class_="pane",
            ),
            class_="panes",
        ),
        title("Memory footprint"),
        bars(found, amounts),
    ]
    if part.steps:
        content += [title("Steps of the schedule"), steps(part.steps, prefix)]
    return join(*content)
