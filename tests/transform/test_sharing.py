"""Common values, dead functions, parallel products, branches."""

import numpy as np

from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.nodes import Function, GlobalVar, If, call_tir, constant
from smelt.relax.transform import (
    combine_parallel_matmul,
    eliminate_common_subexpr,
    eliminate_dead_code,
    simplify_graph,
)

from .graphs import RNG, assert_same, becomes, call, const, module, num, ops_of, var

X = var("x", 3, 4)


def test_equal_calls_become_one() -> None:
    a = call("add", call("exp", X), num(2.0))
    b = call("add", call("exp", X), num(2.0))
    becomes(
        eliminate_common_subexpr, module([X], a, call("relu", b)), {"exp": 1, "add": 1, "relu": 1}
    )


def test_other_attributes_or_constants_are_not_equal() -> None:
    mod = module(
        [X], call("clip", X, min=0.0), call("clip", X, min=-0.0), call("add", X, num(1.0)),
        call("add", X, num(1.0, 1)), call("add", X, num(-1.0)),
    )  # fmt: skip
    assert eliminate_common_subexpr(mod) is mod


def test_large_constants_are_equal_if_they_are_one_array() -> None:
    data = RNG.standard_normal((4, 2000)).astype(np.float32)
    a, b = [call("matmul", X, constant(data)) for _ in range(2)]
    c = call("matmul", X, constant(data.copy()))
    assert ops_of(eliminate_common_subexpr(module([X], a, b, c))) == {"matmul": 2}


def test_functions_that_nothing_calls_go() -> None:
    f = Function((X,), call("exp", X))
    called = call_tir(GlobalVar("used"), [X], tensor_type((3, 4)))
    mod = IRModule({"main": Function((X,), called), "used": f, "unused": f})
    assert list(eliminate_dead_code(mod)) == ["main", "used"]
    alone = IRModule({"other": f})
    assert eliminate_dead_code(alone) is alone


def test_parallel_products_are_joined() -> None:
    y = call("exp", X)
    q = call("add", call("matmul", y, const(4, 5)), const(5))
    k = call("add", call("matmul", y, const(3, 4), transpose_b=True), const(3))
    mod = module([X], call("relu", q), k, y)
    becomes(combine_parallel_matmul, mod,
            {"exp": 1, "matmul": 1, "add": 1, "strided_slice": 2, "relu": 1})  # fmt: skip


def test_products_with_and_without_bias_are_joined_apart() -> None:
    ys = [call("matmul", X, const(4, 5)) for _ in range(3)]
    last = call("add", call("matmul", X, const(4, 5)), const(5))
    after = combine_parallel_matmul(module([X], *ys, last))
    assert ops_of(after) == {"matmul": 2, "strided_slice": 3, "add": 1}
    assert_same(module([X], *ys, last), after)


def test_one_product_stays() -> None:
    mod = module([X], call("matmul", X, const(4, 5)))
    assert combine_parallel_matmul(mod) is mod


def test_branches_are_simplified() -> None:
    c = var("c", dtype="bool")
    yes = Function((), call("relu", call("relu", X)))
    no = Function((), call("add", call("exp", X), num(0.0)))
    mod = module([X, c], If(c, yes, no, X.type))
    after = simplify_graph(mod)
    assert_same(mod, after, inputs=[np.ones((3, 4), np.float32), np.array(True)])
    assert ops_of(after) == {"relu": 1, "exp": 1}


def test_a_known_branch_is_taken() -> None:
    known = constant(np.array(False))
    branches = Function((), call("relu", X)), Function((), call("exp", X))
    mod = module([X], If(known, *branches, X.type))
    assert ops_of(simplify_graph(mod)) == {"exp": 1}


def test_a_long_chain_needs_no_recursion() -> None:
    y = call("exp", X)
    for i in range(3000):
        y = call("add", y, num(1.0)) if i % 3 else call("tanh", y)
    mod = module([X], y)
    assert ops_of(simplify_graph(mod)) == {"exp": 1, "tanh": 1000, "add": 1000}
