"""Instructions of this machine's processor: executed, through LLVM and through C."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.codegen.c import c_source
from smelt.codegen.llvm import ObjectCompiler, resolve
from smelt.codegen.llvm_text import emit_module
from smelt.ir.errors import CompileError
from smelt.pipeline import lower_program as lower
from smelt.target import Target
from smelt.tir.intrin import TensorIntrin
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from tests.codegen_llvm.build import run_llvm

from .cases import HOST, interpreted, of, operands, runs_here

X86 = of("x86.")
HERE = [n for n in X86 if runs_here(TensorIntrin.get(n))]
MNEMONICS = {
    "x86.avx2.vfmadd231ps": r"vfmadd\d+ps\s.*ymm",
    "x86.avx2.vfmadd231pd": r"vfmadd\d+pd\s.*ymm",
    "x86.avx512.vfmadd231ps": r"vfmadd\d+ps\s.*zmm",
    "x86.avx512.vfmadd231pd": r"vfmadd\d+pd\s.*zmm",
    "x86.avx512.vpdpbusd": r"vpdpbusd\s.*zmm",
    "x86.avx512.vpdpwssd": r"vpdpwssd\s.*zmm",
    "x86.avx512.vdpbf16ps": r"vdpbf16ps\s.*zmm",
    "x86.avx512vl.vpdpbusd": r"(?m)^\tvpdpbusd\s.*ymm",
    "x86.avxvnni.vpdpbusd": r"\{vex\}\s+vpdpbusd\s.*ymm",
    "x86.ssse3.pmaddubsw": r"vpmaddubsw\s.*xmm",
    "x86.avx2.vpmaddubsw": r"vpmaddubsw\s.*ymm",
    "x86.avx512.vpmaddubsw": r"vpmaddubsw\s.*zmm",
    "x86.sse.pmaddwd": r"vp(maddwd|dpwssd)\s.*xmm",
    "x86.avx2.vpmaddwd": r"vp(maddwd|dpwssd)\s.*ymm",
    "x86.avx512.vpmaddwd": r"vp(maddwd|dpwssd)\s.*zmm",
    "x86.avxvnniint8.vpdpbssd": r"vpdpbssd\s.*ymm",
    "x86.avxvnniint8.vpdpbuud": r"vpdpbuud\s.*ymm",
}


def need(name: str) -> TensorIntrin:
    """The intrinsic, or a skipped test where this processor lacks it."""
    intrin = TensorIntrin.get(name)
    missing = [f for f in intrin.features if f not in HOST]
    if missing or not runs_here(intrin):
        pytest.skip(f"this processor has no {' or '.join(missing)}")
    return intrin


def fractions(intrin: TensorIntrin) -> bool:
    """Whether every intermediate result is rounded as the meaning says; VDPBF16PS has its own."""
    return all(i.name != "x86.avx512.vdpbf16ps" for i in intrin.instructions)


@pytest.mark.parametrize("name", X86)
def test_llvm_computes_what_the_interpreter_does(name: str) -> None:
    intrin = need(name)
    flat = lower(intrin.impl)
    for seed in range(2):
        args = operands(intrin.desc, seed, exact=not fractions(intrin))
        found = [a.copy() for a in args]
        assert run_llvm(flat, *found) == 0
        for a, b in zip(found, interpreted(intrin.impl, args), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", X86)
def test_llvm_selects_the_instruction(name: str) -> None:
    intrin = TensorIntrin.get(name)
    own = {"avxvnni": "alderlake", "avxvnniint8": "sierraforest"}
    cpu = next((own[f] for f in intrin.features if f in own), "cooperlake")
    target = resolve(Target(f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu}"))
    text = ObjectCompiler(target).assembly(emit_module([lower(intrin.impl)]))
    for i in intrin.instructions:
        assert re.search(MNEMONICS[i.name], text), text


def test_pairs_of_bytes_end_at_the_limits_of_16_bits() -> None:
    if "avx2" not in HOST:
        pytest.skip("this processor has no avx2")
    every = "T.ramp(0, 1, {})"
    c, a, b, r = [f"{n}[{every.format(size)}]"
                  for n, size in (("c", 16), ("a", 32), ("b", 32), ("r", 16))]  # fmt: skip
    func = parse(
        "@T.prim_func\n"
        'def f(c: T.Buffer((16,), "int16"), a: T.Buffer((32,), "uint8"), '
        'b: T.Buffer((32,), "int8"), r: T.Buffer((16,), "int16")):\n'
        f'    {r} = T.call_instruction("int16x16", "x86.avx2.vpmaddubsw", {c}, {a}, {b})\n'
    )
    rng = np.random.default_rng(0)
    given = [rng.integers(-999, 999, 16).astype("int16"), rng.integers(0, 256, 32).astype("uint8"),
             rng.integers(-128, 128, 32).astype("int8"), np.zeros(16, "int16")]  # fmt: skip
    given[1][:8], given[2][:4], given[2][4:8] = 255, 127, -128
    pairs = (given[1].astype(int) * given[2]).reshape(16, 2).sum(1)
    wanted = given[0] + np.clip(pairs, -32768, 32767).astype("int16")
    assert (np.abs(pairs) > 32768).any()
    np.testing.assert_array_equal(interpreted(func, given)[3], wanted)
    assert run_llvm(lower(func), *given) == 0
    np.testing.assert_array_equal(given[3], wanted)


# -------------------------------------------------------------------------------------------- C


@pytest.fixture(scope="module", params=["portable", "instructions"])
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Any]:
    """All tiles that run here as functions of one library, printed with or without instructions."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing")
    portable = request.param == "portable"
    names = X86 if portable else HERE
    funcs = [lower(_named(n)) for n in names]
    target = None if portable else resolve(Target("llvm -mcpu=native"))
    folder: Path = tmp_path_factory.mktemp("c")
    (folder / "tiles.c").write_text(c_source(funcs, target))
    flags = ["-std=c99", "-Wall", "-Werror", "-O1", "-ffp-contract=off", "-shared", "-fPIC"]
    flags += [] if portable else ["-march=native"]
    command = ["gcc", *flags, str(folder / "tiles.c"), "-o", str(folder / "tiles.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = ctypes.CDLL(str(folder / "tiles.so"))

    def function(name: str) -> Any:
        if name not in names:
            need(name)
        return getattr(made, _symbol(name))

    return function


def _symbol(name: str) -> str:
    return name.replace(".", "_")


def _named(name: str) -> PrimFunc:
    intrin = TensorIntrin.get(name)
    return intrin.impl.with_attrs(name=_symbol(name))


@pytest.mark.parametrize("name", X86)
def test_printed_c_computes_what_the_description_does(
    library: Callable[[str], Any], name: str
) -> None:
    call = library(name)
    intrin = TensorIntrin.get(name)
    args = operands(intrin.desc, 3)
    found = [a.copy() for a in args]
    assert call(*[a.ctypes.data_as(ctypes.c_void_p) for a in found]) == 0
    for a, b in zip(found, interpreted(intrin.desc, args), strict=True):
        np.testing.assert_array_equal(a, b)


def test_c_text_of_an_instruction() -> None:
    intrin = TensorIntrin.get("x86.avx512.vnni_dot_16x4")
    target = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4")
    assert c_source(lower(intrin.impl), target) == C_TEXT


C_TEXT = """\
#include <stdint.h>
#include <immintrin.h>

static inline void smelt_x86_avx512_vpdpbusd(const int32_t *c, const uint8_t *a, const int8_t *b, \
int32_t *r) {
    _mm512_storeu_si512((void *)r, _mm512_dpbusd_epi32(_mm512_loadu_si512((const void *)c), \
_mm512_loadu_si512((const void *)a), _mm512_loadu_si512((const void *)b)));
}

int32_t tile(const uint8_t *restrict A, const int8_t *restrict B, int32_t *restrict C) {
    {
        uint8_t a[64];
        for (int64_t lane = 0; lane < 64; ++lane) {
            a[lane] = A[lane % 4];
        }
        smelt_x86_avx512_vpdpbusd(&C[0], &a[0], &B[0], &C[0]);
    }
    return 0;
}
"""


# --------------------------------------------------------------------------------------- errors


def compile_for(name: str, target: str) -> None:
    """An object of a tile for a target."""
    intrin = TensorIntrin.get(name)
    text = emit_module([lower(intrin.impl.with_attrs(name="kernel"))])
    ObjectCompiler(resolve(Target(target))).object(text, "kernel")


def test_a_target_without_the_feature_is_refused() -> None:
    with pytest.raises(CompileError) as e:
        compile_for(
            "x86.avx512.vnni_dot_16x4", "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"
        )
    assert str(e.value) == (
        "kernel: x86.avx512.vpdpbusd needs avx512vnni, which the target lacks: "
        "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell\n"
        "  legal: a target that has it (-mattr=+avx512vnni), or a schedule without this instruction"
    )
    compile_for("x86.avx512.vnni_dot_16x4", "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver5")
    compile_for(
        "x86.avx512.vnni_dot_16x4",
        "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -mattr=+avx512vnni",
    )


def test_another_architecture_is_refused() -> None:
    with pytest.raises(CompileError) as e:
        compile_for("arm.neon.sdot_4x4", "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3")
    assert str(e.value) == (
        "kernel: arm.neon.sdot is an instruction of aarch64, the target is x86: "
        "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3"
    )


def test_c_for_a_target_is_refused_alike() -> None:
    intrin = TensorIntrin.get("arm.neon.sdot_4x4")
    func = lower(intrin.impl.with_attrs(name="kernel"))
    with pytest.raises(CompileError) as e:
        c_source(func, Target("c -march=armv8-a"))
    assert str(e.value) == (
        "kernel: arm.neon.sdot needs dotprod, which the target lacks: c -march=armv8-a\n"
        "  legal: a target that has it (-mattr=+dotprod), or a schedule without this instruction"
    )
    assert "vdotq_s32" in c_source(func, Target("c -march=armv8.4-a"))
    assert "vdotq_s32" not in c_source(func)
