"""Kernels of many kinds as people write them: read back, interpreted, compiled, beside numpy."""

# ruff: noqa: E501 (programs as texts)

from __future__ import annotations

import numpy as np

from .support import RNG, agrees, floats, ints, kernel, zeros


def test_attention_with_a_running_maximum() -> None:
    func = kernel("""
def flash(q: T.handle, k: T.handle, v: T.handle, o: T.handle):
    T.func_attr({"global_symbol": "flash", "tir.noalias": T.bool(True)})
    n = T.int32()
    m = T.int32()
    Q = T.match_buffer(q, [n, 4], dtype="float32")
    K = T.match_buffer(k, [m, 4], dtype="float32")
    V = T.match_buffer(v, [m, 4], dtype="float32")
    O = T.match_buffer(o, [n, 4], dtype="float32")
    for i in T.parallel(n):
        with T.block("row"):
            vi = T.axis.spatial(n, i)
            T.reads([Q[vi, 0:4], K[0:m, 0:4], V[0:m, 0:4]])
            T.writes([O[vi, 0:4]])
            top = T.alloc_buffer([1], dtype="float32", scope="local")
            total = T.alloc_buffer([1], dtype="float32", scope="local")
            score = T.alloc_buffer([1], dtype="float32", scope="local")
            acc = T.alloc_buffer([4], dtype="float32", scope="local")
            top[0] = T.float32(-3.4e38)
            total[0] = T.float32(0)
            for c in T.serial(0, 4):
                acc[c] = T.float32(0)
            for j in T.serial(0, m):
                score[0] = T.float32(0)
                for c in T.unroll(0, 4):
                    score[0] = score[0] + Q[vi, c] * K[j, c]
                new_top: T.float32 = T.max(top[0], score[0])
                old: T.float32 = T.exp(top[0] - new_top, dtype="float32")
                p: T.float32 = T.exp(score[0] - new_top, dtype="float32")
                total[0] = total[0] * old + p
                for c in T.vectorized(0, 4):
                    acc[c] = acc[c] * old + p * V[j, c]
                top[0] = new_top
            for c in T.vectorized(0, 4):
                O[vi, c] = acc[c] / total[0]
    """)
    q, k, v = floats(5, 4), floats(7, 4), floats(7, 4)
    e = np.exp(q @ k.T)
    agrees(func, [q, k, v, zeros(5, 4)], e / e.sum(1, keepdims=True) @ v)


def test_norm_by_mean_squares_in_half_precision() -> None:
    func = kernel("""
def rms_norm(var_A: T.handle, B: T.Buffer((T.int64(32),), "float16"), var_rms_norm: T.handle):
    T.func_attr({"op_pattern": 4, "tir.noalias": T.bool(True)})
    n = T.int64()
    A = T.match_buffer(var_A, (T.int64(1), n, T.int64(32)), "float16")
    rms_norm_1 = T.match_buffer(var_rms_norm, (T.int64(1), n, T.int64(32)), "float16")
    # with T.block("root"):
    Ared_temp = T.alloc_buffer((T.int64(1), n))
    for bsz, i, k in T.grid(T.int64(1), n, T.int64(32)):
        with T.block("Ared_temp"):
            v_bsz, v_i, v_k = T.axis.remap("SSR", [bsz, i, k])
            T.reads(A[v_bsz, v_i, v_k])
            T.writes(Ared_temp[v_bsz, v_i])
            with T.init():
                Ared_temp[v_bsz, v_i] = T.float32(0)
            Ared_temp[v_bsz, v_i] = Ared_temp[v_bsz, v_i] + T.Cast("float32", A[v_bsz, v_i, v_k]) * T.Cast("float32", A[v_bsz, v_i, v_k])
    for bsz, i, k in T.grid(T.int64(1), n, T.int64(32)):
        with T.block("rms_norm"):
            v_bsz, v_i, v_k = T.axis.remap("SSS", [bsz, i, k])
            T.reads(B[v_k], A[v_bsz, v_i, v_k], Ared_temp[v_bsz, v_i])
            T.writes(rms_norm_1[v_bsz, v_i, v_k])
            rms_norm_1[v_bsz, v_i, v_k] = T.Cast("float16", T.Cast("float32", B[v_k]) * (T.Cast("float32", A[v_bsz, v_i, v_k]) / T.sqrt(Ared_temp[v_bsz, v_i] * T.float32(0.03125) + T.float32(9.9999999999999995e-07))))
    """)
    a, b = floats(1, 3, 32).astype("float16"), floats(32).astype("float16")
    wide = a.astype("float32")
    expected = b.astype("float32") * wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    agrees(func, [a, b, zeros(1, 3, 32, dtype="float16")], expected.astype("float16"))


