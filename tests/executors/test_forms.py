"""Graph, debug and AOT: one model, one result."""

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relay
from smelt.contrib.debug_executor import GraphModuleDebug
from smelt.contrib.graph_executor import GraphModule, create
from smelt.ir.errors import CompileError
from smelt.relay.backend import Executor, Runtime
from smelt.relay.factory import AOTExecutorFactoryModule
from smelt.runtime import InputError, cpu, load_module
from smelt.runtime.executor import AotModule
from tests.models.light import feeds_of, light

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_the_forms_agree(name: str, tmp_path: Path) -> None:
    model = light(name)
    mod, params = relay.frontend.from_onnx(model)
    feeds = feeds_of(model)
    graph = relay.build(mod, params=params)
    aot = relay.build(mod, params=params, executor=Executor("aot"))
    debug = GraphModuleDebug(
        graph["debug_create"]("default", cpu(0)), [cpu(0)], graph.get_graph_json()
    )
    aot.export_library(tmp_path / "m.so")
    modules: dict[str, AotModule] = {
        "graph": GraphModule(graph["default"](cpu(0))),
        "debug": debug,
        "aot": AotModule(aot["default"](cpu(0))),
        "loaded": AotModule(load_module(tmp_path / "m.so")["default"](cpu(0))),
    }
    results: dict[str, list[Array]] = {}
    for form, m in modules.items():
        for key, value in feeds.items():
            m.set_input(key, value)
        m.run()
        results[form] = [m.get_output(i).numpy().copy() for i in range(m.get_num_outputs())]
    want = [a.numpy() for a in _several(smelt.compile(model)(**feeds))]
    for form, found in results.items():
        for a, b in zip(found, want, strict=True):
            assert np.array_equal(a, b), form


def _several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def test_an_aot_model(mod: relay.IRModule, lib: Any, image: Array) -> None:
    made = relay.build(mod, executor=Executor("aot", {"link-params": True}), mod_name="net")
    assert isinstance(made, AOTExecutorFactoryModule)
    assert made.executor == Executor("aot", {"link-params": True})
    assert made.get_executor_config() is None
    assert made.function_metadata.keys() == lib.function_metadata.keys()
    none, module, params = made
    assert none is None
    assert module is made.get_lib()
    assert params.keys() == lib.get_params().keys()
    m = AotModule(made["default"](cpu(0)))
    assert (m.get_num_inputs(), m.get_num_outputs()) == (1, 1)
    assert (m.get_input_name(0), m.get_output_name(0)) == ("input", "output")
    assert m.get_input_info() == ({"input": (1, 3, 32, 32)}, {"input": "float32"})
    with pytest.raises(InputError, match="these inputs were never set"):
        m.run()
    m.set_input("input", image)
    m["run"]()
    g = GraphModule(lib["default"](cpu(0)))
    g.run(input=image)
    assert np.array_equal(m.get_output(0).numpy(), g.get_output(0).numpy())
    assert np.array_equal(m.get_input("input").numpy(), image)


CHOICES: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: (Executor("aot", {"unpacked-api": True}), Runtime("cpp")),
        "unpacked-api=True, interface-api='packed' does not fit Runtime('cpp')",
    ),
    (
        lambda: (Executor("aot", {"interface-api": "c"}), Runtime("cpp")),
        "unpacked-api=False, interface-api='c' does not fit Runtime('cpp')",
    ),
    (
        lambda: (Executor("aot", {"interface-api": "c"}), Runtime("crt")),
        "unpacked-api=False, interface-api='c' does not fit Runtime('crt')",
    ),
    (
        lambda: (Executor("aot", {"interface-api": "c", "unpacked-api": True}), Runtime("crt")),
        "Runtime('crt') runs C, and the target makes llvm code",
    ),
    (lambda: (Executor("graph"), Runtime("cpp", {"system-lib": True})), "system-lib=True: code is"),
    (
        lambda: Executor("aot", {"interface-api": "cpp"}),
        "Executor('aot'): interface-api is 'cpp'; legal: 'packed', 'c'",
    ),
    (
        lambda: Executor("aot", {"unpacked-api": 1}),
        "Executor('aot'): unpacked-api is 1; legal: True, False",
    ),
    (
        lambda: Executor("aot", {"workspace-byte-alignment": 24}),
        "workspace-byte-alignment is 24; legal: powers of two up to 64, in bytes",
    ),
    (
        lambda: Executor("graph", {"unpacked-api": True}),
        "Executor('graph') has no option 'unpacked-api'; options: link-params",
    ),
    (lambda: Runtime("crt", {"system-lib": "yes"}), "system-lib is 'yes'; legal: True, False"),
]


@pytest.mark.parametrize(("choice", "text"), CHOICES, ids=[t[:50] for _, t in CHOICES])
def test_what_does_not_fit(choice: Callable[[], Any], text: str, mod: relay.IRModule) -> None:
    def build() -> None:
        executor, runtime = choice()
        relay.build(mod, executor=executor, runtime=runtime)

    with pytest.raises(CompileError) as caught:
        build()
    assert text in str(caught.value)


