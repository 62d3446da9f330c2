"""Machines by name: the list, what they say of themselves, commands with --device."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import smelt
from benchmarks.rpc_servers import SECRET
from smelt.cli.commands import app
from smelt.codegen.llvm import host_cpu
from smelt.rpc import RPCError, Server, Tracker
from smelt.rpc.about import describe
from smelt.rpc.devices import (
    KnownDevice,
    add_device,
    find_device,
    known_devices,
    remove_device,
    target_of,
)
from smelt.rpc.executable import send
from smelt.target.processor import features_of
from tests.devices.test_cross import CASES, OPTIONS, network, numbers

from .servers import Served


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where devices are kept."""
    path = tmp_path / "settings" / "devices.json"
    monkeypatch.setenv("SMELT_DEVICES", str(path))
    return path


@pytest.fixture
def here(server: Served, monkeypatch: pytest.MonkeyPatch) -> KnownDevice:
    """This machine, by a server of either kind."""
    monkeypatch.setenv("SMELT_RPC_TOKEN", SECRET.token)
    add_device(KnownDevice("here", "127.0.0.1", server.port))
    return find_device("here")


def said(*arguments: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def test_a_list_that_is_kept(file: Path) -> None:
    assert known_devices() == {}
    rpi = KnownDevice("rpi4", "192.168.0.7", 9190, "rpi4", "llvm -mtriple=aarch64-linux-gnu")
    add_device(rpi)
    add_device(KnownDevice("other", "::1", 9090))
    assert known_devices() == {"rpi4": rpi, "other": KnownDevice("other", "::1", 9090)}
    remove_device("other")
    assert [*known_devices()] == ["rpi4"]
    assert json.loads(file.read_text())["devices"]["rpi4"]["port"] == 9190


def test_mistakes(file: Path) -> None:
    with pytest.raises(
        RPCError, match="there is no device 'rpi5'; devices: none; smelt devices add"
    ):
        find_device("rpi5")
    add_device(KnownDevice("rpi4", "h", 1))
    with pytest.raises(RPCError, match="there is no device 'rpi5'; nearest: rpi4; devices: rpi4"):
        find_device("rpi5")
    with pytest.raises(smelt.SmeltError, match="unknown CPU 'cortex-b72'"):
        add_device(KnownDevice("x", "h", 1, "", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-b72"))
    assert [*known_devices()] == ["rpi4"]
    for text in ("{", '{"devices": {"a": {"port": 1}}}', '{"devices": [1]}'):
        file.write_text(text)
        with pytest.raises(RPCError, match="is no list of devices"):
            known_devices()


def test_a_machine_s_target_is_what_it_says() -> None:
    about = describe()
    assert about["cores"] >= 1
    assert about["memory"] > 1 << 28
    made = target_of(about)
    _, on = host_cpu()
    assert features_of(made) >= {f for f in ("avx2", "fma", "avx512f", "neon") if f in on}
    exe = smelt.compile(network(), made, options=OPTIONS)  # it runs here
    given = numbers({"x": (1, 3, 24, 24)})
    wanted = smelt.compile(network(), options=OPTIONS)(**given).numpy()
    np.testing.assert_allclose(exe(**given).numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_targets_of_other_machines() -> None:
    made = target_of(
        {"machine": "aarch64", "cores": 4, "features": ["neon", "fullfp16", "dotprod"]}
    )
    assert made.mtriple == "aarch64-unknown-linux-gnu"
    assert {"dotprod", "fullfp16"} <= features_of(made)
    assert not {"sve", "i8mm"} & features_of(made)
    arm = target_of({"machine": "armv7l", "cores": 4, "features": ["neon", "vfp3", "vfp4"]})
    assert arm.mtriple == "armv7-linux-gnueabihf"
    with pytest.raises(RPCError, match="does not say which processor"):
        target_of({"host": "x"})


@pytest.mark.parametrize("case", CASES)
def test_a_model_there_is_called_as_one_here(server: Served, here: KnownDevice, case: str) -> None:
    make, shapes = CASES[case]
    artifact = smelt.compile_artifact(make(), options=OPTIONS)
    exe, given = smelt.compile(make(), options=OPTIONS), numbers(shapes)
    with here.open() as session:
        there = send(session, artifact)
        assert (there.inputs, there.outputs) == (exe.inputs, exe.outputs)
        found, wanted = there(**given), exe(**given)
        several = isinstance(wanted, smelt.Results)
        assert isinstance(found, smelt.Results) == several
        for a, b in zip(
            found if several else [found], wanted if several else [wanted], strict=True
        ):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        times = there.benchmark(*given.values(), repeat=4, number=2)
        assert len(times.results) == 4
        if server.kind == "C" and artifact.metadata.get("kind") == "vm":
            return  # it takes no profiles of programs
        report = there.profile(*given.values(), repeat=2)
        names = [k.name for k in exe.profile(*given.values(), repeat=1).kernels]
        assert [k.name for k in report.kernels] == names
        assert report.total > 0


def test_commands(server: Served, here: KnownDevice, tmp_path: Path) -> None:
    smelt.compile(network(), options=OPTIONS).export_library(tmp_path / "net.so")
    np.save(tmp_path / "x.npy", numbers({"x": (1, 3, 24, 24)})["x"])
    given = tmp_path / "net.so", "--input", tmp_path / "x.npy"
    said("run", *given, "-o", tmp_path / "a.npy")
    said("run", *given, "-o", tmp_path / "b.npy", "--device", "here")
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))
    bench = json.loads(said("bench", *given, "--device", "here", "--seconds", "0.05", "--json"))
    assert bench["smelt"]["calls"] >= 3
    assert "conv2d" in said("profile", *given, "--device", "here")
    assert "here: answers in" in said("devices", "ping")
    about = json.loads(said("devices", "describe", "here", "--json"))
    assert about["target"].startswith("llvm ")
    assert "processor" in said("devices", "describe", "here")


def test_tuning(here: KnownDevice, tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    found = json.loads(said("tune", tmp_path / "net.onnx", "--device", "here", "--trials", "6",
                            "--database", tmp_path / "net.db", "--json"))  # fmt: skip
    assert (found["trials"], found["errors"]) == (6, [])
    assert any(t["default_us"] for t in found["tasks"])


def test_devices_of_a_tracker() -> None:
    with Tracker(port=0) as tracker:
        where = f"127.0.0.1:{tracker.port}"
        with Server(port=0, key="board", tracker_addr=("127.0.0.1", tracker.port)):
            said("devices", "add", "board", where, "--key", "board")
            assert "answers in" in said("devices", "ping", "board")
            assert "board at the tracker" in said("devices")


def test_a_device_that_does_not_answer(here: KnownDevice) -> None:
    add_device(KnownDevice("gone", "127.0.0.1", 1))
    found = said("devices", "ping", code=1)
    assert "here: answers in" in found
    assert "gone: the server at 127.0.0.1:1 cannot be reached: Connection refused" in found


WRONG = {
    "action": (
        ["devices", "lists"],
        "no action 'lists'; nearest: list; actions: list, add, remove",
    ),
    "add": (["devices", "add", "a"], "devices add: give a name and a place"),
    "place": (["devices", "add", "a", "host"], "devices add: 'host' is no HOST:PORT"),
    "remove": (["devices", "remove"], "devices remove: give the device's name"),
    "key": (["devices", "ping", "--key", "a"], "HOST:PORT, --key and --target belong to add"),
    "parallel": (["tune", "net.onnx", "--parallel", "2"], "--parallel: this machine measures one"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_of_commands(case: str) -> None:
    arguments, text = WRONG[case]
    done = CliRunner().invoke(app, arguments)
    assert text in str(done.exception)


def test_both_servers_say_the_same_of_a_machine(here: KnownDevice, server: Served) -> None:
    with here.open() as session:
        found, wanted = dict(session.about), describe()
    assert found.pop("server") == server.kind
    wanted.pop("server")
    for about in (found, wanted):
        warmth = about.pop("temperature")
        assert warmth is None or -50 < warmth < 150
    assert found == wanted


def test_a_library_for_several_processors(here: KnownDevice) -> None:
    made = smelt.compile_levels(network(), "x86-64,x86-64-v2,x86-64-v3,x86-64-v4", options=OPTIONS)
    given = numbers({"x": (1, 3, 24, 24)})
    with here.open() as session:
        found = send(session, made)(**given).numpy()
    wanted = smelt.compile(network(), options=OPTIONS)(**given).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