def test_log_softmax_as_graphs_are_lowered() -> None:
    func = kernel("""
def log_softmax(A: T.Buffer((T.int64(2), T.int64(5)), "float32"), compute: T.Buffer((T.int64(2), T.int64(5)), "float32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    with T.block("root"):
        T.reads()
        T.writes()
        T_softmax_maxelem = T.alloc_buffer((T.int64(2),))
        compute_1 = T.alloc_buffer((T.int64(2),))
        for i0, k in T.grid(T.int64(2), T.int64(5)):
            with T.block("T_softmax_maxelem"):
                v_i0, v_k = T.axis.remap("SR", [i0, k])
                T.reads(A[v_i0, v_k])
                T.writes(T_softmax_maxelem[v_i0])
                with T.init():
                    T_softmax_maxelem[v_i0] = T.float32(-340282346638528859811704183484516925440.0)
                T_softmax_maxelem[v_i0] = T.max(T_softmax_maxelem[v_i0], A[v_i0, v_k])
        for i0, k in T.grid(T.int64(2), T.int64(5)):
            with T.block("compute"):
                v_i0, v_k = T.axis.remap("SR", [i0, k])
                with T.init():
                    compute_1[v_i0] = T.float32(0.0)
                compute_1[v_i0] = compute_1[v_i0] + T.exp(A[v_i0, v_k] - T_softmax_maxelem[v_i0])
        for i0, i1 in T.grid(T.int64(2), T.int64(5)):
            with T.block("compute_1"):
                v_i0 = T.axis.spatial(T.int64(2), i0)
                v_i1 = T.axis.spatial(T.int64(5), i1)
                T.block_attr({"axis": 1})
                compute[v_i0, v_i1] = A[v_i0, v_i1] - T_softmax_maxelem[v_i0] - T.log(compute_1[v_i0])
    """)
    a = floats(2, 5)
    agrees(func, [a, zeros(2, 5)], a - np.log(np.exp(a).sum(1, keepdims=True)))


def test_convolution_in_groups() -> None:
    func = kernel("""
def group_conv(X: T.Buffer[(1, 4, 6, 5), "float32"], W: T.Buffer[(6, 2, 3, 3), "float32"], Y: T.Buffer[(1, 6, 4, 3), "float32"]) -> None:
    # function attr dict
    T.func_attr({"global_symbol": "group_conv", "tir.noalias": True})
    # body
    # with T.block("root")
    for nn, ff, yy, xx, rc, ry, rx in T.grid(1, 6, 4, 3, 2, 3, 3):
        with T.block("group_conv2d_nchw"):
            n, f, y, x, c, dy, dx = T.axis.remap("SSSSRRR", [nn, ff, yy, xx, rc, ry, rx])
            T.reads([X[n, T.floordiv(f, 3) * 2 + c, y + dy, x + dx], W[f, c, dy, dx]])
            T.writes([Y[n, f, y, x]])
            with T.init():
                Y[n, f, y, x] = T.float32(0)
            Y[n, f, y, x] = Y[n, f, y, x] + X[n, T.floordiv(f, 3) * 2 + c, y + dy, x + dx] * W[f, c, dy, dx]
    """)
    x, w = floats(1, 4, 6, 5), floats(6, 2, 3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)).reshape(2, 2, 4, 3, 3, 3)
    y = np.einsum("gchwij,gfcij->gfhw", windows, w.reshape(2, 3, 2, 3, 3)).reshape(1, 6, 4, 3)
    agrees(func, [x, w, zeros(1, 6, 4, 3)], y)


