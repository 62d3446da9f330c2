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
from smelt.relax.interpret import interpret
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
        ("y = Div (a, eight)", False),
        ("y = Div (a, minus)", True),
        ("y = Div (eight, a)", True),
        ("y = Floor (a)", True),
        ("y = Sigmoid (a)", False),  # a table
        ("y = AveragePool <kernel_shape = [2, 2]> (a)", True),
        ("y = Clip (a, low, high)", True),
        ("d = DequantizeLinear (x, ys, yz) y = Add (a, d)", True),
    ],
)
def test_only_what_is_exact(body: str, stays: bool) -> None:
    m = model(
        f"a = DequantizeLinear (x, xs, xz) {body} z = QuantizeLinear (y, ys, yz)",
        "uint8[1, 3, 8, 8] x", "uint8[a, b, c, d] z", axes=np.array([2, 3]),
        low=np.float32(0), high=np.float32(6), eight=np.float32(8), minus=np.float32(-8), **SCALES,
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


@st.composite
def attentions(draw: Any) -> tuple[onnx.ModelProto, list[np.ndarray[Any, Any]], int]:
    """A quantized product of two computed operands, the axes' sizes known or not, and bytes; how
    many terms each of its sums has."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    kinds = [draw(st.sampled_from(["uint8", "int8"])) for _ in range(3)]
    ends = [np.iinfo(k) for k in kinds]
    zeros = {
        f"{n}z": np.asarray(draw(st.sampled_from([e.min, e.max, 0, 100])), e.dtype)
        for n, e in zip("aby", ends, strict=True)
    }
    m, k = draw(st.sampled_from([1, 5, 16])), draw(st.sampled_from([1, 7, 16, 33]))
    n = draw(st.sampled_from([1, 8, 19, 40]))
    batch = draw(st.sampled_from([((2, 3), (2, 3)), ((), (3,)), ((2, 1), (1, 3)), ((4,), ())]))
    arrays = [
        rng.integers(e.min, e.max + 1, (*b, *last)).astype(e.dtype)
        for e, b, last in zip(ends, batch, [(m, k), (k, n)], strict=False)
    ]
    known = draw(st.booleans())
    names = [["s", "t"], ["t", "r"]]
    shapes = [
        [*a.shape] if known else [*(f"b{len(b) - i}" if e > 1 else e for i, e in enumerate(b)), *v]
        for a, b, v in zip(arrays, batch, names, strict=True)
    ]
    inputs = [
        f"{kind}[{', '.join(map(str, shape))}] {name}"
        for kind, shape, name in zip(kinds, shapes, "ab", strict=False)
    ]
    rank = max(len(b) for b in batch) + 2
    step = np.float32(0.02 * 0.03 * max(k, 4) ** 0.5 * draw(st.floats(10, 100)))
    made = model(
        "x = DequantizeLinear (a, as, az) w = DequantizeLinear (b, bs, bz) p = MatMul (x, w) "
        "y = QuantizeLinear (p, ys, yz)",
        ", ".join(inputs), f"{kinds[2]}[{', '.join('cdefgh'[:rank])}] y",
        **{"as": np.float32(0.02), "bs": np.float32(0.03), "ys": step}, **zeros,
    )  # fmt: skip
    return made, arrays, k


@given(case=attentions(), level=st.sampled_from([2, 3]))
@settings(max_examples=16, deadline=None)
def test_products_of_computed_operands_are_of_integers(case: Any, level: int) -> None:
    m, (a, b), terms = case
    before = from_onnx(m)
    made = compute_in_integers(before)
    assert "dequantize" not in operators(made)
    assert products_of(before).integers == 1
    got = smelt.compile(m, opt_level=level, threads=1)(a, b).numpy()
    np.testing.assert_array_equal(got, interpret(made["main"], a, b)[0])
    numbers = {i.name: numpy_helper.to_array(i) for i in m.graph.initializer}
    left, right = (v.astype(np.int64) - int(numbers[f"{n}z"]) for v, n in ((a, "a"), (b, "b")))
    sums = np.matmul(left, right) * (0.02 * 0.03 / float(numbers["ys"]))
    ends = np.iinfo(got.dtype)
    wanted = np.clip(np.rint(sums) + int(numbers["yz"]), ends.min, ends.max)
    away = np.abs(got.astype(int) - wanted)
    assert away.max(initial=0) <= 1
    assert np.all((away == 0) | (np.abs(sums % 1 - 0.5) < 1e-3))
    (peer,) = reference(m, {"a": a, "b": b}, optimized=False)
    assert np.abs(got.astype(int) - peer.astype(int)).max(initial=0) <= 1
    assert terms == a.shape[-1]


def test_rows_of_bytes_are_read_and_written_as_bytes() -> None:
    """A product hands on bytes; softmax takes the dequantizing, and the work after it."""
    m = model(
        "x = DequantizeLinear (a, xs, xz) w = DequantizeLinear (b, xs, xz) p = MatMul (x, w) "
        "pq = QuantizeLinear (p, ys, yz) pd = DequantizeLinear (pq, ys, yz) s = Add (pd, mask) "
        "r = Softmax <axis = -1> (s) z = QuantizeLinear (r, share, none)",
        "uint8[2, 5, 8] a, uint8[2, 8, 16] b, float[5, 16] mask", "uint8[2, 5, 16] z",
        share=np.float32(1 / 256), none=np.uint8(0), **SCALES,
    )  # fmt: skip
    exe = smelt.compile(m, threads=1)
    (rows,) = [k for k in exe.metadata["kernels"] if "softmax" in k["name"]]
    assert rows["name"].startswith("fused_cast_")
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 256, s).astype("uint8") for s in ((2, 5, 8), (2, 8, 16)))
    mask = np.where(rng.random((5, 16)) < 0.2, -1e4, 0).astype("float32")
    (peer,) = reference(m, {"a": a, "b": b, "mask": mask}, optimized=False)
    assert np.abs(exe(a, b, mask).numpy().astype(int) - peer.astype(int)).max() <= 1


def test_numbers_quantized_again_as_they_were_stay() -> None:
    text = (
        "a = DequantizeLinear (x, xs, xz) r = Reshape (a, shape) q = QuantizeLinear (r, xs, xz) "
        "b = DequantizeLinear (q, xs, xz) t = Transpose (b) z = QuantizeLinear (t, xs, {})"
    )
    x = np.arange(250, 256, dtype="uint8")
    for zero, kept in (("xz", True), ("yz", False)):
        given = {"shape": np.array([2, 3]), **SCALES}
        m = model(text.format(zero), "uint8[6] x", "uint8[3, 2] z", **given)
        found = operators(compute_in_integers(from_onnx(m)))
        assert ("requantize" in found) is not kept
        assert "quantize" not in found
        wanted = x.reshape(2, 3).T.astype(int) + (0 if kept else 113)
        np.testing.assert_array_equal(smelt.compile(m)(x).numpy(), np.minimum(wanted, 255))


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
