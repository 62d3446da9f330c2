"""What the tests of the documents share: pages, their blocks, links and anchors."""

from __future__ import annotations

import re
import textwrap
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
HOME = "https://github.com/smelt-compiler/smelt"
RAW = "https://raw.githubusercontent.com/smelt-compiler/smelt/main/"
DOCUMENTS = sorted(DOCS.rglob("*.md"))
PAGES = [*[ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")], *DOCUMENTS]

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*$")
NOTE = re.compile(r"<!--\s*(?P<word>[\w-]+)(?::\s*(?P<text>\S.*?))?\s*-->")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")  # of a picture in a link, too


class Block(NamedTuple):
    """A fenced block: its language, the line where its code begins, the comment in front of it."""

    language: str
    line: int
    code: str
    note: str = ""
    text: str = ""


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    opened: tuple[int, str, re.Match[str] | None] | None = None
    before = ""
    lines = page.splitlines()
    for number, line in enumerate(lines, start=1):
        fence = FENCE.match(line)
        if opened is not None and fence:
            start, language, note = opened
            code = textwrap.dedent("\n".join(lines[start : number - 1]))
            said = (note["word"], note["text"] or "") if note else ("", "")
            found.append(Block(language, start + 1, code, *said))
            opened, before = None, ""
        elif opened is None and fence:
            opened = (number, fence["language"], NOTE.search(before))
        elif opened is None and line.strip():
            before = line
    return found


def name(page: Path) -> str:
    """A page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


@cache
def prose(page: Path) -> str:
    """A page without its code."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`", "`", text)


def anchor(heading: str) -> str:
    """The name by which a heading is linked."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page; a heading that is there twice gets _1, _2, ..."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    found: dict[str, int] = {}
    for heading in HEADING.findall(text):
        start = anchor(heading)
        found[start] = found.get(start, -1) + 1
    return frozenset(f"{a}_{i}" if i else a for a, n in found.items() for i in range(n + 1))


def target(page: Path, link: str) -> tuple[Path, str] | None:
    """The file and the anchor that a link leads to; None where it leaves the repository."""
    path, _, place = link.partition("#")
    for start in (f"{HOME}/blob/main/", f"{HOME}/tree/main/", RAW):
        if path.startswith(start):
            return ROOT / path.removeprefix(start), place
    if re.match(r"[a-z]+:", path):
        return None
    return (page.parent / path).resolve() if path else page, place
