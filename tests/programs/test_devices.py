"""The document on edge devices: cross-compiling, and a model on another machine by RPC."""

import os
import subprocess
import tarfile

import numpy as np
import onnx
import pytest
import tvm
from tvm import autotvm, relay, rpc  # noqa: F401
from tvm import meta_schedule as ms
from tvm.contrib import graph_executor, ndk, utils  # noqa: F401

from smelt.runtime.linking import export_server
from tests.devices.crossed import CROSS, Runner
from tests.devices.test_cross import network
from tests.programs.models import X

GCC = "/usr/bin/aarch64-linux-gnu-gcc"


def test_cross_compile(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    CROSS["aarch64"].need()
    onnx.save(network(), "net.onnx")
    onnx_model = onnx.load("net.onnx")
    mod, params = relay.frontend.from_onnx(onnx_model, shape={"x": (1, 3, 24, 24)})
    target = tvm.target.Target("llvm -device=arm_cpu -mtriple=aarch64-linux-gnu -mattr=+neon")
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target=target, params=params)
    lib.export_library("net_rpi4.tar", cc=GCC)
    with tarfile.open("net_rpi4.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    x = np.random.default_rng(0).random((1, 3, 24, 24), np.float32)
    (found,) = Runner(CROSS["aarch64"], tmp_path)(tmp_path / "model.so", {"x": x})
    with tvm.transform.PassContext(opt_level=3):
        here = relay.build(mod, target="llvm", params=params)
    module = tvm.contrib.graph_executor.GraphModule(here["default"](tvm.cpu(0)))
    module.run(x=x)
    np.testing.assert_allclose(found, module.get_output(0).numpy(), rtol=1e-5, atol=1e-6)


def test_qemu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    CROSS["aarch64"].need()
    x = relay.var("x", shape=(1, 64), dtype="float32")
    w = relay.var("w", shape=(10, 64), dtype="float32")
    y = relay.nn.dense(x, w)
    y = relay.nn.softmax(y)
    mod = tvm.IRModule.from_expr(y)
    target = tvm.target.Target("llvm -mtriple=aarch64-linux-gnu -mattr=+neon")
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target=target)
    lib.export_library("tiny_model_arm.so", cc=GCC)
    rng = np.random.default_rng(0)
    given = {"x": rng.random((1, 64), np.float32), "w": rng.random((10, 64), np.float32)}
    (found,) = Runner(CROSS["aarch64"], tmp_path)(tmp_path / "tiny_model_arm.so", given)
    wanted = np.exp(given["x"] @ given["w"].T)
    np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=1e-4)


@pytest.fixture
def address():
    """A tracker, and a server that it calls rpi4."""
    with (
        rpc.Tracker(port=0) as made,
        rpc.Server(port=0, key="rpi4", tracker_addr=("127.0.0.1", made.port)),
    ):
        yield "127.0.0.1", made.port


def test_remote_benchmark(address, tmp_path, monkeypatch):
    mod = tvm.IRModule.from_expr(relay.nn.relu(relay.var("x", shape=X.shape, dtype="float32")))
    lib = relay.build(mod, target="llvm")
    tracker = rpc.connect_tracker(*address)
    remote = tracker.request("rpi4", priority=0, session_timeout=60)
    temp = utils.tempdir()
    path = temp.relpath("mobilenet.tar")
    lib.export_library(path, cc=os.environ.get("CC", "cc"))
    remote.upload(path)
    rlib = remote.load_module("mobilenet.tar")
    dev = remote.cpu(0)
    module = graph_executor.GraphModule(rlib["default"](dev))
    input_data = np.random.uniform(-1, 1, size=X.shape).astype("float32")
    module.set_input("x", input_data)
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), np.maximum(input_data, 0))
    ftimer = module.module.time_evaluator("run", dev, repeat=10, number=10)
    prof_res = np.array(ftimer().results) * 1000
    assert prof_res.shape == (10,)
    assert np.mean(prof_res) > 0
    remote.close()


@pytest.fixture
def emulated(tmp_path, monkeypatch):
    """A tracker, and a server in C on an emulated Cortex-A72 that it calls rpi4."""
    machine = CROSS["aarch64"]
    machine.need()
    monkeypatch.setenv("SMELT_RPC_TOKEN", "what we agreed on")
    export_server(tmp_path / "smelt-server", machine.triple)
    with rpc.Tracker(port=0, security=rpc.Security("what we agreed on")) as made:
        command = [*machine.emulator, tmp_path / "smelt-server", "--port=0", "--key=rpi4",
                   f"--tracker=127.0.0.1:{made.port}"]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            yield "127.0.0.1", made.port
            server.terminate()


@pytest.mark.parametrize("server", ["address", "emulated"])
def test_remote_tuning(server, request, tmp_path, monkeypatch):
    host, port = request.getfixturevalue(server)
    monkeypatch.chdir(tmp_path)
    x = relay.var("x", shape=(1, 64), dtype="float32")
    w = relay.const(np.ones((10, 64), "float32"))
    mod = tvm.IRModule.from_expr(relay.nn.softmax(relay.nn.dense(x, w)))
    there = CROSS["aarch64"].target if server == "emulated" else "llvm -mcpu=native"
    target_rpi4 = tvm.target.Target(f"{there} -num-cores=1")
    database = ms.tune_tvm(
        mod=mod,
        target=target_rpi4,
        config=ms.TuneConfig(strategy="evolutionary", num_trials_per_iter=4, max_trials_per_task=8),
        runner=ms.runner.RPCRunner(
            rpc_config=ms.runner.RPCConfig(
                tracker_host=host, tracker_port=port, tracker_key="rpi4", session_timeout_sec=60
            ),
            max_workers=1,
        ),
        work_dir="./tune_rpi4",
    )
    records = database.get_all_tuning_records()
    assert len(records) >= 2
    assert all(min(map(float, r.run_secs)) > 0 for r in records)
    assert all(("aarch64" in str(r.target)) == (server == "emulated") for r in records)
