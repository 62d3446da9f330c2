"""docs/cli.md is what scripts/cli_page.py makes of the commands."""

from __future__ import annotations

import re
import runpy

import pytest

from smelt.cli import console
from smelt.cli.commands import COMMANDS
from smelt.cli.main import INTERRUPTED

from .pages import DOCS, ROOT

MADE = runpy.run_path(str(ROOT / "scripts" / "cli_page.py"))
PAGE = (DOCS / "cli.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("columns", ["20", "300"])
def test_the_page_is_that_of_the_commands(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert MADE["page"]() == PAGE, "run: python scripts/cli_page.py"


def test_every_command_has_an_example() -> None:
    assert list(MADE["EXAMPLES"]) == list(COMMANDS)
    for name, text in MADE["EXAMPLES"].items():
        assert all(line.split()[:2] == ["smelt", name] for line in text.splitlines())


def test_exit_codes() -> None:
    """The codes that the command line itself knows are on the page."""
    known = {0, 1, console.USER_ERROR, INTERRUPTED, console.INTERNAL_ERROR}
    assert {int(n) for n in re.findall(r"^\| (\d+) \|", PAGE, re.M)} == known
