"""Each kind of pattern on its own."""

from typing import Any

import numpy as np
import pytest

from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.expr import INDEX
from smelt.ir.expr import Var as SizeVar
from smelt.ir.types import tensor_type
from smelt.relax.dpl import (
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_call,
    is_call_tir,
    is_constant,
    is_function,
    is_global_var,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    make_residual_block_pattern,
    reject,
    wildcard,
)
from smelt.relax.nodes import (
    Call,
    Function,
    GlobalVar,
    Tuple,
    TupleGetItem,
    Var,
    call,
    call_tir,
    constant,
)
from smelt.topi import get_op, ops
from tests.transform.graphs import const, num, var

X, Y = var("x", 2, 3), var("y", 2, 3)


def test_operators_and_calls() -> None:
    relu = call("relu", X)
    assert is_op("relu").match(get_op("relu"))
    assert not is_op("relu").match(get_op("tanh"))
    assert not is_op("relu").match(relu)
    assert (is_op("relu") | is_op("tanh"))(wildcard()).match(relu)
    assert is_op("relu")(None).match(relu)
    assert is_op("relu")(varg_default_wildcard=True).match(relu)
    assert not is_op("relu")(wildcard(), wildcard()).match(relu)
    assert is_call(wildcard()).match(relu)
    assert not is_call(wildcard()).match(X)
    assert is_var().match(X)
    assert is_var("x").match(X)
    assert not is_var("y").match(X)
    assert is_constant().match(num(1))
    assert not is_constant().match(X)
    found = is_op("relu")(is_var()).extract_matched_expr(relu)
    assert found is not None
    assert X in found.values()
    assert is_op("relu")(is_op("tanh")(wildcard())).extract_matched_expr(relu) is None


def test_operands_that_are_left_out() -> None:
    x, w = var("x", 1, 4, 6, 6), const(4, 4, 3, 3)
    q = var("q", 1, 2, 4, 8)
    plain = call("attention", q, q, q)
    omitted = Call(plain.op, (q, q, q, None), plain.attrs, plain.type)
    three = is_op("attention")(wildcard(), wildcard(), wildcard())
    assert three.match(plain)
    assert three.match(omitted)
    assert is_op("attention")(wildcard(), wildcard(), wildcard(), None).match(plain)
    four = is_op("attention")(wildcard(), wildcard(), wildcard(), wildcard())
    assert not four.match(omitted)
    assert is_op("conv2d")(wildcard(), is_constant()).match(call("conv2d", x, w))


def test_order_of_operands() -> None:
    one = num(1, 3)
    for name, commutes in [("add", True), ("maximum", True), ("subtract", False)]:
        pattern = is_op(name)(wildcard(), is_constant())
        assert pattern.match(call(name, X, one))
        assert pattern.match(call(name, one, X)) == commutes
    nested = is_op("add")(is_op("multiply")(is_var("x"), is_constant()), is_var("y"))
    assert nested.match(call("add", Y, call("multiply", one, X)))


def test_one_pattern_in_two_places_is_one_value() -> None:
    p = wildcard()
    assert is_op("add")(p, p).match(call("add", X, X))
    assert not is_op("add")(p, p).match(call("add", X, Y))
    assert is_op("add")(p, p.dup()).match(call("add", X, Y))
    square = is_op("relu")(p) + (p * is_op("tanh")(p))
    assert square.match(call("add", call("multiply", call("tanh", X), X), call("relu", X)))
    assert not square.match(call("add", call("multiply", call("tanh", X), Y), call("relu", X)))


def test_the_alternative_that_fits_the_rest_is_found() -> None:
    p, q = is_op("relu")(wildcard()), wildcard()
    pattern = is_op("subtract")((p | q), q)
    r = call("relu", X)
    assert pattern.match(call("subtract", r, r))
    assert pattern.match(call("subtract", r, Y))
    assert pattern.match(call("subtract", Y, Y))
    assert not pattern.match(call("subtract", X, Y))


