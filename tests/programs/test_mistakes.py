"""Mistakes of every day: one error that says what, where and what would be legal."""

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from .models import WEIGHTS, X, network


@pytest.fixture(scope="module")
def lib():
    return relay.build(network(), "llvm", params=WEIGHTS)


@pytest.fixture
def module(lib):
    return graph_executor.GraphModule(lib["default"](tvm.cpu(0)))


def var(name, *shape, dtype="float32"):
    return relay.var(name, shape=shape, dtype=dtype)


RUNNING = [
    (lambda m: m.run(), "run: these inputs were never set: x float32[2, 8]"),
    (lambda m: m.get_output(0), "get_output before run()"),
    (lambda m: m.set_input("x", np.zeros((2, 9), "float32")), "shape [2, 9] given"),
    (lambda m: m.set_input("x", np.zeros((2, 8))), "dtype float64 given, float32 needed"),
    (lambda m: m.set_input("data", X), "no input 'data'"),
    (lambda m: m.set_input(3, X), "no input 3"),
    (lambda m: m.set_input("x", None), "a NoneType given"),
    (lambda m: m.set_input("w1", WEIGHTS["w1"]), "no input 'w1'"),
    (lambda m: (m.run(x=X), m.get_output(5)), "no output 5"),
    (lambda m: m.benchmark(tvm.cuda(0)), "it runs on cpu(0), not on cuda(0)"),
    (lambda m: m.module.time_evaluator("rn", tvm.cpu(0)), "no function 'rn'"),
]


@pytest.mark.parametrize(("run", "text"), RUNNING, ids=[t for _, t in RUNNING])
def test_running(run, text, module):
    with pytest.raises(tvm.TVMError) as caught:
        run(module)
    assert text in str(caught.value)


BUILDING = [
    (lambda: relay.build(network(), "lvm"), "unknown target kind 'lvm'; nearest: llvm"),
    (lambda: relay.build(network(), "cuda"), "target kind 'cuda' cannot be compiled yet"),
    (lambda: relay.build(network(), 5), "a target is a string or a dictionary, not an int"),
    (lambda: relay.build((network(), {}), "llvm"), "ir_mod is a tuple"),
    (lambda: relay.build(tvm.IRModule(), "llvm"), 'the module has no function "main"'),
    (lambda: relay.build(network(), params=[1]), "params is a list"),
    (
        lambda: relay.build(network(), params={"W1": 1}),
        "has no parameter 'W1'; nearest: w1; parameters: x, w1",
    ),
    (
        lambda: relay.build(network(), params={"w1": WEIGHTS["w2"]}),
        "params['w1'] is float32[4, 16]",
    ),
    (lambda: relay.build_module.bind_params_by_name(network(), {}), 'give a function, mod["main"]'),
    (lambda: relay.create_executor("grph", network()), "no kind 'grph'; nearest: 'graph'"),
    (lambda: relay.create_executor("vm", network()).evaluate()(X), "takes 4 operands"),
    (lambda: relay.create_executor("vm", network(), tvm.cuda(0)), "not on cuda(0)"),
    (lambda: relay.backend.Executor("graf"), "no 'graf'"),
    (lambda: tvm.transform.PassContext(opt_level=7), "opt_level is 7"),
    (lambda: tvm.transform.PassContext(config={"tir.UnrolLoop": {}}), "nearest: tir.UnrollLoop"),
    (lambda: relay.transform.FuseOp(), "has no pass 'FuseOp'; nearest: FuseOps"),
    (lambda: relay.transform.InferType()(network()["main"]), "IRModule.from_expr(function)"),
    (lambda: relay.frontend.from_onnx("no.onnx"), "no.onnx: no such file"),
    (lambda: relay.parse("def @main(%x: float32) { nn.rlu(%x) }"), "no operator 'nn.rlu'"),
]


@pytest.mark.parametrize(("run", "text"), BUILDING, ids=[t for _, t in BUILDING])
def test_building(run, text):
    with pytest.raises(tvm.TVMError) as caught:
        run()
    assert text in str(caught.value)


