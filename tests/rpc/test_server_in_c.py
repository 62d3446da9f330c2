"""What is special about smelt-server: its options, its processes, messages that mean nothing."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from benchmarks.rpc_fuzz import Found, begin_session, send_known, send_strangers
from benchmarks.rpc_servers import SECRET, Process, children, is_there, sanitized_server, stat
from benchmarks.rpc_soak import soak
from smelt.contrib.graph_executor import GraphModule
from smelt.pipeline import LOWER
from smelt.rpc import RPCError, RPCRunner, Server, Tracker, connect
from smelt.runtime import ExportError, InputError, LoadError, RuntimeFailure, load_module
from smelt.search.build import BuildJob, build_candidate
from smelt.search.runner import Attempt
from smelt.search.space import RuleSpace
from smelt.search.timing import Protocol
from tests.devices.test_cross import network
from tests.search.programs import spec

from .servers import until

X = np.arange(8, dtype="float32").reshape(2, 4) / 3


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """smelt-server with sanitizers."""
    made = tmp_path_factory.mktemp("sanitized") / "smelt-server"
    try:
        sanitized_server(made)
    except ExportError as e:
        pytest.skip(f"the C compiler has no sanitizers: {str(e).splitlines()[-1]}")
    return made


@pytest.fixture
def checked(sanitized: Path, tmp_path: Path) -> Iterator[Process]:
    """A server with sanitizers, which must not have reported anything when it has ended."""
    with Process([sanitized], tmp_path) as process:
        yield process
    assert process.process.returncode == 0
    assert not process.troubles()
    assert not list(tmp_path.glob("smelt-rpc-*"))


@pytest.fixture
def plain(program: Path, tmp_path: Path) -> Iterator[Process]:
    """A server."""
    with Process([program], tmp_path) as process:
        yield process


# -------------------------------------------------------------------------------------- its options


def said(program: Path, *options: str, **environment: str) -> tuple[int, str]:
    """What it says where it does not begin."""
    done = subprocess.run([program, *options], capture_output=True, text=True, timeout=30,
                          env={**os.environ, **environment})  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_what_it_refuses(program: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(" \n")
    for options, words in (
        (["--host=0.0.0.0"], "a server on 0.0.0.0 can be reached from other machines: it needs a "
         "token; SMELT_RPC_TOKEN is one, or --token-file names a file with one"),
        (["--host", "::"], "it needs a token"),
        (["--host=127.example.com"], "it needs a token"),
        (["--tracker=here"], "'here' is no HOST:PORT"),
        (["--tracker=here:9190"], "--tracker needs --key"),
        (["--tracker=here:", "--key=a"], "'here:' is no HOST:PORT"),
        (["--token-file", str(tmp_path / "none")], "No such file"),
        (["--token-file", str(tmp_path / "empty")], "it is empty"),
        (["--port=x"], "--port x: a number from 0 to 65535 is needed"),
        (["--port"], "--port needs a value"),
        (["--load"], "there is no option --load"),
        (["serve"], "there is no option serve"),
    ):  # fmt: skip
        code, text = said(program, *options, SMELT_RPC_TOKEN="")
        assert (code, text.startswith("smelt-server: ")) == (2, True)
        assert words in text
    with Server(port=0) as server:
        taken = str(server.port)
        assert "can be listened at" in said(program, "--port", taken, "--port-end", taken)[1]


def test_it_says_that_it_has_no_tls(program: Path) -> None:
    code, text = said(program, "--help")
    assert code == 0
    assert "there is no TLS" in text
    options = ("--host", "--port", "--port-end", "--tracker", "--key", "--custom-addr",
               "--token-file", "--silent")  # fmt: skip
    assert all(f"\n  {o}" in text for o in options)


def test_the_command_writes_it(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    command = [sys.executable, "-m", "smelt.cli.main", "compile", str(tmp_path / "net.onnx"), "-o",
               str(tmp_path / "net.so"), "--server", str(tmp_path / "board-server")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"wrote smelt-server to {tmp_path / 'board-server'}" in done.stderr
    x = np.random.default_rng(1).random((1, 3, 24, 24), np.float32)
    with Process([tmp_path / "board-server"], tmp_path) as server, server.connect() as session:
        session.upload(tmp_path / "net.so")
        found = session.load_module("net.so")(x).numpy()
    np.testing.assert_array_equal(found, load_module(tmp_path / "net.so")(x).numpy())


def test_the_next_free_port_and_a_token_in_a_file(program: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"  {SECRET.token}\n")
    with Server(port=0) as other:
        command = [str(program), "--host=0.0.0.0", f"--port={other.port}",
                   f"--port-end={min(other.port + 20, 65535)}", "--token-file",
                   str(tmp_path / "token")]  # fmt: skip
        started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert started.stdout is not None
        (port,) = re.findall(r"^the server is at 0\.0\.0\.0:(\d+)$", started.stdout.readline())
        assert int(port) > other.port
        with connect("127.0.0.1", int(port), security=SECRET) as session:
            assert session.about["server"] == "C"
    started.send_signal(signal.SIGINT)
    heard = started.communicate(timeout=15)[0]
    assert started.returncode == 0
    assert re.search(r"127\.0\.0\.1:\d+: a session\n127\.0\.0\.1:\d+: the session has ended", heard)


def test_the_address_for_others(program: Path, tmp_path: Path) -> None:
    with Tracker(port=0, security=SECRET) as tracker:
        command = [
            str(program),
            f"--tracker=127.0.0.1:{tracker.port}",
            "--key=a",
            "--custom-addr=board",
        ]
        with Process(command, tmp_path) as process:
            until(lambda: tracker._places)
            assert (tracker._places[0].address, tracker._places[0].port) == ("board", process.port)
        until(lambda: not tracker._places)


# ------------------------------------------------------------------------------------ its processes


def test_it_sleeps_while_nobody_asks(plain: Process) -> None:
    with plain.connect() as session:
        session.listdir()
        everybody = [(plain.process.pid, ""), *children(plain.process.pid)]
        time.sleep(0.1)
        before = [switches(n) for n, _ in everybody]
        time.sleep(0.5)
        assert [switches(n) for n, _ in everybody] == before


def switches(pid: int) -> list[str]:
    """How often a process was given a processor."""
    status = Path(f"/proc/{pid}/status").read_text()
    return [line for line in status.splitlines() if "ctxt_switches" in line]


def test_nothing_is_left_of_many_connections(plain: Process, libraries: Path) -> None:
    pid = plain.process.pid
    files = len(os.listdir(f"/proc/{pid}/fd"))
    for n in range(60):
        if n % 3:
            socket.create_connection(("127.0.0.1", plain.port)).close()
            continue
        with plain.connect() as session:
            session.upload(libraries / "net.so")
            session.load_module("net.so")(X)
    until(lambda: not children(pid, also_ended=True))
    assert len(os.listdir(f"/proc/{pid}/fd")) == files
    assert not list(plain.folder.glob("smelt-rpc-*"))


def test_more_connections_than_there_are_places_wait(plain: Process) -> None:
    strangers = [socket.create_connection(("127.0.0.1", plain.port)) for _ in range(80)]
    until(lambda: len(children(plain.process.pid)) == 64)
    for s in strangers:
        s.close()
    with plain.connect() as session:
        assert session.listdir() == []


@pytest.mark.parametrize("which", ["server", "session"])
def test_what_is_killed_takes_its_children_along(
    program: Path, libraries: Path, tmp_path: Path, which: str
) -> None:
    """By the signal that nobody can do anything about."""
    server = Process([program], tmp_path)
    session = server.connect()
    session.upload(libraries / "add.so")
    lib = session.load_module("add.so")
    (own,) = children(server.process.pid)
    (worker,) = children(own[0])
    assert len(list(tmp_path.glob("smelt-rpc-*"))) == 1
    os.kill(own[0] if which == "session" else server.process.pid, signal.SIGKILL)
    until(lambda: not is_there(own) and not is_there(worker))
    until(lambda: not list(tmp_path.glob("smelt-rpc-*")))
    with pytest.raises(RPCError):
        lib(X, X, X)
    if which == "session":
        with server.connect() as another:
            assert another.listdir() == []
    server.process.kill() if which == "server" else server.end()


def test_a_session_without_room_for_a_file(program: Path, tmp_path: Path) -> None:
    """The error is the system's, and the session goes on."""
    command = ["prlimit", "--fsize=1000000", str(program)]
    with Process(command, tmp_path) as process, process.connect() as session:
        with pytest.raises(RPCError, match="File too large"):
            session.upload(bytes(3_000_000), target="large")
        session.upload(b"abc", target="small")
        assert session.download("small") == b"abc"


