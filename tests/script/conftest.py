"""Golden texts: `golden(text)` compares with a file beside the tests."""

from tests.golden import exact as golden  # noqa: F401
from tests.golden import pytest_addoption as pytest_addoption
