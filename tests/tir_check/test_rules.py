"""The rules of threads and blocks: each is broken once, and the error shows where."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from smelt.ir.errors import VerifyError
from smelt.ir.expr import Var, const
from smelt.tir.nodes import For, PrimFunc
from smelt.tir.parser import parse
from smelt.tir.schedule import Schedule
from smelt.tir.verify import verify
from tests.schedule.support import conv, matmul, softmax

from .test_threads import TREE, TURN, tiled_on_threads

Golden = Callable[[str], None]

BROKEN = {
    "extents_of_an_axis": """
def f(A: T.Buffer((32,), "float32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            A[bx * 16 + tx] = 1.0
        for ty in T.thread_binding(8, thread="threadIdx.x"):
            A[ty] = 2.0
""",
    "unknown_axis": """
def f(A: T.Buffer((32,), "float32")):
    for w in T.thread_binding(2, thread="warpIdx.x"):
        A[w] = 1.0
""",
    "barrier_outside": """
def f(A: T.Buffer((32,), "float32")):
    for i in range(32):
        T.tvm_storage_sync("shared")
        A[i] = 1.0
""",
    "writes_not_covered": """
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(7):
        with T.block("b"):
            v = T.axis.spatial(7, i)
            T.reads(A[v])
            T.writes(B[v])
            B[v + 1] = A[v]
""",
    "writes_not_declared": """
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            T.reads(A[v])
            T.writes(A[v])
            B[v] = A[v]
            A[v] = 0.0
""",
    "reads_not_covered": """
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            T.reads(A[v, 0:4])
            T.writes(B[v])
            for j in range(5):
                B[v] = B[v] + A[v, j]
""",
    "reads_not_declared": """
def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            T.reads(A[v])
            T.writes(B[v])
            B[v] = A[v] + C[v]
""",
    "an_inner_block_not_covered": """
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(2):
        with T.block("outer"):
            v = T.axis.spatial(2, i)
            T.reads(A[v * 4:v * 4 + 4])
            T.writes(B[v * 4:v * 4 + 3])
            for j in range(4):
                with T.block("inner"):
                    w = T.axis.spatial(8, v * 4 + j)
                    T.reads(A[w])
                    T.writes(B[w])
                    B[w] = A[w]
""",
    "domain": """
def f(A: T.Buffer((8,), "float32")):
    for i in range(9):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            T.writes(A[v])
            A[v] = 1.0
""",
    "domain_of_two_loops": """
def f(A: T.Buffer((n,), "float32"), n: T.int64):
    for i in range(n):
        for j in range(2):
            with T.block("b"):
                v = T.axis.spatial(n, i + j)
                T.writes(A[v])
                A[v] = 1.0
""",
    "domain_below": """
def f(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.reduce((2, 8), i)
            T.writes(A[v])
            A[v] = 1.0
""",
}


@pytest.mark.parametrize("case", list(BROKEN))
def test_broken_rules(case: str, golden: Golden) -> None:
    func = parse(BROKEN[case])
    with pytest.raises(VerifyError) as caught:
        verify(func)
    golden(str(caught.value))


KEPT = {
    "predicate": """
def f(A: T.Buffer((8,), "float32")):
    for i in range(9):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            T.where(i < 8)
            T.writes(A[v])
            A[v] = 1.0
""",
    "branch": """
def f(A: T.Buffer((8,), "float32")):
    for i in range(9):
        if i < 8:
            with T.block("b"):
                v = T.axis.spatial(8, i)
                T.writes(A[v])
                A[v] = 1.0
""",
    "triangle": """
def f(A: T.Buffer((8,), "float32")):
    for i in range(8):
        for j in range(8 - i):
            with T.block("b"):
                v = T.axis.spatial(8, i + j)
                T.writes(A[v])
                A[v] = 1.0
""",
    "data": """
def f(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int64"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            T.reads(I[v], A[0:8])
            T.writes(B[v])
            B[v] = A[I[v]]
""",
    "two_regions": """
def f(A: T.Buffer((9,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            T.reads(A[v + 1], A[v])
            T.writes(B[v])
            B[v] = A[v] + A[v + 1]
""",
    "wider_than_needed": """
def f(A: T.Buffer((9,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            T.reads(A[0:9])
            T.writes(B[v])
            B[v] = A[v] + A[v + 1]
""",
    "turn": TURN,
    "tree": TREE,
}


@pytest.mark.parametrize("case", list(KEPT))
def test_kept_rules(case: str) -> None:
    verify(parse(KEPT[case]))


@pytest.mark.parametrize(
    "func", [matmul(Var("n"), 4, 5), softmax(), conv(), tiled_on_threads().func]
)
def test_programs_from_expressions_and_schedules(func: PrimFunc) -> None:
    verify(func)


def test_every_step_of_a_schedule_keeps_the_rules() -> None:
    sch = Schedule(conv(c=4, h=6, w=6, o=8), debug_mask="all")
    sch.compute_inline("pad")
    sch.compute_inline("badd")
    sch.reverse_compute_inline("relu")
    loops = sch.get_loops("conv")
    o, i = sch.split(loops[1], [None, 4])
    sch.reorder(o, loops[2], loops[4], i)
    sch.parallel(o)
    sch.vectorize(i)
    sch.decompose_reduction("conv", loops[4])
    verify(sch.func)


def test_loops_of_different_kernels_may_differ() -> None:
    func = parse("""
def f(A: T.Buffer((32,), "float32")):
    for tx in T.thread_binding(16, thread="threadIdx.x"):
        A[tx] = 1.0
    for ty in T.thread_binding(8, thread="threadIdx.x"):
        A[ty] = 2.0
""")
    verify(func)
    inner = For(Var("tz"), const(0), const(8), func.body, "thread_binding", "threadIdx.x")
    with pytest.raises(VerifyError, match=r"give threadIdx\.x different extents: 8 and 16"):
        verify(func.replace(body=inner))
