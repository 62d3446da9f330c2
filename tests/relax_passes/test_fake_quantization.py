"""FakeQuantizationToInteger on the core's operators, and on models with quantization nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smelt
from smelt import relay
from smelt.frontend.onnx import from_onnx
from smelt.ir import dtype as dt
from smelt.ir.errors import Unsupported
from smelt.ir.module import IRModule
from smelt.ir.node import postorder
from smelt.ir.types import TensorType
from smelt.relax import transform as passes
from smelt.relax.compose.operands import const
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, RelaxExpr, Tuple, Var, call, tensor_type_of
from smelt.relax.verify import verify
from tests.frontend.models import model, node

from .support import calls, module, var

Array = np.ndarray[Any, Any]
PRODUCTS = ("conv1d", "conv2d", "conv3d", "conv_transpose", "matmul")


def f32(*values: float) -> Any:
    return const(np.array(values if len(values) > 1 else values[0], "float32"))


def i32(*values: int) -> Any:
    return const(np.array(values if len(values) > 1 else values[0], "int32"))


def whole(rng: Any, dtype: str, *shape: int, low: int | None = None) -> Array:
    info = np.iinfo(dtype)
    least = info.min if low is None else low
    made: Array = rng.integers(least, info.max, shape, dtype=np.int64, endpoint=True).astype(dtype)
    return made


def integer(mod: IRModule, **options: bool) -> IRModule:
    made: IRModule = passes.FakeQuantizationToInteger(**{"hard_fail": True, **options})(mod)
    verify(made)
    return made


def products(mod: IRModule) -> list[str]:
    """The types of the operands of all convolutions and products."""
    found = [n for n in postorder(mod["main"]) if isinstance(n, Call) and n.callee in PRODUCTS]
    return [tensor_type_of(a).dtype for n in found for a in n.args]


def in_floats(mod: IRModule) -> list[str]:
    """The calls whose result is a float."""
    return [
        n.callee
        for n in postorder(mod["main"])
        if isinstance(n, Call) and isinstance(n.type, TensorType) and dt.is_float(n.type.dtype)
    ]


# --------------------------------------------------------------------------------------- regions


class Region:
    """Quantized operands and what they are computed into; drawn at random."""

    def __init__(self, seed: int, name: str) -> None:
        self.name = name
        self.rng = np.random.default_rng(seed)
        self.given: dict[Var, Array] = {}
        self.dtype = str(self.rng.choice(["int8", "uint8"]))

    def point(self) -> int:
        return int(self.rng.integers(-20, 20)) + (128 if self.dtype == "uint8" else 0)

    def operand(self, *shape: int) -> RelaxExpr:
        x = var(f"{self.name}{len(self.given)}", *shape, dtype=self.dtype)
        self.given[x] = whole(self.rng, self.dtype, *shape)
        return call("dequantize", x, f32(self.rng.uniform(0.01, 0.05)), const(self.point()))

    def image(self) -> RelaxExpr:
        return self.operand(1, 4, 6, 6)

    def weight(self, *shape: int, axis: int = 0) -> RelaxExpr:
        """Integers with a scale for each output channel."""
        scales = f32(*self.rng.uniform(0.002, 0.006, shape[axis]))
        w = const(whole(self.rng, "int8", *shape, low=-127))
        return call("dequantize", w, scales, None if self.rng.random() < 0.5 else i32(0), axis=axis)

    def floats(self, *shape: int) -> Any:
        return const(self.rng.normal(size=shape).astype("float32"))

    def end(self, y: RelaxExpr) -> RelaxExpr:
        scale = f32(self.rng.uniform(0.05, 0.1))
        return call("quantize", y, scale, const(self.point()), out_dtype=self.dtype)


def convolution(r: Region) -> RelaxExpr:
    rank, groups = int(r.rng.integers(1, 4)), int(r.rng.choice([1, 2, 4]))
    x = r.operand(1, 4, *(5,) * rank)
    w = r.weight(4, 4 // groups, *(3,) * rank)
    strides = (int(r.rng.choice([1, 2])),) * rank
    y = call(f"conv{rank}d", x, w, pads=(1, 0) * rank, groups=groups, strides=strides)
    ends: tuple[Callable[[Any], RelaxExpr], ...] = (
        lambda v: call("identity", v),
        lambda v: call("relu", v),
        lambda v: call("clip", v, min=0.0, max=6.0),
        lambda v: call("clip", v, min=-0.5),
    )
    bias = r.floats(4, *(1,) * rank)
    if r.rng.random() < 0.5:  # integers in the scale of the sums, as exported models have them
        scale = np.float32(x.args[1].data) * w.args[1].data  # type: ignore[attr-defined]
        bias = call("dequantize", const(whole(r.rng, "int16", 4).astype("int32")), f32(*scale))
        bias = call("reshape", bias, shape=(4, *(1,) * rank))
    return ends[r.rng.integers(4)](call("add", y, bias))


def transposed(r: Region) -> RelaxExpr:
    w = r.weight(4, 3, 2, 2, axis=1)
    return call("conv_transpose", r.image(), w, strides=(2, 2))


def matrices(r: Region) -> RelaxExpr:
    turned = bool(r.rng.random() < 0.5)
    w = r.weight(5, 10) if turned else r.weight(10, 5, axis=1)
    y = call("matmul", r.operand(3, 10), w, transpose_b=turned)
    return call("relu", call("add", y, r.floats(5)))


def batches(r: Region) -> RelaxExpr:
    return call("matmul", r.operand(2, 3, 7), r.operand(2, 5, 7), transpose_b=True)


def two(name: str) -> Callable[[Region], RelaxExpr]:
    def make(r: Region) -> RelaxExpr:
        other = r.operand(4, 1, 1) if r.rng.random() < 0.7 else r.floats(1, 4, 1, 1)
        y = call(name, r.image(), other)
        return call("relu", y) if r.rng.random() < 0.5 else y

    return make


def moved(r: Region) -> RelaxExpr:
    y = call("pad", r.image(), pads=(0, 0, 1, 0, 0, 0, 1, 2), value=0.3)
    y = call("pad", y, pads=(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect")
    y = call("max_pool", call("transpose", y, axes=(0, 1, 3, 2)), kernel=(2, 2), strides=(2, 2))
    y = call("strided_slice", y, axes=(2, 3), begin=(0, 1), end=(4, 5))
    y = call("depth_to_space", call("flip", y, axes=(3,)), block=2)
    y = call("gather", y, const(np.array([3, 0, 1], "int64")), axis=2)
    y = call("resize", y, sizes=(1, 1, 6, 16), scales=(1.0, 1.0, 2.0, 2.0))
    y = call("squeeze", call("tile", call("expand_dims", y, axes=(1,)), repeats=(1, 2, 1, 1, 1)))
    return call("max", call("reshape", y, shape=(12, 16)), axes=(1,))


def joined(r: Region) -> RelaxExpr:
    y = call("concat", r.image(), call("identity", r.image()), axis=1)
    return call("minimum", y, f32(0.7))


def averaged(r: Region) -> RelaxExpr:
    x = r.image()
    return (
        lambda: call("avg_pool", x, kernel=(2, 2), strides=(2, 2)),
        lambda: call("avg_pool", x, kernel=(3, 3), pads=(1, 1, 1, 1), count_include_pad=False),
        lambda: call("avg_pool", r.operand(1, 2, 9), kernel=(3,)),
        lambda: call("mean", x, axes=(2, 3), keepdims=True),
        lambda: call("mean", x, axes=(1, -1), keepdims=False),
    )[r.rng.integers(5)]()


def function(r: Region) -> RelaxExpr:
    x = r.image()
    names = ["tanh", "exp", "sigmoid", "erf", "abs", "gelu", "silu", "hard_swish", "negative"]
    return (
        lambda: call(str(r.rng.choice(names)), x),
        lambda: call("elu", x, alpha=0.7),
        lambda: call("leaky_relu", x, alpha=0.2),
        lambda: call("softmax", x, axis=1),
    )[r.rng.integers(4)]()


REGIONS: dict[str, Callable[[Region], RelaxExpr]] = {
    "convolution": convolution, "transposed": transposed, "matrices": matrices, "batches": batches,
    "moved": moved, "joined": joined, "averaged": averaged, "function": function,
    **{n: two(n) for n in ("add", "subtract", "multiply", "maximum", "minimum")},
}  # fmt: skip


def both(kind: str, seed: int) -> tuple[Region, IRModule, IRModule]:
    """A region, the program in floats, and the one in integers."""
    r = Region(seed, kind)
    body = r.end(REGIONS[kind](r))
    mod = module(list(r.given), body)
    return r, mod, integer(mod)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1 << 30))
@pytest.mark.parametrize("kind", REGIONS)
def test_one_step_apart_at_most(kind: str, seed: int) -> None:
    r, mod, made = both(kind, seed)
    want, got = (interpret(m["main"], *r.given.values())[0] for m in (mod, made))
    assert not in_floats(made)
    assert got.dtype == want.dtype == r.dtype
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1


def test_compiled_programs_equal_the_interpreter() -> None:
    arrays: dict[Var, Array] = {}
    bodies = []
    for i, kind in enumerate(REGIONS):
        r, _, made = both(kind, i)
        bodies.append(made["main"].body)
        arrays.update(dict(zip(made["main"].params, r.given.values(), strict=True)))
    mod = module(list(arrays), Tuple(tuple(bodies)))
    want = interpret(mod["main"], *arrays.values())
    for a, b in zip(want, smelt.compile(mod)(*arrays.values()), strict=True):
        np.testing.assert_array_equal(a, b.numpy())


# ------------------------------------------------------------------------------------ models


class Qdq:
    """A model whose values are quantized and dequantized between its operators."""

    def __init__(self, dtype: str) -> None:
        self.dtype, self.rng = dtype, np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.arrays: dict[str, Array] = {}

    def array(self, value: Any, dtype: str) -> str:
        name = f"c{len(self.arrays)}"
        self.arrays[name] = np.asarray(value, dtype)
        return name

    def op(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(node(op, inputs, [name], **attrs))
        return name

    def fake(self, x: str, scale: float, zero: int) -> str:
        more = (self.array(scale, "float32"),
                self.array(zero + 128 * (self.dtype == "uint8"), self.dtype))  # fmt: skip
        return self.op("DequantizeLinear", self.op("QuantizeLinear", x, *more), *more)

    def weight(self, step: float, *shape: int) -> tuple[str, str]:
        """A weight by output channel, and a bias in the scale of the sums."""
        scale = self.rng.uniform(0.002, 0.004, shape[0]).astype("float32")
        w = self.array(whole(self.rng, "int8", *shape, low=-127), "int8")
        b = self.array(self.rng.integers(-2000, 2000, shape[0]), "int32")
        zero = self.array(np.zeros(shape[0]), "int8")
        return (
            self.op("DequantizeLinear", w, self.array(scale, "float32"), zero, axis=0),
            self.op("DequantizeLinear", b, self.array(scale * np.float32(step), "float32"), axis=0),
        )

    def conv(self, x: str, step: float, *shape: int) -> str:
        return self.op("Conv", x, *self.weight(step, *shape), pads=[shape[-1] // 2] * 4)


def network(dtype: str, batch: Any) -> onnx.ModelProto:
    """Convolutions beside one of a pixel, added, pooled and classified."""
    g = Qdq(dtype)
    x = g.fake("x", 0.02, 3)
    h = g.fake(g.op("Relu", g.conv(x, 0.02, 4, 3, 3, 3)), 0.03, -128)
    h = g.op("MaxPool", h, kernel_shape=[2, 2], strides=[2, 2])
    y = g.fake(g.conv(h, 0.03, 8, 4, 3, 3), 0.05, 5)
    side = g.fake(g.conv(h, 0.03, 8, 4, 1, 1), 0.04, 1)
    y = g.fake(g.op("Relu", g.op("Add", y, side)), 0.04, -128)
    y = g.fake(g.op("GlobalAveragePool", y), 0.03, -128)
    y = g.op("Flatten", y)
    y = g.fake(g.op("Gemm", y, *g.weight(0.03, 5, 8), transB=1), 0.05, 0)
    g.nodes[-1].output[0] = "y"
    return model(g.nodes, {"x": ((batch, 3, 8, 8), "float32")}, constants=g.arrays, opset=17)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("batch", [2, "n"])
def test_a_model_is_integer_from_end_to_end(dtype: str, batch: Any) -> None:
    made = network(dtype, batch)
    before = from_onnx(made)
    after = integer(before)
    assert set(products(after)) <= {"int8", "uint8", "int32"}
    assert in_floats(after) == ["dequantize"]
    assert calls(after)["quantize"] == 1
    a = np.random.default_rng(7).normal(size=(2, 3, 8, 8)).astype("float32")
    want, got = (interpret(m["main"], a)[0] for m in (before, after))
    assert np.abs(want).max() > 0.5
    assert np.abs(got - want).max() < 0.05 * 1.01
    np.testing.assert_array_equal(smelt.compile(after)(a).numpy(), got)
    classic, _ = relay.frontend.from_onnx(made)
    classic = relay.transform.FakeQuantizationToInteger(hard_fail=True)(classic)
    np.testing.assert_array_equal(interpret(classic["main"], a)[0], got)


# ------------------------------------------------------------------------------ what stays, and why


def start(*shape: int) -> tuple[Var, RelaxExpr]:
    x = var("x", *shape, dtype="int8")
    return x, call("dequantize", x, f32(0.1))


def test_a_region_that_stays_names_what_stopped_it() -> None:
    x, y = start(2, 3)
    v = var("v", 2, 3)
    rows = call("dequantize", x, f32(0.1, 0.2), axis=0)
    blocks = call("dequantize", x, const(np.ones((2, 3), "float32")))
    wide = call("dequantize", call("cast", x, dtype="int32"), f32(0.1))
    cases: list[tuple[RelaxExpr, str]] = [
        (call("cumsum", y), "cumsum has no integer form"),
        (call("divide", y, y), "divide stays in floats: its divisor is no constant number"),
        (call("divide", y, f32(-2.0)), "divide stays in floats: its divisor is -2.0; legal: a pos"),
        (call("add", y, v), "the variable v is not quantized"),
        (call("matmul", call("tanh", y), y, transpose_b=True),
         "tanh stays in floats: its result is not quantized right behind it"),
        (call("reshape", rows, shape=(6,)),
         "reshape stays in floats: its operand has a scale for each index of an axis"),
        (call("matmul", y, call("dequantize", const(np.ones(3, "int8")), f32(0.1))),
         "matmul stays in floats: its second operand is a vector"),
        (call("mean", wide), "mean stays in floats: int32 does not hold the sum of 6 int32"),
        (call("matmul", y, call("dequantize", x, f32(0.1, 0.2, 0.1), axis=1), transpose_b=True),
         "matmul stays in floats: the scales of its weight vary along axis 1; legal: 0"),
        (call("relu", blocks), "dequantize stays in floats: the scales of a dequantize"),
    ]  # fmt: skip
    for body, message in cases:
        mod = module([x, v], call("quantize", body, f32(0.2)))
        assert integer(mod, hard_fail=False) is mod
        with pytest.raises(Unsupported, match="^FakeQuantizationToInteger: " + message):
            integer(mod)


def test_numbers_that_come_in_as_floats_are_no_region() -> None:
    x = var("x", 4)
    mod = module([x], call("quantize", call("sin", x), f32(0.1)))
    assert integer(mod) is mod


def test_use_qat_dequantizes_behind_the_last_operators() -> None:
    x, y = start(2, 6)
    w = call("dequantize", const(whole(np.random.default_rng(0), "int8", 4, 6)),
             f32(0.1, 0.2, 0.1, 0.3), axis=0)  # fmt: skip
    y = call("add", call("matmul", y, w, transpose_b=True), f32(1, 1, 1, 1))
    mod = module([x], call("relu", y))
    assert integer(mod) is mod
    made = integer(mod, use_qat=True)
    assert in_floats(made) == ["dequantize"]
    a = whole(np.random.default_rng(1), "int8", 2, 6)
    want, got = (interpret(m["main"], a)[0] for m in (mod, made))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=0.02)


def test_a_constant_keeps_its_precision_beside_coarse_integers() -> None:
    x = var("x", 5, dtype="int32")
    y = call("add", call("dequantize", x, f32(0.4)), f32(0.13))
    mod = module([x], call("quantize", y, f32(0.05)))
    a = np.arange(5, dtype="int32")
    want, got = (interpret(m["main"], a)[0].astype(int) for m in (mod, integer(mod)))
    assert np.abs(want - got).max() <= 1


def test_scales_move_with_their_axis() -> None:
    x = var("x", 2, 3, 4, dtype="int8")
    numbers = (f32(0.1, 0.2, 0.3), i32(1, 2, 3))
    y = call("transpose", call("dequantize", x, *numbers, axis=1), axes=(2, 0, 1))
    y = call("reshape", call("expand_dims", y, axes=(0,)), shape=(4, 2, 1, 3))
    mod = module([x], call("quantize", y, *numbers, axis=3))
    assert set(calls(integer(mod))) == {"transpose", "expand_dims", "reshape"}
    cut = call("strided_slice", y, axes=(3,), begin=(0,), end=(2,))
    with pytest.raises(Unsupported, match="strided_slice stays in floats: its operand has a scale"):
        integer(module([x], call("quantize", cut, f32(0.1))))


def test_operators_of_relay_without_a_rule_follow_from_what_they_are_written_in() -> None:
    q = relay.qnn.op
    x = relay.var("x", shape=(1, 4, 9), dtype="int8")
    w = relay.const(whole(np.random.default_rng(0), "int8", 2, 4, 3))
    y = relay.nn.conv1d(q.dequantize(x, f32(0.1), i32(2)), q.dequantize(w, f32(0.02), i32(0)),
                        channels=2, kernel_size=(3,), padding=(1,))  # fmt: skip
    y = relay.take(relay.nn.relu(y), relay.const(np.array([1, 0])), axis=1)
    mod = relay.IRModule.from_expr(relay.Function([x], q.quantize(y, f32(0.1), i32(1))))
    made = relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    found = relay.analysis.count_ops(made["main"])
    assert {"nn.conv1d", "nn.relu", "take", "qnn.requantize"} < set(found)
    assert not any(n.startswith("smelt.") for n in found)
    assert "qnn.dequantize" not in found
    a = whole(np.random.default_rng(1), "int8", 1, 4, 9)
    want, got = (interpret(m["main"], a)[0].astype(int) for m in (mod, made))
    assert np.abs(want - got).max() <= 1
