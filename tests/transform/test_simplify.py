"""Each law of simplification: what is left, and that results stay."""

from collections.abc import Callable

import numpy as np
import pytest

from smelt.ir.expr import Var as SizeVar
from smelt.relax.nodes import Constant, RelaxExpr, TupleGetItem, constant
from smelt.relax.transform import fold_constants, simplify, simplify_graph

from .graphs import assert_same, becomes, call, const, module, num, ops_of, var

X = var("x", 2, 3, 4)
M = var("m", 2, 3, dtype="bool")
Y = var("y", 1, 4)
Build = Callable[[], RelaxExpr]


LAWS: dict[str, tuple[Build, dict[str, int]]] = {
    "plus zero": (lambda: call("relu", call("add", X, num(0.0))), {"relu": 1}),
    "zero plus": (lambda: call("relu", call("add", num(0.0, 1, 1, 4), X)), {"relu": 1}),
    "times one": (lambda: call("relu", call("multiply", X, num(1.0, 4))), {"relu": 1}),
    "over one": (lambda: call("relu", call("divide", X, num(1.0))), {"relu": 1}),
    "power one": (lambda: call("relu", call("power", X, num(1.0))), {"relu": 1}),
    "a zero that broadcasts stays": (lambda: call("add", X, num(0.0, 5, 1, 1, 1)), {"add": 1}),
    "minus constant": (lambda: call("subtract", X, const(4)), {"add": 1}),
    "double negation": (
        lambda: call("relu", call("negative", call("negative", X))), {"relu": 1}),
    "minus minus": (lambda: call("subtract", X, call("negative", call("exp", X))),
                    {"exp": 1, "add": 1}),
    "constants meet in sums": (
        lambda: call("add", call("subtract", X, const(4)), const(4)), {"add": 1}),
    "constants meet in products": (
        lambda: call("multiply", num(3.0), call("multiply", X, const(4))), {"multiply": 1}),
    "division by a power of two": (lambda: call("divide", X, num(8.0)), {"multiply": 1}),
    "division by three stays": (lambda: call("divide", X, num(3.0)), {"divide": 1}),
    "square": (lambda: call("power", X, num(2.0)), {"multiply": 1}),
    "root": (lambda: call("power", call("exp", X), num(0.5)), {"exp": 1, "sqrt": 1}),
    "rsqrt": (
        lambda: call("divide", num(1.0), call("sqrt", call("exp", X))), {"exp": 1, "rsqrt": 1}),
    "times reciprocal": (
        lambda: call("multiply", X, call("reciprocal", call("exp", X))), {"exp": 1, "divide": 1}),
    "relu relu": (lambda: call("relu", call("relu", X)), {"relu": 1}),
    "clip of relu": (lambda: call("clip", call("relu", X), min=-1.0, max=6.0), {"clip": 1}),
    "relu6 stays": (lambda: call("clip", X, min=0.0, max=6.0), {"clip": 1}),
    "clip without limits": (lambda: call("relu", call("clip", X)), {"relu": 1}),
    "max is relu": (lambda: call("maximum", X, num(0.0)), {"relu": 1}),
    "min and max are clip": (
        lambda: call("minimum", num(0.5), call("maximum", X, num(-0.5))), {"clip": 1}),
    "cast to itself": (lambda: call("relu", call("cast", X, dtype="float32")), {"relu": 1}),
    "wide cast between": (
        lambda: call("cast", call("cast", X, dtype="float64"), dtype="int32"), {"cast": 1}),
    "narrow cast between stays": (
        lambda: call("cast", call("cast", X, dtype="float16"), dtype="float32"), {"cast": 2}),
    "not not": (lambda: call("cast", call("logical_not", call("logical_not", M)),
                             dtype="int32"), {"cast": 1}),
    "known choice": (
        lambda: call("where", constant(np.ones((3, 1), bool)), X, call("exp", X)), {}),
    "transposes": (
        lambda: call("transpose", call("transpose", X, axes=(1, 2, 0)), axes=(2, 0, 1)), {}),
    "transposes join": (lambda: call("transpose", call("transpose", X, axes=(1, 2, 0)),
                                     axes=(1, 2, 0)), {"transpose": 1}),
    "transpose of ones": (lambda: call("transpose", call("expand_dims", X, axes=(0, 2)),
                                       axes=(1, 0, 3, 2, 4)), {"reshape": 1}),
    "reshapes": (lambda: call("reshape", call("reshape", X, shape=(6, 4)), shape=(24,)),
                 {"reshape": 1}),
    "squeeze of expand_dims": (
        lambda: call("squeeze", call("expand_dims", X, axes=(1,)), axes=(1,)), {}),
    "reshape around relu": (lambda: call("reshape", call("relu", call(
        "reshape", X, shape=(6, 4))), shape=(2, 3, 4)), {"relu": 1}),
    "reshape around what moves nothing": (lambda: call("reshape", call("depth_to_space", call(
        "reshape", X, shape=(1, 2, 3, 4)), block=1), shape=(2, 3, 4)), {"reshape": 2,
        "depth_to_space": 1}),
    "reshape around a linear layer": (lambda: call("reshape", call("add", call(
        "matmul", call("reshape", X, shape=(6, 4)), const(4, 5)), const(5)), shape=(2, 3, 5)),
        {"matmul": 1, "add": 1}),
    "batches split and joined around a transpose": (lambda: call("reshape", call(
        "transpose", call("reshape", call("expand_dims", X, axes=(0,)), shape=(2, 3, 4)),
        axes=(0, 2, 1)), shape=(1, 2, 4, 3)), {"reshape": 1, "transpose": 1}),
    "whole slice": (lambda: call("relu", call(
        "strided_slice", X, axes=(1,), begin=(0,), end=(3,))), {"relu": 1}),
    "slice of a slice": (lambda: call("strided_slice", call(
        "strided_slice", X, axes=(2,), begin=(1,), end=(4,)), axes=(1, 2), begin=(1, 0),
        end=(3, 3), strides=(1, 2)), {"strided_slice": 1}),
    "slice of one part": (lambda: call("strided_slice", call(
        "concat", call("exp", X), X, axis=1), axes=(1,), begin=(3,), end=(6,)), {}),
    "one is no concat": (lambda: call("relu", call("concat", X, axis=1)), {"relu": 1}),
    "concat of concat": (lambda: call("concat", call("concat", X, X, axis=-1), X, axis=2),
                         {"concat": 1}),
    "flips": (lambda: call("relu", call("flip", call("flip", X, axes=(1,)), axes=(-2,))),
              {"relu": 1}),
    "no pad": (lambda: call("relu", call("pad", X, pads=(0,) * 6)), {"relu": 1}),
    "pads": (lambda: call("pad", call("pad", X, pads=(0, 1, 0, 0, 0, 2)),
                          pads=(1, 0, 0, 0, 1, 0)), {"pad": 1}),
    "broadcast before a sum": (lambda: call("add", call(
        "broadcast_to", Y, shape=(2, 3, 4)), X), {"add": 1}),
    "gather one": (lambda: call("gather", X, num(-1, dtype="int64"), axis=1),
                   {"strided_slice": 1, "reshape": 1}),
    "gather a run": (lambda: call("gather", X, constant(np.array([1, 2])), axis=1),
                     {"strided_slice": 1}),
    "mean of one": (lambda: call("mean", call("expand_dims", X, axes=(0,)), axes=(0,),
                                 keepdims=False), {}),
    "identity": (lambda: call("identity", X), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", LAWS)
def test_law(name: str) -> None:
    build, want = LAWS[name]
    becomes(simplify, module([X, M, Y], build()), want)


def test_symbolic_reshapes_meet() -> None:
    n = SizeVar("n")
    x = var("x", n, 3, 4)
    flat = call("reshape", x, shape=(n * 3, 4))
    back = call("reshape", call("relu", flat), shape=(n, 3, 4))
    becomes(simplify, module([x], back), {"relu": 1})


def test_a_dimension_that_may_be_one_keeps_its_broadcast() -> None:
    n = SizeVar("n")
    x, y = var("x", n, 4), var("y", 1, 4)
    before = module([x, y], call("add", call("broadcast_to", y, shape=(n, 4)), x))
    becomes(simplify, before, {"add": 1})
    alone = module([x, y], call("add", call("broadcast_to", y, shape=(n, 4)), y))
    assert simplify(alone) is alone


# --------------------------------------------------------------------------------- constants


def test_constants_are_computed() -> None:
    total = call("add", X, call("matmul", call("exp", const(3, 5)), const(5, 4)))
    after = becomes(fold_constants, module([X], total), {"add": 1})
    assert isinstance(after["main"].body.args[1], Constant)


def test_a_repeated_constant_stays_a_call() -> None:
    wide = module([], call("broadcast_to", num(1.0, 1, 1), shape=(100, 1000)))
    assert fold_constants(wide) is wide


def test_folding_has_a_limit() -> None:
    x = var("x", 100, 100)
    mod = module([x], call("add", x, call("exp", const(100, 100))))
    assert fold_constants(mod, limit=39_999) is mod
    assert ops_of(fold_constants(mod, limit=40_000)) == {"add": 1}


def test_results_of_several_parts_are_folded() -> None:
    parts = call("topk", const(8), k=2)
    mod = module([X], call("exp", X), TupleGetItem(parts, 0))
    becomes(fold_constants, mod, {"exp": 1})


def test_equal_constants_are_not_told_apart_by_type_only() -> None:
    a, b = constant(np.zeros(2, np.float32)), constant(np.zeros(2, np.int32))
    mod = module([X], call("exp", a), call("cast", b, dtype="float32"))
    assert_same(mod, simplify_graph(mod))
