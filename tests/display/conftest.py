"""Fixtures of these tests: programs to look at."""

from __future__ import annotations

import pytest

from smelt.tir.schedule import Schedule
from tests.schedule.support import matmul


@pytest.fixture
def sch() -> Schedule:
    """A tiled matrix product with its steps."""
    s = Schedule(matmul(16, 24, 8))
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, 4])
    j_0, j_1 = s.split(j, [None, 8])
    s.reorder(i_0, j_0, k, i_1, j_1)
    s.parallel(i_0)
    s.unroll(i_1)
    s.vectorize(j_1)
    return s
