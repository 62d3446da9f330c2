"""What is quantized: text of small networks, and laws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest

import smelt
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.quantization.points import find_points, layers_of
from smelt.quantization.run import prepare
from smelt.relax.nodes import Call, Function, RelaxExpr, Tuple, Var, call, constant, values
from smelt.relax.transform.compute_in_integers import compute_in_integers, products_of

RNG = np.random.default_rng(0)
Body = Callable[[RelaxExpr], RelaxExpr]


def w(*shape: int) -> RelaxExpr:
    fan = max(int(np.prod(shape[1:])), 8)
    return constant((RNG.standard_normal(shape) / np.sqrt(fan)).astype("float32"))


def conv(x: RelaxExpr, out: int = 8, k: int = 3, into: int = 8) -> RelaxExpr:
    y = call("conv2d", x, w(out, into, k, k), pads=(k // 2,) * 4)
    return call("add", y, w(out, 1, 1))


def relu(x: RelaxExpr) -> RelaxExpr:
    return call("relu", x)


def end(x: RelaxExpr) -> RelaxExpr:
    """What classifies."""
    return call("matmul", call("mean", x, axes=(2, 3), keepdims=False), w(8, 5))


def residual(x: RelaxExpr) -> RelaxExpr:
    h = relu(conv(x))
    return end(relu(call("add", conv(relu(conv(h))), h)))


def pooled(x: RelaxExpr) -> RelaxExpr:
    h = call("max_pool", relu(conv(x)), kernel=(2, 2), strides=(2, 2))
    both = call("concat", relu(conv(h)), relu(conv(h, 8, 1)), axis=1)
    return end(relu(conv(both, 8, 1, 16)))


def gated(x: RelaxExpr) -> RelaxExpr:
    h = conv(x)
    h = call("silu", h)
    s = call("mean", h, axes=(2, 3))
    s = call("sigmoid", conv(relu(conv(s, 8, 1)), 8, 1))
    return end(relu(conv(call("multiply", h, s))))


def head(x: RelaxExpr) -> RelaxExpr:
    h = relu(conv(x))
    return Tuple((call("sigmoid", conv(h, 4, 1)), conv(h, 2, 1)))


def block(x: RelaxExpr) -> RelaxExpr:
    """A transformer's: its sums stay in floats."""
    flat = call("reshape", x, shape=(1, 256, 8))
    n = call("layer_norm", flat, w(8), w(8))
    q, k, v = (call("matmul", n, w(8, 8)) for _ in range(3))
    p = call("softmax", call("matmul", q, k, transpose_b=True))
    h = call("add", call("matmul", call("matmul", p, v), w(8, 8)), flat)
    m = call("gelu", call("matmul", call("layer_norm", h, w(8), w(8)), w(8, 32)))
    return call("add", call("matmul", m, w(32, 8)), h)


def module(body: Body) -> IRModule:
    x = Var("x", tensor_type((1, 8, 16, 16), "float32"))
    return prepare(IRModule({"main": Function((x,), body(x))}))


def main(mod: IRModule) -> Function:
    f = mod["main"]
    assert isinstance(f, Function)
    return f


EXPECTED: dict[Body, str] = {
    residual: "x relu relu add relu mean",
    pooled: "x relu max_pool relu relu concat relu mean",
    gated: "x add silu mean relu add sigmoid multiply relu mean",
    head: "x relu",
    block: "layer_norm matmul layer_norm gelu",
}


@pytest.mark.parametrize("body", EXPECTED)
def test_which_values_are_quantized(body: Body) -> None:
    points = find_points(main(module(body)))
    names = [v.name if isinstance(v, Var) else v.callee for v in points.values]  # type: ignore[attr-defined]
    assert " ".join(names) == EXPECTED[body]


