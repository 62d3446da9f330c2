"""The same model for several CPUs, and at every level of optimisation."""

from __future__ import annotations

import platform

import pytest

import smelt
from tests.models.compare import agree, compiled, run
from tests.shipping.conftest import Case

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="targets of x86-64")


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "native"])
def test_each_target_gives_the_result(cpu: str, case: Case, cache: str) -> None:
    exe = compiled(case.model, cache, target=f"llvm -mcpu={cpu}")
    agree(run(exe, {"x": case.x}), [case.y])


def test_code_uses_the_features_of_its_target_and_says_so(case: Case, cache: str) -> None:
    features, wide = {}, {}
    for cpu in ("x86-64", "x86-64-v3"):
        target = f"llvm -mcpu={cpu}"
        features[cpu] = set(compiled(case.model, cache, target=target).metadata["features"])
        text = smelt.stage_text(case.model, "asm", target=target)
        wide[cpu] = "%ymm" in text, "vfmadd" in text, "%zmm" in text
    assert features["x86-64"] == set()
    assert features["x86-64-v3"] >= {"avx", "avx2", "fma", "bmi2", "f16c"}
    assert not any("avx512" in f for f in features["x86-64-v3"])
    assert wide == {"x86-64": (False, False, False), "x86-64-v3": (True, True, False)}


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_each_level_of_optimisation_gives_the_result(level: int, case: Case, cache: str) -> None:
    options = smelt.Options(opt_level=level, cache_dir=cache)
    agree(run(smelt.compile(case.model, options=options), {"x": case.x}), [case.y])


def test_no_workers_and_no_cache(case: Case) -> None:
    options = smelt.Options(workers=0, cache_dir="")
    agree(run(smelt.compile(case.model, options=options), {"x": case.x}), [case.y])