def test_infix() -> None:
    a, b = wildcard(), wildcard()
    for pattern, name in [(a + b, "add"), (a - b, "subtract"), (a * b, "multiply"),
                          (a / b, "divide")]:  # fmt: skip
        assert pattern.match(call(name, X, Y))
        assert not pattern.match(call("power", X, Y))
    assert repr(a + is_constant()) == "is_op('add')(wildcard(), is_constant())"


def test_optional_and_not() -> None:
    p = is_op("tanh")(wildcard()).optional(is_op("relu"))
    assert p.match(call("relu", call("tanh", X)))
    assert p.match(call("tanh", X))
    assert not p.match(call("relu", X))
    assert (~is_op("relu")(wildcard())).match(call("tanh", X))
    assert not reject(is_op("relu")(wildcard())).match(call("relu", X))
    assert (has_dtype("float32") & is_var()).match(X)
    assert not (has_dtype("int8") & is_var()).match(X)


def test_attributes() -> None:
    x, w = var("x", 1, 3, 5, 5), const(4, 3, 3, 3)
    conv = call("conv2d", x, w, strides=(2, 2))
    plain = is_op("conv2d")(wildcard(), wildcard())
    assert plain.has_attr({"strides": [2, 2]}).match(conv)
    assert has_attr({"strides": (2, 2), "groups": 1}, plain).match(conv)
    assert not plain.has_attr({"strides": (1, 1)}).match(conv)
    assert not plain.has_attr({"strides": (2,)}).match(conv)
    assert not plain.has_attr({"layout": "NCHW"}).match(conv)
    f = Function((X,), call("relu", X), {"Composite": "a.relu"})
    assert (
        is_function([wildcard()], is_op("relu")(wildcard()))
        .has_attr({"Composite": "a.relu"})
        .match(f)
    )
    assert not is_function(None, wildcard()).has_attr({"Composite": "b"}).match(f)
    assert not is_function([], wildcard()).match(f)
    for name, args, kind in [("relu", (X,), 0), ("add", (X, Y), 1), ("transpose", (X,), 2),
                             ("sum", (X,), 3), ("matmul", (X, const(3, 2)), 4),
                             ("topk", (X,), 8)]:  # fmt: skip
        attrs: Any = {"transpose": {"axes": (1, 0)}, "topk": {"k": 1}}.get(name, {})
        node = call(name, *args, **attrs)
        assert wildcard().has_attr({"TOpPattern": kind})(None).match(node), name
        assert not wildcard().has_attr({"TOpPattern": 7})(None).match(node)


def test_types() -> None:
    n = SizeVar("n", INDEX)
    z = Var("z", tensor_type((n, 3)))
    assert has_shape((2, 3)).match(X)
    assert has_shape((None, 3)).match(X)
    assert not has_shape((2, 3, 1)).match(X)
    assert not has_shape((3, 3)).match(X)
    assert has_shape((n, 3)).match(z)
    assert not has_shape((2, 3)).match(z)
    assert has_type(X.type).match(Y)
    assert not has_type(X.type).match(z)
    assert is_var().has_dtype("float32").match(X)
    assert not has_dtype("float32").match(Tuple((X, Y)))
    assert not has_shape((2, 3)).match(Function((X,), X))


def test_tuples() -> None:
    t = Tuple((X, call("relu", Y)))
    assert is_tuple(None).match(t)
    assert is_tuple([wildcard(), is_op("relu")(wildcard())]).match(t)
    assert not is_tuple([wildcard()]).match(t)
    item = TupleGetItem(t, 1)
    assert is_tuple_get_item(is_tuple(None), 1).match(item)
    assert is_tuple_get_item(wildcard()).match(item)
    assert not is_tuple_get_item(wildcard(), 0).match(item)


