"""Branches, recursion, closures: what the virtual machine computes is what the interpreter does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.byoc import Json, register_codegen
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.runtime import register_runtime
from tests.byoc.support import NAME, affine, affine_python, registered

from .support import both, f32, main, num, relay, scalar


def test_a_branch_on_a_value_of_the_run() -> None:
    c, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(3,))
    mod = main([c, x], relay.If(c, relay.exp(x), relay.negative(x)))
    x0 = f32([1, 2, 3])
    run = relay.create_executor("vm", mod).evaluate()
    np.testing.assert_allclose(run(True, x0).numpy(), np.exp(x0), rtol=1e-6)
    np.testing.assert_array_equal(run(np.bool_(False), x0).numpy(), -x0)


def test_values_around_a_branch_are_computed_once() -> None:
    x = scalar("x")
    y = relay.multiply(x, x)
    shared = relay.add(y, num(1))  # used by both branches of the second, not by the first
    first = relay.If(relay.less(y, num(10)), relay.add(y, num(5)), y)
    second = relay.If(relay.less(first, num(20)), relay.add(shared, first), shared)
    mod = main([x], relay.add(second, y))
    assert [both(mod, np.int32(n)) for n in (1, 3, 4, 6)] == [9, 33, 49, 73]


def test_chains_of_branches_stay_short() -> None:
    start = x = scalar("x")
    for n in range(30):  # each value is used in both branches of the next: no copies
        x = relay.If(relay.less(x, num(40 * n)), relay.add(x, num(n)), relay.subtract(x, num(1)))
    mod = main([start], x)
    exe = relay.vm.compile(mod)
    assert sum(len(f.code) for f in exe.program.functions) < 400
    assert both(mod, np.int32(7)) == both(mod, np.int32(7))


def count_down(mod: IRModule) -> Any:
    """sum(n, acc) = 0 + ... + n, by a call at the end."""
    loop = relay.GlobalVar("loop")
    n, acc = scalar("n"), scalar("acc")
    again = loop(relay.subtract(n, num(1)), relay.add(acc, n))
    mod[loop] = relay.Function([n, acc], relay.If(relay.equal(n, num(0)), acc, again))
    return loop


def test_a_loop_by_recursion_runs_ten_thousand_times() -> None:
    mod, n = IRModule(), scalar("n")
    main([n], count_down(mod)(n, num(0)), mod)
    assert both(mod, np.int32(10_000)) == 50_005_000


def test_a_call_at_the_end_takes_the_frame() -> None:
    mod, n = IRModule(), scalar("n")
    main([n], count_down(mod)(n, num(0)), mod)
    text = relay.vm.compile(mod).bytecode
    assert "TailInvoke" in text
    assert " Invoke " not in text


def test_recursion_deeper_than_pythons() -> None:
    mod, total = IRModule(), relay.GlobalVar("total")
    n, k = scalar("n"), scalar("k")
    more = relay.add(k, total(relay.subtract(k, num(1))))
    mod[total] = relay.Function([k], relay.If(relay.equal(k, num(0)), num(0), more))
    main([n], total(n), mod)
    assert both(mod, np.int32(5_000)) == 12_502_500


def test_functions_that_call_each_other() -> None:
    mod = IRModule()
    even, odd = relay.GlobalVar("even"), relay.GlobalVar("odd")
    for me, other, at_zero in ((even, odd, True), (odd, even, False)):
        n = scalar("n")
        rest = other(relay.subtract(n, num(1)))
        mod[me] = relay.Function([n], relay.If(relay.equal(n, num(0)), relay.const(at_zero), rest))
    n = scalar("n")
    main([n], relay.Tuple([even(n), odd(n)]), mod)
    assert both(mod, np.int32(7)) == [False, True]


def test_a_function_bound_by_let_calls_itself_and_uses_what_is_around() -> None:
    x, step = scalar("x"), relay.var("step", shape=(2,))
    f, n, acc = relay.Var("f"), scalar("n"), relay.var("acc", shape=(2,))
    again = f(relay.subtract(n, num(1)), relay.add(acc, step))
    body = relay.If(relay.equal(n, num(0)), acc, again)
    whole = relay.Let(f, relay.Function([n, acc], body), f(x, relay.multiply(step, step)))
    result = both(main([x, step], whole), np.int32(3), f32([1, 2]))
    np.testing.assert_array_equal(result, [4, 10])


def test_a_recursive_closure_as_a_value() -> None:
    x, f, n = scalar("x"), relay.Var("f"), scalar("n")
    inner = relay.Function([n], relay.If(relay.less(n, x), n, f(relay.subtract(n, x))))
    g, h, m = relay.Var("g"), relay.Var("h"), scalar("m")
    twice = relay.Function([g, m], relay.add(g(m), g(relay.add(m, num(1)))))
    mod = main([x], relay.Let(f, inner, relay.Let(h, twice, h(f, num(10)))))
    assert both(mod, np.int32(4)) == 2 + 3


def test_closures_are_captured_returned_and_passed() -> None:
    mod = IRModule()
    adder, compose = relay.GlobalVar("adder"), relay.GlobalVar("compose")
    a, b = scalar("a"), scalar("b")
    mod[adder] = relay.Function([a], relay.Function([b], relay.add(a, b)))
    f, g, x = relay.Var("f"), relay.Var("g"), relay.Var("x")
    mod[compose] = relay.Function([f, g], relay.Function([x], f(g(x))))
    n, y = scalar("n"), scalar("y")
    double = relay.Function([y], relay.multiply(y, num(2)))
    both_ways = relay.Tuple([compose(adder(n), double)(n), compose(double, adder(n))(n)])
    main([n], both_ways, mod)
    assert both(mod, np.int32(5)) == [15, 20]


def test_a_function_chosen_by_a_branch() -> None:
    c, x, y, z = (relay.var("c", shape=(), dtype="bool"), scalar("x"), scalar("y"), scalar("z"))
    up = relay.Function([y], relay.add(y, x))
    down = relay.Function([z], relay.subtract(z, x))
    mod = main([c, x], relay.If(c, up, down)(num(10)))
    assert both(mod, np.bool_(True), np.int32(3)) == 13
    assert both(mod, np.bool_(False), np.int32(3)) == 7


def test_a_let_bound_function_of_several_types() -> None:
    same, x = relay.Var("same"), relay.Var("x")
    n, v = scalar("n"), relay.var("v", shape=(2,))
    h = relay.Var("h")
    apply = relay.Function([h, v2 := scalar("m")], h(v2))
    pair = relay.Tuple([same(n), same(v), apply(same, n)])
    mod = main([n, v], relay.Let(same, relay.Function([x], x), pair))
    one, two, three = both(mod, np.int32(3), f32([1, 2]))
    assert (one, two.tolist(), three) == (3, [1.0, 2.0], 3)


def test_a_declared_function_of_several_types() -> None:
    mod, swap = IRModule(), relay.GlobalVar("swap")
    a, b = relay.TypeVar("a"), relay.TypeVar("b")
    x, y = relay.var("x", a), relay.var("y", b)
    mod[swap] = relay.Function([x, y], relay.Tuple([y, x]), type_params=[a, b])
    n, v = scalar("n"), relay.var("v", shape=(2,))
    main([n, v], relay.TupleGetItem(swap(relay.TupleGetItem(swap(n, v), 0), n), 1), mod)
    assert both(mod, np.int32(3), f32([1, 2])).tolist() == [1.0, 2.0]


def test_tuples_go_through_branches_calls_and_operators() -> None:
    mod, f = IRModule(), relay.GlobalVar("f")
    n, p = (scalar("n"), relay.var("p", relay.TupleType([relay.TensorType((2,))] * 2)))
    joined = relay.concatenate(p, 0)
    mod[f] = relay.Function([p], relay.Tuple([joined, relay.TupleGetItem(p, 1)]))
    x = relay.var("x", shape=(4,))
    cut = relay.split(x, 2)
    kept = relay.If(relay.less(n, num(0)), relay.Tuple([cut[0], cut[1]]),
                    relay.Tuple([cut[1], cut[0]]))  # fmt: skip
    main([n, x], f(kept), mod)
    one, two = both(mod, np.int32(1), f32([1, 2, 3, 4]))
    assert (one.tolist(), two.tolist()) == ([3, 4, 1, 2], [1, 2])


@pytest.mark.parametrize("batch", [1, 5])
def test_a_symbolic_batch(batch: int) -> None:
    mod, f = IRModule(), relay.GlobalVar("power")
    rows = relay.Any()
    n, x, w = scalar("n"), relay.var("x", shape=(rows, 3)), relay.var("w", shape=(3, 3))
    more = f(relay.subtract(n, num(1)), relay.nn.dense(x, w), w)
    mod[f] = relay.Function([n, x, w], relay.If(relay.equal(n, num(0)), x, more))
    k, y, v = scalar("n"), relay.var("x", shape=(relay.Any(), 3)), relay.var("w", shape=(3, 3))
    main([k, y, v], relay.nn.relu(f(k, y, v)), mod)
    rng = np.random.default_rng(batch)
    x0, w0 = (rng.standard_normal((m, 3)).astype("float32") for m in (batch, 3))
    run = relay.create_executor("vm", mod).evaluate()
    want = np.maximum(x0 @ w0.T @ w0.T, 0)
    np.testing.assert_allclose(run(np.int32(2), x0, w0).numpy(), want, rtol=1e-4, atol=1e-5)


def test_a_tensor_that_grows_from_turn_to_turn() -> None:
    mod, grow = IRModule(), relay.GlobalVar("grow")
    n, x = scalar("n"), relay.var("x", shape=(relay.Any(),), dtype="int32")
    longer = relay.concatenate([x, relay.reshape(n, (1,))], 0)
    mod[grow] = relay.Function(
        [n, x], relay.If(relay.equal(n, num(0)), x, grow(relay.subtract(n, num(1)), longer))
    )
    k = scalar("k")
    start = relay.reshape(relay.multiply(k, k), (1,))
    main([k], relay.multiply(grow(k, start), num(2)), mod)
    assert both(mod, np.int32(4)).tolist() == [32, 8, 6, 4, 2]


def test_sizes_that_the_data_tell() -> None:
    n, x = scalar("n"), relay.var("x", shape=(relay.Any(), 2))
    places = relay.arange(num(0), n, num(1), dtype="int32")
    shape = relay.concatenate([relay.shape_of(x), relay.const(np.asarray([1], "int32"))], 0)
    results = [
        relay.multiply(places, places),
        relay.argwhere(x),
        relay.reshape(x, shape),
        relay.topk(relay.sum(x, axis=1), n, ret_type="values"),
    ]
    mod = main([n, x], relay.Tuple(results))
    x0 = f32([[1, 0], [0, 0], [5, 2]])
    squares, found, shaped, best = both(mod, np.int32(2), x0)
    assert squares.tolist() == [0, 1]
    assert found.tolist() == [[0, 0], [2, 0], [2, 1]]
    assert shaped.shape == (3, 2, 1)
    assert best.tolist() == [7, 1]


def test_one_program_without_control_is_one_native_call() -> None:
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    body = relay.nn.softmax(relay.nn.relu(relay.nn.dense(x, w)))
    exe = relay.vm.compile(main([x, w], relay.Tuple([body, relay.exp(body)])))
    (f,) = exe.program.functions
    assert [i[0] for i in f.code] == ["InvokeSegment", "AllocTuple", "Ret"]
    assert len(exe.lib) == 1


def test_equal_segments_are_compiled_once() -> None:
    c, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(3,))
    again = relay.var("y", shape=(3,))
    f = relay.GlobalVar("f")
    mod = IRModule({"f": relay.Function([again], relay.exp(relay.add(again, relay.const(1.0))))})
    y = relay.exp(relay.add(x, relay.const(1.0)))
    main([c, x], relay.If(c, f(x), y), mod)
    assert len(relay.vm.compile(mod).lib) == 1


def test_functions_of_other_compilers_are_part_of_segments() -> None:
    with registered():
        register_codegen(NAME)(lambda func, symbol, module: Json("{}", {}))
        register_runtime(NAME)(affine_python)
        for rows in (3, SizeVar("n", "int64")):
            mod = affine(rows)
            f = mod["main"]
            c = relay.var("c", shape=(), dtype="bool")
            mod["main"] = relay.Function([c, *f.params], relay.If(c, f.body, f.params[0]))
            exe = relay.vm.compile(mod)
            assert len(exe.lib) == 1
            run = relay.create_executor("vm", mod).evaluate()
            x = f32(np.arange(12).reshape(3, 4))
            want = relay.create_executor("debug", mod).evaluate()(True, x).numpy()
            np.testing.assert_allclose(run(True, x).numpy(), want, rtol=1e-5)
            np.testing.assert_array_equal(run(False, x).numpy(), x)
