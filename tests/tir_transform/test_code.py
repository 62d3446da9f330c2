"""What the passes make can be compiled: native code agrees with the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.ir import dtype as dt
from smelt.tir import transform as t
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from tests.codegen_llvm.build import run_llvm

from .support import program


def native(func: PrimFunc, *given: Any) -> list[Any]:
    """The arrays after a flat program has run as machine code."""
    mine = [a.copy().reshape(-1) if isinstance(a, np.ndarray) else a for a in given]
    assert run_llvm(func, *mine) == 0
    return mine


@pytest.mark.parametrize("p", [t.NarrowDataType(32), t.ForceNarrowIndexToInt32()], ids=str)
@pytest.mark.parametrize("kind", ["range", "T.parallel", "T.unroll"])
def test_loops_of_32_bits(p: Any, kind: str) -> None:
    func = program(
        f"""
        def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
            for i in {kind}(8):
                for j in range(i, 8):
                    if i + j < 9:
                        B[i, 7 - j] = A[j, i] * 2.0 + T.cast("float32", i * j)
        """
    )
    a, b = np.arange(64, dtype="float32").reshape(8, 8), np.zeros((8, 8), "float32")
    expected = b.copy()
    interpret(func, a, expected)
    new = p(t.FlattenBuffer()(func))
    found = native(new, a, b)
    np.testing.assert_array_equal(found[1], expected.reshape(-1))


def test_loops_of_unsigned_variables() -> None:
    func = program(
        """
        def main(A: T.Buffer((8,), "uint32"), B: T.Buffer((1,), "uint32")):
            for i in T.serial(B[0]):
                A[T.cast("int64", i)] = i * T.uint32(3)
        """
    )
    for n in (0, 5):
        given = [np.zeros(8, "uint32"), np.full(1, n, "uint32")]
        expected = [x.copy() for x in given]
        interpret(func, *expected)
        np.testing.assert_array_equal(native(func, *given)[0], expected[0])


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_legalized_floats(dtype: str) -> None:
    func = program(
        f"""
        def main(A: T.Buffer((64,), "{dtype}"), B: T.Buffer((64,), "{dtype}")):
            for i in range(64):
                B[i] = T.max(A[i] * A[63 - i] + A[i], T.cast("{dtype}", i) / T.{dtype}(16.0))
        """
    )
    compute, storage = (
        (t.BF16ComputeLegalize(), t.BF16StorageLegalize())
        if dtype == "bfloat16"
        else (t.FP8ComputeLegalize("float32"), t.FP8StorageLegalize())
    )
    a = np.random.default_rng(0).standard_normal(64).astype(dt.to_numpy(dtype))
    expected = np.zeros_like(a)
    interpret(func, a.copy(), expected)
    bits = f"uint{dt.bits(dtype)}"
    found = native(storage(compute(func)), a.view(bits), np.zeros(64, bits))[1]
    np.testing.assert_array_equal(found, expected.view(bits))


def test_a_pipelined_and_a_hoisted_loop() -> None:
    func = program(
        """
        def main(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32"), n: T.int64):
            for i in T.serial(n, annotations={"software_pipeline_stage": [0, 1]}):
                B = T.allocate((1,), "float32")
                if n > 3:
                    B[0] = A[i] * 2.0
                else:
                    B[0] = A[i]
                D[i] = B[0] + 1.0
        """
    )
    for p in (t.InjectSoftwarePipeline(), t.HoistIfThenElse(), t.CommonSubexprElimTIR()):
        new = p(func)
        for n in (0, 1, 3, 8):
            given = [np.arange(8, dtype="float32"), np.zeros(8, "float32"), n]
            expected = [x.copy() if isinstance(x, np.ndarray) else x for x in given]
            interpret(func, *expected)
            np.testing.assert_array_equal(native(new, *given)[1], expected[1])
