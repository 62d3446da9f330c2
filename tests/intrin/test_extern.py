"""C functions that programs call: one meaning for interpreter, LLVM and C, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import te
from smelt.codegen.c import c_source
from smelt.ir.errors import CompileError, ScheduleError, VerifyError
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.pipeline import lower_program
from smelt.relax.nodes import Function, Var, call
from smelt.tir import ExternFunction, Schedule, address_of, call_extern, const, structural_equal
from smelt.tir.extern import EXTERNS
from smelt.tir.interpret import InterpretError, interpret
from smelt.tir.intrin import TensorIntrin
from smelt.tir.nodes import BlockRealize, Evaluate, PrimFunc, walk
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.verify import verify
from smelt.topi import registry
from tests.codegen_c.build import run_c

MEANING = parse("""
@T.prim_func
def gemv(c: T.Buffer((8,)), a: T.Buffer((12,)), b: T.handle, step: T.int64, by: T.float32):
    rows = T.match_buffer(b, (8, 12), strides=(step, 1))
    for i in range(8):
        for k in range(12):
            c[i] = c[i] + a[k] * rows[i, k] * by
""")

SOURCE = """
int32_t gemv(float *c, float *a, float *b, int64_t step, float by) {
    for (int i = 0; i < 8; ++i)
        for (int k = 0; k < 12; ++k) c[i] += a[k] * b[i * step + k] * by;
    return 0;
}"""

CALL = ('T.call_extern("int32", "gemv", T.address_of(C[vi, vj * 8]), T.address_of(A[vi, 0]), '
        "T.address_of(B[vj * 8, 0]), T.int64(12), T.float32(2))")  # fmt: skip

PROGRAM = f"""
@T.prim_func
def scaled(A: T.Buffer((6, 12)), B: T.Buffer((16, 12)), C: T.Buffer((6, 16))):
    for i, j in T.grid(6, 2):
        with T.block("c"):
            vi, vj = T.axis.remap("SS", [i, j])
            for k in range(8):
                C[vi, vj * 8 + k] = 0.0
            {CALL}
"""


@pytest.fixture(autouse=True)
def gemv() -> Iterator[None]:
    """The function, and no other, is known while a test runs."""
    before = dict(EXTERNS)
    ExternFunction.register("gemv", MEANING, c=SOURCE)
    yield
    EXTERNS.clear()
    EXTERNS.update(before)


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = (6, 12), (16, 12), (6, 16)
    return [rng.integers(-4, 4, s).astype("float32") for s in shapes]


def check(func: PrimFunc) -> None:
    """Interpreter, LLVM and C compute 2 A B^T."""
    a, b, c = arrays()
    wanted = 2 * a @ b.T
    interpret(func, a, b, c)
    np.testing.assert_array_equal(c, wanted)
    for run in (smelt.build(func)[func.name], lambda *x: run_c(lower_program(func), *x)):
        c.fill(-1)
        run(a, b, c)
        np.testing.assert_array_equal(c, wanted)


def test_all_agree() -> None:
    func = parse(PROGRAM)
    check(func)
    assert structural_equal(parse(script(func)), func)
    assert "int32_t gemv(float *c, float *a, float *rows, int64_t step, float by);" in c_source(
        lower_program(func)
    )


def test_regions_follow_from_the_meaning() -> None:
    (block,) = [s.block for s in walk(parse(PROGRAM).body) if isinstance(s, BlockRealize)][-1:]
    text = script(parse(PROGRAM))
    assert "T.reads(C[vi, vj * 8:vj * 8 + 8], A[vi, 0:12], B[vj * 8:vj * 8 + 8, 0:12])" in text
    assert "T.writes(C[vi, vj * 8:vj * 8 + 8])" in text
    assert len(block.writes) == 1


def test_schedules() -> None:
    s = Schedule(parse(PROGRAM))
    i, j = s.get_loops("c")
    s.reorder(j, i)
    s.parallel(j)
    s.compute_at(s.cache_read("c", "B", "global"), j)
    s.unroll(s.split(i, [None, 3])[1])
    check(s.func)


def test_flat_memory_and_local_buffers() -> None:
    check(
        parse(
            PROGRAM.replace("C[vi, vj * 8 + k] = 0.0", "D[k] = 0.0")
            .replace("T.address_of(C[vi, vj * 8])", "T.address_of(D[0])")
            .replace(
                'remap("SS", [i, j])',
                'remap("SS", [i, j])\n            D = T.alloc_buffer((8,), scope="local")',
            )
            + "            for k in range(8):\n                C[vi, vj * 8 + k] = D[k]\n"
        )
    )


def test_expressions_in_operands() -> None:
    check(
        parse(
            PROGRAM.replace("T.int64(12)", "T.int64(11) + vj - vj + T.int64(1)")
            .replace("T.float32(2)", "A[0, 0] * 0.0 + B[0, 0] * 0.0 + 2.0")
            .replace("B[vj * 8, 0]", "B[vj * 8, vi - vi]")
        )
    )


def test_models(tmp_path: Path) -> None:
    """Workers, which have not registered it, and exported files."""
    text = PROGRAM.replace("def scaled(", "def product(")
    mod = smelt.script.from_source(
        "@I.ir_module\nclass M:\n"
        + "".join([f"    {line}\n" for line in text.splitlines()])
        + """
    @R.function
    def main(a: R.Tensor((6, 12), "float32"), b: R.Tensor((16, 12), "float32")):
        c = R.call_tir(M.product, (a, b), out_sinfo=R.Tensor((6, 16), "float32"))
        return R.nn.relu(c)
