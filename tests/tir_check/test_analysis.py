"""What can be said of programs without running them: scopes, regions, counts, effects, devices."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.ir.build import call
from smelt.ir.errors import TypeMismatch, VerifyError
from smelt.ir.expr import Call, Var, const
from smelt.ir.module import IRModule
from smelt.tir import analysis
from smelt.tir.interpret import interpret
from smelt.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    For,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    walk,
)
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule
from tests.schedule.support import chain, conv, matmul, softmax

from .test_threads import TURN, tiled_on_threads

A = Buffer("A", (const(8),))
ROW, COLUMN = Var("i"), Var("j")


def _block(func: PrimFunc, name: str) -> BlockRealize:
    return next(s for s in walk(func.body) if isinstance(s, BlockRealize) and s.block.name == name)


# --------------------------------------------------------------------------------------- scopes


def test_undefined_variables_in_order_of_use() -> None:
    store = BufferStore(A, A[COLUMN] + 1.0, (ROW + Var("k"),))
    names = [v.name for v in analysis.undefined_vars(store)]
    assert sorted(names) == ["i", "j", "k"]
    assert [v.name for v in analysis.undefined_vars(store, [ROW])] == [n for n in names if n != "i"]
    loop = For(ROW, const(0), COLUMN, store)
    assert "i" not in [v.name for v in analysis.undefined_vars(loop)]
    assert COLUMN in analysis.undefined_vars(loop)
    assert analysis.undefined_vars(ROW * 2 + COLUMN) == [ROW, COLUMN]
    assert analysis.undefined_buffers(loop) == [A]
    assert analysis.undefined_buffers(loop, [A]) == []
    bound = LetStmt(COLUMN, ROW + 1, store)
    assert COLUMN not in analysis.undefined_vars(bound)
    # what a statement defines is not defined behind it
    after = Seq((For(ROW, const(0), const(2), BufferStore(A, const(0.0), (ROW,))), store))
    assert ROW in analysis.undefined_vars(after)


@pytest.mark.parametrize(
    "func", [matmul(Var("n"), 4, 5), softmax(), conv(), tiled_on_threads().func]
)
def test_whole_programs_define_what_they_use(func: PrimFunc) -> None:
    assert analysis.undefined_vars(func) == []
    assert analysis.undefined_buffers(func) == []
    assert analysis.verify_ssa(func)
    assert analysis.verify_well_formed(func)
    assert analysis.verify_well_formed(IRModule({"f": func}))


def test_a_program_that_breaks_a_rule() -> None:
    func = PrimFunc((A,), BufferStore(A, const(1.0), (ROW,)), {"name": "f"})
    assert not analysis.verify_well_formed(func, assert_mode=False)
    with pytest.raises(VerifyError, match="the variable i is used where it is not defined"):
        analysis.verify_well_formed(func)
    assert [v.name for v in analysis.undefined_vars(func)] == ["i"]


def test_one_definition_each() -> None:
    body = BufferStore(A, const(1.0), (ROW,))
    once, twice = For(ROW, const(0), const(8), body), For(ROW, const(0), const(4), body)
    assert analysis.verify_ssa(PrimFunc((A,), once))
    assert not analysis.verify_ssa(PrimFunc((A,), Seq((once, twice))))


def test_where_buffers_are_used() -> None:
    sch = Schedule(chain(8, 8))
    i, _ = sch.get_loops("D")
    sch.compute_at("C", i)
    found = {b.name: s for b, s in analysis.detect_buffer_access_lca(sch.func).items()}
    assert set(found) == {"A", "B", "C", "D"}
    loop = found["C"]
    assert isinstance(loop, Seq)
    around = next(s for s in walk(sch.func.body) if isinstance(s, For) and s.body is loop)
    assert around.var.name == "i_2"
    assert isinstance(found["A"], BufferStore)
    assert isinstance(found["B"], Seq)
    assert found["B"] is not loop


def test_what_a_block_touches() -> None:
    func = conv(c=2, h=5, w=5, o=3)
    for name in ("pad", "conv", "relu"):
        b = _block(func, name)
        reads, writes = analysis.get_block_access_region(b, func)
        assert {r.buffer for r in reads} == {r.buffer for r in b.block.reads}
        for mine, stated in ((reads, b.block.reads), (writes, b.block.writes)):
            assert sorted(map(str, map(_region, mine))) == sorted(map(str, map(_region, stated)))
    tile = parse("""
