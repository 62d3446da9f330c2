"""Quantized operators against onnxruntime, number for number."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.ir.errors import ImportFailure, TypeMismatch, Unsupported
from smelt.relax.interpret import interpret

from .models import check, model, node, random, reference

Array = np.ndarray
RNG = np.random.default_rng


def whole(dtype: str, *shape: int, seed: int = 0) -> Array:
    info: Any = np.iinfo(dtype)
    return RNG(seed).integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def weights(types: tuple[str, str], *shape: int) -> Array:
    """onnxruntime adds pairs of products of uint8 and int8 in 16 bits where the CPU has no VNNI:
    with these weights they stay in range."""
    whole_range = whole(types[1], *shape, seed=1)
    return whole_range >> 1 if types == ("uint8", "int8") else whole_range


def f32(*values: float) -> Array:
    return np.array(values if len(values) > 1 else values[0], np.float32)


def single(
    op: str, inputs: dict[str, Array], constants: dict[str, Array], version: int = 21, **attrs: Any
) -> onnx.ModelProto:
    """A model of one node whose operands stand in the order of their names."""
    domain = attrs.pop("domain", "")
    names = sorted([*inputs, *constants])
    made = node(op, names, domain=domain, **attrs)
    kinds = {n: (a.shape, a.dtype) for n, a in inputs.items()}
    m = model([made], kinds, constants=constants, opset=version)
    if domain:
        m.opset_import.append(helper.make_opsetid(domain, 1))
    return m


def ours(m: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array]:
    f = from_onnx(m)["main"]
    return [np.asarray(v) for v in interpret(f, *[inputs[p.name] for p in f.params])]


def evaluated(m: onnx.ModelProto, x: Array) -> Array:
    """What the reference of ONNX gives for the operand "a"."""
    found: Any = ReferenceEvaluator(m).run(None, {"a": x})
    return np.asarray(found[0])


# --------------------------------------------------------------------------- there and back


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("axis", [None, 1, -1])
def test_quantize_and_dequantize(dtype: str, axis: int | None) -> None:
    count = () if axis is None else (3,) if axis == 1 else (5,)
    scale = RNG(0).uniform(0.01, 0.1, count).astype(np.float32)
    zero = whole("int8", *count, seed=1).astype(dtype)
    attrs = {} if axis is None else {"axis": axis}
    x = random(2, 3, 5, seed=2) * 3
    check(single("QuantizeLinear", {"a": x}, {"b": scale, "c": zero}, **attrs), {"a": x})
    q = whole(dtype, 2, 3, 5)
    check(single("DequantizeLinear", {"a": q}, {"b": scale, "c": zero}, **attrs), {"a": q})
    # without a zero point, and with both computed at run time
    plain = {"output_dtype": helper.np_dtype_to_tensor_dtype(np.dtype(dtype))}
    check(single("QuantizeLinear", {"a": x}, {"b": scale}, **attrs, **plain), {"a": x})
    given = {"a": x, "b": scale, "c": zero}
    check(single("QuantizeLinear", given, {}, **attrs), given)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int4", "uint4"])
@pytest.mark.parametrize("extent", [8, 7])
def test_blocks(dtype: str, extent: int) -> None:
    """Whole blocks, and a last one that is cut off; the reference takes whole ones only."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    scale = RNG(0).uniform(0.1, 1, (2, 4, 3)).astype(np.float32)
    zero = RNG(1).integers(0, 8, (2, 4, 3)).astype(kind)
    x = random(2, extent, 3) * 2
    q = RNG(2).integers(0, 8, (2, extent, 3)).astype(kind)
    constants = {"b": scale, "c": zero}
    attrs = {"axis": 1, "block_size": 2}
    there = ours(single("QuantizeLinear", {"a": x}, constants, **attrs), {"a": x})[0]
    back = ours(single("DequantizeLinear", {"a": q}, constants, **attrs), {"a": q})[0]
    s, z = (np.repeat(v.astype(np.float32), 2, axis=1)[:, :extent] for v in (scale, zero))
    info = ml_dtypes.iinfo(kind)
    np.testing.assert_array_equal(
        there, np.clip(np.rint(x / s) + z, info.min, info.max).astype(kind)
    )
    np.testing.assert_array_equal(back, (q.astype(np.float32) - z) * s)
    if extent == 8:
        m = single("QuantizeLinear", {"a": x}, constants, **attrs)
        np.testing.assert_array_equal(there, evaluated(m, x))


