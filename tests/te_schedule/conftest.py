"""Golden texts of the tests of classic schedules."""

from tests.golden import line as golden  # noqa: F401
from tests.golden import pytest_addoption as pytest_addoption
