"""The page about intrinsics lists all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from smelt.tir.intrin.overview import MARKS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "intrinsics.md"


def test_the_table_is_current() -> None:
    """In a process of its own: tests register intrinsics too."""
    command = [sys.executable, "-m", "smelt.tir.intrin.overview"]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = PAGE.read_text(encoding="utf-8")
    listed = page.partition(MARKS[0])[2].partition(MARKS[1])[0]
    assert listed.strip() == table.strip(), f"run {' '.join(command[1:])} docs/intrinsics.md"
