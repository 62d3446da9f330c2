"""A small network in its three forms."""

from typing import Any

import numpy as np
import pytest

from smelt import relay
from smelt.cli.resnet import resnet18

SHAPE = (1, 3, 32, 32)


@pytest.fixture(scope="session")
def mod() -> relay.IRModule:
    network = resnet18(width=8, image=32, classes=10)
    return relay.frontend.from_onnx(network, {"input": SHAPE})[0]


@pytest.fixture(scope="session")
def image() -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).standard_normal(SHAPE).astype("float32")


@pytest.fixture(scope="session")
def lib(mod: relay.IRModule) -> Any:
    return relay.build(mod, mod_name="net")
