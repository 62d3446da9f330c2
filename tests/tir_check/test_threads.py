"""The interpreter on programs whose loops are bound to threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest

from smelt import te
from smelt.tir.interpret import InterpretError, interpret
from smelt.tir.interpret_threads import Order
from smelt.tir.nodes import PrimFunc
from smelt.tir.parser import parse
from smelt.tir.schedule import Schedule
from tests.schedule.support import matmul

Golden = Callable[[str], None]
Array = np.ndarray[Any, Any]
ALL_ORDERS: tuple[Order, ...] = get_args(Order)

# Every block turns its eight elements round, through shared memory.
TURN = """
def turn(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        S = T.allocate((8,), "float32", scope="shared")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            S[tx] = A[bx * 8 + tx]
            T.tvm_storage_sync("shared")
            B[bx * 8 + tx] = S[7 - tx]
"""

# The sum of each block's elements, by a tree of additions.
TREE = """
def tree(A: T.Buffer((4, 16), "float32"), B: T.Buffer((4,), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            S = T.allocate((16,), "float32", scope="shared")
            S[tx] = A[bx, tx]
            T.tvm_storage_sync("shared")
            for step in range(4):
                own = T.allocate((1,), "float32", scope="local")
                own[0] = S[tx] + S[(tx + T.shift_right(8, step)) % 16]
                T.tvm_storage_sync("shared")
                S[tx] = own[0]
                T.tvm_storage_sync("shared")
            if tx == 0:
                B[bx] = S[0]
"""


def _run(text: str | PrimFunc, *arrays: Array, order: Order = "forward", seed: int = 0) -> None:
    interpret(parse(text) if isinstance(text, str) else text, *arrays, order=order, seed=seed)


def _numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-8, 9, shape).astype("float32")


@pytest.mark.parametrize("order", ALL_ORDERS)
def test_threads_meet_at_barriers(order: Order) -> None:
    a, b = _numbers(32), np.zeros(32, "float32")
    _run(TURN, a, b, order=order)
    np.testing.assert_array_equal(b, a.reshape(4, 8)[:, ::-1].reshape(-1))


@pytest.mark.parametrize("order", ALL_ORDERS)
def test_a_loop_with_barriers(order: Order) -> None:
    a, b = _numbers(4, 16), np.zeros(4, "float32")
    _run(TREE, a, b, order=order, seed=3)
    np.testing.assert_array_equal(b, a.sum(1))


def test_a_barrier_that_is_missing_shows_in_some_order() -> None:
    """Between the two halves of the step: the sum is of whatever the neighbours have by then."""
    broken = TREE.replace(
        "own[0] = S[tx] + S[(tx + T.shift_right(8, step)) % 16]\n"
        '                T.tvm_storage_sync("shared")\n',
        "own[0] = S[tx] + S[(tx + T.shift_right(8, step)) % 16]\n",
    )
    assert broken != TREE
    results = []
    for order in ALL_ORDERS:
        a, b = _numbers(4, 16), np.zeros(4, "float32")
        _run(broken, a, b, order=order)
        results.append(b)
    assert any(not np.array_equal(r, a.sum(1)) for r in results)


def test_without_any_barrier_statements_on_shared_memory_run_in_step() -> None:
    plain = TURN.replace('            T.tvm_storage_sync("shared")\n', "")
    for order in ALL_ORDERS:
        a, b = _numbers(32), np.zeros(32, "float32")
        _run(plain, a, b, order=order)
        np.testing.assert_array_equal(b, a.reshape(4, 8)[:, ::-1].reshape(-1))


def test_in_step_also_where_threads_go_different_ways() -> None:
    """Only half of the threads fill the array; the others wait for them, in a loop."""
    text = """
def f(A: T.Buffer((16,), "int32"), B: T.Buffer((8,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        S = T.allocate((8,), "int32", scope="shared")
        for k in range(2):
            if tx % 2 == k:
                for j in range(2):
                    S[tx - tx % 2 + j] = A[k * 8 + tx - tx % 2 + j]
            B[tx] = B[tx] + S[7 - tx]
"""
    for order in ALL_ORDERS:
        a, b = np.arange(16, dtype="int32"), np.zeros(8, "int32")
        _run(text, a, b, order=order)
        np.testing.assert_array_equal(b, (a[:8] + a[8:])[::-1])


def test_local_memory_belongs_to_a_thread_and_shared_memory_to_a_block() -> None:
    text = """
def f(B: T.Buffer((2, 4), "float32")):
    own = T.allocate((1,), "float32", scope="{scope}")
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            if tx == {writer} and bx == 0:
                own[0] = 3.0
            B[bx, tx] = own[0]
"""
    b = np.zeros((2, 4), "float32")
    for order in ALL_ORDERS:
        _run(text.format(scope="local", writer=1), b, order=order)
        np.testing.assert_array_equal(b == 3, [[False, True, False, False], [False] * 4])
        assert np.isnan(b[1]).all()
        _run(text.format(scope="shared", writer=1), b, order=order)
        np.testing.assert_array_equal(b == 3, [[True] * 4, [False] * 4])
        assert np.isnan(b[1]).all()


def test_loops_of_one_axis_are_one() -> None:
    """The fetch is bound to the threads that are there already: each brings one element."""
    text = """
def f(A: T.Buffer((4, 8), "int32"), B: T.Buffer((8,), "int32"), N: T.Buffer((8,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        for k in range(4):
            S = T.allocate((8,), "int32", scope="shared")
            for ax in T.thread_binding(8, thread="threadIdx.x"):
                S[ax] = A[k, ax]
                N[ax] = N[ax] + 1
            B[tx] = B[tx] + S[7 - tx]
"""
    for order in ALL_ORDERS:
        a = np.arange(32, dtype="int32").reshape(4, 8)
        b, n = np.zeros(8, "int32"), np.zeros(8, "int32")
        _run(text, a, b, n, order=order)
        np.testing.assert_array_equal(b, a.sum(0)[::-1])
        np.testing.assert_array_equal(n, [4] * 8)


def test_vthreads_and_first_values() -> None:
    text = """
def f(B: T.Buffer((2, 3, 4), "int32")):
    for vx in T.thread_binding(2, thread="vthread.x"):
        for bx in T.thread_binding(5, 8, thread="blockIdx.y"):
            for tx in T.thread_binding(4, thread="threadIdx.z"):
                B[vx, bx - 5, tx] = T.int32(vx * 100 + bx * 10 + tx)
"""
    b = np.zeros((2, 3, 4), "int32")
    _run(text, b, order="random")
    v, x, t = np.indices((2, 3, 4))
    np.testing.assert_array_equal(b, v * 100 + (x + 5) * 10 + t)


def tiled_on_threads() -> Schedule:
    """A matrix product as one writes it for a graphics card: tiles fetched into shared memory."""
    sch = Schedule(matmul(16, 16, 8))
    i, j, k = sch.get_loops("C")
    bi, ti, ii = sch.split(i, [2, 4, 2])
    bj, tj, ji = sch.split(j, [2, 4, 2])
    ko, ki = sch.split(k, [2, 4])
    sch.reorder(bi, bj, ko, ti, tj, ki, ii, ji)
    local = sch.cache_write("C", 0, "local")
    sch.reverse_compute_at(local, bj)
    for n in (0, 1):
        fetch = sch.cache_read("C", n, "shared")
        sch.compute_at(fetch, ko)
        fused = sch.fuse(*sch.get_loops(fetch)[-2:])
        _, ty, tx = sch.split(fused, [None, 4, 4])
        sch.bind(ty, "threadIdx.y")
        sch.bind(tx, "threadIdx.x")
    back = sch.get_loops(local)
    for loop, axis in ((back[-2], "threadIdx.y"), (back[-1], "threadIdx.x")):
        sch.bind(sch.split(loop, [4, 2])[0], axis)
    sch.bind(ti, "threadIdx.y")
    sch.bind(tj, "threadIdx.x")
    sch.bind(bi, "blockIdx.y")
    sch.bind(bj, "blockIdx.x")
    return sch


@pytest.mark.parametrize("order", ALL_ORDERS)
def test_a_scheduled_matrix_product(order: Order) -> None:
    sch = tiled_on_threads()
    a, b, c = _numbers(16, 8), _numbers(8, 16, seed=1), np.zeros((16, 16), "float32")
    interpret(sch.func, a, b, c, order=order, seed=5)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("order", ALL_ORDERS)
def test_a_reduction_over_threads(order: Order) -> None:
    """Before it is made an exchange between threads it runs one thread after another."""
    x = te.placeholder((3, 16), name="X")
    k = te.reduce_axis((0, 16), "k")
    y = te.compute((3,), lambda i: te.sum(x[i, k], axis=k), name="Y")
    z = te.compute((3, 16), lambda i, j: x[i, j] - y[i], name="Z")
    sch = Schedule(te.create_prim_func([x, z]))
    i, j = sch.get_loops("Y")
    _, ki = sch.split(j, [4, 4])
    sch.bind(i, "blockIdx.x")
    sch.bind(ki, "threadIdx.x")
    i2, j2 = sch.get_loops("Z")
    sch.bind(i2, "blockIdx.x")
    sch.bind(sch.split(j2, [4, 4])[1], "threadIdx.x")
    a, out = _numbers(3, 16), np.zeros((3, 16), "float32")
    interpret(sch.func, a, out, order=order)
    np.testing.assert_array_equal(out, a - a.sum(1, keepdims=True))


ERRORS = {
    "divergent": """
def f(B: T.Buffer((4,), "int32")):
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        if tx < 2:
            T.tvm_storage_sync("shared")
        B[tx] = 1
""",
    "two_barriers": """
def f(B: T.Buffer((4,), "int32")):
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        if tx != 3:
            T.tvm_storage_sync("shared")
        else:
            T.tvm_storage_sync("shared")
        B[tx] = 1
""",
    "no_kernel": """
def f(B: T.Buffer((4,), "int32")):
    T.tvm_storage_sync("shared")
    B[0] = 1
""",
    "scope": """
def f(B: T.Buffer((4,), "int32")):
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        T.tvm_storage_sync("warp")
        B[tx] = 1
""",
    "extents": """
def f(B: T.Buffer((4,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            B[tx] = 1
        for ty in T.thread_binding(3, thread="threadIdx.x"):
            B[ty] = 2
""",
    "extents_at_run_time": """
def f(B: T.Buffer((4,), "int32"), N: T.Buffer((2,), "int64")):
    n: T.int64 = N[0]
    m: T.int64 = N[1]
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(n, thread="threadIdx.x"):
            B[tx] = 1
        for ty in T.thread_binding(m, thread="threadIdx.x"):
            B[ty] = 2
""",
    "outside": """
def f(B: T.Buffer((4,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for k in range(2):
            for tx in T.thread_binding(3, thread="threadIdx.x"):
                B[bx * 3 + tx + k] = 1
""",
}


@pytest.mark.parametrize("case", list(ERRORS))
def test_errors(case: str, golden: Golden) -> None:
    args: list[Array] = [np.zeros(4, "int32")]
    if case == "extents_at_run_time":
        args.append(np.array([4, 3], "int64"))
    with pytest.raises(InterpretError) as caught:
        _run(ERRORS[case], *args)
    golden(str(caught.value))


def test_orders_are_named() -> None:
    with pytest.raises(InterpretError, match="order is 'backward'; legal: forward, "):
        interpret(parse(TURN), order="backward")  # type: ignore[arg-type]
