"""Who may come in, and what becomes of those who do not speak as they should."""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rpc_servers import SECRET
from smelt.rpc import RPCError, Security, Server, Tracker, connect, connect_tracker, wire

from .servers import Served, until


def test_a_server_for_others_needs_a_token() -> None:
    for make in (Server, Tracker):
        with pytest.raises(RPCError, match="can be reached from other machines: it needs a token"):
            make("0.0.0.0", 0)
    with Server("0.0.0.0", 0, security=SECRET) as server:
        assert connect("127.0.0.1", server.port, security=SECRET).about["cores"] > 0


@pytest.mark.parametrize(
    ("host", "here"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("127.example.com", False), ("192.168.0.7", False), ("::", False)],
)  # fmt: skip
def test_which_addresses_are_of_this_machine_alone(host: str, here: bool) -> None:
    assert wire.is_here(host) == here


def test_the_token_has_to_be_the_same(server: Served) -> None:
    with pytest.raises(RPCError, match="wants a token: set SMELT_RPC_TOKEN"):
        connect("127.0.0.1", server.port, security=Security())
    with pytest.raises(RPCError, match="the token is another one"):
        connect("127.0.0.1", server.port, security=Security("guessed"))
    with Tracker(port=0) as tracker:  # no token, on this machine alone
        assert connect_tracker("127.0.0.1", tracker.port).summary()["server_info"] == []


def test_the_token_is_never_sent(monkeypatch: pytest.MonkeyPatch, server: Served) -> None:
    said: list[bytes] = []
    send, hear = socket.socket.sendall, socket.socket.recv_into

    def sending(self: socket.socket, data: bytes) -> None:
        said.append(bytes(data))
        send(self, data)

    def hearing(self: socket.socket, view: memoryview) -> int:
        got = hear(self, view)
        said.append(bytes(view[:got]))
        return got

    monkeypatch.setattr(socket.socket, "sendall", sending)
    monkeypatch.setattr(socket.socket, "recv_into", hearing)
    server.connect().close()
    whole = b"".join(said)
    assert whole.count(b'"proof"') >= 2
    assert SECRET.token.encode() not in whole


def test_connections_are_encrypted(certificate: tuple[str, str]) -> None:
    secure = Security(SECRET.token, certificate, certificate[0])
    with Server("localhost", 0, security=secure) as server:
        session = connect("localhost", server.port, security=secure)
        assert session.upload(b"abc", target="x") == "x"
        assert session.download("x") == b"abc"
        with pytest.raises(RPCError):  # without TLS
            connect("localhost", server.port, security=SECRET)
        with pytest.raises(RPCError, match="cannot be reached"):  # whose certificate nobody knows
            connect("localhost", server.port, security=Security(SECRET.token, None, __file__))


def test_versions_have_to_be_the_same(monkeypatch: pytest.MonkeyPatch, server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as end:
        link = wire.Link(end, "it")
        link.receive()
        link.send({"version": 99, "number": "1"})
        answer, _ = link.receive()
        assert answer["error"] == "version 1 of the protocol is spoken here, not 99"
    with pytest.raises(RPCError, match=r"is none: it is a server"):
        connect_tracker("127.0.0.1", server.port, security=SECRET)
    with socket.create_server(("127.0.0.1", 0)) as other:

        def old() -> None:
            end, _ = other.accept()
            wire.Link(end, "").send({"smelt": "server", "version": 0, "number": "1"})

        threading.Thread(target=old, daemon=True).start()
        with pytest.raises(RPCError, match=r"speaks version 0 .* install the same smelt on both"):
            connect("127.0.0.1", other.getsockname()[1], security=SECRET)


def test_nobody_is_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(RPCError, match=f"the server at 127.0.0.1:{port} cannot be reached: "):
        connect("127.0.0.1", port)


def messages(rng: random.Random) -> bytes:
    """What no client sends."""
    head = struct.Struct("<4sIQ")
    kind = rng.randrange(7)
    text = json.dumps({"version": 1, "number": "1", "proof": "x"}).encode()
    if kind == 0:
        return rng.randbytes(rng.randrange(64))
    if kind == 1:
        return head.pack(b"SMRP", 1 << 31, 0) + text
    if kind == 2:
        return head.pack(b"SMRP", len(text), 1 << 60) + text
    if kind == 3:
        return head.pack(b"SMRP", len(text) + 5, 0) + text  # and then nothing
    if kind == 4:
        return head.pack(b"SMRP", 8, 0) + rng.randbytes(8)
    if kind == 5:
        return head.pack(b"SMRP", 2, 0) + b"[]"
    return head.pack(b"SMRP", len(text), 0) + text


def test_garbage_does_no_harm(server: Served) -> None:
    rng = random.Random(1)
    with Tracker(port=0, security=SECRET) as tracker:
        for n in range(400):
            port = (server.port, tracker.port)[n % 2]
            with socket.create_connection(("127.0.0.1", port)) as end:
                end.sendall(messages(rng))
        assert connect_tracker("127.0.0.1", tracker.port, security=SECRET).summary()
    with server.connect() as session:
        assert session.listdir() == []
        until(lambda: server.connections() <= 1)


def test_messages_of_known_clients_that_mean_nothing(server: Served) -> None:
    rng = random.Random(2)
    session = server.connect()
    values: list[Any] = [
        None, -1, 1 << 70, "x" * 100, [], {}, {"$": 5}, {"$": "object", "number": 3},
        {"$": "array", "dtype": "float32", "shape": [9]}, {"$": "device", "type": 7, "number": 0},
        {"$": "record", "name": "TensorInfo", "fields": {}},
    ]  # fmt: skip
    fields = ("path", "object", "name", "args", "named", "kind", "number", "start", "count")
    asked = ["load", "make", "call", "read", "forget", "download", "remove", "list", "none", None]
    for _ in range(300):
        message = {k: rng.choice(values) for k in fields} | {"do": rng.choice(asked)}
        session._link.send(message, [rng.randbytes(rng.randrange(9))])
        answer, _ = session._link.receive()
        assert "value" in answer or "error" in answer
    assert session.listdir() == []
