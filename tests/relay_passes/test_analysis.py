"""relay.analysis, visitors and mutators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir.errors import SmeltError
from smelt.ir.types import TensorType, TupleType, tensor_type
from smelt.relax.nodes import Call, Let, TupleGetItem
from smelt.relay.expr_functor import (
    ExprFunctor,
    ExprMutator,
    ExprVisitor,
    MixedModeMutator,
    TypeMutator,
    TypeVisitor,
)

from .programs import op_names, relay
from .test_arithmetic import const, conv, image
from .test_structure import small

A = relay.analysis


def test_variables() -> None:
    x, y, v, p = (relay.var(n, shape=(2,)) for n in "xyvp")
    inner = relay.Function([p], p + y)
    f = relay.Function([x], relay.Let(v, relay.Call(inner, [x]), v * x))
    assert A.free_vars(f) == [y]
    assert set(A.bound_vars(f)) == {x, v, p}
    assert set(A.all_vars(f)) == {x, y, v, p}
    n = relay.Any()
    z = relay.var("z", shape=(n, 2))
    g = relay.Function([z], z + z)
    assert A.all_type_vars(g) == A.bound_type_vars(g) == [n]
    assert A.free_type_vars(z + z) == [n]
    assert A.free_type_vars(g) == []
    assert A.all_dtypes(g) == {"float32"}


def test_well_formed() -> None:
    x, v = relay.var("x", shape=(2,)), relay.var("v", shape=(2,))
    good = relay.Function([x], relay.Let(v, x + x, v * v))
    assert A.well_formed(good)
    assert A.well_formed(smelt.IRModule.from_expr(good))
    assert not A.well_formed(relay.Function([x], v))
    twice = relay.Let(v, x, relay.Let(v, x, v))
    assert not A.well_formed(relay.Function([x], twice))
    out_of_scope = relay.Tuple([relay.Let(v, x + x, v), v])
    assert not A.well_formed(relay.Function([x], out_of_scope))


def test_constants_and_forms() -> None:
    c = relay.const(np.ones(3, "float32"))
    assert A.check_constant(c)
    assert A.check_constant(relay.Tuple([c, c]))
    assert not A.check_constant(c + c)
    x = relay.var("x", shape=(2,))
    assert A.check_basic_block_normal_form(relay.nn.relu(x))


def test_numbers_of_operators() -> None:
    f = small()
    assert A.list_op_freqs(f) == A.count_ops(f)
    assert A.list_op_freqs(smelt.IRModule.from_expr(f)) == {
        "nn.conv2d": 1, "nn.bias_add": 1, "nn.relu": 1, "nn.batch_flatten": 1, "nn.softmax": 1,
    }  # fmt: skip
    x = image()
    two = relay.Function([x], conv(conv(x)) + conv(x))
    assert A.count_layers(two, ["nn.conv2d"]) == 2
    assert A.count_layers(smelt.IRModule.from_expr(two), valid_ops=["nn.dense"]) == 0


def test_multiply_adds() -> None:
    x = image()
    assert A.get_total_mac_number(relay.Function([x], conv(x))) == 4 * 36 * 4 * 9
    deep = relay.nn.conv2d(x, const(4, 1, 3, 3), groups=4, padding=(1, 1))
    assert A.get_total_mac_number(deep) == 4 * 36 * 9
    r = relay.var("r", shape=(3, 8))
    assert A.get_total_mac_number(relay.nn.dense(r, const(5, 8))) == 3 * 5 * 8
    b = relay.var("b", shape=(2, 3, 8))
    assert A.get_total_mac_number(relay.nn.batch_matmul(b, const(2, 5, 8))) == 2 * 3 * 5 * 8
    s = relay.var("s", shape=(relay.Any(), 8))
    with pytest.raises(SmeltError, match=r"the shapes of nn\.dense are not all known"):
        A.get_total_mac_number(relay.nn.dense(s, const(5, 8)))


def test_fused_functions_and_parts() -> None:
    mod = smelt.IRModule.from_expr(small())
    found = A.extract_fused_functions(mod)
    assert set(found) == {
        "fused_nn_conv2d_nn_bias_add_nn_relu", "fused_nn_batch_flatten", "fused_nn_softmax",
    }  # fmt: skip
    part = A.extract_intermdeiate_expr(mod, 1)
    assert op_names(part) == ["nn.conv2d", "nn.bias_add"]
    with pytest.raises(SmeltError, match="expr_id=5; legal: 0 to 4"):
        A.extract_intermediate_expr(mod, 5)


def test_features_of_programs() -> None:
    x, c = relay.var("x", shape=(2,)), relay.var("c", shape=(), dtype="bool")
    y = relay.nn.relu(x)
    found = A.detect_feature(relay.Function([x, c], relay.If(c, y + y, x)))
    assert found == {"fVar", "fOp", "fCall", "fIf", "fFunction", "fGraph"}


def test_what_is_absent_says_why() -> None:
    with pytest.raises(AttributeError, match="one device"):
        _ = A.context_analysis
    with pytest.raises(AttributeError, match="'free_var'; nearest: free_vars"):
        _ = A.free_var


# --------------------------------------------------------------------------------- visitors


def chain(count: int) -> Any:
    x = relay.var("x", shape=(4,))
    y: Any = x
    for _ in range(count):
        y = relay.tanh(y)
    return relay.Function([x], y)


def test_a_visitor_of_a_deep_chain() -> None:
    class Count(ExprVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.vars = 0, 0

        def visit_call(self, call: Any) -> None:
            self.calls += 1
            super().visit_call(call)

        def visit_var(self, var: Any) -> None:
            self.vars += 1

    count = Count()
    count.visit(chain(10_000))
    assert (count.calls, count.vars) == (10_000, 1)


def test_a_mutator_of_a_deep_chain() -> None:
    class Exp(ExprMutator):
        def visit_call(self, call: Any) -> Any:
            new = super().visit_call(call)
            return relay.exp(new.args[0]) if new.op.name == "tanh" else new

    f = chain(10_000)
    assert set(op_names(Exp().visit(f))) == {"exp"}
    assert ExprMutator().visit(f) is f


def test_a_mutator_finds_types_anew() -> None:
    x = relay.var("x", shape=(2, 3))
    wide = relay.var("x", shape=(2, 3, 4))

    class Widen(ExprMutator):
        def visit_var(self, var: Any) -> Any:
            return wide if var is x else var

    a, _ = relay.split(relay.nn.relu(x), 2, axis=0)
    made = Widen().visit(relay.Function([x], a + 1.0))
    assert made.params == (wide,)
    assert made.body.type is tensor_type((1, 3, 4))


def test_scopes_are_visited() -> None:
    x, c = relay.var("x", shape=(2,)), relay.var("c", shape=(), dtype="bool")
    v, p = relay.var("v", shape=(2,)), relay.var("p", shape=(2,))
    f = relay.Function([p], relay.tanh(p))
    body = relay.Let(v, relay.Call(f, [x]), relay.If(c, relay.exp(v), relay.GlobalVar("g")(v)))
    seen: list[str] = []

    class See(ExprVisitor):
        def visit(self, expr: Any) -> Any:
            return super().visit(expr)

        def visit_op(self, op: Any) -> None:
            seen.append(op.name)

        def visit_global_var(self, gv: Any) -> None:
            seen.append(f"@{gv.name}")

        def visit_let(self, let: Any) -> None:
            super().visit_let(let)
            seen.append("let")

    See().visit(relay.Function([x, c], body))
    assert seen == ["tanh", "exp", "@g", "let"]
    whole = relay.Function([x, c], body)
    assert ExprMutator().visit(whole) is whole

    class Relu(MixedModeMutator):
        def rewrite_call(self, pre: Any, post: Any) -> Any:
            return relay.nn.relu(post.args[0]) if getattr(pre.op, "name", "") == "exp" else post

    made = Relu().visit(whole)
    assert isinstance(made.body, Let)
    assert op_names(made.body) == ["tanh", "nn.relu"]
    assert made.body.value is body.value


def test_kinds_without_a_method() -> None:
    class Only(ExprFunctor):
        def visit_var(self, var: Any) -> str:
            return str(var.name)

    x = relay.var("x", shape=(2,))
    assert Only().visit(x) == "x"
    with pytest.raises(NotImplementedError, match="Only has no visit_op"):
        Only().visit(relay.tanh(x))
    with pytest.raises(SmeltError, match="IRModule is no expression"):
        ExprVisitor().visit(smelt.IRModule.from_expr(x))


def test_items_of_tuples_are_rewritten() -> None:
    x = relay.var("x", shape=(4,))
    a, b = relay.split(x, 2)

    class Swap(MixedModeMutator):
        def rewrite_tuple_getitem(self, pre: Any, post: Any) -> Any:
            return TupleGetItem(post.value, 1 - post.index)

    made = Swap().visit(relay.Tuple([a, b]))
    assert [i.index for i in made.items] == [1, 0]


def test_types_are_walked() -> None:
    t = TupleType((tensor_type((2,)), TupleType((tensor_type((3,), "int32"),))))
    seen: list[str] = []

    class See(TypeVisitor):
        def visit_tensor_type(self, t: TensorType) -> None:
            seen.append(t.dtype)

    class Narrow(TypeMutator):
        def visit_tensor_type(self, t: TensorType) -> TensorType:
            return TensorType(t.shape, "float16")

    See().visit(t)
    assert seen == ["float32", "int32"]
    half = tensor_type((2,), "float16")
    assert Narrow().visit(t) is TupleType((half, TupleType((tensor_type((3,), "float16"),))))
    assert TypeMutator().visit(t) is t


def test_calls_are_visited_in_order() -> None:
    found: list[Any] = []
    A.post_order_visit(small(), lambda n: found.append(n) if isinstance(n, Call) else None)
    assert [c.op.name for c in found] == op_names(small())
