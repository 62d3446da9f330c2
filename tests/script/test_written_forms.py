"""Programs in the spellings of many years: lowered and scheduled texts, modules, macros, threads."""

# ruff: noqa: E501 (programs as texts)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir import IRModule, assert_structural_equal
from smelt.ir.errors import CompileError, ParseError
from smelt.script import parse
from smelt.script import tir as T
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc

from .support import RNG, agrees, floats, ints, kernel, zeros


def test_vectors_of_a_lowered_program() -> None:
    func = kernel("""
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    T.func_attr({"from_legacy_te_schedule": T.bool(True), "global_symbol": "main", "tir.noalias": T.bool(True)})
    for i0 in T.parallel(4):
        cse_var_1: T.int32 = i0 * 16
        C_1 = T.allocate([16], "float32", "global")
        C_2 = T.Buffer((16,), data=C_1, align=64)
        C_2[0:16] = T.Broadcast(T.float32(0.0), 16)
        for k in range(2):
            for i1 in T.unroll(2):
                cse_var_2: T.int32 = i1 * 8
                C_2[cse_var_2:cse_var_2 + 8] = C_2[cse_var_2:cse_var_2 + 8] + A[cse_var_1 + cse_var_2:cse_var_1 + cse_var_2 + 8] * T.broadcast(B[k], 8)
        C[T.ramp(cse_var_1, 1, 16)] = T.max(C_2[T.Ramp(0, 1, 16)], T.Broadcast(T.float32(0), 16))
    """)
    a, b = floats(64), floats(64)
    agrees(func, [a, b, zeros(64)], np.maximum(a * (b[0] + b[1]), 0))


def test_a_kernel_launched_by_attributes() -> None:
    func = kernel("""
def vecadd(A: T.Buffer((37,), "float32"), B: T.Buffer((37,), "float32")):
    blockIdx_x = T.env_thread("blockIdx.x")
    threadIdx_x = T.env_thread("threadIdx.x")
    T.func_attr({"calling_conv": 2, "target": T.target({"arch": "sm_80", "keys": ["cuda", "gpu"], "kind": "cuda", "max_num_threads": 1024, "tag": "", "thread_warp_size": 32})})
    T.attr(blockIdx_x, "thread_extent", 5)
    S = T.allocate([8], "float32", "shared")
    S_1 = T.Buffer((8,), data=S, scope="shared")
    T.attr(threadIdx_x, "thread_extent", 8)
    if T.likely(blockIdx_x * 8 + threadIdx_x < 37):
        S_1[threadIdx_x] = A[blockIdx_x * 8 + threadIdx_x]
    T.tvm_storage_sync("shared")
    if T.likely(blockIdx_x * 8 + threadIdx_x < 37):
        B[blockIdx_x * 8 + threadIdx_x] = S_1[threadIdx_x] + T.if_then_else(0 < threadIdx_x, S_1[T.max(threadIdx_x - 1, 0)], T.float32(0))
    """)
    a = floats(37)
    left = np.where(np.arange(37) % 8 == 0, 0, np.roll(a, 1)).astype("float32")
    agrees(func, [a, zeros(37)], a + left, native=False)


def test_products_of_a_warp() -> None:
    func = kernel("""
def reduce_rows(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4,), "float32")):
    with T.block("root"):
        S = T.alloc_buffer((4, 32), scope="shared")
        for i in T.thread_binding(4, thread="blockIdx.x"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("load"):
                    vi, vt = T.axis.remap("SS", [i, t])
                    S[vi, vt] = A[vi, vt] * A[vi, vt]
            for t in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("sum"):
                    vi, vt = T.axis.remap("SR", [i, t])
                    T.reads(S[vi, vt])
                    T.writes(B[vi])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + S[vi, vt]
    """)
    a = floats(4, 32)
    agrees(func, [a, zeros(4)], (a * a).sum(1), native=False)


