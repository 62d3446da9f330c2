"""Results that the data make empty, and what is computed from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import smelt

from .models import check, model, node, random
from .test_run_time import agree, numbers

FLOAT, INT = "float32", "int64"
MASKS = ([False] * 4, [True, False, True, False], [True] * 4)
ROWS = np.arange(12, dtype=FLOAT).reshape(4, 3) - 4

USES: dict[str, list[Any]] = {
    "elementwise": [node("Exp", ["v"], ["e"]), node("Add", ["e", "one"])],
    "against other rows": [node("Mul", ["v", "row"])],
    "sum of all": [node("ReduceSum", ["v"], keepdims=0)],
    "sum": [node("ReduceSum", ["v", "axis0"], keepdims=0)],
    "mean": [node("ReduceMean", ["v", "axis0"])],
    "mean of integers": [node("Cast", ["v"], ["i"], to=7), node("ReduceMean", ["i", "axis0"])],
    "largest": [node("ReduceMax", ["v", "axis0"])],
    "product": [node("ReduceProd", ["v", "axis0"])],
    "length": [node("ReduceL2", ["v", "axis0"])],
    "softmax along it": [node("Softmax", ["v"], axis=0)],
    "softmax across it": [node("Softmax", ["v"], axis=1)],
    "running sum": [node("CumSum", ["v", "zero"])],
    "matrix product": [node("MatMul", ["v", "w"])],
    "product over it": [node("Transpose", ["v"], ["vt"]), node("MatMul", ["vt", "v"])],
    "affine product": [node("Gemm", ["v", "w", "b"])],
    "joined": [node("Concat", ["v", "x"], axis=0)],
    "joined twice": [node("Concat", ["v", "v"], axis=1)],
    "reshaped": [node("Reshape", ["v", "flat"])],
    "shape": [node("Shape", ["v"])],
    "size": [node("Size", ["v"])],
    "padded": [node("Pad", ["v", "pads"])],
    "tiled": [node("Tile", ["v", "twice"])],
    "expanded": [node("Unsqueeze", ["v", "axis0"], ["u"]), node("Expand", ["u", "wide"])],
    "positions": [node("ArgMax", ["v"], axis=1)],
    "sorted": [node("TopK", ["v", "two"], ["y", "i"], axis=1)],
    "where": [node("Greater", ["v", "one"], ["big"]), node("Where", ["big", "v", "one"])],
    "not zero": [node("NonZero", ["v"])],
    "distinct": [node("Unique", ["v"])],
    "norm": [node("LayerNormalization", ["v", "b3"], axis=-1)],
    "cast": [node("Cast", ["v"], to=7)],
    "sliced": [node("Slice", ["v", "axis0", "far"])],
    "none of the columns": [node("Slice", ["v", "far", "far", "axis1"])],
    "one hot": [node("Cast", ["v"], ["i"], to=7), node("OneHot", ["i", "depth", "off_on"])],
    "identity": [node("EyeLike", ["v"])],
    "einsum": [node("Einsum", ["v", "v"], equation="ij,ik->jk")],
}

CONSTANTS: dict[str, Any] = {
    "one": np.float32(1), "row": random(1, 3), "axis0": numbers(0), "axis1": numbers(1),
    "zero": np.int64(0), "w": random(3, 5), "b": random(5), "b3": random(3),
    "flat": numbers(-1), "pads": numbers(1, 0, 0, 2), "twice": numbers(2, 1),
    "wide": numbers(2, 1, 1), "two": numbers(2), "far": numbers(99),
    "depth": np.int64(4), "off_on": np.array([0, 1], FLOAT),
}  # fmt: skip


def made(nodes: list[Any], uses: list[Any], inputs: dict[str, Any]) -> Any:
    """A model of nodes that make "v", and of others that read it."""
    read = {n for use in (*nodes, *uses) for n in use.input}
    constants = {n: np.asarray(a) for n, a in CONSTANTS.items() if n in read}
    return model([*nodes, *uses], inputs, list(uses[-1].output), constants=constants, opset=18)


@pytest.mark.parametrize("use", USES)
def test_rows_that_a_mask_selects(use: str) -> None:
    m = made(
        [node("Compress", ["x", "c"], ["v"], axis=0)],
        USES[use], {"x": ((4, 3), FLOAT), "c": ((4,), "bool")},
    )  # fmt: skip
    agree(m, *[{"x": ROWS, "c": mask} for mask in MASKS])


def selections() -> Iterator[tuple[str, list[Any], list[np.ndarray]]]:
    yield "NonZero", [
        node("Greater", ["x", "one"], ["g"]), node("NonZero", ["g"], ["p"]),
        node("Transpose", ["p"], ["t"]), node("GatherND", ["x", "t"], ["f"]),
        node("Unsqueeze", ["f", "axis1"], ["v"]),
    ], [ROWS, np.zeros((4, 3), FLOAT), ROWS + 9]  # fmt: skip
    yield "Slice", [
        node("ReduceMax", ["x"], ["m"], keepdims=0), node("Cast", ["m"], ["i"], to=7),
        node("Unsqueeze", ["i", "axis0"], ["s"]), node("Slice", ["x", "s", "far"], ["v"]),
    ], [ROWS * 0, ROWS / 4, ROWS]  # fmt: skip
    yield "TopK", [
        node("ReduceSum", ["x"], ["m"], keepdims=0), node("Cast", ["m"], ["i"], to=7),
        node("Clip", ["i", "zero", "depth"], ["k0"]), node("Unsqueeze", ["k0", "axis0"], ["k"]),
        node("TopK", ["x", "k"], ["v", "at"], axis=0),
    ], [ROWS, ROWS * 0, np.full((4, 3), 0.25, FLOAT)]  # fmt: skip


@pytest.mark.parametrize("use", ["elementwise", "sum", "product over it", "joined twice", "mean"])
@pytest.mark.parametrize(("nodes", "feeds"), [s[1:] for s in selections()],
                         ids=[s[0] for s in selections()])  # fmt: skip
def test_other_selections(nodes: list[Any], feeds: list[np.ndarray], use: str) -> None:
    agree(made(nodes, USES[use], {"x": ((4, 3), FLOAT)}), *[{"x": x} for x in feeds])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("op", ["ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceL2"])
@pytest.mark.parametrize("extent", [4, "n"])
def test_reductions_of_integers(op: str, dtype: str, extent: int | str) -> None:
    m = model(
        [node(op, ["x", "a"], keepdims=0)], {"x": ((2, extent), dtype)},
        constants={"a": numbers(1)}, opset=18,
    )  # fmt: skip
    rows = [[5, 5, 5, 4], [-7, -3, -2, -2]], [[0, 0, 0, 0], [20, 30, 1, 30]], [[-3] * 4, [1] * 4]
    for x in rows:
        check(m, {"x": np.array(x, dtype)})


@pytest.mark.parametrize("shape", [("n", "m"), ("n", 4), (3, "n"), ("n", "n"), (2, 3)])
@pytest.mark.parametrize("k", [0, 2, -1])
def test_identity_of_symbolic_sizes(shape: tuple[Any, ...], k: int) -> None:
    m = model([node("EyeLike", ["x"], k=k, dtype=7)], {"x": (shape, FLOAT)})
    for n, other in ((2, 5), (5, 2), (1, 1)):
        extents = [{"n": n, "m": other}.get(e, e) for e in shape]
        check(m, {"x": np.zeros(extents, FLOAT)})


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_a_constant_row_without_elements(op: str) -> None:
    nodes = [node(op, ["c"], ["s"], axis=-1), node("Concat", ["s", "x"], axis=1)]
    constants = {"c": np.zeros((2, 0), np.float32)}
    x = random(2, 3)
    made = smelt.compile(model(nodes, {"x": ((2, 3), np.float32)}, constants=constants))
    np.testing.assert_array_equal(made(x).numpy(), x)
