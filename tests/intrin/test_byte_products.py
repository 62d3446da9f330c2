"""Instructions for sums of products of bytes: their C text does what they mean, on an emulator."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.ir.expr import IntImm, Ramp, Var, const
from smelt.tir.intrin import Instruction
from smelt.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc

from .byte_products import DSP, HELIUM
from .cases import Array, interpreted
from .emulate import MACHINES, run

LIMITS = {"zero": (0, -128, 127, 5), "low": (-128, -3), "high": (127, 90), "n": (7, -(1 << 30)),
          "away": (1, 1, 0, 0)}  # fmt: skip


def element(b: Buffer) -> BufferLoad:
    """All of a buffer as a value."""
    n = int(b.fixed_shape()[0])  # type: ignore[index]
    return BufferLoad(b, (const(0) if n == 1 else Ramp(const(0), const(1), n),))


def program(made: Instruction, turn: int) -> PrimFunc:
    """An instruction by itself, with the numbers that it takes."""
    names = [p for p in made.operands if isinstance(p, Var)]
    fixed = {p: IntImm("int32", LIMITS[p.name][turn % len(LIMITS[p.name])]) for p in names}
    given = [fixed[p] if isinstance(p, Var) else element(p) for p in made.operands]
    buffers = tuple([p for p in made.meaning.params if isinstance(p, Buffer)])
    body = BufferStore(made.result, made(*given), element(made.result).indices)
    name = f"{made.name}_{turn}".replace(".", "_")
    return made.meaning.replace(params=buffers, body=body).with_attrs(name=name)


def numbers(made: Instruction, func: PrimFunc, r: np.random.Generator) -> list[Array]:
    """Random operands; what `requantize_sums` takes as it takes it."""
    out = []
    for b in func.buffers:
        wide = np.iinfo(b.type)
        small = 1 << 24 if b.type == "int32" else wide.max
        low = -small if wide.min else 0
        out.append(r.integers(low, small + 1, b.fixed_shape()).astype(b.type))
        if made.name.startswith("arm.mve.settle") and b.name == "f":
            columns = out[-1].reshape(-1, 4)
            columns[:, 1] = r.integers(1 << 30, 1 << 31, len(columns))
            columns[:, 3] = -r.integers(0, 16, len(columns))
        if made.name == "arm.mve.vshl_s32" and b.name == "b":
            out[-1] = np.array([0, 1, 17, 31], "int32")
    return out


@pytest.mark.micro
@pytest.mark.parametrize(("machine", "every"), [("cortex-m4", DSP), ("cortex-m55", DSP + HELIUM)])
def test_c_does_what_is_meant(machine: str, every: list[Instruction]) -> None:
    r = np.random.default_rng(0)
    kernels = []
    for made in every:
        for turn in range(4):
            func = program(made, turn)
            kernels.append((func, numbers(made, func, r)))
    found = run(MACHINES[machine], kernels)
    for (func, args), outcome in zip(kernels, found, strict=True):
        wanted = interpreted(func, [a.copy() for a in args])
        np.testing.assert_array_equal(outcome[-1], wanted[-1], err_msg=func.name)
