"""Every operator bit by bit: interpreted, compiled, and by the model in Python integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt import relay
from smelt.relax.interpret import interpret

from . import model
from .support import Array, calls, equal, numbers, q, run, scale, var, zero


def float_array(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(0, 3, shape).astype("float32")


# -------------------------------------------------------------------------------------- scales


def test_quantize_and_dequantize() -> None:
    a = np.concatenate([float_array(0, 3, 40), np.array([[0.25], [-0.75], [1e9]], "float32")], 1)
    b, i = numbers(1, "uint8", 3, 8), numbers(2, "int32", 3, 8, low=-(1 << 20), high=1 << 20)
    x, y, z = var("x", a), var("y", b), var("z", i)
    steps, zeros = (0.5, 0.02, 0.1), (-3, 0, 7)
    body = relay.Tuple(
        [
            q.quantize(x, scale(0.5), zero(3)),
            q.quantize(x, scale(*steps), zero(*zeros), axis=0, out_dtype="uint8"),
            q.quantize(x, scale(0.001), zero(0), out_dtype="int16"),
            q.quantize(x, scale(0.001), zero(0), out_dtype="int32"),
            q.dequantize(y, scale(0.3), zero(128)),
            q.dequantize(z, scale(*steps), zero(*zeros), axis=0),
        ]
    )
    got = run(body, {x: a, y: b, z: i})
    equal(got[0], model.quantize(a, 0.5, 3))
    equal(got[1], model.quantize(a, steps, zeros, 0, "uint8"))
    equal(got[2], model.quantize(a, 0.001, 0, dtype="int16"))
    near = np.abs(a) < 1e6
    equal(got[3][near], model.quantize(a, 0.001, 0, dtype="int32")[near])
    assert (got[3][~near] > 2147483000).all()
    equal(got[4], model.dequantize(b, 0.3, 128))
    equal(got[5], model.dequantize(i, steps, zeros, 0))


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
def test_requantize(rounding: str) -> None:
    a, b = numbers(0, "int32", 2, 4, 9, low=-40000, high=40000), numbers(1, "uint8", 4, 4)
    whole = np.array([[-(1 << 31), (1 << 31) - 1, -3, -1, 0, 1, 3, 5]], "int32")
    large = numbers(2, "int32", 4, 20)
    x, y, w, z = var("x", a), var("y", b), var("w", whole), var("z", large)
    steps = (0.002, 0.5, 0.03, 7.0)
    cases: list[tuple[Any, Array, tuple[Any, ...], dict[str, Any]]] = [
        (x, a, (0.01, 0, 1.3, 4), {}),
        (x, a, (steps, 0, 2.5, -9), {"axis": 1}),
        (x, a, (steps, (5, -6, 7, 8), 2.5, 3), {"axis": 1, "out_dtype": "uint8"}),
        (x, a, (0.01, 0, steps, (1, 2, 3, 4)), {"axis": 1}),
        (x, a, (0.5, 0, 1.0, 0), {"out_dtype": "int32"}),
        (x, a, (3.0, 1, 1.0, 0), {"out_dtype": "int16"}),
        (y, b, (0.25, 128, 0.25, 0), {"out_dtype": "int8"}),
        (y, b, (0.125, 3, 0.0625, 200), {"out_dtype": "uint8"}),
        (w, whole, (0.5, 0, 1.0, 0), {}),
        (w, whole, (900.0, 0, 1.0, -5), {}),
        (w, whole, (1e-12, 0, 1.0, 7), {}),
        (z, large, (0.7, 0, 1.1, 0), {"out_dtype": "int32"}),
        (z, large, (steps, 0, 7.5, 0), {"out_dtype": "int32", "axis": 0}),
    ]

    def operands(values: tuple[Any, ...]) -> list[Any]:
        many = [v if isinstance(v, tuple) else (v,) for v in values]
        return [(zero if i % 2 else scale)(*v) for i, v in enumerate(many)]

    body = [q.requantize(v, *operands(p), rounding=rounding, **k) for v, _, p, k in cases]
    got = run(relay.Tuple(body), {x: a, y: b, w: whole, z: large})
    for g, (_, v, p, k) in zip(got, cases, strict=True):
        options: dict[str, Any] = {**k, "rounding": rounding}
        equal(g, model.requantize(v, *p, **options))


def test_fixed_point_factors() -> None:
    """The multipliers and shifts of many scales at once, as CanonicalizeOps shows them."""
    rng = np.random.default_rng(4)
    steps = (2.0 ** rng.uniform(-20, 12, 200)).astype("float32")
    x = relay.var("x", shape=(200,), dtype="int32")
    y = q.requantize(x, scale(*steps.tolist()), zero(0), scale(0.7), zero(0), out_dtype="int32")
    mod = relay.qnn.transform.CanonicalizeOps()(relay.IRModule.from_expr(relay.Function([x], y)))
    (call,) = calls(mod, "fixed_point_multiply_per_axis")
    multiplier, left, right = (np.asarray(a.data) for a in call.args[1:])
    want = [model.fixed_point(float(s) / float(np.float32(0.7))) for s in steps]
    assert multiplier.tolist() == [m for m, _ in want]
    assert (left - right).tolist() == [e for _, e in want]
    assert not np.any(left * right)


def test_requantize_in_floats() -> None:
    a = numbers(0, "int32", 50, low=-4000, high=4000)
    x = var("x", a)
    up, far = (
        q.requantize(x, scale(0.5), zero(0), scale(1.0), zero(3), rounding=r, out_dtype="int16",
                     compute_dtype=t)
        for r, t in (("UPWARD", "float32"), ("TONEAREST", "float64"))
    )  # fmt: skip
    got = run(relay.Tuple([up, far]), {x: a})
    equal(got[0], (np.floor(a / 2 + 0.5) + 3).astype("int16"))
    equal(got[1], (model.away(a / 2) + 3).astype("int16"))


def test_requantize_config_is_what_calls_made_inside_hold() -> None:
    x = relay.var("x", shape=(4,), dtype="int32")

    def call() -> Any:
        return q.requantize(x, scale(0.5), zero(0), scale(1.0), zero(0))

    with q.requantize_config(rounding="TONEAREST", compute_dtype="float32"):
        inside = call()
        own = q.requantize(x, scale(0.5), zero(0), scale(1.0), zero(0), rounding="UPWARD")
    assert (inside.attrs.rounding, inside.attrs.compute_dtype) == ("TONEAREST", "float32")
    assert own.attrs.rounding == "UPWARD"
    assert (call().attrs.rounding, call().attrs.compute_dtype) == ("UPWARD", "int64")


@settings(max_examples=60, deadline=None)
@given(
    st.floats(2**-40, 2**14),
    st.floats(0.5, 1.0),
    st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=1, max_size=6),
    st.integers(-128, 127),
    st.sampled_from(["UPWARD", "TONEAREST"]),
    st.sampled_from(["int8", "int32"]),
)
def test_scales_that_are_operands_give_what_constants_give(
    before: float, behind: float, values: list[int], offset: int, rounding: str, dtype: str
) -> None:
    before = float(np.float32(before if dtype == "int8" else min(before, 0.49)))
    a = np.array(values, "int32")
    x, s = var("x", a), relay.var("s", shape=(), dtype="float32")
    z = relay.var("z", shape=(), dtype="int32")
    rest = {"rounding": rounding, "out_dtype": dtype}
    free = q.requantize(x, s, zero(0), scale(behind), z, **rest)
    fixed = q.requantize(x, scale(before), zero(0), scale(behind), zero(offset), **rest)
    given_ = (a, np.float32(before), np.int32(offset))
    want = model.requantize(a, before, 0, behind, offset, rounding=rounding, out_dtype=dtype)
    equal(interpret(relay.Function([x, s, z], free), *given_)[0], want)
    mod = relay.qnn.transform.CanonicalizeOps()(relay.IRModule.from_expr(fixed))
    equal(interpret(mod["main"], a)[0], want)


def test_scales_that_are_operands_compile() -> None:
    a, step = numbers(0, "int32", 3, 20, low=-900, high=900), np.array([0.3, 7, 1e-4], "float32")
    x, s = var("x", a), var("s", step)
    z = relay.var("z", shape=(), dtype="int32")
    y = q.requantize(x, s, zero(0), scale(0.9), z, axis=0)
    got = run(y, {x: a, s: step, z: np.array(-4, "int32")})[0]
    equal(got, model.requantize(a, step, 0, 0.9, -4, axis=0))


def test_simulated_quantize_takes_the_type_at_run_time() -> None:
    a, code = float_array(3, 4, 6), np.int32(0)
    x, t = var("x", a), relay.var("t", shape=(), dtype="int32")
    y = q.simulated_quantize(x, scale(0.05), zero(3), out_dtype=t)
    back = q.simulated_dequantize(y, scale(0.05), zero(3), in_dtype=t)
    f = relay.Function([x, t], relay.Tuple([y, back]))
    fixed = interpret(relay.Function([x], q.simulated_quantize(x, scale(0.05), zero(3))), a)[0]
    for number, dtype in ((1, "int8"), (2, "uint8"), (3, "int32")):
        made = interpret(f, a, np.int32(number))
        want = model.quantize(a, 0.05, 3, dtype=dtype)
        equal(made[0], want.astype("float32"))
        equal(made[1], model.dequantize(want, 0.05, 3))
    equal(fixed, model.quantize(a, 0.05, 3).astype("float32"))
    made = interpret(f, a, code)
    equal(made[0], a)
    equal(made[1], a)


# ------------------------------------------------------------------------------------ products

CONVS: dict[str, dict[str, Any]] = {
    "zero points are 0": {},
    "the data's": {"zx": 11, "pads": (1, 1, 1, 1)},
    "the kernel's": {"zw": 5, "x": "int8"},
    "both, with a stride": {"zx": 130, "zw": -7, "strides": (2, 2), "pads": (0, 1, 2, 1)},
    "by channel": {"zx": 3, "zw": (0, 1, -2, 3, 4, -5), "dilation": (2, 1), "pads": (1, 0, 1, 0)},
    "groups": {"zx": 9, "zw": 2, "groups": 2, "pads": (1, 1, 1, 1)},
    "depthwise": {"zx": 9, "zw": (0, 3, 1, -4), "groups": 4, "outputs": 4},
}


def test_conv2d() -> None:
    body, given_, want = [], {}, []
    for i, case in enumerate(CONVS.values()):
        k: dict[str, Any] = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilation": (1, 1),
                             "groups": 1, **case}  # fmt: skip
        zx, zw, dtype, o = (k.pop(n, d) for n, d in
                            (("zx", 0), ("zw", 0), ("x", "uint8"), ("outputs", 6)))  # fmt: skip
        a, w = numbers(i, dtype, 2, 4, 7, 6), numbers(i + 50, "int8", o, 4 // k["groups"], 3, 2)
        x, pads = var(f"x{i}", a), k.pop("pads")
        zeros = zero(*zw) if isinstance(zw, tuple) else zero(zw)
        y = q.conv2d(x, relay.const(w), zero(zx), zeros, scale(0.1), scale(0.2), (3, 2), o,
                     padding=pads, **k)  # fmt: skip
        given_[x] = a
        body.append(y)
        want.append(model.conv2d(a, w, zx, zw, pads=pads, **k))
    for got, expected in zip(run(relay.Tuple(body), given_), want, strict=True):
        equal(got, expected)


def test_conv2d_in_other_layouts_and_with_a_weight_that_is_an_operand() -> None:
    a, b = numbers(0, "uint8", 1, 5, 6, 4), numbers(1, "uint8", 3, 3, 4, 6)
    x, w, z = var("x", a), var("w", b), relay.var("z", shape=(), dtype="int32")
    attrs: dict[str, Any] = {"kernel_size": (3, 3), "channels": 6, "padding": (1, 1),
                             "data_layout": "NHWC", "kernel_layout": "HWIO"}  # fmt: skip
    fixed = q.conv2d(x, w, zero(7), zero(100), scale(0.1), scale(0.2), **attrs)
    free = q.conv2d(x, w, z, zero(100), scale(0.1), scale(0.2), **attrs)
    got = run(relay.Tuple([fixed, free]), {x: a, w: b, z: np.array(7, "int32")})
    plain = model.conv2d(
        a.transpose(0, 3, 1, 2), b.transpose(3, 2, 0, 1), 7, 100, pads=(1, 1, 1, 1)
    )
    equal(got[0], plain.transpose(0, 2, 3, 1))
    equal(got[1], got[0])


def test_conv2d_transpose_dense_and_batch_matmul() -> None:
    a, w = numbers(0, "uint8", 1, 3, 4, 5), numbers(1, "int8", 3, 2, 3, 3)
    m, n = numbers(2, "uint8", 4, 9), numbers(3, "int8", 5, 9)
    s, t = numbers(4, "int8", 2, 3, 6), numbers(5, "int8", 2, 4, 6)
    x, row, batch = var("x", a), var("row", m), var("batch", s)
    ones = (scale(0.1), scale(0.2))
    channels = (1, 2, -3, 0, 9)
    body = [
        q.conv2d_transpose(x, relay.const(w), zero(8), zero(-3), *ones, strides=(2, 2),
                           padding=(1, 0), channels=2, kernel_size=(3, 3)),
        q.conv2d_transpose(x, relay.const(w), zero(0), zero(0), *ones, channels=2,
                           kernel_size=(3, 3)),
        q.dense(row, relay.const(n), zero(8), zero(*channels), *ones, units=5),
        q.dense(row, relay.const(n), zero(0), zero(4), *ones, units=5),
        q.batch_matmul(batch, relay.const(t), zero(5), zero(-6), *ones),
        q.batch_matmul(batch, relay.const(t), zero(0), zero(0), *ones),
    ]  # fmt: skip
    got = run(relay.Tuple(body), {x: a, row: m, batch: s})
    equal(got[0], model.conv2d_transpose(a, w, 8, -3, (2, 2), (1, 0, 1, 0)))
    equal(got[1], model.conv2d_transpose(a, w, 0, 0, (1, 1), (0, 0, 0, 0)))
    wide_m, wide_n, wide_s, wide_t = (v.astype(np.int64) for v in (m, n, s, t))
    columns = np.array(channels)[:, None]
    equal(got[2], ((wide_m - 8) @ (wide_n - columns).T).astype("int32"))
    equal(got[3], (wide_m @ (wide_n - 4).T).astype("int32"))
    equal(got[4], ((wide_s - 5) @ (wide_t + 6).transpose(0, 2, 1)).astype("int32"))
    equal(got[5], (wide_s @ wide_t.transpose(0, 2, 1)).astype("int32"))


# ---------------------------------------------------------------------------------- arithmetic


def test_arithmetic() -> None:
    a, b = numbers(0, "uint8", 2, 3, 8), numbers(1, "uint8", 3, 1)
    x, y = var("x", a), var("y", b)
    scales = (scale(0.02), zero(7), scale(0.05), zero(120), scale(0.06), zero(100))
    steps = (scale(0.02, 0.03, 0.01), zero(1, 2, 3))
    body = [
        q.add(x, y, *scales), q.subtract(x, y, *scales), q.mul(x, y, *scales),
        q.add(x, y, *steps, *scales[2:], lhs_axis=1),
        q.concatenate([x, x], [scale(0.02), scale(0.05)], [zero(7), zero(9)], scale(0.03), zero(4),
                      axis=1),
        q.leaky_relu(x, 0.3, scale(0.02), zero(90), scale(0.03), zero(50)),
    ]  # fmt: skip
    got = run(relay.Tuple(body), {x: a, y: b})
    left = model.requantize(a, 0.02, 7, 0.06, 0, out_dtype="int32")
    right = model.requantize(b, 0.05, 120, 0.06, 0, out_dtype="int32")
    by_axis = model.requantize(a, (0.02, 0.03, 0.01), (1, 2, 3), 0.06, 0, 1, out_dtype="int32")
    equal(got[0], model.saturate(left + right + 100, "uint8"))
    equal(got[1], model.saturate(left - right + 100, "uint8"))
    product = (a.astype(int) - 7) * (b.astype(int) - 120)
    both = np.float32(0.02) * np.float32(0.05)
    equal(got[2], model.requantize(product, both, 0, 0.06, 100, out_dtype="uint8"))
    equal(got[3], model.saturate(by_axis + right + 100, "uint8"))
    first, second = (
        model.requantize(a, s, z, 0.03, 4, out_dtype="uint8") for s, z in ((0.02, 7), (0.05, 9))
    )
    equal(got[4], np.concatenate([first, second], 1))
    ratio = float(np.float32(0.02)) / float(np.float32(0.03))
    slope = [
        model.rescale_one(int(v) - 90, ratio * (0.3 if v < 90 else 1), "UPWARD") + 50
        for v in a.reshape(-1)
    ]
    equal(got[5], model.saturate(np.array(slope).reshape(a.shape), "uint8"))


def test_avg_pool2d_and_softmax() -> None:
    a, b = numbers(0, "uint8", 1, 3, 7, 6), numbers(1, "int8", 4, 10, low=-60, high=60)
    x, y = var("x", a), var("y", b)
    same = (scale(0.1), zero(30), scale(0.1), zero(30))
    other = (scale(0.1), zero(30), scale(0.07), zero(5))
    nchw = {"layout": "NCHW", "pool_size": (3, 2)}
    body = [
        q.avg_pool2d(x, *same, strides=(2, 2), **nchw),
        q.avg_pool2d(x, *other, strides=(1, 1), padding=(1, 1), count_include_pad=False, **nchw),
        q.avg_pool2d(x, *other, strides=(1, 1), padding=(1, 1), **nchw),
        q.softmax(y, scale(0.1), zero(5), scale(1 / 256), zero(-128)),
        q.softmax(y, scale(0.1), zero(5), scale(1 / 256), zero(-128), axis=0),
    ]
    got = run(relay.Tuple(body), {x: a, y: b})
    none, one = (0, 0, 0, 0), (1, 1, 1, 1)
    means = [
        model.avg_pool2d(a, 30, (3, 2), (2, 2), none, True),
        model.avg_pool2d(a, 30, (3, 2), (1, 1), one, False),
        model.avg_pool2d(a, 30, (3, 2), (1, 1), one, True),
    ]
    for g, m, (s, z) in zip(got, means, ((0.1, 30), (0.07, 5), (0.07, 5)), strict=False):
        equal(g, model.requantize(m, 0.1, 0, s, z, out_dtype="uint8"))
    for g, axis in zip(got[3:], (1, 0), strict=True):
        shares = model.softmax(b, 0.1, axis)
        equal(g, model.requantize(shares, 2.0**-30, 0, 1 / 256, -128))
        real = np.exp(b * 0.1) / np.exp(b * 0.1).sum(axis, keepdims=True)
        assert np.abs((g.astype(int) + 128) / 256 - real).max() <= 1 / 256


# ------------------------------------------------------------------------------------- functions

ERF = np.vectorize(__import__("math").erf)
FUNCTIONS: dict[str, Any] = {
    "tanh": np.tanh, "exp": np.exp, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": ERF, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "log": np.log, "abs": np.abs,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_functions_are_looked_up(dtype: str) -> None:
    info = np.iinfo(dtype)
    a = np.arange(info.min, info.max + 1, dtype=dtype)
    x, shift = var("x", a), info.min + 128
    body = [getattr(q, n)(x, scale(0.04), zero(shift), scale(0.03), zero(shift)) for n in FUNCTIONS]
    got = run(relay.Tuple(body), {x: a})
    with np.errstate(all="ignore"):
        for g, fn in zip(got, FUNCTIONS.values(), strict=True):
            real = np.asarray(fn(model.dequantize(a, 0.04, shift).astype(np.float64)), np.float64)
            steps = np.where(np.isnan(real), 0, real) / float(np.float32(0.03))
            clear = np.abs(np.abs(steps - np.trunc(steps)) - 0.5) > 1e-4
            want = np.clip(model.away(steps) + shift, info.min, info.max)
            np.testing.assert_array_equal(g[clear], want[clear])
            assert clear.sum() > 240
