"""What a session does: files, libraries, executors, errors, crashes."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.contrib import graph_executor
from smelt.rpc import (
    LocalSession,
    PopenSession,
    RPCError,
    RPCSession,
    RPCSessionTimeoutError,
    Server,
    connect,
)
from smelt.runtime import AotModule, InputError, LoadError, load_module
from smelt.runtime.vm import VirtualMachine

from .conftest import SECRET

X = np.arange(8, dtype="float32").reshape(2, 4) / 3


def test_files_come_back_as_they_went(remote: RPCSession, tmp_path: Path) -> None:
    data = np.random.default_rng(0).bytes((17 << 20) + 3)
    (tmp_path / "large.bin").write_bytes(data)
    assert remote.upload(tmp_path / "large.bin") == "large.bin"
    assert remote.upload(b"", target="empty") == "empty"
    remote.upload(bytearray(b"abc"), target="small")
    assert remote.listdir() == ["empty", "large.bin", "small"]
    assert remote.download("large.bin") == data
    assert remote.download("empty") == b""
    remote.remove("large.bin")
    assert remote.listdir() == ["empty", "small"]


@pytest.mark.parametrize("name", ["net.so", "net.tar"])
def test_a_graph_module_runs_there(remote: RPCSession, libraries: Path, name: str) -> None:
    remote.upload(libraries / name)
    lib = remote.load_module(name)
    module = graph_executor.GraphModule(lib["default"](remote.cpu(0)))
    module.set_input("x", X)
    module.run()
    wanted = load_module(libraries / name)(X).numpy()
    np.testing.assert_array_equal(module.get_output(0).numpy(), wanted)
    module.run(x=smelt.nd.array(-X, remote.cpu(0)))
    np.testing.assert_array_equal(
        module.get_output(0).numpy(), load_module(libraries / name)(-X).numpy()
    )
    assert module.get_num_inputs() == 1
    assert module.get_input_info() == ({"x": (2, 4)}, {"x": "float32"})
    timed = module.module.time_evaluator("run", remote.cpu(0), repeat=3, number=5)()
    assert len(timed.results) == 3
    assert min(timed.results) > 0
    assert len(module.benchmark(remote.cpu(0), repeat=2, number=2).results) == 2


def test_other_executors_and_calls(remote: RPCSession, libraries: Path) -> None:
    remote.upload(libraries / "net.so")
    lib = remote.load_module("net.so")
    wanted = load_module(libraries / "net.so")(X).numpy()
    np.testing.assert_array_equal(lib(X).numpy(), wanted)
    aot = AotModule(lib["default"](remote.cpu(0)))
    aot.run(x=X)
    np.testing.assert_array_equal(aot.get_output(0).numpy(), wanted)
    assert [i.name for i in lib.inputs] == ["x"]
    report = lib.profile(X, repeat=2)
    assert "fused_matmul_relu" in report.table()


def test_a_program_that_decides(remote: RPCSession, libraries: Path) -> None:
    remote.upload(libraries / "loop.so")
    lib: Any = remote.load_module("loop.so")
    x = np.full((3, 4), 0.5, "float32")
    wanted = load_module(libraries / "loop.so")(x).numpy()
    machine = VirtualMachine(lib, remote.cpu(0))
    np.testing.assert_array_equal(machine.invoke("main", x).numpy(), wanted)
    np.testing.assert_array_equal(lib(x=x).numpy(), wanted)


def test_functions_on_tensors_write_into_the_arrays_here(
    remote: RPCSession, libraries: Path
) -> None:
    remote.upload(libraries / "add.so")
    lib = remote.load_module("add.so")
    a, b = np.arange(8, dtype="float32"), np.ones(8, "float32")
    for function in (lib["add"], lib):
        c = smelt.nd.empty((8,), "float32")
        function(a, b, c)
        np.testing.assert_array_equal(c.numpy(), a + b)
        plain = np.empty(8, "float32")
        function(a, b, plain)
        np.testing.assert_array_equal(plain, a + b)
    times = lib.time_evaluator("add", remote.cpu(0), number=3, repeat=2)(a, b, plain)
    assert len(times.results) == 2


def test_what_fails_there_is_the_same_error_here(remote: RPCSession, libraries: Path) -> None:
    with pytest.raises(LoadError):
        remote.load_module("nowhere.so")
    remote.upload(b"not a library", target="text.so")
    with pytest.raises(LoadError, match="it is not a library written by smelt"):
        remote.load_module("text.so")
    remote.upload(libraries / "net.so")
    lib = remote.load_module("net.so")
    with pytest.raises(InputError, match=r"input 'x': shape \[2, 5\]: dimension 1 is 5, 4 needed"):
        lib(np.ones((2, 5), "float32"))
    with pytest.raises(RPCError, match="has no export_library; methods: benchmark, get_function"):
        lib.export_library("somewhere.so")
    np.testing.assert_array_equal(lib(X).numpy(), load_module(libraries / "net.so")(X).numpy())


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "", ".."])
def test_files_of_others_cannot_be_named(remote: RPCSession, name: str) -> None:
    for ask in (remote.download, remote.remove):
        with pytest.raises(RPCError, match="is no name of a file"):
            ask(name)
    with pytest.raises((RPCError, LoadError)):
        remote.load_module(name)


def test_a_crash_is_an_error_and_the_session_goes_on(
    server: Server, remote: RPCSession, libraries: Path
) -> None:
    remote.upload(libraries / "net.so")
    lib = remote.load_module("net.so")
    lib(X)
    (session,) = server._sessions
    process = session.process._process
    assert process is not None
    os.kill(process.pid, signal.SIGSEGV)
    with pytest.raises(RPCError, match="the process of this session was ended by SIGSEGV"):
        lib(X)
    again = remote.load_module("net.so")
    with pytest.raises(RPCError, match="there is no object"):
        lib(X)
    np.testing.assert_array_equal(again(X).numpy(), load_module(libraries / "net.so")(X).numpy())


def test_a_session_that_takes_too_long_is_ended(server: Server, libraries: Path) -> None:
    remote = connect("127.0.0.1", server.port, session_timeout=8, security=SECRET)
    remote.upload(libraries / "add.so")
    add = remote.load_module("add.so").time_evaluator(
        "add", smelt.cpu(0), number=10**7, repeat=1000
    )
    a = np.ones(8, "float32")
    with pytest.raises(RPCSessionTimeoutError, match="took longer than it was given"):
        add(a, a, a.copy())


def test_who_goes_in_the_middle_of_a_call_frees_all(server: Server, libraries: Path) -> None:
    remote = connect("127.0.0.1", server.port, security=SECRET)
    remote.upload(libraries / "add.so")
    lib = remote.load_module("add.so")
    add = lib.time_evaluator("add", smelt.cpu(0), number=10**8, repeat=1000)
    (session,) = server._sessions
    process = session.process._process
    assert process is not None
    a = np.ones(8, "float32")

    def call() -> None:
        with pytest.raises(RPCError):
            add(a, a, a.copy())

    calling = threading.Thread(target=call)
    calling.start()
    time.sleep(0.5)
    remote.close()
    assert process.wait(15) < 0
    calling.join(15)
    assert not calling.is_alive()


def test_nothing_is_left_behind(server: Server, libraries: Path) -> None:
    remote = connect("127.0.0.1", server.port, security=SECRET)
    remote.upload(libraries / "net.so")
    lib = remote.load_module("net.so")
    (session,) = server._sessions
    folder, process = session.folder, session.process._process
    assert folder.exists()
    assert process is not None
    del lib
    remote.close()
    end = time.monotonic() + 10
    while (folder.exists() or server._sessions) and time.monotonic() < end:
        time.sleep(0.01)
    assert not folder.exists()
    assert process.poll() is not None


def test_objects_that_are_not_used_are_freed(remote: RPCSession, libraries: Path) -> None:
    remote.upload(libraries / "net.so")
    lib = remote.load_module("net.so")
    first, second = lib["default"](remote.cpu(0)), lib["default"](remote.cpu(0))
    assert first._number == second._number == lib._number
    del first
    np.testing.assert_array_equal(second(X).numpy(), lib(X).numpy())
    numbers = {lib["default"]._number for _ in range(5)}
    assert len(numbers) == 5


@pytest.mark.parametrize("make", [LocalSession, PopenSession])
def test_sessions_without_a_server(make: Any, libraries: Path) -> None:
    with make() as session:
        session.upload(libraries / "net.so")
        found = session.load_module("net.so")(X).numpy()
    np.testing.assert_array_equal(found, load_module(libraries / "net.so")(X).numpy())


def test_what_sessions_do_not_have(remote: RPCSession) -> None:
    with pytest.raises(RPCError, match="load_module gives a library"):
        remote.get_function("tvm.contrib.random")
    with pytest.raises(RPCError, match="servers hold no library"):
        remote.system_lib()
    with pytest.raises(RPCError, match="there are no servers in one file yet"):
        PopenSession("rpc_server")
    with pytest.raises(RPCError, match="bytes need a name"):
        remote.upload(b"abc")
