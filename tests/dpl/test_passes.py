"""The passes that give parts of a graph to other compilers."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smelt
from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.ir.types import TensorType, tensor_type
from smelt.relax.dpl import is_constant, is_op, is_tuple, wildcard
from smelt.relax.dpl.graph import op_name
from smelt.relax.graph import free_vars
from smelt.relax.interpret import interpret
from smelt.relax.nodes import (
    Call,
    Function,
    GlobalVar,
    If,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
    call,
    values,
)
from smelt.relax.transform import (
    annotate_target,
    merge_compiler_regions,
    merge_composite,
    partition_graph,
    register_op_predicate,
)
from smelt.relax.transform.regions import feeds, read_regions, top_level
from smelt.script import parse
from tests.transform.graphs import assert_same, const, module, ops_of, random_inputs, var
from tests.transform.test_random import graph

from .naive import Imitator, random_graph

CONV = is_op("conv2d")(wildcard(), is_constant())
BIASED = is_op("add")(CONV, is_constant())
TABLE = [("acc.conv2d_bias_relu", is_op("relu")(BIASED)), ("acc.conv2d_bias", BIASED)]

for _name in ("add", "relu", "max_pool"):
    register_op_predicate("acc", _name, lambda n: True)
register_op_predicate("math", "tanh", lambda n: True)
register_op_predicate("math", "sigmoid", lambda n: True)
register_op_predicate("math", "multiply", lambda n: n.args[0] is not n.args[1])
register_op_predicate("rows", "topk", lambda n: True)
register_op_predicate("rows", "concat", lambda n: True)


def conv(x: RelaxExpr, channels: int = 4) -> RelaxExpr:
    """A convolution with its bias."""
    c = x.type.shape[1].value  # type: ignore[attr-defined]
    w, b = const(channels, c, 3, 3), const(channels, 1, 1)
    return call("add", call("conv2d", x, w, pads=(1, 1, 1, 1)), b)


def residual(blocks: int) -> IRModule:
    """A small network of residual blocks: a stem, two convolutions a block, a softmax."""
    x = var("x", 1, 3, 8, 8)
    y: RelaxExpr = call("max_pool", call("relu", conv(x)), kernel=(2, 2), strides=(2, 2))
    for _ in range(blocks):
        y = call("relu", call("add", conv(call("relu", conv(y))), y))
    y = call("mean", y, axes=(2, 3), keepdims=False)
    return module([x], call("softmax", call("matmul", y, const(4, 10)), axis=-1))


def partitioned(mod: IRModule, targets: Any, table: Any = (), **options: Any) -> IRModule:
    merged = merge_composite(mod, list(table))
    return partition_graph(merge_compiler_regions(annotate_target(merged, targets)), **options)


def regions(mod: IRModule) -> dict[str, Function]:
    functions: dict[str, Any] = dict(mod.functions)
    return {n: f for n, f in functions.items() if "Compiler" in f.attrs}


def composites(mod: IRModule) -> list[str]:
    found = [n for f in mod.functions.values() for n in values(f)]  # type: ignore[arg-type]
    names = [n.attrs.get("Composite") for n in found if isinstance(n, Function)]
    return sorted([n for n in names if n])


def test_a_residual_network() -> None:
    mod = residual(3)
    merged = merge_composite(mod, TABLE)
    assert composites(merged) == ["acc.conv2d_bias"] * 3 + ["acc.conv2d_bias_relu"] * 4
    apart = partition_graph(annotate_target(merged, "acc"))
    assert len(regions(apart)) == 1 + 1 + 3 * 4  # stem, pool; two composites, add, relu a block
    whole = partitioned(mod, "acc", TABLE)
    (symbol,) = regions(whole)
    assert symbol == "tvmgen_default_acc_main_0"
    f = whole[symbol]
    assert f.attrs == {
        "Compiler": "acc", "global_symbol": symbol, "Primitive": 1, "Inline": 1,
    }  # fmt: skip
    assert [p.name for p in f.params] == ["acc_0_i0"]
    assert ops_of(whole) == {"mean": 1, "matmul": 1, "softmax": 1}
    assert len(composites(whole)) == 7
    for after in (merged, apart, whole):
        assert_same(mod, after, 0.0)


def test_constants_are_bound_or_passed() -> None:
    mod = residual(1)
    passed = partitioned(mod, "acc", mod_name="tiny", bind_constants=False)
    assert next(iter(regions(passed))) == "tvmgen_tiny_acc_main_0"
    assert_same(mod, passed, 0.0)
    for f in regions(passed).values():
        assert not [n for n in values(f.body) if type(n).__name__ == "Constant"]
    bound = partitioned(mod, "acc", bind_constants=True)
    assert sum(len(f.params) for f in regions(bound).values()) < sum(
        len(f.params) for f in regions(passed).values()
    )


def test_marks() -> None:
    x = var("x", 3)
    mod = module([x], call("negative", call("tanh", x)))
    marked = annotate_target(mod, "math")
    assert marked["main"].script() == (
        "@R.function\n"
        'def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):\n'
        '    v0 = R.annotation.compiler_begin(x, compiler="math")\n'
        "    v1 = R.tanh(v0)\n"
        '    v2 = R.annotation.compiler_end(v1, compiler="math")\n'
        '    v3 = R.annotation.compiler_begin(v2, compiler="default")\n'
        "    v4 = R.negative(v3)\n"
        '    v5 = R.annotation.compiler_end(v4, compiler="default")\n'
        "    return v5\n"
    )
    again: Any = parse(marked["main"].script())
    assert again.script() == marked["main"].script()
    assert_same(mod, marked, 0.0)
    assert ops_of(partition_graph(marked)) == {"negative": 1}
    assert list(regions(partition_graph(marked))) == ["tvmgen_default_math_main_0"]


@pytest.mark.parametrize("level", [0, 3])
def test_marks_that_nobody_read_compile_as_nothing(level: int) -> None:
    x = var("x", 3)
    marked = annotate_target(module([x], call("negative", call("tanh", x))), "math")
    exe = smelt.compile(marked, options=Options(opt_level=level))
    data = np.array([0.5, -1, 2], np.float32)
    np.testing.assert_allclose(exe(data).numpy(), -np.tanh(data), rtol=1e-5)


def test_the_first_target_that_takes_an_operator_gets_it() -> None:
    x = var("x", 3)
    mod = module([x], call("tanh", call("add", call("multiply", x, x), call("sigmoid", x))))
    register_op_predicate("second", "add", lambda n: True)
    found = regions(partitioned(mod, ["math", "second", "acc"]))
    assert sorted([f.attrs["Compiler"] for f in found.values()]) == ["math", "math", "second"]
    two = annotate_target(annotate_target(mod, "acc"), "math")  # one after the other
    assert sorted([str(f.attrs["Compiler"]) for f in regions(partition_graph(two)).values()]) == [
        "acc",
        "math",
        "math",
    ]
    assert annotate_target(mod, "nobody")["main"].script().count("default") == 8 + 1
    assert not regions(partitioned(mod, "nobody"))


def test_a_region_never_waits_for_itself() -> None:
    """tanh -> negative -> add with tanh beside it: merging both would make a cycle."""
    x = var("x", 3)
    t = call("tanh", x)
    mod = module([x], call("multiply", call("negative", t), t))
    after = partitioned(mod, "math")
    assert len(regions(after)) == 2
    assert_same(mod, after, 0.0)
    straight = module([x], call("multiply", call("sigmoid", t), t))
    assert len(regions(partitioned(straight, "math"))) == 1
    branch = Function((), call("negative", t))
    flag = var("c", dtype="bool")
    choice = If(flag, branch, Function((), x), tensor_type((3,)))
    hidden = module([x, flag], call("multiply", choice, t))  # the branch sees the tanh
    after = partitioned(hidden, "math")
    assert len(regions(after)) == 2
    for value in (True, False):
        given_: list[Any] = [np.array([1, 2, 3], np.float32), np.array(value)]
        assert_same(hidden, after, 0.0, given_)


def test_partitioning_again_keeps_what_is_there() -> None:
    x = var("x", 3)
    mod = module([x], call("tanh", call("erf", call("tanh", x))))
    first = partition_graph(annotate_target(mod, "math"))
    register_op_predicate("math", "erf", lambda n: True)
    second = partition_graph(annotate_target(first, "math"))
    assert list(regions(second)) == [f"tvmgen_default_math_main_{n}" for n in range(3)]
    assert_same(mod, second, 0.0)
    dashed = module([x], call("sigmoid", x))
    register_op_predicate("my-npu", "sigmoid", lambda n: True)
    assert list(regions(partitioned(dashed, "my-npu"))) == ["tvmgen_default_my_npu_main_0"]


def test_several_results_and_tuples() -> None:
    x = var("x", 5)
    best = call("topk", x, k=2)
    a = TupleGetItem(best, 0)
    mod = module([x], call("concat", a, call("negative", a), axis=0), TupleGetItem(best, 1))
    after = partitioned(mod, "rows")
    made = regions(after)
    assert [len(f.results()) for f in made.values()] == [2, 1]
    assert_same(mod, after, 0.0)
    whole = annotate_target(mod, "rows", include_non_call_ops=False)
    assert [f.attrs["Compiler"] for f in regions(partition_graph(whole)).values()] == ["rows"]
    item = is_op("topk")(wildcard())
    tuples = merge_composite(mod, [("rows.topk", item)])
    assert_same(mod, partitioned(tuples, "rows"), 0.0)
    result = IRModule({"main": Function((x,), best)})
    assert_same(result, partitioned(result, "rows"), 0.0)
    pair = module([x], call("concat", call("tanh", x), x, axis=0))
    packed = is_tuple(None)
    assert_same(pair, merge_composite(pair, [("rows.pair", packed)]), 0.0)


def test_composites_by_preference_and_check() -> None:
    mod = residual(1)
    plain = merge_composite(mod, [("acc.conv2d", CONV), *TABLE])
    assert composites(plain) == ["acc.conv2d"] * 3
    seen: list[Any] = []

    def check(extract: Any) -> bool:
        seen.append(extract)
        return len(seen) == 1

    some = merge_composite(mod, [("acc.conv2d_bias_relu", TABLE[0][1], check)])
    assert composites(some) == ["acc.conv2d_bias_relu"]
    assert [op_name(n.op) for n in seen] == ["relu", "relu"]
    assert merge_composite(mod, [("a.b", is_op("erf")(wildcard()))]) is mod


@given(st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None)
def test_results_stay(seed: int) -> None:
    rng = random.Random(seed)
    mod = graph(seed)
    check_all(mod, rng)


@given(st.integers(0, 1 << 32))
@settings(max_examples=80, deadline=None)
def test_results_stay_where_much_is_shared(seed: int) -> None:
    rng = random.Random(seed)
    nodes = list(values(random_graph(rng, 16)))
    results = [nodes[-1], rng.choice(nodes)]
    params = [n for n in nodes if isinstance(n, Var)]
    check_all(module(params, *[r for r in results if isinstance(r.type, TensorType)]), rng)


def check_all(mod: IRModule, rng: random.Random) -> None:
    """Every pass keeps the results, and the last one leaves functions that stand alone."""
    calls = [n for n in values(mod["main"].body) if isinstance(n, Call)]
    names = sorted({op_name(n.op) or "" for n in calls})
    for target in ("p", "q"):
        taken = {n for n in names if rng.random() < 0.45}
        for name in names:
            register_op_predicate(target, name, lambda n, t=taken: op_name(n.op) in t)
    table = []
    for target in ("p", "q"):
        if calls:
            table.append((f"{target}.some", Imitator(rng).of(rng.choice(calls), 3)))
    steps = [merge_composite(mod, table)]
    steps.append(annotate_target(steps[-1], ["p", "q"], rng.random() < 0.7))
    steps.append(merge_compiler_regions(steps[-1]))
    check_merged(steps[-2], steps[-1])
    steps.append(partition_graph(steps[-1], bind_constants=rng.random() < 0.5))
    inputs = random_inputs(mod)
    for step in steps:
        assert_same(mod, step, 1e-6, inputs)
    assert "annotation" not in "".join(ops_of(steps[-1]))
    for f in regions(steps[-1]).values():
        assert not free_vars(f)
        assert "annotation" not in "".join(ops_of(IRModule({"main": f})))


def check_merged(apart: IRModule, merged: IRModule) -> None:
    """No two neighbours are left that could be one: tried with every pair."""
    f, found = read_regions(merged["main"])
    assert len(set(found.values())) <= len(set(read_regions(apart["main"])[1].values()))
    order = [n for n in top_level(f) if not isinstance(n, Tuple) and feeds(n)]
    group = {n: found.get(n, n) for n in order}
    edges = {(group[o], group[n]) for n in order for o in feeds(n) if o in group}
    edges = {(a, b) for a, b in edges if a is not b}

    def reaches(a: Any, b: Any) -> bool:
        seen, stack = {a}, [a]
        while stack:
            here = stack.pop()
            for x, y in edges:
                if x is here and y not in seen and (x, y) != (a, b):
                    if y is b:
                        return True
                    seen.add(y)
                    stack.append(y)
        return False

    for a, b in edges:
        assert not reaches(b, a)
        if getattr(a, "target", 0) == getattr(b, "target", 1):
            assert reaches(a, b)


def test_a_call_of_the_module_stays() -> None:
    x = var("x", 3)
    inner = Function((p := var("p", 3),), call("tanh", p))
    body = Call(GlobalVar("helper"), (call("tanh", x),), {}, x.type)
    mod = IRModule({"main": Function((x,), body), "helper": inner})
    after = partitioned(mod, "math")
    assert set(after) == {
        "main", "helper", "tvmgen_default_math_main_0", "tvmgen_default_math_helper_0",
    }  # fmt: skip
    data = np.ones(3, np.float32)
    (found,) = interpret(after["main"], data, module=after)
    np.testing.assert_allclose(found, np.tanh(np.tanh(data)), rtol=1e-6)


def test_mistakes_are_named() -> None:
    x = var("x", 3)
    mod = module([x], x)
    with pytest.raises(TypeMismatch, match="takes the name of a compiler or a list, not"):
        annotate_target(mod, [3])  # type: ignore[list-item]
    with pytest.raises(TypeMismatch) as caught:
        merge_composite(mod, [("a", 3)])  # type: ignore[list-item]
    assert str(caught.value) == (
        "MergeComposite: entry 0 is ('a', 3); it has to be (name, pattern) or "
        "(name, pattern, check)"
    )
    with pytest.raises(TypeMismatch, match=r"register_op_predicate\('a', 'b'\): 3 is no function"):
        register_op_predicate("a", "b", 3)  # type: ignore[call-overload]
    register_op_predicate("wrong", "tanh", lambda n: bool(n.args[1]))
    with pytest.raises(TypeMismatch, match=r"pattern wrong of tanh: its check function <lambda>"):
        annotate_target(module([x], call("tanh", x)), "wrong")
