"""The law of FakeQuantizationToInteger: results are at most one step from those of floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smelt import relay
from smelt.relax.interpret import interpret

from .support import Array, names, numbers, q, run, scale, zero

nn = relay.nn


class Region:
    """Quantized operands and what they are computed into; drawn at random."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.given: dict[Any, Array] = {}
        self.dtype = str(self.rng.choice(["int8", "uint8"]))

    def number(self, low: float, high: float) -> float:
        return float(np.float32(self.rng.uniform(low, high)))

    def point(self) -> int:
        return int(self.rng.integers(-20, 20)) + (128 if self.dtype == "uint8" else 0)

    def operand(self, *shape: int, low: float = 0.01, high: float = 0.05) -> Any:
        """Dequantized integers, all of one type."""
        name = f"x{self.seed}_{len(self.given)}"
        x = relay.var(name, shape=shape, dtype=self.dtype)
        self.given[x] = numbers(int(self.rng.integers(1 << 30)), self.dtype, *shape)
        return q.dequantize(x, scale(self.number(low, high)), zero(self.point()))

    def weight(self, outputs: int, *rest: int) -> Any:
        w = relay.const(numbers(int(self.rng.integers(1 << 30)), "int8", outputs, *rest, low=-127))
        steps = scale(*self.rng.uniform(0.002, 0.006, outputs).tolist())
        return q.dequantize(w, steps, zero(0), axis=0)

    def floats(self, *shape: int) -> Any:
        return relay.const(self.rng.normal(size=shape).astype("float32"))

    def image(self, **named: float) -> Any:
        return self.operand(1, 4, 6, 6, **named)

    def end(self, y: Any, low: float = 0.05, high: float = 0.1) -> Any:
        return q.quantize(y, scale(self.number(low, high)), zero(self.point()),
                          out_dtype=self.dtype)  # fmt: skip


def convolution(r: Region) -> Any:
    groups = int(r.rng.choice([1, 2, 4]))
    y = nn.conv2d(
        r.image(),
        r.weight(4, 4 // groups, 3, 3),
        channels=4,
        kernel_size=(3, 3),
        padding=(1, 1),
        groups=groups,
        strides=(int(r.rng.choice([1, 2])),) * 2,
    )
    y = nn.bias_add(y, r.floats(4))
    ends = (lambda v: v, nn.relu, lambda v: relay.clip(v, 0.0, 6.0))
    return ends[r.rng.integers(3)](y)


def transposed(r: Region) -> Any:
    w = q.dequantize(relay.const(numbers(3, "int8", 4, 3, 2, 2)), scale(0.01), zero(2))
    return nn.conv2d_transpose(r.image(), w, channels=3, kernel_size=(2, 2), strides=(2, 2))


def matrices(r: Region) -> Any:
    y = nn.dense(r.operand(3, 10), r.weight(5, 10))
    return nn.relu(nn.bias_add(y, r.floats(5), axis=-1))


def turned(r: Region) -> Any:
    w = q.dequantize(relay.const(numbers(7, "int8", 10, 3)), scale(0.01, 0.02, 0.01), zero(0), 1)
    return nn.matmul(r.operand(2, 4, 10), w)


def batches(r: Region) -> Any:
    return nn.batch_matmul(r.operand(2, 3, 7), r.operand(2, 5, 7))


def two(name: str) -> Callable[[Region], Any]:
    def make(r: Region) -> Any:
        other = r.operand(1, 4, 1, 1) if r.rng.random() < 0.7 else r.floats(1, 4, 1, 1)
        y = getattr(relay, name)(r.image(), other)
        return nn.relu(y) if r.rng.random() < 0.5 else y

    return make


def residual(r: Region) -> Any:
    """Sums of a convolution and quantized numbers."""
    return relay.add(convolution(r), nn.max_pool2d(r.operand(1, 4, 1, 1), (1, 1)))


def between(r: Region) -> Any:
    """What keeps the range may stand between a sum and the quantize."""
    y = relay.maximum(relay.add(r.image(), r.image()), relay.const(-0.4))
    y = nn.pad(relay.clip(y, -0.2, 3.0), ((0, 0), (0, 0), (0, 1), (1, 0)), pad_value=0.1)
    return nn.upsampling(y, 2.0, 2.0)


def joined(r: Region) -> Any:
    return nn.relu(relay.concatenate([r.image(), r.image()], axis=1))


def parts(r: Region) -> Any:
    first, second = relay.split(r.image(), 2, axis=1)
    return relay.concatenate([second, first], axis=1)


def moved(r: Region) -> Any:
    y = nn.pad(r.image(), ((0, 0), (0, 0), (1, 1), (0, 2)), pad_value=0.3)
    y = nn.max_pool2d(relay.transpose(y, (0, 1, 3, 2)), (2, 2), strides=(2, 2))
    y = relay.image.resize2d(y, (8, 8), None, "NCHW", "nearest_neighbor", "asymmetric", "floor")
    y = relay.strided_slice(y, (0, 0, 1, 1), (1, 4, 7, 8))
    return relay.squeeze(relay.expand_dims(relay.reshape(y, (4, -1)), 0), (0,))


def averaged(r: Region) -> Any:
    x = r.image()
    return (
        lambda: nn.avg_pool2d(x, (2, 2), strides=(2, 2)),
        lambda: nn.avg_pool2d(x, (3, 3), padding=(1, 1)),
        lambda: nn.global_avg_pool2d(x),
        lambda: relay.mean(x, axis=(1, -1), keepdims=True),
    )[r.rng.integers(4)]()


def function(r: Region) -> Any:
    name = str(r.rng.choice(["tanh", "exp", "sigmoid", "erf", "abs", "leaky"]))
    x = r.image()
    return nn.leaky_relu(x, r.number(0.01, 0.4)) if name == "leaky" else getattr(relay, name)(x)


REGIONS: dict[str, Callable[[Region], Any]] = {
    "convolution": convolution, "transposed": transposed, "matrices": matrices, "batches": batches,
    "turned": turned, "residual": residual, "joined": joined, "parts": parts, "moved": moved,
    "averaged": averaged, "between": between, "function": function,
    **{n: two(n) for n in ("add", "subtract", "multiply", "maximum", "minimum")},
}  # fmt: skip


def both(kind: str, seed: int) -> tuple[Region, Any, Any]:
    """A region, the program in floats, and the one in integers."""
    r = Region(seed)
    mod = relay.IRModule.from_expr(relay.Function([], r.end(REGIONS[kind](r))))
    mod = relay.IRModule.from_expr(relay.Function(list(r.given), mod["main"].body))
    return r, mod, relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1 << 30))
@pytest.mark.parametrize("kind", REGIONS)
def test_one_step_apart_at_most(kind: str, seed: int) -> None:
    r, mod, made = both(kind, seed)
    assert not {"qnn.quantize", "qnn.dequantize"} & names(made)
    want, got = (interpret(m["main"], *r.given.values())[0] for m in (mod, made))
    assert got.dtype == want.dtype == r.dtype
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1


def test_compiled_programs_equal_the_interpreter() -> None:
    """All kinds in one program."""
    given: dict[Any, Array] = {}
    bodies = []
    for i, kind in enumerate(REGIONS):
        r, _, made = both(kind, i)
        f = made["main"]
        given.update(dict(zip(f.params, r.given.values(), strict=True)))
        bodies.append(f.body)
    run(relay.Tuple(bodies), given)
