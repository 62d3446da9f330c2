"""Golden texts: what a conftest.py takes from here compares with files beside its tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """--update-golden rewrites the files instead of comparing."""
    try:
        parser.addoption("--update-golden", action="store_true", help="rewrite golden files")
    except ValueError:
        return  # the option is known already


def _comparison(request: pytest.FixtureRequest) -> Callable[[str], None]:
    name = request.node.name.replace("[", "_").replace("]", "").removeprefix("test_")
    file = request.path.parent / "golden" / f"{name}.txt"

    def check(text: str) -> None:
        if request.config.getoption("--update-golden", False):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        assert file.exists(), f"{file} is missing; run pytest --update-golden"
        assert text == file.read_text()

    return check


@pytest.fixture
def exact(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a text with golden/TEST.txt."""
    return _comparison(request)


@pytest.fixture
def line(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """The same for a text without its last line's end."""
    check = _comparison(request)
    return lambda text: check(text + "\n")