"""
    )
    assert isinstance(mod, IRModule)
    a, b, _ = arrays()
    wanted = np.maximum(2 * a @ b.T, 0)
    exe = smelt.compile(mod)
    np.testing.assert_array_equal(np.asarray(exe(a, b)), wanted)
    exe.export_library(tmp_path / "m.so")
    np.testing.assert_array_equal(np.asarray(smelt.load(tmp_path / "m.so")(a, b)), wanted)
    again = SOURCE.replace("* by", "* by * 2")
    ExternFunction.register("gemv", MEANING, c=again, override=True)
    np.testing.assert_array_equal(np.asarray(smelt.compile(mod)(a, b)), wanted * 2)


def test_built_in_python() -> None:
    func = parse(PROGRAM)
    (call,) = [s for s in walk(func.body) if isinstance(s, Evaluate)]
    given = ExternFunction.get("gemv").given(call.value.args[1:])  # type: ignore[attr-defined]
    places = [address_of(g.place) for g in given]
    assert call_extern("int32", "gemv", *places, const(12, "int64"), const(2.0, "float32")) is (
        call.value
    )


def gemv_intrin() -> TensorIntrin:
    """Eight rows times a vector, by the function."""
    head = """
@T.prim_func
def NAME(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (12,), "float32", offset_factor=1)
    B = T.match_buffer(b, (8, 12), "float32", offset_factor=1)
    C = T.match_buffer(c, (8,), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:8], A[0:12], B[0:8, 0:12])
        T.writes(C[0:8])
