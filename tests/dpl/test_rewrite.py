"""Rewriting: callbacks, calls, and several values together."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.relax.dpl import (
    DFPatternCallback,
    PatternContext,
    is_constant,
    is_op,
    rewrite,
    rewrite_bindings,
    rewrite_call,
    wildcard,
)
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, Tuple, Var, call, values
from tests.transform.graphs import assert_same, const, module, num, ops_of, var

from .naive import random_graph


class ReluTwice(DFPatternCallback):
    """relu(relu(x)) = relu(x)"""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.x = wildcard()
        self.pattern = is_op("relu")(is_op("relu")(self.x))

    def callback(self, pre: RelaxExpr, post: RelaxExpr, node_map: Any) -> RelaxExpr:
        return call("relu", node_map[self.x][0])


class Doubled(DFPatternCallback):
    """x + x = x * 2"""

    def __init__(self) -> None:
        super().__init__()
        self.x = wildcard()
        self.pattern = self.x + self.x

    def callback(self, pre: RelaxExpr, post: RelaxExpr, node_map: Any) -> RelaxExpr:
        x = node_map[self.x][0]
        return call("multiply", x, num(2, *x.type.fixed_shape()))


def chain(length: int, op: str = "relu") -> tuple[Var, RelaxExpr]:
    x = var("x", 3)
    y: RelaxExpr = x
    for _ in range(length):
        y = call(op, y)
    return x, y


def test_until_nothing_changes() -> None:
    x, y = chain(9)
    f = rewrite(ReluTwice(), Function((x,), y))
    assert ops_of(IRModule({"main": f})) == {"relu": 1}
    once = ReluTwice(rewrite_once=True).rewrite(Function((x,), y))
    assert ops_of(IRModule({"main": once})) == {"relu": 5}
    assert rewrite([ReluTwice(), Doubled()], f) is f
    bare = rewrite(ReluTwice(), y)
    assert len([n for n in values(bare) if isinstance(n, Call)]) == 1


def test_callbacks_take_turns() -> None:
    x = var("x", 3)
    y = call("relu", call("relu", x))
    mod = module([x], call("add", y, y))
    f = rewrite([Doubled(), ReluTwice()], mod["main"])
    assert ops_of(IRModule({"main": f})) == {"relu": 1, "multiply": 1}
    assert_same(mod, IRModule({"main": f}))


def test_leaves_are_rewritten() -> None:
    class Zero(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__(rewrite_once=True)
            self.pattern = is_constant()

        def callback(self, pre: RelaxExpr, post: Any, node_map: Any) -> RelaxExpr:
            return num(0, *post.data.shape)

    x = var("x", 3)
    f = Function((x,), call("add", x, num(1, 3)))
    found = interpret(Zero().rewrite(f), np.ones(3, np.float32))[0]
    assert found.tolist() == [1, 1, 1]
    assert is_constant().partition(f) is f

    class Any_(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__(rewrite_once=True)
            self.pattern = wildcard().has_shape((3,))

        def callback(self, pre: RelaxExpr, post: Any, node_map: Any) -> RelaxExpr:
            return call("negative", post)

    found = interpret(Any_().rewrite(f), np.full(3, 5, np.float32))[0]
    assert found.tolist() == [-4, -4, -4]  # -(x + -(1))
    assert wildcard().partition(f) is f


def test_functions_that_are_called_are_left_as_they_are() -> None:
    x, y = chain(3)
    f = is_op("relu")(is_op("relu")(wildcard())).partition(Function((x,), y))
    g = rewrite(ReluTwice(), Function((x,), call("relu", call("relu", f.body))))
    assert ops_of(IRModule({"main": g})) == {"relu": 4}
    assert g.body.args[0] is f.body


def test_what_a_callback_sees() -> None:
    seen = []

    class Look(ReluTwice):
        def callback(self, pre: RelaxExpr, post: RelaxExpr, node_map: Any) -> RelaxExpr:
            seen.append((pre, post, {p: list(v) for p, v in node_map.items()}))
            return super().callback(pre, post, node_map)

    x, y = chain(4)
    look = Look(rewrite_once=True)
    look.rewrite(Function((x,), y))
    (first, _, inner), (last, post, outer) = seen
    assert first is y.args[0].args[0]  # type: ignore[attr-defined]
    assert last is y
    assert inner[look.x] == [x]
    assert isinstance(post, Call)
    assert outer[look.pattern] == [post]  # already on rewritten operands
    assert outer[look.x] == [post.args[0].args[0]]  # type: ignore[union-attr]
    assert [n.name for n in outer[look.pattern.op]] == ["relu"]


def test_a_match_used_from_outside_is_left_alone() -> None:
    x, y = chain(2)
    f = Function((x,), Tuple((y, y.args[0])))  # type: ignore[attr-defined]
    assert rewrite(ReluTwice(), f) is f


def test_types_follow() -> None:
    class Halves(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__(rewrite_once=True)
            self.pattern = is_op("tanh")(wildcard())

        def callback(self, pre: RelaxExpr, post: Any, node_map: Any) -> RelaxExpr:
            return call("cast", post, dtype="float16")

    x = var("x", 3)
    f = Halves().rewrite(Function((x,), call("relu", call("tanh", x))))
    assert f.body.type.dtype == "float16"
    assert interpret(f, np.ones(3, np.float32))[0].dtype == np.float16


def test_callbacks_that_never_rest() -> None:
    class Grow(ReluTwice):
        def callback(self, pre: RelaxExpr, post: RelaxExpr, node_map: Any) -> RelaxExpr:
            return call("relu", post)

    x, y = chain(2)
    with pytest.raises(TypeMismatch) as caught:
        rewrite(Grow(), Function((x,), y))
    assert str(caught.value) == (
        "rewrite: Grow would change the program for ever (it stopped after 100 rounds, or 64 times "
        "the size); a callback that makes what its own pattern matches needs rewrite_once=True"
    )

    class Swap(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.pattern = is_op("subtract")(wildcard(), wildcard())

        def callback(self, pre: RelaxExpr, post: Any, node_map: Any) -> RelaxExpr:
            return call("subtract", *reversed(post.args))

    with pytest.raises(TypeMismatch, match="Swap would change the program for ever"):
        rewrite(Swap(), call("subtract", x, var("y", 3)))

    class Same(ReluTwice):
        def callback(self, pre: RelaxExpr, post: RelaxExpr, node_map: Any) -> RelaxExpr:
            return call("relu", call("relu", node_map[self.x][0]))

    f = Function((x,), y)
    assert ops_of(IRModule({"main": rewrite(Same(), f)})) == {"relu": 2}  # equal: at rest


def test_mistakes_are_named() -> None:
    class Nothing(ReluTwice):
        def callback(self, pre: RelaxExpr, post: RelaxExpr, node_map: Any) -> Any:
            return None

    x, y = chain(2)
    with pytest.raises(TypeMismatch, match=r"Nothing\.callback returned None; it has to return"):
        rewrite(Nothing(), y)
    with pytest.raises(TypeMismatch, match="DFPatternCallback is no DFPatternCallback with a"):
        rewrite(DFPatternCallback(), y)
    with pytest.raises(TypeMismatch, match="rewrite takes a function or a value"):
        rewrite(ReluTwice(), 3)
    with pytest.raises(TypeMismatch, match="the rewriter of rewrite_call returned 1"):
        rewrite_call(is_op("relu")(wildcard()), lambda n, m: 1, Function((x,), y))


@given(st.integers(0, 1 << 32))
@settings(max_examples=100, deadline=None)
def test_results_stay(seed: int) -> None:
    body = random_graph(random.Random(seed), 14)
    mod = module([v for v in values(body) if isinstance(v, Var)], body)
    assert_same(mod, IRModule({"main": rewrite([ReluTwice(), Doubled()], mod["main"])}), 1e-6)
    x = wildcard()
    twice = rewrite_call(
        is_op("negative")(is_op("negative")(x)), lambda n, found: found[x], mod["main"]
    )
    assert_same(mod, IRModule({"main": twice}), 0.0)


def test_calls_inside_each_other_are_all_replaced() -> None:
    x, y = chain(6, "negative")
    p = wildcard()
    pattern = is_op("negative")(is_op("negative")(p))
    f = rewrite_call(pattern, lambda n, found: found[p], Function((x,), y))
    assert f.body is x
    shared = Function((x,), Tuple((y, y.args[0])))  # type: ignore[attr-defined]
    g = rewrite_call(pattern, lambda n, found: found[p], shared)
    assert ops_of(IRModule({"main": g})) == {"negative": 1}  # the inner value is still there
    same = rewrite_call(pattern, lambda n, found: n, shared)
    assert same is shared


def test_three_products_become_one() -> None:
    x = var("x", 2, 4)
    weights = [const(4, n) for n in (3, 3, 5)]
    products = [call("matmul", x, w) for w in weights]
    mod = module([x], *[call("relu", p) for p in products])
    with PatternContext() as ctx:
        inp = wildcard()
        patterns = [is_op("matmul")(inp, is_constant()) for _ in weights]

    def rewriter(found: dict[Any, Any]) -> dict[Any, Any]:
        matched = [found[p] for p in patterns]
        data = [m.args[1].data for m in matched]
        whole = call("matmul", found[inp], Constant(*_joined(data)))
        out, begin = {}, 0
        for m, d in zip(matched, data, strict=True):
            end = begin + d.shape[1]
            out[m] = call("strided_slice", whole, axes=(1,), begin=(begin,), end=(end,),
                          strides=(1,))  # fmt: skip
            begin = end
        return out

    f = rewrite_bindings(ctx, rewriter, mod["main"])
    assert ops_of(IRModule({"main": f})) == {"matmul": 1, "strided_slice": 3, "relu": 3}
    assert_same(mod, IRModule({"main": f}))
    assert rewrite_bindings(ctx, rewriter, f) is f


def _joined(data: list[Any]) -> tuple[Any, Any]:
    whole = np.concatenate(data, axis=1)
    return whole, const(*whole.shape).type


def test_matches_that_are_left_as_they_are_come_once() -> None:
    x = var("x", 2)
    body = call("relu", call("tanh", call("relu", call("tanh", x))))
    with PatternContext() as ctx:
        relu = is_op("relu")(is_op("tanh")(wildcard()))
    seen = []

    def rewriter(found: dict[Any, Any], users: Any) -> dict[Any, Any]:
        seen.append(found[relu])
        assert found[relu] in users
        return {}

    f = Function((x,), body)
    assert rewrite_bindings(ctx, rewriter, f) is f
    assert len(seen) == len(set(seen)) == 2
