"""Algebraic data types: the prelude, matches, types of programs with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.ir.module import IRModule
from smelt.relax.adt import unmatched_cases
from smelt.relax.transform.infer_module import infer_types
from smelt.relax.transform.unify import show
from smelt.relay.prelude import Prelude

from .support import both, f32, items, main, num, relay, scalar


def listed(p: Prelude, *values: Any) -> Any:
    made = p.nil()
    for v in reversed(values):
        made = p.cons(v, made)
    return made


def test_functions_of_the_prelude() -> None:
    p = Prelude()
    n, y, a, b, t = scalar("n"), relay.Var("y"), relay.Var("a"), relay.Var("b"), relay.Var("t")
    xs = listed(p, n, num(2), relay.multiply(n, n))
    double = relay.Function([y], relay.multiply(y, num(2)))
    minus = relay.Function([a, b], relay.subtract(a, b))
    big = relay.Function([t], relay.greater(t, num(2)))
    results = [
        p.length(xs), p.sum(p.map(double, xs)), p.foldl(minus, n, xs), p.foldr(minus, n, xs),
        p.hd(p.tl(xs)), p.nth(xs, num(2)), p.hd(p.rev(p.concat(xs, xs))), p.sum(p.filter(big, xs)),
        p.sum(p.update(xs, num(0), num(100))), p.foldr1(minus, xs), p.length(p.zip(xs, p.tl(xs))),
    ]  # fmt: skip
    want = [3, 36, -13, 8 - 5 + 0 + 3, 2, 9, 9, 12, 111, 10, 2]
    want[3] = 3 - (2 - (9 - 3))
    want[9] = 3 - (2 - 9)
    want[2] = 3 - 3 - 2 - 9
    want[1] = 2 * (3 + 2 + 9)
    assert both(main([n], relay.Tuple(results), p.mod), np.int32(3)) == want


def test_a_list_of_a_thousand_is_made_mapped_and_returned() -> None:
    p = Prelude()
    n, k, y = scalar("n"), scalar("k"), relay.Var("y")
    count = relay.GlobalVar("count")
    p.mod[count] = relay.Function(
        [k], relay.If(relay.equal(k, num(0)), p.nil(), p.cons(k, count(relay.subtract(k, num(1)))))
    )
    square = relay.Function([y], relay.multiply(y, y))
    main([n], p.map(square, count(n)), p.mod)
    assert both(p.mod, np.int32(1000), show=items) == [k * k for k in range(1000, 0, -1)]


def test_lists_and_options_go_in_and_out() -> None:
    p = Prelude()
    element = relay.TensorType((2,), "float32")
    xs, h, t = relay.var("xs", p.List(element)), relay.Var("h"), relay.Var("t")
    clauses = [
        relay.Clause(relay.PatternConstructor(p.nil), p.none()),
        relay.Clause(
            relay.PatternConstructor(p.cons, [relay.PatternVar(h), relay.PatternVar(t)]),
            p.some(relay.add(h, h)),
        ),
    ]
    mod = main([xs], relay.Match(xs, clauses), p.mod)
    from_list = listed(p, relay.var("a", element), relay.var("b", element))
    give = IRModule(mod.functions, mod.attrs)
    give["main"] = relay.Function([*from_list.args[:1], *from_list.args[1].args[:1]], from_list)
    value = relay.create_executor("vm", give).evaluate()(f32([1, 2]), f32([3, 4]))
    assert [v.tolist() for v in items(value)] == [[1, 2], [3, 4]]
    name, field = both(mod, value)
    assert (name, field.tolist()) == ("some", [2, 4])
    assert both(mod, value[1][1]) == ["none"]


def test_trees() -> None:
    p = Prelude()
    n, y = scalar("n"), relay.Var("y")
    leaf = p.rose(n, p.nil())
    tree = p.rose(num(1), listed(p, leaf, p.rose(num(2), listed(p, leaf, leaf))))
    grown = p.tmap(relay.Function([y], relay.add(y, n)), tree)
    v, children, rest = relay.Var("v"), relay.Var("children"), relay.Var("rest")
    second = relay.PatternConstructor(
        p.rose,
        [relay.PatternVar(v), relay.PatternConstructor(
            p.cons, [relay.PatternWildcard(), relay.PatternVar(rest)])],
    )  # fmt: skip
    clauses = [
        relay.Clause(second, relay.Tuple([v, p.length(rest)])),
        relay.Clause(relay.PatternVar(children), relay.Tuple([n, n])),
    ]
    size = relay.Match(grown, clauses)
    assert both(main([n], relay.Tuple([p.size(grown), size]), p.mod), np.int32(5)) == [5, [6, 1]]


def test_folds_that_carry_a_state_and_unfolds() -> None:
    p = Prelude()
    n, s, x, k = scalar("n"), scalar("s"), scalar("x"), scalar("k")
    step = relay.Function([s, x], relay.Tuple([relay.add(s, x), relay.multiply(s, x)]))
    xs = listed(p, n, num(2), num(3))
    left, right = p.map_accuml(step, n, xs), p.map_accumr(step, n, xs)
    down = relay.Function(
        [k],
        relay.If(relay.equal(k, num(0)), p.none(),
                 p.some(relay.Tuple([relay.subtract(k, num(1)), k]))),
    )  # fmt: skip
    results = [relay.TupleGetItem(left, 0), p.sum(relay.TupleGetItem(left, 1)),
               relay.TupleGetItem(right, 0), p.hd(relay.TupleGetItem(right, 1)),
               p.hd(p.unfoldr(down, n)), p.hd(p.unfoldl(down, n))]  # fmt: skip
    want = [10, 25 + 20 + 36 - 6, 10, 50, 5, 1]
    s0, made = 5, []
    for v in (5, 2, 3):
        made.append(s0 * v)
        s0 += v
    want[:2] = [s0, sum(made)]
    want[2:4] = [15, (5 + 3 + 2) * 5]
    assert both(main([n], relay.Tuple(results), p.mod), np.int32(5)) == want


def test_composed_and_repeated_functions() -> None:
    p = Prelude()
    n, a, b = scalar("n"), scalar("a"), scalar("b")
    up, double = relay.Function([a], relay.add(a, num(1))), relay.Function([b], b + b)
    results = [p.compose(up, double)(n), p.iterate(double, num(5))(n), p.id(n)]
    assert both(main([n], relay.Tuple(results), p.mod), np.int32(3)) == [7, 96, 3]


def test_an_lstm_over_a_list() -> None:
    p = Prelude()
    width = 4
    one = relay.TensorType((1, width), "float32")
    w = relay.var("w", shape=(4 * width, 2 * width))
    xs, h0 = relay.var("xs", p.List(one)), relay.var("h", one)
    state, x = relay.var("state", relay.TupleType([one, one])), relay.var("x", one)
    h, c = relay.TupleGetItem(state, 0), relay.TupleGetItem(state, 1)
    gates = relay.split(relay.nn.dense(relay.concatenate([x, h], 1), w), 4, axis=1)
    kept = relay.add(relay.multiply(relay.sigmoid(gates[1]), c),
                     relay.multiply(relay.sigmoid(gates[0]), relay.tanh(gates[2])))  # fmt: skip
    shown = relay.multiply(relay.sigmoid(gates[3]), relay.tanh(kept))
    cell = relay.Function([state, x], relay.Tuple([shown, kept]))
    mod = main([w, xs, h0], relay.TupleGetItem(
        p.foldl(cell, relay.Tuple([h0, h0]), xs), 0), p.mod)  # fmt: skip
    rng = np.random.default_rng(0)
    w0 = rng.standard_normal((4 * width, 2 * width)).astype("float32")
    steps = [rng.standard_normal((1, width)).astype("float32") for _ in range(5)]
    names = [relay.var(f"x{n}", one) for n in range(5)]
    make = IRModule(mod.functions, mod.attrs)
    make["main"] = relay.Function(names, listed(p, *names))
    given = relay.create_executor("vm", make).evaluate()(*steps)
    ours = relay.create_executor("vm", mod).evaluate()(w0, given, np.zeros((1, width), "float32"))

    def sigmoid(v: Any) -> Any:
        return 1 / (1 + np.exp(-v))

    ht = ct = np.zeros((1, width))
    for step in steps:
        i, f, g, o = np.split(np.concatenate([step, ht], 1) @ w0.T, 4, axis=1)
        ct = sigmoid(f) * ct + sigmoid(i) * np.tanh(g)
        ht = sigmoid(o) * np.tanh(ct)
    np.testing.assert_allclose(ours.numpy(), ht, rtol=1e-4, atol=1e-5)
    cells = [f for f in relay.vm.compile(mod).program.functions if "closure" in f.name]
    assert [i[0] for i in cells[0].code].count("InvokeSegment") == 1


def test_constructors_and_functions_of_the_module_are_values() -> None:
    p = Prelude()
    n = scalar("n")
    xs = listed(p, n, num(2))
    mod = main([n], relay.Tuple([
        p.foldr(p.cons, listed(p, n), xs), p.map(p.some, xs),
        p.foldl(relay.GlobalVar("plus"), n, xs),
    ]), p.mod)  # fmt: skip
    a, b = scalar("a"), scalar("b")
    mod["plus"] = relay.Function([a, b], relay.add(a, b))
    assert both(mod, np.int32(1), show=lambda r: (items(r[0]), items(r[1]), int(r[2]))) == (
        [1, 2, 1],
        [["some", 1], ["some", 2]],
        4,
    )


def test_types_are_found() -> None:
    p = Prelude()
    n, f, x = scalar("n"), relay.Var("f"), relay.Var("x")
    p.mod["pairs"] = relay.Function([f, n], p.map(relay.Function([x], relay.Tuple([x, f(x)])),
                                                  listed(p, n)))  # fmt: skip
    mod = infer_types(p.mod)
    assert show(mod["pairs"].type) == "fn (fn (int32[]) -> (), int32[]) -> List[(int32[], ())]"
    assert show(mod["foldr"].type) == "fn (fn (a, b) -> b, b, List[a]) -> b"
    assert show(mod["zip"].type) == "fn (List[a], List[b]) -> List[(a, b)]"
    assert show(mod["tmap"].type) == "fn (fn (a) -> b, Tree[a]) -> Tree[b]"


def test_what_no_clause_is_for() -> None:
    p = Prelude()
    xs, wild = relay.var("xs", p.List(relay.scalar_type("int32"))), relay.PatternWildcard()
    nil, one = relay.PatternConstructor(p.nil), relay.PatternConstructor(
        p.cons, [wild, relay.PatternConstructor(p.nil)])  # fmt: skip
    pair = relay.Tuple([xs, xs])
    match = relay.Match(pair, [relay.Clause(relay.PatternTuple([nil, wild]), num(0)),
                               relay.Clause(relay.PatternTuple([wild, one]), num(1))])  # fmt: skip
    missing = [p.patterns for p in unmatched_cases(match, p.mod)]  # type: ignore[attr-defined]
    assert [[c.constructor.name for c in row] for row in missing] == [
        ["cons", "cons"],
        ["cons", "nil"],
    ]
    assert not unmatched_cases(relay.Match(xs, [relay.Clause(wild, num(0))]), p.mod)
