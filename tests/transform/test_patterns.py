"""Composed operators are recognised in the forms that exporters write."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from smelt.ir.module import IRModule
from smelt.relax.nodes import Constant, RelaxExpr, constant
from smelt.relax.transform import recognize_patterns, simplify_graph

from .graphs import assert_same, becomes, call, const, module, num, ops_of, var

X = var("x", 2, 5, 8)


def square(x: RelaxExpr, how: str) -> RelaxExpr:
    if how == "power":
        return call("power", x, num(2.0))
    return call("multiply", x, x) if how == "multiply" else call("square", x)


def mean(x: RelaxExpr, how: str = "mean") -> RelaxExpr:
    if how == "sum":
        return call("divide", call("sum", x, axes=(-1,)), num(8.0, 1))
    if how == "squeezed":
        return call("expand_dims", call("mean", x, axes=(2,), keepdims=False), axes=(-1,))
    return call("mean", x, axes=(2,))


def over_root(x: RelaxExpr, v: RelaxExpr, how: str) -> RelaxExpr:
    v = call("add", num(1e-5), v)
    if how == "divide":
        return call("divide", x, call("sqrt", v))
    if how == "power":
        return call("multiply", x, call("power", v, num(-0.5, 1)))
    return call("multiply", call("reciprocal", call("sqrt", v)), x)


FORMS = list(
    itertools.product(
        ("power", "multiply", "square"), ("mean", "sum", "squeezed"),
        ("divide", "power", "reciprocal"),
    )
)  # fmt: skip


@pytest.mark.parametrize(("squared", "averaged", "divided"), FORMS)
def test_layer_norm(squared: str, averaged: str, divided: str) -> None:
    d = call("subtract", X, mean(X, averaged))
    other = call("subtract", X, mean(X, averaged)) if divided == "power" else d
    y = over_root(d, mean(square(other, squared), averaged), divided)
    y = call("add", const(1, 8), call("multiply", y, const(8)))
    mod = module([X], call("relu", y))
    # The bias of shape [1, 8] has more dimensions than are normalised: it stays a sum.
    assert ops_of(becomes(recognize_patterns, mod, {"layer_norm": 1, "add": 1, "relu": 1}))
    y = call(
        "add",
        const(8),
        call("multiply", const(8), over_root(d, mean(square(other, squared)), divided)),
    )
    becomes(recognize_patterns, module([X], y), {"layer_norm": 1})


@pytest.mark.parametrize(("squared", "averaged", "divided"), FORMS)
def test_rms_norm(squared: str, averaged: str, divided: str) -> None:
    y = over_root(X, mean(square(X, squared), averaged), divided)
    becomes(recognize_patterns, module([X], call("multiply", const(8), y)), {"rms_norm": 1})


def test_layer_norm_over_two_dimensions() -> None:
    d = call("subtract", X, call("mean", X, axes=(1, 2)))
    v = call("add", call("mean", call("multiply", d, d), axes=(-1, -2)), num(1e-6))
    y = call("multiply", call("divide", d, call("sqrt", v)), const(5, 8))
    becomes(recognize_patterns, module([X], call("add", y, const(8))), {"layer_norm": 1})


def test_norm_along_a_dimension_in_front_stays() -> None:
    d = call("subtract", X, call("mean", X, axes=(1,)))
    v = call("add", call("mean", call("multiply", d, d), axes=(1,)), num(1e-6))
    assert "layer_norm" not in ops_of(
        recognize_patterns(module([X], call("divide", d, call("sqrt", v))))
    )


def test_a_norm_whose_variance_is_needed_stays() -> None:
    d = call("subtract", X, mean(X))
    v = mean(square(d, "multiply"))
    mod = module([X], over_root(d, v, "divide"), v)
    after = recognize_patterns(mod)
    assert "layer_norm" not in ops_of(after)
    assert_same(mod, after)


def test_layer_norm_of_moments() -> None:
    m = mean(X)
    v = mean(square(call("subtract", X, m), "square"))
    f = call("multiply", call("rsqrt", call("add", v, num(1e-3))), const(8))
    y = call("add", call("multiply", X, f), call("subtract", const(8), call("multiply", m, f)))
    becomes(recognize_patterns, module([X], y), {"layer_norm": 1})


def test_rms_norm_of_narrow_floats() -> None:
    x = var("x", 2, 8, dtype="float16")
    wide = call("cast", x, dtype="float32")
    v = call("add", call("mean", call("power", wide, num(2.0)), axes=(1,)), num(1e-6))
    y = call("cast", call("multiply", wide, call("rsqrt", v)), dtype="float16")
    y = call("multiply", const(8, dtype="float16"), y)
    becomes(recognize_patterns, module([x], y), {"rms_norm": 1}, tolerance=2e-3)


# --------------------------------------------------------------------------------- activations


def erf(x: RelaxExpr) -> RelaxExpr:
    return call("erf", call("divide", x, num(math.sqrt(2))))


def tanh(x: RelaxExpr, cube: RelaxExpr) -> RelaxExpr:
    inner = call("add", x, call("multiply", num(0.044715), cube))
    return call("tanh", call("multiply", inner, num(math.sqrt(2 / math.pi))))


def times(*xs: RelaxExpr) -> RelaxExpr:
    y = xs[0]
    for x in xs[1:]:
        y = call("multiply", y, x)
    return y


def plus_one(x: RelaxExpr) -> RelaxExpr:
    return call("add", x, num(1.0, 1))


ERF, HALF, ONE = erf(X), num(0.5), num(1.0)
CUBE = call("power", X, num(3.0))
GELUS: dict[str, RelaxExpr] = {
    "x half (1 + erf)": times(X, HALF, plus_one(ERF)),
    "half (x (1 + erf))": times(HALF, times(X, plus_one(ERF))),
    "x (half (1 + erf))": times(X, times(HALF, plus_one(ERF))),
    "(half + half erf) x": times(call("add", HALF, times(HALF, ERF)), X),
    "x half + x half erf": call("add", times(X, HALF), times(times(X, HALF), ERF)),
    "over two": call("divide", times(X, plus_one(ERF)), num(2.0)),
    "erf of a product": times(X, HALF, plus_one(call("erf", times(num(math.sqrt(0.5)), X)))),
}
TANHS: dict[str, RelaxExpr] = {
    "power": times(times(HALF, X), plus_one(tanh(X, CUBE))),
    "products": times(times(HALF, plus_one(tanh(X, times(X, X, X)))), X),
    "factored": times(HALF, times(X, plus_one(call("tanh", times(
        times(X, num(math.sqrt(2 / math.pi))),
        plus_one(times(times(X, num(0.044715)), X))))))),
}  # fmt: skip


@pytest.mark.parametrize("form", GELUS)
def test_gelu(form: str) -> None:
    after = becomes(recognize_patterns, module([X], GELUS[form]), {"gelu": 1})
    assert after["main"].body.attrs["approximate"] == "none"


@pytest.mark.parametrize("form", TANHS)
def test_gelu_by_tanh(form: str) -> None:
    after = becomes(recognize_patterns, module([X], TANHS[form]), {"gelu": 1})
    assert after["main"].body.attrs["approximate"] == "tanh"


def test_gelu_of_a_sum() -> None:
    x = call("add", X, const(8))
    y = times(x, HALF, plus_one(erf(x)))
    becomes(recognize_patterns, module([X], y), {"add": 1, "gelu": 1})


def test_other_constants_are_no_gelu() -> None:
    y = times(X, HALF, plus_one(call("erf", call("divide", X, num(1.5)))))
    assert "gelu" not in ops_of(recognize_patterns(module([X], y)))


def exp_minus(x: RelaxExpr) -> RelaxExpr:
    return plus_one(call("exp", call("negative", x)))


SHIFTED = call("clip", call("add", X, num(3.0)), min=0.0, max=6.0)
OTHERS: dict[str, tuple[RelaxExpr, str]] = {
    "silu": (times(call("sigmoid", X), X), "silu"),
    "silu by exp": (call("divide", X, exp_minus(X)), "silu"),
    "sigmoid": (call("divide", ONE, exp_minus(X)), "sigmoid"),
    "softplus": (call("log", plus_one(call("exp", X))), "softplus"),
    "mish": (times(X, call("tanh", call("softplus", X))), "mish"),
    "hard swish": (call("divide", times(X, SHIFTED), num(6.0)), "hard_swish"),
    "hard swish by a sixth": (times(X, times(SHIFTED, num(1 / 6))), "hard_swish"),
    "hard swish by relu6": (times(call("divide", call("minimum", call("relu", call(
        "add", X, num(3.0))), num(6.0)), num(6.0)), X), "hard_swish"),
    "hard swish by hard sigmoid": (
        times(X, call("hard_sigmoid", X, alpha=1 / 6, beta=0.5)), "hard_swish"),
}  # fmt: skip


@pytest.mark.parametrize("form", OTHERS)
def test_activation(form: str) -> None:
    y, name = OTHERS[form]
    becomes(recognize_patterns, module([X], y), {name: 1})


# ------------------------------------------------------------------------------------- softmax


def shifted() -> RelaxExpr:
    return call("subtract", X, call("max", X, axes=(-1,)))


def normal(x: RelaxExpr) -> RelaxExpr:
    e = call("exp", x)
    return call("divide", e, call("sum", e, axes=(2,)))


def minus_log(x: RelaxExpr) -> RelaxExpr:
    return call("subtract", x, call("log", call("sum", call("exp", x), axes=(2,))))


SOFTMAX: dict[str, tuple[Callable[[], RelaxExpr], str]] = {
    "shifted": (lambda: normal(shifted()), "softmax"),
    "plain": (lambda: normal(X), "softmax"),
    "log of softmax": (lambda: call("log", normal(X)), "log_softmax"),
    "minus log": (lambda: minus_log(shifted()), "log_softmax"),
    "minus log_sum_exp": (
        lambda: call("subtract", X, call("reduce_log_sum_exp", X, axes=(2,))), "log_softmax"),
}  # fmt: skip


@pytest.mark.parametrize("form", SOFTMAX)
def test_softmax(form: str) -> None:
    build, name = SOFTMAX[form]
    becomes(recognize_patterns, module([X], build()), {name: 1})


def guarded(mask: RelaxExpr) -> IRModule:
    y = var("y", 2, 8, 6)
    s = call("softmax", call("add", call("matmul", X, y), mask))
    return module([X, y], call("where", call("isnan", s), num(0.0), s))


def causal(diagonal: int) -> Constant:
    return constant(np.triu(np.full((5, 6), -np.inf, np.float32), diagonal))


def test_a_guard_against_masked_rows_goes_where_no_row_is_masked() -> None:
    becomes(simplify_graph, guarded(causal(1)), {"matmul": 1, "add": 1, "softmax": 1})


def test_a_guard_stays_where_a_row_is_masked() -> None:
    mod = guarded(causal(0))
    assert ops_of(simplify_graph(mod))["isnan"] == 1
    assert_same(mod, simplify_graph(mod))
