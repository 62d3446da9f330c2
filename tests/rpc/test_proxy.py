"""Servers behind a proxy: sessions, who waits, who is lost, who may come in."""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.rpc_servers import SECRET, is_there, stat
from smelt.contrib import graph_executor
from smelt.exec import rpc_server
from smelt.rpc import (
    Proxy,
    RPCError,
    RPCSession,
    RPCSessionTimeoutError,
    Security,
    Server,
    Tracker,
    connect,
    connect_tracker,
    wire,
)
from smelt.rpc.proxy import pass_on
from smelt.runtime import InputError, load_module

from .servers import until
from .test_tracker import X, port, started
from .test_wire import messages

HOST = "127.0.0.1"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again is tried again soon."""
    monkeypatch.setattr("smelt.rpc.server._AGAIN", 0.1)
    monkeypatch.setattr("smelt.rpc.proxy._LOOKS", 0.1)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy; it leaves neither threads nor connections behind."""
    before = threading.active_count(), sockets()
    with Proxy(port=0, timeout=0.3, security=SECRET) as made:
        yield made
    until(lambda: threading.active_count() <= before[0] and sockets() <= before[1])
    until(lambda: (made._places, made._programs, made._acceptor.links) == ([], [], set()))


def sockets() -> int:
    found = 0
    for entry in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{entry}").startswith("socket:")
        except FileNotFoundError:  # the folder itself
            continue
    return found


def behind(proxy: Proxy, key: str = "board") -> Server:
    return Server(HOST, proxy.port, is_proxy=True, key=key, security=SECRET)


def asking(proxy: Proxy, key: str = "board", **more: Any) -> RPCSession:
    return connect(HOST, proxy.port, key, security=SECRET, **more)


def waiting(proxy: Proxy) -> list[str]:
    """The keys of the servers that are free."""
    return sorted(p.key for p in proxy._places if p.program is None)


def worker(server: Server) -> tuple[int, str]:
    (process,) = [s.process._process for s in server._sessions]
    assert process is not None
    return process.pid, stat(process.pid)[19]


def test_files_models_errors_crashes(proxy: Proxy, libraries: Path) -> None:
    with behind(proxy) as server, asking(proxy) as remote:
        data = np.random.default_rng(0).bytes((17 << 20) + 3)
        remote.upload(data, target="large.bin")
        assert remote.download("large.bin") == data
        remote.upload(libraries / "net.so")
        lib = remote.load_module("net.so")
        wanted = load_module(libraries / "net.so")(X).numpy()
        np.testing.assert_array_equal(lib(X).numpy(), wanted)
        module = graph_executor.GraphModule(lib["default"](remote.cpu(0)))
        module.set_input("x", X)
        module.run()
        np.testing.assert_array_equal(module.get_output(0).numpy(), wanted)
        timed = module.module.time_evaluator("run", remote.cpu(0), repeat=3, number=5)()
        assert len(timed.results) == 3
        with pytest.raises(InputError, match=r"input 'x': shape \[2, 5\]"):
            lib(np.ones((2, 5), "float32"))
        os.kill(worker(server)[0], signal.SIGSEGV)
        with pytest.raises(RPCError, match="the process of this session was ended by SIGSEGV"):
            lib(X)
        np.testing.assert_array_equal(remote.load_module("net.so")(X).numpy(), wanted)


def test_both_ways_at_a_time(proxy: Proxy) -> None:
    """More than all buffers hold, which is read late."""
    made: list[socket.socket] = []
    with socket.create_server((HOST, 0)) as listening:
        for _ in range(2):
            made += [socket.create_connection(listening.getsockname()), listening.accept()[0]]
    (a, b), (c, d) = made[:2], made[2:]
    data = random.Random(0).randbytes(12 << 20)
    found: list[bytearray] = [bytearray(), bytearray()]

    def hear(end: socket.socket, to: bytearray) -> None:
        time.sleep(0.3)
        while len(to) < len(data):
            to += end.recv(1 << 20)

    threads = [threading.Thread(target=pass_on, args=(b, c))]
    threads += [threading.Thread(target=e.sendall, args=(data,)) for e in (a, d)]
    threads += [threading.Thread(target=hear, args=pair) for pair in ((a, found[0]), (d, found[1]))]
    for t in threads:
        t.start()
    for t in threads[1:]:
        t.join(15)
    assert found == [data, data]
    a.close()
    threads[0].join(15)
    assert not threads[0].is_alive()
    for end in made:
        end.close()