@pytest.mark.parametrize(
    "dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float4_e2m1fn"]
)
@pytest.mark.parametrize("saturate", [0, 1])
def test_floats_of_few_bits(dtype: str, saturate: int) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype))
    x = np.concatenate([random(60) * 300, f32(1e6, -1e6, np.inf, 0.0)])
    m = single("QuantizeLinear", {"a": x}, {"b": f32(0.5), "c": np.zeros((), kind)},
               saturate=saturate)  # fmt: skip
    with np.errstate(all="ignore"):
        want = evaluated(m, x)
        np.testing.assert_array_equal(ours(m, {"a": x})[0].view("u1"), want.view("u1"))
    back = single("DequantizeLinear", {"a": want}, {"b": f32(0.5), "c": np.zeros((), kind)})
    np.testing.assert_array_equal(
        ours(back, {"a": want})[0], want.astype(np.float32) * np.float32(0.5)
    )


def test_the_division_has_a_precision() -> None:
    """A float16 divided in float16 rounds to another integer than one divided in float32."""
    x = np.linspace(-900, 900, 701).astype(np.float16)
    scale = np.array(0.7, np.float16)
    half, full = (
        ours(single("QuantizeLinear", {"a": x}, {"b": scale, "c": np.zeros((), np.int16)},
                    version=23, **attrs), {"a": x})[0]
        for attrs in ({}, {"precision": onnx.TensorProto.FLOAT})
    )  # fmt: skip
    np.testing.assert_array_equal(half, np.rint((x / scale).astype(np.float32)).astype(np.int16))
    exact = x.astype(np.float32) / scale.astype(np.float32)
    np.testing.assert_array_equal(full, np.rint(exact).astype(np.int16))
    assert (half != full).any()


def test_dynamic_quantization() -> None:
    x = random(4, 9)
    m = model(
        [node("DynamicQuantizeLinear", ["a"], ["y", "s", "z"])], {"a": (x.shape, "float32")},
        ["y", "s", "z"],
    )  # fmt: skip
    for values in (x, np.abs(x) + 1, -np.abs(x)):
        check(m, {"a": values})


# ------------------------------------------------------------------------------------ products