def test_a_step_of_a_recurrent_cell() -> None:
    func = kernel("""
def lstm(x: T.Buffer((6, 8), "float32"), w: T.Buffer((4, 8, 4), "float32"), u: T.Buffer((4, 4, 4), "float32"), h: T.Buffer((7, 4), "float32"), c: T.Buffer((7, 4), "float32")):
    T.func_attr({"tir.noalias": True})
    for t in T.serial(6):
        with T.block("step"):
            vt = T.axis.opaque(6, t)
            T.reads(x[vt, 0:8], w[0:4, 0:8, 0:4], u[0:4, 0:4, 0:4], h[vt, 0:4], c[vt, 0:4])
            T.writes(h[vt + 1, 0:4], c[vt + 1, 0:4])
            gates = T.alloc_buffer((4, 4))
            for g, j in T.grid(4, 4):
                gates[g, j] = T.float32(0)
                for k in T.serial(8):
                    gates[g, j] = gates[g, j] + x[vt, k] * w[g, k, j]
                for k in T.serial(4):
                    gates[g, j] = gates[g, j] + h[vt, k] * u[g, k, j]
            for j in T.vectorized(4):
                new: T.float32 = T.sigmoid(gates[1, j], dtype="float32") * c[vt, j] + T.sigmoid(gates[0, j]) * T.tanh(gates[2, j], dtype="float32")
                c[vt + 1, j] = new
                h[vt + 1, j] = T.sigmoid(gates[3, j]) * T.tanh(new)
    """)
    x, w, u = floats(6, 8), floats(4, 8, 4), floats(4, 4, 4)
    h, c = zeros(7, 4), zeros(7, 4)
    hs, cs = h.copy(), c.copy()

    def sigmoid(v: Any) -> Any:
        return 1 / (1 + np.exp(-v))

    for t in range(6):
        i, f, g, o = np.einsum("k,gkj->gj", x[t], w) + np.einsum("k,gkj->gj", hs[t], u)
        cs[t + 1] = sigmoid(f) * cs[t] + sigmoid(i) * np.tanh(g)
        hs[t + 1] = sigmoid(o) * np.tanh(cs[t + 1])
    agrees(func, [x, w, u, h, c], hs, cs)


def test_pooling_with_bounds_of_types() -> None:
    func = kernel("""
def pool(x: T.Buffer((1, 2, 5, 5), "int8"), top: T.Buffer((1, 2, 3, 3), "int8"), low: T.Buffer((1, 2, 3, 3), "int8")):
    pad = T.alloc_buffer((1, 2, 7, 7), "int8")
    for i0, i1, i2, i3 in T.grid(1, 2, 7, 7):
        with T.block("pad_temp"):
            a, b, c, d = T.axis.remap("SSSS", [i0, i1, i2, i3])
            pad[a, b, c, d] = T.if_then_else(1 <= c and c < 6 and 1 <= d and d < 6, x[a, b, c - 1, d - 1], T.min_value("int8"), dtype="int8")
    for i0, i1, i2, i3, i4, i5 in T.grid(1, 2, 3, 3, 3, 3):
        with T.block("pool_max"):
            a, b, c, d, rv0, rv1 = T.axis.remap("SSSSRR", [i0, i1, i2, i3, i4, i5])
            T.block_attr({"schedule_rule": "meta_schedule.pool_max"})
            with T.init():
                top[a, b, c, d] = T.int8(-128)
                low[a, b, c, d] = T.max_value("int8")
            top[a, b, c, d] = T.max(top[a, b, c, d], pad[a, b, c * 2 + rv0, d * 2 + rv1])
            low[a, b, c, d] = T.min(low[a, b, c, d], pad[a, b, c * 2 + rv0, d * 2 + rv1])
    """)
    x = ints(-128, 128, 1, 2, 5, 5, dtype="int8")
    p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-128)
    w = np.lib.stride_tricks.sliding_window_view(p, (3, 3), (2, 3))[:, :, ::2, ::2]
    out = zeros(1, 2, 3, 3, dtype="int8")
    agrees(func, [x, out, out], w.max((4, 5)), w.min((4, 5)))


