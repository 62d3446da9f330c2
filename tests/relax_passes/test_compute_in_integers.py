"""Dequantized numbers are multiplied, moved and chosen from as integers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.relax.nodes import Call, values
from smelt.relax.transform.compute_in_integers import compute_in_integers, products_of
from tests.frontend.models import reference

HEAD = '<ir_version: 9, opset_import: ["": 21]>'


def model(body: str, inputs: str, outputs: str, **constants: Any) -> onnx.ModelProto:
    """A graph whose constants are given as arrays."""
    made = onnx.parser.parse_model(f"{HEAD} net ({inputs}) => ({outputs}) {{ {body} }}")
    given = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    made.graph.initializer.extend(given)
    return made


def operators(mod: Any) -> list[str]:
    """Operators of a module in the order in which they are computed."""
    return [v.callee for v in values(mod["main"].body) if isinstance(v, Call)]


SCALES = {"xs": np.float32(0.05), "xz": np.uint8(7), "ys": np.float32(0.11), "yz": np.uint8(120)}


def test_products_are_of_integers() -> None:
    m = model(
        "a = DequantizeLinear (x, xs, xz) v = DequantizeLinear <axis = 0> (w, ws) "
        "b = DequantizeLinear <axis = 0> (bias, bs) y = Conv <pads = [1, 1, 1, 1]> (a, v, b) "
        "r = Relu (y) z = QuantizeLinear (r, ys, yz)",
        "uint8[1, 3, 8, 8] x", "uint8[1, 4, 8, 8] z",
        w=np.arange(108, dtype="int8").reshape(4, 3, 3, 3),
        ws=np.array([0.1, 0.2, 0.3, 0.4], "float32"),
        bias=np.array([1, -2, 3, 4], "int32"),
        bs=np.array([0.005, 0.01, 0.015, 0.02], "float32"), **SCALES,
    )  # fmt: skip
    found = operators(compute_in_integers(from_onnx(m)))
    assert found.count("conv2d") == 1
    assert "dequantize" not in found
    assert found[-1] == "requantize"
    assert "relu" in found


def test_a_zero_point_is_the_border_of_a_convolution() -> None:
    m = model(
        "a = DequantizeLinear (x, xs, xz) v = DequantizeLinear (w, xs) "
        "y = Conv <pads = [1, 1, 1, 1], group = 3> (a, v) z = QuantizeLinear (y, ys, yz)",
        "uint8[1, 3, 8, 8] x", "uint8[1, 3, 8, 8] z",
        w=np.arange(27, dtype="int8").reshape(3, 1, 3, 3), **SCALES,
    )  # fmt: skip
    made = compute_in_integers(from_onnx(m))
    assert "pad" not in operators(made)
    (conv,) = [v for v in values(made["main"].body) if isinstance(v, Call) and v.callee == "conv2d"]
    assert conv.attrs["border"] == 7
    assert "border=7" in made.script()


@pytest.mark.parametrize(
    ("body", "stays"),
    [
        ("y = MaxPool <kernel_shape = [2, 2]> (a)", False),
        ("y = Transpose <perm = [0, 2, 3, 1]> (a)", False),
        ("y = ReduceMean <keepdims = 1> (a, axes)", False),
        ("y = Concat <axis = 1> (a, a)", False),
        ("y = Add (a, a)", False),
        ("y = Sigmoid (a)", True),
        ("y = AveragePool <kernel_shape = [2, 2]> (a)", True),
        ("y = Clip (a, low, high)", True),
        ("d = DequantizeLinear (x, ys, yz) y = Add (a, d)", True),
    ],
)
def test_only_what_is_exact(body: str, stays: bool) -> None:
    m = model(
        f"a = DequantizeLinear (x, xs, xz) {body} z = QuantizeLinear (y, ys, yz)",
        "uint8[1, 3, 8, 8] x", "uint8[a, b, c, d] z", axes=np.array([2, 3]),
        low=np.float32(0), high=np.float32(6), **SCALES,
    )  # fmt: skip
    before = from_onnx(m)
    found = operators(compute_in_integers(before))
    assert ("dequantize" in found) is stays
    if stays:
        assert found == operators(before)
    x = np.random.default_rng(0).integers(0, 256, (1, 3, 8, 8)).astype("uint8")
    (wanted,) = reference(m, {"x": x})
    got = smelt.compile(m)(x).numpy()
    assert np.abs(got.astype(int) - wanted.astype(int)).max() <= 1


def test_numbers_of_16_bits_stay_in_floats() -> None:
    m = model(
        "a = DequantizeLinear (x, xs) v = DequantizeLinear (w, xs) y = MatMul (a, v)",
        "int16[2, 3] x", "float[2, 4] y", w=np.ones((3, 4), "int8"), xs=np.float32(0.1),
    )  # fmt: skip
    assert "dequantize" in operators(compute_in_integers(from_onnx(m)))


def test_models_without_quantized_numbers_are_as_before() -> None:
    mod = from_onnx(model("y = Relu (x)", "float[3] x", "float[3] y"))
    assert compute_in_integers(mod) is mod


@st.composite
def layers(draw: Any) -> tuple[onnx.ModelProto, np.ndarray[Any, Any]]:
    """A quantized convolution or product, what may be behind it, and bytes for it."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    kind = draw(st.sampled_from(["uint8", "int8"]))
    ends = np.iinfo(kind)
    zeros = [np.asarray(draw(st.integers(ends.min, ends.max)), kind) for _ in range(2)]
    c, o = draw(st.integers(1, 9)), draw(st.sampled_from([1, 4, 8, 24]))
    relu = draw(st.booleans())
    body = "a = DequantizeLinear (x, xs, xz) v = DequantizeLinear <axis = {}> (w, ws) "
    body += "b = DequantizeLinear <axis = 0> (bias, bs) "
    scale = np.float32(0.02)
    step = rng.uniform(0.001, 0.01, o).astype("float32")
    numbers = {"xs": scale, "xz": zeros[0], "ws": step, "bs": scale * step,
               "bias": rng.integers(-999, 999, o).astype("int32"),
               "ys": np.float32(draw(st.floats(0.005, 0.5))), "yz": zeros[1]}  # fmt: skip
    if draw(st.booleans()):
        k, p = draw(st.sampled_from([(1, 0), (3, 1), (3, 0), (5, 2)]))
        s = draw(st.sampled_from([1, 2]))
        shape: tuple[int, ...] = (1, c, 7, 9)
        w = rng.integers(-64, 65, (o, c, k, k))  # more would overflow in onnxruntime without VNNI
        body = body.format(0) + f"y = Conv <pads = [{p}, {p}, {p}, {p}], strides = [{s}, {s}]> "
        body += "(a, v, b) "
    else:
        shape, w = (5, c), rng.integers(-64, 65, (c, o))
        body = body.format(1) + "p = MatMul (a, v) y = Add (p, b) "
    body += f"r = {'Relu' if relu else 'Identity'} (y) z = QuantizeLinear (r, ys, yz)"
    sizes = ", ".join(map(str, shape))
    out = ", ".join("abcd"[: len(shape)])
    m = model(body, f"{kind}[{sizes}] x", f"{kind}[{out}] z", w=w.astype("int8"), **numbers)
    return m, rng.integers(ends.min, ends.max + 1, shape).astype(kind)


