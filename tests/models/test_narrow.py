"""Models with element types of at most 8 bits, compiled: arrays of ml_dtypes go in and come out."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import smelt
from smelt.ir import dtype as dt
from smelt.ir.errors import ImportFailure
from tests.frontend.models import model, node
from tests.models.compare import compiled, run
from tests.models.net import Array

FLOATS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
INTEGERS = ("int4", "uint4", "int2", "uint2")
NARROW = (*FLOATS, "float8_e8m0fnu", "float4_e2m1fn", *INTEGERS)
SPECIAL = [
    0.4789,
    0.8191,
    -1.5,
    1e6,
    -1e6,
    1e-7,
    -1e-7,
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    464,
    6.5,
]


def element(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(dt.to_numpy(dtype)))


def values(dtype: str, *shape: int) -> Array:
    """Patterns one after the other."""
    count = int(np.prod(shape))
    raw = (np.arange(count) * 7 % (1 << dt.width(dtype))).astype(np.uint8)
    found: Array = raw.view(dt.to_numpy(dtype)).reshape(shape)
    return found


def same(found: Array, expected: Array, what: str = "") -> None:
    """The same type, shape and bits; of a NaN only that it is one, and zeros have any sign."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), what
    a, b = (v.astype("float64") for v in (found, expected))
    np.testing.assert_array_equal(a, b, what)


@pytest.mark.parametrize("dtype", NARROW)
def test_values_are_moved(dtype: str, cache: str) -> None:
    x, c = values(dtype, 2, 3, 4), values(dtype, 2, 3, 4)[:, :, ::-1].copy()
    mask = np.arange(24).reshape(2, 3, 4) % 5 < 2
    nodes = [
        node("Transpose", ["x"], ["a"], perm=[2, 0, 1]),
        node("Reshape", ["a", "shape"], ["b"]),
        node("Concat", ["x", "c"], ["d"], axis=1),
        node("Gather", ["d", "i"], ["e"], axis=1),
        node("Where", ["m", "x", "c"], ["f"]),
        node("Pad", ["x", "pads"], ["p"]),
    ]
    constants = {
        "c": c, "shape": np.array([4, 6]), "i": np.array([5, 0, 2]),
        "pads": np.array([0, 0, 1, 0, 0, 1]),
    }  # fmt: skip
    m = model(
        nodes, {"x": (x.shape, x.dtype), "m": (x.shape, bool)}, ["b", "e", "f", "p"], constants, 25
    )
    both = np.concatenate([x, c], 1)
    raw = np.pad(x.view("uint8"), [(0, 0), (0, 0), (1, 1)])
    border = np.zeros((), x.dtype).view("uint8")
    raw[:, :, [0, -1]] = border
    want = [x.transpose(2, 0, 1).reshape(4, 6), both[:, [5, 0, 2]], np.where(mask, x, c)]
    found = run(compiled(m, cache), {"x": x, "m": mask})
    for a, b in zip(found[:3], want, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a.view("uint8"), np.ascontiguousarray(b).view("uint8"))
    if dtype != "float8_e8m0fnu":  # which has no zero
        np.testing.assert_array_equal(found[3].view("uint8"), raw)


def cast(x: Array, dtype: str, saturate: int = 1) -> Array:
    """ONNX's Cast by ml_dtypes."""
    kind = dt.to_numpy(dtype)
    if dtype == "float8_e8m0fnu":
        return np.asarray(numpy_helper.to_float8e8m0(x))
    if dtype in FLOATS and saturate:
        most = np.float32(ml_dtypes.finfo(kind).max)
        x = np.clip(x.astype(np.float32), -most, most)
    wide = x.astype(np.int32) if x.dtype.itemsize == 1 and "int" in x.dtype.name else x
    return wide.astype(kind)