@pytest.mark.parametrize("body", EXPECTED)
def test_results_stay_close_and_every_layer_is_of_integers(body: Body) -> None:
    mod = module(body)
    data = np.cumsum(RNG.standard_normal((16, 1, 8, 16, 16)), axis=-1).astype("float32")
    made = smelt.quantize(mod, data)
    assert made.report.quantized == len(layers_of(main(mod)))
    assert made.report.distance is not None
    assert made.report.distance < 5


def test_moves_share_a_range() -> None:
    points = find_points(main(module(pooled)))
    groups: dict[RelaxExpr, list[str]] = {}
    for v in points.values:
        assert isinstance(v, Call | Var)
        groups.setdefault(points.groups.find(v), []).append(getattr(v, "callee", v.name))
    shared = sorted(len(g) for g in groups.values())
    assert shared == [1, 1, 1, 2, 3]


def test_layers_that_are_kept() -> None:
    mod = module(residual)
    names = list(layers_of(main(mod)))
    assert names == ["conv2d", "conv2d_2", "conv2d_3", "matmul"]
    data = np.cumsum(RNG.standard_normal((4, 1, 8, 16, 16)), axis=-1).astype("float32")
    for keep in ([names[0]], [names[1], names[3]], names):
        made = smelt.quantize(mod, data, keep=tuple(keep))
        assert [v.form == "float32" for v in made.report.layers] == [n in keep for n in names]
        count = sum(
            isinstance(v, Call) and v.callee == "quantize" for v in values(main(made.mod).body)
        )
        assert (count == 0) == (keep == names)


def test_bias_correction_keeps_the_means_of_sums() -> None:
    mod = module(lambda x: conv(x))
    data = (RNG.standard_normal((64, 1, 8, 16, 16)) + 2).astype("float32")
    floats = smelt.compile(mod)
    lost = []
    for correct in (False, True):
        made = smelt.quantize(mod, data, weight_scale="power2", bias_correction=correct)
        exe = smelt.compile(made.mod)
        means = [(exe(d).numpy() - floats(d).numpy()).mean(axis=(0, 2, 3)) for d in data]
        lost.append(np.abs(np.mean(means, axis=0)).max())
    assert lost[1] < lost[0] / 3


@pytest.mark.parametrize("correct", [False, True])
def test_a_filter_of_next_to_nothing_has_a_bias_that_fits(correct: bool) -> None:
    """Its bias would be more steps than int32 has; the layer would stay in floats."""
    filters = RNG.standard_normal((8, 8, 3, 3)).astype("float32")
    filters[1:] *= 1e-12
    bias = np.linspace(0.3, 1.7, 8, dtype="float32").reshape(8, 1, 1)
    mod = module(lambda x: call("add", call("conv2d", x, constant(filters)), constant(bias)))
    data = (RNG.standard_normal((8, 1, 8, 16, 16)) + 2).astype("float32")
    made = smelt.quantize(mod, data, bias_correction=correct)
    whole = compute_in_integers(made.mod)["main"].body
    (total,) = [v for v in values(whole) if isinstance(v, Call) and v.callee == "add"]
    assert total.type == tensor_type((1, 8, 14, 14), "int32")
    found, wanted = (smelt.compile(m)(data[0]).numpy() for m in (made.mod, mod))
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_smoothing_keeps_the_function(share: float) -> None:
    """Operands with a few channels a hundred times as large as the others."""
    big = np.where(np.arange(8) % 4 == 1, 100.0, 1.0).astype("float32")

    def uneven(x: RelaxExpr) -> RelaxExpr:
        flat = call("reshape", x, shape=(1, 256, 8))
        n = call("layer_norm", flat, constant(big), w(8))
        return call("add", call("matmul", n, w(8, 8)), call("matmul", n, w(8, 8)))

    mod = module(uneven)
    data = RNG.standard_normal((32, 1, 8, 16, 16)).astype("float32")
    plain, smooth = (smelt.quantize(mod, data, smooth=s) for s in (None, share))
    assert smooth.report.notes[-1] == "smoothed: the products behind 1 normalisations"
    assert plain.report.distance is not None
    assert smooth.report.distance is not None
    assert smooth.report.distance < 1.5
    if share == 0.5:
        assert smooth.report.distance < plain.report.distance


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("block_size", [8, 32])
def test_weights_alone(weights: str, block_size: int) -> None:
    mod = module(block)
    made = smelt.quantize(mod, activations="float32", weights=weights, block=block_size)
    assert made.report.quantized == len(made.report.layers) == 6
    assert products_of(made.mod).small == 6
    assert made.report.bytes[1] < made.report.bytes[0] * (0.5 if weights == "int8" else 0.45)
    x = RNG.standard_normal((1, 8, 16, 16)).astype("float32")
    a, b = smelt.compile(mod)(x).numpy(), smelt.compile(made.mod)(x).numpy()
    assert np.linalg.norm(a - b) < np.linalg.norm(a) * (0.02 if weights == "int8" else 0.2)


