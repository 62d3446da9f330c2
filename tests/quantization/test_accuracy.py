"""Trained networks lose next to nothing, on pictures that nothing before has seen."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import smelt
from smelt.quantization.ranges import METHODS
from smelt.relax.transform.compute_in_integers import products_of
from tests.quantization.networks import NETS, accuracy, digits, inference, trained

FLOATS: dict[str, float] = {}


def floats(net: str) -> float:
    if net not in FLOATS:
        FLOATS[net] = accuracy(trained(net)[0])
    return FLOATS[net]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("net", NETS)
def test_the_same_digits_are_seen(net: str, method: str) -> None:
    mod, _ = trained(net)
    made = smelt.quantize(mod, digits()[0][:200], method=method)
    assert floats(net) > 95
    assert made.report.quantized == len(made.report.layers)
    assert products_of(made.mod).floats == ()
    assert made.report.agreement is not None
    assert made.report.agreement >= 99
    assert accuracy(made.mod) >= floats(net) - (0.3 if method == "mse" else 1.0)


@pytest.mark.parametrize("settings", [
    {"activations": "int8"}, {"activations": "int8", "symmetric": True}, {"symmetric": True},
    {"weight_scale": "tensor"}, {"bias_correction": False}, {"equalize": True},
    {"equalize": True, "weight_scale": "tensor", "method": "mse"},
])  # fmt: skip
@pytest.mark.parametrize("net", NETS)
def test_other_settings(net: str, settings: dict[str, object]) -> None:
    mod, _ = trained(net)
    made = smelt.quantize(mod, digits()[0][:100], **settings)  # type: ignore[arg-type]
    assert accuracy(made.mod) >= floats(net) - 1.0


def crooked(net: str = "separable") -> smelt.IRModule:
    """The same function with channels of very different size between its layers."""
    _, weights = trained(net)
    made = [w.copy() for w in weights]
    by = np.exp2(np.random.default_rng(0).uniform(-5, 5, 16)).astype("float32")
    made[0] *= by[:, None, None, None]
    made[1] *= by[:, None, None]
    made[2] /= by[:, None, None, None]
    return inference(net, made)


def test_equalisation_makes_up_for_crooked_channels() -> None:
    x = digits()[0][:100]
    plain, equal = (smelt.quantize(crooked(), x, weight_scale="tensor", equalize=e).report
                    for e in (False, True))  # fmt: skip
    assert plain.distance is not None
    assert equal.distance is not None
    assert equal.distance < plain.distance / 3
    assert "equalized: 4 pairs of layers" in equal.notes


def test_a_budget_keeps_the_harmful_layers_in_floats() -> None:
    x = digits()[0][:100]

    def negative_distance(results: object) -> float:
        rows = np.array([r[0][0] for r in results])  # type: ignore[attr-defined]
        return -100 * float(np.linalg.norm(rows - expected) / np.linalg.norm(expected))

    exe = smelt.compile(crooked())
    expected = np.array([exe(p[None]).numpy()[0] for p in x])
    whole = smelt.quantize(crooked(), x, weight_scale="tensor").report
    assert whole.distance is not None
    limit = whole.distance / 4
    made = smelt.quantize(
        crooked(), x, weight_scale="tensor", max_drop=limit, metric=negative_distance
    )
    assert made.report.drop is not None
    assert made.report.drop <= limit
    kept = [v for v in made.report.layers if v.form == "float32"]
    assert 0 < len(kept) < len(made.report.layers)
    assert all("would be worse" in v.why for v in kept)
    costs = [v.cost for v in made.report.layers if v.cost is not None]
    assert len(costs) == len(made.report.layers)
    assert min(v.cost or 0 for v in kept) >= max(
        v.cost or 0 for v in made.report.layers if v.form != "float32"
    )


def test_nothing_is_kept_where_the_budget_allows() -> None:
    mod, _ = trained("plain")
    report = smelt.quantize(mod, digits()[0][:100], max_drop=1.0).report
    assert report.quantized == len(report.layers)
    assert report.drop is not None
    assert report.drop <= 1


@pytest.mark.parametrize("net", NETS)
def test_other_runtimes_open_it(net: str, tmp_path: object) -> None:
    mod, _ = trained(net)
    made = smelt.quantize(mod, digits()[0][:100])
    path = f"{tmp_path}/{net}.onnx"
    made.save(path)
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    peer = onnxruntime.InferenceSession(path, plain)
    ours = smelt.compile(path)
    apart = []
    for picture in digits()[2][:100]:
        a = ours(picture[None]).numpy()
        (b,) = peer.run(None, {"x": picture[None]})
        apart.append(np.abs(a - b).max() / np.abs(b).max())
    # The peer sums floats, in an order that depends on the processor: what lies between two steps
    # may be rounded to the other one.
    assert sorted(apart)[-3] <= 1e-5
    assert max(apart) < 1e-2


@pytest.mark.parametrize("net", NETS)
def test_narrow_weights_do_not_saturate_elsewhere(net: str, tmp_path: object) -> None:
    mod, _ = trained(net)
    made = smelt.quantize(mod, digits()[0][:100], narrow=True)
    path, fast = f"{tmp_path}/{net}.onnx", f"{tmp_path}/fast.onnx"
    made.save(path)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = fast
    options.log_severity_level = 3
    peer = onnxruntime.InferenceSession(path, options)
    operators = {n.op_type for n in onnx.load(fast).graph.node}
    assert not operators & {"Conv", "MatMul", "Gemm"}  # all of integers
    exe = smelt.compile(made.mod)
    same = 0
    for picture in digits()[2][:100]:
        a = exe(picture[None]).numpy()
        (b,) = peer.run(None, {"x": picture[None]})
        same += int(a.argmax() == b.argmax())
        assert np.abs(a - b).max() <= 0.03 * np.abs(b).max()
    assert same == 100


def test_the_same_input_gives_the_same_file(tmp_path: object) -> None:
    mod, _ = trained("plain")
    texts = []
    for name in ("a", "b"):
        smelt.quantize(mod, digits()[0][:50], method="entropy").save(f"{tmp_path}/{name}.onnx")
        with open(f"{tmp_path}/{name}.onnx", "rb") as file:
            texts.append(file.read())
    assert texts[0] == texts[1]
