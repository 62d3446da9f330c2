"""Operators that change a part of their operand: in place they give what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.nodes import Function, Var, call
from smelt.te import Tensor, compute
from smelt.topi.registry import _OPS, get_op

UPDATING = ("scatter_elements", "scatter_nd", "write_sequence")
CASES: list[tuple[str, dict[str, Any], list[tuple[int, ...]], list[np.ndarray]]] = [
    ("scatter_nd", {}, [(6,), (3,)], [np.array([[4], [0], [4]])]),
    ("scatter_nd", {}, [(5, 16), (2, 16)], [np.array([[4], [-2]])]),
    ("scatter_nd", {"reduction": "max"}, [(5, 3, 8), (4, 8)],
     [np.array([[0, 0], [4, 2], [0, 0], [1, 1]])]),
    ("scatter_nd", {"reduction": "add"}, [(4, 7), (2, 3, 7)],
     [np.array([[[0], [1], [0]], [[3], [3], [3]]])]),
    ("scatter_nd", {}, [(4, 7), (0, 7)], [np.zeros((0, 1), "int64")]),
    ("scatter_elements", {"axis": 0}, [(5, 4), (2, 4)],
     [np.array([[0, 1, 2, 3], [4, 3, 2, 1]])]),
    ("scatter_elements", {"axis": -1, "reduction": "mul"}, [(2, 8), (2, 3)],
     [np.array([[0, 0, 0], [7, -1, 7]])]),
    ("write_sequence", {"axis": 1}, [(2, 6, 8), (2, 2, 8)], [np.array([3, 5])]),
    ("write_sequence", {"axis": 1, "circular": True}, [(2, 6, 3), (2, 4, 3)],
     [np.array([3, -5])]),
    ("write_sequence", {"axis": -1}, [(2, 3, 8), (2, 3, 2)], [np.array([7, 0])]),
    ("write_sequence", {"axis": 2}, [(2, 64, 32, 16), (2, 64, 24, 16)], [np.array([8, 20])]),
]  # fmt: skip
"""Operator, attributes, the shapes of the operand and of what is written to it, the places."""


def values(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.integers(0, 2 if dtype == "bool" else 4, shape).astype(dt.to_numpy(dtype))


def test_these_are_all() -> None:
    assert tuple(sorted(n for n, o in _OPS.items() if o.update)) == UPDATING


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int8", "int64"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]} {c[1]} {c[2][0]}")
def test_in_place_they_give_what_they_mean(case: Any, dtype: str) -> None:
    name, attrs, shapes, (places,) = case
    x, new = (Var(n, tensor_type(s, dtype)) for n, s in zip(("x", "new"), shapes, strict=True))
    at = Var("at", tensor_type(places.shape, str(places.dtype)))
    operands = [x, new, at] if name == "write_sequence" else [x, at, new]
    y = call(name, *operands, **attrs)
    f = Function((x, new, at), y, {"output_names": ("y",)})
    exe: Any = smelt.compile(IRModule({"main": f}), state={"x": "y"}, threads=2)
    before, written = (values(s, dtype, n) for n, s in enumerate(shapes))
    exe.state["x"] = before
    exe(written, places)
    given = [before, written, places] if name == "write_sequence" else [before, places, written]
    meaning = get_op(name).meaning
    assert meaning is not None
    wanted = meaning(*given, **get_op(name).normalize(attrs))
    np.testing.assert_array_equal(exe.state["x"].numpy(), wanted)


def test_operators_of_ones_own_have_no_other_algorithm() -> None:
    @smelt.op(name="tests.updates.same")
    def same(x: Tensor) -> Any:
        return compute(x.shape, lambda *i: x[i])

    with pytest.raises(CompileError, match="call_tir_inplace calls a program that writes"):
        same.updates(same.fn)


def test_flags() -> None:
    """Bools have no sums; they are replaced."""
    test_in_place_they_give_what_they_mean(CASES[1], "bool")