def test_depthwise_convolution_with_channels_last() -> None:
    func = kernel("""
def depthwise(x: T.handle, w: T.handle, y: T.handle) -> None:
    X = T.match_buffer(x, (1, 5, 5, 3), "float32", offset_factor=1)
    W = T.match_buffer(w, (3, 3, 3, 1))
    Y = T.match_buffer(y, (1, 5, 5, 3), dtype="float32")
    PadInput = T.alloc_buffer((1, 7, 7, 3))
    for i0, i1, i2, i3 in T.grid(1, 7, 7, 3):
        with T.block("PadInput"):
            b, h, v, c = T.axis.remap("SSSS", [i0, i1, i2, i3])
            PadInput[b, h, v, c] = T.if_then_else(T.And(T.And(1 <= h, h < 6), T.And(1 <= v, T.Not(v >= 6))), X[b, h - 1, v - 1, c], T.float32(0), dtype="float32")
    for b, h, v, c, rh, rw in T.grid(1, 5, 5, 3, 3, 3):
        with T.block("DepthwiseConv2d"):
            vb, vh, vv, vc = T.axis.remap("SSSS", [b, h, v, c])
            vrh, vrw = T.axis.remap("RR", [rh, rw])
            with T.init():
                Y[vb, vh, vv, vc] = T.float32(0)
            Y[vb, vh, vv, vc] = Y[vb, vh, vv, vc] + PadInput[vb, vh + vrh, vv + vrw, T.floordiv(vc, 1)] * W[vrh, vrw, T.floordiv(vc, 1), T.floormod(vc, 1)]
    """)
    x, w = floats(1, 5, 5, 3), floats(3, 3, 3, 1)
    p = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(p, (3, 3), (1, 2))
    agrees(func, [x, w, zeros(1, 5, 5, 3)], np.einsum("bhwcij,ijc->bhwc", windows, w[..., 0]))


def test_transposed_convolution_of_a_stretched_signal() -> None:
    func = kernel("""
def conv1d_transpose(data: T.Buffer((1, 2, 4), "float32"), kernel: T.Buffer((2, 3, 3), "float32"), out: T.Buffer((1, 3, 9), "float32")):
    stretched = T.alloc_buffer((1, 2, 7))
    padded = T.alloc_buffer((1, 2, 11))
    for i0, i1, i2 in T.grid(1, 2, 7):
        with T.block("DilatedInput"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            stretched[v0, v1, v2] = T.if_then_else(T.truncmod(v2, 2) == 0, data[v0, v1, T.truncdiv(v2, 2)], T.float32(0), dtype="float32")
    for i0, i1, i2 in T.grid(1, 2, 11):
        with T.block("PadInput"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
            padded[v0, v1, v2] = T.if_then_else(2 <= v2 and v2 < 9, stretched[v0, v1, v2 - 2], T.float32(0), dtype="float32")
    for b, c, w, dc, dw in T.grid(1, 3, 9, 2, 3):
        with T.block("out"):
            vb, vc, vw, vdc, vdw = T.axis.remap("SSSRR", [b, c, w, dc, dw])
            with T.init():
                out[vb, vc, vw] = T.float32(0)
            out[vb, vc, vw] += padded[vb, vdc, vw + vdw] * kernel[vdc, vc, 2 - vdw]
    """)
    x, w = floats(1, 2, 4), floats(2, 3, 3)
    y = zeros(1, 3, 9)
    for i in range(4):
        y[0, :, 2 * i : 2 * i + 3] += np.einsum("c,cok->ok", x[0, :, i], w)
    agrees(func, [x, w, zeros(1, 3, 9)], y)


def test_winograd_tiles_with_selected_constants() -> None:
    func = kernel("""
def winograd(d: T.Buffer((4,), "float32"), g: T.Buffer((3,), "float32"), y: T.Buffer((2,), "float32")):
    B = T.alloc_buffer([4, 4])
    U = T.alloc_buffer([4])
    V = T.alloc_buffer([4])
    for i, j in T.grid(4, 4):
        with T.block("B"):
            T.block_attr({"schedule_rule": "None", "const_matrix": True})
            i, j = T.axis.remap("SS", [i, j])
            B[i, j] = T.Select(i == 1 and j == 2 or i == 2 and j == 0 or i == 3 and j == 3, T.float32(-1), T.Select(i == 0 and j == 0 or 1 <= i and i <= 2 and j == 1 or i == 2 and j == 2 or i == 1 and j == 3, T.float32(1), T.float32(0)))
    for i, k in T.grid(4, 4):
        with T.block("V"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                V[vi] = 0.0
            V[vi] += B[vk, vi] * d[vk]
    for i in T.serial(4):
        with T.block("U"):
            vi = T.axis.S(4, i)
            U[vi] = T.Select(vi == 0, g[0], T.Select(vi == 3, g[2], (g[0] + T.Select(vi == 1, g[1], -g[1]) + g[2]) * T.float32(0.5)))
    for i, k in T.grid(2, 4):
        with T.block("Y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                y[vi] = 0.0
            y[vi] += T.Select(vi == 0, T.Select(vk < 3, T.float32(1), T.float32(0)), T.Select(vk == 0, T.float32(0), T.Select(vk == 1, T.float32(1), T.float32(-1)))) * U[vk] * V[vk]
    """)
    d, g = floats(4), floats(3)
    agrees(func, [d, g, zeros(2)], np.correlate(d, g))


