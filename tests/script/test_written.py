"""Tensor programs as people of the field write them: run, compared with numpy, printed, read back."""

# ruff: noqa: E501, F821 (programs as texts)

from __future__ import annotations

from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from smelt.ir import assert_structural_equal
from smelt.ir.errors import ParseError
from smelt.script import parse
from smelt.script import tir as T
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc

RNG = np.random.default_rng(7)


def program(text: str, **env: Any) -> PrimFunc:
    """The program of a text, which its printed form describes too."""
    func = parse(f"@T.prim_func\n{dedent(text).strip()}\n", env)
    assert isinstance(func, PrimFunc)
    assert_structural_equal(parse(func.script()), func)
    return func


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def zeros(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.zeros(shape, dtype)


def close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)


def test_matmul_with_brackets_and_letters() -> None:
    func = program(
        """
def matmul(A: T.Buffer[(8, 6), "float32"], B: T.Buffer[[6, 4], kind], C: T.Buffer[(8, 4)]) -> None:
    T.func_attr({"global_symbol": "mm", "tir.noalias": True})
    for i, j, k in T.grid(8, 4, T.int64(6)):
        with T.block("C"):
            vi, vj = T.axis.S(8, i), T.axis.S([0, 4], j)
            vk = T.axis.R(T.Range(0, 6), k)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]
    """,
        kind="float32",
    )
    a, b, c = floats(8, 6), floats(6, 4), zeros(8, 4)
    interpret(func, a, b, c)
    close(c, a @ b)
    for brackets, shape in (
        ("16", (16,)),
        ('16, "int8"', (16,)),
        ("(3, 4)", (3, 4)),
        ("[2, 2], t", (2, 2)),
    ):
        func = program(f"def f(A: T.Buffer[{brackets}]):\n    ...", t="int8")
        assert func.buffers[0].fixed_shape() == shape
        assert func.buffers[0].dtype == (
            "int8" if shape in ((16,), (2, 2)) and "," in brackets else "float32"
        )


SOFTMAX = """
def softmax(A: T.Buffer((5, 9), "float32"), B: T.Buffer((5, 9), "float32")):
    most = T.alloc_buffer([5], dtype="float32")
    total = T.alloc_buffer([5], dtype="float32")
    for i, k in T.grid(5, 9):
        with T.block():
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                most[vi] = T.min_value("float32")
            most[vi] = T.max(most[vi], A[vi, vk])
    for i, k in T.grid(5, 9):
        with T.block():
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] += T.exp(A[vi, vk] - most[vi], dtype="float32")
    for i, j in T.grid(5, 9):
        with T.block("norm"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.exp(A[vi, vj] - most[vi], dtype="float32")
    for i, j in T.grid(5, 9):
        with T.block("norm"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = B[vi, vj] / total[vi]
"""


def test_softmax_of_unnamed_and_equally_named_blocks() -> None:
    func = program(SOFTMAX)
    names = [line.split('"')[1] for line in func.script().splitlines() if "T.block(" in line]
    assert names == ["block", "block_1", "norm", "norm_1"]
    a, b = floats(5, 9), zeros(5, 9)
    interpret(func, a, b)
    e = np.exp(a - a.max(1, keepdims=True))
    close(b, e / e.sum(1, keepdims=True))


def test_layer_norm_whose_calls_say_their_types() -> None:
    func = program("""
def layer_norm(x: T.handle, g: T.handle, y: T.handle, eps: T.float32):
    m, n = T.int32(), T.int32()
    X = T.match_buffer(x, (m, n), "float32")
    G = T.match_buffer(g, (n,), "float32")
    Y = T.match_buffer(y, (m, n), "float32")
    S = T.alloc_buffer((m,), "float32")
    Q = T.alloc_buffer((m,), "float32")
    for i, k in T.grid(m, n):
        with T.block("sums"):
            vi, vk = T.axis.spatial(m, i), T.axis.reduce(n, k)
            T.reads(X[vi, vk])
            T.writes(S[vi], Q[vi])
            with T.init():
                S[vi] = T.float32(0)
                Q[vi] = T.float32(0)
            v_s: T.float32 = S[vi] + X[vi, vk]
            v_q: T.float32 = Q[vi] + X[vi, vk] * X[vi, vk]
            S[vi] = v_s
            Q[vi] = v_q
    for i, j in T.grid(m, n):
        with T.block("norm"):
            vi, vj = T.axis.remap("SS", [i, j])
            mean: T.float32 = S[vi] / T.cast(n, "float32")
            inv: T.float32 = T.rsqrt(Q[vi] / T.Cast("float32", n) - mean * mean + eps, dtype="float32")
            Y[vi, vj] = T.if_then_else(inv > T.float32(0), (X[vi, vj] - mean) * inv * G[vj], 0, dtype="float32")
    """)
    x, g, y = floats(4, 33), floats(33), zeros(4, 33)
    interpret(func, x, g, y, 1e-5)
    close(y, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g)