"""
    loops = """
        for i, k in T.grid(8, 12):
            with T.block("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + A[vk] * B[vi, vk]
"""
    call = """
        T.evaluate(T.call_extern("int32", "gemv", C.access_ptr("rw"), A.access_ptr("r"),
                                 B.access_ptr("r"), T.int64(12), T.float32(1)))
"""
    pair = [parse(head.replace("NAME", n) + body) for n, body in (("desc", loops), ("impl", call))]
    return TensorIntrin.of_pair(*pair)


def by_gemv(s: Schedule, block: str) -> None:
    outer, inner = s.split(s.get_loops(block)[1], [None, 8])
    s.decompose_reduction(block, outer)
    s.tensorize(inner, gemv_intrin())


def test_tensorize() -> None:
    x, y = te.placeholder((6, 12), name="A"), te.placeholder((16, 12), name="B")
    k = te.reduce_axis((0, 12), name="k")
    z = te.compute((6, 16), lambda i, j: te.sum(x[i, k] * y[j, k], axis=k), name="C")
    s = Schedule(te.create_prim_func([x, y, z], "plain"))
    by_gemv(s, "C")
    a, b, c = arrays()
    smelt.build(s)(a, b, c)
    np.testing.assert_array_equal(c, a @ b.T)


def test_rules_of_operators() -> None:
    """A function that only the operator's own rule brings in reaches the model."""

    @smelt.op
    def by_rows(x: te.Tensor, y: te.Tensor) -> Any:
        """x times y, transposed."""
        k = te.reduce_axis((0, x.shape[1]), name="k")
        return te.compute(
            (x.shape[0], y.shape[0]), lambda i, j: te.sum(x[i, k] * y[j, k], axis=k), name="rows"
        )

    by_rows.schedule(lambda sch, machine: by_gemv(sch, "rows"))
    a, b, _ = arrays()
    x, y = (Var(n, tensor_type(v.shape, "float32")) for n, v in (("x", a), ("y", b)))
    try:
        exe = smelt.compile(IRModule({"main": Function((x, y), call("by_rows", x, y))}))
    finally:
        del registry._OPS["by_rows"]
    np.testing.assert_array_equal(np.asarray(exe(a, b)), a @ b.T)


def test_addresses_that_data_give() -> None:
    text = PROGRAM.replace(
        "A: T.Buffer((6, 12))", 'rows: T.Buffer((6,), "int32"), A: T.Buffer((6, 12))'
    )
    func = parse(text.replace("A[vi, 0]", "A[rows[vi], 0]"))
    rows = np.array([3, 0, 5, 5, 1, 2], "int32")
    a, b, c = arrays()
    for run in (lambda *x: interpret(func, *x), smelt.build(func)["scaled"],
                lambda *x: run_c(lower_program(func), *x)):  # fmt: skip
        c.fill(-1)
        run(rows, a, b, c)
        np.testing.assert_array_equal(c, 2 * a[rows] @ b.T)


def test_status_ends_the_program() -> None:
    ExternFunction.register(
        "gemv", MEANING, c=SOURCE.replace("return 0", "return 3"), override=True
    )
    with pytest.raises(smelt.SmeltError):
        smelt.build(parse(PROGRAM))["scaled"](*arrays())


def refused(change: tuple[str, str], message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify(parse(PROGRAM.replace(*change)))


def test_operands_are_checked() -> None:
    refused(('"gemv"', '"gemw"'), "there is no external function 'gemw'; nearest: gemv")
    refused((", T.float32(2)", ""), "gemv takes 5 operands, 4 given")
    refused(("T.int64(12)", "12.0"), "step is of type float32, expected int64")
    refused(("T.address_of(A[vi, 0])", "A[vi, 0]"), r"a is no address\n  legal: T.address_of")
    refused(("T.int64(12)", "T.int64(16)"), "rows has the stride 16; it is given an element of B")
    refused((CALL, 'C[0, 0] = T.cast("float32", ' + CALL + ")"), "it is a statement")
    refused(("for k in range(8):\n                C", "for k in T.vectorized(1):\n                "
             f"{CALL}\n                C"), "no vector form")  # fmt: skip


def test_primitives_refuse() -> None:
    s = Schedule(parse(PROGRAM))
    with pytest.raises(ScheduleError, match="external functions have no vector form"):
        s.vectorize(s.get_loops("c")[0])
    s.cache_read("c", "B", "global")
    before = s.func
    with pytest.raises(ScheduleError, match="is given the address of B_global"):
        s.compute_inline("B_global")
    with pytest.raises(VerifyError, match="legal: 16 or 1, the strides of B_global"):
        s.transform_layout("c", ("read", 2), lambda i, j: (j, i))
    assert s.func is before


def test_declarations_are_checked() -> None:
    with pytest.raises(VerifyError, match="registered already; override=True replaces it"):
        ExternFunction.register("gemv", MEANING, c=SOURCE)
    with pytest.raises(VerifyError, match="'a b' is no name of a C function"):
        ExternFunction.register("a b", MEANING, c=SOURCE)
    half = parse('@T.prim_func\ndef f(a: T.Buffer((4,), "float16")):\n    a[0] = T.float16(0)\n')
    with pytest.raises(VerifyError, match=r"a is of type float16\n  legal: int8"):
        ExternFunction.register("half", half, c="")
    ExternFunction.register("gemv", MEANING, c=SOURCE.replace("int64_t", "int"), override=True)
    with pytest.raises(CompileError, match=r"external function gemv: (.|\n)*conflicting types"):
        smelt.build(parse(PROGRAM))


def test_memory_that_is_not_there() -> None:
    short = PROGRAM.replace("B[vj * 8, 0]", "B[vj * 8 + 1, 0]")
    with pytest.raises(InterpretError, match="rows of gemv ends at B's element 203 of 192"):
        interpret(parse(short), *arrays())