def test_batches_of_products_with_a_bias() -> None:
    func = kernel("""
def main(x: T.Buffer[(3, 5, 8), "float32"], y: T.Buffer[(3, 7, 8), "float32"], bias: T.Buffer[(3, 1, 7), "float32"], T_add: T.Buffer[(3, 5, 7), "float32"]) -> None:
    T.func_attr({"layout_free_buffers": [1], "tir.noalias": True, "global_symbol": "main"})
    T_batch_matmul_NT = T.alloc_buffer([3, 5, 7], dtype="float32")
    for i0, i1, i2, i3 in T.grid(3, 5, 7, 8):
        with T.block("T_batch_matmul_NT"):
            b, i, j, k = T.axis.remap("SSSR", [i0, i1, i2, i3])
            T.reads(x[b, i, k], y[b, j, k])
            T.writes(T_batch_matmul_NT[b, i, j])
            T.block_attr({"layout_free_placeholders": [1], "workload": ["batch_matmul.llvm", ["TENSOR", [3, 5, 8], "float32"]]})
            with T.init():
                T_batch_matmul_NT[b, i, j] = T.float32(0)
            T_batch_matmul_NT[b, i, j] = T_batch_matmul_NT[b, i, j] + x[b, i, k] * y[b, j, k]
    for i0, i1, i2 in T.grid(3, 5, 7):
        with T.block("T_add"):
            ax0, ax1, ax2 = T.axis.remap("SSS", [i0, i1, i2])
            T_add[ax0, ax1, ax2] = T_batch_matmul_NT[ax0, ax1, ax2] + bias[ax0, 0, ax2]
    """)
    x, y, b = floats(3, 5, 8), floats(3, 7, 8), floats(3, 1, 7)
    agrees(func, [x, y, b, zeros(3, 5, 7)], x @ y.transpose(0, 2, 1) + b)


def test_a_scan_in_two_sweeps() -> None:
    func = kernel("""
def exclusive_scan(data: T.Buffer((16,), "int32")):
    stride = T.alloc_buffer((1,), "int32", scope="local")
    stride[0] = 1
    while stride[0] < 16:
        for t in T.serial(0, 8):
            end: T.int32 = (t + 1) * stride[0] * 2 - 1
            if end < 16:
                data[end] = data[end] + data[end - stride[0]]
        stride[0] = T.shift_left(stride[0], 1, dtype="int32")
    data[15] = 0
    while stride[0] > 1:
        stride[0] = T.shift_right(stride[0], 1, dtype="int32")
        for t in T.serial(0, 8):
            end: T.int32 = (t + 1) * stride[0] * 2 - 1
            if end < 16:
                left: T.int32 = data[end - stride[0]]
                data[end - stride[0]] = data[end]
                data[end] = data[end] + left
    """)
    x = ints(-9, 9, 16)
    agrees(func, [x], x.cumsum() - x)