def test_priorities_then_the_order_of_asking(proxy: Proxy) -> None:
    with behind(proxy) as server:
        held, came = asking(proxy), list[int]()

        def ask(priority: int, number: int) -> None:
            with asking(proxy, priority=priority):
                came.append(number)
                assert len(server._sessions) == 1

        threads: list[threading.Thread] = []
        for number, priority in enumerate((1, 1, 5)):
            threads.append(threading.Thread(target=ask, args=(priority, number)))
            threads[-1].start()
            until(lambda: len(proxy._programs) == len(threads))
        time.sleep(0.6)  # longer than they would wait without a server
        assert not came
        held.close()
        for t in threads:
            t.join(15)
        assert came == [2, 0, 1]


def test_several_programs_and_servers(proxy: Proxy) -> None:
    with behind(proxy) as a, behind(proxy) as b, behind(proxy, "other") as c:
        until(lambda: waiting(proxy) == ["board", "board", "other"])
        found: list[tuple[int, list[str]]] = []

        def work(number: int) -> None:
            with asking(proxy, ("board", "board", "other")[number % 3]) as session:
                session.upload(bytes([number]) * 100_000, target=f"{number}")
                assert session.download(f"{number}") == bytes([number]) * 100_000
                found.append((number, session.listdir()))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(9)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(15)
        assert sorted(found) == [(n, [f"{n}"]) for n in range(9)]
        until(lambda: waiting(proxy) == ["board", "board", "other"])
        assert not a._sessions | b._sessions | c._sessions


def test_a_lost_server_is_one_error(proxy: Proxy, libraries: Path) -> None:
    with behind(proxy) as server:
        remote = asking(proxy)
        remote.upload(libraries / "net.so")
        lib = remote.load_module("net.so")
    until(lambda: not server._sessions)
    with pytest.raises(RPCError, match=f"the server behind the proxy at {HOST}:{proxy.port}"):
        lib(X)
    server = behind(proxy)
    until(lambda: waiting(proxy))
    server.terminate()
    until(lambda: not proxy._places)