def test_functions_of_the_module() -> None:
    node = call_tir(GlobalVar("kernel"), [X, Y], X.type)
    assert is_call_tir("kernel").match(node)
    assert is_call_tir("kernel", [is_var("x"), wildcard()]).match(node)
    assert is_call_tir("kernel", is_tuple([wildcard(), wildcard()])).match(node)
    assert not is_call_tir("kernel", [wildcard()]).match(node)
    assert not is_call_tir("other").match(node)
    assert is_global_var("kernel")(wildcard(), wildcard()).match(node)
    with pytest.raises(Unsupported, match="tir_vars; sizes of a tensor program follow"):
        is_call_tir("kernel", None, wildcard())


def test_variables_are_looked_through() -> None:
    v = Var("v", X.type)
    p = is_op("tanh")(is_op("relu")(wildcard()))
    assert not p.match(call("tanh", v))
    assert p.match(call("tanh", v), {v: call("relu", X)})
    assert not p.match(call("tanh", v), {v: call("negative", X)})


def test_makers_of_patterns() -> None:
    x, w, b = var("x", 1, 3, 5, 5), const(3, 3, 1, 1), const(3, 1, 1)
    conv = call("conv2d", x, w)
    biased = call("add", conv, b)
    assert make_fused_bias_activation_pattern("conv2d").match(conv)
    pattern = make_fused_bias_activation_pattern("conv2d", True, "relu")
    assert pattern.match(call("relu", biased))
    assert not pattern.match(call("relu", conv))
    around = make_fused_bias_activation_pattern("conv2d", True)
    block, named = make_residual_block_pattern(around, "subtract", "relu")
    for y in (call("subtract", biased, x), call("subtract", x, biased)):
        found = block.extract_matched_expr(call("relu", y))
        assert found is not None
        assert found[named["residual"]] is x


def test_the_nearest_parent() -> None:
    a = call("relu", X)
    b = call("relu", call("tanh", a))
    end = call("negative", call("tanh", b))
    relu = is_op("relu")(wildcard())
    negative = is_op("negative")(wildcard())
    path = is_op("tanh")(wildcard())
    found = dominates(relu, path, negative).extract_matched_expr(end)
    assert found is not None
    assert found[relu] is b
    inner = is_op("relu")(is_var())
    assert not dominates(inner, path, negative).match(end)
    assert dominates(inner, path | relu, negative).match(end)
    assert negative.dominates(inner).match(end)


def test_names_are_looked_up_before_the_first_match() -> None:
    assert is_op("relu", get_op)(wildcard()).match(call("relu", X))
    wrong = is_op("reluu", get_op)(wildcard())  # a table may name what nobody matches
    with pytest.raises(TypeMismatch) as caught:
        wrong.match(call("relu", X))
    nearest = "no operator 'reluu'; nearest: relu, prelu, elu"
    assert str(caught.value) == f"is_op('reluu'): {nearest}"
    with pytest.raises(TypeMismatch) as caught:
        wrong.partition(Function((X,), call("relu", X)))
    assert nearest in str(caught.value)
    with pytest.raises(TypeMismatch) as caught:
        is_op("reluu", ops()).match(X)
    assert str(caught.value) == "is_op('reluu'): no such operator; nearest: relu, prelu, elu"
    renamed = is_op("nn.relu", {"nn.relu": get_op("relu")})(wildcard())
    assert renamed.match(call("relu", X))
    assert renamed.partition(Function((X,), call("relu", X))).body.op.attrs


def test_what_is_no_pattern_is_refused() -> None:
    with pytest.raises(TypeMismatch) as caught:
        is_op("add")(wildcard(), 3)
    assert str(caught.value) == (
        "operand 1 of is_op('add')(...): 3 stands where a pattern is needed; patterns are "
        "made by wildcard(), is_op(name), is_constant(), is_expr(value), ..."
    )
    with pytest.raises(TypeMismatch, match="has_attr takes a mapping"):
        wildcard().has_attr("strides")  # type: ignore[arg-type]


def test_constants_keep_their_type() -> None:
    c = constant(np.zeros(2, np.int8))
    assert is_constant().has_dtype("int8").match(c)
