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
from benchmarks.rpc_servers import children, is_there
from smelt.contrib import debug_executor, graph_executor
from smelt.rpc import LocalSession, PopenSession, RPCError, RPCSession, RPCSessionTimeoutError
from smelt.runtime import AotModule, InputError, LoadError, load_module
from smelt.runtime.vm import VirtualMachine

from .servers import Served, until

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


def test_a_graph_module_runs_there(remote: RPCSession, libraries: Path) -> None:
    name = "net.so"
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
    local = load_module(libraries / "net.so")
    assert (lib.inputs, lib.outputs, lib.name) == (local.inputs, local.outputs, local.name)


def test_what_only_a_server_in_python_does(
    libraries: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalSession() as remote:
        remote.upload(libraries / "net.tar")
        lib = remote.load_module("net.tar")
        np.testing.assert_array_equal(lib(X).numpy(), load_module(libraries / "net.tar")(X).numpy())
        graph = (libraries / "net.json").read_text()
        inside = debug_executor.create(graph, lib, remote.cpu(0))
        inside.run(x=X)
        shown = capsys.readouterr().out
        assert "fused_matmul_relu" in shown
        assert "time (us)" in shown
        found = inside.debug_get_output("fused_matmul_relu").numpy()
        np.testing.assert_array_equal(found, lib(X).numpy())
        assert "fused_matmul_relu" in inside.profile(repeat=2).table()
        with pytest.raises(InputError, match="dump_root='there' is a folder here"):
            debug_executor.create(graph, lib, remote.cpu(0), "there")
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
    machine.set_input("main", x)
    np.testing.assert_array_equal(machine.run().numpy(), wanted)
    (found,) = machine.get_outputs()
    np.testing.assert_array_equal(found.numpy(), wanted)
    assert len(machine.benchmark(remote.cpu(0), x, repeat=2, number=3).results) == 2
    assert len(lib.benchmark(x, repeat=2, number=3).results) == 2


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
    server: Served, remote: RPCSession, libraries: Path
) -> None:
    remote.upload(libraries / "net.so")
    lib = remote.load_module("net.so")
    lib(X)
    (process,) = server.workers()
    os.kill(process[0], signal.SIGSEGV)
    with pytest.raises(RPCError, match="the process of this session was ended by SIGSEGV"):
        lib(X)
    again = remote.load_module("net.so")
    with pytest.raises(RPCError, match="there is no object"):
        lib(X)
    np.testing.assert_array_equal(again(X).numpy(), load_module(libraries / "net.so")(X).numpy())


def test_a_session_that_takes_too_long_is_ended(server: Served, libraries: Path) -> None:
    remote = server.connect(session_timeout=8)
    remote.upload(libraries / "add.so")
    add = remote.load_module("add.so").time_evaluator(
        "add", smelt.cpu(0), number=10**7, repeat=1000
    )
    a = np.ones(8, "float32")
    with pytest.raises(RPCSessionTimeoutError, match="took longer than it was given"):
        add(a, a, a.copy())
    until(lambda: not server.folders() and not server.workers())


def test_who_goes_in_the_middle_of_a_call_frees_all(server: Served, libraries: Path) -> None:
    remote = server.connect()
    remote.upload(libraries / "add.so")
    lib = remote.load_module("add.so")
    add = lib.time_evaluator("add", smelt.cpu(0), number=10**8, repeat=1000)
    (process,) = server.workers()
    a = np.ones(8, "float32")

    def call() -> None:
        with pytest.raises(RPCError):
            add(a, a, a.copy())

    calling = threading.Thread(target=call)
    calling.start()
    time.sleep(0.5)
    remote.close()
    until(lambda: not is_there(process))
    calling.join(15)
    assert not calling.is_alive()


def test_nothing_is_left_behind(server: Served, libraries: Path) -> None:
    remote = server.connect()
    remote.upload(libraries / "net.so")
    lib = remote.load_module("net.so")
    (process,), (folder,) = server.workers(), server.folders()
    assert (folder / "net.so").exists()
    del lib
    remote.close()
    until(lambda: not folder.exists() and not server.connections())
    assert not is_there(process)


def test_a_server_that_ends_takes_its_sessions_along(server: Served, libraries: Path) -> None:
    remote = server.connect()
    remote.upload(libraries / "net.so")
    lib = remote.load_module("net.so")
    (process,) = server.workers()
    server.terminate()
    until(lambda: not is_there(process) and not server.folders())
    with pytest.raises(RPCError):
        lib(X)


def test_a_file_may_be_replaced_while_it_runs(remote: RPCSession, libraries: Path) -> None:
    """Who has loaded the old library keeps it."""
    remote.upload(libraries / "net.so", target="a.so")
    old = remote.load_module("a.so")
    remote.upload(libraries / "loop.so", target="a.so")
    new = remote.load_module("a.so")
    x = np.full((3, 4), 0.5, "float32")
    np.testing.assert_array_equal(new(x).numpy(), load_module(libraries / "loop.so")(x).numpy())
    np.testing.assert_array_equal(old(X).numpy(), load_module(libraries / "net.so")(X).numpy())
    assert remote.listdir() == ["a.so"]


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


def test_a_session_of_a_program_without_python(program: Path, libraries: Path) -> None:
    with PopenSession(program) as session:
        assert isinstance(session, PopenSession)
        process = session._server
        assert process is not None
        assert session.about["server"] == "C"
        session.upload(libraries / "net.so")
        found = session.load_module("net.so")(X).numpy()
        assert children(process.pid)
    np.testing.assert_array_equal(found, load_module(libraries / "net.so")(X).numpy())
    assert process.returncode == 0
    with pytest.raises(RPCError, match="nowhere: No such file"):
        PopenSession("/nowhere")
    with pytest.raises(RPCError, match="/bin/true does not say where it is"):
        PopenSession("/bin/true")


def test_what_sessions_do_not_have(remote: RPCSession) -> None:
    with pytest.raises(RPCError, match="load_module gives a library"):
        remote.get_function("tvm.contrib.random")
    with pytest.raises(RPCError, match="servers hold no library"):
        remote.system_lib()
    with pytest.raises(RPCError, match="bytes need a name"):
        remote.upload(b"abc")
