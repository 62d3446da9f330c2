"""The documentation runs: every python block of the README and of docs/ is executed.

The blocks of a file run in order, in one namespace and an empty working directory. A block behind
the comment `<!-- no-run: reason -->` is left out.
"""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*$")
SKIP = re.compile(r"<!--\s*no-run:\s*\S.*-->")


class Block(NamedTuple):
    line: int  # of the first line of code, counted from 1
    code: str


def blocks(text: str) -> list[Block]:
    """The python blocks of a page that are to be run."""
    found: list[Block] = []
    opened: tuple[int, str, bool] | None = None
    before = ""
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        fence = FENCE.match(line)
        if opened is not None and fence:
            start, language, skipped = opened
            if language == "python" and not skipped:
                code = textwrap.dedent("\n".join(lines[start : number - 1]))
                found.append(Block(start + 1, code))
            opened, before = None, ""
        elif opened is None and fence:
            opened = (number, fence["language"], bool(SKIP.search(before)))
        elif opened is None and line.strip():
            before = line
    return found


def test_blocks_are_found() -> None:
    page = (
        "text\n```python\na = 1\n```\n```sh\nls\n```\n<!-- no-run: long -->\n\n```python\n!\n```\n"
    )
    page += "- item\n  ```python\n  b = a\n  ```\n"
    assert blocks(page) == [Block(3, "a = 1"), Block(15, "b = a")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "__page__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        # Empty lines in front give an error the line numbers of the page.
        code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
        exec(code, scope)