@pytest.mark.parametrize(("block_size", "turned"), [(16, False), (32, True)])
def test_weights_alone_times_bytes(block_size: int, turned: bool) -> None:
    """The last block of a column is short; ONNX Runtime has the same results."""
    x = Var("x", tensor_type((1, 72), "float32"))
    h = call("matmul", x, w(40, 72) if turned else w(72, 40), transpose_b=turned)
    mod = IRModule({"main": Function((x,), call("matmul", relu(h), w(40, 24)))})
    made = smelt.quantize(mod, activations="dynamic", weights="int4", block=block_size)
    assert made.report.quantized == 2
    found = [v for v in values(made.mod["main"].body) if isinstance(v, Call)]
    blocks = [v for v in found if v.callee == "matmul_in_blocks"]
    assert [v.attrs["compute_dtype"] for v in blocks] == ["int8", "int8"]
    proto = smelt.to_onnx(made.mod)
    assert [n.op_type for n in proto.graph.node].count("MatMulNBits") == 2
    row = RNG.standard_normal((1, 72)).astype("float32")
    a, b, c = (smelt.compile(m)(row).numpy() for m in (mod, made.mod, proto))
    assert np.linalg.norm(a - b) < np.linalg.norm(a) * 0.3
    np.testing.assert_array_equal(b, c)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    name = session.get_inputs()[0].name
    np.testing.assert_allclose(b, session.run(None, {name: row})[0], atol=1e-5)


def test_symbolic_sizes() -> None:
    x = Var("x", tensor_type((smelt.ir.expr.Var("n", "int64"), 64), "float32"))
    y = call("matmul", relu(call("matmul", x, w(64, 32))), w(32, 4))
    mod = IRModule({"main": Function((x,), y)})
    data = RNG.standard_normal((32, 64)).astype("float32")
    made = smelt.quantize(mod, data, method="mse")
    exe, floats = smelt.compile(made.mod), smelt.compile(mod)
    rows = data[:7]  # all of whose numbers were seen
    a, b = floats(rows).numpy(), exe(rows).numpy()
    assert np.linalg.norm(a - b) < 0.05 * np.linalg.norm(a)


@pytest.mark.parametrize("budget", [None, 50.0, 0.0])
def test_tables_of_embeddings(budget: float | None) -> None:
    ids = Var("ids", tensor_type((1, 7), "int64"))
    table = constant(RNG.standard_normal((2000, 16)).astype("float32"), "table")
    h = call("matmul", call("gather", table, ids, axis=0), w(16, 8))
    mod = IRModule({"main": Function((ids,), call("matmul", relu(h), w(8, 4)))})
    data = RNG.integers(0, 2000, (20, 1, 7))
    made = smelt.quantize(mod, data, max_drop=budget)
    a, b = (smelt.compile(m)(data[0]).numpy() for m in (mod, made.mod))
    if budget == 0.0:  # nothing is as good as floats
        assert made.report.quantized == 0
        assert np.array_equal(a, b)
    else:
        assert made.report.bytes[1] < 0.27 * made.report.bytes[0]
        assert np.linalg.norm(a - b) < 0.05 * np.linalg.norm(a)
