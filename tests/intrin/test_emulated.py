"""Instructions of other processors: executed by emulators, through C and through LLVM.

`make setup-edge` installs zig and the emulators; without them these tests are skipped.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from smelt.codegen.c import c_source
from smelt.codegen.llvm import ObjectCompiler, resolve
from smelt.codegen.llvm_text import emit_module
from smelt.pipeline import lower_program as lower
from smelt.target import Target
from smelt.tir.intrin import Instruction, TensorIntrin
from smelt.tir.nodes import PrimFunc

from .byte_products import DSP, HELIUM
from .cases import Array, expected, interpreted, matmul, of, operands, packed, tiled
from .emulate import MACHINES, compiled, need, run

pytestmark = pytest.mark.micro

TILES = {
    "aarch64": of("arm.neon."),
    "riscv64": of("riscv."),
    "cortex-m4": of("arm.dsp."),
    "cortex-m55": of("arm.mve.", "arm.dsp."),
}
MNEMONICS = {
    "arm.neon.fmla": r"fmla\s+v\d+\.4s, v\d+\.4s, v\d+\.(4s|s\[0\])",
    "arm.neon.fmla_lane": r"fmla\s+v\d+\.4s, v\d+\.4s, v\d+\.s\[3\]",
    "arm.neon.sdot": r"sdot\s+v\d+\.4s",
    "arm.neon.udot": r"udot\s+v\d+\.4s",
    "arm.neon.usdot": r"usdot\s+v\d+\.4s",
    "arm.neon.sdot_lane": r"sdot\s+v\d+\.4s, v\d+\.16b, v\d+\.4b\[3\]",
    "arm.neon.udot_lane": r"udot\s+v\d+\.4s, v\d+\.16b, v\d+\.4b\[3\]",
    "arm.neon.sudot_lane": r"sudot\s+v\d+\.4s, v\d+\.16b, v\d+\.4b\[3\]",
    "arm.neon.smmla": r"smmla\s+v\d+\.4s",
    "arm.neon.ummla": r"ummla\s+v\d+\.4s",
    "arm.neon.usmmla": r"usmmla\s+v\d+\.4s",
    "arm.dsp.smlad": r"smlad\s+r\d+",
    "arm.dsp.smlald": r"smlald\s+r\d+",
    "arm.dsp.smlad_s8": r"sxtb16[\s\S]*smlad\s+r\d+",
    "arm.mve.vmladava_s8": r"vmlav?a\.s8",
    "arm.mve.vmladava_u8": r"vmlav?a\.u8",
    "arm.mve.vmladava_s16": r"vmlav?a\.s16",
    "arm.mve.vmlaldava_s16": r"vmlalv?a\.s16",
    "arm.mve.vfma_f32": r"vfma\.f32\s+q\d+, q\d+, r\d+",
    "riscv.rvv.vfmacc_vf_4": r"vf(macc|madd)\.vf",
    "riscv.rvv.vfmacc_vf_8": r"vf(macc|madd)\.vf",
    "riscv.rvv.vwmacc_vx_8": r"vwmacc\.vx",
}


def kernel(name: str) -> PrimFunc:
    """A tile's implementation as a function of its own name."""
    intrin = TensorIntrin.get(name)
    return lower(intrin.impl).with_attrs(name=name.replace(".", "_"))


def written_by_llvm(name: str) -> bool:
    """Whether LLVM has the instructions of a tile."""
    intrin = TensorIntrin.get(name)
    return all(i.llvm is not None for i in intrin.instructions)


def arguments(name: str) -> list[Array]:
    """Operands of a tile: fractions, where one rounding tells a fused operation."""
    intrin = TensorIntrin.get(name)
    return operands(intrin.desc, len(name), exact=False)


@pytest.mark.parametrize("by", ["c", "llvm"])
@pytest.mark.parametrize("machine", TILES)
def test_the_emulator_computes_what_the_interpreter_does(machine: str, by: str) -> None:
    """All tiles of a machine in one program."""
    names = [n for n in TILES[machine] if by == "c" or written_by_llvm(n)]
    kernels = [(kernel(n), arguments(n)) for n in names]
    found = run(MACHINES[machine], kernels, llvm=by == "llvm")
    for name, (func, args), outcome in zip(names, kernels, found, strict=True):
        for a, b in zip(outcome, interpreted(func, [x.reshape(-1) for x in args]), strict=True):
            np.testing.assert_array_equal(a.reshape(-1), b, err_msg=name)


