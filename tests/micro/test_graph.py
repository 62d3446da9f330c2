"""The graph executor in C: what it computes, what it refuses, and graphs that are damaged."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
import tarfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relay
from smelt.contrib.graph_executor import GraphModule
from smelt.ir.errors import CompileError
from smelt.micro import (
    BOARDS,
    CSource,
    Session,
    compile_c,
    export_model_library_format,
    generate_project_from_mlf,
    read_model_library_format,
)
from smelt.micro.csource import NATIVE
from smelt.micro.toolchain import cross_compiler
from smelt.relay.backend import Executor, Runtime
from smelt.runtime.errors import MicroError
from smelt.runtime.params import load_param_dict
from tests.models import conv_nets
from tests.models.net import floats

from .test_boards import need
from .test_c import OPTIONS, TINY, WARNINGS, Array, compiled, numbers, run
from .test_serial import SANITIZERS

HERE = Path(__file__).parent
GRAPH, CRT = Executor("graph"), Runtime("crt")


class Model(ctypes.Structure):
    """smelt_graph_model."""

    _fields_ = (
        ("json", ctypes.c_char_p), ("json_bytes", ctypes.c_uint32),
        ("function_count", ctypes.c_uint32), ("functions", ctypes.c_void_p),
        ("params", ctypes.c_void_p), ("param_count", ctypes.c_uint32), ("done", ctypes.c_void_p),
    )  # fmt: skip


def branches() -> smelt.IRModule:
    """Views of values, values that are read twice, and two results."""
    r = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 4, 8, 8), dtype="float32")
    w = relay.const(r.standard_normal((6, 4, 3, 3)).astype("float32"))
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1)))
    left, right = relay.split(y, 2, axis=1)
    z = relay.concatenate([relay.nn.max_pool2d(right, (2, 2), strides=(2, 2)),
                           relay.nn.avg_pool2d(left, (2, 2), strides=(2, 2))], axis=1)  # fmt: skip
    v = relay.const(r.standard_normal((5, 96)).astype("float32"))
    flat = relay.nn.dense(relay.nn.batch_flatten(z), v)
    return smelt.IRModule.from_expr(relay.Tuple([relay.nn.softmax(flat), left]))


def built(mod: Any, **options: Any) -> Any:
    return relay.build(mod, "c", executor=Executor("graph", options), runtime=CRT)


def library(code: CSource, folder: Path) -> Any:
    """The model and the executor."""
    found = ctypes.CDLL(str(compiled(code, folder, "smelt_graph.c")))
    found.smelt_graph_error.restype = ctypes.c_char_p
    return found


def close(found: list[Array], wanted: list[Array]) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def lib() -> Any:
    return built(branches())


@pytest.fixture(scope="module")
def native(lib: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return library(lib.code, tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="module")
def image() -> Array:
    return np.random.default_rng(1).standard_normal((1, 4, 8, 8)).astype("float32")


@pytest.fixture(scope="module")
def wanted(image: Array) -> list[Array]:
    """What the host's graph executor computes."""
    module = GraphModule(relay.build(branches(), "llvm")["default"](smelt.cpu(0)))
    module.run(x=image)
    return [module.get_output(n).numpy() for n in range(2)]


def test_the_run_function(lib: Any, native: Any, image: Array, wanted: list[Array]) -> None:
    found = [np.full_like(w, 77) for w in wanted]
    assert run(lib.code, Path(native._name), [image], found) == 0
    close(found, wanted)