def test_a_message_that_memory_cannot_hold(program: Path, libraries: Path, tmp_path: Path) -> None:
    command = ["prlimit", "--as=300000000", str(program)]
    with Process(command, tmp_path) as process, process.connect() as session:
        session.upload(libraries / "add.so")
        add = session.load_module("add.so")
        with pytest.raises(RuntimeFailure, match="no memory for a message of 400000064 bytes"):
            add(np.zeros(10**8, "float32"), X, X)
        a, c = np.ones(8, "float32"), np.zeros(8, "float32")
        add(a, a, c)
        np.testing.assert_array_equal(c, a + a)


# ------------------------------------------------------------------------------------ its libraries


def test_values_of_all_kinds(checked: Process, libraries: Path) -> None:
    """Through everything that executors can do, under sanitizers."""
    with checked.connect() as session:
        for name in ("net.so", "loop.so", "add.so"):
            session.upload(libraries / name)
        lib: Any = session.load_module("net.so")
        wanted = load_module(libraries / "net.so")(X).numpy()
        module: Any = GraphModule(lib["default"](session.cpu(0)))
        with pytest.raises(InputError, match="get_output before run"):
            module.get_output(0)
        with pytest.raises(InputError, match="run: these inputs were never set: x"):
            module.run()
        assert not module.get_input("x").numpy().any()
        module.set_input(0, X)
        module["run"]()
        np.testing.assert_array_equal(module["get_output"](0).numpy(), wanted)
        np.testing.assert_array_equal(module.module["get_output"]("output0").numpy(), wanted)
        np.testing.assert_array_equal(module.get_input(0).numpy(), X)
        names = [module.get_input_name(0), module.get_output_name(0)]
        assert names == ["x", "output0"]
        assert [module.get_input_index("x"), module.get_output_index("output0")] == [0, 0]
        assert [module.get_num_inputs(), module.get_num_outputs()] == [1, 1]
        np.testing.assert_array_equal(lib({"x": X}).numpy(), wanted)
        assert len(lib.benchmark(x=X, repeat=3).results) == 3
        assert len(module.benchmark(end_to_end=True, repeat=2, number=2, x=X).results) == 2
        how = {"number": 1, "repeat": 2, "min_repeat_ms": 1, "cooldown_interval_ms": 1,
               "cache_flush_bytes": 4096}  # fmt: skip
        assert len(lib.time_evaluator("run", session.cpu(0), **how)(X).results) == 2
        module = lib = None
        again: Any = session.load_module("add.so")
        a, c = np.ones(8, "float32"), np.zeros(8, "float32")
        again["add"](a, a, c)
        np.testing.assert_array_equal(c, a + a)


