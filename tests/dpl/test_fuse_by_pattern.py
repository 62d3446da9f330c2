"""FuseOpsByPattern and MergeCompositeFunctions: functions of the module by name."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.relax.dpl import is_constant, is_op, wildcard
from smelt.relax.graph import free_vars
from smelt.relax.nodes import Call, Constant, Function, GlobalVar, RelaxExpr, Var, call, values
from smelt.relax.transform import FusionPattern, fuse_ops_by_pattern, merge_composite_functions
from tests.transform.graphs import assert_same, const, module, ops_of, var
from tests.transform.test_random import graph

from .naive import Imitator, random_graph

BIASED = is_op("add")(is_op("conv2d")(wildcard(), is_constant()), wildcard())


def small() -> IRModule:
    """conv, bias, relu, tanh, conv, bias."""
    x = var("x", 1, 3, 5, 5)
    y: RelaxExpr = call("relu", call("add", call("conv2d", x, const(4, 3, 3, 3)), const(4, 1, 1)))
    y = call("tanh", y)
    return module([x], call("add", call("conv2d", y, const(4, 4, 3, 3)), const(4, 1, 1)))


def test_functions_of_the_module() -> None:
    mod = small()
    after = fuse_ops_by_pattern(mod, [("lib.relu", is_op("relu")(BIASED)), ("lib.bias", BIASED)])
    assert list(after) == ["main", "fused_conv2d_add_relu", "fused_conv2d_add"]
    f = after["fused_conv2d_add_relu"]
    assert f.attrs == {"Composite": "lib.relu", "Primitive": 1}
    assert [p.name for p in f.params] == ["p0"]
    assert len([n for n in values(f) if isinstance(n, Constant)]) == 2
    assert ops_of(after) == {"tanh": 1}
    assert isinstance(after["main"].body.op, GlobalVar)
    assert_same(mod, after, 0.0)
    passed = fuse_ops_by_pattern(mod, [("lib.bias", BIASED)], bind_constants=False)
    assert [len(passed[n].params) for n in passed if n != "main"] == [3, 3]
    assert_same(mod, passed, 0.0)
    assert fuse_ops_by_pattern(mod, [("lib.erf", is_op("erf")(wildcard()))]) is mod


def test_two_of_one_kind_have_two_names() -> None:
    x = var("x", 3)
    mod = module([x], call("relu", call("tanh", call("relu", x))))
    after = fuse_ops_by_pattern(mod, [("lib.relu", is_op("relu")(wildcard()))])
    assert list(after) == ["main", "fused_relu", "fused_relu1"]


def test_codegen() -> None:
    mod = small()
    patterns = [("lib.relu", is_op("relu")(BIASED))]
    after = fuse_ops_by_pattern(mod, patterns, annotate_codegen=True)
    f = after["fused_conv2d_add_relu_lib"]
    assert f.attrs == {"Codegen": "lib", "global_symbol": "fused_conv2d_add_relu_lib"}
    assert f.body.op.attrs["Composite"] == "lib.relu"
    assert_same(mod, after, 0.0)


def test_checks_see_the_match() -> None:
    conv, bias = is_op("conv2d")(wildcard(), is_constant()), wildcard()
    seen: list[Any] = []

    def check(context: Any) -> bool:
        seen.append(context)
        shape = context.annotated_expr["conv"].type.fixed_shape()
        return bool(shape[-1] == 3)

    pattern = FusionPattern(
        "lib.bias", is_op("add")(conv, bias), {"conv": conv, "bias": bias}, check,
        lambda named: {"channels": named["bias"].type.fixed_shape()[0]},  # type: ignore[attr-defined]
    )  # fmt: skip
    after = fuse_ops_by_pattern(small(), [pattern])
    assert list(after) == ["main", "fused_conv2d_add"]
    assert after["fused_conv2d_add"].attrs["channels"] == 4
    assert [len(c.users[c.matched_expr]) for c in seen] == [1, 1]
    assert {type(c.matched_values[-1]) for c in seen} == {Call}


def test_neighbours_become_one_function() -> None:
    mod = small()
    table = [("lib.bias", BIASED), ("lib.relu", is_op("relu")(wildcard()))]
    after = merge_composite_functions(fuse_ops_by_pattern(mod, table))
    functions: list[Any] = list(after.functions.values())
    codegen = [f for f in functions if "Codegen" in f.attrs]
    assert len(codegen) == 2
    inner = [n.attrs["Composite"] for f in codegen for n in values(f)
             if isinstance(n, Function) and "Composite" in n.attrs]  # fmt: skip
    assert sorted(inner) == ["lib.bias", "lib.bias", "lib.relu"]
    assert ops_of(after) == {"tanh": 1}
    assert_same(mod, after, 0.0)
    other = merge_composite_functions(fuse_ops_by_pattern(mod, [*table, (
        "math.tanh", is_op("tanh")(wildcard()))]))  # fmt: skip
    assert len(other.functions) == 4
    assert merge_composite_functions(mod) is mod


@given(st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_results_stay(seed: int) -> None:
    rng = random.Random(seed)
    if rng.random() < 0.5:
        mod = graph(seed)
    else:
        body = random_graph(rng, 14)
        mod = module([v for v in values(body) if isinstance(v, Var)], body)
    nodes = [n for n in values(mod["main"].body) if isinstance(n, Call)]
    table = [(f"{t}.some", Imitator(rng).of(rng.choice(nodes), 3)) for t in "pqp" if nodes]
    bind, annotate = rng.random() < 0.5, rng.random() < 0.3
    fused = fuse_ops_by_pattern(mod, table, bind, annotate)
    merged = merge_composite_functions(fused)
    assert_same(mod, fused, 1e-6)
    assert_same(mod, merged, 1e-6)
    for f in (*fused.functions.values(), *merged.functions.values()):
        assert not free_vars(f)


def test_mistakes_are_named() -> None:
    mod = small()
    with pytest.raises(TypeMismatch, match="FuseOpsByPattern: 3; a FusionPattern or a tuple"):
        fuse_ops_by_pattern(mod, [3])
    with pytest.raises(TypeMismatch, match="FusionPattern takes a name and a pattern, not 'a' and"):
        fuse_ops_by_pattern(mod, [("a", "b")])
    with pytest.raises(TypeMismatch) as caught:
        fuse_ops_by_pattern(mod, [("lib.bias", BIASED, {}, lambda context: context.conv)])
    assert "pattern lib.bias: its check function <lambda> failed" in str(caught.value)
    assert "'PatternCheckContext' object has no attribute 'conv'" in str(caught.value)