def test_a_type_said_again_is_checked() -> None:
    func = program("""
def f(A: T.Buffer((4,), "float32"), n: T.int32):
    A[0] = T.reinterpret(T.uint32(1065353216), dtype="float32")
    A[1] = T.cast(n, dtype="float32")
    A[2] = T.call_intrin("tir.exp", A[1], dtype="float32")
    A[3] = T.pow(A[1], T.float32(2), dtype="float32")
    """)
    a = zeros(4)
    interpret(func, a, 2)
    close(a, np.array([1, 2, np.exp(2), 4]))
    with pytest.raises(
        ParseError,
        match=r'(?s)T.exp gives a value of float32 here, not float16.*T.cast\("float16", ...\)',
    ):
        program('def f(A: T.Buffer((4,))):\n    A[0] = T.exp(A[0], dtype="float16")')


def test_loops_over_threads_and_data_with_numbers() -> None:
    func = program("""
def f(A: T.Buffer((4, 8), "float32")):
    for i in T.thread_binding(4, "blockIdx.x"):
        for j in T.thread_binding(0, 8, "threadIdx.x"):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"weights": [T.float32(1.5), T.float64(2), T.int64(3), T.bool(True)]})
                A[vi, vj] = T.float32(1)
                ...
    """)
    a = zeros(4, 8)
    interpret(func, a)
    assert a.all()
    assert 'thread="threadIdx.x"' in func.script()


SUMS = """
def sums(A: T.Buffer((3, 8), "float32"), B: T.Buffer((3,), "float32")):
    {head}
        S = T.allocate([8], "float32", "shared")
        S_1 = T.Buffer((8,), data=S, scope="shared")
        S_1[tx] = A[bx, tx]
        T.tvm_storage_sync("shared")
        if tx == 0:
            B[bx] = T.float32(0)
            for k in T.serial(0, 8):
                B[bx] = B[bx] + S_1[k]
"""
LAUNCHES = {
    "behind with": 'with T.launch_thread("blockIdx.x", 3) as bx, T.launch_thread("threadIdx.x", 8) as tx:',
    "bound": 'bx = T.launch_thread("blockIdx.x", 3)\n    tx = T.launch_thread("threadIdx.x", 8)\n    if flag:',
    "alone": """bx = T.env_thread("blockIdx.x")
    tx = T.env_thread("threadIdx.x")
    T.launch_thread(bx, 3)
    with T.launch_thread(tx, 8):""",
    "attributes": """tx = T.env_thread("threadIdx.x")
    bx = T.env_thread("blockIdx.x")
    T.attr(bx, "thread_extent", 3)
    with T.attr(tx, "thread_extent", T.int64(8)):""",
}


@pytest.mark.parametrize("way", LAUNCHES)
def test_threads_are_launched(way: str) -> None:
    loops = """for bx in T.thread_binding(3, thread="blockIdx.x"):
      for tx in T.thread_binding(8, thread="threadIdx.x"):"""
    func = program(SUMS.format(head=LAUNCHES[way]), flag=True)
    assert_structural_equal(func, program(SUMS.format(head=loops)))
    a, b = floats(3, 8), zeros(3)
    interpret(func, a, b)
    close(b, a.sum(1))