def test_joined_and_turned_arrays() -> None:
    func = kernel("""
def concat_transpose(p0: T.Buffer[(2, 3), "float32"], p1: T.Buffer[(2, 4), "float32"], T_transpose: T.Buffer[(7, 2), "float32"], arange: T.Buffer[7, "int32"]):
    T.func_attr({"tir.noalias": True})
    T_concat = T.alloc_buffer([2, 7], dtype="float32")
    for i0, i1 in T.grid(2, 7):
        with T.block("T_concat"):
            ax0, ax1 = T.axis.remap("SS", [i0, i1])
            T.reads(p1[ax0, ax1 - 3], p0[ax0, ax1])
            T.writes(T_concat[ax0, ax1])
            T_concat[ax0, ax1] = T.if_then_else(3 <= ax1, p1[ax0, ax1 - 3], p0[ax0, ax1], dtype="float32")
    for i0, i1 in T.grid(7, 2):
        with T.block("T_transpose"):
            ax0, ax1 = T.axis.remap("SS", [i0, i1])
            T_transpose[ax0, ax1] = T_concat[ax1, ax0]
    for i0 in T.serial(7):
        with T.block("T_arange"):
            ax0 = T.axis.spatial(7, i0)
            arange[ax0] = ax0 * 3 + 1
    """)
    a, b = floats(2, 3), floats(2, 4)
    args = [a, b, zeros(7, 2), zeros(7, dtype="int32")]
    agrees(func, args, np.concatenate([a, b], 1).T, np.arange(1, 22, 3))


def test_a_picture_made_larger() -> None:
    func = kernel("""
def resize(x: T.Buffer((1, 1, 4, 4), "float32"), y: T.Buffer((1, 1, 7, 9), "float32")):
    for i0, i1, i2, i3 in T.grid(1, 1, 7, 9):
        with T.block("resize"):
            a, b, h, w = T.axis.remap("SSSS", [i0, i1, i2, i3])
            fy: T.float32 = (T.Cast("float32", h) + T.float32(0.5)) * T.float32(0.5714285714285714) - T.float32(0.5)
            fx: T.float32 = (T.cast(w, "float32") + T.float32(0.5)) * T.float32(0.4444444444444444) - T.float32(0.5)
            iy: T.int32 = T.Cast("int32", T.floor(fy, dtype="float32"))
            ix: T.int32 = T.Cast("int32", T.floor(fx, dtype="float32"))
            dy: T.float32 = fy - T.Cast("float32", iy)
            dx: T.float32 = fx - T.Cast("float32", ix)
            y[a, b, h, w] = (x[a, b, T.max(T.min(iy, 3), 0), T.max(T.min(ix, 3), 0)] * (T.float32(1) - dx) + x[a, b, T.max(T.min(iy, 3), 0), T.max(T.min(ix + 1, 3), 0)] * dx) * (T.float32(1) - dy) + (x[a, b, T.max(T.min(iy + 1, 3), 0), T.max(T.min(ix, 3), 0)] * (T.float32(1) - dx) + x[a, b, T.max(T.min(iy + 1, 3), 0), T.max(T.min(ix + 1, 3), 0)] * dx) * dy
    """)
    x = floats(1, 1, 4, 4)

    def weights(out: int) -> np.ndarray:
        at = (np.arange(out) + 0.5) * (4 / out) - 0.5
        lo = np.floor(at).astype(int)
        m = np.zeros((out, 4))
        for r, (first, f) in enumerate(zip(lo, at - lo, strict=True)):
            m[r, np.clip(first, 0, 3)] += 1 - f
            m[r, np.clip(first + 1, 0, 3)] += f
        return m

    agrees(func, [x, zeros(1, 1, 7, 9)], (weights(7) @ x[0, 0] @ weights(9).T)[None, None])


