"""A small ResNet-18, imported and built once."""

from typing import Any

import numpy as np
import onnxruntime
import pytest

from smelt import relay
from smelt.cli.resnet import resnet18

SHAPE = (1, 3, 32, 32)


@pytest.fixture(scope="session")
def model() -> Any:
    return resnet18(width=8, image=32, classes=10)


@pytest.fixture(scope="session")
def image() -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).standard_normal(SHAPE).astype("float32")


@pytest.fixture(scope="session")
def expected(model: Any, image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    result: np.ndarray[Any, Any] = session.run(None, {"input": image})[0]
    return result


@pytest.fixture(scope="session")
def mod(model: Any) -> relay.IRModule:
    return relay.frontend.from_onnx(model, {"input": SHAPE})[0]


@pytest.fixture(scope="session")
def lib(mod: relay.IRModule) -> relay.GraphExecutorFactoryModule:
    return relay.build(mod, target="llvm -mcpu=native", mod_name="net")
