"""Shapes, order, repetition, parts, selection, sorting, layouts, sparse matrices, Fourier."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt import relay

from .support import Array, Case, floats, ints

X = floats(2, 3, 4)
Y = floats(2, 3, 4, seed=5)
V = floats(6)


def shapes() -> list[Case]:
    """Other shapes of the same elements."""

    def shape(new: Any, want: tuple[int, ...], x: Array = X) -> Case:
        return Case("reshape", lambda v: relay.reshape(v, new), [x], x.reshape(want))

    n = floats(4, 6)
    return [
        shape((6, 4), (6, 4)), shape([-1], (24,)), shape((0, -1), (2, 12)),
        shape((0, -2), (2, 3, 4)),
        shape((-3, 0), (6, 4)), shape((-4, 1, 2, -2), (1, 2, 3, 4)),
        shape((0, 0, -4, -1, 2), (2, 3, 2, 2)), shape((2, -4, 3, -1, 4), (2, 3, 1, 4)),
        shape(relay.const([4, -1]), (4, 6)), shape(-1, (24,)),
        Case("reshape_like", relay.reshape_like, [X, n], lambda x, _: x.reshape(4, 6)),
        Case("reshape_like", lambda a, b: relay.reshape_like(a, b, 1, 3, 0, 2),
             [X, floats(6, 2)], lambda x, _: x.reshape(2, 6, 2)),
        Case("contrib_reverse_reshape", lambda v: relay.reverse_reshape(v, (-1, 0)), [X],
             X.reshape(6, 4)),
        Case("expand_dims", lambda v: relay.expand_dims(v, 1, 2), [X], X[:, None, None]),
        Case("expand_dims", lambda v: relay.expand_dims(v, -1), [X], X[..., None]),
        Case("squeeze", lambda v: relay.squeeze(v, [0]), [X[:1]], X[0]),
        Case("squeeze", relay.squeeze, [X[:1, :1]], X[0, 0]),
        Case("nn.batch_flatten", relay.nn.batch_flatten, [X], X.reshape(2, 12)),
        Case("transpose", lambda v: relay.transpose(v, (0, -1, 1)), [X], X.transpose(0, 2, 1)),
        Case("transpose", relay.transpose, [X], X.T),
        Case("reverse", lambda v: relay.reverse(v, 1), [X], X[:, ::-1]),
        Case("broadcast_to", lambda v: relay.broadcast_to(v, (2, 5, 3, 4)), [X[:, None]],
             np.broadcast_to(X[:, None], (2, 5, 3, 4))),
        Case("broadcast_to_like", relay.broadcast_to_like, [X[0], X],
             lambda a, b: np.broadcast_to(a, b.shape)),
        Case("collapse_sum_to", lambda v: relay.collapse_sum_to(v, (3, 1)), [X],
             X.sum((0, 2))[:, None]),
        Case("collapse_sum_like", relay.collapse_sum_like, [X, V[:4]], lambda x, _: x.sum((0, 1))),
        Case("repeat", lambda v: relay.repeat(v, 2, axis=1), [X], X.repeat(2, 1)),
        Case("tile", lambda v: relay.tile(v, (2, 1, 1, 3)), [X], np.tile(X, (2, 1, 1, 3))),
        Case("tile", lambda v: relay.tile(v, (2,)), [X], np.tile(X, 2)),
    ]  # fmt: skip


def parts() -> list[Case]:
    """Joining and cutting."""

    def cut(want: Array, *given: Any, **named: Any) -> Case:
        return Case("strided_slice", lambda v: relay.strided_slice(v, *given, **named), [X], want)

    replaced = X.copy()
    replaced[0:2:1, 2:0:-1, 1:4:2] = floats(2, 2, 2)
    windows = np.lib.stride_tricks.sliding_window_view(X, (2, 3), (1, 2))[:, :, ::1]
    data = floats(3, 2)
    return [
        Case("concatenate", lambda a, b: relay.concatenate([a, b], axis=-1), [X, Y],
             lambda a, b: np.concatenate([a, b], -1)),
        Case("concatenate", lambda a, b: relay.concatenate((a, b), 1), [X, Y[:, :1]],
             lambda a, b: np.concatenate([a, b], 1)),
        Case("stack", lambda a, b: relay.stack([a, b], axis=1), [X, Y],
             lambda a, b: np.stack([a, b], 1)),
        Case("split", lambda v: relay.split(v, 3, axis=1), [X], np.split(X, 3, 1)),
        Case("split", lambda v: relay.split(v, (1, 3), -1), [X], np.split(X, [1, 3], -1)),
        cut(X[0:1, 1:3], [0, 1], [1, 3]), cut(X[:, -2:, ::2], [0, -2, 0], [2, 9, 4], [1, 1, 2]),
        cut(X[:, ::-1], [-1], [-4], strides=[-1], axes=[1]),
        cut(X[1:2, :2], [1, 0], [-1, 2], slice_mode="size"),
        cut(X[:1, 1:], relay.const([0, 1]), relay.const([1, 3])),
        Case("strided_set", lambda v, u: relay.strided_set(v, u, [0, -1, 1], [2, 0, 4], [1, -1, 2]),
             [X, floats(2, 2, 2)], lambda *_: replaced),
        Case("slice_like", relay.slice_like, [X, V[:5].reshape(1, 5)[:, :2]],
             lambda a, _: a[:1, :2]),
        Case("slice_like", lambda a, b: relay.slice_like(a, b, axes=[-1]), [X, X[:, :, :3]],
             lambda a, _: a[:, :, :3]),
        Case("sliding_window", lambda v: relay.sliding_window(v, 1, [2, 3], [1, 1]), [X], windows),
        Case("nn.fifo_buffer", lambda a, b: relay.nn.fifo_buffer(a, b, axis=1), [X[:, :1], Y],
             lambda a, b: np.concatenate([b[:, 1:], a], 1)),
        Case("reverse_sequence",
             lambda v, n: relay.reverse_sequence(v, n, seq_axis=0, batch_axis=1),
             [data, np.array([2, 3], "int32")],
             np.stack([data[[1, 0, 2], 0], data[::-1, 1]], 1)),
        Case("sequence_mask", lambda v, n: relay.sequence_mask(v, n, -1.0, axis=1),
             [X, np.array([1, 3], "int32")],
             lambda x, n: np.where(np.arange(3)[:, None] < n[:, None, None], x, np.float32(-1))),
    ]  # fmt: skip


def selection() -> list[Case]:
    """Elements by index."""
    i = np.array([[0, 2], [5, -1]], "int32")
    rows = np.array([[0, 1], [2, 0]], "int64")
    at = ints(2, 2, 4, low=0, high=3, dtype="int64")
    put = X.copy()
    np.put_along_axis(put, np.array([[[1] * 4], [[2] * 4]]), Y[:, :1], 1)
    batch = np.array([[1, 0], [3, 3]], "int32")
    scattered = np.zeros((3, 4), "float32")
    np.add.at(scattered, np.array([0, 2, 0]), X[0])
    return [
        Case("take", lambda v, k: relay.take(v, k, axis=1), [X, i],
             lambda x, k: np.take(x, k, 1, mode="clip")),
        Case("take", lambda v, k: relay.take(v, k, 2, mode="wrap"), [X, i],
             lambda x, k: np.take(x, k, 2, mode="wrap")),
        Case("take", relay.take, [X, i], lambda x, k: np.take(x, k, mode="clip")),
        Case("take", lambda v, k: relay.take(v, k, 2, batch_dims=1), [X, batch],
             lambda x, k: np.stack([np.take(a, b, 1) for a, b in zip(x, k, strict=True)])),
        Case("take", lambda v, k: relay.take(v, k, axis=0, mode="fast"), [X, np.array(1)], X[1]),
        Case("gather", lambda v, k: relay.gather(v, 1, k), [X, at],
             lambda x, k: np.take_along_axis(x, k, 1)),
        Case("gather_nd", relay.gather_nd, [X, rows], lambda x, k: x[np.minimum(k[0], 1), k[1]]),
        Case("gather_nd", lambda v, k: relay.gather_nd(v, k, 1), [X, rows[:1].T[:2].reshape(1, 2)],
             lambda x, k: x[np.arange(2), k[0]]),
        Case("adv_index", lambda v, a, b: relay.adv_index([v, a, b]),
             [X, np.array([[0], [1]]), np.array([2, 0, 1])], lambda x, a, b: x[a, b]),
        Case("scatter_elements",
             lambda v, k, u: relay.scatter_elements(v, k, u, axis=1),
             [X, np.array([[[1] * 4], [[2] * 4]]), Y[:, :1]], lambda *_: put),
        Case("scatter_elements", lambda v, k, u: relay.scatter_elements(v, k, u, 0, "add"),
             [V, np.array([1, 1, 4]), V[:3]],
             lambda v, k, u: v + np.bincount(k, u, 6).astype("float32")),
        Case("scatter_nd", lambda v, k, u: relay.scatter_nd(v, k, u, mode="add"),
             [np.zeros((3, 4), "float32"), np.array([[0, 2, 0]]), X[0]], lambda *_: scattered),
        Case("segment_sum", lambda v, k: relay.segment_sum(v, k, 3), [X[0], np.array([0, 2, 0])],
             lambda *_: scattered),
        Case("unravel_index", lambda v: relay.unravel_index(v, relay.const([3, 4])),
             [np.array([5, 11], "int32")], np.array([[1, 2], [1, 3]], "int32")),
        Case("unravel_index", relay.unravel_index,
             [np.array([5, 11], "int32"), np.array([3, 4], "int32")],
             lambda *_: np.array([[1, 2], [1, 3]], "int32")),
        Case("invert_permutation", relay.invert_permutation, [np.array([2, 0, 1], "int32")],
             np.array([1, 2, 0], "int32")),
    ]  # fmt: skip


def sorting() -> list[Case]:
    """Order."""
    top = np.sort(X, -1)[..., ::-1]
    order = np.argsort(-X, -1, kind="stable")
    u = np.array([3, 1, 3, 2, 1], "int32")
    return [
        Case("sort", lambda v: relay.sort(v, 1, False), [X], np.sort(X, 1)[:, ::-1]),
        Case("sort", relay.sort, [X], np.sort(X)),
        Case("argsort", lambda v: relay.argsort(v, axis=0), [X],
             np.argsort(X, 0, kind="stable").astype("int32")),
        Case("argsort", lambda v: relay.argsort(v, is_ascend=False, dtype="float32"), [X],
             order.astype("float32")),
        Case("topk", lambda v: relay.topk(v, 2), [X],
             [top[..., :2], order[..., :2].astype("int32")]),
        Case("topk", lambda v: relay.topk(v, 1, ret_type="values", is_ascend=True), [X],
             top[..., -1:]),
        Case("topk", lambda v: relay.topk(v, k=0, ret_type="indices", dtype="int64"), [X], order),
        Case("topk", lambda v: relay.topk(v, relay.const(2), 1, "values"), [X],
             np.sort(X, 1)[:, ::-1][:, :2]),
        Case("searchsorted", lambda a, b: relay.searchsorted(a, b, right=True),
             [np.sort(V), floats(2, 3)],
             lambda a, b: np.searchsorted(a, b, "right").astype("int32")),
        Case("unique", lambda v: relay.unique(v, True, True)[3], [u], np.array([3], "int32")),
        Case("unique", lambda v: relay.strided_slice(relay.unique(v)[0], [0], [3]), [u],
             np.array([1, 2, 3], "int32")),
        Case("unique", lambda v: relay.unique(v)[2], [u], np.array([2, 0, 2, 1, 0], "int32")),
        Case("argwhere", lambda: relay.argwhere(relay.const(u > 1)), [],
             np.array([[0], [2], [3]], "int32")),
    ]  # fmt: skip


def layouts() -> list[Case]:
    """Orders of dimensions, and parts of dimensions."""
    x = floats(1, 4, 2, 3)
    packed = x.reshape(1, 2, 2, 2, 3).transpose(0, 1, 3, 4, 2)
    w = floats(4, 4, 1, 2)
    tiled = w.reshape(2, 2, 1, 2, 2, 1, 2).transpose(0, 2, 5, 6, 3, 1, 4)

    def turned(a: Array, src: str, dst: str, want: Array) -> Case:
        return Case("layout_transform", lambda v: relay.layout_transform(v, src, dst), [a], want)

    return [
        turned(x, "NCHW", "NHWC", x.transpose(0, 2, 3, 1)), turned(x, "NCHW", "NCHW2c", packed),
        turned(packed, "NCHW2c", "NCHW", x), turned(x, "NCHW", "NCHW", x),
        turned(packed, "NCHW2c", "NHWC", x.transpose(0, 2, 3, 1)),
        turned(w, "OIHW", "OIHW2i2o1i",
               w.reshape(2, 2, 2, 2, 1, 1, 2).transpose(0, 2, 5, 6, 3, 1, 4)[..., None]
               .reshape(2, 2, 1, 2, 2, 2, 1)),
        turned(tiled[..., 0, 0].reshape(2, 1, 1, 2, 2), "ABCDE", "EDCBA",
               tiled[..., 0, 0].reshape(2, 1, 1, 2, 2).T),
    ]  # fmt: skip


def sparse() -> list[Case]:
    """Sparse matrices and coordinates."""
    full = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 0, 4], [0, 5, 6, 0]], "float32")
    data = full[full != 0]
    indices = np.nonzero(full)[1].astype("int32")
    indptr = np.array([0, 2, 2, 4, 6], "int32")
    t = full.T
    dense = floats(3, 4)
    image = floats(1, 2, 3, 4)
    at = np.array([[0, 1], [2, 3], [2, 0]], "int64")
    values = np.array([1, 2, 3], "float32")
    filled = (np.array([[0, 1], [1, 0], [2, 3], [2, 0]]), np.array([1, 9, 2, 3], "float32"),
              np.array([False, True, False]))  # fmt: skip
    made = np.zeros((3, 4), "float32")
    made[at[:, 0], at[:, 1]] = values
    return [
        Case("nn.sparse_dense", lambda d, *s: relay.nn.sparse_dense(d, s),
             [dense, data, indices, indptr], lambda d, *_: d @ full.T),
        Case("nn.sparse_dense", lambda d, *s: relay.nn.sparse_dense(d, s, True),
             [dense, data, indices, indptr], lambda d, *_: full @ d.T),
        Case("nn.sparse_add", lambda d, *s: relay.nn.sparse_add(d, s),
             [floats(4, 4), data, indices, indptr], lambda d, *_: d + full),
        Case("nn.sparse_transpose", lambda *s: relay.nn.sparse_transpose(s),
             [data, indices, indptr],
             lambda *_: (t[t != 0], np.nonzero(t)[1].astype("int32"),
                         np.array([0, 1, 3, 4, 6], "int32"))),
        Case("nn.sparse_conv2d", lambda d, *s: relay.nn.sparse_conv2d(d, s),
             [image, data, indices, indptr], lambda d, *_: d @ full.T),
        Case("sparse_to_dense", lambda i, v: relay.sparse_to_dense(i, (3, 4), v, 0.0), [at, values],
             lambda *_: made),
        Case("sparse_reshape", lambda i, a, b: relay.sparse_reshape(i, a, b),
             [at, np.array([3, 4]), np.array([2, -1])],
             lambda *_: (np.array([[0, 1], [1, 5], [1, 2]]), np.array([2, 6]))),
        Case("sparse_fill_empty_rows", lambda: relay.sparse_fill_empty_rows(
            relay.const(at), relay.const(values), relay.const(np.array([3, 4])), relay.const(9.0)),
            [], filled),
    ]  # fmt: skip


def formulas() -> list[Case]:
    """einsum and Fourier transforms."""
    re, im = floats(2, 6), floats(2, 6, seed=4)
    z = np.fft.fft(re + 1j * im)
    back = np.fft.ifft(re + 1j * im)
    signal, window = floats(2, 20), floats(4, low=0.1)
    padded = np.pad(window, (2, 2))
    frames = np.stack([signal[:, i : i + 8] * padded for i in range(0, 13, 3)], 1)
    found = np.fft.rfft(frames) / np.sqrt(8)
    spectrum = np.stack([found.real, found.imag], -1).transpose(0, 2, 1, 3).astype("float32")

    def sums(equation: str, *shapes: tuple[int, ...]) -> Case:
        arrays = [floats(*s, seed=n) for n, s in enumerate(shapes)]
        return Case("einsum", lambda *xs: relay.einsum(list(xs), equation), arrays,
                    lambda *xs: np.einsum(equation, *xs))  # fmt: skip

    return [
        sums("ij,jk->ik", (2, 3), (3, 4)), sums("bij,bkj->bik", (2, 3, 4), (2, 5, 4)),
        sums("ij->ji", (2, 3)), sums("ij->", (2, 3)), sums("i,j->ij", (2,), (3,)),
        sums("abc,cd,de->abe", (2, 3, 4), (4, 5), (5, 2)), sums("...ij,...jk->...ik", (2, 3, 4),
                                                               (2, 4, 5)),
        sums("ij,jk", (2, 3), (3, 4)), sums("bhqd,bkhd->bhqk", (2, 2, 3, 4), (2, 5, 2, 4)),
        Case("dft", relay.dft, [re, im],
             lambda *_: (z.real.astype("float32"), z.imag.astype("float32"))),
        Case("dft", lambda a, b: relay.dft(a, b, inverse=True), [re, im],
             lambda *_: (back.real.astype("float32"), back.imag.astype("float32"))),
        Case("stft", lambda x, w: relay.stft(x, 8, 3, 4, w, True, True), [signal, window],
             lambda *_: spectrum),
    ]  # fmt: skip


CASES = [*shapes(), *parts(), *selection(), *sorting(), *layouts(), *sparse(), *formulas()]
