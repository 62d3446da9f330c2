"""Sparse matrices and tensors, Fourier transforms."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.ir.errors import TypeMismatch

from .cases import Array, Case, data
from .compiled import check_all, check_compiled


def rows_of(
    lines: int, columns: int, dtype: str, block: tuple[int, ...] = (), index: str = "int32"
) -> tuple[Array, Array, Array]:
    """A sparse matrix in compressed rows; some rows are empty."""
    random = np.random.default_rng([lines, columns])
    mask = random.uniform(size=(lines, columns)) < 0.35
    mask[lines // 2] = False
    where = np.argwhere(mask)
    indptr = np.concatenate([[0], np.cumsum(mask.sum(1))]).astype(index)
    return data((len(where), *block), dtype), where[:, 1].astype(index), indptr


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int8"])
def test_products_and_sums_with_compressed_rows(dtype: str) -> None:
    rows, blocks = rows_of(7, 9, dtype), rows_of(3, 4, dtype, (2, 3), "int64")
    check_all([
        Case("sparse_dense", data((4, 9), dtype), *rows, symbolic={0: {0: "n"}, 1: {0: "m"}, 2:
             {0: "m"}}),
        Case("sparse_dense", data((4, 12), dtype), *blocks),
        Case("sparse_add", data((7, 9), dtype), *rows),
        Case("sparse_add", data((6, 12), dtype), *blocks),
    ])  # fmt: skip


def test_a_product_that_is_shared_out() -> None:
    check_compiled([Case("sparse_dense", data((8, 120)), *rows_of(200, 120, "float32"))])


def test_transposition() -> None:
    wide, tall = rows_of(5, 8, "float32"), rows_of(8, 3, "int8", (), "int64")
    check_all([
        Case("sparse_transpose", *rows_of(6, 6, "float32")),
        Case("sparse_transpose", *wide, columns=8),
        Case("sparse_transpose", *tall, columns=3, symbolic={0: {0: "n"}, 1: {0: "n"}}),
    ])  # fmt: skip


def test_coordinates() -> None:
    places, one = np.array([[0, 1], [2, 3], [1, 0], [2, 3]], np.int32), np.array(1.5, np.float32)
    check_all([
        Case("sparse_to_dense", places, data((4,)), shape=(3, 4), default=-1.0),
        Case("sparse_to_dense", places, one, shape=(3, 4), symbolic={0: {0: "n"}}),
        Case("sparse_to_dense", np.array([1, 4], np.int64), data((2,), "int8"), shape=(6,)),
        Case("sparse_to_dense", np.array(3, np.int64), one, shape=(6,)),
    ])  # fmt: skip


def test_rows_are_filled() -> None:
    places = np.array([[3, 1], [0, 2], [3, 0], [1, 1]], np.int64)
    default = np.array(-7, np.float32)
    check_all([
        Case("sparse_fill_empty_rows", places, data((4,)), default, shape=(6, 4)),
        Case("sparse_fill_empty_rows", places[1:2], data((1,)), default, shape=(1, 4)),
        Case("sparse_fill_empty_rows", places, data((4,)), default, shape=(6, 4),
             symbolic={0: {0: "n"}, 1: {0: "n"}}),
    ])  # fmt: skip


def test_coordinates_in_another_shape() -> None:
    places = np.array([[0, 1, 2], [2, 0, 3], [1, 1, 1]], np.int32)
    check_all([
        Case("sparse_reshape", places, prev_shape=(3, 2, 4), new_shape=s)
        for s in ((24,), (4, 6), (2, -1, 3), (3, 2, 2, 2))
    ])  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_fourier_transforms(dtype: str) -> None:
    re, im = data((3, 10, 2), dtype, -1, 1), data((3, 10, 2), dtype, 0, 1)
    loose = {"float16": 2e-2}.get(dtype)
    check_all([
        Case("dft", re, im, axis=1), Case("dft", re, im, axis=-1, inverse=True),
        Case("dft", re[:, :, 0].copy(), im[:, :, 0].copy(), inverse=True,
             symbolic={0: {0: "n", 1: "m"}, 1: {0: "n", 1: "m"}}),
    ], loose)  # fmt: skip


def test_a_longer_transform() -> None:
    check_compiled([Case("dft", data((2, 128)), data((2, 128)) + 1)], 1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_transforms_of_overlapping_pieces(dtype: str) -> None:
    x, window = data((2, 23), dtype), data((8,), dtype, 0, 1)
    check_all([
        Case("stft", x, window, n_fft=8, hop_length=3, symbolic={0: {0: "n", 1: "m"}}),
        Case("stft", x, window, n_fft=8, hop_length=5, onesided=False, normalized=True),
        Case("stft", x[0], window[:5].copy(), n_fft=5, hop_length=1, normalized=True),
    ])  # fmt: skip


def test_texts_of_mistakes() -> None:
    rows = rows_of(7, 9, "float32")
    texts = [
        (Case("sparse_dense", data((4, 9), "float64"), *rows),
         "sparse_dense: x is float64 and data is float32; both need one element type, cast one"),
        (Case("sparse_add", data((6, 9)), *rows),
         "sparse_add: x [6, 9] and indptr [8]: the rows of x are those of the sparse matrix; got 6 "
         "and 7"),
        (Case("sparse_dense", data((4, 9)), rows[0], rows[1][:3], rows[2]),
         f"sparse_dense: data [{len(rows[0])}] and indices [3]: dimension 0; got {len(rows[0])} "
         "and 3"),
        (Case("sparse_transpose", *rows_of(3, 4, "float32", (2, 3))),
         f"sparse_transpose: data [{len(rows_of(3, 4, 'float32')[0])}, 2, 3] holds blocks; legal: "
         "[elements]"),
        (Case("sparse_to_dense", np.zeros((2, 2), np.int64), data((2,)), shape=(3,)),
         "sparse_to_dense: indices [2, 2] name 2 dimensions, shape [3] has 1"),
        (Case("sparse_reshape", np.zeros((2, 2), np.int64), prev_shape=(2, 3), new_shape=(-1, -1)),
         "sparse_reshape: new_shape=[-1, -1]: one extent at most may be -1"),
        (Case("stft", data((5,)), data((8,)), n_fft=8, hop_length=1),
         "stft: n_fft=8; x [5] has 5 samples"),
        (Case("dft", data((5,)), data((6,))),
         "dft: re [5] and im [6] have to be of one shape: dimension 0; got 5 and 6"),
    ]  # fmt: skip
    for case, text in texts:
        with pytest.raises(TypeMismatch) as caught:
            case.numpy()
        assert str(caught.value) == text
