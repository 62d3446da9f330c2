"""One operator at a time beside TFLite's kernels: whole numbers bit for bit, floats to 1e-5.

SMELT_TFLITE_CASES=20000 runs so many cases in place of some hundred.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.tflite import cases_moves, cases_rare
from tests.tflite.cases import CASES
from tests.tflite.check import mistakes

KINDS = (cases_moves.MOVED, cases_rare.RARE)  # the cases enter themselves

COUNT = int(os.environ.get("SMELT_TFLITE_CASES", "0"))
EACH = -(-COUNT // len(CASES)) or 4
COMPILED = tuple(sorted(CASES))[::4]
"""Operators whose first case is compiled, too; the others are interpreted."""


@pytest.mark.parametrize("name", sorted(CASES))
def test_an_operator_is_tflites(name: str) -> None:
    wrong = []
    for seed in range(EACH):
        c = CASES[name](np.random.default_rng(seed))
        text = mistakes(c, native=seed == 0 and (name in COMPILED or COUNT > 0))
        wrong += [f"case {seed}: {text}"] if text else []
    assert not wrong, "\n".join(wrong[:5])
