"""A model as a library, a server, a tracker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import smelt
from smelt import relay, te
from smelt.rpc import RPCSession, Security, Server, connect
from tests.devices.test_cross import loop

SECRET = Security("only we know")


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """net.so, net.tar: a product and a ReLU of two rows; add.so: a function on tensors; loop.so."""
    folder = tmp_path_factory.mktemp("libraries")
    x = relay.var("x", shape=(2, 4), dtype="float32")
    w = relay.const(np.arange(12, dtype="float32").reshape(3, 4) - 5)
    lib = relay.build(smelt.IRModule.from_expr(relay.nn.relu(relay.nn.dense(x, w))), "llvm")
    lib.export_library(folder / "net.so")
    lib.export_library(folder / "net.tar")
    a, b = te.placeholder((8,), name="a"), te.placeholder((8,), name="b")
    c = te.compute((8,), lambda i: a[i] + b[i], name="c")
    smelt.build(te.create_schedule(c.op), [a, b, c], name="add").export_library(folder / "add.so")
    smelt.compile(loop()).export_library(folder / "loop.so")
    return folder


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of this machine."""
    with Server(port=0, security=SECRET) as made:
        yield made


@pytest.fixture
def remote(server: Server) -> Iterator[RPCSession]:
    """A session of it."""
    with connect("127.0.0.1", server.port, security=SECRET) as session:
        yield session
