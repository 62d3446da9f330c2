"""Boards and cards by name: tags, and the classic functions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from smelt import target
from smelt.codegen.llvm import resolve
from smelt.ir.errors import TargetError
from smelt.target import Target, boards

FUNCTIONS = (target.cuda, target.rocm, target.mali, target.bifrost, target.adreno,
             target.intel_graphics, target.vta, target.rasp)  # fmt: skip


def listed() -> list[Target]:
    """All that have a name, and the hosts of those that have one."""
    made = [Target(tag) for tag in target.list_tags()]
    made += [target.arm_cpu(m) for m in boards._ARM] + [target.riscv_cpu(m) for m in boards._RISCV]
    made += [target.micro(m) for m in boards._MICRO] + [target.stm32(m) for m in boards._STM32]
    made += [target.hexagon("v68", vtcm_capacity=1 << 20), *[f() for f in FUNCTIONS]]
    return made + [t.host for t in made if t.host is not None]


def test_every_name_reads_back_and_is_a_processor_that_llvm_knows() -> None:
    """LLVM is asked for those that it compiles for: unknown processors and features are errors."""
    assert len(target.list_tags()) >= 271
    for t in listed():
        assert Target(t.export()) == t
        assert str(Target(str(t))) == str(t)
        if t.kind.name == "llvm":
            assert resolve(t).mtriple


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            target.arm_cpu("rasp4b64", "-num-cores=2"),
            "llvm -keys=arm_cpu,cpu -device=arm_cpu -model=bcm2711 -mtriple=aarch64-linux-gnu "
            "-mattr=+neon -mcpu=cortex-a72 -num-cores=2",
        ),
        (target.arm_cpu("mine"), "llvm -keys=arm_cpu,cpu -device=arm_cpu -model=mine"),
        (target.cuda("3090", "sm_86"), "cuda -model=3090 -arch=sm_86"),
        (
            target.micro("stm32f746xx", ["-runtime=c", "-system-lib"]),
            "c -keys=arm_cpu,cpu -model=stm32f746xx -mcpu=cortex-m7 -march=armv7e-m -runtime=c "
            "-system-lib",
        ),
    ],
)
def test_what_a_function_gives(made: Target, text: str) -> None:
    assert str(made) == text


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: target.micro("stm32f746x"), "micro: unknown model 'stm32f746x'; nearest: "),
        (lambda: target.riscv_cpu(), None),
        (lambda: target.stm32("stm32F9xx"), "stm32: unknown model 'stm32F9xx'; nearest: "),
    ],
)
def test_an_unknown_model_names_the_nearest(make: Callable[[], Target], said: str | None) -> None:
    if said is None:
        assert make().mcpu == "sifive-u54"
        return
    with pytest.raises(TargetError) as caught:
        make()
    assert str(caught.value).startswith(said)
    assert "known: " in str(caught.value)