def test_boxes_that_do_not_overlap() -> None:
    func = kernel("""
def nms(boxes: T.Buffer((8, 2), "float32"), keep: T.Buffer((8,), "bool"), count: T.Buffer((), "int32")):
    for i in T.serial(8):
        keep[i] = T.bool(True)
    count[()] = 0
    for i in T.serial(8):
        with T.block("nms"):
            vi = T.axis.opaque(8, i)
            T.reads(boxes[0:8, 0:2], keep[0:8], count[()])
            T.writes(keep[0:8], count[()])
            if keep[vi]:
                count[()] = count[()] + 1
                for j in T.serial(8 - vi - 1):
                    if keep[vi + 1 + j] and T.min(boxes[vi, 1], boxes[vi + 1 + j, 1]) - T.max(boxes[vi, 0], boxes[vi + 1 + j, 0]) > T.float32(0.25):
                        keep[vi + 1 + j] = T.bool(False)
    """)
    low = np.abs(floats(8))
    boxes = np.stack([low, low + 0.6], 1).astype("float32")
    keep: list[bool] = []
    for i in range(8):
        keep.append(
            all(
                not keep[j]
                or min(boxes[i, 1], boxes[j, 1]) - max(boxes[i, 0], boxes[j, 0]) <= np.float32(0.25)
                for j in range(i)
            )
        )
    args = [boxes, zeros(8, dtype="bool"), np.zeros((), "int32")]
    agrees(func, args, np.array(keep), np.array(sum(keep)))


def test_values_that_are_let_in_every_way() -> None:
    func = kernel("""
def lets(A: T.Buffer((4, 4), "float32")):
    for i in T.serial(4):
        x = T.meta_var(i * 2)
        with T.LetStmt(A[i, 0] * T.float32(2)) as y:
            A[i, 1] = y
        z = T.float32()
        with T.let(z, A[i, 1] + T.float32(1)):
            A[i, 2] = z * z
        w = T.float32()
        A[i, 3] = T.Let(w + w, where={w: T.Cast("float32", x)})
    """)
    a = floats(4, 4)
    y = a[:, 0] * 2
    expected = np.stack([a[:, 0], y, (y + 1) ** 2, np.arange(4) * 4], 1)
    agrees(func, [a], expected)


def test_a_sum_by_factors() -> None:
    func = kernel("""
def rfactored(A: T.Buffer[(4, 30), "float32"], B: T.Buffer[(4,), "float32"]) -> None:
    # function attr dict
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    # body
    # with T.block("root")
    B_rf = T.alloc_buffer([4, 8], dtype="float32")
    for i0, i1_0 in T.grid(4, 4):
        for i1_1 in T.vectorized(8):
            with T.block("B_rf"):
                vi1_1, i, vi1_0 = T.axis.remap("SSR", [i1_1, i0, i1_0])
                T.where(i1_0 * 8 + i1_1 < 30)
                T.reads(A[i, vi1_0 * 8 + vi1_1])
                T.writes(B_rf[i, vi1_1])
                with T.init():
                    B_rf[i, vi1_1] = T.float32(0)
                B_rf[i, vi1_1] = B_rf[i, vi1_1] + A[i, vi1_0 * 8 + vi1_1]
    for i0, i1_1 in T.grid(4, 8):
        with T.block("B"):
            vi1_1, i = T.axis.remap("RS", [i1_1, i0])
            with T.init():
                B[i] = T.float32(0)
            B[i] = B[i] + B_rf[i, vi1_1]
    """)
    a = floats(4, 30)
    agrees(func, [a, zeros(4)], a.sum(1))


MODULE = """
# from tvm.script import ir as I
# from tvm.script import tir as T

@I.ir_module
class Module:
    I.module_attrs({"runtime": None})
    @T.prim_func
    def scale(a: T.handle, b: T.handle):
        # function attr dict
        T.func_attr({"global_symbol": "scale", "tir.noalias": True})
        n = T.var("int32")
        A = T.match_buffer(a, [n], dtype="float32")
        B = T.match_buffer(b, [n], dtype="float32")
        # body
        # with T.block("root")
        for i0 in T.serial(n):
            with T.block("B"):
                i = T.axis.spatial(n, i0)
                T.reads(A[i])
                T.writes(B[i])
                B[i] = A[i] * T.float32(2)

    @T.prim_func(private=True)
    def total(A: T.Buffer((16,), "float32"), B: T.Buffer((1,), "float32")):
        for k in range(16):
            with T.block("B"):
                vk = T.axis.reduce(16, k)
                with T.init():
                    B[0] = 0.0
                B[0] = B[0] + A[vk]
"""


