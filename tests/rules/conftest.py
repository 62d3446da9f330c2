"""The ledger of choices: a text that is compared, or written anew."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """--update-golden rewrites the files instead of comparing."""
    try:
        parser.addoption("--update-golden", action="store_true", help="rewrite golden files")
    except ValueError:
        return  # another folder's tests have it already
