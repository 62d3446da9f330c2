"""Chains of 10,000 calls, deep patterns, and many patterns on a large graph."""

import sys
from typing import Any

from smelt.ir.module import IRModule
from smelt.relax.dpl import (
    DFPattern,
    DFPatternCallback,
    PatternContext,
    dominates,
    is_op,
    is_var,
    rewrite,
    rewrite_call,
    wildcard,
)
from smelt.relax.nodes import Call, Function, RelaxExpr, call, values
from smelt.relax.transform import (
    annotate_target,
    fuse_ops_by_pattern,
    merge_compiler_regions,
    merge_composite,
    merge_composite_functions,
    partition_graph,
    register_op_predicate,
)
from tests.transform.graphs import module, ops_of, var

DEEP = 10_000

register_op_predicate("deep", "relu", lambda n: True)


def chain(length: int = DEEP) -> IRModule:
    x = var("x", 3)
    y: RelaxExpr = x
    for n in range(length):
        y = call("relu" if n % 2 else "tanh", y)
    return module([x], y)


def test_deep_graphs() -> None:
    assert sys.getrecursionlimit() < DEEP
    mod = chain()
    f = mod["main"]
    pair = is_op("relu")(is_op("tanh")(wildcard()))
    parted = pair.partition(f)
    assert len([n for n in values(parted) if isinstance(n, Function)]) == DEEP // 2 + 1
    x = wildcard()
    halved = rewrite_call(is_op("relu")(is_op("tanh")(x)), lambda n, found: found[x], f)
    assert halved.body is f.params[0]

    class Drop(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.x = wildcard()
            self.pattern = is_op("relu")(self.x)

        def callback(self, pre: RelaxExpr, post: RelaxExpr, node_map: Any) -> Any:
            return node_map[self.x][0]

    assert ops_of(IRModule({"main": rewrite(Drop(), f)})) == {"tanh": DEEP // 2}
    ends = dominates(is_op("tanh")(is_var()), wildcard(), is_op("relu")(wildcard()))
    assert ends.match(f.body)
    with PatternContext() as ctx:
        is_op("tanh")(is_var()) >> is_op("relu")(wildcard())
    assert ctx.match_dfb(f)


def test_deep_passes() -> None:
    mod = chain(4000)
    relu = is_op("relu")(wildcard())
    merged = merge_composite(mod, [("deep.relu", relu)])
    marked = merge_compiler_regions(annotate_target(merged, "deep"))
    after = partition_graph(marked)
    assert len(after.functions) == 2001
    fused = merge_composite_functions(fuse_ops_by_pattern(mod, [("deep.relu", relu)]))
    assert len(fused.functions) == 2001


def test_one_region_of_a_long_chain() -> None:
    register_op_predicate("long", "relu", lambda n: True)
    register_op_predicate("long", "tanh", lambda n: True)
    after = partition_graph(merge_compiler_regions(annotate_target(chain(), "long")))
    assert list(after) == ["main", "tvmgen_default_long_main_0"]
    assert isinstance(after["main"].body, Call)


def test_deep_patterns() -> None:
    body = chain()["main"].body
    pattern: DFPattern = is_var()
    for n in range(DEEP):
        pattern = is_op("relu" if n % 2 else "tanh")(pattern)
    assert pattern.match(body)
    assert not pattern.match(call("relu", body))
    assert pattern.dup().match(body)
    assert len(repr(pattern)) < 200
    optional: DFPattern = wildcard()
    for _ in range(200):
        optional = optional.optional(is_op("relu")).optional(is_op("tanh"))
    assert optional.match(chain(400)["main"].body)


def test_alternatives_do_not_multiply() -> None:
    """Each sum fits in both orders, the innermost in none: 2 to the power 200 ways to fail."""
    x, y = var("x", 3), var("y", 3)
    body, pattern = call("add", x, y), is_op("add")(is_op("erf")(wildcard()), wildcard())
    for _ in range(200):
        body = call("add", body, body if _ % 2 else y)
        pattern = is_op("add")(pattern, wildcard())
    assert not pattern.match(body)
    left: RelaxExpr = x
    right: RelaxExpr = y
    wrong: DFPattern = is_op("erf")(wildcard())
    for _ in range(200):
        left, right = call("add", left, right), call("add", right, left)
        wrong = is_op("add")(wrong, wrong.dup() if _ < 3 else wildcard())
    assert not wrong.match(left)
