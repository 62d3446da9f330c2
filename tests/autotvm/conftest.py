"""Golden texts of the tests of templates."""

from tests.golden import line as golden  # noqa: F401
from tests.golden import pytest_addoption as pytest_addoption
