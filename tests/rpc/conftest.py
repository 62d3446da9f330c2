"""A model as a library, servers of both kinds, a session."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import smelt
from smelt import relay, te
from smelt.rpc import RPCSession
from smelt.runtime.linking import export_server
from tests.devices.test_cross import loop

from .servers import Served, ServedByC, ServedByPython

Serve = Callable[..., Served]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """net.so, net.tar, net.json: a product and a ReLU of two rows; add.so: a function on tensors;
    loop.so; rows.so: a product of any number of rows with two results."""
    folder = tmp_path_factory.mktemp("libraries")
    x = relay.var("x", shape=(2, 4), dtype="float32")
    w = relay.const(np.arange(12, dtype="float32").reshape(3, 4) - 5)
    lib = relay.build(smelt.IRModule.from_expr(relay.nn.relu(relay.nn.dense(x, w))), "llvm")
    lib.export_library(folder / "net.so")
    lib.export_library(folder / "net.tar")
    (folder / "net.json").write_text(lib.get_graph_json())
    a, b = te.placeholder((8,), name="a"), te.placeholder((8,), name="b")
    c = te.compute((8,), lambda i: a[i] + b[i], name="c")
    smelt.build(te.create_schedule(c.op), [a, b, c], name="add").export_library(folder / "add.so")
    smelt.compile(loop()).export_library(folder / "loop.so")
    return folder


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """smelt-server, for this machine."""
    path = tmp_path_factory.mktemp("program") / "smelt-server"
    export_server(path)
    return path


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for localhost that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    pair = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-out", pair[0], "-keyout",
         pair[1]], check=True, capture_output=True,
    )  # fmt: skip
    return pair


def serving(
    kind: str, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Serve]:
    """What starts servers of a kind, whose folders are in one place; they end with the test."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    made: list[Served] = []

    def serve(key: str = "", tracker: int | None = None) -> Served:
        if kind == "Python":
            made.append(ServedByPython(folder, key, tracker))
        else:
            made.append(ServedByC(program, folder, key, tracker))
        return made[-1]

    yield serve
    for server in made:
        server.terminate()


@pytest.fixture(params=["Python", "C"])
def serve(
    request: pytest.FixtureRequest, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Serve]:
    """What starts servers, of both kinds in turn."""
    yield from serving(request.param, program, tmp_path, monkeypatch)


@pytest.fixture
def server(serve: Serve) -> Served:
    """A server of this machine."""
    return serve()


@pytest.fixture
def remote(server: Served) -> Iterator[RPCSession]:
    """A session of it."""
    with server.connect() as session:
        yield session
