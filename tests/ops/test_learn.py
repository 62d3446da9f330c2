"""Determinants, decision trees, runs of integers, distinct rows, runs written into sequences."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.ir.errors import TypeMismatch

from .cases import Array, Case, data
from .compiled import check_all, run_compiled


def test_determinants() -> None:
    singular = np.array([[1, 2, 3], [2, 4, 6], [0, 1, 5]], np.float32)
    turned = np.array([[0, 1], [1, 0]], np.float64)
    check_all([
        Case("det", data((2, 3, 4, 4))),
        Case("det", data((5, 5), "float64"), symbolic={0: {0: "n", 1: "n"}}),
        Case("det", data((3, 2, 2), "float16")),
        Case("det", data((4, 1, 1))),
        Case("det", turned),
        Case("det", singular),
    ])  # fmt: skip


def test_probabilities_from_pairs() -> None:
    x = np.random.default_rng(3).uniform(0.02, 0.98, (5, 4, 4)).astype(np.float32)
    for i in range(4):
        x[:, i, :i] = 1 - x[:, :i, i]
    check_all([
        Case("pairwise_coupling", x, symbolic={0: {0: "n"}}),
        Case("pairwise_coupling", x.astype(np.float64)),
    ])  # fmt: skip


def test_runs_written_into_sequences() -> None:
    x, new, begins = data((3, 2, 6, 2)), data((3, 2, 4, 2)), np.array([0, 2, 5])
    check_all([
        Case("write_sequence", x, new, begins, axis=2, circular=True),
        Case("write_sequence", x, new, begins),
        Case("write_sequence", data((3, 6), "int8"), data((3, 2), "int8"), begins, axis=1,
             symbolic={0: {1: "n"}, 1: {1: "m"}}),
        Case("write_sequence", x, new, begins.astype(np.int32), symbolic={0: {0: "n"},
             1: {0: "n"}, 2: {0: "n"}}),
    ])  # fmt: skip


def test_distinct_rows() -> None:
    given = [data((20, 3), "int32", 0, 1), data((9, 1), "float32", 0, 2), np.ones((4, 2), "i8"),
             data((12, 2), "uint8", 0, 2)]  # fmt: skip
    check_all([Case("unique_rows", x, sorted=s) for x in given for s in (True, False)])
    check_all([Case("unique_rows", given[0], symbolic={0: {0: "n", 1: "m"}})])


def test_distinct_rows_are_those_of_numpy() -> None:
    x: Array = data((40, 3), "int64", 0, 2)
    values, first, inverse, counts, count = run_compiled([Case("unique_rows", x)])[0]
    want = np.unique(x, True, True, True, axis=0)
    n = int(count)
    for got, expected in zip((values[:n], first[:n], inverse, counts[:n]), want, strict=True):
        np.testing.assert_array_equal(got, expected.reshape(got.shape))


def test_runs_of_integers() -> None:
    x = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]])
    pool = np.array([2, 3, 5, 7, 5, 6, 7, 8, 6, 7])
    begins, sizes, places = (
        np.array([0, 1, 2, 3, 4, 6, 8]),
        np.array([1] * 4 + [2] * 3),
        np.arange(7),
    )
    tables = (pool, begins, sizes, places)
    check_all([
        *[Case("count_runs", x, *tables, skips=s, width=7) for s in (0, 1, 5)],
        Case("count_runs", x, *tables, skips=1, width=9, symbolic={0: {0: "n", 1: "m"}}),
        Case("count_runs", x.astype(np.int32), pool.astype(np.int32), *tables[1:], skips=0,
             width=7),
    ])  # fmt: skip


def trees(dtype: str) -> tuple[Array, ...]:
    """Two full trees of depth two with all comparisons, and one that is a leaf."""
    modes, values = np.array([0, 1, 2, 3, 4, 5]), np.array([0, 1, -1, 0, 1, 2])
    then, other = np.array([1, -1, -2, 4, -5, -7]), np.array([2, -3, -4, 5, -6, -8])
    return (
        np.array([0, 3, -9]), np.array([0, 1, 2, 0, 1, 2]), modes, values.astype(dtype), then,
        other, np.array([0, 1, 0, 1, 0, 1]),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_leaves_of_trees(dtype: str) -> None:
    x = data((30, 3), "int64", -2, 2).astype(dtype)
    if dtype != "int64":
        x[::5, 0] = x[1::7, 1] = np.nan
    check_all([
        Case("tree_leaves", x, *trees(dtype), depth=2),
        Case("tree_leaves", x, *trees(dtype), depth=2, symbolic={0: {0: "n"}}),
    ])  # fmt: skip


def test_texts_of_mistakes() -> None:
    texts = [
        (Case("det", data((2, 3))), "det: x [2, 3] has to hold square matrices; got 2 and 3"),
        (Case("det", data((2, 2), "int32")), "det: x is int32; the operator is defined for floats "
         "only"),
        (Case("write_sequence", data((2, 3)), data((2, 4)), np.array([0, 0]), axis=1),
         "write_sequence: x [2, 3] and update [2, 4]: 4 elements for 3"),
        (Case("write_sequence", data((2, 3)), data((2, 3)), np.array([0, 0]), axis=0),
         "write_sequence: axis=0 is the batch dimension"),
        (Case("unique_rows", data((2,))),
         "unique_rows: x [2] has to have two dimensions; reshape it"),
    ]  # fmt: skip
    for case, text in texts:
        with pytest.raises(TypeMismatch) as caught:
            case.numpy()
        assert str(caught.value) == text
