"""Graph passes on products whose result has a type of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

import smelt
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Function, RelaxExpr, Tuple, Var, call, constant
from smelt.relax.transform import combine_parallel_matmul

RNG = np.random.default_rng(4)
Array = np.ndarray[Any, Any]


def same(params: list[Var], results: list[RelaxExpr], *given: Array, bound: float = 0.0) -> None:
    """The compiled graph gives what the interpreter gives for the graph as it was written."""
    function = Function(tuple(params), Tuple(tuple(results)))
    exe = smelt.compile(IRModule({"main": function}), options=smelt.Options(threads=1))
    found = exe(*given)
    several = found if isinstance(found, tuple) else (found,)
    for got, want in zip(several, interpret(function, *given), strict=True):
        a = np.asarray(got.numpy())
        assert (a.dtype, a.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(a, want, rtol=bound, atol=bound * float(np.abs(want).max()))


def half(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float16)


def test_products_side_by_side_keep_their_type() -> None:
    x = Var("x", tensor_type((3, 8), "int8"))
    weights = [constant(RNG.integers(-128, 127, (8, 5)).astype(np.int8)) for _ in range(2)]
    products: list[RelaxExpr] = [call("matmul", x, w, out_dtype="int32") for w in weights]
    function, given = Function((x,), Tuple(tuple(products))), np.full((3, 8), -128, np.int8)
    changed = combine_parallel_matmul(IRModule({"main": function}))["main"]
    assert isinstance(changed, Function)
    for a, b in zip(interpret(changed, given), interpret(function, given), strict=True):
        assert a.dtype == b.dtype == np.int32
        np.testing.assert_array_equal(a, b)
    same([x], products, given)


def test_scales_behind_a_product_do_not_round_narrow_weights() -> None:
    x = Var("x", tensor_type((1, 3, 6, 6), "float16"))
    y = call("conv2d", x, constant(half(4, 3, 3, 3)), out_dtype="float32")
    scale = constant(RNG.uniform(0.1, 0.9, (4, 1, 1)).astype(np.float32))
    shift = constant(RNG.uniform(0.1, 0.9, (4, 1, 1)).astype(np.float32))
    z = call("add", call("multiply", y, scale), shift)
    same([x], [z], half(1, 3, 6, 6), bound=1e-6)


def test_scales_in_front_of_a_product_do_not_round_narrow_weights() -> None:
    x, w = Var("x", tensor_type((1, 3, 6, 6), "float16")), constant(half(4, 3, 3, 3))
    c = constant(half(3, 1, 1))
    results: list[RelaxExpr] = [
        call("conv2d", call(name, x, c), w, out_dtype="float32") for name in ("multiply", "add")
    ]
    same([x], results, half(1, 3, 6, 6), bound=1e-5)


def test_attention_with_scores_in_a_wider_type_stays_spelled_out() -> None:
    q, k, v = (Var(n, tensor_type((2, 5, 8), "float16")) for n in "qkv")
    scores = call("matmul", q, k, transpose_b=True, out_dtype="float32")
    weights = call("cast", call("softmax", scores), dtype="float16")
    same([q, k, v], [call("matmul", weights, v)], half(2, 5, 8), half(2, 5, 8), half(2, 5, 8),
         bound=2e-3)  # fmt: skip
    direct = call("softmax", call("matmul", q, k, transpose_b=True))
    wide = call("matmul", direct, v, out_dtype="float32")
    same([q, k, v], [wide], half(2, 5, 8), half(2, 5, 8), half(2, 5, 8), bound=2e-3)
