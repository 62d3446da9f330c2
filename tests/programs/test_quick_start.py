"""Build, run, measure, save, load: the first pages of every tutorial."""

import subprocess
import sys

import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import relay
from tvm.contrib import graph_executor, utils
from tvm.contrib.debugger import debug_executor

from .models import WEIGHTS, X, close, expected, network


def test_quick_start():
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(network(), target="llvm", params=WEIGHTS)
    dev = tvm.device("llvm", 0)
    module = graph_executor.GraphModule(lib["default"](dev))
    module.set_input("x", tvm.nd.array(X))
    module.run()
    out = module.get_output(0, tvm.nd.empty((2, 4))).asnumpy()
    close(out, expected())
    timed = module.module.time_evaluator("run", dev, number=2, repeat=3)()
    assert len(timed.results) == 3
    assert timed.mean > 0
    measured = module.benchmark(dev, repeat=2, number=2, end_to_end=True)
    assert measured.min <= measured.median <= measured.max


def test_graph_lib_and_params():
    graph, lib, params = relay.build(network(), "llvm", params=WEIGHTS)
    module = graph_executor.create(graph, lib, tvm.cpu())
    module.set_input(**params)
    module.load_params(relay.save_param_dict(params))
    module.set_input(x=X)
    module.run()
    close(module.get_output(0), expected())
    name, value = next(iter(params.items()))
    with pytest.raises(tvm.TVMError, match=f"{name!r} is a constant of the library"):
        module.set_input(**{name: value.numpy() + 1})


@pytest.mark.parametrize("kind", ["graph", "vm", "debug", "aot"])
def test_every_executor(kind):
    mod = network()
    run = relay.create_executor(kind, mod=mod, device=tvm.cpu(0), target="llvm").evaluate()
    close(run(X, **WEIGHTS), expected())
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], WEIGHTS)
    assert [p.name_hint for p in mod["main"].params] == ["x"]
    close(relay.create_executor(kind, mod=mod).evaluate()(X), expected())


def test_expressions_are_computed_at_once():
    made = relay.create_executor(kind="debug").evaluate(relay.const(1) + relay.const(2))
    assert int(made) == 3
    x = relay.var("x", shape=(3,))
    plus = relay.create_executor("graph").evaluate(relay.Function([x], x + relay.const(1.0)))
    close(plus(np.zeros(3, "float32")), np.ones(3, "float32"))


def test_a_fresh_process_runs_what_was_exported(tmp_path):
    lib = relay.build(network(), "llvm", params=WEIGHTS)
    np.save(tmp_path / "x.npy", X)
    program = """
import sys
import smelt.compat
smelt.compat.as_tvm()
import numpy, tvm
from tvm.contrib import graph_executor
module = graph_executor.GraphModule(tvm.runtime.load_module(sys.argv[1])["default"](tvm.cpu(0)))
module.run(x=numpy.load("x.npy"))
numpy.save(sys.argv[1] + ".npy", module.get_output(0).numpy())
"""
    for name in ("net.so", "net.tar"):
        lib.export_library(str(tmp_path / name))
        subprocess.run([sys.executable, "-c", program, name], check=True, cwd=tmp_path)
        close(np.load(tmp_path / f"{name}.npy"), expected())


def test_a_temporary_folder():
    folder = utils.tempdir()
    relay.build(network(), "llvm", params=WEIGHTS).export_library(folder.relpath("net.so"))
    assert folder.listdir() == ["net.so"]
    assert tvm.runtime.load_module(folder.relpath("net.so"))["default"](tvm.cpu())


def test_the_debug_executor(tmp_path):
    lib = relay.build(network(), "llvm", params=WEIGHTS)
    made = lib["debug_create"]("default", tvm.cpu(0))
    module = debug_executor.GraphModuleDebug(
        made, [tvm.cpu(0)], lib.get_graph_json(), dump_root=str(tmp_path)
    )
    module.set_input("x", X)
    module.run()
    close(module.get_output(0), expected())