def test_casts(cache: str) -> None:
    """From and to every narrow type, saturating or not."""
    single = np.array(SPECIAL, np.float32)
    with np.errstate(all="ignore"):
        half = single.astype(np.float16)
    given: dict[str, Array] = {"f": single, "h": half, "i": np.arange(-9, 16, dtype=np.int32)}
    given |= {f"x_{d}": values(d, 1 << dt.width(d)) for d in NARROW}
    nodes, want = [], []

    def ask(x: str, to: str, saturate: int = 1, op: str = "Cast") -> None:
        attrs = {"to": element(to)} if op == "Cast" else {}
        operands = [x] if op == "Cast" else [x, f"x_{to}"]
        nodes.append(node(op, operands, [f"y{len(want)}"], saturate=saturate, **attrs))
        with np.errstate(all="ignore"):
            want.append((f"{op} {x} {to} {saturate}", cast(given[x], to, saturate)))

    for d in NARROW:
        for x in "i" if d in INTEGERS else "fh":
            ask(x, d)
            ask(x, d, op="CastLike")
        for to in ("float32", *(["int8"] if d in INTEGERS else [])):
            ask(f"x_{d}", to)
    for d in FLOATS:
        ask("f", d, saturate=0)
        ask("h", d, saturate=0, op="CastLike")
    ask("x_int4", "float8_e4m3fn")
    ask("x_uint4", "int2")
    ask("x_float8_e5m2", "float8_e4m3fnuz")
    names = [f"y{k}" for k in range(len(want))]
    m = model(nodes, {n: (v.shape, v.dtype) for n, v in given.items()}, names, opset=25)
    for found, (what, expected) in zip(run(compiled(m, cache), given), want, strict=True):
        same(found, expected, what)


def test_scales_have_a_rounding(cache: str) -> None:
    x = np.array(
        [0.0, 0.124, 0.25, 0.75, 1.1, 1.5, 3.0, 2.0**-127, 2.0**-128, 3e38, np.inf, np.nan]
    )
    x = x.astype(np.float32)
    modes = [(r, s) for r in ("up", "down", "nearest") for s in (0, 1)]
    nodes = [
        node("Cast", ["x"], [f"y{k}"], to=element("float8_e8m0fnu"), round_mode=r, saturate=s)
        for k, (r, s) in enumerate(modes)
    ]
    m = model(nodes, {"x": (x.shape, x.dtype)}, [f"y{k}" for k in range(len(modes))], opset=25)
    want = ReferenceEvaluator(m).run(None, {"x": x})
    for a, b, mode in zip(run(compiled(m, cache), {"x": x}), want, modes, strict=True):
        np.testing.assert_array_equal(a.view("uint8"), np.asarray(b).view("uint8"), str(mode))


def test_bits_are_read_as_another_type(cache: str) -> None:
    pairs = [
        ("float32", "int32"), ("int8", "uint8"), ("bool", "uint8"), ("uint8", "float8_e5m2"),
        ("int4", "uint4"), ("float4_e2m1fn", "int4"), ("float16", "bfloat16"),
    ]  # fmt: skip
    given = {f"x{k}": np.arange(6).astype(dt.to_numpy(a)) for k, (a, _) in enumerate(pairs)}
    nodes = [node("BitCast", [f"x{k}"], [f"y{k}"], to=element(b)) for k, (_, b) in enumerate(pairs)]
    names = [f"y{k}" for k in range(len(pairs))]
    m = model(nodes, {n: (v.shape, v.dtype) for n, v in given.items()}, names, opset=26)
    for k, a in enumerate(run(compiled(m, cache), given)):
        want = given[f"x{k}"].view(dt.to_numpy(pairs[k][1]))
        assert a.dtype == want.dtype
        np.testing.assert_array_equal(a.view("uint8"), want.view("uint8"))
    wrong = model([node("BitCast", ["x"], to=TensorProto.INT8)], {"x": ((2,), "float32")}, opset=26)
    with pytest.raises(ImportFailure, match="float32 cannot be read as int8; legal: int32, uint32"):
        smelt.compile(wrong)


