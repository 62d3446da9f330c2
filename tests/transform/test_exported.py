"""Models as exporters write them, through the ONNX front end."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from smelt.frontend.onnx import from_onnx
from smelt.ir.module import IRModule
from smelt.relax.transform import recognize_attention, simplify_graph

from .graphs import assert_same, ops_of

RNG = np.random.default_rng(3)


class Model:
    """A model being written, node by node."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, value: float) -> str:
        return self.weight(np.array(value, np.float32))

    def random(self, *shape: int, positive: bool = False) -> str:
        data = RNG.standard_normal(shape).astype(np.float32)
        return self.weight(np.abs(data) + 0.5 if positive else data / 2)

    def node(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def load(self, result: str, *shape: int | str, opset: int = 17) -> IRModule:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        y = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "test", [x], [y], self.weights)
        return from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))

    def conv_norm(self, x: str, c: int, o: int) -> str:
        y = self.node("Conv", x, self.random(o, c, 3, 3), pads=[1, 1, 1, 1])
        statistics = [self.random(o), self.random(o), self.random(o)]
        return self.node("BatchNormalization", y, *statistics, self.random(o, positive=True))

    def linear(self, x: str, k: int, n: int) -> str:
        return self.node("Add", self.node("MatMul", x, self.random(k, n)), self.random(n))

    def layer_norm(self, x: str, n: int) -> str:
        """As torch writes it below opset 17."""
        d = self.node("Sub", x, self.node("ReduceMean", x, axes=[-1]))
        v = self.node("ReduceMean", self.node("Pow", d, self.number(2.0)), axes=[-1])
        root = self.node("Sqrt", self.node("Add", v, self.number(1e-5)))
        y = self.node("Mul", self.node("Div", d, root), self.random(n))
        return self.node("Add", y, self.random(n))

    def gelu(self, x: str) -> str:
        e = self.node("Erf", self.node("Div", x, self.number(2**0.5)))
        y = self.node("Mul", x, self.node("Add", e, self.number(1.0)))
        return self.node("Mul", y, self.number(0.5))

    def heads(self, x: str, order: list[int]) -> str:
        shape = self.weight(np.array([0, 0, 2, 4]))
        return self.node("Transpose", self.node("Reshape", self.linear(x, 8, 8), shape), perm=order)


def test_residual_network() -> None:
    m = Model()
    x = m.node("Relu", m.conv_norm("x", 3, 8))
    y = m.conv_norm(m.node("Relu", m.conv_norm(x, 8, 8)), 8, 8)
    y = m.node("Relu", m.node("Add", y, x))
    y = m.node("Flatten", m.node("GlobalAveragePool", y))
    y = m.node("Gemm", m.node("Dropout", y), m.random(5, 8), m.random(5), transB=1)
    mod = m.load(y, 2, 3, 8, 8)
    after = simplify_graph(mod)
    found = ops_of(after)
    assert found["conv2d"] == 3
    assert found["relu"] == 3
    assert found["add"] == 5
    assert not {"batch_norm", "multiply"} & found.keys()
    assert_same(mod, after)


def test_batch_norm_first() -> None:
    m = Model()
    statistics = [m.random(3), m.random(3), m.random(3), m.random(3, positive=True)]
    x = m.node("BatchNormalization", "x", *statistics)
    mod = m.load(m.node("Conv", x, m.random(4, 3, 3, 3), m.random(4)), 1, 3, 6, 6)
    after = simplify_graph(mod)
    assert ops_of(after) == {"conv2d": 1, "add": 1}
    assert_same(mod, after)


def encoder(m: Model, x: str) -> str:
    q, k, v = [m.heads(x, order) for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])]
    scores = m.node("Div", m.node("MatMul", q, k), m.number(2.0))
    y = m.node("MatMul", m.node("Softmax", scores, axis=-1), v)
    y = m.node("Transpose", y, perm=[0, 2, 1, 3])
    y = m.node("Reshape", y, m.weight(np.array([0, 0, 8])))
    x = m.layer_norm(m.node("Add", m.linear(y, 8, 8), x), 8)
    y = m.linear(m.gelu(m.linear(x, 8, 16)), 16, 8)
    return m.layer_norm(m.node("Add", y, x), 8)


def check_encoder(mod: IRModule) -> None:
    plain = simplify_graph(mod)
    found = ops_of(plain)
    assert found["layer_norm"] == 4
    assert found["gelu"] == 2
    assert found["softmax"] == 2
    assert not {"mean", "sqrt", "erf", "power"} & found.keys()
    assert_same(mod, plain)
    after = recognize_attention(plain)
    assert ops_of(after)["attention"] == 2
    assert_same(mod, after)


def test_transformer() -> None:
    m = Model()
    check_encoder(m.load(encoder(m, encoder(m, "x")), 2, 5, 8, opset=13))


def test_transformer_of_symbolic_size() -> None:
    m = Model()
    check_encoder(m.load(encoder(m, encoder(m, "x")), "batch", "words", 8, opset=13))


def test_mobile_network() -> None:
    m = Model()
    y = m.conv_norm("x", 3, 6)
    gate = m.node("Clip", m.node("Add", y, m.number(3.0)), m.number(0.0), m.number(6.0))
    y = m.node("Mul", y, m.node("Div", gate, m.number(6.0)))
    y = m.conv_norm(y, 6, 4)
    mod = m.load(m.node("Mul", y, m.node("Sigmoid", y)), 1, 3, 8, 8)
    after = simplify_graph(mod)
    assert ops_of(after) == {"conv2d": 2, "add": 2, "hard_swish": 1, "silu": 1}
    assert_same(mod, after)
