"""What values are made of, where they stand, how graphs are made anew."""

from __future__ import annotations

from typing import Any

import pytest

from smelt.ir.module import IRModule
from smelt.ir.types import GlobalTypeVar, tensor_type
from smelt.relax import op
from smelt.relax.adt import Clause, Constructor, Match, PatternConstructor, PatternVar
from smelt.relax.analysis import remove_all_unused
from smelt.relax.dpl import is_op, wildcard
from smelt.relax.dpl.partition import partition
from smelt.relax.graph import (
    Scope,
    bind,
    binders,
    free_vars,
    is_closed,
    is_foreign,
    is_unit,
    needed_vars,
    operands,
    parts_of,
    placed,
    regions,
    transform,
    users_of,
    uses_of,
)
from smelt.relax.match_cast import resolve_match_cast
from smelt.relax.nodes import (
    Call,
    Function,
    GlobalVar,
    If,
    Let,
    MatchCast,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
    call,
    call_function,
    constant,
)
from smelt.relax.transform.eliminate_dead_code import eliminate_dead_code
from smelt.relax.transform.fold_constants import fold_constants
from smelt.relax.transform.fuse_ops import Groups
from smelt.relax.transform.inline import inline_called
from smelt.relax.transform.normal_form import inline_functions

from .support import array, module, same, var

X, Y = var("x", 2, 3), var("y", 2, 3)
BOX = Constructor("box", (tensor_type((2, 3)),), GlobalTypeVar("Box"))


def branch(condition: RelaxExpr, yes: RelaxExpr, no: RelaxExpr) -> If:
    return If(condition, Function((), yes), Function((), no), yes.type)


def match(data: RelaxExpr, inner: Var, value: RelaxExpr) -> Match:
    pattern = PatternConstructor(BOX, (PatternVar(inner),))
    return Match(data, (Clause(pattern, value),), True, value.type)


def chain(count: int) -> RelaxExpr:
    y: RelaxExpr = X
    for _ in range(count):
        y = op.tanh(y)
    return y


def test_what_values_are_made_of() -> None:
    f = Function((X,), op.exp(X))
    c = var("c", dtype="bool")
    named, closed, boxed = [call_function(g, [Y]) for g in (GlobalVar("g"), f, BOX)]
    t = Tuple((X, Y))
    two = branch(c, X, Y)
    let = Let(X, Y, op.exp(X))
    m = match(boxed, X, op.exp(X))
    for node, own, inside, bound in (
        (X, [], [], []),
        (constant(array(2)), [], [], []),
        (GlobalVar("g"), [], [], []),
        (BOX, [], [], []),
        (named, [Y], [], []),
        (boxed, [Y], [], []),
        (closed, [f, Y], [], []),
        (call("clip", X, min=None, max=1.0), [X], [], []),
        (t, [X, Y], [], []),
        (TupleGetItem(t, 1), [t], [], []),
        (MatchCast(X, Y.type), [X], [], []),
        (f, [], [f.body], [X]),
        (two, [c], [X, Y], []),
        (let, [Y, let.body], [], [X]),
        (m, [boxed], [m.clauses[0].rhs], [X]),
        (m.clauses[0], [], [], [X]),
    ):
        if isinstance(node, RelaxExpr):
            assert (operands(node), regions(node)) == (own, inside)
            assert parts_of(node) == own + inside
        assert binders(node) == bound


def test_variables_that_nothing_binds() -> None:
    w, z = var("w", 2, 3), var("z", 2, 3)
    body = op.add(match(Y, w, op.exp(w)), Let(z, op.exp(Y), op.add(z, X)))
    assert free_vars(body) == [Y, X]
    needed = needed_vars(Function((Y,), body))
    assert needed[body] == {X, Y}
    assert [v for n, v in needed.items() if isinstance(n, Function)] == [{X}]
    # only a function may use its own name
    assert needed_vars(Let(X, op.exp(X), X)).popitem()[1] == {X}
    f = Function((), call_function(X, []))
    assert needed_vars(Let(X, f, X)).popitem()[1] == frozenset()


def test_uses_and_users() -> None:
    a = op.exp(X)
    b = op.multiply(a, a)
    uses = uses_of(b, parts_of)
    assert (uses[X], uses[a], uses[b]) == (1, 2, 1)
    assert users_of([X, a, b], parts_of) == {X: [a], a: [b, b], b: []}
    assert uses_of(Function((X,), a))[X] == 2