def test_threads_that_are_not_launched_and_other_notes() -> None:
    for body, message in (
        ('bx = T.env_thread("blockIdx.x"); A[bx] = 1.0', "got bx, a thread that is not launched"),
        ('T.launch_thread("blockIdx.x", 4)', r'tx = T.launch_thread\("blockIdx.x", extent\)'),
        ('T.attr(A.data, "align", 64)', r"(?s)states thread_extent.*, not align.*T.block_attr"),
    ):
        with pytest.raises(ParseError, match=message):
            program(f"def f(A: T.Buffer((4,))):\n    {body}")


def test_views_whose_layout_is_named() -> None:
    func = program("""
def f(a: T.handle, b: T.handle, n: T.int32):
    o0, n0 = T.int32(), T.int32()
    A = T.match_buffer(a, (4 * n, 16), "float32", None, None, o0, "global", 64, 1, "default", [])
    B = T.match_buffer(b, [4 * n, 16], dtype="float32", align=64, offset_factor=1, elem_offset=0)
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            s0, s1 = T.int32(), T.var("int32")
            start = T.var("int32")
            X = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:16], (4, 16), "float32", strides=[16, 1], offset_factor=16, scope="global")
            Y = T.match_buffer(B[vi * 4:vi * 4 + 4, 0:16], [4, 16], strides=[s0, s1], elem_offset=start, align=64)
            for j, k in T.grid(4, 16):
                Y[j, k] = X[j, k] + T.cast(start + s0 * 1000 + s1 + o0, "float32")
    """)
    a, b = floats(12, 16), zeros(12, 16)
    interpret(func, a, b, 3)
    close(b, a + 16001 + 64 * (np.arange(12)[:, None] // 4))


def test_lowered_programs_over_pointers() -> None:
    func = program("""
def main(a: T.handle("float32"), b: T.Ptr(T.float32, "global"), t: T.boolean, C: T.Buffer((4, 6), "float32")):
    T.func_attr({"tir.is_entry_func": True})
    A = T.Buffer((24,), "float32", data=a)
    B = T.decl_buffer((2, 12), "float32", data=b, align=64)
    C_1 = T.Buffer((24,), data=C.data)
    C_2 = T.decl_buffer([2, 3, 4], "float32", data=C.data)
    for i, j in T.grid(4, 6):
        C_1[i * 6 + j] = A[i * 6 + j] * B[i // 2, (i * 6 + j) % 12]
    for i, j, k in T.grid(2, 3, 4):
        C_2[i, j, k] += T.float32(1) if t else T.float32(2)
    """)
    a, b, c = floats(24), floats(2, 12), zeros(4, 6)
    interpret(func, a, b, True, c)
    close(c, (a * b.ravel() + 1).reshape(4, 6))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("T.match_buffer(A[0:4, 0:16], (4, 16), strides=[8, 1])", "has other strides.*legal: 16, or a var"),
        ("T.match_buffer(A[0:4, 0:16], (4, 16), strides=[1])", "X has 2 dimensions, 1 strides given"),
        ("T.match_buffer(A[0:4, 0:16], (4, 16), elem_offset=n)", "tells where it begins.*legal: 0, or a var"),
        ("T.match_buffer(A[n:n + 4, 0:16], (4, 16), elem_offset=0)", "begins.*legal: a variable that stands"),
        ("T.match_buffer(A[0:4, 0:16], (4, 16), scope='shared')", "A is in global memory"),
        ("T.match_buffer(A[0:4, 0:16], (4, 16), 'int8')", "A holds float32"),
        ("T.match_buffer(A[0:4, 0:16], (4, 16), 'float32', A.data)", "has the memory of its buffer"),
        ("T.match_buffer(h, (4,), elem_offset=8)", "begins at its first element.*legal: 0, or a variable"),
        ("T.Buffer((255,), data=A.data)", "X would see the memory of A in another size or type"),
        ("T.Buffer((256,), 'int32', data=A.data)", "or a dense buffer in another shape"),
    ],
)  # fmt: skip
def test_layouts_that_are_not_those_of_the_memory(statement: str, message: str) -> None:
    with pytest.raises(ParseError, match=f"(?s){message}"):
        program(f"def f(A: T.Buffer((16, 16)), n: T.int64, h: T.handle):\n    X = {statement}")


