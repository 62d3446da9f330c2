"""Sorting, searching, sets, sequences, scattering many times to one place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import Var
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Function, Tuple, TupleGetItem, call
from smelt.relax.nodes import Var as Param
from smelt.te import create_prim_func
from smelt.tir import assert_structural_equal
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.topi import get_op

from .cases import Array, Case, close, data
from .compiled import check_all, check_compiled, run_compiled

ALL = ("float32", "float16", "float64", "bfloat16", "int8", "int32", "int64", "uint8")
STRANGE = np.array([3, np.nan, 1, np.inf, -np.inf, np.nan, 0, -0.0, 1], np.float32)


@pytest.mark.parametrize("descending", [False, True])
def test_sorting(descending: bool) -> None:
    more: Any = {"descending": descending}
    check_all([
        *[Case("argsort", data((2, 9, 3), t), axis=1, **more) for t in ALL],
        *[Case("sort", data((2, 9), t), symbolic={0: {0: "n", 1: "m"}}, **more) for t in ALL],
        Case("argsort", data((5, 4), "int8"), axis=0, dtype="int32", **more),
        Case("argsort", data((2, 33), "uint8"), symbolic={0: {1: "n"}}, **more),
        *[Case("sort", STRANGE[:n], **more) for n in (1, 2, 3, 4, 5, 9)],
        Case("argsort", np.zeros((0, 3), np.float32), axis=0, **more),
        Case("sort", np.zeros((2, 0), np.float32), symbolic={0: {1: "n"}}, **more),
    ])  # fmt: skip


def test_sorting_many_elements_in_parallel() -> None:
    random = np.random.default_rng(5)
    x = random.integers(-50, 50, (6, 3001)).astype(np.int32)
    check_compiled([Case("argsort", x), Case("sort", x.T.copy(), axis=0, descending=True)])


def test_searching() -> None:
    row, rows = np.sort(data((17,), "int32", -5, 5)), np.sort(data((3, 8)))
    nan = np.sort(STRANGE)
    check_all([
        *[Case("searchsorted", row, data((3, 4), "int32", -7, 7), right=r) for r in (False, True)],
        Case("searchsorted", rows, data((3, 5)), symbolic={0: {0: "n", 1: "m"}, 1: {0: "n"}}),
        *[Case("searchsorted", nan, STRANGE, right=r, dtype="int32") for r in (False, True)],
        *[Case("searchsorted", np.sort(data((n,), "uint8")), data((4,), "uint8"))
          for n in (1, 2, 4)],
    ])  # fmt: skip


def test_distinct_elements() -> None:
    given = [data((40,), "int32", -5, 5), data((40,), "uint8", 0, 3), STRANGE,
             data((7,), "float32"), np.ones(5, np.float16), np.zeros(0, np.int64)]  # fmt: skip
    flags = (True, False)
    for x in given:
        sizes = {0: {0: "n"}} if x.size else {}
        check_all([Case("unique", x, sorted=s, symbolic=sizes) for s in flags])


def test_where_something_stands() -> None:
    given = [data((4, 5), "int8", 0, 1), data((3, 2, 2), "bool"), STRANGE, np.zeros((3, 2), "f")]
    check_all([Case("argwhere", x) for x in given])
    check_all([Case("argwhere", given[0], symbolic={0: {0: "n", 1: "m"}})])


def test_places_and_permutations() -> None:
    places, order = data((3, 4), "int64", 0, 59), np.random.default_rng(1).permutation(19)
    check_all([
        Case("unravel_index", places, shape=(3, 4, 5)),
        Case("unravel_index", places.astype(np.int32), shape=(60,)),
        Case("invert_permutation", order.astype(np.int32), symbolic={0: {0: "n"}}),
        Case("invert_permutation", np.array([2, -1, 9, 0], np.int64)),
    ])  # fmt: skip


def test_sequences() -> None:
    x, lengths = data((4, 3, 2)), np.array([0, 3, 9], np.int32)
    check_all([
        Case("sequence_mask", x, lengths, mask_value=-1.5, symbolic={0: {0: "n"}}),
        Case("sequence_mask", data((3, 5), "int8"), lengths, axis=1),
        Case("reverse_sequence", x, lengths, seq_axis=0, batch_axis=1),
        Case("reverse_sequence", data((3, 2, 4)), lengths, seq_axis=2, symbolic={0: {2: "m"}}),
    ])  # fmt: skip


@pytest.mark.parametrize("align", ["RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"])
def test_diagonals(align: str) -> None:
    x = data((2, 4, 6))
    more: Any = {"align": align}
    check_all([
        Case("matrix_set_diag", x, data((2, 4)), **more),
        Case("matrix_set_diag", x, data((2, 3)), k=(3, 3), **more),
        Case("matrix_set_diag", x, data((2, 5, 4)), k=(-2, 2), **more),
        Case("matrix_set_diag", x, data((2, 2, 3)), k=(-2, -1), **more),
        Case("matrix_set_diag", x, data((2, 3, 4)), k=(2, 4), **more),
    ])  # fmt: skip


# ------------------------------------------------------------------------- gather, scatter, top k

OUTSIDE = np.array([[-9, -1, 0], [2, 4, 11]], np.int64)


def test_indices_beyond_the_ends() -> None:
    x = data((3, 4))
    cases = [Case("gather", x, OUTSIDE, axis=a, mode=m) for a in (0, 1)
             for m in ("negative", "clip", "wrap")]  # fmt: skip
    check_all([*cases, Case("gather", x, OUTSIDE, mode="wrap", symbolic={0: {0: "n"}})])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "float64"])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_many_updates_of_one_place(reduction: str, dtype: str) -> None:
    at = data((5, 3), "int64", -4, 3)
    more: Any = {"reduction": reduction}
    rows = np.array([[1], [3], [1], [-1]], np.int32)
    check_all([
        Case("scatter_elements", data((4, 3), dtype), at, data((5, 3), dtype), **more),
        Case("scatter_nd", data((4, 16), dtype), rows, data((4, 16), dtype), **more),
        Case("scatter_nd", data((4, 2), dtype), rows[1], data((2,), dtype), **more),
    ])  # fmt: skip


PROGRAMS = [
    Case("argsort", data((4, 70)), axis=0),
    Case("sort", data((3, 4)), symbolic={0: {0: "n", 1: "m"}}),
    Case("unique", data((9,), "int32")),
    Case("cumsum", data((5, 4000)), axis=1),
    Case("scatter_nd", data((4, 16)), np.array([[1], [2]]), data((2, 16))),
]


@pytest.mark.parametrize("case", PROGRAMS, ids=[c.name for c in PROGRAMS])
def test_programs_are_text_and_can_be_built(case: Case) -> None:
    instance = get_op(case.name).instance(case.types, get_op(case.name).normalize(case.attrs))
    inputs = [t for t in instance.inputs if t is not None]
    func = create_prim_func([*inputs, *instance.outputs], case.name)
    assert_structural_equal(parse(script(func)), func)
    want = case.numpy()
    outs = [np.zeros(w.shape, w.dtype) for w in want]
    smelt.build(func)(*[x for x in case.operands if x is not None], *outs)
    for got, expected in zip(outs, want, strict=True):
        close(got, expected)


def test_programs_between_other_operators() -> None:
    n = Var("n")
    x = Param("x", tensor_type((n, 5, 4)))
    turned = call("transpose", x, axes=(0, 2, 1))
    best = call("topk", x, k=2, axis=1)
    results = (
        call("relu", call("multiply", call("sort", call("exp", x), axis=1), x)),
        call("add", call("cumsum", turned, axis=1), turned),
        call("exp", TupleGetItem(best, 0)),
        TupleGetItem(best, 1),
    )
    function = Function((x,), Tuple(results))
    given = data((6, 5, 4))
    found = smelt.compile(IRModule({"main": function}), options=smelt.Options(threads=2))(given)
    for got, want in zip(found, interpret(function, given), strict=True):
        close(np.asarray(got.numpy()), want)


def test_updates_of_no_place_are_left_out() -> None:
    x, at = np.zeros(3, np.float32), np.array([-4, 3, 1], np.int64)
    (found,) = run_compiled([Case("scatter_elements", x, at, np.ones(3, np.float32))])[0]
    assert found.tolist() == [0, 1, 0]


def test_the_best_of_many() -> None:
    x = data((3, 40), "float16")
    check_compiled([Case("topk", x, k=7, largest=b) for b in (True, False)])
    check_compiled([Case("topk", x, k=1, axis=0, symbolic={0: {1: "n"}})])


def test_the_best_whatever_their_order() -> None:
    """Equal elements and NaN keep theirs; rows that rise, fall, repeat."""
    up = np.arange(300, dtype=np.float32)
    rows = np.stack([up, -up, up % 7, np.where(up % 5 == 0, np.nan, up), np.full(300, np.nan)])
    for k in (1, 2, 100, 128, 129, 300):
        check_compiled([Case("topk", rows, k=k, largest=b) for b in (True, False)])


TEXTS: list[tuple[Case, str]] = [
    (Case("sort", data((3,), "bool")),
     "sort: x is bool; the operator is defined for numbers, cast it"),
    (Case("argsort", data((3,)), dtype="float32"),
     "argsort: dtype='float32'; it has to be an integer type"),
    (Case("searchsorted", data((2, 3)), data((3, 3))),
     "searchsorted: sorted [2, 3] and values [3, 3]: dimension 0; got 2 and 3"),
    (Case("unique", data((2, 3))), "unique: x [2, 3] has to have one dimension; reshape it"),
    (Case("gather", data((3,)), np.array([1]), mode="fast"),
     "gather: mode='fast'; legal: negative, clip, wrap"),
    (Case("matrix_set_diag", data((2, 3)), data((3,))),
     "matrix_set_diag: x [2, 3] and diagonal [3] with k=(0, 0): the longest diagonal; got 2 and 3"),
    (Case("matrix_set_diag", data((2, 3)), data((2,)), k=(1, 0)),
     "matrix_set_diag: k=(1, 0); it has to be two numbers, the smaller one first"),
    (Case("sequence_mask", data((2, 3)), np.array([1, 2]), axis=2),
     "sequence_mask: axis=2; legal: 0, 1"),
    (Case("reverse_sequence", data((2, 3)), np.array([1, 2]), seq_axis=0),
     "reverse_sequence: seq_axis=0 and batch_axis=0 are one dimension"),
    (Case("diagonal", data((2, 3)), axes=(0, 1)),
     "diagonal: x [2, 3]: dimensions 0 and 1; got 2 and 3"),
    (Case("diagonal", data((2, 2)), axes=(1, -1)), "diagonal: axes=(1, -1) are one dimension"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "text"), TEXTS, ids=[c.name for c, _ in TEXTS])
def test_texts_of_mistakes(case: Case, text: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        case.numpy()
    assert str(caught.value) == text


def test_sets_are_those_of_numpy() -> None:
    x: Array = data((30,), "int64", -4, 4)
    values, first, inverse, counts, count = run_compiled([Case("unique", x)])[0]
    n = int(count)
    np.testing.assert_array_equal(values[:n], np.unique(x))
    np.testing.assert_array_equal(values[inverse], x)
    np.testing.assert_array_equal(x[first[:n]], values[:n])
    assert int(counts.sum()) == x.size