def test_a_histogram_of_what_is_in_range() -> None:
    func = kernel("""
def histogram(a: T.handle, bins: T.handle, n: T.int32, low: T.float32, high: T.float32):
    A = T.match_buffer(a, [n], "float32")
    H = T.match_buffer(bins, [8], "int32")
    i = T.alloc_buffer([1], "int32", scope="local")
    with T.block("clear"):
        T.reads([])
        T.writes([H[0:8]])
        for b in T.serial(8):
            H[b] = 0
    i[0] = 0
    while i[0] < n:
        with T.block("count"):
            T.reads([A[0:n], H[0:8], i[0]])
            T.writes([H[0:8], i[0]])
            x: T.float32 = A[i[0]]
            if x >= low and x < high:
                bin: T.int32 = T.Cast("int32", (x - low) / (high - low) * T.float32(8))
                H[T.min(bin, 7)] = H[T.min(bin, 7)] + 1
            i[0] = i[0] + 1
    """)
    a = floats(50)
    h = np.histogram(a, 8, (-1.5, 1.5))[0]
    agrees(func, [a, zeros(8, dtype="int32"), 50, -1.5, 1.5], h)


def test_embeddings_of_wrapped_indices() -> None:
    func = kernel("""
def take(var_table: T.handle, var_ids: T.handle, var_out: T.handle):
    T.func_attr({"tir.noalias": T.bool(True)})
    vocab, seq = T.int64(), T.int64()
    table = T.match_buffer(var_table, (vocab, T.int64(6)))
    ids = T.match_buffer(var_ids, (seq,), "int64")
    out = T.match_buffer(var_out, (seq, T.int64(6)))
    for ax0, ax1 in T.grid(seq, T.int64(6)):
        with T.block("T_take"):
            v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
            T.reads(table[T.int64(0):vocab, v_ax1], ids[v_ax0])
            T.writes(out[v_ax0, v_ax1])
            out[v_ax0, v_ax1] = T.if_then_else(ids[v_ax0] >= -vocab and ids[v_ax0] < vocab, table[T.Select(ids[v_ax0] < T.int64(0), ids[v_ax0] + vocab, ids[v_ax0]), v_ax1], T.nan("float32"))
    """)
    table, ids = floats(9, 6), np.array([0, 8, -1, -9, 9, -10, 3], "int64")
    expected = np.full((7, 6), np.nan, "float32")
    expected[[0, 1, 2, 3, 6]] = table[ids[[0, 1, 2, 3, 6]]]
    agrees(func, [table, ids, zeros(7, 6)], expected)


def test_the_largest_three_by_insertion() -> None:
    func = kernel("""
def topk(X: T.Buffer((4, 10), "float32"), V: T.Buffer((4, 3), "float32"), I: T.Buffer((4, 3), "int64")):
    for i in T.parallel(0, 4):
        with T.block("topk"):
            vi = T.axis.spatial(4, i)
            T.reads(X[vi, 0:10])
            T.writes(V[vi, 0:3], I[vi, 0:3])
            at = T.alloc_buffer((1,), "int32", scope="local")
            for j in range(3):
                V[vi, j] = T.min_value("float32")
                I[vi, j] = T.int64(-1)
            for j in range(10):
                at[0] = 3
                while T.And(at[0] > 0, X[vi, j] > V[vi, T.max(at[0] - 1, 0)]):
                    if at[0] < 3:
                        V[vi, at[0]] = V[vi, at[0] - 1]
                        I[vi, at[0]] = I[vi, at[0] - 1]
                    at[0] -= 1
                if at[0] < 3:
                    V[vi, at[0]] = X[vi, j]
                    I[vi, at[0]] = T.Cast("int64", j)
    """)
    x = floats(4, 10)
    order = np.argsort(-x, 1)[:, :3]
    agrees(
        func, [x, zeros(4, 3), zeros(4, 3, dtype="int64")], np.take_along_axis(x, order, 1), order
    )


def test_quantised_product_with_zero_points_in_tiles() -> None:
    func = kernel("""
def qmatmul(A: T.Buffer[(16, 24), "uint8"], B: T.Buffer[(24, 32), "int8"], C: T.Buffer[(16, 32), "int32"]) -> None:
    T.func_attr({"global_symbol": "qmatmul", "tir.noalias": True})
    for i_0, j_0 in T.grid(4, 2):
        for i_1_init in T.serial(4):
            for j_1_init in T.vectorized(16):
                with T.block("C_init"):
                    i = T.axis.spatial(16, i_0 * 4 + i_1_init)
                    j = T.axis.spatial(32, j_0 * 16 + j_1_init)
                    T.reads()
                    T.writes(C[i, j])
                    C[i, j] = 0
        for k_0, i_1, k_1 in T.grid(6, 4, 4):
            for j_1 in T.vectorized(16):
                with T.block("C_update"):
                    i = T.axis.spatial(16, i_0 * 4 + i_1)
                    j = T.axis.spatial(32, j_0 * 16 + j_1)
                    k = T.axis.reduce(24, k_0 * 4 + k_1)
                    T.reads(C[i, j], A[i, k], B[k, j])
                    T.writes(C[i, j])
                    C[i, j] = C[i, j] + (T.cast(A[i, k], "int32") - 128) * (T.cast(B[k, j], "int32") - T.int32(-3))
    """)
    a, b = ints(0, 256, 16, 24, dtype="uint8"), ints(-128, 128, 24, 32, dtype="int8")
    expected = (a.astype("int32") - 128) @ (b.astype("int32") + 3)
    agrees(func, [a, b, zeros(16, 32, dtype="int32")], expected)