@pytest.mark.parametrize("silent", [False, True])
def test_a_program_goes_on_to_a_server_that_is_there(
    proxy: Proxy, silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one goes, or says nothing, when it is asked to serve."""
    monkeypatch.setattr("smelt.rpc.proxy.PATIENCE", 0.5)
    lost = wire.call(HOST, proxy.port, "proxy", SECRET, {"serves": "board"})
    lost.send({"about": {}})
    until(lambda: waiting(proxy))
    with behind(proxy):
        until(lambda: len(waiting(proxy)) == 2)
        found: list[list[str]] = []
        thread = threading.Thread(target=lambda: found.append(asking(proxy).listdir()))
        thread.start()
        while "serve" not in lost.receive()[0]:
            lost.send({"do": "here"})
        if not silent:
            lost.close()
        thread.join(15)
        assert found == [[]]
        lost.close()


def test_a_lost_program_frees_the_server(proxy: Proxy, libraries: Path) -> None:
    with behind(proxy) as server:
        remote = asking(proxy)
        remote.upload(libraries / "add.so")
        add = remote.load_module("add.so").time_evaluator("add", number=10**8, repeat=1000)
        process, a = worker(server), np.ones(8, "float32")

        def call() -> None:
            with pytest.raises(RPCError):
                add(a, a, a.copy())

        calling = threading.Thread(target=call)
        calling.start()
        time.sleep(0.3)
        remote.close()
        until(lambda: not is_there(process))
        calling.join(15)
        with asking(proxy) as again:
            assert again.listdir() == []
            waits = wire.call(HOST, proxy.port, "server", SECRET, {"match": "board"})
            until(lambda: proxy._programs)
            waits.close()
            until(lambda: not proxy._programs)


def test_a_session_that_takes_too_long_is_ended(proxy: Proxy) -> None:
    with behind(proxy):
        remote = asking(proxy, session_timeout=0.3)
        time.sleep(0.5)
        with pytest.raises(RPCSessionTimeoutError, match="took longer than it was given"):
            remote.listdir()
        link = wire.call(HOST, proxy.port, "server", SECRET, {"match": "board", "limit": "x"})
        assert "no session can be begun: could not convert" in link.receive()[0]["error"]
        link.close()


def test_servers_find_a_proxy_that_starts_again() -> None:
    first = Proxy(port=0, security=SECRET)
    with behind(first):
        held = asking(first)
        first.terminate()
        with pytest.raises(RPCError, match="the server behind the proxy"):
            held.listdir()
        with Proxy(port=first.port, security=SECRET) as second, asking(second) as session:
            assert session.upload(b"a", target="a") == "a"


def test_a_key_that_nobody_has(proxy: Proxy) -> None:
    with pytest.raises(RPCError, match=r"no server 'board' has come in 0.3 s; keys: none"):
        asking(proxy)
    with behind(proxy, "one"), behind(proxy, "two"):
        until(lambda: len(proxy._places) == 2)
        with pytest.raises(RPCError, match=r"no server 'three' has come in 0.3 s; keys: one, two"):
            asking(proxy, "three")
        with pytest.raises(RPCError, match=r"no server '' has come"):
            asking(proxy, "")
    coming = threading.Timer(0.1, lambda: made.append(behind(proxy)))
    made: list[Server] = []
    coming.start()
    assert asking(proxy).listdir() == []
    made[0].terminate()


def test_who_may_come_in(proxy: Proxy) -> None:
    with pytest.raises(RPCError, match="can be reached from other machines: it needs a token"):
        Proxy("0.0.0.0", 0)
    with pytest.raises(RPCError, match="can be reached from other machines: it needs a token"):
        Server("192.168.0.9", 9090, is_proxy=True, key="board")
    with pytest.raises(RPCError, match="a server behind a proxy has a key"):
        Server(HOST, proxy.port, is_proxy=True, security=SECRET)
    with pytest.raises(RPCError, match="the proxy may have a tracker"):
        Server(HOST, proxy.port, is_proxy=True, key="a", tracker_addr=(HOST, 1), security=SECRET)
    with pytest.raises(RPCError, match="is none: it is a proxy"):
        connect_tracker(HOST, proxy.port, security=SECRET)
    with behind(proxy):
        with pytest.raises(RPCError, match="the token is another one"):
            connect(HOST, proxy.port, "board", security=Security("guessed"))
        said: list[str] = []
        with Server(HOST, proxy.port, is_proxy=True, key="bad", say=said.append):
            until(lambda: said)
        assert "wants a token" in said[0]
        assert said[0].endswith("; trying again")
        rng = random.Random(1)
        for _ in range(80):
            with socket.create_connection((HOST, proxy.port)) as end:
                end.sendall(messages(rng))
        assert asking(proxy).listdir() == []
        assert {p.key for p in proxy._places} <= {"board"}


def test_messages_of_known_ones_that_mean_nothing(proxy: Proxy) -> None:
    for about in ({"match": "board", "priority": "x"}, {"match": "board", "priority": [1]}):
        link = wire.call(HOST, proxy.port, "server", SECRET, about)
        assert "asks for nothing" in link.receive()[0]["error"]
        link.close()
    for first in ({"about": 5}, {"about": ["x"]}):
        link = wire.call(HOST, proxy.port, "proxy", SECRET, {"serves": "board"})
        link.send(first)
        assert "asks for nothing" in link.receive()[0]["error"]
        link.close()
    link = wire.call(HOST, proxy.port, "proxy", SECRET, {"serves": "board"})
    with suppress(RPCError):  # it is sent away by the first bytes
        link.send({"about": {}}, [b"data"])
    with pytest.raises(RPCError):
        link.receive()
    link.close()


def test_connections_are_encrypted(
    certificate: tuple[str, str], libraries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure = Security(SECRET.token, certificate, certificate[0])
    inside = Security(SECRET.token, None, certificate[0])
    with (
        Proxy("localhost", 0, security=secure) as proxy,
        Server("localhost", proxy.port, is_proxy=True, key="board", security=inside),
    ):
        with connect("localhost", proxy.port, "board", security=inside) as session:
            data = random.Random(0).randbytes(9 << 20)
            session.upload(data, target="x")
            assert session.download("x") == data
            session.upload(libraries / "net.so")
            wanted = load_module(libraries / "net.so")(X).numpy()
            np.testing.assert_array_equal(session.load_module("net.so")(X).numpy(), wanted)
        monkeypatch.setattr("smelt.rpc.wire.PATIENCE", 0.5)
        with pytest.raises(RPCError):  # without TLS
            connect("localhost", proxy.port, "board", security=SECRET)


# ----------------------------------------------------------------------------------- with a tracker


def test_the_tracker_gives_the_servers_of_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smelt.rpc.tracker.PATIENCE", 0.5)
    with (
        Tracker(port=0, security=SECRET) as tracker,
        Proxy(port=0, tracker_addr=(HOST, tracker.port), security=SECRET) as proxy,
        behind(proxy),
    ):
        session = connect_tracker(HOST, tracker.port, security=SECRET)
        with session.request("board", session_timeout=60) as remote:
            assert remote.listdir() == []
            (told,) = session.summary()["server_info"]
            assert (told["server"], told["addr"]) == ("Python", [HOST, proxy.port])
            assert "board  (in use)" in session.text_summary()
            for key in ("board", "", "0" * 32):
                with pytest.raises(RPCError, match="the tracker's to give: ask the tracker"):
                    asking(proxy, key)
            came: list[int] = []
            other = threading.Thread(
                target=lambda: came.append(len(session.request("board").listdir()))
            )
            other.start()
            until(lambda: tracker._requests)
        other.join(15)
        assert came == [0]
        given = session._ask({"do": "request", "key": "board", "priority": 1})  # and does not come
        with session.request("board") as remote:
            assert remote.listdir() == []
        with pytest.raises(RPCError, match="the tracker's to give"):
            asking(proxy, given["match"])
        session.close()
    until(lambda: not tracker._places)


def test_a_tracker_that_starts_again_knows_them() -> None:
    first = Tracker(port=0, security=SECRET)
    with (
        Proxy(port=0, tracker_addr=(HOST, first.port), security=SECRET) as proxy,
        behind(proxy) as a,
        behind(proxy) as b,
    ):
        until(lambda: len(first._places) == 2)
        first.terminate()
        with Tracker(port=first.port, security=SECRET) as second:
            until(lambda: len(second._places) == 2)
            a.terminate()
            until(lambda: len(second._places) == 1)
            with connect_tracker(HOST, second.port, security=SECRET).request("board") as session:
                assert session.listdir() == []
                assert len(b._sessions) == 1
            b.terminate()
            until(lambda: not second._places)


# ------------------------------------------------------------------------------------- the commands


def test_the_commands(libraries: Path) -> None:
    with started("smelt.exec.rpc_proxy", "--host=0.0.0.0", "--timeout=5", token="t") as (_, said):
        at = port(said)
        server = ("smelt.exec.rpc_server", "--through-proxy", f"--port={at}", "--key=phone")
        with started(*server, token="t") as (_, said):
            assert "the proxy of this server is at" in said[-1]
            with connect(HOST, int(at), "phone", security=Security("t")) as remote:
                remote.upload(libraries / "net.tar")
                found = remote.load_module("net.tar")(X).numpy()
                np.testing.assert_array_equal(found, load_module(libraries / "net.tar")(X).numpy())


@pytest.mark.parametrize(
    ("options", "said"),
    [([], "--through-proxy needs --key"),
     (["--key=a", "--tls", "a", "b"], "are the proxy's with --through-proxy"),
     (["--key=a", "--tracker=here:9190"], "are the proxy's with --through-proxy"),
     (["--key=a", "--host=192.168.0.9"], "it needs a token")],
)  # fmt: skip
def test_what_the_command_refuses(
    options: list[str], said: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.delenv("SMELT_RPC_TOKEN", raising=False)
    monkeypatch.setattr(signal, "signal", lambda *args: None)
    monkeypatch.setattr(sys, "argv", ["rpc_server", "--through-proxy", *options])
    with pytest.raises(SystemExit) as ended:
        rpc_server.main()
    text, err = capsys.readouterr()
    assert said in f"{ended.value} {err}"
    assert not text  # no token is made


def test_no_folder_is_left(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with behind(proxy):
        for _ in range(20):
            with asking(proxy) as remote:
                remote.upload(b"a", target="a")
        until(lambda: not list(tmp_path.iterdir()))