def packed(dtype: str, x: Array) -> bytes:
    """The bytes of a file: the first elements lowest."""
    width = dt.width(dtype)
    each = 8 // width
    raw = np.zeros(-(-x.size // each) * each, np.uint8)
    raw[: x.size] = x.view("uint8").reshape(-1)
    total = np.zeros(len(raw) // each, np.uint8)
    for k in range(each):
        total |= raw[k::each] << (k * width)
    return total.tobytes()


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("where", ["raw", "numbers", "file"])
def test_constants(dtype: str, where: str, tmp_path: Path) -> None:
    """As the bytes of the model, as its numbers, and in a file beside it."""
    x = values(dtype, 3, 5)
    t = TensorProto(name="c", data_type=element(dtype), dims=x.shape)
    data = packed(dtype, x)
    if where == "raw":
        t.raw_data = data
    elif where == "numbers":
        t.int32_data.extend(data)
    else:
        (tmp_path / "data").write_bytes(b"12345678" + data)
        t.data_location = TensorProto.EXTERNAL
        for key, text in (("location", "data"), ("offset", "8")):
            t.external_data.add(key=key, value=text)
    m = model([node("Reshape", ["c", "s"])], {}, constants={"s": np.array([15])}, opset=25)
    m.graph.initializer.append(t)
    onnx.save(m, tmp_path / "m.onnx")
    found = smelt.compile(
        str(tmp_path / "m.onnx"), options=smelt.Options(cache_dir=str(tmp_path))
    )()
    np.testing.assert_array_equal(found.numpy().view("uint8"), x.view("uint8").reshape(-1))
    if where == "raw":
        t.raw_data = data[:-1]
        m.graph.initializer[1].CopyFrom(t)
        need = f"holds {len(data) - 1} bytes, its shape \\(3, 5\\) of {dtype} needs {len(data)}"
        with pytest.raises(ImportFailure, match=need):
            smelt.compile(m)


def test_weights_of_four_bits(cache: str) -> None:
    """Numbers of 4 bits in blocks, as the inputs of a product: x (s (q - z))."""
    rng = np.random.default_rng(0)
    q = rng.integers(-8, 8, (32, 12)).astype(ml_dtypes.int4)
    s = rng.uniform(0.5, 1, (4, 12)).astype(np.float32)
    x = rng.standard_normal((5, 32)).astype(np.float32)
    nodes = [
        node("DequantizeLinear", ["q", "s"], ["w"], axis=0, block_size=8),
        node("MatMul", ["x", "w"]),
    ]
    given = {"q": q, "s": s, "x": x}
    m = model(nodes, {n: (v.shape, v.dtype) for n, v in given.items()}, opset=21)
    (y,) = run(compiled(m, cache), given)
    want = x @ (q.astype(np.float32) * np.repeat(s, 8, axis=0))
    np.testing.assert_allclose(y, want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_an_exported_library(tmp_path: Path, cache: str) -> None:
    x, f = values("int4", 2, 8), np.array(SPECIAL, np.float32)
    nodes = [node("Transpose", ["x"], ["y"]), node("Cast", ["f"], ["z"], to=element(FLOATS[0]))]
    m = model(nodes, {"x": (x.shape, x.dtype), "f": (f.shape, f.dtype)}, ["y", "z"], opset=25)
    exe = compiled(m, cache)
    exe.export_library(str(tmp_path / "m.so"))
    found = run(smelt.runtime.load_module(str(tmp_path / "m.so")), {"x": x, "f": f})
    same(found[0], x.T)
    with np.errstate(all="ignore"):
        most = np.float32(448)
        same(found[1], np.clip(f, -most, most).astype(ml_dtypes.float8_e4m3fn))


def test_tensors_of_the_suite_are_arrays(cache: str) -> None:
    """numpy_helper's arrays of packed tensors are taken as they are."""
    x = values("uint2", 7)
    t = numpy_helper.from_array(x, "x")
    m = model([node("Cast", ["x"], to=TensorProto.UINT8)], {"x": (x.shape, x.dtype)}, opset=25)
    (y,) = run(compiled(m, cache), {"x": numpy_helper.to_array(t)})
    np.testing.assert_array_equal(y, x.astype("uint8"))
