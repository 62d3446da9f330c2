"""docs/primitives.md is what scripts/primitives_page.py makes of the docstrings: all of them."""

from __future__ import annotations

import inspect
import runpy

from smelt.tir import Schedule

from .pages import DOCS, ROOT, blocks

MADE = runpy.run_path(str(ROOT / "scripts" / "primitives_page.py"))
PAGE = (DOCS / "primitives.md").read_text(encoding="utf-8")
LISTED = [name for names in MADE["GROUPS"].values() for name in names.split()]
QUESTIONS = {"enter_postproc", "work_on"}
"""Primitives that leave the program as it is."""


def test_the_page_is_that_of_the_docstrings() -> None:
    assert MADE["page"]() == PAGE, "run: python scripts/primitives_page.py"


def test_every_primitive_has_a_before_and_an_after() -> None:
    primitives = [
        name
        for name, method in inspect.getmembers(Schedule, inspect.isfunction)
        if getattr(method, "is_primitive", False)
    ]
    assert sorted(LISTED) == primitives
    for name in LISTED:
        text = PAGE.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        programs = [b.code for b in blocks(text)]
        assert len(programs) == (1 if name in QUESTIONS else 2), name
        assert name in QUESTIONS or programs[0] != programs[1]
        assert "\n*Needs* " in text
