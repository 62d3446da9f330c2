"""Matches as functions: which values they take, what they are called, and that results stay."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.dpl import (
    FunctionPattern,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from smelt.relax.dpl.graph import call_function
from smelt.relax.graph import free_vars
from smelt.relax.interpret import interpret
from smelt.relax.nodes import (
    Call,
    Function,
    If,
    Let,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
    call,
    constant,
    values,
)
from tests.transform.graphs import assert_same, const, module, var
from tests.transform.test_random import graph

from .naive import Imitator, random_graph


def functions_of(f: Any) -> list[Function]:
    """The functions that are called in place."""
    return [n for n in values(f) if isinstance(n, Function) and n is not f]


def parts(f: Any) -> list[str]:
    return sorted([g.attrs["PartitionedFromPattern"] for g in functions_of(f)])


CONV = is_op("conv2d")(wildcard(), wildcard())
CONV_RELU = is_op("relu")(is_op("add")(CONV, is_constant()))


def test_a_match_becomes_a_function_with_its_inputs() -> None:
    x, w, b = var("x", 1, 3, 5, 5), const(4, 3, 3, 3), const(4, 1, 1)
    y = call("relu", call("add", call("conv2d", x, w), b))
    mod = module([x], call("tanh", y))
    f = CONV_RELU.partition(mod["main"], {"note": 7})
    (g,) = functions_of(f)
    assert dict(g.attrs) == {"note": 7, "PartitionedFromPattern": "conv2d_add_relu_"}
    assert [p.name for p in g.params] == ["FunctionVar_0_0", "FunctionVar_0_1"]
    assert f.body.args[0].args == (x, w)  # the bias stays inside: the pattern asked for a constant
    assert f.body.args[0].type is y.type
    assert not free_vars(g)
    assert_same(mod, IRModule({"main": f}))


def test_an_inner_value_that_is_used_elsewhere_refuses_the_match() -> None:
    x, w, b = var("x", 1, 3, 5, 5), const(4, 3, 3, 3), const(4, 1, 1)
    s = call("add", call("conv2d", x, w), b)
    f = Function((x,), Tuple((call("relu", s), s)))
    assert CONV_RELU.match(f.body.items[0])  # type: ignore[attr-defined]
    assert CONV_RELU.partition(f) is f
    whole = Function((x,), call("add", call("relu", s), s))
    assert CONV_RELU.partition(whole) is whole
    inside = is_op("add")(CONV, is_constant())
    joined = is_op("add")(is_op("relu")(inside), inside)
    assert parts(joined.partition(whole)) == ["conv2d_add_relu_add_"]


def test_a_value_belongs_to_one_match_and_the_last_takes_first() -> None:
    x = var("x", 3)
    chain: RelaxExpr = x
    for _ in range(5):
        chain = call("relu", chain)
    two = is_op("relu")(is_op("relu")(wildcard()))
    f = two.partition(Function((x,), chain))
    assert parts(f) == ["relu_relu_", "relu_relu_"]
    last = f.body.args[0].args[0]
    assert isinstance(last, Call)
    assert last.callee == "relu"
    assert last.args == (x,)


def test_a_check_refuses_and_leaves_the_values_to_others() -> None:
    x = var("x", 3)
    a = call("relu", call("relu", x))
    b = call("relu", a)
    two = is_op("relu")(is_op("relu")(wildcard()))
    f = two.partition(Function((x,), b), check=lambda extract: extract is a)
    assert parts(f) == ["relu_relu_"]
    assert f.body.args[0].op is functions_of(f)[0]


def test_what_is_partitioned_is_not_partitioned_again() -> None:
    x = var("x", 3)
    f = is_op("relu")(wildcard()).partition(Function((x,), call("relu", call("tanh", x))))
    assert is_op("relu")(wildcard()).partition(f) is f
    again = is_op("tanh")(wildcard()).partition(f)
    assert parts(again) == ["relu_", "tanh_"]
    whole = FunctionPattern([wildcard()], wildcard()).has_attr({"PartitionedFromPattern": "relu_"})
    outer = whole(is_op("tanh")(wildcard())).partition(f)
    assert outer.body.op.attrs["PartitionedFromPattern"] == "tanh_Function_"


def test_tuples_and_their_items() -> None:
    x = var("x", 5)
    best = call("topk", x, k=2)
    y = call("relu", TupleGetItem(best, 0))
    item = is_tuple_get_item(is_op("topk")(wildcard()), 0)
    mod = module([x], y)
    f = is_op("relu")(item).partition(mod["main"])
    assert parts(f) == ["topk_TupleGetItem0_relu_"]
    assert_same(mod, IRModule({"main": f}))
    both = Function((x,), Tuple((y, TupleGetItem(best, 1))))
    assert is_op("relu")(item).partition(both) is both  # the other item leaves the match
    pair = is_tuple([is_op("relu")(wildcard()), wildcard()])
    assert parts(pair.partition(both)) == ["relu_Tuple_"]
    any_pair = is_tuple(None).partition(both)
    assert [len(g.params) for g in functions_of(any_pair)] == [2]
    assert_same(IRModule({"main": both}), IRModule({"main": any_pair}))


def test_constants_by_wildcard_are_inputs_and_given_ones_stay() -> None:
    x, c = var("x", 3), const(3)
    f = Function((x,), call("add", x, c))
    (g,) = functions_of(is_op("add")(wildcard(), wildcard()).partition(f))
    assert len(g.params) == 2
    (g,) = functions_of(is_op("add")(wildcard(), is_expr(c)).partition(f))
    assert len(g.params) == 1
    equal = constant(c.data.copy())
    assert is_op("add")(wildcard(), is_expr(equal)).match(f.body)
    assert not is_op("add")(wildcard(), is_expr(const(3))).match(f.body)


def test_between_parent_and_child() -> None:
    x, w = var("x", 1, 3, 5, 5), const(3, 3, 1, 1)
    c = call("conv2d", x, w)
    a, b = call("tanh", call("relu", c)), call("sigmoid", c)
    elementwise = wildcard().has_attr({"TOpPattern": 0})(wildcard())
    diamond = is_op("add")(wildcard(), wildcard()).dominates(CONV, elementwise)
    mod = module([x], call("add", a, b))
    f = diamond.partition(mod["main"])
    assert parts(f) == ["conv2d_relu_tanh_sigmoid_add_"]
    assert_same(mod, IRModule({"main": f}))
    leaving = module([x], call("add", a, b), a)
    assert diamond.partition(leaving["main"]) is leaving["main"]
    other = module([x], call("add", a, call("relu", call("conv2d", x, w))))
    assert diamond.partition(other["main"]) is other["main"]  # two convolutions, one parent
    rows = module([x], call("add", a, call("softmax", c, axis=1)))
    assert diamond.partition(rows["main"]) is rows["main"]  # softmax is not elementwise


def test_branches_and_names() -> None:
    x, c = var("x", 3), var("c", dtype="bool")
    yes, no = Function((), call("relu", x)), Function((), call("tanh", x))
    choice = If(c, yes, no, tensor_type((3,)))
    mod = module([x, c], call("negative", choice))
    branch = is_if(is_var(), is_op("relu")(wildcard()), wildcard())
    assert branch.match(choice)
    assert not is_if(wildcard(), is_op("tanh")(wildcard()), wildcard()).match(choice)
    f = is_op("negative")(branch).partition(mod["main"])
    for flag in (True, False):
        inputs: list[Any] = [np.array([-1, 0, 2], np.float32), np.array(flag)]
        assert_same(mod, IRModule({"main": f}), inputs=inputs)
    inner = is_op("relu")(wildcard()).partition(mod["main"])
    assert len(functions_of(inner)) == 3  # both branches and the match
    v = Var("v", tensor_type((3,)))
    let = Let(v, call("relu", x), call("tanh", v))
    named = is_let(is_var("v"), is_op("relu")(wildcard()), is_op("tanh")(wildcard()))
    assert named.match(let)
    assert not is_let(is_var("w"), wildcard(), wildcard()).match(let)
    g = named.partition(Function((x,), let))
    assert [len(h.params) for h in functions_of(g)] == [1]
    assert_same(module([x], let), IRModule({"main": g}))


def test_a_closure_that_sees_values_around_is_left_alone() -> None:
    x, p, q, r = [var(n, 3) for n in "xpqr"]
    outer = call("tanh", x)
    closure = Function((p, q, r), call("where", call("less", p, q), r, outer))
    f = Function((x,), call_function(closure, [x, x, x], x.type))
    for op in (wildcard(), FunctionPattern(None, wildcard())):
        pattern = op(is_var("x"), wildcard(), wildcard())
        assert pattern.match(f.body)
        assert pattern.partition(f) is f
    inner = is_op("tanh")(wildcard()).partition(f)
    assert parts(inner.body.op.body) == ["tanh_"]
    found = interpret(inner, np.ones(3, np.float32))[0]
    np.testing.assert_allclose(found, np.tanh(np.ones(3)), rtol=1e-6)


@given(st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_results_stay(seed: int) -> None:
    rng = random.Random(seed)
    mod = graph(seed)
    calls = [n for n in values(mod["main"].body) if isinstance(n, Call)]
    for _ in range(3):
        pattern = Imitator(rng).of(rng.choice(calls) if calls else mod["main"].body, 3)
        f = pattern.partition(mod["main"])
        assert not any(free_vars(g) for g in functions_of(f))
        assert_same(mod, IRModule({"main": f}), 1e-6)


@given(st.integers(0, 1 << 32))
@settings(max_examples=100, deadline=None)
def test_results_stay_where_much_is_shared(seed: int) -> None:
    rng = random.Random(seed)
    body = random_graph(rng, 12)
    given_ = [v for v in values(body) if isinstance(v, Var)]
    mod = module(given_, body)
    f = Imitator(rng).of(rng.choice(list(values(body))), 4).partition(mod["main"])
    assert_same(mod, IRModule({"main": f}), 0.0)


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(TypeMismatch) as caught:
        wildcard().partition(3)
    assert str(caught.value) == "partition takes a function or a value of a graph program, not int"
