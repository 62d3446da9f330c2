"""Program text as HTML: coloured, a line an element, each line knowing the box it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from .element import Html, element, join
from .tokens import tokens


def highlighted(text: str, links: Mapping[str, str] | None = None) -> Html:
    """A line of Python text with its tokens in spans; names in `links` become links."""
    return _marked(text, links) if links else _coloured(text)


@lru_cache(maxsize=10_000)
def _coloured(text: str) -> Html:
    """Kept, because the steps of a schedule repeat most lines."""
    return _marked(text, {})


def _marked(text: str, places: Mapping[str, str]) -> Html:
    return join(
        *[
            element("span", part, class_=kind)
            if kind is not None
            else element("a", part, href=f"#{places[part]}")
            if part in places
            else part
            for kind, part in tokens(text)
        ]
    )


def source(
    lines: Sequence[str],
    prefix: str,
    boxes: Mapping[int, str] | None = None,
    links: Mapping[str, str] | None = None,
    language: str = "python",
) -> Html:
    """Lines with numbers. The ids are prefix-lN, N from 1.

    boxes  per line (from 0) the id of the innermost box around it
    """
    shown = [
        element(
            "span",
            highlighted(line, links) if language == "python" else line,
            class_="line",
            id=f"{prefix}-l{n + 1}",
            data_box=(boxes or {}).get(n),
        )
        for n, line in enumerate(lines)
    ]
    return element("pre", element("code", shown), class_="source", tabindex=0)
