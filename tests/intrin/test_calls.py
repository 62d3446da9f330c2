"""Calls of instructions and LLVM intrinsics in every place that a program has, and where not."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.codegen.c import c_source
from smelt.codegen.llvm import ObjectCompiler, resolve
from smelt.codegen.llvm_text import emit_module
from smelt.ir.errors import CompileError, Unsupported
from smelt.ir.expr import Call, Ramp, StringImm, const
from smelt.pipeline import lower_program as lower
from smelt.target import Target
from smelt.tir.interpret import InterpretError
from smelt.tir.intrin import Instruction, TensorIntrin
from smelt.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc, seq
from smelt.tir.parser import parse
from tests.codegen_c.build import run_c
from tests.codegen_llvm.build import run_llvm

from .cases import Array, interpreted, numbers, operands, runs_here

FMA = 'T.call_instruction("float32x8", "x86.avx2.vfmadd231ps", '
A, B, C = (f"{name}[T.ramp(0, 1, 8)]" for name in "ABC")
HEAD = "@T.prim_func\ndef main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,))):\n"


def need(name: str) -> TensorIntrin:
    """The intrinsic, or a skipped test where this processor lacks it."""
    intrin = TensorIntrin.get(name)
    if not runs_here(intrin):
        pytest.skip(f"this processor has no {' or '.join(intrin.features)}")
    return intrin


def both(func: PrimFunc, *args: Array) -> list[Array]:
    """What LLVM makes of the arguments, which is what the interpreter makes of them."""
    expected = interpreted(func, list(args))
    found = [a.copy() for a in args]
    assert run_llvm(func, *found) == 0
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    return found


def test_expressions_and_bindings() -> None:
    need("x86.avx2.fma_8x")
    nested = f"{C} = x * 2.0 + {FMA}x, x, {FMA}x, x, {A}))\n"
    func = parse(f"{HEAD}    x: T.float32x8 = {FMA}{C}, {A}, {B})\n    {nested}")
    both(func, *operands(func, 0, exact=False))


def test_loops_and_branches() -> None:
    need("x86.avx2.fma_8x")
    body = f"""
    for i in range(5):
        if i % 2 == 0:
            {C} = {FMA}{C}, {A}, T.broadcast(B[i], 8))
"""
    func = parse(HEAD + body)
    both(func, *operands(func, 1, exact=False))


def test_llvm_intrinsics_by_their_own_names() -> None:
    """A registered one has a meaning under its LLVM name too; any pure one can be compiled."""
    intrin = need("x86.avx512.vnni_dot_16x4")
    store = intrin.impl.body
    assert isinstance(store, BufferStore)
    assert isinstance(store.value, Call)
    name = StringImm("llvm.x86.avx512.vpdpbusd.512")
    for op in ("call_llvm_pure_intrin", "call_llvm_intrin"):
        value = Call("int32x16", op, (name, *store.value.args[1:]))
        both(lower(intrin.impl.replace(body=store.replace(value=value))), *operands(intrin.desc, 5))


def llvm_call(name: str, dtype: str = "float32x4") -> PrimFunc:
    """An intrinsic on the four elements of A, stored in their place."""
    a, every = Buffer("A", (const(4),), "float32"), Ramp(const(0), const(1), 4)
    value = Call(dtype, "call_llvm_pure_intrin", (StringImm(name), BufferLoad(a, (every,))))
    return PrimFunc((a,), BufferStore(a, value, (every,)), {"name": "main"})


def test_intrinsics_that_only_llvm_knows() -> None:
    x = np.array([1.5, -2.0, 0.25, 3.0], "float32")
    assert run_llvm(llvm_call("llvm.rint.v4f32"), x) == 0
    np.testing.assert_array_equal(x, np.array([2.0, -2.0, 0.0, 3.0], "float32"))
    text = emit_module([llvm_call("llvm.nonsense.v4f32")])
    compiler = ObjectCompiler(resolve(Target("llvm -mcpu=native")))
    with pytest.raises(CompileError) as e:
        compiler.object(text, "kernel")
    assert str(e.value) == "kernel: LLVM knows no intrinsic llvm.nonsense.v4f32"


def test_intrinsics_of_another_architecture() -> None:
    """Its name tells where an LLVM intrinsic belongs, also where nobody has registered it."""
    text = emit_module([llvm_call("llvm.aarch64.neon.frecpe.v4f32")])
    compiler = ObjectCompiler(resolve(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")))
    with pytest.raises(CompileError) as e:
        compiler.object(text, "kernel")
    assert str(e.value) == (
        "kernel: llvm.aarch64.neon.frecpe.v4f32 is an instruction of aarch64, the target is x86: "
        "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"
    )


def test_effects_happen_each_time_they_stand_somewhere() -> None:
    a = Buffer("A", (const(2),), "int64")
    for op, times in (("call_llvm_intrin", 2), ("call_llvm_pure_intrin", 1)):
        clock = Call("int64", op, (StringImm("llvm.readcyclecounter"),))
        stores = [BufferStore(a, clock, (const(i),)) for i in range(2)]
        text = emit_module([PrimFunc((a,), seq(*stores), {"name": "main"})])
        assert text.count("call i64 @llvm.readcyclecounter()") == times


def test_bits_regrouped_in_lanes_of_another_size() -> None:
    """Classic implementations repeat four bytes in every lane by way of a 32-bit word."""
    func = parse("""