def f(A: T.Buffer((4, 16), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("rows"):
            v = T.axis.spatial(4, i)
            T.reads(A[v, 0:16])
            T.writes(B[v])
            for j in range(3, 11):
                B[v] = B[v] + A[v, j] + A[v, j + 2]
""")
    reads, writes = analysis.get_block_access_region(_block(tile, "rows"))
    assert {_region(r) for r in reads} == {"B[v]", "A[v, 3:11]", "A[v, 5:13]"}
    assert {_region(r) for r in writes} == {"B[v]"}


def _region(r: object) -> str:
    parts = []
    for d in r.region:  # type: ignore[attr-defined]
        low, end = script(d.min), script(d.min + d.extent)
        parts.append(low if getattr(d.extent, "value", 0) == 1 else f"{low}:{end}")
    return f"{r.buffer.name}[{', '.join(parts)}]"  # type: ignore[attr-defined]


# --------------------------------------------------------------------------------------- counts


def test_counting_nodes() -> None:
    func = parse(
        'def f(A: T.Buffer((8,), "float32")):\n    for i in range(8):\n'
        "        A[i] = A[i] * A[i] + 1.0\n        A[i] = 0.0\n"
    )
    counts = analysis.count_nodes(func)
    assert counts.statements == {"For": 1, "Seq": 1, "BufferStore": 2}
    # A[i] and i count once in a statement
    assert counts.expressions == {
        "Var": 3, "IntImm": 2, "BufferLoad": 1, "Mul": 1, "Add": 1, "FloatImm": 2,
    }  # fmt: skip
    assert counts.total == 14
    few = analysis.count_nodes(ROW + ROW * 2)
    assert few.expressions == {"Var": 1, "IntImm": 1, "Mul": 1, "Add": 1}


def test_flops() -> None:
    assert analysis.estimate_flops(matmul(16, 8, 4)) == 2 * 16 * 8 * 4
    n = Var("n")
    func = matmul(n, 8, 4)
    assert analysis.estimate_flops(func, {"n": 10}) == 2 * 10 * 8 * 4
    with pytest.raises(TypeMismatch, match=r"depends on n; say sizes=\{'n': ...\}"):
        analysis.estimate_flops(func)
    module = IRModule({"f": matmul(16, 8, 4), "g": matmul(2, 2, 2)})
    assert analysis.estimate_flops(module) == 1024 + 16


def test_bytes_alive_at_one_time() -> None:
    func = parse("""
def f(A: T.Buffer((n,), "float32"), n: T.int64):
    with T.allocate((n,), "float32") as x:
        with T.allocate((6,), "int4", scope="local") as y:
            y[0] = T.int4(1)
            x[0] = A[0]
        with T.allocate((10,), "int16", scope="local") as z:
            z[0] = T.int16(1)
            A[0] = x[0]
""")
    assert analysis.calculate_allocated_bytes(func, {"n": 3}) == {"global": 12, "local": 20}
    with pytest.raises(TypeMismatch, match="the size of x depends on n"):
        analysis.calculate_allocated_bytes(func)
    assert analysis.calculate_allocated_bytes(chain(12, 10)) == {"global": 2 * 12 * 10 * 4}


def test_effects() -> None:
    assert analysis.is_pure(A[ROW] + call("exp", A[COLUMN]))
    assert not analysis.is_pure(Call("int32", "smelt.call_packed", (A[ROW],)))
    own = parse(
        'def f(A: T.Buffer((8,), "float32")):\n'
        '    t = T.allocate((1,), "float32")\n    t[0] = A[0]\n'
    )
    assert analysis.is_pure_function(own)
    stores = parse('def f(A: T.Buffer((8,), "float32")):\n    A[0] = 1.0\n')
    assert not analysis.is_pure_function(stores)
    fails = parse('def f(n: T.int64):\n    assert n > 0, "positive"\n')
    assert not analysis.is_pure_function(fails)
    calls = parse('def f(x: T.handle):\n    T.smelt.call_kernel("k", x)\n')
    assert not analysis.is_pure_function(calls)


# --------------------------------------------------------------------------------------- device


def test_limits_of_a_device() -> None:
    func = parse(TURN)
    assert analysis.gpu_code_violations(func, {}) == []
    roomy = {"max_threads_per_block": 8, "max_thread_x": 8, "max_shared_memory_per_block": 32}
    assert analysis.verify_gpu_code(func, roomy)
    narrow = {"max_threads_per_block": 4, "max_thread_x": 4, "max_shared_memory_per_block": 16}
    assert not analysis.verify_gpu_code(func, narrow)
    assert analysis.gpu_code_violations(func, narrow) == [
        "threadIdx.x: 8, at most 4",
        "threads of a block: 8, at most 4",
        "shared memory: 32 bytes, at most 16",
    ]
    with pytest.raises(TypeMismatch, match="there is no limit 'max_warps'; known: max_threads"):
        analysis.verify_gpu_code(func, {"max_warps": 3})
    product = tiled_on_threads().func
    assert analysis.verify_gpu_code(product, {"max_threads_per_block": 16, "max_thread_y": 4})
    assert not analysis.verify_gpu_code(product, {"max_threads_per_block": 15})


def test_parameters_belong_to_kernels() -> None:
    assert analysis.verify_memory(parse(TURN))
    assert not analysis.verify_memory(matmul(4, 4, 4))
    mixed = parse(TURN + "    B[0] = A[0]\n")
    assert not analysis.verify_memory(mixed)


# ------------------------------------------------------------------------------------- examples


def test_example_arguments_run() -> None:
    for func in (matmul(Var("n"), 4, 5), softmax(), conv(c=2, h=5, w=5, o=3)):
        given = analysis.example_arguments(func)
        with np.errstate(all="ignore"):
            interpret(func, *given)
    sized = analysis.example_arguments(matmul(Var("n"), 4, 5), {"n": 3})
    assert [x.shape for x in sized[:3]] == [(3, 5), (5, 4), (3, 4)]
    assert sized[3:] == [3]
    again = analysis.example_arguments(matmul(Var("n"), 4, 5), {"n": 3})
    np.testing.assert_array_equal(sized[0], again[0])
    handle = PrimFunc((Buffer("x", (const(1),), "handle"),), Seq(()))
    with pytest.raises(TypeMismatch, match="no example values of type handle"):
        analysis.example_arguments(handle)


def test_blocks_without_a_program_around() -> None:
    v = Var("v")
    body: Stmt = BufferStore(A, A[v] + 1.0, (v,))
    b = Block("b", (), (), (), body)
    reads, writes = analysis.get_block_access_region(b)
    assert [_region(r) for r in (*reads, *writes)] == ["A[v]", "A[v]"]