def test_samples_of_a_dense_product() -> None:
    func = kernel("""
def sddmm(a: T.handle, b: T.handle, rows: T.handle, cols: T.handle, out: T.handle) -> None:
    m, n, nnz = T.int32(), T.int32(), T.int32()
    A = T.match_buffer(a, (m, 8), "float32")
    B = T.match_buffer(b, (8, n), "float32")
    R = T.match_buffer(rows, (nnz,), "int32")
    C = T.match_buffer(cols, (nnz,), "int32")
    O = T.match_buffer(out, (nnz,), "float32")
    for e, k in T.grid(nnz, 8):
        with T.block("sddmm0"):
            ve, vk = T.axis.remap("SR", [e, k])
            T.reads(A[R[ve], vk], B[vk, C[ve]], R[ve], C[ve])
            T.writes(O[ve])
            T.block_attr({"sparse": True})
            with T.init():
                O[ve] = T.float32(0)
            O[ve] = O[ve] + A[R[ve], vk] * B[vk, C[ve]]
    """)
    a, b, r, c = floats(5, 8), floats(8, 6), ints(0, 5, 9), ints(0, 6, 9)
    agrees(func, [a, b, r, c, zeros(9)], (a @ b)[r, c])


def test_steps_of_a_stencil_between_two_buffers() -> None:
    func = kernel("""
def jacobi(A: T.Buffer((8, 9), "float32"), steps: T.int32):
    P = T.allocate([72], "float32", "global")
    P_1 = T.decl_buffer([8, 9], "float32", data=P)
    for t in T.serial(steps):
        for i, j in T.grid(8, 9):
            inside: T.bool = i > 0 and i < 7 and j > 0 and j < 8
            P_1[i, j] = T.if_then_else(inside, T.float32(0.25) * (A[T.max(i - 1, 0), j] + A[T.min(i + 1, 7), j] + A[i, T.max(j - 1, 0)] + A[i, T.min(j + 1, 8)]), A[i, j])
        for ij in T.serial(72):
            A[ij // 9, ij % 9] = P_1[ij // 9, ij % 9]
    """)
    a = floats(8, 9)
    b = a.copy()
    for _ in range(3):
        b[1:-1, 1:-1] = (b[:-2, 1:-1] + b[2:, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:]) * np.float32(0.25)
    agrees(func, [a, 3], b)


def test_fourier_transform_by_butterflies() -> None:
    func = kernel("""
def fft(re: T.Buffer((16,), "float32"), im: T.Buffer((16,), "float32")):
    for i in T.serial(16):
        r: T.int32 = T.bitwise_or(T.bitwise_or((i & 1) << 3, (i & 2) << 1), T.bitwise_or((i & 4) >> 1, (i & 8) >> 3))
        if r > i:
            a: T.float32 = re[i]
            b: T.float32 = im[i]
            re[i] = re[r]
            im[i] = im[r]
            re[r] = a
            im[r] = b
    for s in T.serial(4):
        half: T.int32 = T.int32(1) << s
        for t in T.serial(8):
            p: T.int32 = t // half * half * 2 + t % half
            angle: T.float32 = T.float32(-3.141592653589793) * T.Cast("float32", t % half) / T.Cast("float32", half)
            c: T.float32 = T.cos(angle)
            n: T.float32 = T.sin(angle)
            x: T.float32 = re[p + half] * c - im[p + half] * n
            y: T.float32 = re[p + half] * n + im[p + half] * c
            re[p + half] = re[p] - x
            im[p + half] = im[p] - y
            re[p] = re[p] + x
            im[p] = im[p] + y
    """)
    re, im = floats(16), floats(16)
    f = np.fft.fft(re + 1j * im)
    agrees(func, [re, im], f.real, f.imag)


