"""Races: found by running, shown or excluded by proof; and whether the two agree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt import te
from smelt.arith import Answer
from smelt.ir.errors import TypeMismatch, VerifyError
from smelt.tir.analysis import check_races, find_races, parallel_verdict, verify_parallel
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from smelt.tir.schedule import Schedule
from tests.schedule.support import conv, matmul, softmax
from tests.tir_text.generate import arguments, programs

from .nests import nests
from .test_threads import TREE, TURN, tiled_on_threads

Golden = Callable[[str], None]

RACES = {
    "neighbour": """
def f(A: T.Buffer((8,), "float32")):
    for i in T.parallel(1, 8):
        A[i] = A[i - 1] + 1.0
""",
    "reduction": """
def f(A: T.Buffer((8, 4), "float32"), S: T.Buffer((4,), "float32")):
    for i in T.parallel(8):
        for j in range(4):
            S[j] = S[j] + A[i, j]
""",
    "vectorized_reduction": """
def f(A: T.Buffer((8,), "float32"), S: T.Buffer((1,), "float32")):
    for i in T.vectorized(8):
        S[0] = S[0] + A[i]
""",
    "two_statements": """
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.parallel(8):
        A[i] = B[i]
        if i < 4:
            B[i * 2] = 0.0
""",
    "conditions_that_differ": """
