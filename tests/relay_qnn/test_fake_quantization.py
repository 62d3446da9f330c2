"""FakeQuantizationToInteger: which operators become integer ones, and what the result is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt import relay
from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.relax.interpret import interpret
from smelt.relay.transform import affine_types
from smelt.relay.transform.fake_quantization_to_integer import (
    NotInteger,
    TensorAffineType,
    register_fake_quantization_to_integer,
)

from .support import calls, names, numbers, q, run, scale, zero

T = relay.transform
nn = relay.nn


def fake(x: Any, s: float, z: int = 0, dtype: str = "int8") -> Any:
    """Quantized and dequantized again."""
    return q.dequantize(q.quantize(x, scale(s), zero(z), out_dtype=dtype), scale(s), zero(z))


def module(x: Any, body: Any) -> Any:
    return relay.IRModule.from_expr(relay.Function(list(x) if isinstance(x, tuple) else [x], body))


def integer(x: Any, body: Any, **options: Any) -> Any:
    return T.FakeQuantizationToInteger(**{"hard_fail": True, **options})(module(x, body))


def int8(*shape: int) -> Any:
    return relay.var("x", shape=shape, dtype="int8")


# ------------------------------------------------------------------------------------- networks


def conv(x: Any, seed: int, outputs: int, inputs: int, size: int = 3, **attrs: Any) -> Any:
    """A convolution with a weight by channel and a bias in floats."""
    rng = np.random.default_rng(seed)
    steps = scale(*rng.uniform(0.002, 0.005, outputs).tolist())
    w = relay.const(numbers(seed, "int8", outputs, inputs, size, size, low=-127))
    y = nn.conv2d(x, q.dequantize(w, steps, zero(0), axis=0), channels=outputs,
                  kernel_size=(size, size), padding=(size // 2, size // 2), **attrs)  # fmt: skip
    return nn.bias_add(y, relay.const(rng.normal(size=outputs).astype("float32")))


def block(x: Any) -> Any:
    """Two convolutions beside one of a pixel, added, averaged and classified."""
    x = fake(x, 0.02, 3)
    h = fake(nn.relu(conv(x, 1, 4, 3)), 0.03, -128)
    y = fake(nn.relu(conv(h, 2, 8, 4, strides=(2, 2))), 0.03, -128)
    y = fake(conv(y, 3, 8, 8), 0.05, 5)
    side = fake(conv(h, 4, 8, 4, 1, strides=(2, 2)), 0.04, 1)
    y = fake(nn.relu(relay.add(y, side)), 0.04, -128)
    y = nn.batch_flatten(fake(nn.global_avg_pool2d(y), 0.03, -128))
    w = relay.const(numbers(5, "int8", 5, 8))
    return fake(nn.dense(y, q.dequantize(w, scale(0.003), zero(0))), 0.05)


def test_a_residual_network_is_integer_from_end_to_end() -> None:
    x = relay.var("x", shape=(1, 3, 8, 8))
    mod = module(x, block(x))
    made = T.FakeQuantizationToInteger(hard_fail=True)(mod)
    floats = {"nn.conv2d", "nn.dense", "nn.global_avg_pool2d"}
    assert not floats & names(made)
    assert len(calls(made, "qnn.conv2d")) == 4
    assert len(calls(made, "qnn.quantize")) == len(calls(made, "qnn.dequantize")) == 1
    for n in [*calls(made, "qnn.conv2d"), *calls(made, "qnn.dense")]:
        assert [a.type.dtype for a in n.args[:2]] == ["int8", "int8"]
        assert n.type.dtype == "int32"
    plain = relay.qnn.transform.CanonicalizeOps()(made)
    for n in [*calls(plain, "nn.conv2d"), *calls(plain, "nn.dense")]:
        assert [a.type.dtype for a in n.args] == ["int8", "int8"]
        assert n.type.dtype == n.attrs.out_dtype == "int32"
    assert not any(n.startswith("qnn.") for n in names(plain))
    a = np.random.default_rng(7).normal(size=(1, 3, 8, 8)).astype("float32")
    p = made["main"].params[0]
    got = run(made["main"].body, {p: a})[0]
    np.testing.assert_array_equal(interpret(plain["main"], a)[0], got)
    want = interpret(mod["main"], a)[0]
    assert np.abs(want).max() > 0.5
    assert np.abs(got - want).max() < 0.05 * 1.01


def test_a_border_that_is_a_zero_point_is_a_pad_in_relay() -> None:
    """Its convolutions have a border of 0."""
    x = relay.var("x", shape=(1, 3, 6, 6), dtype="uint8")
    w = relay.const(numbers(1, "int8", 4, 3, 3, 3))
    y = q.conv2d(x, w, zero(9), zero(0), scale(1.0), scale(1.0), (3, 3), 4, padding=(1, 2))
    plain = relay.qnn.transform.CanonicalizeOps()(module(x, y))
    (conv,) = calls(plain, "nn.conv2d")
    (pad,) = calls(plain, "nn.pad")
    assert conv.args[0] is pad
    assert relay.parse(plain.astext()) is not None
    a = numbers(0, "uint8", 1, 3, 6, 6)
    np.testing.assert_array_equal(interpret(plain["main"], a)[0], run(y, {x: a})[0])


def test_the_text_of_an_integer_program_can_be_read() -> None:
    x = relay.var("x", shape=(1, 3, 8, 8))
    made = integer(x, block(x))
    again = relay.parse(made.astext())
    assert names(again) == names(made)
    a = np.ones((1, 3, 8, 8), "float32")
    first, second = (interpret(m["main"], a)[0] for m in (made, again))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("first", ["ConvertLayout", "FakeQuantizationToInteger"])
def test_other_layouts_give_the_same_integers(first: str) -> None:
    x = relay.var("x", shape=(1, 3, 8, 8))
    want = {n: ["NHWC", "default"] for n in ("nn.conv2d", "qnn.conv2d")}
    passes = [T.ConvertLayout(want), T.FakeQuantizationToInteger(hard_fail=True)]
    mod = module(x, block(x))
    for one in passes if first == "ConvertLayout" else passes[::-1]:
        mod = one(mod)
    assert {n.attrs.data_layout for n in calls(mod, "qnn.conv2d")} == {"NHWC"}
    a = np.random.default_rng(8).normal(size=(1, 3, 8, 8)).astype("float32")
    plain = interpret(integer(x, block(x))["main"], a)[0]
    np.testing.assert_array_equal(interpret(mod["main"], a)[0], plain)


def test_the_batch_may_be_symbolic() -> None:
    x = relay.var("x", shape=(relay.Any(), 3, 6, 6))
    y = nn.avg_pool2d(fake(conv(fake(x, 0.02, 3), 1, 4, 3), 0.05, 2), (2, 2), padding=(1, 1))
    y = relay.reshape(nn.global_avg_pool2d(fake(y, 0.05, 2)), (-1, 4))
    made = integer(x, q.quantize(y, scale(0.02), zero(0)))
    a = np.random.default_rng(3).normal(size=(3, 3, 6, 6)).astype("float32")
    got = run(made["main"].body, {made["main"].params[0]: a})[0]
    assert got.shape == (3, 4)
    assert len(set(got.reshape(-1).tolist())) > 6


# ----------------------------------------------------------------------------- what stays, and why


def test_a_region_that_stays_names_what_stopped_it() -> None:
    x = int8(2, 3)
    start = q.dequantize(x, scale(0.1), zero(0))
    end: Any = (scale(0.2), zero(0))
    v = relay.var("v", shape=(2, 3))
    by_row = q.dequantize(x, scale(0.1, 0.2), zero(0), axis=0)
    cases: list[tuple[Any, Any, str]] = [
        (x, relay.sin(start), "sin has no integer form"),
        (x, nn.softmax(start), "nn.softmax becomes an integer operator only where optional_qnn"),
        ((x, v), relay.add(start, v), "the variable v is not quantized"),
        (x, nn.dense(relay.tanh(start), start),
         "tanh stays in floats: its result is not quantized right behind it"),
        (x, relay.reshape(by_row, (6,)),
         "reshape stays in floats: its operand has a scale for each index of an axis"),
        (x, relay.mean(q.dequantize(relay.cast(x, "int32"), scale(0.1), zero(0))),
         "mean stays in floats: int32 does not hold the sum of 6 int32"),
        (x, nn.dense(start, q.dequantize(x, scale(0.1, 0.2, 0.1), zero(0), axis=1)),
         "nn.dense stays in floats: the scales of its weight vary along axis 1; legal: 0"),
    ]  # fmt: skip
    for given, body, message in cases:
        mod = module(given, q.quantize(body, *end))
        assert T.FakeQuantizationToInteger()(mod) is mod
        with pytest.raises(Unsupported, match="^FakeQuantizationToInteger: " + message):
            T.FakeQuantizationToInteger(hard_fail=True)(mod)


def test_numbers_that_come_in_as_floats_are_no_region() -> None:
    x = relay.var("x", shape=(4,))
    mod = module(x, q.quantize(relay.sin(x), scale(0.1), zero(0)))
    assert T.FakeQuantizationToInteger(hard_fail=True)(mod) is mod


def test_one_region_stays_and_the_other_does_not() -> None:
    x = int8(2, 3)
    first = relay.sin(q.dequantize(x, scale(0.1), zero(0)))
    second = nn.relu(q.dequantize(q.quantize(first, scale(0.1), zero(0)), scale(0.1), zero(0)))
    made = integer(x, q.quantize(second, scale(0.1), zero(0)), hard_fail=False)
    assert names(made) == {"qnn.dequantize", "sin", "qnn.quantize", "nn.relu"}
    assert made["main"].body.op.name == "nn.relu"


# --------------------------------------------------------------------------------------- options


def test_softmax_where_it_is_asked_for() -> None:
    x = int8(2, 9)
    body = q.quantize(nn.softmax(q.dequantize(x, scale(0.1), zero(2))), scale(1 / 256), zero(-128))
    made = integer(x, body, optional_qnn_ops=["nn.softmax"])
    assert names(made) == {"qnn.softmax"}
    a = numbers(0, "int8", 2, 9, low=-40, high=40)
    apart = interpret(made["main"], a)[0].astype(int) - interpret(module(x, body)["main"], a)[0]
    assert np.abs(apart).max() <= 1
    with pytest.raises(
        TypeMismatch, match=r"optional_qnn_ops has 'nn\.softmx'; legal: nn\.softmax"
    ):
        T.FakeQuantizationToInteger(optional_qnn_ops=["nn.softmx"])


def test_use_qat_dequantizes_behind_the_last_operators() -> None:
    x = int8(2, 6)
    w = q.dequantize(relay.const(numbers(0, "int8", 4, 6)), scale(0.1, 0.2, 0.1, 0.3), zero(0), 0)
    y = nn.dense(q.dequantize(x, scale(0.1), zero(3)), w)
    y = nn.relu(nn.bias_add(y, relay.const(np.ones(4, "float32"))))
    assert "nn.dense" in names(integer(x, y))
    made = integer(x, y, use_qat=True)
    assert names(made) == {"qnn.dense", "nn.bias_add", "nn.relu", "qnn.dequantize"}
    assert made["main"].body.op.name == "qnn.dequantize"
    a = numbers(1, "int8", 2, 6)
    want = interpret(module(x, y)["main"], a)[0]
    np.testing.assert_allclose(interpret(made["main"], a)[0], want, rtol=1e-5, atol=0.02)


def test_a_rule_of_the_user() -> None:
    def negative(n: Any, types: Any) -> Any:
        t = types[n.args[0]]
        if t.dtype != "int8":
            raise NotInteger("an int8 is needed")
        wide = relay.cast(n.args[0], "int32")
        zeros = relay.const(-int(t.zero_point.data))
        return [relay.negative(wide), TensorAffineType(t.scale, zeros, "int32")]

    x = int8(9)
    body = q.quantize(relay.negative(q.dequantize(x, scale(0.1), zero(5))), scale(0.1), zero(2))
    before = dict(affine_types.RULES)
    try:
        register_fake_quantization_to_integer("negative", negative)
        made = integer(x, body)
    finally:
        affine_types.RULES.clear()
        affine_types.RULES.update(before)
    a = np.arange(-4, 5, dtype="int8")
    np.testing.assert_array_equal(
        interpret(made["main"], a)[0], interpret(module(x, body)["main"], a)[0]
    )
    assert "qnn.quantize" not in names(made)
    with pytest.raises(TypeMismatch, match="relay has no operator 'negativ'; nearest: negative"):
        register_fake_quantization_to_integer("negativ", negative)


# ---------------------------------------------------------------------------------- single forms


def test_a_number_goes_into_the_scale() -> None:
    x = int8(5)
    y = relay.multiply(q.dequantize(x, scale(0.1), zero(3)), relay.const(0.5))
    made = integer(x, q.quantize(y, scale(0.05), zero(3)))
    assert made["main"].body.callee in ("qnn.requantize", "copy")
    a = np.arange(5, dtype="int8")
    np.testing.assert_array_equal(interpret(made["main"], a)[0], a)


def test_the_same_integers_may_stand_for_different_numbers() -> None:
    x = int8(2, 3)
    a = q.dequantize(x, scale(0.1), zero(0))
    b = q.dequantize(x, scale(0.02), zero(7))
    body = q.quantize(relay.add(a, b), scale(0.12), zero(1))
    made = integer(x, body)
    given = numbers(0, "int8", 2, 3)
    apart = interpret(made["main"], given)[0].astype(int)
    assert np.abs(apart - interpret(module(x, body)["main"], given)[0]).max() <= 1


def test_what_is_quantized_as_it_was_disappears() -> None:
    x = int8(2, 3, 4)
    y = relay.transpose(q.dequantize(x, scale(0.1, 0.2, 0.3), zero(1, 2, 3), axis=1), (2, 0, 1))
    made = integer(x, q.quantize(y, scale(0.1, 0.2, 0.3), zero(1, 2, 3), axis=2))
    assert names(made) == {"transpose"}


def test_pass_levels() -> None:
    x = int8(3)
    mod = module(x, q.quantize(q.dequantize(x, scale(0.1), zero(0)), scale(0.2), zero(0)))
    with relay.transform.PassContext(opt_level=0):
        made = T.Sequential([T.FakeQuantizationToInteger()])(mod)
    assert names(made) == {"qnn.requantize"}


def test_legalize_takes_what_is_registered() -> None:
    x = int8(3)
    mod = module(x, q.abs(x, scale(0.1), zero(0), scale(0.1), zero(0)))
    assert relay.qnn.transform.Legalize()(mod) is mod
    table = relay.transform.legalize.LEGALIZE

    relay.qnn.transform.register_qnn_legalize("qnn.abs", lambda a, inputs, t: relay.abs(inputs[0]))
    try:
        assert names(relay.qnn.transform.Legalize()(mod)) == {"abs"}
    finally:
        del table["FTVMQnnLegalize", "qnn.abs"]
