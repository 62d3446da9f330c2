"""Golden texts for the tests beside this file."""

from __future__ import annotations

from tests.golden import line as golden  # noqa: F401
from tests.golden import pytest_addoption as pytest_addoption