def f(A: T.Buffer((8,), "float32")):
    for i in T.parallel(5):
        if i < 2:
            A[i - i // 4 * 3] = 1.0
        if i >= 2:
            A[i - i // 4 * 3] = 2.0
""",
    "further_on_in_the_next_iteration_only": """
def f(n: T.int64, A: T.Buffer((n * 20, 10), "float32")):
    for i in T.parallel(10):
        for j in range(10):
            A[i * n + (i + 1) % 2 * (4 * n), i] = A[i * n + i % 2 * (4 * n), j]
""",
    "overlapping_tiles": """
def f(A: T.Buffer((40,), "float32")):
    for i in T.parallel(4):
        for j in T.vectorized(9):
            A[i * 8 + j] = 1.0
""",
    "overlapping_strides": """
def f(A: T.Buffer((4, 4), "float32", strides=(3, 1))):
    for i in T.parallel(4):
        for j in range(4):
            A[i, j] = 1.0
""",
    "far_apart": """
def f(A: T.Buffer((200,), "float32")):
    for i in T.parallel(100):
        A[i] = A[i + 90]
""",
    "shared_memory": """
def f(A: T.Buffer((8,), "float32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        S = T.allocate((4,), "float32", scope="shared")
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            S[tx] = A[bx * 4 + tx]
            T.tvm_storage_sync("shared")
            A[bx * 4 + tx] = S[3 - tx]
            S[tx] = 0.0
""",
    "blocks_of_a_grid": """
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            B[tx] = A[bx * 4 + tx]
""",
    "global_memory_in_step": """
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        S = T.allocate((8,), "float32", scope="shared")
        S[tx] = A[tx]
        A[tx] = S[7 - tx]
        B[tx] = A[7 - tx]
""",
}


@pytest.mark.parametrize("case", list(RACES))
def test_races_are_found(case: str, golden: Golden) -> None:
    func = parse(RACES[case])
    races = find_races(func)
    assert len(races) == 1
    verdict = parallel_verdict(func)
    assert verdict.answer is verify_parallel(func) is Answer.NO
    with pytest.raises(VerifyError) as caught:
        check_races(func)
    assert str(caught.value) == str(verdict)
    golden(f"{races[0]}\n{verdict}")


FREE = {
    "tiles": """
def f(A: T.Buffer((64,), "float32")):
    for i in T.parallel(8):
        for j in T.vectorized(8):
            A[i * 8 + j] = A[i * 8 + j] + 1.0
""",
    "digits": """
def f(A: T.Buffer((4, 3, 5), "float32")):
    for x in T.parallel(60):
        A[x // 15, x // 5 % 3, x % 5] = 1.0
""",
    "ragged": """
def f(A: T.Buffer((37,), "float32")):
    for i in T.parallel(5):
        for j in range(8):
            if i * 8 + j < 37:
                A[i * 8 + j] = 1.0
""",
    "edges": """
def f(A: T.Buffer((37, 4), "float32")):
    for i in T.parallel(5):
        for j in range(8):
            if i < 4:
                A[i * 8 + j, 0] = 1.0
            else:
                if j < 5:
                    A[j + 32, 0] = 1.0
""",
    "one_turn": """
def f(A: T.Buffer((4,), "float32")):
    for i in T.parallel(9):
        if i == 5:
            A[0] = A[0] + 1.0
""",
    "private": """
def f(A: T.Buffer((8,), "float32")):
    for i in T.parallel(8):
        t = T.allocate((2,), "float32", scope="local")
        t[0] = A[i]
        t[1] = t[0] + 1.0
        A[i] = t[1]
""",
    "symbolic": """
def f(A: T.Buffer((n * m,), "float32"), n: T.int64, m: T.int64):
    for i in T.parallel(n):
        for j in range(m):
            A[i * m + j] = A[i * m + j] * 2.0
""",
    "chunks": """
def f(A: T.Buffer((n,), "float32"), n: T.int64):
    for i in T.parallel(4):
        for j in range((n + 3) // 4):
            if i * ((n + 3) // 4) + j < n:
                A[i * ((n + 3) // 4) + j] = 1.0
""",
    "interleaved_strides": """
def f(A: T.Buffer((4, 8), "float32", strides=(1, 4))):
    for i in T.parallel(4):
        for j in range(8):
            A[i, j] = A[i, j] + 1.0
""",
    "triangle": """
def f(A: T.Buffer((9, 9), "float32")):
    for i in T.parallel(9):
        for j in range(i + 1):
            A[i, j] = A[i, j] + A[i, 0]
""",
    "repeated": """
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((2,), "float32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        B[bx] = 3.0
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            A[bx * 4 + tx] = 1.0
""",
    "turn": TURN,
    "tree": TREE,
}


@pytest.mark.parametrize("case", list(FREE))
def test_programs_without_races(case: str) -> None:
    func = parse(FREE[case])
    assert find_races(func) == []
    verdict = parallel_verdict(func)
    assert verdict.answer is Answer.YES, str(verdict)
    check_races(func)


UNKNOWN = {
    "data": """
def f(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int64")):
    for i in T.parallel(8):
        A[I[i]] = 1.0
""",
    "data_decides": """
def f(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int64")):
    for i in T.parallel(8):
        if I[i] > 0:
            A[0] = 1.0
""",
    "strides": """
def f(A: T.Buffer((4, 4), "float32", strides=(s, 1)), s: T.int64):
    assert s >= 4, "rows apart"
    for i in T.parallel(4):
        for j in range(4):
            A[i, j] = 1.0
""",
    "asserted_sizes": """
def f(A: T.Buffer((n,), "float32"), n: T.int64):
    assert n == 1, "one"
    for i in T.parallel(n):
        A[0] = A[0] + 1.0
""",
    "a_call": """
def f(A: T.Buffer((8,), "float32")):
    for i in T.parallel(8):
        T.evaluate(T.call("int32", "smelt.call_packed", "fill", A[i]))
""",
}


@pytest.mark.parametrize("case", list(UNKNOWN))
def test_what_cannot_be_shown(case: str, golden: Golden) -> None:
    func = parse(UNKNOWN[case])
    assert verify_parallel(func) is Answer.UNKNOWN
    check_races(func)
    golden(str(parallel_verdict(func)))


def test_sizes_for_which_there_is_a_race() -> None:
    func = parse(
        'def f(A: T.Buffer((n,), "float32"), S: T.Buffer((1,), "float32"), n: T.int64):\n'
        "    for i in T.parallel(n):\n        S[0] = S[0] + A[i]\n"
    )
    with pytest.raises(
        VerifyError, match="iterations of the parallel loop i race for S, where n = 8"
    ):
        check_races(func)


def test_data_decides_what_is_found() -> None:
    func = parse(UNKNOWN["data"])
    a = np.zeros(8, "float32")
    assert find_races(func, a, np.arange(8)) == []
    (race,) = find_races(func, a, np.array([0, 1, 2, 3, 4, 2, 6, 7]))
    assert race.index == (2,)
    assert (race.first.iterations, race.second.iterations) == ((("i", 2),), (("i", 5),))
    assert (race.first.writes, race.second.writes) == (True, True)
    assert find_races(func)  # example indices meet each other


def test_shapes_as_examples() -> None:
    func = parse(
        'def f(A: T.Buffer((n,), "float32"), n: T.int64):\n'
        "    for i in T.parallel(n):\n        A[i // 4] = 1.0\n"
    )
    assert find_races(func, (1,), 1) == []
    (race,) = find_races(func, (7,), 7)
    assert race.index == (0,)
    with pytest.raises(TypeMismatch, match="f has 2 parameters, 1 shapes given"):
        find_races(func, (7,))
    with pytest.raises(TypeMismatch, match="f: n takes a number, \\(7,\\) given"):
        find_races(func, (7,), (7,))


def test_a_buffer_of_a_block_is_private_to_its_parallel_loop() -> None:
    """A producer that overlaps from one iteration to the next: each gets a buffer of its own."""
    sch = Schedule(conv(c=2, h=5, w=5, o=3))
    sch.compute_inline("badd")
    sch.compute_inline("radd")
    loops = sch.get_loops("conv")
    sch.compute_at("pad", loops[2])
    sch.reverse_compute_at("relu", loops[2])
    sch.parallel(loops[2])
    assert find_races(sch.func) == []
    assert verify_parallel(sch.func) is not Answer.NO


def test_a_private_buffer_is_filled_from_a_symbolic_place_on() -> None:
    func = parse("""
def f(A: T.Buffer((4, 4), "float32"), B: T.Buffer((n,), "float32"), n: T.int64):
    with T.block("root"):
        t = T.alloc_buffer((n + 4,), "float32")
        for i in T.parallel(4):
            for j in range(4):
                with T.block("set"):
                    v, w = T.axis.remap("SS", [i, j])
                    t[n + w] = A[v, w] + 1.0
            for j in range(4):
                with T.block("use"):
                    v, w = T.axis.remap("SS", [i, j])
                    A[v, w] = t[n + 3 - w]
""")
    assert verify_parallel(func) is Answer.YES


def test_a_value_that_another_turn_made() -> None:
    """The block's buffer would be private to each iteration, and all but the first find nothing."""
    func = parse("""
def f(A: T.Buffer((4,), "float32")):
    with T.block("root"):
        t = T.alloc_buffer((1,), "float32")
        for i in T.parallel(4):
            if i == 0:
                with T.block("set"):
                    t[0] = 3.0
            with T.block("use"):
                v = T.axis.spatial(4, i)
                A[v] = t[0]
""")
    (race,) = find_races(func)
    assert race.buffer.name == "t"
    assert not race.second.writes
    assert verify_parallel(func) is Answer.UNKNOWN


@pytest.mark.parametrize("make", [matmul, softmax])
def test_scheduled_programs_are_shown_to_be_free(make: Callable[..., PrimFunc]) -> None:
    sch = Schedule(make())
    for b in ("C",) if make is matmul else ("top", "e", "total", "Y"):
        i, *rest = sch.get_loops(b)
        sch.parallel(i)
        if len(rest) == 1 and b in ("e", "Y"):
            sch.vectorize(sch.split(rest[0], [None, 4])[1])
    assert verify_parallel(sch.func) is Answer.YES
    assert find_races(sch.func) == []


def test_a_product_on_threads_is_shown_to_be_free() -> None:
    func = tiled_on_threads().func
    assert verify_parallel(func) is Answer.YES
    assert find_races(func) == []


def test_a_reduction_over_threads_is_no_race() -> None:
    x = te.placeholder((3, 16), name="X")
    k = te.reduce_axis((0, 16), "k")
    sch = Schedule(
        te.create_prim_func([x, te.compute((3,), lambda i: te.sum(x[i, k], axis=k), name="Y")])
    )
    i, j = sch.get_loops("Y")
    sch.bind(i, "blockIdx.x")
    sch.bind(sch.split(j, [4, 4])[1], "threadIdx.x")
    assert verify_parallel(sch.func) is Answer.YES
    assert find_races(sch.func) == []


# ---------------------------------------------------------------------------------------- laws


@settings(max_examples=60)
@given(st.booleans().flatmap(lambda threads: nests(threads=threads)))
def test_proof_and_run_agree(func: PrimFunc) -> None:
    """A nest of affine accesses touches in one run all that it can touch."""
    verdict, races = parallel_verdict(func), find_races(func)
    if verdict.answer is Answer.YES:
        assert races == [], str(races[0])
    if verdict.answer is Answer.NO:
        assert races, str(verdict)


@settings(max_examples=60)
@given(programs())
def test_what_is_shown_to_be_free_has_no_races(func: PrimFunc) -> None:
    if verify_parallel(func) is Answer.YES:
        assert find_races(func, *arguments(func)) == []
