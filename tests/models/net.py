"""A small builder of ONNX networks with seeded weights that keep activations sane."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]
Feeds = dict[str, Array]
Dim = int | str
OPSET = 18


class Net:
    """Nodes and weights in the order in which they are asked for."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}
        self.inputs: list[onnx.ValueInfoProto] = []

    # ---- values -------------------------------------------------------------------------------

    def input(self, name: str, shape: Sequence[Dim], dtype: Any = np.float32) -> str:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def const(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(value, dtype)
        return name

    def ints(self, *values: int) -> str:
        return self.const(values, np.int64)

    def normal(self, shape: Sequence[int], scale: float = 1.0) -> str:
        return self.const(self.random.standard_normal(tuple(shape)) * scale)

    def he(self, shape: Sequence[int], fan_in: int, gain: float = 2.0) -> str:
        return self.normal(shape, float(np.sqrt(gain / fan_in)))

    # ---- operators ----------------------------------------------------------------------------

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        name = f"{kind.lower()}_{len(self.nodes)}"
        made = [name if count == 1 else f"{name}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), made, name=name, **attributes))
        return made

    def conv(
        self,
        x: str,
        io: tuple[int, int],
        side: int | tuple[int, ...],
        stride: int | Sequence[int] = 1,
        *,
        groups: int = 1,
        dilation: int = 1,
        pads: Sequence[int] | None = None,
        bias: bool = True,
    ) -> str:
        """A number as `side` means a square; otherwise there are as many dimensions as sides."""
        sides = (side, side) if isinstance(side, int) else side
        i, o = io
        operands = [self.he((o, i // groups, *sides), i // groups * math.prod(sides))]
        if bias:
            operands.append(self.normal((o,), 0.1))
        around = list(pads) if pads is not None else [s // 2 * dilation for s in sides] * 2
        return self.op(
            "Conv",
            x,
            *operands,
            kernel_shape=list(sides),
            strides=[stride] * len(sides) if isinstance(stride, int) else list(stride),
            dilations=[dilation] * len(sides),
            pads=around,
            group=groups,
        )

    def conv_transpose(
        self, x: str, io: tuple[int, int], side: int, stride: int, pad: int = 0
    ) -> str:
        """Every result has about (side / stride)^2 terms an input channel."""
        i, o = io
        w = self.he((i, o, side, side), i * max(1, side // stride) ** 2)
        sizes = {"kernel_shape": [side] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.op("ConvTranspose", x, w, self.normal((o,), 0.1), **sizes)

    def batch_norm(self, x: str, channels: int, square: float = 2.0) -> str:
        """`square` is about what the mean square of x's elements is."""
        uniform = self.random.uniform
        parameters = [
            uniform(0.7, 1.3, channels),
            uniform(-0.2, 0.2, channels),
            uniform(-0.2, 0.2, channels) * np.sqrt(square),
            uniform(0.8, 1.2, channels) * square,
        ]
        return self.op("BatchNormalization", x, *map(self.const, parameters), epsilon=1e-5)

    def conv_norm(
        self,
        x: str,
        io: tuple[int, int],
        side: int | tuple[int, ...],
        stride: int | Sequence[int] = 1,
        square: float = 2.0,
        **kw: Any,
    ) -> str:
        """A larger `square` than 2 makes a quieter branch: sums over many blocks stay sane."""
        return self.batch_norm(self.conv(x, io, side, stride, bias=False, **kw), io[1], square)

    def dense(self, x: str, io: tuple[int, int], gain: float = 1.0) -> str:
        """x @ w + b over the last dimension."""
        y = self.op("MatMul", x, self.he(io, io[0], gain))
        return self.op("Add", y, self.normal((io[1],), 0.1))

    def gemm(self, x: str, io: tuple[int, int], gain: float = 2.0) -> str:
        i, o = io
        return self.op("Gemm", x, self.he((o, i), i, gain), self.normal((o,), 0.1), transB=1)

    def head(self, x: str, channels: int, classes: int) -> str:
        x = self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)
        return self.gemm(x, (channels, classes))

    def layer_norm(self, x: str, width: int) -> str:
        scale = self.const(self.random.uniform(0.7, 1.3, width))
        return self.op("LayerNormalization", x, scale, self.normal((width,), 0.1), axis=-1)

    def silu(self, x: str) -> str:
        return self.op("Mul", x, self.op("Sigmoid", x))

    def permute(self, x: str, *order: int) -> str:
        return self.op("Transpose", x, perm=list(order))

    def cut(self, x: str, start: int, stop: int, axis: int) -> str:
        return self.op("Slice", x, self.ints(start), self.ints(stop), self.ints(axis))

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.ints(*shape))

    def model(self, *outputs: str, name: str = "net") -> onnx.ModelProto:
        """The model; the results get the names y0, y1, ..."""
        made = []
        for i, o in enumerate(outputs):
            self.nodes.append(helper.make_node("Identity", [o], [f"y{i}"], name=f"y{i}"))
            made.append(helper.make_empty_tensor_value_info(f"y{i}"))
        arrays = [numpy_helper.from_array(a, n) for n, a in self.weights.items()]
        graph = helper.make_graph(self.nodes, name, self.inputs, made, arrays)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def floats(name: str, *shape: int, seed: int = 1) -> Feeds:
    return {name: np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}


def words(name: str, vocabulary: int, *shape: int, seed: int = 1) -> Feeds:
    return {name: np.random.default_rng(seed).integers(0, vocabulary, shape, np.int64)}


def merged(*feeds: Mapping[str, Array]) -> Feeds:
    return {name: value for part in feeds for name, value in part.items()}
