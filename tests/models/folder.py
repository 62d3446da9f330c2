"""The folder of compiled kernels that all tests of a session share, other processes' included."""

from __future__ import annotations

import os

import pytest


def kernels(factory: pytest.TempPathFactory) -> str:
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kernels"
    folder.mkdir(exist_ok=True)
    return str(folder)
