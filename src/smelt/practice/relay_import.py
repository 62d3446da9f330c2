"""Phase 4: a PyTorch model through Relay: import, passes, compile, compare."""

from __future__ import annotations

import importlib
import importlib.util
import io
import itertools
import warnings
from typing import Any

import numpy as np
import onnx

from smelt import relay
from smelt.contrib import graph_executor
from smelt.runtime import cpu
from smelt.transform import PassContext, Sequential

from .report import Array, Report

SIZES = (64, 256, 256, 10)
_MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
perceptron (float[n, 64] x) => (float[n, 10] y) {
    h0 = Gemm<transB=1>(x, w0, b0)
    r0 = Relu(h0)
    h1 = Gemm<transB=1>(r0, w1, b1)
    r1 = Relu(h1)
    y = Gemm<transB=1>(r1, w2, b2)
}
"""


def main(report: Report | None = None) -> None:
    """Import a small perceptron, apply graph passes, compile it, and compare the results."""
    say = report or Report()
    say.title("Phase 4: a model through Relay")
    weights = _weights()
    x = np.random.default_rng(1).standard_normal((1, SIZES[0]), np.float32)
    if importlib.util.find_spec("torch") is None:
        say.say(
            "PyTorch is not installed, so the model is written as ONNX by hand: three linear "
            "layers with relu between them. `pip install torch` for the real way."
        )
        model, expected = _by_hand(weights), _numpy(weights, x)
    else:
        say.say("A PyTorch model, three linear layers with relu between them, exported to ONNX.")
        model, expected = _from_torch(weights, x)
    mod, params = relay.frontend.from_onnx(model, {"x": x.shape}, freeze_params=True)
    say.program("What relay.frontend.from_onnx makes of it:", mod.astext(show_meta_data=False))
    _passes(say, mod)
    _compile(say, mod, params, x, expected)


def _weights() -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(0)
    pairs = []
    for m, n in itertools.pairwise(SIZES):
        scale = (2.0 / m) ** 0.5
        w = (rng.standard_normal((n, m)) * scale).astype(np.float32)
        pairs.append((w, (rng.standard_normal(n) * 0.1).astype(np.float32)))
    return pairs


def _numpy(weights: list[tuple[Array, Array]], x: Array) -> Array:
    for i, (w, b) in enumerate(weights):
        x = x @ w.T + b
        x = np.maximum(x, 0) if i + 1 < len(weights) else x
    return x


def _from_torch(weights: list[tuple[Array, Array]], x: Array) -> tuple[Any, Array]:
    torch = importlib.import_module("torch")
    layers: list[Any] = []
    for w, b in weights:
        layer = torch.nn.Linear(w.shape[1], w.shape[0])
        layer.weight.data, layer.bias.data = torch.from_numpy(w), torch.from_numpy(b)
        layers += [layer, torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers[:-1]).eval()
    file = io.BytesIO()
    with torch.no_grad(), warnings.catch_warnings():
        expected = net(torch.from_numpy(x)).numpy()
        # This exporter needs no further package, and says at each use that there is a newer one.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(net, (torch.from_numpy(x),), file, input_names=["x"],
                          output_names=["y"], dynamo=False)  # fmt: skip
    return onnx.load_from_string(file.getvalue()), expected


def _by_hand(weights: list[tuple[Array, Array]]) -> Any:
    model = onnx.parser.parse_model(_MODEL)
    for i, (w, b) in enumerate(weights):
        model.graph.initializer.append(onnx.numpy_helper.from_array(w, f"w{i}"))
        model.graph.initializer.append(onnx.numpy_helper.from_array(b, f"b{i}"))
    return model


def _passes(say: Report, mod: Any) -> None:
    say.question("What can passes over the graph do that schedules of single operators cannot?")
    t = relay.transform
    passes = [t.InferType(), t.SimplifyExpr(), t.FoldConstant(), t.FuseOps(fuse_opt_level=3)]
    with PassContext(opt_level=3):
        fused = Sequential(passes)(mod)
    say.program("After SimplifyExpr, FoldConstant and FuseOps:", fused.astext(show_meta_data=False))
    say.say(
        "Each fused function becomes one kernel: the bias and the relu are added where the product "
        "still is in registers, so it is written to memory once and never read back. Constant "
        "weights are transposed and packed at compile time. No schedule of one operator can do "
        "either: it sees no neighbours and does not know what is constant."
    )


def _compile(say: Report, mod: Any, params: Any, x: Array, expected: Array) -> None:
    rows = []
    for level in (0, 3):
        with PassContext(opt_level=level):
            lib = relay.build(mod, target="llvm -mcpu=native", params=params)
        runner = graph_executor.GraphModule(lib["default"](cpu(0)))
        runner.set_input("x", x)
        runner.run()
        result = runner.get_output(0).numpy()
        error = float(np.abs(result - expected).max() / np.abs(expected).max())
        if not error < 1e-4:
            raise AssertionError(f"opt_level {level}: the result is wrong by {error:.1e}")
        time = runner.benchmark(cpu(0), repeat=5, number=20).median
        rows.append((f"opt_level={level}", time * 1e6, f"{error:.1e}"))
    say.table(("relay.build", "us a run", "largest error"), rows)


if __name__ == "__main__":
    main()
