"""Networks of every kind on other processors: what they give there is what they give here.

A library for each, run by the program smelt-run under an emulator. Results may lie 1e-5 of the
largest element of their result apart, those in float16 2e-3, those in bytes not at all.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import smelt
from tests.models.net import Array, Feeds

from .cases import CASES, Model, Results, apart, chained
from .crossed import MACHINES, Runner

OPTIONS = smelt.Options(threads=2, cache_dir="")
PAIRS = {
    "keywords": ["aarch64"],
    "keywords, int8": ["i8mm", "riscv64"],
    "bert, 2 layers": ["dotprod"],
    "lstm": ["rvv"],
    "gru": ["rvv256"],
    "branch": ["rvv128"],
    "loop": ["rvv256", "a64fx"],
    "decoder in a loop": ["armv7"],
    "any image": ["dotprod"],
    "unet": ["a64fx"],
    "deeplab": ["armv7"],
    "float16": ["aarch64"],
    "4 bits": ["riscv64"],
    "decoder": ["sve"],
}
"""Most networks somewhere, every machine with some; the benchmark has all of both."""


@cache
def here(name: str) -> tuple[Model, list[Feeds], Results]:
    """A model, its inputs, and what it gives on this machine."""
    case = CASES[name]
    model = case.make()
    if isinstance(model, Path) and not model.exists():
        pytest.skip(f"{model} is missing (SMELT_MODELS)")
    feeds = list(case.inputs(model))
    exe = smelt.compile(model, options=OPTIONS)

    def run(given: Feeds) -> list[Array]:
        return [np.asarray(r) for r in exe.run(None, given)]

    return model, feeds, chained(case, feeds, run)


@pytest.mark.parametrize(
    ("name", "machine"), [(case, m) for case, machines in PAIRS.items() for m in machines]
)
def test_a_network_agrees_on_another_processor(name: str, machine: str, tmp_path: Path) -> None:
    MACHINES[machine].need()
    case = CASES[name]
    model, feeds, wanted = here(name)
    artifact = smelt.compile_artifact(model, MACHINES[machine].target, options=OPTIONS)
    artifact.export_library(tmp_path / "m.so")
    runner = Runner(MACHINES[machine], tmp_path)
    found = chained(case, feeds, lambda given: runner(tmp_path / "m.so", given))
    assert apart(found, wanted) <= case.bound


def test_every_network_and_every_machine_is_met() -> None:
    assert PAIRS.keys() == CASES.keys()
    assert {m for machines in PAIRS.values() for m in machines} == MACHINES.keys()
