"""Symbolic sizes in written models: constants where that can be, else computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.nodes import Function, RelaxExpr, Tuple, Var, call

from .written import checked, operators, runtime

N, S = SizeVar("n", "int64"), SizeVar("s", "int64")


def written(y: RelaxExpr, *params: Var) -> Any:
    return checked(IRModule({"main": Function(params, y)}))


def image(*shape: Any) -> Var:
    return Var("x", tensor_type(shape, "float32"))


@pytest.mark.parametrize(
    ("have", "want", "said"),
    [
        ((N, S, 48), (N, S, 12, 4), None),
        ((N, 48), (N, 12, 4), [0, 12, 4]),
        ((N, 6, 8), (N * 6, 8), [-1, 8]),
        ((N, 6, 8), (6, N, 8), [6, -1, 8]),
        ((2, 6), (3, 4), [3, 4]),
        ((0, 6), (3, 0), [3, 0]),
    ],
)
def test_shapes_are_constants_where_one_size_is_open(have: Any, want: Any, said: Any) -> None:
    x = image(*have)
    made = written(call("reshape", x, shape=want), x)
    sizes = {"n": 3, "s": 5}
    shape = [e if isinstance(e, int) else sizes[e.name] for e in have]
    (got,) = runtime(made)({"x": np.zeros(shape, np.float32)})
    total = np.zeros(shape).size
    assert got.size == total
    if said is not None:
        assert operators(made) == ["Reshape"]
        assert [list(np.frombuffer(t.raw_data, np.int64)) for t in made.graph.initializer] == [said]


def test_a_size_is_computed_once() -> None:
    x = image(N, S, 8)
    y = call("reshape", x, shape=(S, N, 8))
    z = call("broadcast_to", call("reshape", y, shape=(1, S, N, 8)), shape=(N, S, N, 8))
    made = written(Tuple((y, z)), x)
    assert operators(made).count("Shape") == 2
    got = runtime(made)({"x": np.ones((2, 3, 8), np.float32)})
    assert [g.shape for g in got] == [(3, 2, 8), (2, 3, 2, 8)]


@pytest.mark.parametrize(
    ("end", "count"), [(N // 2, 3), (N - 1, 6), (N * 2 - N, 7), ((N + 3) // 4, 2), (N % 3 + 1, 2)]
)
def test_bounds_are_computed(end: Any, count: int) -> None:
    x = image(N, 4)
    made = written(call("strided_slice", x, axes=(0,), begin=(0,), end=(end,), strides=(1,)), x)
    (got,) = runtime(made)({"x": np.ones((7, 4), np.float32)})
    assert got.shape == (count, 4)


def test_a_size_that_only_a_product_shows_is_read_off_it() -> None:
    x = image(N * 2, 3)
    made = written(call("full", shape=(N * 2, 1), value=1.5, dtype="float32"), x)
    (got,) = runtime(made)({"x": np.ones((6, 3), np.float32)})
    assert got.shape == (6, 1)


def test_sizes_have_names_of_their_own() -> None:
    a = Var("a", tensor_type((N, SizeVar("n", "int64")), "float32"))
    made = written(call("relu", a), a)
    shape = made.graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param for d in shape] == ["n", "n_1"]
    assert [d.dim_param for d in made.graph.output[0].type.tensor_type.shape.dim] == ["n", "n_1"]
