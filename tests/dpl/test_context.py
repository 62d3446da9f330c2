"""Sequences and contexts: several values with who uses whom."""

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt.ir.errors import TypeMismatch
from smelt.relax.dpl import PatternContext, is_constant, is_op, is_var, wildcard
from smelt.relax.nodes import Call, Function, RelaxExpr, Tuple, call, values
from smelt.topi.registry import Op
from tests.transform.graphs import const, var

from .naive import made_from, random_graph

X = var("x", 1, 3, 6, 6)


def conv(x: RelaxExpr) -> RelaxExpr:
    return call("conv2d", x, const(3, 3, 1, 1))


def test_only_used_by() -> None:
    c = conv(X)
    r = call("relu", c)
    with PatternContext() as ctx:
        a, b = is_op("conv2d")(wildcard(), wildcard()), is_op("relu")(wildcard())
        a >> b
    found = ctx.match_dfb(Function((X,), r))
    assert found is not None
    assert found[a] is c
    assert found[b] is r
    assert ctx.match_dfb(Function((X,), call("add", r, c))) is None  # the addition uses it too
    assert ctx.match_dfb(Function((X,), Tuple((r, c)))) is None  # it is a result too
    with PatternContext() as ctx:
        a, b = is_op("conv2d")(wildcard(), wildcard()), is_op("relu")(wildcard())
        a ^ b
    assert ctx.match_dfb(Function((X,), call("add", r, c)))
    assert ctx.match_dfb(Function((X,), call("relu", conv(call("relu", X))))) is not None
    assert ctx.match_dfb(Function((X,), conv(call("relu", X)))) is None


def test_branches_of_a_graph() -> None:
    c = conv(X)
    left, right = call("relu", c), call("tanh", c)
    f = Function((X,), call("subtract", left, right))
    with PatternContext() as ctx:
        a = is_op("conv2d")(wildcard(), is_constant())
        b, d = is_op("relu")(wildcard()), is_op("tanh")(wildcard())
        e = is_op("subtract")(wildcard(), wildcard())
        a.used_by(b).used_by(e, 0)
        (a ^ d).only_used_by(e, 1)
    found = ctx.match_dfb(f)
    assert found is not None
    assert [found[p] for p in (a, b, d, e)] == [c, left, right, f.body]
    with PatternContext(incremental=False) as other:
        a, b = is_op("relu")(wildcard()), is_op("subtract")(wildcard(), wildcard())
        a.used_by(b, 1)
    assert other.match_dfb(f) is None


def test_different_patterns_are_different_values() -> None:
    one = Function((X,), call("relu", X))
    two = Function((X,), call("add", call("relu", X), call("relu", X)))
    with PatternContext() as ctx:
        for _ in range(2):
            is_op("relu")(is_var())
    assert ctx.match_dfb(one) is None
    found = ctx.match_dfb(two)
    assert found is not None
    assert len({found[p] for p in ctx.patterns}) == 2


def test_contexts_grow() -> None:
    f = Function((X,), call("tanh", call("relu", X)))
    with PatternContext() as outer:
        a = is_op("relu")(wildcard())
        with PatternContext(incremental=True) as inner:
            assert PatternContext.current() is inner
            a >> is_op("tanh")(wildcard())
        assert PatternContext.current() is outer
    assert PatternContext.current() is None
    assert len(outer.patterns) == 1
    assert len(inner.patterns) == 2
    assert inner.match_dfb(f)
    assert inner.match_dfb(Function((X,), call("relu", X))) is None
    assert outer.match_dfb(Function((X,), call("relu", X)))


def test_alternatives_in_a_context_need_one_value() -> None:
    with PatternContext() as ctx:
        is_op("relu")(wildcard()) | is_op("tanh")(wildcard())
        is_op("negative")(is_op("abs")(wildcard()).optional(is_op("floor")))
    assert ctx.match_dfb(Function((X,), call("negative", call("abs", call("tanh", X)))))
    assert ctx.match_dfb(Function((X,), call("negative", call("abs", X)))) is None


def test_sequences() -> None:
    a, b, c = [is_op(n)(wildcard()) for n in ("relu", "tanh", "abs")]
    seq = (a >> b) ^ c
    assert [seq[n] for n in range(3)] == [a, b, c]
    assert [e.only for e in seq.edges] == [True, False]
    assert (a ^ (b >> c)).patterns == (a, b, c)
    with PatternContext() as ctx:
        (is_op("tanh")(wildcard()) >> is_op("relu")(wildcard())).dup()
    body = call("relu", call("tanh", X))
    assert ctx.match_dfb(body) is None  # each pattern stands twice, for another value
    assert ctx.match_dfb(call("add", body, call("relu", call("tanh", X))))
    with pytest.raises(TypeMismatch) as caught:
        a >> 3  # type: ignore[arg-type]
    assert str(caught.value) == "used_by: 3 stands where a pattern or a sequence is needed"


@given(st.integers(0, 1 << 32))
@settings(max_examples=150, deadline=None)
def test_as_found_by_trying_everything(seed: int) -> None:
    rng = random.Random(seed)
    root = random_graph(rng, 7)
    names = [rng.choice(["relu", "tanh", "add", "multiply", "subtract"]) for _ in range(3)]
    edges = [(0, 1, -1, rng.random() < 0.5), (rng.choice([0, 1]), 2, rng.choice([-1, 0]), False)]
    with PatternContext() as ctx:
        patterns = [is_op(n)(None) for n in names]
        for a, b, index, only in edges:
            (patterns[a].only_used_by if only else patterns[a].used_by)(patterns[b], index)
    nodes = list(values(root))
    users: dict[Any, list[Any]] = {n: [u for u in nodes if n in made_from(u)] for n in nodes}

    def fits(chosen: tuple[Any, ...]) -> bool:
        for n, name in zip(chosen, names, strict=True):
            if not (isinstance(n, Call) and isinstance(n.op, Op) and n.op.name == name):
                return False
        for a, b, index, only in edges:
            args = made_from(chosen[b])
            if chosen[a] not in (args if index < 0 else args[index : index + 1]):
                return False
            if only and (chosen[a] is root or users[chosen[a]] != [chosen[b]]):
                return False
        return True

    expected = [c for c in itertools.permutations(nodes, 3) if fits(c)]
    found = ctx.match_dfb(root)
    assert (found is not None) == bool(expected)
    if found is not None:
        assert tuple([found[p] for p in patterns]) in expected
