"""GraphModuleDebug: what happens inside a model."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relay
from smelt.contrib import debug_executor
from smelt.contrib.debug_executor import GraphModuleDebug
from smelt.contrib.graph_executor import GraphModule
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.nodes import Function, Tuple, TupleGetItem, Var, call
from smelt.runtime import InputError, LoadError, cpu

Array = np.ndarray[Any, Any]


def debugger(lib: Any, dump_root: Any = None) -> GraphModuleDebug:
    module = lib["debug_create"]("default", cpu(0))
    return GraphModuleDebug(module, [cpu(0)], lib.get_graph_json(), dump_root)


@pytest.fixture
def module(lib: Any) -> GraphModuleDebug:
    return debugger(lib)


def chain() -> IRModule:
    """Results inside of every kind: channels last, a view, an output used on, two results."""
    x = Var("x", tensor_type((1, 3, 4, 4), "float32"))
    pooled = call("max_pool", x, kernel=(2, 2), strides=(2, 2))
    turned = call("transpose", pooled, axes=(0, 2, 3, 1))
    rows = call("reshape", turned, shape=(4, 3))
    soft = call("softmax", rows, axis=1)
    top = call("topk", soft, k=2)
    return IRModule({"main": Function((x,), Tuple((soft, TupleGetItem(top, 0))))})


def test_results_inside_are_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    lib = relay.build(chain(), mod_name="net")
    m = debugger(lib)
    x = np.random.default_rng(0).standard_normal((1, 3, 4, 4)).astype("float32")
    m.run(x=x)
    assert [n["name"] for n in m.nodes] == ["x", *m.kernel_names()]
    assert m.kernel_names() == ["max_pool", "softmax", "topk"]
    pooled = x.reshape(1, 3, 2, 2, 2, 2).max((3, 5))
    assert np.array_equal(m.debug_get_output("max_pool").numpy(), pooled)
    assert np.array_equal(m.debug_get_output(1).numpy(), pooled)
    assert np.array_equal(m.debug_get_output("x").numpy(), x)
    e = np.exp(pooled.transpose(0, 2, 3, 1).reshape(4, 3))
    soft = e / e.sum(1, keepdims=True)
    assert np.allclose(m.debug_get_output("softmax").numpy(), soft, atol=1e-6)
    values, indices = [a.numpy() for a in m.get_node_output("topk")]
    assert np.allclose(values, -np.sort(-soft, 1)[:, :2], atol=1e-6)
    assert np.array_equal(indices, np.argsort(-soft, 1)[:, :2])
    assert np.array_equal(m.debug_get_output("output1").numpy(), values)
    out = smelt.nd.empty((1, 3, 2, 2))
    assert m.debug_get_output("max_pool", out) is out
    assert np.array_equal(out.numpy(), pooled)
    shown = capsys.readouterr().out
    for word in ("node", "time (us)", "max_pool", "softmax", "topk", "(1, 3, 2, 2)"):
        assert word in shown


def test_the_last_of_a_network_follows_from_its_middle(
    module: GraphModuleDebug, lib: Any, image: Array, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = GraphModule(lib["default"](cpu(0)))
    plain.run(input=image)
    module.run(input=image)
    assert np.array_equal(module.get_output(0).numpy(), plain.get_output(0).numpy())
    names = module.kernel_names()
    assert len(set(names)) == len(names)
    assert np.array_equal(module.debug_get_output(names[-1]).numpy(), plain.get_output(0).numpy())
    results = [module.debug_get_output(n).numpy() for n in names]
    module.run(input=2 * image)
    for name, before in zip(names, results, strict=True):
        assert np.isfinite(before).all()
        assert not np.array_equal(module.debug_get_output(name).numpy(), before)
    assert module.module.memory.workspace == plain.module.memory.workspace


def test_times(module: GraphModuleDebug, image: Array) -> None:
    module.set_input("input", image)
    count = len(module.nodes)
    times = module.run_individual(number=2, repeat=3)
    assert len(times) == count
    assert all(len(row) == 3 for row in times)
    assert all(t == 0 for t in times[0])
    assert all(t > 0 for t in times[-1])
    one = module.run_individual_node(count - 1, number=2, repeat=4, min_repeat_ms=0.5)
    assert len(one.results) == 4
    assert "median (ms)" in str(one)
    report = module.profile(repeat=2)
    assert [k.name for k in report.kernels] == module.kernel_names()
    rows = list(csv.DictReader(io.StringIO(report.csv())))
    assert [r["kernel"] for r in rows] == module.kernel_names()
    assert all(float(r["ms"]) > 0 and r["calls"] == "1" for r in rows)
    assert len(json.loads(report.json())["kernels"]) == len(rows)
    assert "GFLOP/s" in report.table()
    # the outputs of the run can be read without run()
    assert module.debug_get_output(count - 1).shape == (1, 10)


def test_the_dump(lib: Any, image: Array, tmp_path: Path) -> None:
    m = debugger(lib, tmp_path)
    m.run(input=image)
    folder = tmp_path / "_tvmdbg_device_CPU_0"
    graph = json.loads((folder / "_tvmdbg_graph_dump.json").read_text())
    assert [n["name"] for n in graph["nodes"]] == [n["name"] for n in m.nodes]
    assert float(graph["nodes"][-1]["time_us"]) > 0
    trace = json.loads((folder / "_tvmdbg_execution_trace.json").read_text())["traceEvents"]
    assert len(trace) == 2 * len(m.nodes)
    tensors = relay.load_param_dict((folder / "output_tensors.params").read_bytes())
    name = m.kernel_names()[3]
    assert np.array_equal(tensors[f"{name}____0"].numpy(), m.debug_get_output(name).numpy())


def test_open_sizes_can_be_looked_into() -> None:
    x = Var("x", tensor_type((SizeVar("n"), 4), "float32"))
    body = call("softmax", call("matmul", x, relay.const(np.eye(4, dtype="float32"))))
    m = debugger(relay.build(IRModule({"main": Function((x,), body)})))
    for n in (3, 5):
        given = np.random.default_rng(n).standard_normal((n, 4)).astype("float32")
        m.run(x=given)
        assert np.allclose(m.debug_get_output("matmul").numpy(), given, atol=1e-6)


def test_create_takes_the_three(lib: Any, image: Array) -> None:
    graph, module, _ = lib
    m = debug_executor.create(graph, module, cpu(0))
    m.run(input=image)
    assert m.get_num_outputs() == 1


def test_a_library_of_a_file(lib: Any, image: Array, tmp_path: Path) -> None:
    """Which is all that is known of it, but for the graph."""
    path = tmp_path / "net.so"
    lib.export_library(path)
    here, loaded = debugger(lib), smelt.runtime.load_module(path)
    there = debug_executor.create(lib.get_graph_json(), loaded, cpu(0))
    for m in (here, there):
        m.run(input=image)
    for name in here.kernel_names():
        for a, b in zip(here.get_node_output(name), there.get_node_output(name), strict=True):
            assert np.array_equal(a.numpy(), b.numpy())
    del loaded.metadata["kernels"][0]["results"]
    with pytest.raises(InputError, match="it is of an earlier smelt; export it again"):
        debug_executor.create(lib.get_graph_json(), loaded, cpu(0))


def test_memory_that_is_used_again_is_read_before() -> None:
    """Six results in the memory of two."""
    x = Var("x", tensor_type((4, 4), "float32"))
    y: Any = x
    for _ in range(6):
        y = call("matmul", y, relay.const(2 * np.eye(4, dtype="float32")))
    m = debugger(relay.build(IRModule({"main": Function((x,), y)})))
    assert m.module.memory.workspace is not None
    assert m.module.memory.workspace <= 2 * 64
    given = np.random.default_rng(0).standard_normal((4, 4)).astype("float32")
    m.run(x=given)
    found = [m.debug_get_output(n).numpy() for n in m.kernel_names()]
    assert len(found) == 6
    for n, r in enumerate(found, 1):
        assert np.allclose(r, 2.0**n * given)


def test_damaged_places_are_one_error(lib: Any, image: Array, tmp_path: Path) -> None:
    path = tmp_path / "net.so"
    lib.export_library(path)
    loaded = smelt.runtime.load_module(path)
    loaded.metadata["kernels"][1]["results"][0]["offset"] = 1 << 40
    m = debug_executor.create(lib.get_graph_json(), loaded, cpu(0))
    with pytest.raises(LoadError, match="the metadata are damaged"):
        m.run(input=image)


def test_errors(module: GraphModuleDebug, lib: Any) -> None:
    with pytest.raises(InputError, match="these inputs were never set"):
        module.run()
    with pytest.raises(InputError, match=r"net: it was not run yet; run\(\) measures"):
        module.table()
    with pytest.raises(InputError, match="net: no node 'max_pol'; nearest: max_pool"):
        module.debug_get_output("max_pol")
    with pytest.raises(InputError, match=r"node 'p0' is a constant; lib.get_params\(\) has it"):
        module.debug_get_output("p0")
    with pytest.raises(InputError, match="number is 0; legal: whole numbers from 1"):
        module.run_individual(0)
    with pytest.raises(InputError, match="collectors cannot be given"):
        module.profile([1])
    with pytest.raises(InputError, match="net: no node 999"):
        module.run_individual_node(999)
    other = relay.build(chain()).get_graph_json()
    with pytest.raises(InputError, match="net: the graph JSON is another model's"):
        GraphModuleDebug(module.module, [cpu(0)], other)
    with pytest.raises(InputError, match=r"debug_get_output before run\(\)"):
        debugger(lib).debug_get_output("max_pool")
