"""relay.quantize: the classic calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relay
from smelt.ir.errors import CompileError, SmeltError

RNG = np.random.default_rng(0)


def net() -> tuple[Any, dict[str, Any]]:
    """Two convolutions, the second with a bias, and a dense layer."""
    shapes = {"w1": (8, 4, 3, 3), "w2": (8, 8, 3, 3), "b": (8,), "w3": (5, 8)}
    x, w1, w2, b, w3 = (relay.var(n, shape=s) for n, s in [("x", (1, 4, 8, 8)), *shapes.items()])
    h = relay.nn.relu(relay.nn.conv2d(x, w1, padding=(1, 1), channels=8, kernel_size=(3, 3)))
    h = relay.nn.conv2d(h, w2, padding=(1, 1), channels=8, kernel_size=(3, 3))
    h = relay.nn.relu(relay.nn.bias_add(h, b))
    h = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(h))
    params = {n: RNG.standard_normal(s).astype("float32") * 0.3 for n, s in shapes.items()}
    f = relay.Function([x, w1, w2, b, w3], relay.nn.dense(h, w3))
    return relay.IRModule.from_expr(f), params


DATA = [{"x": RNG.standard_normal((1, 4, 8, 8)).astype("float32")} for _ in range(8)]


def counted(mod: Any) -> dict[str, int]:
    return dict(relay.analysis.count_ops(mod["main"]))


def differs(mod: Any, quantized: Any, params: dict[str, Any]) -> float:
    a = relay.create_executor("graph", mod).evaluate()(DATA[0]["x"], **params).numpy()
    b = relay.create_executor("graph", quantized).evaluate()(DATA[0]["x"]).numpy()
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


def test_a_global_scale_needs_no_samples() -> None:
    mod, params = net()
    with relay.quantize.qconfig(global_scale=4.0, skip_conv_layers=[0]):
        made = relay.quantize.quantize(mod, params)
    found = counted(made)
    assert found["nn.conv2d"] == 2
    assert found["qnn.quantize"] == 1
    assert differs(mod, made, params) < 0.2


@pytest.mark.parametrize("mode", ["kl_divergence", "percentile"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_samples(mode: str, dtype: str) -> None:
    mod, params = net()
    with relay.quantize.qconfig(
        calibrate_mode=mode, weight_scale="max", skip_conv_layers=None, skip_dense_layer=False,
        dtype_input=dtype,
    ):  # fmt: skip
        made = relay.quantize.quantize(mod, params, DATA)
    assert differs(mod, made, params) < 0.05
    integers = counted(relay.transform.FakeQuantizationToInteger()(made))
    assert integers["qnn.conv2d"] == 2


def test_the_settings_end_with_their_block() -> None:
    assert relay.quantize.current_qconfig().calibrate_mode == "global_scale"
    with relay.quantize.qconfig(calibrate_mode="percentile") as q:
        assert relay.quantize.current_qconfig() is q
        assert q.get_nbit_by_kind(relay.quantize.QAnnotateKind.WEIGHT) == 8
        assert q.get_dtype_by_kind(relay.quantize.QAnnotateKind.ACTIVATION) == "int32"
    assert relay.quantize.current_qconfig().calibrate_mode == "global_scale"
    assert relay.quantize.kind2str(relay.quantize.QAnnotateKind.INPUT) == "input"


def test_what_is_optimized_first() -> None:
    mod, params = net()
    made = relay.quantize.prerequisite_optimize(mod, params)
    assert [p.name_hint for p in made["main"].params] == ["x"]
    assert "nn.bias_add" in counted(made)


@pytest.mark.parametrize(("given", "said"), [
    ({"calibrate_mod": "x"}, "qconfig: there is no 'calibrate_mod'; nearest: calibrate_mode"),
    ({"nbit_weight": 4}, "qconfig: nbit_weight=4; legal: 8"),
    ({"do_simulation": True}, "qconfig: do_simulation=True; legal: False"),
    ({"global_scale": 0}, "qconfig: global_scale=0; legal: more than 0"),
])  # fmt: skip
def test_settings_that_are_none(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SmeltError) as e, relay.quantize.qconfig(**given):
        pass
    assert str(e.value).startswith(said)


def test_samples_that_lack() -> None:
    mod, params = net()
    with (
        relay.quantize.qconfig(calibrate_mode="percentile"),
        pytest.raises(CompileError, match="needs samples"),
    ):
        relay.quantize.quantize(mod, params)
    with pytest.raises(CompileError, match="params has 'w9', which is no parameter of main"):
        relay.quantize.quantize(mod, {"w9": np.zeros(1)})


def test_it_compiles() -> None:
    mod, params = net()
    with relay.quantize.qconfig(calibrate_mode="percentile", weight_scale="max"):
        made = relay.quantize.quantize(mod, params, DATA)
    with smelt.transform.PassContext(opt_level=3):
        lib = relay.build(made, "llvm")
    assert lib is not None
