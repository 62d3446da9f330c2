"""One folder of compiled kernels for all tests of this suite."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("kernels"))
