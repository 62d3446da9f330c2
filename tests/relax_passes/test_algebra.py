"""Passes that are laws of operators: what they change, and that results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.module import IRModule
from smelt.relax import op
from smelt.relax import transform as passes
from smelt.relax.nodes import Tuple, constant
from tests.relax_arrays import i64s

from .support import array, calls, inputs, module, same, var

x, y = var("x", 4, 6), var("y", 4, 6)
a, b, c = var("a", 8, 2), var("b", 2, 8), var("c", 8, 3)
w1, w2 = var("w1", 6, 3), var("w2", 6, 3)
image, weight = var("image", 1, 3, 5, 5), constant(array(4, 3, 3, 3))
statistics = [constant(np.abs(array(4)) + 0.5) for _ in range(4)]
indices = constant(i64s([0, 2]))


def normalised() -> IRModule:
    conv = op.nn.conv2d(image, weight)
    return module([image], op.nn.batch_norm(conv, *statistics, axis=1, training=False)[0])


CASES: list[tuple[Any, IRModule, dict[str, int]]] = [
    (passes.FuseTransposeMatmul(), module([x, y], op.matmul(x, op.permute_dims(y))), {"matmul": 1}),
    (passes.AdjustMatmulOrder(), module([b, a, c], op.matmul(op.matmul(a, b), c)), {"matmul": 2}),
    (
        passes.ExpandMatmulOfSum(),
        module([x, w1, w2], op.matmul(x, op.add(w1, w2))),
        {"matmul": 2, "add": 1},
    ),
    (
        passes.ReorderTakeAfterMatmul(),
        module([x, w1], op.matmul(x, op.take(w1, indices, 1))),
        {"matmul": 1, "gather": 1},
    ),
    (
        passes.ReorderPermuteDimsAfterConcat(),
        module([x, y], op.concat([op.permute_dims(x), op.permute_dims(y)], 0)),
        {"concat": 1, "transpose": 1},
    ),
    (
        passes.RemoveRedundantReshape(),
        module([x], op.reshape(op.reshape(op.abs(x), (24,)), (2, 12))),
        {"abs": 1, "reshape": 1},
    ),
    (
        passes.OptimizeLayoutTransform(),
        module([x], op.abs(op.permute_dims(op.permute_dims(x)))),
        {"abs": 1},
    ),
    (passes.FoldBatchnormToConv2D(), normalised(), {"conv2d": 1, "add": 1}),
    (
        passes.DecomposeOpsForInference("main"),
        normalised(),
        {"conv2d": 1, "reshape": 4, "subtract": 1, "add": 2, "sqrt": 1, "divide": 1, "multiply": 1},
    ),
    (
        passes.DecomposeOpsForTraining(),
        module([x, v := var("v", 6)], op.nn.layer_norm(x, v, v, -1)),
        {"mean": 2, "subtract": 1, "multiply": 2, "add": 2, "sqrt": 1, "divide": 1},
    ),
    (
        passes.CombineParallelMatmul(),
        module([x], Tuple(tuple([op.matmul(x, constant(array(6, 3))) for _ in range(3)]))),
        {"matmul": 1, "strided_slice": 3},
    ),
]


@pytest.mark.parametrize(
    ("made", "before", "wanted"), CASES, ids=[made.info.name for made, _, _ in CASES]
)
def test_a_law(made: Any, before: IRModule, wanted: dict[str, int]) -> None:
    after = made(before)
    assert calls(after) == wanted
    assert calls(before) != wanted or made.info.name in (
        "AdjustMatmulOrder",
        "ReorderTakeAfterMatmul",
    )
    same(before, after, tolerance=1e-4)


def test_adjust_matmul_order_multiplies_less() -> None:
    after = passes.AdjustMatmulOrder()(CASES[1][1])
    outer = after["main"].body
    assert outer.args[0].name == "a"
    assert outer.args[1].callee == "matmul"


def test_a_value_used_twice_stays() -> None:
    inner = op.matmul(a, b)
    mod = module([b, a, c], Tuple((op.matmul(inner, c), inner)))
    assert passes.AdjustMatmulOrder()(mod) is mod


def test_inference_needs_running_statistics() -> None:
    trained = op.nn.batch_norm(op.nn.conv2d(image, weight), *statistics, axis=1)[0]
    with pytest.raises(Unsupported, match="training=False"):
        passes.DecomposeOpsForInference()(module([image], trained))


def test_fast_math() -> None:
    before = module([x], op.exp(op.tanh(op.erf(x))))
    after = passes.FastMath()(before)
    assert calls(after) == {"fast_exp": 1, "fast_tanh": 1, "fast_erf": 1}
    same(before, after, tolerance=1e-3)


@pytest.mark.parametrize("out_dtype", ["float32", "float16"])
def test_to_mixed_precision(out_dtype: str) -> None:
    before = module([x, w1], op.nn.relu(op.matmul(x, w1)))
    after = passes.ToMixedPrecision(out_dtype)(before)
    product = next(n for n in [after["main"].body.args[0]])
    product = product if product.callee == "matmul" else product.args[0]
    assert [p.type.dtype for p in product.args] == ["float16", "float16"]
    assert product.type.dtype == out_dtype
    same(before, after, tolerance=1e-2)


def test_to_mixed_precision_of_inputs() -> None:
    before = module([x, w1], op.matmul(x, w1))
    after = passes.ToMixedPrecision(fp16_input_names=["w1"])(before)
    assert after["main"].params[1].type.dtype == "float16"
    assert calls(after) == {"cast": 1, "matmul": 1}
    given = inputs(before)
    same(before, passes.ToMixedPrecision()(before), *given, tolerance=1e-2)
    with pytest.raises(TypeMismatch, match="out_dtype='int8'"):
        passes.ToMixedPrecision("int8")