@given(case=layers(), level=st.sampled_from([2, 3]))
@settings(max_examples=60, deadline=None)
def test_layers_agree_with_onnxruntime(case: Any, level: int) -> None:
    """At most one step: where it adds up floats, a number may lie on the other side of a half."""
    m, x = case
    (wanted,) = reference(m, {"x": x})
    got = smelt.compile(m, opt_level=level, threads=1)(x).numpy()
    away = np.abs(got.astype(int) - wanted.astype(int))
    assert away.max() <= 1
    assert (away > 0).mean() <= 0.02


def test_what_stays_in_floats_is_said() -> None:
    m = model(
        "x = DequantizeLinear (a, xs, xz) v = DequantizeLinear (w, xs) p = MatMul (x, v) "
        "z = QuantizeLinear (p, ys, yz) floats = MatMul (x, t) small = MatMul (f, v) "
        "v16 = DequantizeLinear (w16, xs) wide = MatMul (x, v16) plain = MatMul (f, c)",
        "uint8[2, 4] a, float[2, 4] f, float[4, 3] t",
        "uint8[2, 3] z, float[2, 3] floats, float[2, 3] small, float[2, 3] wide, float[2, 3] plain",
        w=np.ones((4, 3), "int8"), w16=np.ones((4, 3), "int16"), c=np.ones((4, 3), "float32"),
        **SCALES,
    )  # fmt: skip
    found = products_of(from_onnx(m))
    assert (found.integers, found.small) == (1, 1)
    assert dict(found.floats) == {
        "floats": "the variable t is not quantized",
        "wide": "an operand is int16; legal: 8 bits",
    }


def test_check_says_it(tmp_path: Path) -> None:
    m = model(
        "x = DequantizeLinear (a, xs, xz) v = DequantizeLinear (w, xs) p = MatMul (x, v) "
        "z = QuantizeLinear (p, ys, yz) q = MatMul (x, t) s = MatMul (f, v)",
        "uint8[2, 4] a, float[2, 4] f, float[4, 3] t",
        "uint8[2, 3] z, float[2, 3] q, float[2, 3] s",
        w=np.ones((4, 3), "int8"), **SCALES,
    )  # fmt: skip
    onnx.save(m, tmp_path / "m.onnx")
    command = [sys.executable, "-m", "smelt", "check", str(tmp_path / "m.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "1 of 2 products of quantized numbers are computed in integers" in done.stdout
    assert "products of floats with weights of few bits, which stay so: 1" in done.stdout
    assert "q is computed in floats: the variable t is not quantized" in done.stderr
