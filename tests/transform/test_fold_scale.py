"""Scales and shifts go into weights and biases, and only where that is right."""

from typing import Any

import numpy as np
import pytest

from smelt.ir.module import IRModule
from smelt.relax.nodes import Call, RelaxExpr, constant, values
from smelt.relax.transform import simplify

from .graphs import assert_same, becomes, call, const, module, num, ops_of, var

X = var("x", 2, 6, 9, 8)


def conv(x: RelaxExpr, channels: int = 4, groups: int = 1, **attrs: Any) -> RelaxExpr:
    inputs = x.type.shape[1].value // groups  # type: ignore[attr-defined]
    return call("conv2d", x, const(channels, inputs, 3, 3), groups=groups, **attrs)


def norm(x: RelaxExpr) -> RelaxExpr:
    c = x.type.shape[1].value  # type: ignore[attr-defined]
    return call("batch_norm", x, const(c), const(c), const(c), const(c, positive=True))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("biased", [False, True])
def test_batch_norm_goes_into_the_convolution(groups: int, biased: bool) -> None:
    y = conv(X, groups=groups, pads=(1, 1, 1, 1))
    y = call("add", y, const(4, 1, 1)) if biased else y
    becomes(simplify, module([X], call("relu", norm(y))), {"conv2d": 1, "add": 1, "relu": 1})


def test_depthwise() -> None:
    y = norm(conv(X, channels=6, groups=6))
    becomes(simplify, module([X], y), {"conv2d": 1, "add": 1})


def test_batch_norm_alone_is_a_product_and_a_sum() -> None:
    becomes(simplify, module([X], norm(X)), {"multiply": 1, "add": 1})


def test_batch_norm_before_a_convolution_without_border() -> None:
    becomes(simplify, module([X], conv(norm(X), groups=2)), {"conv2d": 1, "add": 1})


def test_only_the_scale_passes_a_border() -> None:
    y = conv(call("multiply", X, const(1, 6, 1, 1)), pads=(1, 0, 0, 0))
    becomes(simplify, module([X], y), {"conv2d": 1})
    mod = module([X], conv(call("add", X, const(6, 1, 1)), pads=(1, 0, 0, 0)))
    assert simplify(mod) is mod


def test_numbers_and_quotients() -> None:
    y = call("divide", call("multiply", conv(X), num(3.0)), const(1, 4, 1, 1, positive=True))
    becomes(simplify, module([X], y), {"conv2d": 1})


def test_a_scale_per_pixel_stays() -> None:
    mod = module([X], call("multiply", conv(X), const(7, 6)))
    assert simplify(mod) is mod


def test_a_product_that_is_needed_twice_stays() -> None:
    y = conv(X)
    mod = module([X], call("multiply", y, num(3.0)), call("exp", y))
    assert simplify(mod) is mod


@pytest.mark.parametrize("swapped", [False, True])
def test_matrices(swapped: bool) -> None:
    x = var("x", 2, 5, 6)
    w = const(7, 6) if swapped else const(6, 7)
    y = call("matmul", call("multiply", const(6), x), w, transpose_b=swapped)
    y = call("multiply", call("add", y, const(7)), const(1, 7))
    becomes(simplify, module([x], y), {"matmul": 1, "add": 1})


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolution(groups: int) -> None:
    x = var("x", 1, 4, 5)
    y = call("conv_transpose", call("multiply", x, const(4, 1)), const(4, 3, 2), groups=groups)
    y = call("multiply", y, const(3 * groups, 1))
    becomes(simplify, module([x], y), {"conv_transpose": 1})


def test_a_pad_goes_into_the_convolution() -> None:
    y = conv(call("pad", X, pads=(0, 0, 1, 2, 0, 0, 3, 0)), pads=(1, 1, 0, 2), strides=(2, 1))
    becomes(simplify, module([X], y), {"conv2d": 1})
    for attrs in ({"value": 1.0}, {"mode": "edge"}):
        mod = module([X], conv(call("pad", X, pads=(0, 0, 1, 2, 0, 0, 3, 0), **attrs)))
        assert simplify(mod) is mod


def test_a_pad_of_integers_goes_into_the_convolution_with_its_value() -> None:
    x, w = var("x", 1, 3, 6, 5, dtype="uint8"), constant(np.ones((2, 3, 3, 3), "int8"))
    around = (0, 0, 1, 2, 0, 0, 3, 0)

    def padded(value: float, **attrs: Any) -> IRModule:
        y = call("pad", x, pads=around, value=value)
        return module([x], call("conv2d", y, w, out_dtype="int32", **attrs))

    same = {"pads": (1, 0, 0, 1), "border": 7}
    for attrs in ({}, {"border": 3}, same):
        done = simplify(padded(7.0, **attrs))
        assert ops_of(done) == {"conv2d": 1}
        (made,) = [v for v in values(done["main"].body) if isinstance(v, Call)]
        assert made.attrs["border"] == 7
        image = np.random.default_rng(0).integers(0, 256, (1, 3, 6, 5), np.uint8)
        assert_same(done, padded(7.0, **attrs), inputs=[image])
    for mod in (padded(8.0, **same), padded(-1.0), padded(7.0, pads=(1, 0, 0, 1))):
        assert simplify(mod) is mod


def test_a_row_of_layers_becomes_one_product_each() -> None:
    def block(x: RelaxExpr) -> RelaxExpr:
        y = call("relu", norm(conv(x, 6, pads=(1, 1, 1, 1))))
        return call("relu", call("add", norm(conv(y, 6, pads=(1, 1, 1, 1))), x))

    mod = module([X], block(block(X)))
    after = simplify(mod)
    assert ops_of(after) == {"conv2d": 4, "add": 6, "relu": 4}
    assert_same(mod, after)


def test_weights_are_rounded_once() -> None:
    """The folded bias is the exact one, rounded: not the sum of two rounded ones."""
    y = call("add", conv(X), const(4, 1, 1))
    mod: IRModule = module([X], norm(norm(y)))
    becomes(simplify, mod, {"conv2d": 1, "add": 1}, tolerance=1e-6)