X28, IMAGE = var("x", 2, 8), var("image", 1, 3, 8, 8)
WRITING = [
    (lambda: relay.nn.conv2dd(IMAGE), "no operator 'conv2dd'; nearest: nn.conv2d"),
    (lambda: relay.ad(X28, X28), "no operator 'ad'; nearest: add"),
    (lambda: relay.nn.softmax(X28, axs=1), "no attribute 'axs'; nearest: axis"),
    (lambda: relay.nn.softmax(X28, axis=7), "has axes -2 to 1"),
    (lambda: relay.nn.dense(X28, var("w", 4, 9)), "the weight has 9 columns"),
    (lambda: relay.add(X28, var("y", 2, 9)), "do not broadcast"),
    (lambda: relay.add(X28, var("y", 2, 8, dtype="int32")), "float32 and b is int32"),
    (lambda: relay.nn.conv2d(IMAGE, var("w", 4, 2, 3, 3)), "3 channels, the weight reads 2"),
    (lambda: relay.nn.conv2d(IMAGE, var("w", 4, 3, 3, 3), padding=(1, 2, 3)), "padding=(1, 2, 3)"),
    (lambda: relay.nn.conv2d(IMAGE, var("w", 4, 3, 3, 3), kernel_size=5), "the weight has (3, 3)"),
    (lambda: relay.reshape(X28, (3, 3)), "another number of elements"),
    (lambda: relay.nn.relu(relay.split(X28, 2).astuple()), "take one of its items"),
    (lambda: relay.TupleGetItem(X28, 0), "the value is no tuple"),
    (lambda: relay.const("abc"), "legal: numbers and arrays"),
    (lambda: relay.Function([X28, X28], X28), "the parameter 'x' is given twice"),
    (lambda: relay.var("x", shape=(2,), dtype="flot32"), "relay.var('x'): unknown dtype 'flot32'"),
    (lambda: relay.var("x", shape=(-1, 2)), "an extent -1; legal: numbers from 0, relay.Any()"),
    (lambda: relay.var("x", shape=("n", 2)), "an extent 'n'"),
    (lambda: relay.TensorType((1,), "float"), "relay.TensorType: unknown dtype 'float'"),
    (lambda: relay.analysis.free_var(X28), "nearest: free_vars"),
]


@pytest.mark.parametrize(("run", "text"), WRITING, ids=[t for _, t in WRITING])
def test_writing(run, text):
    with pytest.raises(tvm.TVMError) as caught:
        run()
    assert text in str(caught.value)


def test_shapes_and_dtypes_in_every_form():
    forms: list[Any] = [((), "int8"), ([2, 3], np.float32), (np.array([2, 3]), np.dtype("int64")),
                        (4, "bool"), ((relay.Any(), tvm.te.var("n")), "float16")]  # fmt: skip
    for shape, dtype in forms:
        made = relay.var("x", shape=shape, dtype=dtype)
        assert made.type_annotation.dtype == np.dtype(dtype).name
    assert relay.var("x").name_hint == "x"


def test_files(lib, tmp_path):
    (tmp_path / "text.so").write_text("hello" * 100)
    (tmp_path / "text.tar").write_text("hello" * 100)
    for name, text in [
        ("no.so", "No such file"),
        ("text.so", "not a library written by smelt's export_library"),
        ("text.tar", "cannot load"),
    ]:
        with pytest.raises(tvm.TVMError, match=text):
            tvm.runtime.load_module(str(tmp_path / name))
    with pytest.raises(tvm.TVMError, match="does not exist"):
        lib.export_library(tmp_path / "nowhere" / "net.so")
    with pytest.raises(tvm.TVMError, match="No such file"):
        tvm.runtime.load_param_dict_from_file(tmp_path / "no.params")
    with pytest.raises(tvm.TVMError, match="give bytes, or a path"):
        tvm.runtime.load_param_dict("net.params")


def test_graph_code_is_no_virtual_machine(lib):
    with pytest.raises(tvm.TVMError, match=r"give what relay\.vm\.compile or load_module gave"):
        tvm.runtime.vm.VirtualMachine(lib, tvm.cpu(0))
    with pytest.raises(tvm.TVMError, match=r'takes lib\["default"\]\(device\)'):
        graph_executor.GraphModule(lib)
    x = var("x", 2)
    branch = relay.Function([x], relay.If(relay.const(True), x, x + x))
    with pytest.raises(tvm.TVMError, match="the virtual machine runs it"):
        relay.build(tvm.IRModule.from_expr(branch))