def test_a_module_of_two_programs() -> None:
    mod = parse(MODULE)
    assert isinstance(mod, IRModule)
    scale, total = mod["scale"], mod["total"]
    assert isinstance(scale, PrimFunc)
    assert isinstance(total, PrimFunc)
    assert_structural_equal(parse(mod.script()), mod)
    built = smelt.build(mod)
    a, b, c = floats(16), zeros(16), zeros(1)
    built["scale"](a, b)
    built["total"](b, c)
    np.testing.assert_allclose(c[0], a.sum() * 2, rtol=1e-4, atol=1e-5)
    interpret(scale, a, b)
    interpret(total, b, c)
    np.testing.assert_allclose(c[0], a.sum() * 2, rtol=1e-4, atol=1e-5)


@T.macro
def butterfly(A, i, j):  # type: ignore[no-untyped-def]
    lo = T.min(A[i], A[j])
    hi = T.max(A[i], A[j])
    A[i] = lo
    A[j] = hi


@T.macro
def stage(A, n, first, step):  # type: ignore[no-untyped-def]
    for p in T.serial((n - first + step - 1) // step):
        if p * step + first + 1 < n:
            butterfly(A, p * step + first, p * step + first + 1)


def test_a_sorting_network_of_macros() -> None:
    func = kernel(
        """
def odd_even_sort(A: T.Buffer((9,), "int32")):
    for r in T.serial(9):
        stage(A, 9, 0, 2)
        stage(A, 9, first=1, step=2)
    """,
        stage=stage,
    )
    a = ints(-50, 50, 9)
    agrees(func, [a], np.sort(a))


SCHEDULED = """
def main(placeholder: T.Buffer[(1, 7, 7, 8), "float32"], placeholder_1: T.Buffer[(3, 3, 8, 16), "float32"], relu: T.Buffer[(1, 7, 7, 16), "float32"]) -> None:
    # function attr dict
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    # body
    with T.block("root"):
        T.reads()
        T.writes()
        T.block_attr({"meta_schedule.parallel":64, "meta_schedule.unroll_explicit":16, "meta_schedule.vectorize":64})
        PaddedInput = T.alloc_buffer([1, 9, 9, 8], dtype="float32")
        Conv2dOutput = T.alloc_buffer([1, 7, 7, 16], dtype="float32")
        for i0_i1_i2_fused in T.parallel(81):
            for i3 in T.vectorized(8):
                with T.block("PaddedInput"):
                    i0_1 = T.axis.spatial(1, 0)
                    i1_1 = T.axis.spatial(9, i0_i1_i2_fused // 9)
                    i2_1 = T.axis.spatial(9, i0_i1_i2_fused % 9)
                    i3_1 = T.axis.spatial(8, i3)
                    T.reads(placeholder[i0_1, i1_1 - 1, i2_1 - 1, i3_1])
                    T.writes(PaddedInput[i0_1, i1_1, i2_1, i3_1])
                    PaddedInput[i0_1, i1_1, i2_1, i3_1] = T.if_then_else(1 <= i1_1 and i1_1 < 8 and 1 <= i2_1 and i2_1 < 8, placeholder[i0_1, i1_1 - 1, i2_1 - 1, i3_1], T.float32(0), dtype="float32")
        for i0_0_i1_0_i2_0_i3_0_fused in T.parallel(14, annotations={"pragma_auto_unroll_max_step":16, "pragma_unroll_explicit":1}):
            for i2_2_init, i3_1_init in T.grid(7, 1):
                for i3_3_fused_init in T.vectorized(8):
                    with T.block("Conv2dOutput_init"):
                        nn = T.axis.spatial(1, 0)
                        yy = T.axis.spatial(7, i0_0_i1_0_i2_0_i3_0_fused // 2)
                        xx = T.axis.spatial(7, i2_2_init)
                        ff = T.axis.spatial(16, i0_0_i1_0_i2_0_i3_0_fused % 2 * 8 + i3_1_init * 8 + i3_3_fused_init)
                        T.reads()
                        T.writes(Conv2dOutput[nn, yy, xx, ff])
                        T.block_attr({"meta_schedule.tiling_structure":"SSRSRS"})
                        Conv2dOutput[nn, yy, xx, ff] = T.float32(0)
            for i4_0, i5_0, i6_0, i0_2, i1_2, i2_2, i3_2, i4_1, i5_1, i6_1 in T.grid(3, 1, 2, 1, 1, 7, 1, 1, 3, 4):
                for i0_3_i1_3_i2_3_i3_3_fused in T.vectorized(8):
                    with T.block("Conv2dOutput_update"):
                        nn = T.axis.spatial(1, 0)
                        yy = T.axis.spatial(7, i0_0_i1_0_i2_0_i3_0_fused // 2)
                        xx = T.axis.spatial(7, i2_2)
                        ff = T.axis.spatial(16, i0_0_i1_0_i2_0_i3_0_fused % 2 * 8 + i0_3_i1_3_i2_3_i3_3_fused)
                        ry = T.axis.reduce(3, i4_0 + i4_1)
                        rx = T.axis.reduce(3, i5_0 * 3 + i5_1)
                        rc = T.axis.reduce(8, i6_0 * 4 + i6_1)
                        T.reads(Conv2dOutput[nn, yy, xx, ff], PaddedInput[nn, yy + ry, xx + rx, rc], placeholder_1[ry, rx, rc, ff])
                        T.writes(Conv2dOutput[nn, yy, xx, ff])
                        T.block_attr({"meta_schedule.tiling_structure":"SSRSRS"})
                        Conv2dOutput[nn, yy, xx, ff] = Conv2dOutput[nn, yy, xx, ff] + PaddedInput[nn, yy + ry, xx + rx, rc] * placeholder_1[ry, rx, rc, ff]
            for ax0, ax1, ax2 in T.grid(1, 1, 7):
                for ax3_fused in T.vectorized(8):
                    with T.block("relu"):
                        T.where(0 <= i0_0_i1_0_i2_0_i3_0_fused // 2 and i0_0_i1_0_i2_0_i3_0_fused // 2 < 7)
                        i0 = T.axis.spatial(1, ax0)
                        i1 = T.axis.spatial(7, i0_0_i1_0_i2_0_i3_0_fused // 2 + ax1)
                        i2 = T.axis.spatial(7, ax2)
                        i3 = T.axis.spatial(16, i0_0_i1_0_i2_0_i3_0_fused % 2 * 8 + ax3_fused)
                        relu[i0, i1, i2, i3] = T.max(Conv2dOutput[i0, i1, i2, i3], T.float32(0))
"""


def test_a_convolution_as_tuners_printed_it() -> None:
    func = kernel(SCHEDULED)
    x, w = floats(1, 7, 7, 8), floats(3, 3, 8, 16)
    p = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(p, (3, 3), (1, 2))
    y = np.maximum(np.einsum("nhwcij,ijco->nhwo", windows, w), 0)
    agrees(func, [x, w, zeros(1, 7, 7, 16)], y)


def test_a_lowered_host_function_of_flat_memory() -> None:
    func = kernel("""
def flat(A_data: T.handle("float32"), B_data: T.Ptr[T.float32], n: T.int32) -> None:
    T.func_attr({"tir.is_entry_func": T.bool(True), "from_legacy_te_schedule": True})
    A = T.buffer_decl((32,), "float32", data=A_data)
    B = T.decl_buffer((32,), data=B_data)
    with T.allocate([4], "float32", "global") as tmp:
        tmp_1 = T.buffer_decl([4], data=tmp)
        for i in T.serial(0, 8):
            for j in T.serial(0, 4):
                tmp_1[j] = A[((i*4) + j)]
            for j in T.serial(0, 4):
                if ((i*4) + j) < n:
                    B[((i*4) + j)] = (tmp_1[(3 - j)]*T.float32(0.5))
    """)
    a, b = floats(32), zeros(32)
    expected = (a.reshape(8, 4)[:, ::-1].reshape(-1) / 2) * (np.arange(32) < 30)
    agrees(func, [a, b, 30], expected)


def test_types_of_eight_bits_and_less() -> None:
    func = kernel("""
def unpack(W: T.Buffer((6, 4), "uint32"), S: T.Buffer((6, 1), "float16"), O: T.Buffer((6, 32), "float16")):
    for i, j in T.grid(6, 32):
        with T.block("dequantize"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(W[v_i, v_j // 8], S[v_i, 0])
            T.writes(O[v_i, v_j])
            O[v_i, v_j] = (T.Cast("float16", T.bitwise_and(T.shift_right(W[v_i, v_j // 8], T.Cast("uint32", v_j % 8) * T.uint32(4)), T.uint32(15))) - T.float16(7)) * S[v_i, v_j // 32]
    """)
    w, s = RNG.integers(0, 2**32, (6, 4), "uint32"), floats(6, 1).astype("float16")
    nibbles = (w[:, :, None] >> (np.arange(8, dtype="uint32") * 4)) & 15
    expected = (nibbles.reshape(6, 32).astype("float16") - np.float16(7)) * s
    agrees(func, [w, s, zeros(6, 32, dtype="float16")], expected)


def test_constants_and_asserts_and_bits() -> None:
    func = kernel("""
def table(A: T.Buffer((8,), "int32"), n: T.int32, O: T.Buffer((8,), "float32")):
    assert n <= 8, "n is too large"
    C = T.allocate_const([1.0, 10.0, 100.0, 1000.0], "float32", [4])
    C_1 = T.Buffer((4,), "float32", data=C)
    for i in T.serial(n):
        O[i] = T.reinterpret("float32", T.reinterpret("int32", C_1[A[i] % 4])) * T.float32(A[i])
    """)
    a = ints(0, 9, 8)
    agrees(func, [a, 8, zeros(8)], 10.0 ** (a % 4) * a)


@pytest.mark.parametrize("value", ["B[i]", "B[i] + i", "n", "T.int64(1)"])
def test_what_is_no_int32_by_itself(value: str) -> None:
    """Loop variables are int64 here, and may stand for an int32; other values say their type."""
    text = 'def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int64"), n: T.int64):\n'
    for statement in ("A[i] = {}", "x: T.int32 = {}\n        A[i] = x"):
        good = kernel(f"{text}    for i in range(4):\n        {statement.format('A[i] + i * 2')}")
        a = ints(0, 9, 4)
        agrees(good, [a, zeros(4, dtype="int64"), 4], a + np.arange(0, 8, 2), zeros(4))
        with pytest.raises(ParseError, match=r'(?s)int64.*T\.cast\("int32", \.\.\.\)'):
            kernel(f"{text}    for i in range(4):\n        {statement.format(value)}")


def test_strides_that_say_what_is_dense() -> None:
    func = kernel("""
def double(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (4, 6), "float32", strides=[6, 1], elem_offset=0, align=64, offset_factor=1)
    B = T.match_buffer(b, [4, 6], strides=[T.int64(6), T.int64(1)])
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    """)
    a = floats(4, 6)
    agrees(func, [a, zeros(4, 6)], a * 2)
    wide = parse(func.script().replace("strides=(6, 1)", "strides=(8, 1)", 1))
    assert isinstance(wide, PrimFunc)
    with pytest.raises(CompileError, match="the parameter A has strides"):
        smelt.build(wide)
