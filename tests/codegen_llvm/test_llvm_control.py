"""Control flow: loops, branches, bindings, local memory, parallel tasks, assertions."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from smelt.codegen.llvm import link_in_process
from smelt.codegen.llvm_text import emit_module
from smelt.ir.errors import InternalError
from smelt.ir.expr import INDEX, Add, Call, Expr, FloatImm, Mul, StringImm, Var, const
from smelt.tir.nodes import Buffer, BufferStore, Evaluate, For, PrimFunc, seq
from smelt.tir.parser import parse

from .build import _PROBE, BACKWARDS, Host, agree, compiler, flat, run_llvm
from .test_llvm_vectors import ints

HEAD = 'def f(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32"), n: T.int64):\n'


@pytest.mark.parametrize("n", [-2, 0, 1, 5])
def test_bounds_known_at_run_time(n: int) -> None:
    agree(
        HEAD + "    for i in range(n):\n        for j in range(i, n + 2):\n"
        "            B[i * 6 + j] = A[i + j]\n    for i in range(n - 3, 3):\n"
        "        B[30 + i] = A[i + 10]\n",
        ints(40),
        ints(40, seed=1),
        n,
    )


def test_loops_that_begin_below_zero() -> None:
    agree(
        HEAD + "    for i in range(-3, 4):\n        B[i + 3] = A[i * i]\n"
        "    for i in range(-3, -1):\n        B[T.truncdiv(i, 2) + 9] = A[i + 3]\n",
        ints(40),
        ints(40, seed=1),
        3,
    )


def test_while_loops() -> None:
    agree(
        'def f(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):\n'
        "    for i in range(9):\n        while A[i] > B[i]:\n            B[i] = B[i] + 3\n"
        "            while A[i] > 30:\n                A[i] = A[i] - 7\n",
        ints(9, "int32"),
        ints(9, "int32", 1),
    )


def test_values_are_forgotten_when_memory_changes() -> None:
    agree(
        HEAD
        + "    B[0] = A[0]\n    A[0] = A[0] + 1.0\n    B[1] = A[0]\n"
        "    for i in range(n):\n        A[0] = A[0] + A[i]\n    B[2] = A[0]\n"
        "    if A[0] > 0.0:\n        A[0] = 5.0\n    else:\n        A[0] = 6.0\n    B[3] = A[0]\n"
        "    x: T.float32 = A[0]\n    A[0] = 1.0\n    B[4] = x + A[0]\n"
        "    for i in range(n):\n        A[A_I[i]] = x\n".replace("A_I[i]", "i + 1"),
        ints(40),
        ints(40, seed=1),
        4,
    )


def test_local_memory() -> None:
    agree(
        HEAD
        + "    t = T.allocate((8,), scope='local')\n    for i in range(8):\n"
        "        t[i] = A[i] * 2.0\n    for i in range(n):\n        u = T.allocate((2, 3))\n"
        "        for j, k in T.grid(2, 3):\n            u[j, k] = A[i + j * 3 + k]\n"
        "        B[i] = u[1, 2] + t[7 - i]\n".replace("'", '"'),
        ints(40),
        ints(40, seed=1),
        6,
    )


@pytest.mark.parametrize("n", [0, 1, 5])
def test_parallel_loops_take_what_they_need_with_them(n: int) -> None:
    agree(
        'def f(A: T.Buffer((40,), "float32"), F: T.Buffer((40,), "bool"),'
        ' B: T.Buffer((40,), "float32"), n: T.int64, x: T.float32, k: T.int32):\n'
        '    t = T.allocate((8,), scope="local")\n'
        "    for i in range(8):\n        t[i] = A[i] + x\n"
        "    y: T.float32 = t[3]\n    b: T.bool = n > 2\n"
        "    for o in T.parallel(2, n + 2):\n"
        "        u = T.allocate((2,))\n        u[0] = t[o] * y\n        u[1] = x\n"
        "        for i in T.vectorized(4):\n"
        "            if F[o * 4 + i] and b:\n"
        '                B[o * 4 + i] = u[0] + u[1] + T.cast("float32", k)\n'
        "        for p in T.parallel(2):\n            B[32 + p * 4 + o % 4] = y\n"
        "    B[39] = t[0]\n",
        ints(40),
        ints(40, "int8") > 0,
        ints(40, seed=1),
        n,
        0.5,
        -7,
    )


def test_a_failed_assertion_is_a_status() -> None:
    func = flat(parse('def f(n: T.int64):\n    assert n > 3, "n is small"\n'))
    assert (run_llvm(func, 4), run_llvm(func, 3)) == (0, 3)


def test_a_failed_assertion_in_a_task_ends_the_program() -> None:
    func = flat(
        parse(
            'def f(A: T.Buffer((8,), "float32"), n: T.int64):\n    for i in T.parallel(8):\n'
            "        for j in range(2):\n"
            '            assert i < n, "too many"\n        A[i] = 1.0\n    A[0] = 2.0\n'
        )
    )
    a = np.zeros(8, "float32")
    assert run_llvm(func, a, 5, ordered=True) == 3
    np.testing.assert_array_equal(a, [1, 1, 1, 1, 1, 0, 0, 0])
    assert run_llvm(func, a, 8) == 0
    assert a[0] == 2


def test_a_thousand_statements() -> None:
    stores = "".join([f"    B[{i % 40}] = B[{(i * 7) % 40}] * 0.5\n" for i in range(1000)])
    agree(HEAD + stores, ints(40), ints(40), 5)


@pytest.mark.parametrize("fused", [False, True])
def test_a_chain_of_operations_longer_than_the_stack(fused: bool) -> None:
    a, b = (Buffer(n, (const(40),)) for n in "AB")
    e: Expr = a[0]
    for k in range(700):
        e = Add(e, Mul(a[k % 40], FloatImm("float32", 0.125))) if fused else Add(e, a[k % 40])
    func = PrimFunc((a, b), BufferStore(b, e, (const(0),)), {"name": "f"})
    given = [ints(40), ints(40)]
    assert run_llvm(func, *given) == 0
    total = np.float32(given[0][0])
    for k in range(700):
        total += given[0][k % 40] * np.float32(0.125 if fused else 1)
    assert given[1][0] == total


def test_integers_of_32_bits_as_sizes() -> None:
    agree(
        'def f(A: T.Buffer((9,), "int8"), n: T.int32):\n    for i in range(9):\n'
        '        A[i] = T.cast("int8", T.cast("int32", A[i]) * n + T.cast("int32", i))\n',
        ints(9, "int8"),
        -3,
    )


# ---------------------------------------------------------------------------------- host programs


def test_kernels_called_and_probed() -> None:
    kernel = flat(
        parse('def add(A: T.Buffer((4,), "float32"), n: T.int64):\n    A[0] = A[0] + 1.0\n'
              '    assert n < 2, "enough"\n')
    )  # fmt: skip
    base, i = Var("base", "handle"), Var("i", INDEX)

    def probe(end: int) -> Evaluate:
        return Evaluate(Call("int32", "smelt.probe", (const(7), const(end, "int32"))))

    view = Call("handle", "smelt.tensor_view", (base, const(4)))
    call = Evaluate(Call("int32", "smelt.call_kernel", (StringImm("add"), view, i)))
    body = For(i, const(0), const(5), seq(probe(0), call, probe(1)))
    host = PrimFunc((base,), body, {"name": "host"})
    code = compiler().object(emit_module([kernel, host]).replace(_declared(kernel), ""), "host")
    addresses, keep = link_in_process([code], ["host"])
    seen: list[Any] = []

    def note(sink: int, number: int, end: int) -> int:
        seen.append((sink, number, end))
        return 0

    hook = _PROBE(note)
    services = Host(None, BACKWARDS, 99, ctypes.cast(hook, ctypes.c_void_p))
    a = np.zeros(5, "float32")
    run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(addresses["host"])
    assert run(ctypes.addressof(services), a.ctypes.data) == 3
    np.testing.assert_array_equal(a, [0, 3, 0, 0, 0])
    assert seen == [(99, 7, 0), (99, 7, 1), (99, 7, 0), (99, 7, 1), (99, 7, 0)]
    del keep


def _declared(func: PrimFunc) -> str:
    """The declaration of a kernel that the same module defines."""
    kinds = ["ptr" if p in func.buffers else "i64" for p in func.params]
    return f'declare i32 @"{func.name}"({", ".join(["ptr", *kinds])})\n'


# ------------------------------------------------------------------------------------------ errors


def test_what_has_no_code_is_an_internal_error() -> None:
    two = parse('def f(A: T.Buffer((4, 4), "float32")):\n    A[1, 2] = 1.0\n')
    with pytest.raises(InternalError, match="one index"):
        emit_module([two])
    size = parse("def f(n: T.int64):\n    t = T.allocate((n,))\n    t[0] = 1.0\n")
    with pytest.raises(InternalError, match="size of t is not known"):
        emit_module([size])
    strange = PrimFunc((), Evaluate(Call("int32", "strange", ())), {"name": "f"})
    with pytest.raises(InternalError, match="no code for the intrinsic strange"):
        emit_module([strange])
    with pytest.raises(InternalError, match="LLVM refuses"):
        compiler().object("define i32 @f() { ret i32 %x }", "f")