@T.prim_func
def kernel(
    A: T.Buffer((4,), "uint8"), B: T.Buffer((64,), "uint8"), C: T.Buffer((4,), "int32"),
    D: T.Buffer((8,), "int8"), E: T.Buffer((2,), "float32"), F: T.Buffer((1,), "int64")
):
    word: T.int32 = T.call("int32", "reinterpret", A[T.ramp(0, 1, 4)])
    B[T.ramp(0, 1, 64)] = T.call("uint8x64", "reinterpret", T.broadcast(word, 16))
    C[T.ramp(0, 1, 4)] = T.call("int32x4", "reinterpret", B[T.ramp(1, 1, 16)])
    E[T.ramp(0, 1, 2)] = T.call("float32x2", "reinterpret", D[T.ramp(0, 1, 8)])
    F[0] = T.call("int64", "reinterpret", E[T.ramp(0, 1, 2)])
""")
    args = [numbers(b, np.random.default_rng(3)) for b in func.buffers]
    a, b, c, d, e, f = both(func, *args)
    np.testing.assert_array_equal(b, np.tile(a, 16))
    np.testing.assert_array_equal(c, b[1:17].view("int32"))
    np.testing.assert_array_equal(e, d.view("float32"))
    np.testing.assert_array_equal(f, d.view("int64"))
    printed = [x.copy() for x in args]
    assert run_c(func, *printed) == 0
    for x, y in zip(printed, (a, b, c, d, e, f), strict=True):
        np.testing.assert_array_equal(x, y)


# --------------------------------------------------------------------------------------- errors

GUARDED = f"    {C} = T.if_then_else(A[0] > 0.0, {FMA}{C}, {A}, {B}), {C})\n"
CONDITION = """
    if T.call_llvm_pure_intrin("float32", "llvm.fabs.f32", A[0]) > 0.0:
        C[0] = 1.0
"""
MASKED = f"""
    if {A} > T.broadcast(0.0, 8):
        {C} = {FMA}{C}, {A}, {B})
"""


def refused(body: str) -> str:
    """The first line of what the interpreter says of a program."""
    func = parse(HEAD + body)
    with pytest.raises(InterpretError) as e:
        interpreted(func, operands(func, 0))
    message, *marked = str(e.value).splitlines()
    assert any(line.endswith("here") for line in marked)
    with pytest.raises(Unsupported):
        c_source(func)
    return message


def test_an_instruction_is_not_evaluated_under_a_condition() -> None:
    assert refused(GUARDED) == "main: x86.avx2.vfmadd231ps stands inside of if_then_else"
    assert refused(CONDITION) == (
        "main: an instruction stands in a condition or a bound; bind it first"
    )
    assert refused(MASKED) == "main: x86.avx2.vfmadd231ps stands under a condition on lanes"
    with pytest.raises(CompileError) as e:
        emit_module([parse(HEAD + MASKED)])
    assert str(e.value) == "main: x86.avx2.vfmadd231ps stands under a condition on lanes"


def test_an_instruction_that_llvm_cannot_write() -> None:
    assert Instruction.get("arm.mve.vmlaldava_s16").llvm is None
    intrin = TensorIntrin.get("arm.mve.dot_8_s16_wide")
    with pytest.raises(CompileError) as e:
        emit_module([lower(intrin.impl.with_attrs(name="kernel"))])
    assert str(e.value) == (
        "kernel: LLVM has no form of the instruction arm.mve.vmlaldava_s16; print it as C"
    )