def test_parameter_files(tmp_path):
    data = tvm.runtime.save_param_dict(WEIGHTS)
    assert data == relay.save_param_dict({n: tvm.nd.array(a) for n, a in WEIGHTS.items()})
    tvm.runtime.save_param_dict_to_file(WEIGHTS, tmp_path / "net.params")
    for found in (
        tvm.runtime.load_param_dict(data),
        tvm.runtime.load_param_dict_from_file(tmp_path / "net.params"),
    ):
        assert {n: a.numpy().tolist() for n, a in found.items()} == {
            n: a.tolist() for n, a in WEIGHTS.items()
        }


def test_arrays():
    a = tvm.nd.array(X, tvm.cpu(0))
    b = tvm.nd.empty(a.shape, a.dtype, tvm.device("cpu", 0))
    b[:] = 0
    assert not b.asnumpy().any()
    a.copyto(b)
    assert np.array_equal(b.numpy(), X)
    b[0] = np.arange(8)
    assert b[0].tolist() == list(range(8))
    assert b.same_as(b)
    assert not b.same_as(a.copyto(tvm.cpu(0)))
    assert np.array_equal(tvm.nd.from_dlpack(X).numpy(), X)
    with pytest.raises(tvm.TVMError, match=r"shape \[3\] do not fit a part of shape \[2, 8\]"):
        b[:] = np.zeros(3)


def test_devices():
    dev = tvm.cpu(0)
    assert dev.exist
    assert (dev.device_type, dev.device_id) == (1, 0)
    assert tvm.device("llvm -mcpu=native") == tvm.device("cpu") == dev
    dev.sync()
    card = tvm.cuda(0)
    assert not card.exist
    assert card == tvm.gpu(0) == tvm.device("cuda", 0)
    assert card.device_type == 2
    with pytest.raises(tvm.TVMError, match=r"there is no device cuda\(0\) here"):
        tvm.nd.array(X, card)
    with pytest.raises(tvm.TVMError, match="no kind 'cuba'; nearest: cuda"):
        tvm.device("cuba")


def test_targets():
    for text in ("llvm", "llvm -mcpu=native", "llvm -num-cores 4", "cuda -arch=sm_80", "c",
                 "nvidia/geforce-rtx-3090", {"kind": "llvm", "mcpu": "native"}):  # fmt: skip
        assert tvm.target.Target(text).kind.name in tvm.target.Target.list_kinds()
    made = tvm.target.Target(target="cuda", host="llvm")
    assert (made.kind.name, made.host.kind.name) == ("cuda", "llvm")
    assert tvm.target.create("llvm") == tvm.target.Target("llvm")
    with tvm.target.Target("llvm -mcpu=native") as target:
        assert tvm.target.Target.current(allow_none=False) is target
        lib = relay.build(network(), params=WEIGHTS)
    assert lib.target == target
    for given in ({"cpu": "llvm"}, {tvm.cpu(0): "llvm"}, [tvm.target.Target("llvm")]):
        assert relay.build(network(), target=given, params=WEIGHTS).target.kind.name == "llvm"


def test_what_is_built_can_be_seen():
    mod, params = relay.optimize(network(), target="llvm", params=WEIGHTS)
    assert params == {}
    assert "@fused_matmul_add_relu(%x" in str(mod["main"])
    module = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    module.run(x=X)
    close(module.get_output(0), expected())


def test_weights_may_be_given_again_after_partitioning():
    mod = network()
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], WEIGHTS)
    lib = relay.build(mod, "llvm", params=WEIGHTS)  # the constants have these names
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(x=X)
    close(module.get_output(0), expected())
    nameless = relay.transform.FoldConstant()(
        tvm.IRModule.from_expr(relay.var("x", shape=(3,)) + relay.const(np.ones(3, "float32")))
    )
    with pytest.warns(UserWarning, match="the module holds its weights"):
        relay.build(nameless, "llvm", params={"weight": np.ones(3, "float32")})