SCALE = 3.0


@T.macro
def scaled(Out, In, i, extent):  # type: ignore[no-untyped-def]
    with T.block("scaled"):
        v = T.axis.spatial(extent, i)
        x = In[v] * SCALE
        Out[v] = x


@T.macro(hygienic=True)
def both(Out, In):  # type: ignore[no-untyped-def]
    for i in range(8):
        scaled(Out, In, i, extent=8)


def test_macros_are_put_in_their_place() -> None:
    func = program(
        """
def f(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    x: T.float32 = 1.0
    both(B, A)
    both(In=B, Out=C)
    for i in T.vectorized(8):
        C[i] = C[i] + x
    """,
        both=both,
    )
    a, b, c = floats(8), zeros(8), zeros(8)
    interpret(func, a, b, c)
    close(b, a * 3)
    close(c, a * 9 + 1)


@T.macro
def wrong(A):  # type: ignore[no-untyped-def]
    A[0] = T.epx(hidden)  # type: ignore[name-defined]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("scaled(A)", r"not the parameters of the macro scaled\(Out, In, i, extent\)"),
        ("both(A, A, In=A)", r"not the parameters of the macro both\(Out, In\)"),
        ("wrong(A)", "test_written.py:.*there is no T.epx"),
        ("A[0] = both(A, A)", "the macro both"),
    ],
)  # fmt: skip
def test_macros_that_do_not_fit(call: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        program(
            f"def f(A: T.Buffer((8,))):\n    hidden = 1.0\n    {call}",
            scaled=scaled,
            both=both,
            wrong=wrong,
        )
    with pytest.raises(ParseError, match="hygienic=False"):
        T.macro(hygienic=False)


# ------------------------------------------------------------------- kernels of the field


def test_quantised_dense_with_fixed_point_scales() -> None:
    func = program("""
def dense(A: T.Buffer((3, 8), "int8"), W: T.Buffer((4, 8), "int8"), O: T.Buffer((3, 4), "uint8")):
    T.func_attr({"global_symbol": "qdense", "target": T.target({"kind": "llvm", "num-cores": 4})})
    acc = T.alloc_buffer((3, 4), "int32")
    for i, j, k in T.grid(3, 4, 8):
        with T.block("acc"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                acc[vi, vj] = T.int32(7)
            acc[vi, vj] = acc[vi, vj] + T.Cast("int32", A[vi, vk]) * W[vj, vk].astype("int32")
    for i, j in T.grid(3, 4):
        with T.block("requantise"):
            vi, vj = T.axis.remap("SS", [i, j])
            q: T.int32 = T.q_multiply_shift(acc[vi, vj], T.int32(1518500250), 31, -8, dtype="int32")
            O[vi, vj] = T.cast(T.max(T.min(q + 100, 255), 0), "uint8")
    """)
    assert func.attrs["target"] == {"kind": "llvm", "num-cores": 4}
    a, w = [RNG.integers(-128, 128, s).astype("int8") for s in ((3, 8), (4, 8))]
    o = zeros(3, 4, dtype="uint8")
    interpret(func, a, w, o)
    wide = (a.astype("int64") @ w.T.astype("int64") + 7) * 1518500250
    np.testing.assert_array_equal(o, np.clip(((wide + (1 << 38)) >> 39) + 100, 0, 255))


def test_sparse_rows_times_dense() -> None:
    func = program("""
def csrmm(a: T.handle, b: T.handle, c: T.handle, indptr: T.handle, indices: T.handle, m: T.int32, k: T.int32):
    nnz = T.var("int32")
    A = T.match_buffer(a, (nnz,), "float32")
    B = T.match_buffer(b, (k, 4), "float32")
    C = T.match_buffer(c, (m, 4), "float32")
    P = T.match_buffer(indptr, (m + 1,), "int32")
    I = T.match_buffer(indices, (nnz,), "int32")
    for i, f in T.grid(m, 4):
        with T.block("row"):
            vi, vf = T.axis.remap("SS", [i, f])
            T.reads([A[0:nnz], B[0:k, vf], P[vi:vi + 2], I[0:nnz]])
            T.writes([C[vi, vf]])
            C[vi, vf] = T.float32(0)
            for j in T.serial(0, P[vi + 1] - P[vi]):
                with T.block("sum"):
                    vj = T.axis.reduce(P[vi + 1] - P[vi], j)
                    C[vi, vf] = C[vi, vf] + A[P[vi] + vj] * B[I[P[vi] + vj], vf]
    """)
    dense = floats(5, 6) * (RNG.random((5, 6)) < 0.4).astype("float32")
    rows, columns = np.nonzero(dense)
    p = np.searchsorted(rows, np.arange(6)).astype("int32")
    b, c = floats(6, 4), zeros(5, 4)
    interpret(func, dense[rows, columns], b, c, p, columns.astype("int32"), 5, 6)
    close(c, dense @ b)


def test_attention_of_one_head() -> None:
    func = program(
        """
def attention(Q: T.Buffer((n, d)), K: T.Buffer((n, d)), V: T.Buffer((n, d)), O: T.Buffer((n, d))):
    S = T.alloc_buffer((n, n))
    E = T.alloc_buffer((n,))
    for i, j, k in T.grid(n, n, d):
        with T.block("scores"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                S[vi, vj] = 0
            S[vi, vj] += Q[vi, vk] * K[vj, vk] * scale
    for i, j in T.grid(n, n):
        with T.block("causal"):
            vi, vj = T.axis.remap("SS", [i, j])
            S[vi, vj] = T.exp(S[vi, vj]) if 0 <= vj <= vi else T.float32(0)
    for i, j in T.grid(n, n):
        with T.block("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                E[vi] = 0.0
            E[vi] += S[vi, vj]
    for i, k, j in T.grid(n, d, n):
        with T.block("out"):
            vi, vk, vj = T.axis.remap("SSR", [i, k, j])
            with T.init():
                O[vi, vk] = 0.0
            O[vi, vk] += S[vi, vj] / E[vi] * V[vj, vk]
    """,
        n=6,
        d=4,
        scale=4**-0.5,
    )
    q, k, v, o = floats(6, 4), floats(6, 4), floats(6, 4), zeros(6, 4)
    interpret(func, q, k, v, o)
    e = np.tril(np.exp(q @ k.T / 2))
    close(o, e / e.sum(1, keepdims=True) @ v)


def test_convolution_padded_by_a_choice() -> None:
    func = program("""
def conv(X: T.Buffer((1, 2, 6, 6)), W: T.Buffer((3, 2, 3, 3)), Y: T.Buffer((1, 3, 3, 3))):
    P = T.alloc_buffer([1, 2, 8, 8], dtype="float32")
    for i0, i1, i2, i3 in T.grid(1, 2, 8, 8):
        with T.block("pad"):
            n, c, h, w = T.axis.remap("SSSS", [i0, i1, i2, i3])
            P[n, c, h, w] = T.if_then_else(1 <= h and h < 7 and 1 <= w and w < 7, X[n, c, h - 1, w - 1], T.float32(0), dtype="float32")
    for nn, ff, yy, xx, rc, ry, rx in T.grid(1, 3, 3, 3, 2, 3, 3):
        with T.block("conv"):
            n, f, y, x, c, dy, dx = T.axis.remap("SSSSRRR", [nn, ff, yy, xx, rc, ry, rx])
            with T.init():
                Y[n, f, y, x] = T.float32(0)
            Y[n, f, y, x] = Y[n, f, y, x] + P[n, c, y * 2 + dy, x * 2 + dx] * W[f, c, dy, dx]
    """)
    x, w, y = floats(1, 2, 6, 6), floats(3, 2, 3, 3), zeros(1, 3, 3, 3)
    interpret(func, x, w, y)
    p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(p, (3, 3), (2, 3))[:, :, ::2, ::2]
    close(y, np.einsum("nchwij,fcij->nfhw", windows, w))


def test_gather_and_a_search_by_while() -> None:
    func = program("""
def f(K: T.Buffer[(8,), "int32"], Q: T.Buffer[(5,), "int32"], V: T.Buffer[(8, 2), "float32"], O: T.Buffer[(5, 2), "float32"]):
    low = T.alloc_buffer((1,), "int32", scope="local")
    high = T.alloc_buffer((1,), "int32", None, None, None, "local")
    for i in T.serial(T.int32(5), annotations=None):
        low[0] = 0
        high[0] = 8
        while low[0] < high[0]:
            middle: T.let[T.int32] = (low[0] + high[0]) // 2
            if K[middle] < Q[i]:
                low[0] = middle + 1
            elif not K[middle] < Q[i]:
                high[0] = middle
            else:
                ...
        for j in T.vectorized(2):
            O[i, j] = V[T.min(low[0], 7), j] if low[0] < 8 else T.float32("-inf")
    """)
    keys = np.arange(0, 24, 3, dtype="int32")
    q, v, o = np.array([0, 4, 21, 22, -3], "int32"), floats(8, 2), zeros(5, 2)
    interpret(func, keys, q, v, o)
    place = np.searchsorted(keys, q)
    close(o, np.where(place[:, None] < 8, v[np.minimum(place, 7)], -np.inf))


def test_arg_max_that_keeps_two_results() -> None:
    func = program("""
def argmax(val: T.Buffer((4, 9), "float32"), idx: T.Buffer(4, "int32"), most: T.Buffer(4, "float32")):
    for i0, i1_0, i1_1 in T.grid(4, 3, 4):
        with T.block("argmax"):
            T.where(i1_0 * 4 + i1_1 < 9)
            i = T.axis.S(4, i0)
            k = T.axis.R(9, i1_0 * 4 + i1_1)
            with T.init():
                idx[i] = -1
                most[i] = T.min_value("float32")
            v_idx: T.int32 = T.Select(most[i] >= val[i, k], idx[i], T.cast(k, "int32"))
            v_most: T.float32 = T.Select(most[i] >= val[i, k], most[i], val[i, k])
            idx[i] = v_idx
            most[i] = v_most
    """)
    val, idx, most = floats(4, 9), zeros(4, dtype="int32"), zeros(4)
    interpret(func, val, idx, most)
    np.testing.assert_array_equal(idx, val.argmax(1))
    close(most, val.max(1))


def test_a_prefix_sum_over_a_flattened_buffer() -> None:
    func = program("""
def scan(A: T.Buffer((2, 6), "int64"), B: T.Buffer((2, 6), "int64")):
    B_1 = T.buffer_decl([12], dtype="int64", data=B.data)
    for i in T.parallel(2):
        for k in range(6):
            with T.block("scan"):
                vi = T.axis.spatial(2, i)
                vk = T.axis.opaque(6, k)
                T.reads(A[vi, vk], B[vi, T.max(vk - 1, 0)])
                T.writes(B[vi, vk])
                B[vi, vk] = A[vi, vk] + (B[vi, T.max(vk - 1, 0)] if vk > 0 else T.int64(0))
    for k in T.unroll(12):
        B_1[k] <<= 1
    """)
    a, b = np.arange(12).reshape(2, 6), zeros(2, 6, dtype="int64")
    interpret(func, a, b)
    np.testing.assert_array_equal(b, a.cumsum(1) * 2)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("Module.other(A)", "(?s)a program calls no other program.*R.call_tir"),
        ("v = T.axis.scan(4, 0)", "(?s)smelt has no T.axis.scan.*T.axis.opaque"),
        ("A[0] = T.undef()", r"(?s)T.undef: dtype must be given.*T.undef\(dtype\)"),
        ("T.store(A.data, 0, 1.0)", r"(?s)smelt has no T.store.*A\[i\] = value"),
        ("x = T.alloc_local((4,))", '(?s)no T.alloc_local.*scope="local"'),
    ],
)  # fmt: skip
def test_what_is_refused_says_what_to_write(body: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        program(f"def f(A: T.Buffer((4,))):\n    {body}")


def test_types_of_parameters_exist_in_python() -> None:
    for note in (T.Buffer[(16,), "float32"], T.Ptr("float32"), T.boolean, T.handle("float32")):
        assert repr(note).startswith("T.")