def test_tricks_with_bits() -> None:
    func = kernel("""
def bits(X: T.Buffer((32,), "uint32"), F: T.Buffer((32,), "float32"), O: T.Buffer((32, 6), "uint32"), R: T.Buffer((32,), "float32")):
    for i in T.serial(32):
        with T.block("bits"):
            vi = T.axis.spatial(32, i)
            O[vi, 0] = T.popcount(X[vi])
            O[vi, 1] = X[vi] & ~X[vi] + T.uint32(1)
            O[vi, 2] = T.bitwise_xor(X[vi], T.shift_right(X[vi], T.uint32(1)))
            O[vi, 3] = (X[vi] << T.uint32(7)) | (X[vi] >> T.uint32(25))
            O[vi, 4] = T.Cast("uint32", T.clz(T.reinterpret("int32", X[vi] | T.uint32(1))))
            O[vi, 5] = T.bitwise_not(X[vi]) ^ T.uint32(0xFF)
            y: T.float32 = T.reinterpret("float32", T.int32(0x5F3759DF) - (T.reinterpret("int32", F[vi]) >> 1))
            R[vi] = y * (T.float32(1.5) - F[vi] * T.float32(0.5) * y * y)
    """)
    x = RNG.integers(0, 2**32, 32, "uint32")
    f = np.abs(floats(32)) + 1
    o = np.stack(
        [
            [bin(v).count("1") for v in x],
            x & (~x + np.uint32(1)),
            x ^ (x >> np.uint32(1)),
            (x << np.uint32(7)) | (x >> np.uint32(25)),
            [32 - int(v | 1).bit_length() for v in x],
            ~x ^ np.uint32(0xFF),
        ],
        1,
    ).astype("uint32")
    y = (np.int32(0x5F3759DF) - (f.view("int32") >> 1)).view("float32")
    agrees(func, [x, f, zeros(32, 6, dtype="uint32"), zeros(32)], o, y * (1.5 - f * 0.5 * y * y))


def test_parts_of_buffers_by_their_strides() -> None:
    func = kernel("""
def tensorized(a: T.handle, b: T.handle, c: T.handle) -> None:
    C = T.match_buffer(c, [8, 8], elem_offset=0, align=64, offset_factor=1)
    B = T.match_buffer(b, [8, 8], elem_offset=0, align=64, offset_factor=1)
    A = T.match_buffer(a, [8, 8], elem_offset=0, align=64, offset_factor=1)
    for i_outer, j_outer in T.grid(2, 2):
        for i_inner_init, j_inner_init in T.grid(4, 4):
            with T.block("init"):
                vi_init = T.axis.S(8, ((i_outer * 4) + i_inner_init))
                vj_init = T.axis.S(8, ((j_outer * 4) + j_inner_init))
                T.reads([])
                T.writes([C[vi_init, vj_init]])
                C[vi_init, vj_init] = T.float32(0)
        for k_outer in T.grid(2):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i_outer, j_outer, k_outer])
                T.reads([C[vi*4 : vi*4 + 4, vj*4 : vj*4 + 4], A[vi*4 : vi*4 + 4, vk*4 : vk*4 + 4], B[vj*4 : vj*4 + 4, vk*4 : vk*4 + 4]])
                T.writes([C[vi*4 : vi*4 + 4, vj*4 : vj*4 + 4]])
                A_elem_offset = T.var("int32")
                stride, stride_1 = T.var("int32"), T.var("int32")
                A_sub = T.match_buffer(A[vi*4 : vi*4+4, vk*4 : vk*4+4], [4, 4], elem_offset=A_elem_offset, strides=[stride, 1])
                B_sub = T.match_buffer(B[vj*4 : vj*4+4, vk*4 : vk*4+4], [4, 4], offset_factor=1)
                C_sub = T.match_buffer(C[vi*4 : vi*4+4, vj*4 : vj*4+4], [4, 4], strides=[stride_1, 1], offset_factor=1)
                for i, j, k in T.grid(4, 4, 4):
                    C_sub[i, j] = C_sub[i, j] + A_sub[i, k] * B_sub[j, k]
    """)
    a, b = floats(8, 8), floats(8, 8)
    agrees(func, [a, b, zeros(8, 8)], a @ b.T)