def opened(native: Any, code: CSource, text: str | None = None, arena: int = 0, shift: int = 0,
           wanted: int = 0) -> tuple[Any, Any]:  # fmt: skip
    """An opened graph and its memory; text: other JSON; arena: bytes."""
    model = Model.in_dll(native, f"{code.name}_graph")
    if text is not None:
        held = text.encode()
        model = Model(held, len(held), *[getattr(model, n) for n, _ in Model._fields_[2:]])
    space = np.zeros(code.workspace_bytes // 8 + 2, np.int64)
    graph = (ctypes.c_uint64 * 32)()
    status = native.smelt_graph_open(
        graph, ctypes.byref(model), ctypes.c_void_p(space.ctypes.data + shift),
        arena or code.workspace_bytes,
    )  # fmt: skip
    assert status == wanted, native.smelt_graph_error(status)
    return graph, (space, model)


def test_step_by_step(lib: Any, native: Any, image: Array, wanted: list[Array]) -> None:
    """An opened graph runs again and again."""
    graph, _held = opened(native, lib.code)
    for scale in (2, 1):
        x = image * np.float32(scale)
        data = ctypes.c_void_p(x.ctypes.data)
        assert native.smelt_graph_set(graph, b"x", data, x.nbytes) == 0
        assert native.smelt_graph_run(graph) == 0
    for n, w in enumerate(wanted):
        y = np.zeros_like(w)
        data = ctypes.c_void_p(y.ctypes.data)
        assert native.smelt_graph_get_output(graph, n, data, y.nbytes - 1) == 1009
        assert native.smelt_graph_get_output(graph, n, data, y.nbytes) == 0
        close([y], [w])
    assert native.smelt_graph_get_output(graph, 2, data, 4000) == 1008


def test_what_is_refused_when_it_runs(lib: Any, native: Any, image: Array) -> None:
    code = lib.code
    graph, _held = opened(native, code)
    data = ctypes.c_void_p(image.ctypes.data)
    assert native.smelt_graph_run(graph) == 1010
    assert native.smelt_graph_set(graph, b"y", data, image.nbytes) == 1008
    assert native.smelt_graph_set(graph, b"x", data, image.nbytes - 4) == 1009
    opened(native, code, arena=200, wanted=1006)
    opened(native, code, arena=code.workspace_bytes - 300, wanted=1006)
    opened(native, code, shift=4, wanted=1007)


def edited(lib: Any, change: Any) -> str:
    graph = json.loads(lib.get_graph_json())
    change(graph)
    return json.dumps(graph)


CHANGES: dict[str, tuple[Any, int]] = {
    "spaces": (lambda g: None, 0),
    "more": (lambda g: g.update(more=[{"a": [1.5e-3, True, None, "\\u00e9\\\""]}, []]), 0),
    "function": (lambda g: g["nodes"][-1]["attrs"].update(func_name="evil"), 1003),
    "operands": (lambda g: g["nodes"][-1].update(inputs=[]), 1002),
    "other": (lambda g: g["nodes"][-1].update(op="call"), 1002),
    "forward": (lambda g: g["nodes"][-1].update(inputs=[[len(g["nodes"]) - 1, 0, 0]]), 1002),
    "no_heads": (lambda g: g.pop("heads"), 1002),
    "no_plan": (lambda g: g["attrs"].pop("storage_offset"), 1002),
    "sizes": (lambda g: g["attrs"].update(storage_bytes=["list_int", [4] * 9]), 1002),
    "odd": (lambda g: g["attrs"]["storage_offset"][1].__setitem__(-1, 12), 1002),
    "far": (lambda g: g["attrs"]["storage_offset"][1].__setitem__(-1, 1 << 20), 1006),
    "short": (lambda g: g["attrs"]["storage_bytes"][1].__setitem__(-1, 4), 1004),
    "constant": (lambda g: g["attrs"]["storage_id"][1].__setitem__(-1, 1), 1004),
    "big": (lambda g: g["attrs"]["storage_bytes"][1].__setitem__(1, 1 << 30), 1009),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_graphs_that_were_changed(name: str, lib: Any, native: Any) -> None:
    change, status = CHANGES[name]
    opened(native, lib.code, edited(lib, change), wanted=status)


def test_texts_that_are_no_json(lib: Any, native: Any) -> None:
    whole = lib.get_graph_json()
    for text in ("", "{", "[]", "null", whole[:-1], whole + "x", "[" * 100_000, '{"nodes": 1 2}'):
        opened(native, lib.code, text, wanted=1001)


def test_damaged_graphs(lib: Any, tmp_path: Path) -> None:
    """Thousands of them, with the sanitizers' checks: statuses, and no crash."""
    for n, t in lib.code.net_files().items():
        made = t.replace("tvmgen_default", "net").replace("TVMGEN_DEFAULT", "NET")
        (tmp_path / n).write_text(made)
    command = ["gcc", *WARNINGS, "-O1", *SANITIZERS, "-I.", "net.c", "smelt_graph.c"]
    command += [str(HERE / "graph_driver.c"), "-o", "driver", "-lm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    done = subprocess.run(["./driver", "10000", "7"], cwd=tmp_path, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[:3000]
    counts = [*map(int, done.stdout.split())]
    assert sum(counts) == 10_000
    assert min(*counts[:5], counts[6]) > 10, counts


@pytest.mark.parametrize("name", ["dscnn", "mlp"])
def test_networks_are_as_without_a_graph(name: str, tmp_path: Path) -> None:
    """The same kernels, the same bytes."""
    model = getattr(conv_nets, name)(1)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    given, both = [floats("x", *shape)["x"]], []
    for graph, more in ((False, ()), (True, ("smelt_graph.c",))):
        made = compile_c(model, options=OPTIONS, graph=graph)
        found = [np.zeros(t.shape, t.dtype) for t in made.outputs]
        (tmp_path / str(graph)).mkdir()
        assert run(made, compiled(made, tmp_path / str(graph), *more), given, found) == 0
        both.append(found)
    for a, b in zip(*both, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_trained_model(tmp_path: Path) -> None:
    """Bytes are equal, bit for bit."""
    path = TINY / "kws_int8.tflite"
    if not path.exists():
        pytest.skip(f"no trained models in {TINY} (SMELT_MODELS)")
    exe = smelt.compile(str(path), options=OPTIONS)
    given = numbers(exe)
    made = compile_c(str(path), "c -mcpu=cortex-m4", options=OPTIONS, graph=True)
    found = [np.zeros(t.shape, t.dtype) for t in made.outputs]
    assert run(made, compiled(made, tmp_path, "smelt_graph.c"), given, found) == 0
    np.testing.assert_array_equal(found[0], exe(*given).numpy())


def test_parameters_of_the_callers(native: Any, lib: Any, image: Array, wanted: list[Array],
                                   tmp_path: Path) -> None:  # fmt: skip
    """With link-params=False the source has none, and they are given like inputs."""
    apart = built(branches(), **{"link-params": False})
    assert apart.code.constant_bytes == len(apart.get_graph_json())
    assert lib.code.constant_bytes > apart.code.constant_bytes + 4 * 5 * 96
    params = apart.get_params()
    assert params.keys() == lib.get_params().keys()
    held = {n: v.numpy() for n, v in params.items()}
    rows = "".join([f'    {{"{n}", 0, {v.nbytes}}},\n' for n, v in held.items()])
    mine = f"const smelt_graph_param tvmgen_default_params[] = {{\n{rows}}};\n"
    (tmp_path / "mine.c").write_text(f'#include "net.h"\n{mine}')
    found = ctypes.CDLL(str(compiled(apart.code, tmp_path, "smelt_graph.c", "mine.c")))
    found.smelt_graph_error.restype = ctypes.c_char_p
    graph, _held = opened(found, apart.code)
    for n, v in {"x": image, **held}.items():
        data = ctypes.c_void_p(v.ctypes.data)
        assert found.smelt_graph_set(graph, n.encode(), data, v.nbytes) == 0
    assert found.smelt_graph_run(graph) == 0
    y = np.zeros_like(wanted[0])
    assert found.smelt_graph_get_output(graph, 0, ctypes.c_void_p(y.ctypes.data), y.nbytes) == 0
    close([y], wanted[:1])
    with pytest.raises(MicroError, match=r"defines no tvmgen_default_params; legal: link-params"):
        apart.code.net_files()


@pytest.mark.parametrize("template", ["host", "cmake", "qemu"])
def test_projects(template: str, lib: Any, image: Array, wanted: list[Array],
                  tmp_path: Path) -> None:  # fmt: skip
    """Through the Model Library Format."""
    need({"qemu": BOARDS["mps2-an386"]}.get(template, BOARDS["host"]))
    if template == "cmake" and not shutil.which("cmake"):
        pytest.skip("cmake is missing")
    path = export_model_library_format(lib, tmp_path / "model.tar")
    code = read_model_library_format(path)
    assert code == lib.code
    assert load_param_dict(code.parameters).keys() == lib.get_params().keys()
    with tarfile.open(path) as tar:
        assert {"executor-config/graph/default.graph", "runtime/smelt_graph.c"} <= {*tar.getnames()}
    project = generate_project_from_mlf(template, tmp_path / "project", path)
    project.build()
    if template == "cmake":
        return
    project.flash()
    with Session(project.transport()) as session:
        close(session.run(image), wanted)
        assert len(session.steps()) == len(code.kernels)


FORMS = [
    (Executor("aot", {"unpacked-api": u, "interface-api": i}), Runtime(r))
    for u, i, r in product((False, True), ("packed", "c"), ("cpp", "crt"))
] + [(Executor(e, {"link-params": p}), Runtime(r))
     for e, p, r in product(("graph", "aot"), (False, True), ("cpp", "crt"))]  # fmt: skip


@pytest.mark.parametrize(("executor", "runtime"), FORMS, ids=str)
def test_forms(executor: Executor, runtime: Runtime) -> None:
    """Which are taken: "cpp" calls packed functions, "crt" these or plain ones."""
    x = relay.var("x", shape=(1, 8), dtype="float32")
    mod = smelt.IRModule.from_expr(relay.nn.relu(x))
    unpacked, interface = (
        executor.get("unpacked-api", False),
        executor.get("interface-api", "packed"),
    )
    if (interface == "c" and not unpacked) or (runtime.name == "cpp" and unpacked):
        with pytest.raises(CompileError, match=f"does not fit Runtime\\('{runtime.name}'\\)"):
            relay.build(mod, "c", executor=executor, runtime=runtime)
        return
    made: Any = relay.build(mod, "c", executor=executor, runtime=runtime)
    source = made.get_source()
    is_graph = (executor.name, runtime.name) == ("graph", "crt")
    assert ("smelt_graph_open" in source) == is_graph
    assert ("_run_packed" in source) == (interface == "packed")
    assert (made.get_executor_config() is not None) == is_graph
    graph, module, params = made
    assert (graph, module, params) == (made.get_executor_config(), made.get_lib(), {})
    if not is_graph:
        with pytest.raises(CompileError, match="the order of the kernels is compiled code"):
            made.get_graph_json()


def test_its_code_is_small(tmp_path: Path) -> None:
    """On a Cortex-M4 with -Os, and without a heap."""
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is missing: make setup-edge")
    command = [*cross_compiler(BOARDS["mps2-an386"], wanted="gcc"), *WARNINGS, "-Os", "-c"]
    source = str(NATIVE / "smelt_graph.c")
    subprocess.run([*command, source, "-o", "graph.o"], cwd=tmp_path, check=True)
    said = {}
    for tool in ("size", "nm"):
        done = subprocess.run([f"arm-none-eabi-{tool}", "graph.o"], cwd=tmp_path, text=True,
                              capture_output=True, check=True)  # fmt: skip
        said[tool] = done.stdout
    assert int(said["size"].splitlines()[1].split()[0]) < 5000
    assert {*re.findall(r" U (\w+)", said["nm"])} <= {"memcpy", "memset"}
