"""Which instructions do what a block adds up, and that their tiles do it."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.ir.errors import ScheduleError
from smelt.target import Target
from smelt.target.processor import architecture, features_of
from smelt.tir.interpret import interpret
from smelt.tir.intrin import Fit, Instruction, fitting
from smelt.tir.nodes import Block, PrimFunc
from smelt.tir.parser import parse
from smelt.tir.schedule import Schedule

from .cases import expected, interpreted, matmul, operands, packed

VNNI = "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake"
HASWELL = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"
FOREST = "llvm -mtriple=x86_64-linux-gnu -mcpu=sierraforest"
ARM = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod"
I8MM = f"{ARM},+i8mm"


def found(func: PrimFunc, target: str) -> list[Fit]:
    t, block = Target(target), Schedule(func).get("C")
    assert isinstance(block, Block)
    return fitting(block, architecture(t), features_of(t))


@pytest.mark.parametrize(
    ("types", "target", "names"),
    [
        (("float32", "float32", "float32"), VNNI,
         "x86.avx512.vfmadd231ps 16 1, x86.avx2.vfmadd231ps 8 1"),
        (("float32", "float32", "float32"), HASWELL, "x86.avx2.vfmadd231ps 8 1"),
        (("float64", "float64", "float64"), HASWELL, "x86.avx2.vfmadd231pd 4 1"),
        (("uint8", "int8", "int32"), VNNI, "x86.avx512.vpdpbusd 16 4, x86.avx512vl.vpdpbusd 8 4"),
        (("int8", "uint8", "int32"), VNNI,
         "x86.avx512.vpdpbusd 16 4 swapped, x86.avx512vl.vpdpbusd 8 4 swapped"),
        (("int16", "int16", "int32"), VNNI,
         "x86.avx512.vpdpwssd 16 2, x86.avx512.vpmaddwd 16 2, x86.avx2.vpmaddwd 8 2, "
         "x86.sse.pmaddwd 4 2"),
        (("int16", "int16", "int32"), HASWELL, "x86.avx2.vpmaddwd 8 2, x86.sse.pmaddwd 4 2"),
        (("int16", "int8", "int32"), HASWELL,
         "x86.avx2.vpmaddwd_s8 8 2, x86.sse.pmaddwd_s8 4 2"),
        (("uint8", "int16", "int32"), HASWELL,
         "x86.avx2.vpmaddwd_u8 8 2 swapped, x86.sse.pmaddwd_u8 4 2 swapped"),
        (("uint8", "int8", "int32"), HASWELL, ""),
        (("uint8", "int8", "int16"), HASWELL, ""),
        (("int8", "int8", "int32"), VNNI, ""),
        (("int8", "int8", "int32"), FOREST, "x86.avxvnniint8.vpdpbssd 8 4"),
        (("uint8", "uint8", "int32"), FOREST, "x86.avxvnniint8.vpdpbuud 8 4"),
        (("int8", "int8", "int64"), ARM, ""),
        (("int8", "int8", "int32"), ARM, "arm.neon.sdot 4 4, arm.neon.sdot_lane 4 4"),
        (("int8", "int8", "int32"), I8MM,
         "arm.neon.smmla 4 8, arm.neon.sdot 4 4, arm.neon.sdot_lane 4 4"),
        (("int16", "int16", "int64"), "c -mcpu=cortex-m4", "arm.dsp.smlald 1 2"),
    ],
)  # fmt: skip
def test_types_and_features_decide(types: tuple[str, str, str], target: str, names: str) -> None:
    fits = found(matmul(8, 32, 16, *types), target)
    shown = [f"{f.instruction.name} {f.lanes} {f.group}{' swapped' * f.swapped}" for f in fits]
    assert ", ".join(shown) == names


@pytest.mark.parametrize(
    "update",
    ["C[0] = T.max(C[0], A[vk] * B[vk])", "C[0] = C[0] + A[vk]", "C[0] = A[vk] * B[vk]",
     "C[0] = C[1] + A[vk] * B[vk]", "C[0] = C[0] + (A[vk] + 1.0) * B[vk]"],
)  # fmt: skip
def test_other_blocks_have_none(update: str) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((2,), "float32")):
    for k in range(8):
        with T.block("C"):
            vk = T.axis.reduce(8, k)
            {update}
""")
    assert not found(func, HASWELL)


def test_a_tile_is_found_and_does_its_part() -> None:
    """From the types of a product alone to the instruction that forms it."""
    m, n, k = 12, 64, 32
    func = matmul(m, n, k, "uint8", "int8", "int32")
    s, args = Schedule(func), operands(func, 7)
    fit = found(s.func, VNNI)[0]
    s.transform_layout("C", "B", lambda q, j: (
        j // fit.lanes, q // fit.group, j % fit.lanes, q % fit.group))  # fmt: skip
    i, j, kk = s.get_loops("C")
    i_o, i_i = s.split(i, [None, 6])
    j_o, j_i = s.split(j, [None, 4 * fit.lanes])
    k_o, k_i = s.split(kk, [None, fit.group])
    s.reorder(i_o, j_o, k_o, i_i, j_i, k_i)
    s.decompose_reduction("C", k_o)
    s.tensorize(i_i, fit.tile(6, 4).name)
    assert "x86.avx512.vpdpbusd" in s.func.script()
    a, b, c = args
    interpret(s.func, a, packed(b, fit.lanes, fit.group), c)
    np.testing.assert_array_equal(c, expected(func, args))


@pytest.mark.parametrize("size", ["row", "4x2"])
@pytest.mark.parametrize(
    ("name", "target"), [("x86.avx512.vpdpbusd", VNNI), ("arm.neon.usdot", I8MM)]
)
def test_factors_change_places(name: str, target: str, size: str) -> None:
    """A tile whose first factor is what the instruction takes second."""
    (fit, *_) = [f for f in found(matmul(8, 32, 16, "int8", "uint8", "int32"), target)
                 if f.instruction.name == name]  # fmt: skip
    assert fit.swapped
    tile = fit.tile() if size == "row" else fit.tile(4, 2)
    assert tile.name == f"{name}.{size}_swapped"
    assert [b.type for b in tile.desc.buffers] == ["int8", "uint8", "int32"]
    args = operands(tile.desc, 3)
    described = interpreted(tile.desc, args)
    np.testing.assert_array_equal(interpreted(tile.impl, args)[2], described[2])


def test_instructions_of_another_kind_have_no_tiles() -> None:
    doubled = "def f(a: T.Buffer((4,), 'int32'), r: T.Buffer((4,), 'int32')):\n"
    doubled += "    for i in range(4):\n        r[i] = a[i] * 2\n"
    with pytest.raises(ScheduleError, match="no sum of products"):
        Instruction("x86.doubled", doubled, "x86").tile()


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("x86.avx512.vdpbf16ps", ["bfloat16", "bfloat16", "float32"]),
        ("riscv.rvv.vwmacc_vx_8", ["int16", "int16", "int32"]),
        ("x86.avx512.vpdpbusd", ["uint8", "int8", "int32"]),
        ("arm.neon.sudot_lane", ["uint8", "int8", "int32"]),
    ],
)
def test_tiles_of_registers_have_the_types_of_the_instruction(name: str, types: list[str]) -> None:
    for text in Instruction.get(name).tile(4, 2):
        assert [b.type for b in parse(text).buffers] == types
