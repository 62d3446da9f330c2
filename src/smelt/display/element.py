"""HTML text that is safe by construction: what is not an `Html` already is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape

_VOID = frozenset({"input", "meta", "br"})


class Html(str):
    """Text that is markup: it was made by this module, or escaped."""

    __slots__ = ()


def join(*parts: str | None) -> Html:
    """Parts one after another; plain strings are escaped, None is left out."""
    return Html("".join([p if isinstance(p, Html) else escape(p) for p in parts if p is not None]))


def element(
    tag: str, *content: str | Iterable[str | None] | None, **attributes: str | float | bool | None
) -> Html:
    """<tag attributes>content</tag>.

    content     strings, Html, or iterables of these
    attributes  class_ and for_ lose their underscore, others become hyphens; True stands alone,
                None and False are left out
    """
    shown = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        plain = name.rstrip("_").replace("_", "-")
        shown.append(f" {plain}" if value is True else f' {plain}="{escape(str(value))}"')
    start = f"<{tag}{''.join(shown)}>"
    if tag in _VOID:
        return Html(start)
    inner = [join(c) if c is None or isinstance(c, str) else join(*c) for c in content]
    return Html(f"{start}{''.join(inner)}</{tag}>")


def totals(terms: Iterable[tuple[str, str]]) -> Html:
    """Figures with their names, as a list of terms."""
    shown = [element("div", element("dt", name), element("dd", value)) for name, value in terms]
    return element("dl", shown, class_="totals")


def headings(names: Iterable[str]) -> list[Html]:
    """The heads of a table's columns, each of which sorts it."""
    return [element("th", element("button", n, type="button"), scope="col") for n in names]


def table(names: Iterable[str], rows: Iterable[Html]) -> Html:
    """A table, wide as it may be, that any of its columns sorts."""
    head, body = element("thead", element("tr", headings(names))), element("tbody", rows)
    return element("div", element("table", head, body, class_="kernels"), class_="scroll")


def number(value: float | None, form: str) -> Html:
    """A cell of such a table with a number; None: an empty one."""
    text = "" if value is None else format(value, form)
    return element("td", text, class_="amount", data_value=str(-1 if value is None else value))


def data(name: str, value: object) -> Html:
    """A value for the page's script, as JSON; no text in it can end the element."""
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return element("script", Html(text), type="application/json", id=name)
