"""docs/passes.md shows the passes and the config keys of today."""

from __future__ import annotations

from .pass_table import BLOCK, PAGE, refreshed
from .test_names import CLASSIC


def test_the_tables_are_current() -> None:
    page = PAGE.read_text()
    assert [m[1] for m in BLOCK.findall(page)] == ["config", "passes", "relay"]
    assert refreshed(page) == page, "run: python -m tests.tir_transform.pass_table"
    for name in CLASSIC:
        assert f"| `{name}` |" in page