def test_opaque_blocks_inside_of_the_root() -> None:
    func = kernel("""
def opaque(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")) -> None:
    with T.block("root"):
        B = T.alloc_buffer((16, 16), "float32")
        for i in range(0, 4):
            with T.block():
                T.reads([A[i * 4 : i * 4 + 4, 0:16]])
                T.writes([B[i * 4 : i * 4 + 4, 0:16]])
                T.evaluate(0)
                for ii, j in T.grid(4, 16):
                    with T.block("B"):
                        vi = T.axis.spatial(16, i * 4 + ii)
                        vj = T.axis.spatial((0, 16), j)
                        B[vi, vj] = A[vi, vj] * T.float32(2)
        for ij in T.serial(0, 256):
            with T.block():
                T.where(ij < 256)
                vi = T.axis.opaque(16, ij // 16)
                vj = T.axis.opaque(16, ij % 16)
                C[vi, vj] = B[vi, vj] + T.float32(1)
    """)
    a = floats(16, 16)
    agrees(func, [a, zeros(16, 16)], a * 2 + 1)


def test_a_product_over_bound_threads() -> None:
    func = kernel("""
def gpu_matmul(A: T.Buffer[(8, 8), "float32"], B: T.Buffer[(8, 8), "float32"], C: T.Buffer[(8, 8), "float32"]) -> None:
    T.func_attr({"global_symbol": "gpu_matmul", "tir.noalias": True})
    A_shared = T.alloc_buffer([8, 8], dtype="float32", scope="shared")
    C_local = T.alloc_buffer([8, 8], dtype="float32", scope="local")
    for i0_0_i1_0_fused in T.thread_binding(0, 4, thread="blockIdx.x"):
        for i0_1_i1_1_fused in T.thread_binding(0, 16, thread="threadIdx.x", annotations={"pragma_auto_unroll_max_step": 64, "pragma_unroll_explicit": 1}):
            with T.block("C_init"):
                i = T.axis.spatial(8, i0_0_i1_0_fused // 2 * 4 + i0_1_i1_1_fused // 4)
                j = T.axis.spatial(8, i0_0_i1_0_fused % 2 * 4 + i0_1_i1_1_fused % 4)
                C_local[i, j] = T.float32(0)
        for k_0 in T.serial(0, 2, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
            for ax0_ax1_fused in T.thread_binding(0, 16, thread="threadIdx.x"):
                with T.block("A_shared"):
                    v0 = T.axis.spatial(8, i0_0_i1_0_fused // 2 * 4 + ax0_ax1_fused // 4)
                    v1 = T.axis.spatial(8, k_0 * 4 + ax0_ax1_fused % 4)
                    T.block_attr({"buffer_dim_align": [[0, 0, 32, 8]]})
                    A_shared[v0, v1] = A[v0, v1]
            for i0_1_i1_1_fused in T.thread_binding(0, 16, thread="threadIdx.x"):
                for k_1 in T.serial(4):
                    with T.block("C"):
                        i = T.axis.spatial(8, i0_0_i1_0_fused // 2 * 4 + i0_1_i1_1_fused // 4)
                        j = T.axis.spatial(8, i0_0_i1_0_fused % 2 * 4 + i0_1_i1_1_fused % 4)
                        k = T.axis.reduce(8, k_0 * 4 + k_1)
                        T.block_attr({"meta_schedule.tiling_structure": "SSSRRSRS"})
                        C_local[i, j] = C_local[i, j] + A_shared[i, k] * B[k, j]
        for tx in T.thread_binding(0, 16, thread="threadIdx.x"):
            with T.block("C_local"):
                i = T.axis.spatial(8, i0_0_i1_0_fused // 2 * 4 + tx // 4)
                j = T.axis.spatial(8, i0_0_i1_0_fused % 2 * 4 + tx % 4)
                C[i, j] = C_local[i, j]
    """)
    a, b = floats(8, 8), floats(8, 8)
    agrees(func, [a, b, zeros(8, 8)], a @ b, native=False)
