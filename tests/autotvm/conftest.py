"""Golden texts of the tests of templates, and options that measure nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """--update-golden rewrites the files instead of comparing."""
    try:
        parser.addoption("--update-golden", action="store_true", help="rewrite golden files")
    except ValueError:
        return  # the option is known already


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a text with golden/TEST.txt."""
    name = request.node.name.replace("[", "_").replace("]", "").removeprefix("test_")
    file = Path(__file__).parent / "golden" / f"{name}.txt"

    def check(text: str) -> None:
        if request.config.getoption("--update-golden", False):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text + "\n")
        assert file.exists(), f"{file} is missing; run pytest --update-golden"
        assert text + "\n" == file.read_text()

    return check