@pytest.mark.parametrize("machine", TILES)
def test_llvm_selects_the_instructions(machine: str) -> None:
    compiler = ObjectCompiler(resolve(Target(MACHINES[machine].llvm)))
    for name in TILES[machine]:
        if written_by_llvm(name):
            assert_selected(name, compiler.assembly(emit_module([kernel(name)])))


def assert_selected(name: str, text: str) -> None:
    """A tile's instructions stand in its assembly text."""
    intrin = TensorIntrin.get(name)
    for i in intrin.instructions:
        assert re.search(MNEMONICS[i.name], text), f"{name}:\n{text}"


@pytest.mark.parametrize("machine", TILES)
def test_c_compilers_select_the_instructions(machine: str, tmp_path: Path) -> None:
    need(MACHINES[machine])
    target = Target(MACHINES[machine].c)
    (tmp_path / "tiles.c").write_text(c_source([kernel(n) for n in TILES[machine]], target))
    text = compiled(MACHINES[machine], tmp_path / "tiles.c", tmp_path, "-S").read_text()
    for name in TILES[machine]:
        symbol = name.replace(".", "_")
        body = re.search(rf"(?s)\n{symbol}:.*?(\.fnend|\.cfi_endproc)", text)
        assert body, name
        assert_selected(name, body[0])


def test_every_instruction_of_another_processor_is_executed() -> None:
    used = set()
    for name in [n for names in TILES.values() for n in names]:
        intrin = TensorIntrin.get(name)
        used |= {i.name for i in intrin.instructions}
    used |= {i.name for i in (*DSP, *HELIUM)}  # by a test of their own
    assert used == {n for n in Instruction.list() if n.split(".")[0] in ("arm", "riscv")}


# ------------------------------------------------------------------------------- whole programs


@pytest.mark.parametrize("by", ["c", "llvm"])
def test_a_matrix_product_by_sdot(by: str) -> None:
    func = matmul(16, 24, 32, "int8", "int8")
    s = tiled(func, "arm.neon.sdot_tile_8x8", 8, 8, 16, lambda k, j: (j // 4, k // 4, j % 4, k % 4))
    args = operands(func, 1)
    given = [args[0], packed(args[1], 4, 4), args[2]]
    found = run(MACHINES["aarch64"], [(lower(s.func), given)], by == "llvm")[0]
    np.testing.assert_array_equal(found[2], expected(func, args))


@pytest.mark.parametrize("by", ["c", "llvm"])
def test_a_matrix_product_by_smmla(by: str) -> None:
    func = matmul(6, 4, 16, "int8", "int8", by_row=True)
    s = tiled(func, "arm.neon.smmla_2x2x8", 2, 2, 8)
    args = operands(func, 2)
    found = run(MACHINES["aarch64"], [(lower(s.func), args)], by == "llvm")[0]
    np.testing.assert_array_equal(found[2], expected(func, args, by_row=True))


@pytest.mark.parametrize(
    ("machine", "intrin", "depth", "kind"),
    [
        ("cortex-m4", "arm.dsp.smlad_2", 2, "int16"),
        ("cortex-m4", "arm.dsp.smlad_s8_4", 4, "int8"),
        ("cortex-m55", "arm.mve.dot_16_s8", 16, "int8"),
    ],
)
@pytest.mark.parametrize("by", ["c", "llvm"])
def test_a_matrix_product_on_a_microcontroller(
    machine: str, intrin: str, depth: int, kind: str, by: str
) -> None:
    func = matmul(3, 5, 32, kind, kind, by_row=True)
    s = tiled(func, intrin, 1, 1, depth)
    args = operands(func, 3)
    found = run(MACHINES[machine], [(lower(s.func), args)], by == "llvm")[0]
    np.testing.assert_array_equal(found[2], expected(func, args, by_row=True))