def test_what_it_cannot_do(plain: Process, libraries: Path) -> None:
    with plain.connect() as session:
        for name in ("net.so", "net.tar", "loop.so"):
            session.upload(libraries / name)
        with pytest.raises(LoadError, match="it holds objects, and the server in C links none"):
            session.load_module("net.tar")
        lib, loop = session.load_module("net.so"), session.load_module("loop.so")
        with pytest.raises(RPCError, match="of a server in C has no profile; methods: benchmark"):
            loop.profile(X)
        message = {"do": "call", "object": loop.handle, "name": "profile", "args": [], "named": {}}
        with pytest.raises(RPCError, match='"profile" of a VMExecutable: the server in C has'):
            session.value(message)
        with pytest.raises(RPCError, match="GraphModuleDebug: the server in C has none"):
            lib.make("GraphModuleDebug")
        with pytest.raises(InputError, match="a GraphModule is not made around a VMExecutable"):
            session.load_module("loop.so").make("GraphModule")


# ----------------------------------------------------------------------- messages that mean nothing


def test_candidates_and_arrays(checked: Process) -> None:
    """The session of tuning, under sanitizers: candidates come and go."""
    space = RuleSpace(spec(constants=(False, True, False)))
    pool = space.pool(np.random.default_rng(0), [], lambda prior, _: prior)
    every = [space.default(), *[pool.candidate(n) for n in range(0, len(pool), len(pool) // 6 + 1)]]
    jobs = [BuildJob(space.source(c), space.target, LOWER, 2, True) for c in every]
    first, *others = [Attempt(c, build_candidate(j)) for c, j in zip(every, jobs, strict=True)]
    with RPCRunner("", "127.0.0.1", checked.port, security=SECRET) as runner:
        for other in others:
            found = runner.run(first, other, Protocol(cores=2, cold=1 << 16))
            assert not found.error, found.message


def test_garbage_of_strangers(checked: Process) -> None:
    found = Found()
    send_strangers(checked.port, 300, 1, found)
    with checked.connect() as session:
        assert session.listdir() == []
    assert found.hangs == 0


def test_messages_that_mean_nothing(checked: Process, libraries: Path) -> None:
    found = Found()
    send_known("server", checked.port, 4000, 2, found, begin_session(libraries), 0.01)
    assert (found.lost, found.hangs, found.crashes) == (0, 0, [])
    until(lambda: not children(checked.process.pid))


def test_servers_are_killed_while_they_are_used(
    program: Path, libraries: Path, tmp_path: Path
) -> None:
    """No hang, no wrong result; no process, folder or file is left."""
    found = soak([[program]], tmp_path, libraries / "net.so", 4, 4, 3, (0.2, 0.6))
    assert found.calls > 0
    assert found.kills > 0
    left = found.hangs, found.wrong, found.processes, found.folders, found.files
    assert left == (0, 0, 0, 0, 0), found


def test_the_time_of_strangers_is_limited(plain: Process) -> None:
    """Who sends a byte now and then is not waited for longer than who sends none."""
    with socket.create_connection(("127.0.0.1", plain.port)) as end:
        until(lambda: children(plain.process.pid))
        (own,) = children(plain.process.pid)
        limit = time.monotonic() + 30
        while is_there(own) and time.monotonic() < limit:
            try:
                end.sendall(b"S")
            except OSError:
                break
            time.sleep(0.5)
        until(lambda: not is_there(own))
    assert stat(plain.process.pid)
