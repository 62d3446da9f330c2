"""The networks of relay.testing: their form, and that the compiler agrees with the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relay
from smelt.contrib import graph_executor
from smelt.ir.errors import Unsupported
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Function, tensor_type_of
from smelt.relay import testing

from .support import floats, same

SMALL: dict[str, Callable[[], Any]] = {
    "mlp": testing.mlp.get_workload,
    "resnet18": lambda: testing.resnet.get_workload(num_classes=10, image_shape=(3, 16, 16)),
    "resnet50": lambda: testing.resnet.get_workload(
        num_classes=5, num_layers=50, image_shape=(16, 16, 3), layout="NHWC"),
    "mobilenet": lambda: testing.mobilenet.get_workload(image_shape=(3, 32, 32), alpha=0.25),
    "squeezenet": lambda: testing.squeezenet.get_workload(
        num_classes=10, version="1.1", image_shape=(3, 48, 48)),
    "vgg": lambda: testing.vgg.get_workload(
        num_classes=10, image_shape=(3, 32, 32), batch_norm=True, hidden=64),
    "dcgan": lambda: testing.dcgan.get_workload(ngf=8, random_len=16),
    "dqn": lambda: testing.dqn.get_workload(image_shape=(4, 44, 44)),
    "lstm": lambda: testing.lstm.get_workload(3, 16, batch_size=2),
    "synthetic": testing.synthetic.get_workload,
}  # fmt: skip

# name: (builder, the shape of the result, weights): numbers of the papers' sizes
LARGE: dict[str, tuple[Callable[[], Any], tuple[int, ...], int]] = {
    "resnet18": (testing.resnet.get_workload, (1, 1000), 11_689_512),
    "mobilenet": (testing.mobilenet.get_workload, (1, 1000), 4_231_976),
    "squeezenet": (testing.squeezenet.get_workload, (1, 1000), 1_248_424),
    "densenet": (lambda: testing.densenet.get_workload(batch_size=1), (1, 1000), 7_978_856),
    "inception_v3": (testing.inception_v3.get_workload, (1, 1000), 23_834_568),
}  # fmt: skip


def given(mod: Any, params: Any) -> list[Any]:
    """Inputs for the parameters: the weights, and random data."""
    return [
        params[p.name].numpy() if p.name in params else floats(*p.type.fixed_shape())
        for p in mod["main"].params
    ]


@pytest.mark.parametrize("name", SMALL)
def test_a_small_network_compiled_agrees_with_the_interpreter(name: str) -> None:
    mod, params = SMALL[name]()
    inputs = given(mod, params)
    want = interpret(mod["main"], *inputs)
    assert want[0].std() > 1e-3 * np.abs(want[0]).max(), "a constant result would hide errors"
    lib = relay.build(mod, target="llvm -mcpu=native", params=params)
    executor = graph_executor.GraphModule(lib["default"](smelt.cpu(0)))
    data = inputs[[p.name for p in mod["main"].params].index("data")]
    executor.run(data=data)
    same(executor.get_output(0).numpy(), want[0], 2e-5, name)


@pytest.mark.parametrize("name", LARGE)
def test_a_network_has_the_size_of_its_paper(name: str) -> None:
    build, shape, count = LARGE[name]
    mod, params = build()
    assert mod["main"].ret_type.fixed_shape() == shape
    running = ("moving_mean", "moving_var")
    trained = [x.numpy().size for n, x in params.items() if not n.endswith(running)]
    assert sum(trained) == count


def test_resnet_keeps_its_batch_norms() -> None:
    mod, _ = SMALL["resnet18"]()
    counts = relay.analysis.count_ops(mod["main"])
    assert counts["nn.conv2d"] == counts["nn.batch_norm"] == 20
    assert counts["nn.relu"] == 17
    text = mod.astext()
    assert "nn.batch_norm(" in text
    assert ".0" in text


def test_resnet_runs_with_its_weights_as_inputs() -> None:
    mod, params = SMALL["resnet18"]()
    inputs = given(mod, params)
    found = smelt.compile(mod)(*inputs).numpy()
    same(found, interpret(mod["main"], *inputs)[0], 2e-5)


def test_weights_come_from_a_seed() -> None:
    net = testing.mlp.get_net()
    one, other, third = (testing.create_workload(net, seed=s)[1] for s in (1, 1, 2))
    name = "fc1_weight"
    assert np.array_equal(one[name].numpy(), other[name].numpy())
    assert not np.array_equal(one[name].numpy(), third[name].numpy())


def test_a_pass_on_an_expression() -> None:
    x = relay.var("x", shape=(2, 3))
    y = testing.run_infer_type(relay.nn.relu(x))
    assert tensor_type_of(y).fixed_shape() == (2, 3)
    f = testing.run_opt_pass(Function((x,), relay.nn.relu(x)), relay.transform.InferType())
    assert isinstance(f, Function)


def test_a_size_that_there_is_not() -> None:
    with pytest.raises(Unsupported, match="num_layers=20; legal: 18, 34, 50, 101, 152"):
        testing.resnet.get_workload(num_layers=20)
