"""One folder of compiled kernels for all tests of this suite; slow tests only by `-m slow`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.folder import kernels

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return kernels(tmp_path_factory)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "slow" in config.option.markexpr:
        return
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow: run by pytest -m slow tests/models"))
