"""Attention as exporters write it becomes one operator."""

import numpy as np
import pytest

from smelt.ir.module import IRModule
from smelt.relax.nodes import Constant, RelaxExpr, constant
from smelt.relax.transform import recognize_attention, simplify_graph

from .graphs import assert_same, call, const, module, num, ops_of, random_inputs, var

X = var("x", 2, 6, 12)


def heads(x: RelaxExpr, axes: tuple[int, ...] = (0, 2, 1, 3)) -> RelaxExpr:
    y = call("add", call("matmul", x, const(12, 12)), const(12))
    return call("transpose", call("reshape", y, shape=(2, 6, 3, 4)), axes=axes)


def swapped_by_batches(k: RelaxExpr) -> RelaxExpr:
    flat = call("transpose", call("reshape", k, shape=(6, 6, 4)), axes=(0, 2, 1))
    return call("reshape", flat, shape=(2, 3, 4, 6))


def keys(how: str) -> RelaxExpr:
    if how == "one transpose":
        return heads(X, (0, 2, 3, 1))
    if how == "batches":
        return swapped_by_batches(heads(X))
    return call("transpose", heads(X), axes=(0, 1, 3, 2))


def scores(how: str, scale: str) -> RelaxExpr:
    q, k = heads(X), keys(how)
    if scale == "operands":
        root = num(0.5**0.5)
        return call("matmul", call("multiply", q, root), call("multiply", k, root))
    s = call("matmul", q, k)
    return call("divide", s, num(2.0)) if scale == "divide" else call("multiply", num(0.5), s)


def masked(s: RelaxExpr, mask: RelaxExpr | None, guard: bool = False) -> RelaxExpr:
    w = call("softmax", s if mask is None else call("add", s, mask))
    w = call("where", call("isnan", w), num(0.0), w) if guard else w
    y = call("transpose", call("matmul", w, heads(X)), axes=(0, 2, 1, 3))
    return call("reshape", y, shape=(2, 6, 12))


def causal() -> Constant:
    return constant(np.triu(np.full((6, 6), -np.inf, np.float32), 1))


def recognised(mod: IRModule, transposes: int) -> dict[str, int]:
    plain = simplify_graph(mod)
    after = recognize_attention(plain)
    found = ops_of(after)
    assert found["attention"] == 1
    assert "softmax" not in found
    assert found["transpose"] == transposes
    assert_same(mod, after)
    assert recognize_attention(after) is after
    assert simplify_graph(after) is after
    return found


@pytest.mark.parametrize("how", ["one transpose", "batches", "two transposes"])
@pytest.mark.parametrize("scale", ["operands", "divide", "multiply"])
@pytest.mark.parametrize("mask", [False, True])
def test_forms(how: str, scale: str, mask: bool) -> None:
    y = masked(scores(how, scale), causal() if mask else None, guard=mask)
    found = recognised(module([X], y), transposes=4)
    assert "multiply" not in found
    assert "isnan" not in found


def test_a_mask_computed_from_an_input() -> None:
    m = var("m", 2, 6, dtype="int64")
    keep = call("cast", call("reshape", m, shape=(2, 1, 1, 6)), dtype="float32")
    mask = call("multiply", call("subtract", num(1.0), keep), num(-10000.0))
    found = recognised(module([X, m], masked(scores("batches", "divide"), mask)), 4)
    assert found["attention"] == 1


def test_rows_that_may_be_masked_keep_their_guard() -> None:
    m = var("m", 2, 1, 6, 6)
    mod = module([X, m], masked(scores("batches", "divide"), m, guard=True))
    assert recognised(mod, 4)["isnan"] == 1
    x, mask = random_inputs(mod)
    mask[0, 0, 2] = -np.inf
    assert_same(mod, recognize_attention(simplify_graph(mod)), inputs=[x, mask])


def test_a_choice_of_scores_is_a_mask() -> None:
    keep = constant(np.tri(6, dtype=bool))
    y = masked(call("where", keep, scores("batches", "divide"), num(-1e9)), None)
    assert "where" not in recognised(module([X], y), 4)


def test_weights_that_are_a_result_stay() -> None:
    w = call("softmax", scores("batches", "divide"))
    mod = module([X], call("matmul", w, heads(X)), w)
    assert "attention" not in ops_of(recognize_attention(simplify_graph(mod)))


def test_softmax_over_another_dimension_is_no_attention() -> None:
    w = call("softmax", scores("batches", "divide"), axis=1)
    mod = module([X], call("matmul", w, heads(X)))
    assert "attention" not in ops_of(recognize_attention(simplify_graph(mod)))
