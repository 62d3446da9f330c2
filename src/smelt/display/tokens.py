"""Program text cut into the tokens that are coloured, for terminals and pages alike."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from typing import Literal, cast

Kind = Literal["keyword", "builtin", "number", "string", "comment", "note"]
"""builtin: what stands after T., R. or I.; note: a line of ^^^ with the text behind it."""

_TOKENS = re.compile(
    r"""(?P<comment>\#.*)
      | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      | (?P<note>^\s*\^+.*)
      | (?P<builtin>@?\b[TRI]\.[\w.]+)
      | (?P<number>(?<![\w.])-?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\b)
      | (?P<word>[^\W\d]\w*)""",
    re.VERBOSE,
)


def tokens(line: str) -> Iterator[tuple[Kind | None, str]]:
    """The parts of one line of Python text, in order; a name and what is between have no kind.

    Names stand alone, so that they can be looked up.
    """
    done = 0
    for m in _TOKENS.finditer(line):
        if m.start() > done:
            yield None, line[done : m.start()]
        done = m.end()
        kind = m.lastgroup
        if kind == "word":
            kind = "keyword" if keyword.iskeyword(m.group()) else None
        yield cast(Kind | None, kind), m.group()
    if done < len(line):
        yield None, line[done:]
