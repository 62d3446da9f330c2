"""Loop nests whose tiles are done by instructions: right results, the instruction in the text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt import te
from smelt.codegen.llvm_text import emit_module
from smelt.ir.errors import ScheduleError, TypeMismatch
from smelt.ir.expr import Broadcast, Ramp, const
from smelt.pipeline import lower_program as lower
from smelt.tir.equal import structural_equal
from smelt.tir.intrin import Instruction, TensorIntrin
from smelt.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc, seq
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule, Trace
from smelt.tir.verify import verify
from tests.codegen_llvm.build import run_llvm

from .cases import Array, expected, interpreted, matmul, operands, packed, runs_here, tiled

VNNI = "@llvm.x86.avx512.vpdpbusd.512("


def need(name: str) -> None:
    """Skip where this processor lacks the instruction."""
    intrin = TensorIntrin.get(name)
    if not runs_here(intrin):
        pytest.skip(f"this processor has no {' or '.join(intrin.features)}")


def by_four(k: Any, j: Any) -> tuple[Any, ...]:
    """Sixteen columns of four neighbours in k: what VPDPBUSD reads."""
    return j // 16, k // 4, j % 16, k % 4


def executed(s: Schedule, args: list[Array]) -> Array:
    """The last argument after the scheduled program has run here."""
    found = [np.ascontiguousarray(a.copy()) for a in args]
    assert run_llvm(lower(verify(s.func)), *found) == 0
    return found[-1]


@pytest.mark.parametrize(
    ("m", "n", "k", "rows", "columns"),
    [
        (64, 64, 64, 1, 16),
        (48, 96, 64, 8, 48),
        (12, 64, 20, 6, 64),
        (64, 64, 64, 6, 64),  # rows are left over
        (37, 50, 30, 12, 32),  # of everything some is left over
    ],
)
def test_a_product_of_bytes_by_vnni(m: int, n: int, k: int, rows: int, columns: int) -> None:
    name = f"x86.avx512.vnni_tile_{rows}x{columns}" if rows > 1 else "x86.avx512.vnni_dot_16x4"
    need(name)
    func = matmul(m, n, k)
    ragged = bool(m % rows or n % columns or k % 4)
    if rows > 1:
        s = tiled(func, name, rows, columns, 4, by_four, ragged)
    else:
        s = rowwise(func, name, columns, 4, by_four)
    args = operands(func, m)
    given = list(args)
    if not (n % columns or k % 4):
        given[1] = packed(args[1], 16, 4)
    np.testing.assert_array_equal(executed(s, given), expected(func, args))
    text = emit_module([lower(s.func)])
    assert text.count(f"call <16 x i32> {VNNI}") == rows * columns // 16
    assert "load <64 x i8>" in text


@settings(max_examples=12)
@given(st.integers(1, 10), st.integers(1, 70), st.integers(1, 9), st.integers(0, 3))
def test_products_of_any_size(m: int, n: int, k: int, seed: int) -> None:
    """What is left over of a tile is padded; without the processor the interpreter decides."""
    name = "x86.avx512.vnni_tile_4x64"
    func = matmul(m, n, k)
    ragged = bool(m % 4 or n % 64 or k % 4)
    s = tiled(func, name, 4, 64, 4, by_four, ragged)
    args = operands(func, seed)
    given_b = args[1] if n % 64 or k % 4 else packed(args[1], 16, 4)
    given_args = [args[0], given_b, args[2]]
    run = executed if runs_here(TensorIntrin.get(name)) else interpreted_result
    np.testing.assert_array_equal(run(s, given_args), expected(func, args))


def interpreted_result(s: Schedule, args: list[Array]) -> Array:
    """The last argument after the scheduled program has been interpreted."""
    return interpreted(s.func, args)[-1]


def rowwise(
    func: PrimFunc, name: str, columns: int, depth: int, pack: Any = None, cache: bool = True
) -> Schedule:
    """A matrix product by an instruction on some columns of one row."""
    s = Schedule(func)
    if pack is not None:
        s.transform_layout("C", "B", pack)
    result = s.cache_write("C", 0, "local") if cache else None
    _, j, k = s.get_loops("C")
    j_o, j_i = s.split(j, [None, columns])
    if depth > 1:
        k, k_i = s.split(k, [None, depth])
        s.reorder(j_o, k, j_i, k_i)
    else:
        s.reorder(j_o, k, j_i)
    if result is not None:
        s.reverse_compute_at(result, j_o)
        s.vectorize(s.get_loops(result)[-1])
    start = s.decompose_reduction("C", k)
    s.vectorize(s.get_loops(start)[-1])
    s.tensorize(j_i, name)
    return s


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        ("x86.avx512.fma_tile_8x48", 8, 48),
        ("x86.avx2.fma_tile_6x16", 6, 16),
        ("x86.avx2.fma_8x", 1, 8),
        ("x86.avx512.fma_16x", 1, 16),
    ],
)
def test_a_product_of_floats_by_fused_multiply_adds(name: str, rows: int, columns: int) -> None:
    need(name)
    func = matmul(24, 96, 10, "float32", "float32", "float32")
    one = rows == 1
    s = rowwise(func, name, columns, 1) if one else tiled(func, name, rows, columns, 1)
    args = operands(func, 7)
    np.testing.assert_array_equal(executed(s, args), expected(func, args))
    lanes = 16 if "avx512" in name else 8
    text = emit_module([lower(s.func)])
    assert text.count(f"call <{lanes} x float> @llvm.fma.v{lanes}f32") == rows * columns // lanes


def test_a_product_of_bfloat16() -> None:
    need("x86.avx512.bf16_dot_16x2")
    func = matmul(5, 32, 12, "bfloat16", "bfloat16", "float32")
    s = rowwise(
        func, "x86.avx512.bf16_dot_16x2", 16, 2, lambda k, j: (j // 16, k // 2, j % 16, k % 2)
    )
    args = operands(func, 9)
    given = [args[0], packed(args[1], 16, 2), args[2]]
    np.testing.assert_array_equal(executed(s, given), expected(func, args))


def test_a_tile_that_is_not_packed_is_gathered() -> None:
    """An instruction may be used on any layout: lanes that are no neighbours are picked up."""
    need("x86.avx512.vnni_dot_16x4")
    func = matmul(3, 32, 8, by_row=True)
    s = rowwise(func, "x86.avx512.vnni_dot_16x4", 16, 4)
    args = operands(func, 4)
    np.testing.assert_array_equal(executed(s, args), expected(func, args, by_row=True))
    assert "load <64 x i8>" not in emit_module([lower(s.func)])


def test_a_convolution_of_bytes_by_vnni() -> None:
    need("x86.avx512.vnni_dot_16x4")
    x = te.placeholder((1, 6, 7, 8), "uint8", name="X")
    w = te.placeholder((3, 3, 8, 32), "int8", name="W")
    kh, kw, c = (te.reduce_axis((0, e), n) for e, n in ((3, "kh"), (3, "kw"), (8, "c")))
    y = te.compute(
        (1, 4, 5, 32),
        lambda n, i, j, o: te.sum(
            x[n, i + kh, j + kw, c].astype("int32") * w[kh, kw, c, o].astype("int32"),
            axis=[kh, kw, c],
        ),
        name="Y",
    )
    func = te.create_prim_func([x, w, y], "conv")
    s = Schedule(func)
    s.transform_layout("Y", "W", lambda h, v, k, o: (o // 16, h, v, k // 4, o % 16, k % 4))
    result = s.cache_write("Y", 0, "local")
    *_, o, h, v, k = s.get_loops("Y")
    o_o, o_i = s.split(o, [None, 16])
    k_o, k_i = s.split(k, [None, 4])
    s.reorder(o_o, h, v, k_o, o_i, k_i)
    s.reverse_compute_at(result, o_o)
    start = s.decompose_reduction("Y", h)
    s.tensorize(o_i, "x86.avx512.vnni_dot_16x4")
    for block in (start, result):
        s.vectorize(s.get_loops(block)[-1])
    args = operands(func, 11)
    weights = args[1].reshape(3, 3, 2, 4, 2, 16).transpose(4, 0, 1, 2, 5, 3)
    found = executed(s, [args[0], weights, args[2]])
    np.testing.assert_array_equal(found, interpreted(func, args)[2])
    assert VNNI in emit_module([lower(s.func)])


@pytest.mark.parametrize("kind", ["parallel", "unroll", "vectorize"])
def test_loops_around_an_instruction_can_be_scheduled(kind: str) -> None:
    need("x86.avx512.vnni_tile_6x64")
    func = matmul(12, 128, 16)
    s = tiled(func, "x86.avx512.vnni_tile_6x64", 6, 64, 4, by_four)
    getattr(s, kind)(s.get_loops("C_o")[0])
    args = operands(func, 2)
    found = executed(s, [args[0], packed(args[1], 16, 4), args[2]])
    np.testing.assert_array_equal(found, expected(func, args))


def test_a_tensorized_program_is_text_and_its_trace_is_repeated() -> None:
    func = matmul(12, 64, 20)
    s = tiled(func, "x86.avx512.vnni_tile_6x64", 6, 64, 4, by_four)
    verify(s.func)
    assert structural_equal(parse(script(s.func)), s.func)
    again = Schedule(func)
    Trace.from_text(str(s.trace)).apply(again)
    assert script(again.func) == script(s.func)
    args = operands(func, 0)
    given = [args[0], packed(args[1], 16, 4), args[2]]
    np.testing.assert_array_equal(interpreted(s.func, given)[2], expected(func, args))


def test_regions_of_a_tensorized_block_are_those_of_the_tile() -> None:
    s = tiled(matmul(12, 64, 20), "x86.avx512.vnni_tile_6x64", 6, 64, 4, by_four)
    text = script(s.func)
    assert "T.writes(C_local[v_i_o * 6:v_i_o * 6 + 6, 0:64])" in text
    flat = script(lower(s.func))
    assert 'C_local = T.allocate((384,), "int32", scope="local")' in flat


# --------------------------------------------------------------------------------------- errors


def columns(func: PrimFunc, width: int = 16, depth: int = 4) -> tuple[Schedule, str]:
    """A product whose loops over some columns and terms stand innermost."""
    s = Schedule(func)
    _, j, k = s.get_loops("C")
    j_o, j_i = s.split(j, [None, width])
    k_o, k_i = s.split(k, [None, depth])
    s.reorder(j_o, k_o, j_i, k_i)
    s.decompose_reduction("C", k_o)
    return s, j_i


def test_there_is_no_such_intrinsic() -> None:
    s, j = columns(matmul(4, 32, 8))
    with pytest.raises(ScheduleError) as e:
        s.tensorize(j, "x86.avx512.vnni_16x4")
    assert str(e.value).splitlines() == [
        "tensorize(block_or_loop='j_1', tensor_intrin='x86.avx512.vnni_16x4'): "
        "there is no intrinsic 'x86.avx512.vnni_16x4'",
        "  legal: x86.avx512.vnni_dot_16x4, x86.avx512.vnni_tile_6x64, x86.avx512vl.vnni_dot_8x4",
    ]


@pytest.mark.parametrize(
    "tile",
    [
        lambda: columns(matmul(4, 32, 8, a="int8")),  # bytes of another sign
        lambda: columns(matmul(4, 32, 8), width=8),  # too few columns
        lambda: columns(matmul(4, 32, 8), depth=8),  # too many terms
        lambda: columns(matmul(4, 32, 8, c="int64")),  # sums of another type
    ],
)
def test_a_tile_of_another_type_or_shape_is_refused(tile: Any) -> None:
    s, j = tile()
    with pytest.raises(ScheduleError, match=r"x86\.avx512\.vnni_dot_16x4") as e:
        s.tensorize(j, "x86.avx512.vnni_dot_16x4")
    assert "  legal: " in str(e.value)
    assert "call_instruction" not in script(s.func)


# ------------------------------------------------------------------------------------------- te


def gemv(reduces: bool = True) -> tuple[te.Tensor, Any]:
    """Four terms of sixteen columns, and how a fused multiply-add does them."""
    a = te.placeholder((4,), name="a")
    b = te.placeholder((4, 16), name="b")
    k = te.reduce_axis((0, 4), "k")
    c = te.compute((16,), lambda j: te.sum(a[k] * b[k, j], axis=k), name="c")
    every = Ramp(const(0), const(1), 16)
    fma = Instruction.get("x86.avx512.vfmadd231ps")

    def implementation(ins: list[Buffer], outs: list[Buffer]) -> Any:
        x, y = ins
        (z,) = outs
        steps = [
            BufferStore(
                z,
                fma(BufferLoad(z, (every,)), Broadcast(x[i], 16), BufferLoad(y, (const(i), every))),
                (every,),
            )
            for i in range(4)
        ]
        return (None, None, seq(*steps)) if reduces else seq(*steps)

    return c, implementation


def test_an_instruction_told_as_a_tensor_expression() -> None:
    need("x86.avx512.fma_16x")
    c, implementation = gemv()
    made = te.decl_tensor_intrin(c.op, implementation, name="gemv")
    args = operands(made.desc, 0)
    for x, y in zip(interpreted(made.desc, args), interpreted(made.impl, args), strict=True):
        np.testing.assert_array_equal(x, y)
    func = matmul(5, 32, 8, "float32", "float32", "float32")
    s, j = columns(func)
    s.tensorize(j, made)
    given = operands(func, 1)
    np.testing.assert_array_equal(executed(s, given), expected(func, given))
    again = Schedule(func)
    Trace.from_text(str(s.trace)).apply(again)
    assert script(again.func) == script(s.func)


def test_what_an_instruction_cannot_be_declared_of() -> None:
    c, _ = gemv()
    _, whole = gemv(reduces=False)
    with pytest.raises(TypeMismatch) as e:
        te.decl_tensor_intrin(c, whole, name="gemv")
    assert str(e.value) == (
        "gemv: fcompute gave 1 parts; legal: (all of it, the start, the update) for a reduction"
    )
    with pytest.raises(TypeMismatch) as e:
        te.decl_tensor_intrin(c, lambda ins, outs: (None, None, 3), name="gemv")
    assert str(e.value) == (
        "gemv: fcompute gave NoneType, NoneType, int; legal: statements or programs"
    )
    with pytest.raises(TypeMismatch) as e:
        te.decl_tensor_intrin(te.placeholder((4,), name="a"), whole, name="gemv")
    assert str(e.value) == "gemv: an instruction is described by a te.compute"
    d = te.compute((16,), lambda i: c[i] + 1.0, name="d")
    with pytest.raises(TypeMismatch) as e:
        te.decl_tensor_intrin(d, whole, name="gemv")
    assert str(e.value) == "gemv: the operand c is computed; legal: placeholders as operands"
