"""quantize, dequantize and requantize of the core: compiled, in numpy, as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt
from smelt.frontend.source import import_model
from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Function, Var, call, constant

INTEGERS = ("int8", "uint8", "int16", "uint16", "int4", "uint4")
Array = np.ndarray[Any, Any]


def function(name: str, x: Array, *operands: Any, **attrs: Any) -> Function:
    """One call; the data is a parameter, scales and zero points are constants."""
    p = Var("x", tensor_type(x.shape, str(x.dtype)))
    others = [None if o is None else constant(np.asarray(o)) for o in operands]
    return Function((p,), call(name, p, *others, **attrs))


def check(name: str, x: Array, *operands: Any, **attrs: Any) -> Array:
    """Numpy's meaning and compiled code agree, and the text reads back; gives the result."""
    f = function(name, x, *operands, **attrs)
    mod = IRModule({"main": f})
    text = mod.script()
    assert smelt.script.parse(text, constants="zeros").script() == text
    (expected,) = interpret(f, x)
    found = np.asarray(smelt.compile(mod, threads=1)(x))
    assert found.dtype == expected.dtype
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=2e-3 if found.itemsize == 2 else 1e-6)
    else:
        np.testing.assert_array_equal(found.astype("int64"), expected.astype("int64"))
    return found


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Random elements of a type, its ends among them."""
    random = np.random.default_rng(seed)
    if dtype.startswith("float"):
        x = random.normal(0, 40, shape)
        x.flat[::3] = np.round(x.flat[::3] * 2) / 2  # halves
        return x.astype(dtype)
    ends = np.iinfo(dtype)
    whole = random.integers(ends.min, ends.max, shape, endpoint=True)
    whole.flat[0] = ends.min
    return whole.astype(dtype)


@given(
    st.sampled_from(INTEGERS),
    st.sampled_from(["even", "away", "up"]),
    st.sampled_from(["float32", "float64", "float16"]),
    st.sampled_from([None, 0, 1, -1]),
    st.booleans(),
    st.integers(0, 1 << 16),
)
def test_quantize(
    dtype: str, rounding: str, given: str, axis: int | None, moved: bool, seed: int
) -> None:
    x = numbers((2, 3, 5), given, seed)
    count = () if axis is None else (x.shape[axis],)
    scale = np.random.default_rng(seed).choice([0.5, 1.0, 2.0], count).astype("float32")
    zero = np.full(count, 3, "int32") if moved else None
    check("quantize", x, scale, zero, axis=axis or 0, out_dtype=dtype, rounding=rounding)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("out_dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_dequantize(dtype: str, out_dtype: str, axis: int | None) -> None:
    x = numbers((4, 6), dtype, 1)
    x = x // (1 << 12) if dtype == "int32" else x // 8
    count = () if axis is None else (x.shape[axis],)
    scale = np.linspace(0.01, 0.02, x.shape[axis or 0], dtype="float32")[: count[0] if count else 1]
    zero = np.full(count, 5, dtype)
    check("dequantize", x, scale.reshape(count), zero, axis=axis or 0, out_dtype=out_dtype)


@given(
    st.sampled_from(["int8", "uint8", "int16"]),
    st.sampled_from(
        [
            *[("int64", r) for r in ("up", "away", "twice")],
            *[("float32", r) for r in ("even", "away", "up")],
        ]
    ),
    st.booleans(),
    st.integers(0, 1 << 16),
)
def test_requantize(dtype: str, how: tuple[str, str], along: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    x = random.integers(-(1 << 20), 1 << 20, (3, 7)).astype("int32")
    scale = random.uniform(1e-5, 1e-3, (7,) if along else ()).astype("float32")
    check(
        "requantize", x, scale, np.int32(4), np.float32(0.25), np.int32(-2),
        axis=1, out_dtype=dtype, rounding=how[1], compute_dtype=how[0],
    )  # fmt: skip


def test_numbers_of_known_values() -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e9, -1e9], "float32")
    one = np.float32(1)
    ends = [127, -128]
    assert check("quantize", x, one).tolist() == [-2, -2, 0, 0, 2, 2, *ends]
    assert check("quantize", x, one, rounding="away").tolist() == [-3, -2, -1, 1, 2, 3, *ends]
    assert check("quantize", x, one, rounding="up").tolist() == [-2, -1, 0, 1, 2, 3, *ends]
    far = np.array([-1e30, 1e30], "float32")
    assert check("quantize", far, one, out_dtype="int32").tolist() == [-(1 << 31), (1 << 31) - 128]


def test_scales_of_blocks_broadcast() -> None:
    x = numbers((4, 3, 2), "float32", 0)
    scale = np.linspace(0.5, 1, 12, dtype="float32").reshape(4, 3, 1)
    y = check("quantize", x, scale, out_dtype="int8")
    check("dequantize", y, scale)


def test_wrong_operands() -> None:
    x, one = numbers((2, 3), "float32", 0), np.float32(1)
    for text, name, operands, attrs in (
        ("'down'; legal: 'even', 'away', 'up'", "quantize", (x, one), {"rounding": "down"}),
        ("out_dtype='float32'; legal: an integer", "quantize", (x, one), {"out_dtype": "float32"}),
        ("the data is int32", "quantize", (x.astype("int32"), one), {}),
        ("scale has the shape", "quantize", (x, np.ones(4, "float32")), {"axis": 1}),
        ("zero_point is float32", "quantize", (x, one, one), {}),
        ("zero_point is float32", "quantize", (x, one, np.ones((2, 3), "float32")), {}),
        ("broadcasts to it", "quantize", (x, np.ones((4, 2, 3), "float32")), {}),
        ("broadcasts to it", "quantize", (x, np.ones((2, 2), "float32")), {}),
        ("rounding='even'; legal: 'up', 'away', 'twice'", "requantize",
         (x.astype("int32"), one, None, one), {"rounding": "even"}),
        ("compute_dtype='int8'", "requantize",
         (x.astype("int32"), one, None, one), {"compute_dtype": "int8"}),
    ):  # fmt: skip
        with pytest.raises(TypeMismatch, match=text):
            function(name, *operands, **attrs)


def test_they_stay_in_an_imported_model() -> None:
    made = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 21]>
        net (float[2, 3] x) => (float[2, 3] z) <float s = {0.1}, uint8 zp = {3}>
        { q = QuantizeLinear (x, s, zp) z = DequantizeLinear (q, s, zp) }""")
    body: Any = import_model(made)["main"].body
    assert [body.callee, body.args[0].callee] == ["dequantize", "quantize"]
