"""Loops bound to threads: unified, lifted, written out; programs for GPUs checked."""

from __future__ import annotations

import pytest

from smelt.ir.errors import CompileError, VerifyError
from smelt.ir.module import IRModule
from smelt.tir import transform as t
from smelt.tir.nodes import Allocate, For, walk
from smelt.tir.verify import verify

from .support import arguments, kinds, program, same

AB = 'def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
TX = 'T.thread_binding(4, thread="threadIdx.x")'


def test_the_loops_of_an_axis_get_one_variable_on_every_level() -> None:
    func = program(
        AB
        + f"""
            for b in T.thread_binding(2, thread="blockIdx.x"):
                for i in {TX}:
                    A[b * 4 + i] = 1.0
                for k in range(2):
                    for j in {TX}:
                        B[b * 4 + j] = A[b * 4 + j] + 1.0
            for c in T.thread_binding(2, thread="blockIdx.x"):
                A[c] = B[c]
        """
    )
    new = verify(t.UnifyThreadBinding()(func))
    loops = [s for s in walk(new.body) if isinstance(s, For) and s.thread]
    assert len({s.var for s in loops if s.thread == "threadIdx.x"}) == 1
    assert len({s.var for s in loops if s.thread == "blockIdx.x"}) == 1
    assert len({s.var for s in loops}) == 2
    same(new, func, arguments(func))
    assert t.UnifyThreadBinding()(new) is new


def test_threads_are_lifted_over_loops_and_buffers_of_their_own() -> None:
    func = program(
        AB
        + f"""
            for b in T.thread_binding(2, thread="blockIdx.x"):
                S = T.allocate((4,), "float32", scope="shared")
                for i in {TX}:
                    S[i] = A[b * 4 + i] * 2.0
                for k in range(3):
                    for j in {TX}:
                        S[j] = S[j] + A[j]
                for l in {TX}:
                    B[b * 4 + l] = S[l]
        """
    )
    new = verify(t.LiftThreadBinding()(func))
    same(new, func, arguments(func))
    axes = [s.thread for s in walk(new.body) if isinstance(s, For)]
    assert axes == ["blockIdx.x", "threadIdx.x", None]


def test_virtual_threads_share_the_loops_inside() -> None:
    func = program(
        AB
        + """
            for v in T.thread_binding(2, thread="vthread.x"):
                S = T.allocate((2,), "float32")
                for k in range(2):
                    S[k] = A[v * 4 + k]
                    if A[k] > 0.0:
                        S[k] = S[k] + 1.0
                for k in range(v + 1):
                    B[v * 4 + k] = S[k] * 2.0
        """
    )
    new = verify(t.InjectVirtualThread()(func))
    same(new, func, arguments(func))
    assert "thread_binding" not in kinds(new)
    (allocate,) = [s for s in walk(new.body) if isinstance(s, Allocate)]
    assert allocate.buffer.fixed_shape() == (4,)
    outer = [s for s in walk(new.body) if isinstance(s, For) and s.kind == "serial"]
    assert len(outer) == 2, "one loop over k for both threads, one for each where bounds differ"


def test_nested_virtual_threads() -> None:
    func = program(
        AB
        + """
            for v in T.thread_binding(2, thread="vthread"):
                for w in T.thread_binding(4, thread="vthread.y"):
                    S = T.allocate((1,), "float32")
                    S[0] = A[v * 4 + w]
                    B[v * 4 + w] = S[0] + 1.0
        """
    )
    new = verify(t.InjectVirtualThread()(func))
    same(new, func, arguments(func))
    assert kinds(new) == {"unrolled"}


ERRORS = [
    (
        t.UnifyThreadBinding,
        f"    for i in {TX}:\n        A[i] = 1.0\n"
        '    for j in T.thread_binding(8, thread="threadIdx.x"):\n        B[j] = 1.0',
        "UnifyThreadBinding: in main, i and j are both bound to threadIdx.x, but their extents are "
        "4 and 8; the loops of one axis have one extent",
    ),
    (
        t.UnifyThreadBinding,
        f"    for i in {TX}:\n        for j in {TX}:\n            A[i + j] = 1.0",
        "UnifyThreadBinding: in main, the loop j over threadIdx.x stands inside another loop over "
        "it; an axis is bound once around a statement",
    ),
    (
        t.LiftThreadBinding,
        f"    for i in {TX}:\n        A[i] = 1.0\n    for j in {TX}:\n        B[j] = A[3 - j]",
        "LiftThreadBinding: in main, the loops over threadIdx.x cannot become one: cannot prove "
        "that no thread touches what another one writes to A; they would need a barrier, which GPU "
        "targets will bring",
    ),
    (
        t.LiftThreadBinding,
        f"    for i in {TX}:\n        A[i] = 1.0\n    A[0] = 2.0\n    for j in {TX}:\n"
        "        B[j] = A[j]",
        "LiftThreadBinding: in main, the loops over threadIdx.x cannot become one: A is written "
        "beside them, which every thread would repeat",
    ),
    (
        t.InjectVirtualThread,
        '    n: T.int64 = T.cast("int64", A[0])\n'
        '    for v in T.thread_binding(n, thread="vthread"):\n        B[v] = 1.0',
        "InjectVirtualThread: the extent of v is n; virtual threads are as many as a constant says",
    ),
]


@pytest.mark.parametrize(("make", "body", "text"), ERRORS)
def test_the_texts_of_errors(make: type, body: str, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        make()(program(AB + body))
    assert str(caught.value) == text


def test_a_gpu_program_touches_buffers_in_threads_only() -> None:
    inside = program(AB + f"    for i in {TX}:\n        B[i] = A[i]")
    outside = program(AB + "    for i in range(4):\n        B[i] = A[i]")
    mod = IRModule({"inside": inside, "outside": outside})
    assert t.VerifyMemory()(mod) is mod
    assert t.VerifyMemory()(t.BindTarget("llvm")(mod))["outside"]
    gpu = t.BindTarget("cuda")(mod)
    assert t.VerifyMemory()(gpu["inside"]) is gpu["inside"]
    with pytest.raises(VerifyError) as caught:
        t.VerifyMemory()(gpu)
    lines = str(caught.value).splitlines()
    assert lines[0] == (
        "VerifyMemory: main is for cuda, but B is touched outside of a loop bound to threads, "
        "where the host would run"
    )
    assert lines[-1].strip() == "^^^^ here"
