"""Programs that ask a tracker for servers, and the commands that start them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.rpc_servers import SECRET
from smelt.rpc import RPCError, Security, Server, Tracker, connect, connect_tracker
from smelt.rpc.client import TrackerSession
from smelt.runtime import load_module

from .conftest import Serve
from .servers import until

X = np.ones((2, 4), "float32")


@pytest.fixture
def tracker() -> Iterator[Tracker]:
    with Tracker(port=0, security=SECRET) as made:
        yield made


def asking(tracker: Tracker) -> TrackerSession:
    return connect_tracker("127.0.0.1", tracker.port, security=SECRET)


def test_a_server_is_given_to_one_program_at_a_time(
    tracker: Tracker, serve: Serve, libraries: Path
) -> None:
    server = serve("board", tracker.port)
    first = asking(tracker).request("board")
    with pytest.raises(RPCError, match="the tracker's to give"):
        server.connect()
    with pytest.raises(RPCError, match="the tracker's to give"):
        server.connect(key="0" * 32)
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(asking(tracker).request("board")))
    waiting.start()
    until(lambda: asking(tracker).summary()["queue_info"]["board"]["pending"] == 1)
    assert asking(tracker).summary()["queue_info"]["board"] == {"free": 0, "total": 1, "pending": 1}
    assert not found
    first.close()
    waiting.join(15)
    (second,) = found
    second.upload(libraries / "net.so")
    wanted = load_module(libraries / "net.so")(X).numpy()
    np.testing.assert_array_equal(second.load_module("net.so")(X).numpy(), wanted)
    assert "board  (in use)" in asking(tracker).text_summary()
    (told,) = asking(tracker).summary()["server_info"]
    assert (told["server"], told["addr"]) == (server.kind, ["127.0.0.1", server.port])


def test_priorities_then_the_order_of_asking(tracker: Tracker, serve: Serve) -> None:
    serve("board", tracker.port)
    held = asking(tracker).request("board")
    came: list[int] = []

    def ask(priority: int, number: int) -> None:
        with asking(tracker).request("board", priority=priority):
            came.append(number)

    def pending() -> int:
        return int(asking(tracker).summary()["queue_info"]["board"]["pending"])

    threads: list[threading.Thread] = []
    for number, priority in enumerate((1, 1, 5)):
        threads.append(threading.Thread(target=ask, args=(priority, number)))
        threads[-1].start()
        until(lambda: pending() == len(threads))
    held.close()
    for t in threads:
        t.join(30)
    assert came == [2, 0, 1]


def test_several_servers_of_a_key(tracker: Tracker, serve: Serve) -> None:
    a, b, _ = [serve(key, tracker.port) for key in ("board", "board", "other")]
    until(lambda: len(asking(tracker).summary()["server_info"]) == 3)
    first, second = asking(tracker).request("board"), asking(tracker).request("board")
    assert {first._link.peer.rpartition(":")[2], second._link.peer.rpartition(":")[2]} == {
        str(a.port), str(b.port)}  # fmt: skip


def test_who_does_not_come_loses_the_server(
    tracker: Tracker, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smelt.rpc.tracker.PATIENCE", 0.5)
    serve("board", tracker.port)
    until(lambda: asking(tracker).summary()["queue_info"].get("board", {}).get("free") == 1)
    asking(tracker)._ask({"do": "request", "key": "board", "priority": 1})
    with asking(tracker).request("board") as session:
        assert session.listdir() == []


def test_who_waits_and_goes_is_forgotten(tracker: Tracker) -> None:
    waiting = asking(tracker)
    waiting._link.send({"do": "request", "key": "board", "priority": 9})
    until(lambda: asking(tracker).summary()["queue_info"].get("board", {}).get("pending") == 1)
    waiting.close()
    until(lambda: not asking(tracker).summary()["queue_info"])


def test_servers_find_a_tracker_that_starts_again(serve: Serve) -> None:
    first = Tracker(port=0, security=SECRET)
    serve("board", first.port)
    asking(first).request("board").close()
    first.terminate()
    with (
        Tracker(port=first.port, security=SECRET) as second,
        asking(second).request("board") as session,
    ):
        assert session.upload(b"a", target="a") == "a"


def test_a_lost_server_is_tried_again(tracker: Tracker, serve: Serve) -> None:
    lost, calls = serve("board", tracker.port), []
    until(lambda: asking(tracker).summary()["server_info"])

    def work(session: Any) -> list[str]:
        calls.append(1)
        if len(calls) == 1:
            lost.terminate()
            serve("board", tracker.port)
        return list(session.listdir())

    assert asking(tracker).request_and_run("board", work, max_retry=3) == []
    assert len(calls) == 2


# ---------------------------------------------------------------------------------- the commands


@contextmanager
def started(*command: str, token: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A command, when it has said where it is; its lines so far."""
    env = {**os.environ, "SMELT_RPC_TOKEN": token, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen([sys.executable, "-m", *command], env=env, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    lines: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if " is at " in line:
                break
        yield process, lines
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(15) in (0, 130), lines


def port(lines: list[str]) -> str:
    (found,) = re.findall(r"is at [\d.]+:(\d+)", lines[-1])
    return str(found)


def test_the_classic_commands(libraries: Path) -> None:
    with started("smelt.exec.rpc_tracker", "--host=0.0.0.0", "--port=9190", token="t") as (_, said):
        at = port(said)
        with started("smelt.exec.rpc_server", f"--tracker=127.0.0.1:{at}", "--key=rpi4",
                     "--port=9090", token="t"):  # fmt: skip
            asked = connect_tracker("127.0.0.1", int(at), security=Security("t"))
            with asked.request("rpi4", priority=0, session_timeout=60) as remote:
                remote.upload(libraries / "net.tar")
                found = remote.load_module("net.tar")(X).numpy()
                np.testing.assert_array_equal(found, load_module(libraries / "net.tar")(X).numpy())
            command = [sys.executable, "-m", "smelt.exec.query_rpc_tracker", "--port", at]
            env = {**os.environ, "SMELT_RPC_TOKEN": "t"}
            table = subprocess.run(command, env=env, check=True, capture_output=True,
                                   text=True).stdout  # fmt: skip
            assert re.search(r"127.0.0.1:\d+ +rpi4", table)


def test_a_token_is_made_and_printed_where_there_is_none() -> None:
    with started("smelt.exec.rpc_server", "--host=0.0.0.0", token="") as (_, said):
        token = said[0].partition("=")[2].split()[0]
        assert len(token) > 20
        connect("127.0.0.1", int(port(said)), security=Security(token)).close()


def test_what_the_commands_refuse(tmp_path: Path) -> None:
    def said(*options: str) -> str:
        command = [sys.executable, "-m", "smelt.exec.rpc_server", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode
        return done.stderr

    assert "'here' is no HOST:PORT" in said("--tracker=here")
    assert "--tracker needs --key" in said("--tracker=here:9190")
    assert "No such file" in said("--token-file", str(tmp_path / "none"))
    with Server(port=0) as server:
        taken = str(server.port)
        assert "can be listened at" in said("--port", taken, "--port-end", taken)