def test_options_are_read() -> None:
    e = Executor("aot", {"interface-api": "packed"})
    assert e["interface-api"] == "packed"
    assert e.get("unpacked-api", False) is False
    assert e != Executor("aot")
    assert hash(e) == hash(Executor("aot", {"interface-api": "packed"}))
    assert Runtime("cpp") == Runtime("cpp", {})


def test_create_wants_the_models_own_graph(lib: Any, image: Array) -> None:
    graph, module, _ = lib
    m = create(graph, module, cpu(0))
    m.run(input=image)
    assert m.get_output(0).shape == (1, 10)
    with pytest.raises(InputError, match="net: the graph JSON is another model's"):
        create('{"nodes": []}', module, cpu(0))
    for text in ("no graph", "[]", '{"nodes": [3]}'):
        with pytest.raises(InputError, match="net: graph_json_str is no graph in JSON"):
            create(text, module, cpu(0))


# ------------------------------------------------------------------------------- the module face


def test_time_evaluators(lib: Any, image: Array, tmp_path: Path) -> None:
    m = GraphModule(lib["default"](cpu(0)))
    with pytest.raises(InputError, match="never set"):
        m.module.time_evaluator("run", cpu(0))()
    m.set_input("input", image)
    timer = m.module.time_evaluator("run", cpu(0), number=2, repeat=3, min_repeat_ms=1)
    result = timer()
    assert len(result.results) == 3
    assert 0 < result.min <= result.mean <= result.max
    assert "mean (ms)" in str(result)
    lib.export_library(tmp_path / "m.so")
    loaded = load_module(tmp_path / "m.so")
    assert len(loaded.time_evaluator("run", cpu(0), 1, 2)(image).results) == 2
    for options, text in (
        ({"number": 0}, "time_evaluator: number is 0; legal: whole numbers from 1"),
        ({"f_preproc": "flush"}, "time_evaluator: f_preproc='flush'"),
        ({"func_name": "walk"}, "time_evaluator: no function 'walk'; functions: run"),
        ({"repeats_to_cooldown": 0}, "repeats_to_cooldown is 0; legal: whole numbers from 1"),
        ({"min_repeat_ms": -1}, "min_repeat_ms is -1; legal: numbers from 0"),
        ({"cooldown_interval_ms": "x"}, "cooldown_interval_ms is 'x'; legal: numbers from 0"),
        ({"cache_flush_bytes": 0.5}, "cache_flush_bytes is 0.5; legal: whole numbers from 0"),
    ):
        with pytest.raises(InputError, match=text):
            loaded.time_evaluator(**{"func_name": "run", **options})(image)


def test_a_module_of_an_executor_has_its_functions(lib: Any, image: Array) -> None:
    m = GraphModule(lib["default"](cpu(0)))
    m.module["set_input"]("input", image)
    m.module["run"]()
    first = m.module["get_output"](0).numpy().copy()
    other = GraphModule(lib["default"](cpu(0)))
    other.run(input=0 * image)
    m.module["run"]()
    assert np.array_equal(m.get_output(0).numpy(), first)
    with pytest.raises(InputError, match="net: no function '_bind'; functions: default, net"):
        m.module["_bind"]
    with pytest.raises(InputError, match="net: no function 'run'"):
        lib.lib["run"]


def test_buffers_go_with_their_module(lib: Any, image: Array) -> None:
    m = GraphModule(lib["default"](cpu(0)))
    m.run(input=image)
    module, alive = m.module, weakref.ref(m)
    del m
    assert alive() is None
    with pytest.raises(InputError, match="net: no function 'run'"):
        module["run"]


def test_what_a_loaded_module_says(lib: Any, tmp_path: Path) -> None:
    lib.export_library(tmp_path / "m.so")
    loaded = load_module(tmp_path / "m.so", "so")
    assert loaded.entry_name == "default"
    assert loaded.imported_modules == []
    assert loaded.get_function("default")(cpu(0)) is loaded
    assert '"name": "net"' in loaded.get_source()
    assert "net_open" in loaded.get_source("h")
    with pytest.raises(InputError, match="net: no source in the format 'll'; formats: json, h"):
        loaded.get_source("ll")


def test_arrays_have_their_classic_names() -> None:
    a = smelt.nd.array(np.arange(3, dtype="int64"), cpu(0))
    assert (a.shape, str(a.dtype), a.device) == ((3,), "int64", cpu(0))
    assert a.dtype == "int64"
    b = smelt.nd.empty((3,), "int64", cpu(0))
    assert a.copyto(b) is b
    assert b.asnumpy().tolist() == [0, 1, 2]
    c = a.copyto(cpu(0))
    assert isinstance(c, smelt.nd.NDArray)
    c.copyfrom(np.array([4, 5, 6]))
    assert (c.numpy().tolist(), a.numpy().tolist()) == ([4, 5, 6], [0, 1, 2])
    assert smelt.runtime.enabled("llvm -mcpu=native")
    assert not smelt.runtime.enabled("cuda")