@pytest.mark.parametrize("types", [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")])
@pytest.mark.parametrize("known", [True, False])
def test_matmul_integer(types: tuple[str, str], known: bool) -> None:
    a, b = whole(types[0], 2, 5, 7), weights(types, 7, 4)
    za, zb = np.array(9, types[0]), whole(types[1], 4, seed=2)
    rest = {"b": b, "c": za, "d": zb}
    given = {"a": a} if known else {"a": a, **rest}
    check(single("MatMulInteger", given, rest if known else {}), given)
    check(single("MatMulInteger", {"a": a}, {"b": b}), {"a": a})


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_zero_points_of_rows(dtype: str) -> None:
    a, b = whole("uint8", 2, 5, 7), whole(dtype, 2, 7, 4, seed=1)
    rows = whole("uint8", 5, seed=2)
    columns = whole(dtype, 2, 1, 4, seed=3)
    got = ours(single("MatMulInteger", {"a": a}, {"b": b, "c": rows, "d": columns}), {"a": a})[0]
    want = (a.astype(int) - rows[:, None]) @ (b.astype(int) - columns)
    np.testing.assert_array_equal(got, want)
    v = whole("int8", 7)
    y = ours(single("MatMulInteger", {"a": v}, {"b": b[0]}), {"a": v})[0]
    np.testing.assert_array_equal(y, v.astype(int) @ b[0].astype(int))


@pytest.mark.parametrize("types", [("uint8", "int8"), ("int8", "int8")])
def test_qlinear_matmul(types: tuple[str, str]) -> None:
    a, b = whole(types[0], 2, 5, 7), weights(types, 7, 4)
    columns = RNG(0).uniform(0.002, 0.004, 4).astype(np.float32)
    for scale, zero in ((f32(0.003), np.array(0, types[1])), (columns, np.zeros(4, types[1]))):
        constants = {
            "b": f32(0.02), "c": np.array(5, types[0]), "d": b, "e": scale, "f": zero,
            "g": f32(0.02), "h": np.array(7, types[0]),
        }  # fmt: skip
        check(single("QLinearMatMul", {"a": a}, constants), {"a": a})


@pytest.mark.parametrize("zeros", [(0, 0), (9, 0), (0, 77), (9, 77)])
@pytest.mark.parametrize("known", [True, False])
def test_conv_integer(zeros: tuple[int, int], known: bool) -> None:
    x, w = whole("uint8", 1, 4, 6, 7), whole("uint8", 6, 2, 3, 3, seed=1)
    rest = {"b": w, "c": np.array(zeros[0], "uint8"), "d": np.array(zeros[1], "uint8")}
    given = {"a": x} if known else {"a": x, **rest}
    m = single("ConvInteger", given, rest if known else {},
               pads=[1, 0, 2, 1], strides=[2, 1], group=2)  # fmt: skip
    check(m, given)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("types", [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
def test_qlinear_conv(rank: int, types: tuple[str, str]) -> None:
    """One scale for each output channel, a bias, a border that stands for 0."""
    x = whole(types[0], 2, 3, *[8] * rank)
    w = weights(types, 6, 3, *[3] * rank)
    scale = RNG(0).uniform(0.002, 0.004, 6).astype(np.float32)
    zero = np.full(6, 0 if types[1] == "int8" else 120, types[1])
    constants = {
        "b": f32(0.02), "c": np.array(11, types[0]), "d": w, "e": scale, "f": zero,
        "g": f32(0.06), "h": np.array(3, types[0]),
        "i": RNG(1).integers(-4000, 4000, 6).astype(np.int32),
    }  # fmt: skip
    check(single("QLinearConv", {"a": x}, constants, pads=[1] * 2 * rank), {"a": x})


# ----------------------------------------------------------------------------- com.microsoft


def near(m: onnx.ModelProto, inputs: dict[str, Array], steps: int = 0) -> None:
    """onnxruntime's numbers; `steps` apart where it looks results up in its own arithmetic."""
    for got, want in zip(ours(m, inputs), reference(m, inputs), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if steps or got.dtype.kind in "iu":
            assert np.abs(got.astype(int) - want.astype(int)).max() <= steps
        else:
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())


def declared(m: onnx.ModelProto, dtype: str, *shape: int) -> onnx.ModelProto:
    """The model with its result's type, which inference does not know."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    m.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", element, shape))
    return m


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_qlinear_arithmetic(op: str) -> None:
    a, b = whole("uint8", 3, 5), whole("uint8", 5, seed=1)
    zero = np.array(100, "uint8")
    constants = {"b": f32(0.02), "c": zero, "d": b, "e": f32(0.013), "f": zero,
                 "g": f32(0.03), "h": np.array(90, "uint8")}  # fmt: skip
    m = single(op, {"a": a}, constants, domain="com.microsoft")
    near(declared(m, "uint8", 3, 5), {"a": a}, 1)


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {"alpha": 0.2}),
        ("QLinearSoftmax", {"axis": -1, "opset": 13}),
    ],
)
def test_qlinear_functions(op: str, attrs: dict[str, Any]) -> None:
    x = whole("uint8", 3, 5)
    constants = {"b": f32(0.04), "c": np.array(100, "uint8"), "d": f32(1 / 256),
                 "e": np.array(0, "uint8")}  # fmt: skip
    m = single(op, {"a": x}, constants, domain="com.microsoft", **attrs)
    near(declared(m, "uint8", 3, 5), {"a": x}, 1)


@pytest.mark.parametrize("last", [0, 1])
def test_qlinear_pools(last: int) -> None:
    x = whole("uint8", 2, 4, 6, 4)
    constants = {"b": f32(0.04), "c": np.array(100, "uint8"), "d": f32(0.03),
                 "e": np.array(90, "uint8")}  # fmt: skip
    m = single("QLinearGlobalAveragePool", {"a": x}, constants, domain="com.microsoft",
               channels_last=last)  # fmt: skip
    shape = (2, 1, 1, 4) if last else (2, 4, 1, 1)
    near(declared(m, "uint8", *shape), {"a": x}, 1)
    m = single("QLinearAveragePool", {"a": x}, constants, domain="com.microsoft",
               channels_last=last, kernel_shape=[2, 2])  # fmt: skip
    shape = (2, 3, 5, 4) if last else (2, 4, 5, 3)
    near(declared(m, "uint8", *shape), {"a": x}, 1)


def test_qlinear_concat() -> None:
    x, other = whole("uint8", 2, 3), whole("uint8", 2, 2, seed=1)
    zero = np.array(100, "uint8")
    constants = {"A": f32(0.03), "B": zero, "d": f32(0.02), "e": zero, "f": other,
                 "g": f32(0.05), "h": zero}  # fmt: skip
    m = single("QLinearConcat", {"c": x}, constants, domain="com.microsoft", axis=1)
    near(declared(m, "uint8", 2, 5), {"c": x}, 1)


@pytest.mark.parametrize("stored", [True, False])
def test_qgemm(stored: bool) -> None:
    a, b = whole("uint8", 5, 7), weights(("uint8", "int8"), 4, 7)
    constants = {
        "b": f32(0.02), "c": np.array(9, "uint8"), "d": b, "e": f32(0.01), "f": np.array(0, "int8"),
        "g": RNG(1).integers(-4000, 4000, 4).astype(np.int32),
    }  # fmt: skip
    if stored:
        constants |= {"h": f32(0.1), "i": np.array(7, "uint8")}
    m = single("QGemm", {"a": a}, constants, domain="com.microsoft", transB=1)
    near(declared(m, "uint8" if stored else "float32", 5, 4), {"a": a})


def test_dynamic_quantize_matmul() -> None:
    a, b = random(5, 7), weights(("uint8", "int8"), 7, 4)
    constants = {"b": b, "c": f32(0.01), "d": np.array(3, "int8"), "e": random(4, seed=1)}
    m = single("DynamicQuantizeMatMul", {"a": a}, constants, domain="com.microsoft")
    near(declared(m, "float32", 5, 4), {"a": a})


@pytest.mark.parametrize("zeros", [None, "packed"])
@pytest.mark.parametrize("depth", [64, 50])
def test_matmul_nbits(zeros: str | None, depth: int) -> None:
    a = random(3, depth)
    blocks = -(-depth // 16)
    constants = {"b": whole("uint8", 8, blocks, 8), "c": RNG(1).uniform(0.1, 1, 8 * blocks)}
    constants["c"] = constants["c"].astype(np.float32)
    if zeros:
        constants["d"] = whole("uint8", 8, -(-blocks // 2), seed=2)
    m = single("MatMulNBits", {"a": a}, constants, domain="com.microsoft", K=depth, N=8, bits=4,
               block_size=16)  # fmt: skip
    near(declared(m, "float32", 3, 8), {"a": a})


# ------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("op", "constants", "attrs", "error", "text"),
    [
        ("QuantizeLinear", {"b": np.ones((2, 3), "f4")}, {}, ImportFailure,
         "a scale or zero point of the shape (2, 3) without block_size; legal: one number, or one "
         "for each index of axis 1"),
        ("QuantizeLinear", {"b": np.ones((2, 3), "f4")}, {"block_size": 2}, ImportFailure,
         "of the shape (2, 3) for operands of (2, 3) in blocks of 2 along axis 1"),
        ("QuantizeLinear", {"b": f32(1), "c": np.array(1, ml_dtypes.float8_e5m2)}, {},
         ImportFailure, "a zero point of float8_e5m2 other than 0"),
        ("QuantizeLinear", {"b": f32(1)}, {"output_dtype": 7}, Unsupported,
         "a result of int64\n  supported: int8, uint8, int16, uint16, int4"),
        ("QuantizeLinear", {"b": f32(1), "c": np.array(1, "i1")}, {"output_dtype": 2},
         ImportFailure, "output_dtype=2 (uint8), but the zero point is int8"),
    ],
)  # fmt: skip
def test_refused(
    op: str, constants: dict[str, Array], attrs: dict[str, Any], error: Any, text: str
) -> None:
    with pytest.raises(error) as caught:
        from_onnx(single(op, {"a": random(2, 3)}, constants, **attrs))
    assert text in str(caught.value)


@pytest.mark.parametrize(("scale", "said"), [
    (0.0, "scale=0.0; it has to be positive"),
    (-1.0, "scale=-1.0; it has to be positive"),
    (np.nan, "scale=nan; it has to be positive"),
    (np.inf, "scale=inf; it has to be positive"),
    (1e-40, "scale=9.99994610111476e-41; it has to be a normal number of float32"),
    ([1.0, 2e-41, 1.0], "scale=1.999933168284379e-41; it has to be a normal number of float32"),
])  # fmt: skip
def test_scales_that_are_none(scale: Any, said: str) -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 21]>
        net (float[2, 3] x) => (uint8[2, 3] z) { z = QuantizeLinear<axis = 1>(x, s) }""")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(scale, "float32"), "s"))
    with pytest.raises(TypeMismatch) as e:
        smelt.compile(model)
    assert str(e.value) == f"node 'z': quantize: {said}"