def test_a_value_stands_around_all_its_uses() -> None:
    shared, inner = op.exp(X), op.tanh(X)
    two = branch(var("c", dtype="bool"), op.add(shared, inner), op.negative(shared))
    root = Scope(None)
    scopes: dict[Any, list[Scope]] = {}

    def uses(node: RelaxExpr, own: Scope) -> list[tuple[RelaxExpr, Scope]]:
        inside = scopes[node] = [Scope(own) for _ in regions(node)]
        return [*[(o, own) for o in operands(node)], *zip(regions(node), inside, strict=True)]

    order = [X, two.condition, shared, inner, two.then_branch.body, two.else_branch.body, two]
    home = placed(order, root, uses)
    assert home[shared] is home[two] is home[X] is root
    assert home[inner] is home[two.then_branch.body] is scopes[two][0]
    assert home[two.else_branch.body] is scopes[two][1]
    assert placed([], root, uses) == {}
    deep = Scope(scopes[two][0])
    assert deep.common(scopes[two][1]) is root
    assert scopes[two][0].common(deep) is scopes[two][0]


def test_graphs_made_anew() -> None:
    f = Function((X, Y), TupleGetItem(Tuple((op.exp(X), Y)), 0))
    pair = Function((X, Y), Tuple((op.exp(X), Y)))
    assert transform(pair, lambda old, new: None) is pair
    assert bind(f, {}) is f
    once = bind(f, {Y: X})
    assert once.params == (X,)
    assert once.body.value.items[1] is X
    seen: list[Any] = []
    transform(f.body, lambda old, new: seen.append(old))
    assert [type(n) for n in seen] == [Var, Call, Var, Tuple, TupleGetItem]
    assert transform(f, lambda old, new: None).body is f.body.value.items[0]


def test_depth_is_none() -> None:
    count = 10_000
    y = chain(count)
    assert free_vars(y) == [X]
    assert needed_vars(y)[y] == {X}
    assert len(uses_of(y, parts_of)) == count + 1
    order = [n for n in needed_vars(y) if isinstance(n, RelaxExpr)]
    scope = Scope(None)
    assert set(placed(order, scope, lambda n, s: [(o, s) for o in operands(n)]).values()) == {scope}
    assert bind(Function((X,), y), {X: Y}).body is not y


@pytest.mark.parametrize(
    ("attrs", "foreign", "unit", "closed"),
    [
        ({}, False, False, False),
        ({"private": True, "Inline": 1}, False, False, False),
        ({"Compiler": "mine"}, True, True, True),
        ({"Composite": "mine.pair"}, False, True, True),
        ({"Primitive": 1}, False, True, True),
        ({"Primitive": 0}, False, False, False),
        ({"primitive": True}, False, True, True),
        ({"Codegen": "mine"}, False, False, True),
        ({"PartitionedFromPattern": "exp_"}, False, False, True),
    ],
)
def test_whose_functions_are(
    attrs: dict[str, Any], foreign: bool, unit: bool, closed: bool
) -> None:
    f = Function((X,), op.exp(X), attrs)
    assert (is_foreign(f), is_unit(f), is_closed(f)) == (foreign, unit, closed)
    mod = module([Y], call_function(f, [Y]))
    assert bool(Groups(mod["main"], join=True).held) is unit
    assert isinstance(inline_functions(mod)["main"].body.op, Function) is unit
    found = partition(is_op("exp")(wildcard()), mod["main"])
    assert (found is mod["main"]) is closed


def test_functions_that_are_values_are_not_dead() -> None:
    f = Function((X,), op.exp(X))
    pick = Function((X,), op.tanh(X))
    main = Function((Y,), Tuple((GlobalVar("f"), call_function(GlobalVar("pick"), [Y], Y.type))))
    mod = IRModule({"main": main, "f": f, "pick": pick, "dead": f})
    assert set(eliminate_dead_code(mod)) == {"main", "f", "pick"}
    assert set(inline_called(mod, ["f", "pick"])) == {"main", "f", "dead"}


def test_names_that_nothing_else_uses() -> None:
    f = Var("f", Function((X,), X).type)
    own = Function((X,), call_function(f, [X], X.type))
    kept = Function((X,), Let(f, own, X))
    assert remove_all_unused(kept).body is X


def test_casts_in_clauses_are_resolved() -> None:
    inner = var("inner", 2, 3)
    body = match(call_function(BOX, [X]), inner, op.exp(MatchCast(inner, inner.type)))
    mod = resolve_match_cast(IRModule({"main": Function((X,), body)}))
    assert mod["main"].body.clauses[0].rhs.args[0] is inner


def test_rules_look_below_casts() -> None:
    body = MatchCast(op.add(X, op.exp(constant(array(2, 3)))), X.type)
    mod = module([X], body)
    folded = fold_constants(mod)
    assert type(folded["main"].body.value.args[1]).__name__ == "Constant"
    same(mod, folded)
