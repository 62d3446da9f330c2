"""A schedule's steps: each call, and what it changed in the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import groupby

from smelt.tir.printer import script

from .element import Html, element
from .source import highlighted
from .subject import ScheduleStep

_CONTEXT = 3
_FOLD = 8  # this many unchanged lines and more are folded

Change = tuple[str, str]
"""How a line changed ("+", "-" or " "), and the line."""


def changes(before: str, after: str) -> list[Change]:
    """The lines of both texts in one order. A line that only moved sideways is unchanged."""
    old, new = before.splitlines(), after.splitlines()
    out: list[Change] = []
    a, b = [line.strip() for line in old], [line.strip() for line in new]
    for kind, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind == "equal":
            out += [(" ", line) for line in new[b0:b1]]
        else:
            out += [("-", line) for line in old[a0:a1]] + [("+", line) for line in new[b0:b1]]
    return out


def steps(items: Sequence[ScheduleStep], prefix: str) -> Html:
    """A list of steps; where scripts run, a slider shows one at a time."""
    shown = []
    funcs = {id(f): f for step in items for f in (step.before, step.after)}
    texts = {key: script(f) for key, f in funcs.items()}
    for n, step in enumerate(items, 1):
        found = changes(texts[id(step.before)], texts[id(step.after)])
        added, removed = ("".join(k for k, _ in found).count(sign) for sign in "+-")
        head = [
            element("code", highlighted(step.call)),
            element("span", f"+{added} −{removed} lines", class_="count"),
        ]
        body = element("pre", element("code", folded(found)), class_="source diff", tabindex=0)
        item = element("details", element("summary", head), body, open=n == len(items))
        shown.append(element("li", item, id=f"{prefix}-s{n}", value=n))
    return element("div", element("ol", shown, class_="steps"), class_="stepper")


def folded(found: Sequence[Change]) -> Iterator[Html]:
    """Changed lines with their surroundings; long unchanged parts can be unfolded."""
    at = 0
    for unchanged, group in groupby(found, lambda change: change[0] == " "):
        lines = [_line(change) for change in group]
        first = _CONTEXT if at else 0
        at += len(lines)
        last = len(lines) - (_CONTEXT if at < len(found) else 0)
        if unchanged and last - first >= _FOLD:
            label = element("summary", f"{last - first} unchanged lines")
            lines[first:last] = [element("details", label, lines[first:last], class_="fold")]
        yield from lines


@lru_cache(maxsize=10_000)
def _line(change: Change) -> Html:
    """Kept, because the steps of a schedule repeat most lines."""
    kind, text = change
    tag = {"+": "ins", "-": "del"}.get(kind, "span")
    return element(tag, f"{kind} ", highlighted(text), class_="line")
