"""Products and convolutions of bytes on other processors: whole kernels, executed by emulators.

`make setup-edge` installs zig and the emulators; without them these tests are skipped.
"""

from __future__ import annotations

import re
from itertools import product as every
from typing import NamedTuple

import numpy as np
import pytest

from smelt.codegen.llvm import ObjectCompiler, resolve
from smelt.codegen.llvm_text import emit_module
from smelt.pipeline import lower_program as lower
from smelt.rules.cpu import apply, plan
from smelt.target import Machine, Target, machine_of
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script
from smelt.topi.registry import get_op
from tests.intrin.emulate import LIMITED, run

from .build import Array, memories, written
from .test_dot import expected, product

pytestmark = pytest.mark.micro

SIGNS = [(a, b) for a in ("uint8", "int8") for b in ("uint8", "int8")]
PRODUCTS = [("matmul", 48, 1, False), ("matmul", 21, 1, True), ("conv2d", 30, 3, True)]
"""Operators, columns (21: filled up to whole vectors), groups, whether the weights are known."""
CHOSEN: dict[str, dict[tuple[str, str], tuple[str, str]]] = {
    "neon": dict.fromkeys(SIGNS, ("pairs", "")),
    "dotprod": {
        ("uint8", "uint8"): ("fours", "udot"),
        ("uint8", "int8"): ("fours_moved", "sdot"),
        ("int8", "uint8"): ("fours_moved", "udot"),
        ("int8", "int8"): ("fours", "sdot"),
    },
    "i8mm": {
        ("uint8", "uint8"): ("fours", "udot"),
        ("uint8", "int8"): ("fours", "usdot"),
        ("int8", "uint8"): ("fours", "usdot"),
        ("int8", "int8"): ("fours", "sdot"),
    },
    "riscv": dict.fromkeys(SIGNS, ("pairs", "")),
    "rvv": dict.fromkeys(SIGNS, ("pairs", "")),
}
"""By the types of both operands: the body that is predicted to be the fastest, its instruction."""
PLAIN = {"neon": "[us]mlal|mla", "rvv": r"vwmacc(?:u|su)?\.vx", "riscv": "mulw?"}
"""What LLVM makes of sums without dot products."""


class Kernel(NamedTuple):
    """A product as it is compiled for a machine.

    body     the fastest one
    uses     the instructions that its schedule calls
    func     its loops, args what they take: for the result and scratch memory zeros
    result   which of them is the result, strides how it lies there, in bytes
    wanted   what numpy says
    """

    body: str
    uses: set[str]
    func: PrimFunc
    args: list[Array]
    result: int
    strides: tuple[int, ...]
    wanted: Array

    def found(self, arrays: list[Array]) -> Array:
        """The result among the arrays of a run."""
        flat = arrays[self.result]
        return np.lib.stride_tricks.as_strided(flat, self.wanted.shape, self.strides)


def kernel(
    machine: Machine, operator: str, a: str, b: str, columns: int, groups: int, constant: bool
) -> Kernel:
    """A product of bytes and a sum behind it."""
    known = frozenset({"w"} if constant else ())
    plans = []
    for body in get_op(operator).bodies:
        if "winograd" not in body.name:
            func, attrs, x, w = product(operator, body.name, a, b, columns, groups)
            plans.append((plan(func, machine, known), body.name, func))
    best, name, func = min(plans, key=lambda p: p[0].seconds)
    sch = apply(best, strict=True).schedule
    flat = lower(sch.func).with_attrs(name=f"{operator}_{a}_{b}_{columns}_{constant:d}")
    held, spare = memories(func, sch, flat, [x, w], {})
    for memory in spare:
        memory.flat[...] = 0
    (result,) = [b.name for b in written(func)]
    held[result].flat[...] = 0
    args = [m.flat.copy() for m in (*held.values(), *spare)]
    place, strides = [*held].index(result), held[result].view.strides
    uses = {*re.findall(r'call_instruction\("\w+", "([\w.]+)"', script(sch.func))}
    return Kernel(name, uses, flat, args, place, strides, expected(operator, attrs, x, w))


@pytest.mark.parametrize("name", LIMITED)
def test_products_of_bytes_are_exact_and_summed_by_instructions(name: str) -> None:
    """The fastest body for all signs."""
    target = resolve(Target(LIMITED[name].llvm))
    machine, compiler = machine_of(target, cores=2), ObjectCompiler(target)
    made = []
    for (a, b), (operator, columns, groups, constant) in every(SIGNS, PRODUCTS):
        k = kernel(machine, operator, a, b, columns, groups, constant)
        body, instruction = CHOSEN[name][a, b]
        assert k.body == body, k.func.name
        assert k.uses == ({f"arm.neon.{instruction}"} if instruction else set()), k.func.name
        text = compiler.assembly(emit_module([k.func]))
        assert re.search(rf"\s(?:{instruction or PLAIN[name]})\s", text), k.func.name
        made.append(k)
    found = run(LIMITED[name], [(k.func, k.args) for k in made], llvm=True)
    for k, arrays in zip(made, found, strict=True):
        np.testing.assert_array_equal(k.found(arrays), k.wanted, err_msg=k.func.name)
