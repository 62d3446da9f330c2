"""Passes on the form of programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir.errors import SmeltError, TypeMismatch, Unsupported
from smelt.ir.types import FuncType, IncompleteType, tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, Constant, Function, GlobalVar, Let
from smelt.relay.expr_functor import ExprMutator, ExprVisitor
from smelt.relay.prelude import Prelude

from .programs import functions_in, op_names, relay

T = relay.transform
F8 = tensor_type((2, 8))


def mod_of(main: Any, **more: Any) -> Any:
    return smelt.IRModule.from_expr(main, functions=more)


def one(mod: Any, *given: Any) -> Any:
    (result,) = interpret(mod["main"], *given, module=mod)
    return result


def lets(e: Any) -> list[Any]:
    found: list[Any] = []
    relay.analysis.post_order_visit(e, lambda n: found.append(n) if isinstance(n, Let) else None)
    return found


# ----------------------------------------------------------------------------------- InferType


def test_types_are_filled_in_from_the_operands() -> None:
    x, w = relay.var("x", shape=(2, 8)), relay.var("w", shape=(3, 8))
    p = relay.var("p")
    f = relay.Function([p], relay.nn.dense(p, w))
    v = relay.var("v")
    body = relay.Let(v, f, relay.Call(v, [relay.nn.relu(x)]))
    made = T.InferType()(mod_of(relay.Function([x, w], body)))["main"]
    assert made.body.type is tensor_type((2, 3))
    assert made.type is FuncType((F8, tensor_type((3, 8))), tensor_type((2, 3)))
    assert made.body.var.type is FuncType((F8,), tensor_type((2, 3)))


def test_functions_of_the_module_have_types() -> None:
    x, y = relay.var("x", shape=(2, 8)), relay.var("y")
    g = relay.Function([y], relay.nn.softmax(y))
    main = relay.Function([x], relay.GlobalVar("g")(x))
    assert isinstance(main.body.type, IncompleteType)
    made = T.InferType()(mod_of(main, g=g))
    assert made["main"].body.type is F8
    assert made["g"].type is FuncType((F8,), F8)


def test_a_function_that_calls_itself_has_a_type() -> None:
    n, x = relay.var("n", shape=(), dtype="int32"), relay.var("x", shape=(2, 8))
    loop = relay.GlobalVar("loop")
    again = loop(relay.subtract(n, relay.const(1)), relay.nn.relu(x))
    f = relay.Function([n, x], relay.If(relay.less(n, relay.const(1)), x, again))
    k, z = relay.var("k", shape=(), dtype="int32"), relay.var("z", shape=(2, 8))
    made = T.InferType()(mod_of(relay.Function([k, z], loop(k, z)), loop=f))
    assert made["main"].body.type is F8
    out = one(made, np.int32(3), -np.ones((2, 8), "float32"))
    np.testing.assert_array_equal(out, np.zeros((2, 8), "float32"))


def test_sizes_of_a_function_are_those_of_the_call() -> None:
    n = relay.Any()
    p = relay.var("p", shape=(n, 8))
    f = relay.Function([p], relay.concatenate([p, p], axis=0))
    x = relay.var("x", shape=(5, 8))
    made = T.InferType()(mod_of(relay.Function([x], relay.GlobalVar("f")(x)), f=f))
    assert made["main"].body.type is tensor_type((10, 8))


def test_what_is_known_stays_the_same_object() -> None:
    x = relay.var("x", shape=(2, 8))
    mod = mod_of(relay.Function([x], relay.nn.relu(x) + 1.0))
    assert T.InferType()(mod) is mod
    assert T.InferTypeLocal(relay.nn.relu(x)) is F8


def test_an_error_shows_the_call() -> None:
    p, w = relay.var("p"), relay.var("w", shape=(3, 7))
    x = relay.var("x", shape=(2, 8))
    f = relay.Function([p], relay.nn.dense(relay.nn.relu(p), w))
    with pytest.raises(TypeMismatch) as caught:
        T.InferType()(mod_of(relay.Function([x, w], relay.Call(f, [x]))))
    text = str(caught.value)
    assert text == (
        "@main: nn.dense(nn.relu(p), w): nn.dense: axis -1 of the data has 8 elements, "
        "the weight has 7 columns; they have to be equal\n"
        "    nn.dense(nn.relu(p), w)\n"
        "    ^^^^^^^^\n"
        "    data: float32[2, 8]\n"
        "    weight: float32[3, 7]"
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: relay.GlobalVar("g")(x), "the module has no function 'g'"),
        (lambda x: relay.GlobalVar("main")(x, x), "2 operands for 1 parameters"),
        (
            lambda x: relay.Call(relay.Function([(p := relay.var("p", shape=(3,)))], p), [x]),
            "operand 0: float32[3] and float32[2, 8] differ",
        ),
        (lambda x: relay.Call(x, [x]), "what is called is no function, but float32[2, 8]"),
    ],
)
def test_calls_that_do_not_fit(build: Any, message: str) -> None:
    x = relay.var("x", shape=(2, 8))
    with pytest.raises(TypeMismatch) as caught:
        T.InferType()(mod_of(relay.Function([x], build(x))))
    assert message in str(caught.value)


# --------------------------------------------------------------------------------- constants


def test_constants_are_computed() -> None:
    x = relay.var("x", shape=(2,))
    c = relay.const(np.array([1.0, 2.0], "float32"))
    a, b = relay.split(relay.concatenate([c, c], axis=0), 2)
    made = T.FoldConstant()(mod_of(relay.Function([x], x + a * b)))["main"]
    assert op_names(made) == ["add"]
    np.testing.assert_array_equal(made.body.args[1].data, [1.0, 4.0])


def test_names_of_constants_are_resolved() -> None:
    x, v, w = relay.var("x", shape=(2,)), relay.var("v"), relay.var("w")
    c = relay.const(np.array([1.0, 2.0], "float32"))
    body = relay.Let(v, c + c, relay.Let(w, v * v, relay.If(relay.const(True), x + w, x)))
    mod = T.InferType()(mod_of(relay.Function([x], body)))
    made = T.FoldConstant()(mod)["main"]
    assert op_names(made) == ["add"]
    np.testing.assert_array_equal(made.body.args[1].data, [4.0, 16.0])
    expr = T.FoldConstantExpr(c * c, mod)
    assert isinstance(expr, Constant)


def test_large_results_stay_calls() -> None:
    c = relay.const(np.ones((1, 8), "float32"))
    made = T.FoldConstant()(mod_of(relay.Function([], relay.broadcast_to(c, shape=(4096, 8)))))
    assert op_names(made) == ["broadcast_to"]


# ------------------------------------------------------------------------------------- fusion


def small() -> Any:
    x = relay.var("x", shape=(1, 3, 8, 8))
    w = relay.const(np.ones((4, 3, 3, 3), "float32"))
    y = relay.nn.conv2d(x, w, padding=1, channels=4, kernel_size=3)
    y = relay.nn.relu(relay.nn.bias_add(y, relay.const(np.ones(4, "float32"))))
    return relay.Function([x], relay.nn.softmax(relay.nn.batch_flatten(y)))


def test_groups_are_functions_called_in_place() -> None:
    f = small()
    made = T.FuseOps(2)(mod_of(f))["main"]
    groups = functions_in(made)
    assert [op_names(g) for g in groups] == [
        ["nn.softmax"], ["nn.batch_flatten"], ["nn.conv2d", "nn.bias_add", "nn.relu"],
    ]  # fmt: skip
    assert all(g.attrs["Primitive"] == 1 for g in groups)
    assert all(isinstance(c.op, Function) for c in [made.body, made.body.args[0]])
    assert functions_in(T.DefuseOps()(mod_of(made))["main"]) == []
    assert op_names(T.DefuseOps()(mod_of(made))["main"]) == op_names(f)
    alone = functions_in(T.FuseOps(0)(mod_of(f))["main"])
    assert [len(op_names(g)) for g in alone] == [1] * 5


def test_fused_programs_are_built() -> None:
    data = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype("float32")
    mod = mod_of(small())
    want = relay.build(mod).lib(data).numpy()
    for level in (0, 2):
        got = relay.build(T.FuseOps(level)(mod)).lib(data).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_the_level_of_fusion_is_checked() -> None:
    with pytest.raises(SmeltError, match="opt_level is -2"):
        T.FuseOps(-2)


# --------------------------------------------------------------------------------- normal forms


def test_every_value_gets_a_name() -> None:
    x = relay.var("x", shape=(2, 8))
    y = relay.nn.relu(x)
    mod = mod_of(relay.Function([x], relay.tanh(y) + y))
    made = T.ToANormalForm()(mod)["main"]
    assert [n.value.op.name for n in lets(made)][::-1] == ["nn.relu", "tanh", "add"]
    assert all(not isinstance(a, Call) for n in lets(made) for a in n.value.args)
    back = T.ToGraphNormalForm()(mod_of(made))["main"]
    assert lets(back) == []
    assert back.body.args[0].args[0] is back.body.args[1]
    assert len(lets(T.ToANormalFormExpr(relay.tanh(y)))) == 2


def test_what_two_scopes_use_gets_a_name() -> None:
    x, c = relay.var("x", shape=(2, 8)), relay.var("c", shape=(), dtype="bool")
    y = relay.nn.relu(x)
    mod = mod_of(relay.Function([x, c], relay.If(c, relay.tanh(y), relay.exp(y))))
    assert not relay.analysis.check_basic_block_normal_form(mod["main"])
    made = T.ToBasicBlockNormalForm()(mod)["main"]
    (let,) = lets(made)
    assert let.value.op.name == "nn.relu"
    assert let.body.true_branch.args[0] is let.body.false_branch.args[0] is let.var
    assert relay.analysis.check_basic_block_normal_form(made)


def test_a_value_of_one_branch_stays_there() -> None:
    x, c = relay.var("x", shape=(2, 8)), relay.var("c", shape=(), dtype="bool")
    mod = mod_of(relay.Function([x, c], relay.If(c, relay.tanh(relay.exp(x)), x)))
    assert T.ToBasicBlockNormalForm()(mod) is mod
    made: Any = T.ToANormalForm()(mod)["main"]
    assert [len(lets(made)), len(lets(made.body.value.then_branch))] == [3, 2]


# ------------------------------------------------------------------------- functions, closures


def test_marked_functions_are_inlined() -> None:
    x, y, z = (relay.var(n, shape=(2, 8)) for n in "xyz")
    v = relay.var("v", F8)
    g = relay.Function([y], relay.Let(v, relay.tanh(y), v + v), attrs={"Inline": 1})
    h = relay.Function([z], relay.exp(z))
    gv, hv = relay.GlobalVar("g"), relay.GlobalVar("h")
    main = relay.Function([x], gv(gv(hv(x))))
    mod = T.InferType()(mod_of(main, g=g, h=h))
    made = T.Inline()(mod)
    assert sorted(made) == ["h", "main"]
    assert op_names(made["main"]).count("tanh") == 2
    assert relay.analysis.well_formed(made["main"])
    data = np.linspace(-1, 1, 16, dtype="float32").reshape(2, 8)
    np.testing.assert_allclose(one(made, data), one(mod, data), rtol=1e-6)


def test_closures_become_functions() -> None:
    x, p = relay.var("x", shape=(2, 8)), relay.var("p", shape=(2, 8))
    f = relay.Function([p], p * relay.tanh(x))
    v = relay.var("v", f.type)
    body = relay.Let(v, f, relay.Call(v, [x]) + relay.Call(v, [relay.exp(x)]))
    mod = T.InferType()(mod_of(relay.Function([x], body)))
    made = T.LambdaLift()(mod)
    assert sorted(made) == ["lifted_v", "main"]
    assert [p.name for p in made["lifted_v"].params] == ["x", "p"]
    calls = relay.analysis.list_op_freqs(T.DeadCodeElimination()(made))
    assert calls == {"tanh": 1, "multiply": 1, "exp": 1, "add": 1}
    data = np.linspace(-1, 1, 16, dtype="float32").reshape(2, 8)
    np.testing.assert_allclose(one(made, data), one(mod, data), rtol=1e-6)


def test_a_closure_that_calls_itself_is_lifted() -> None:
    n, x = relay.var("n", shape=(), dtype="int32"), relay.var("x", shape=(2, 8))
    k, loop = relay.var("k", shape=(), dtype="int32"), relay.var("loop")
    step = relay.Call(loop, [relay.subtract(k, relay.const(1))])
    f = relay.Function([k], relay.If(relay.less(k, relay.const(1)), x, step + x))
    main = relay.Function([n, x], relay.Let(loop, f, relay.Call(loop, [n])))
    mod = T.InferType()(mod_of(main))
    made = T.LambdaLift()(mod)
    assert isinstance(made["lifted_loop"].body.false_branch.args[0].op, GlobalVar)
    data = np.ones((2, 8), "float32")
    np.testing.assert_array_equal(one(made, np.int32(3), data), 4 * data)
    np.testing.assert_array_equal(one(mod, np.int32(3), data), 4 * data)


def test_dead_names_and_functions_go() -> None:
    x, v, w = relay.var("x", shape=(2, 8)), relay.var("v", F8), relay.var("w", F8)
    body = relay.Let(v, relay.tanh(x), relay.Let(w, relay.exp(v), relay.nn.relu(x)))
    mod = mod_of(relay.Function([x], body), unused=relay.Function([x], x))
    made = T.DeadCodeElimination()(mod)
    assert list(made) == ["main"]
    assert op_names(made) == ["nn.relu"]
    kept = relay.Function([x], relay.Let(v, relay.tanh(x), v + x))
    assert lets(T.DeadCodeElimination()(mod_of(kept))["main"])
    assert not lets(T.DeadCodeElimination(inline_once=True)(mod_of(kept))["main"])


def test_a_dead_function_that_calls_itself_goes() -> None:
    x, f, p = relay.var("x", shape=(2, 8)), relay.var("f"), relay.var("p", shape=(2, 8))
    loop = relay.Function([p], relay.Call(f, [p]))
    made = T.DeadCodeElimination()(mod_of(relay.Function([x], relay.Let(f, loop, x))))
    assert made["main"].body is made["main"].params[0]


def test_unused_functions_leave() -> None:
    x = relay.var("x", shape=(2, 8))
    f = relay.Function([x], x)
    mod = mod_of(f, a=f, b=relay.Function([x], relay.GlobalVar("a")(x)))
    assert sorted(T.RemoveUnusedFunctions()(mod)) == ["main"]
    assert sorted(T.RemoveUnusedFunctions(["b"])(mod)) == ["a", "b"]
    with pytest.raises(TypeMismatch, match="list of names"):
        T.RemoveUnusedFunctions("b")


def test_equal_calls_become_one() -> None:
    x = relay.var("x", shape=(2, 8))
    mod = mod_of(relay.Function([x], relay.tanh(x) + relay.tanh(x)))
    made = T.EliminateCommonSubexpr()(mod)["main"]
    assert made.body.args[0] is made.body.args[1]
    kept = T.EliminateCommonSubexpr(lambda c: c.op.name == "tanh")(mod)["main"]
    assert kept.body.args[0] is not kept.body.args[1]


def test_what_is_known_is_evaluated() -> None:
    x, p, v = relay.var("x", shape=(2, 8)), relay.var("p", shape=(2, 8)), relay.var("v")
    f = relay.Function([p], relay.If(relay.const(False), relay.tanh(p), relay.exp(p)))
    main = relay.Function([x], relay.Let(v, f, relay.Call(v, [relay.GlobalVar("g")(x)])))
    g = relay.Function([p], p + relay.const(1.0) * relay.const(2.0))
    made = T.PartialEvaluate()(T.InferType()(mod_of(main, g=g)))
    assert list(made) == ["main"]
    assert op_names(made) == ["add", "exp"]


def test_names_of_functions_become_closures() -> None:
    x = relay.var("x", shape=(2, 8))
    g = relay.Function([x], relay.tanh(x))
    main = Function((), GlobalVar("g"))
    made = T.EtaExpand(expand_global_var=True)(mod_of(main, g=g))["main"].body
    assert isinstance(made, Function)
    assert op_names(made) == []
    body: Any = made.body
    assert str(body.op) == "@g"
    mod = mod_of(main, g=g)
    assert T.EtaExpand()(mod) is mod


def test_functions_of_compilers_move() -> None:
    x, p = relay.var("x", shape=(2, 8)), relay.var("p", shape=(2, 8))
    attrs = {"Compiler": "mine", "global_symbol": "mine_0"}
    f = relay.Function([p], relay.tanh(p), attrs=attrs)
    mod = mod_of(relay.Function([x], relay.Call(f, [x])))
    other = T.OutlineCompilerFunctionsWithExistingGlobalSymbols("other")(mod)
    assert other is mod
    out = T.OutlineCompilerFunctionsWithExistingGlobalSymbols("mine")(mod)
    assert sorted(out) == ["main", "mine_0"]
    assert out["main"].body.op.name == "mine_0"
    marked = T.MarkCompilerFunctionsAsExtern("mine")(out)["mine_0"].attrs
    assert marked == {"global_symbol": "mine_0", "Extern": 1}
    back = T.InlineCompilerFunctionsBoundTo([relay.GlobalVar("mine_0")])(out)
    assert list(back) == ["main"]
    assert op_names(back) == ["tanh"]
    with pytest.raises(Unsupported, match="has a function 'mine_0' already"):
        T.OutlineCompilerFunctionsWithExistingGlobalSymbols()(mod.with_functions({"mine_0": f}))


def chain(count: int) -> Any:
    x = relay.var("x", shape=(4,))
    y: Any = x
    for _ in range(count):
        y = relay.tanh(y)
    return mod_of(relay.Function([x], y))


def test_ten_thousand_operators_are_no_depth() -> None:
    mod = chain(10_000)
    assert T.InferType()(mod) is mod
    named = T.ToANormalForm()(mod)
    assert T.InferType()(named) is named
    assert len(op_names(T.ToGraphNormalForm()(named))) == 10_000


@pytest.mark.parametrize("make", [
    T.SimplifyExpr, T.FoldConstant, T.LambdaLift, T.EliminateCommonSubexpr, T.AlterOpLayout,
    T.ToBasicBlockNormalForm, T.DeadCodeElimination, lambda: T.FuseOps(3), T.ToMixedPrecision,
])  # fmt: skip
def test_passes_do_not_recurse(make: Any) -> None:
    assert len(op_names(make()(chain(3_000)))) == 3_000


# ------------------------------------------------------------------------------- data types


def with_lists() -> Any:
    """The sum of x * x, y, 5 by a fold, whose function captures x * x."""
    mod = smelt.IRModule()
    p: Any = Prelude(mod)
    x, y, a, b = (relay.var(n, shape=(), dtype="int32") for n in "xyab")
    z = relay.multiply(x, x)
    numbers = p.cons(z, p.cons(y, p.cons(relay.const(5), p.nil())))
    add = relay.Function([a, b], relay.add(relay.add(a, b), z))
    mod["main"] = relay.Function([x, y], p.foldl(add, relay.const(0), numbers))
    return T.InferType()(mod)


@pytest.mark.parametrize("name", [
    "ToANormalForm", "ToBasicBlockNormalForm", "ToGraphNormalForm", "LambdaLift", "FoldConstant",
    "DeadCodeElimination", "EliminateCommonSubexpr", "SimplifyExpr", "AlterOpLayout", "FuseOps",
    "ToMixedPrecision", "PartialEvaluate", "DynamicToStatic",
])  # fmt: skip
def test_programs_with_data_types_keep_their_results(name: str) -> None:
    mod = with_lists()
    made = getattr(T, name)()(mod)
    assert T.InferType()(made) is made
    for f in made.functions.values():
        if isinstance(f, Function):
            assert relay.analysis.well_formed(f)
    assert one(made, np.int32(3), np.int32(4)) == one(mod, np.int32(3), np.int32(4)) == 45


def test_visitors_see_clauses() -> None:
    mod = with_lists()
    f = mod["foldl"]
    seen: list[str] = []

    class See(ExprVisitor):
        def visit_constructor(self, con: Any) -> None:
            seen.append(con.name)

        def visit_match(self, m: Any) -> None:
            seen.append(f"match {len(m.clauses)}")
            super().visit_match(m)

    See().visit(f)
    See().visit(mod["main"])
    assert seen == ["match 2", "cons", "nil"]
    assert ExprMutator().visit(f) is f
    assert "Match" in {type(n).__name__ for n in functions_and_values(f)}


def functions_and_values(f: Any) -> list[Any]:
    found: list[Any] = []
    relay.analysis.post_order_visit(f, found.append)
    return found


@pytest.mark.parametrize("name", ["FuseOps", "AlterOpLayout", "ToANormalForm", "CanonicalizeCast",
                                  "ToMixedPrecision", "SimplifyExpr", "PartialEvaluate",
                                  "DynamicToStatic"])  # fmt: skip
@pytest.mark.filterwarnings("ignore:ToMixedPrecision")
def test_sizes_that_only_the_data_tell(name: str) -> None:
    x, s = relay.var("x", shape=(4, 4)), relay.var("s", shape=(2,), dtype="int64")
    y = relay.tanh(relay.dyn.reshape(relay.nn.relu(x), s))
    mod = T.InferType()(mod_of(relay.Function([x, s], relay.Tuple([y, relay.argwhere(x)]))))
    made = T.InferType()(getattr(T, name)()(mod))
    assert set(op_names(made)) >= {"nn.relu", "dyn.reshape", "tanh", "argwhere"}
