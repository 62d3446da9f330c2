"""The vocabulary as users of the field write it: every spelling is read, one is printed."""

# ruff: noqa: E501 (programs as texts)

from __future__ import annotations

from collections.abc import Callable

import pytest

from smelt.ir import assert_structural_equal
from smelt.tir.parser import parse
from smelt.tir.verify import verify

Golden = Callable[[str], None]

PROGRAMS = {
    "handles": """
def main(a: T.handle, b: T.handle, n: T.int32):
    T.func_attr({"global_symbol": "cast", "tir.noalias": T.bool(True)})
    m, k = T.int32(), T.int64()
    A = T.match_buffer(a, (m, n), dtype="float16", align=64, offset_factor=16)
    B = T.match_buffer(b, [m, n])
    for i, j in T.grid(m, n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.cast(A[vi, vj], "float32") + T.float32(1)
""",
    "axes": """
def main(A: T.Buffer((128,), "int32"), B: T.Buffer((128, 4), "int32")):
    for i0 in T.serial(0, 16):
        for i1, j in T.grid(8, 4):
            with T.sblock("B"):
                v = T.axis.S(128, i0 * 8 + i1)
                w = T.axis.R((0, 4), j)
                u = T.axis.O(T.int64(1), 0)
                T.where(i0 * 8 + i1 < 120)
                T.sblock_attr({"pragma": [1, (2.5, None)]})
                with T.init():
                    B[v, w] = 0
                B[v, w] += A[v] * 2 + T.max(A[v], 3) - A[v] // 4 % 3 << 1
""",
    "sizes_of_32_bits": """
def main(a: T.handle, n: T.int32):
    A = T.match_buffer(a, (n * 4,), "int8")
    for i in range(n):
        for j in T.unroll(T.int32(4)):
            with T.block("A"):
                vi = T.axis.spatial(n, i)
                vj = T.axis.spatial(4, j)
                A[vi * 4 + vj] = T.int8(0)
""",
    "bindings": """
def main(A: T.Buffer((16,), "float32")):
    x = T.float32()
    for i in range(16):
        y: T.float32 = A[i]
        z = y * y
        with T.let(z + 1.0, "float32") as w:
            A[i] = w
        with T.LetStmt(y) as q:
            A[i] += q
        with T.let(x, y + y):
            A[i] = x
        t = T.LetStmt(A[i])
        u: T.let[T.float32] = t * 2.0
        v: T.let = u
        c = T.meta_var(v * v)
        A[i] = c + c + T.Let(x * x, where={x: t})
""",
    "memory": """
def main(A: T.Buffer((16,), "float32")):
    B = T.allocate([16], "float32", "global")
    B_1 = T.Buffer((16,), "float32", data=B)
    for i in range(16):
        B_1[i] = A[i]
    with T.decl_buffer((4,), "float32", scope="local") as C:
        C[T.ramp(0, 1, 4)] = T.Broadcast(T.float32(1), 4)
        C[0:4] = T.shuffle(A[0:4], A[0:4], (0, 7, 3, 4)) + T.Shuffle([A[0:4]], [3, 2, 1, 0])
        C[0:4] = A[0:4] + A[0:8:2] * T.Shuffle([A[0:4], A[4:8]], [0, 2, 4, 6])
    with T.allocate((2,), "int8", annotations={"align": 64}, condition=True) as D:
        E = T.decl_buffer((2,), "int8", data=D.data)
        E[1] = 0
""",
    "statements": """
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float32")):
    assert A[0] > 0, "positive"
    T.Assert(A[0] > 0, "positive")
    with T.Assert(A[0] > 0, "positive"):
        A[0] = 1
    with T.While(A[0] < 3):
        A[0] += 1
    while T.all(A[0] < 3, A[1] > 2) or T.any(A[0] == 1, A[1] != 1) or T.Not(A[2] >= A[3]):
        T.buffer_store(A, A[0] + 1, [0])
    if 0 < A[0] < 4:
        T.evaluate(T.BufferLoad(A, [1]))
    else:
        pass
    for i in T.thread_binding(4, thread="threadIdx.x"):
        A[i] = 0
        T.tvm_storage_sync("shared")
        B[i] = 0
    T.evaluate(T.call_llvm_intrin("int32", "llvm.readcyclecounter"))
""",
    "values": """
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
    A[0] = T.Select(B[0] > 1.0, 1, 2)
    A[1] = T.if_then_else(B[0] > 1.0 and not B[1] < 0.0, T.Cast("int32", B[0]), T.reinterpret("int32", B[1]))
    A[2] = T.bitwise_and(A[0], 7) | (A[1] ^ 3) & ~A[0]
    A[3] = T.Div(A[0], 3) + T.truncmod(A[1], 4) + T.FloorDiv(A[0], 2) + T.indexmod(A[0], 3)
    A[4] = 1 if A[0] == 2 else A[1].astype("int32") if T.isnan(B[0]) else T.min_value("int32")
    B[0] = T.call_intrin("float32", "tir.exp", B[1]) + T.exp(B[0]) + T.sqrt(T.fabs(B[0]))
    B[1] = T.power(B[0], 2.0) + T.max_value("float32") + T.infinity("float32") + T.nan("float32")
    B[2] = T.fma(B[0], 2.0, B[1]) - T.Min(B[0], 3.0) + T.float32("-inf") + -B[3] / 4
    B[3] = T.call_llvm_pure_intrin("float32", "llvm.fma.f32", B[0], B[1], B[2])
    B[4] = T.likely(B[0] > 0.0).astype("float32") + T.likely(A[0] > 0 | A[1]).astype("float32")
""",
    "threads_and_a_reduction": """
@T.prim_func(private=True)
def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64,), "float32")):
    C = T.alloc_buffer([64, 64], "float32", scope="shared", align=128)
    for i in T.thread_binding(64, thread="blockIdx.x"):
        for j in T.thread_binding(0, 64, thread="threadIdx.x", annotations={"x": [1, 2]}):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads([A[vi, 0:64]])
                T.writes([C[vi, vj]])
                for k in range(64):
                    C[vi, vj] = A[vi, k]
    for i, j in T.grid(64, (0, 64)):
        with T.block("B"):
            vi = T.axis.spatial(64, i)
            vj = T.axis.reduce((0, 64), j)
            with T.init():
                B[vi] = T.min_value("float32")
            B[vi] = T.max(B[vi], C[vi, vj])
""",
    "explicit_root": """
def main(A: T.Buffer((8,), "float32")):
    with T.block("root"):
        T.reads()
        T.writes()
        T.block_attr({"meta_schedule.unroll_explicit": 64})
        for i in T.parallel(8, annotations={"grain": 2}):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                T.reads()
                A[v] = 0.0
""",
    "views": """
def main(A: T.Buffer((16, 16), "float32"), C: T.Buffer((3, 16), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            B = T.match_buffer(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4), "float32")
            D = T.match_buffer(C[1, 0:16], (16,))
            T.reads(B[0:4, 0:4], D[vi])
            for x, y in T.grid(4, 4):
                B[x, y] = B[y, x] + D[vi]
""",
    "touched_through_lets_data_and_vectors": """
def main(A: T.Buffer((8, 8), "float32"), I: T.Buffer((8,), "int64"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            j: T.int64 = vi + 1
            for k in range(2):
                B[vi, k * 4:k * 4 + 4] = A[j - 1, T.ramp(k * 4, 1, 4)] + T.Broadcast(A[I[vi], 0], 4)
            t = T.allocate((1,), "float32")
            t[0] = B[vi, 7]
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_classic_programs(name: str, golden: Golden) -> None:
    func = verify(parse(PROGRAMS[name], f"{name}.py"))
    golden(func.script())
    assert_structural_equal(parse(func.script()), func)


SAME = {
    "T.floordiv(i, 4)": "i // 4",
    "T.floormod(i, 4)": "i % 4",
    "T.indexdiv(i, 4)": "i // 4",
    "T.Sub(i, 4)": "i - 4",
    "T.Add(i, T.Mul(i, 4))": "i + i * 4",
    "T.truncdiv(i, 4)": "T.truncdiv(i, 4)",
    "T.ceildiv(i, 4)": "(i + 3) // 4",
    "T.min(i, 4)": "T.min(i, 4)",
    "i & 3": "T.bitwise_and(i, 3)",
    "i >> 1": "T.shift_right(i, 1)",
    "+i": "i",
    "-i": "0 - i",
    "T.int32(i)": 'T.cast("int32", i)',
    "T.int64(7)": "7",
    "2 * 3 + i": "6 + i",
    "len((1, 2)) * i": "2 * i",
    "min(4, 2) + i": "2 + i",
    "A.shape[0] + i": "16 + i",
    "i if 1 < 2 else j": "i",
    "(3, 4)[1] + i": "4 + i",
    "T.IntImm('int64', 3) + i": "3 + i",
    "T.Cast('int64', T.clz(i))": 'T.cast("int64", T.clz(i))',
}


@pytest.mark.parametrize("written", SAME)
def test_values_in_other_words(written: str) -> None:
    head = 'def f(A: T.Buffer((16,), "float32"), i: T.int64):\n    T.evaluate('
    func = parse(f"{head}{written})\n")
    assert func.script() == f"@T.prim_func\n{head}{SAME[written]})\n"
