"""GraphModule: setting, running, getting."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from smelt import relay
from smelt.cli.resnet import resnet18
from smelt.contrib.graph_executor import GraphModule, create
from smelt.ir.errors import SmeltError
from smelt.runtime import InputError, LoadError, cpu, empty

from .support import Array, close, says


@pytest.fixture
def module(lib: relay.GraphExecutorFactoryModule) -> GraphModule:
    return GraphModule(lib["default"](cpu(0)))


def test_inputs_by_name_number_and_keyword(
    module: GraphModule, image: Array, expected: Array
) -> None:
    ways: list[Callable[[], None]] = [
        lambda: module.set_input("input", image),
        lambda: module.set_input(0, image),
        lambda: module.set_input(input=image),
        lambda: module.set_input("input", np.asfortranarray(image)),
    ]
    for way in ways:
        module.set_input("input", np.zeros_like(image))
        way()
        module.run()
        close(module.get_output(0), expected)
    module["set_input"]("input", image)
    module["run"]()
    close(module["get_output"]("output"), expected)


def test_torch_tensors(module: GraphModule, image: Array, expected: Array) -> None:
    torch = pytest.importorskip("torch")
    module.run(input=torch.from_numpy(image))
    close(module.get_output(0), expected)


def test_what_there_is(module: GraphModule) -> None:
    assert (module.get_num_inputs(), module.get_num_outputs()) == (1, 1)
    assert module.get_input_info() == ({"input": (1, 3, 32, 32)}, {"input": "float32"})
    assert (module.get_input_index("input"), module.get_output_index("output")) == (0, 0)


def test_the_buffer_of_an_input(module: GraphModule, image: Array, expected: Array) -> None:
    module.get_input("input").copyfrom(image)
    module.run()
    close(module.get_output(0), expected)
    out = empty((1, 3, 32, 32))
    assert np.array_equal(module.get_input(0, out).numpy(), image)


def test_a_run_allocates_no_new_output(module: GraphModule, image: Array) -> None:
    module.run(input=image)
    first = module.get_output(0)
    kept = module.get_output(0, empty(first.shape))
    module.run(input=2 * image)
    assert module.get_output(0) is first
    assert not np.array_equal(kept.numpy(), first.numpy())


def test_no_copies(module: GraphModule, image: Array, expected: Array) -> None:
    mine, result = image.copy(), np.zeros(expected.shape, "float32")
    module.set_input_zero_copy("input", mine)
    module.set_output_zero_copy(0, result)
    module.run()
    close(result, expected)
    close(module.get_output(0), expected)
    mine[...] = 0
    module.run()
    assert np.abs(result - expected).max() > 0
    module.set_input("input", image)  # into a buffer of the module again
    module.run()
    close(result, expected)
    assert not mine.any()


def test_two_modules_do_not_meet(lib: Any, image: Array, expected: Array) -> None:
    a, b = (GraphModule(lib["default"](cpu(0))) for _ in range(2))
    a.run(input=image)
    b.run(input=np.zeros_like(image))
    close(a.get_output(0), expected)
    c = create(lib.get_graph_json(), lib.lib, cpu(0))
    c.run(input=image)
    close(c.get_output(0), expected)


def test_shapes_may_change_where_they_are_open() -> None:
    mod, _ = relay.frontend.from_onnx(resnet18(batch="n", width=8, image=32, classes=10))
    module = GraphModule(relay.build(mod, mod_name="net")["default"](cpu(0)))
    with pytest.raises(InputError) as caught:
        module.get_input(0)
    says(caught, "net: input 'input' has no fixed size; set it first")
    x = np.random.default_rng(1).standard_normal((3, 3, 32, 32)).astype("float32")
    module.run(input=x)
    three = module.get_output(0).numpy().copy()
    module.run(input=x[1:2])
    close(module.get_output(0), three[1:2])


def test_benchmarks(module: GraphModule, image: Array) -> None:
    module.set_input("input", image)
    ways: list[dict[str, Any]] = [{}, {"end_to_end": True}, {"min_repeat_ms": 1}]
    for options in ways:
        result = module.benchmark(cpu(0), repeat=3, number=2, **options)
        assert len(result.results) == 3
        assert 0 < result.min <= result.median <= result.max < 1
        assert result.min <= result.mean <= result.max
        assert result.std >= 0
        assert "median (ms)" in str(result)


def test_parameters_are_shared(model: Any, image: Array, expected: Array) -> None:
    mod, params = relay.frontend.from_onnx(model, freeze_params=False)
    lib = relay.build(mod)
    data = relay.save_param_dict(params)
    a, b = (GraphModule(lib["default"](cpu(0))) for _ in range(2))
    a.load_params(data)
    b.share_params(a, data)
    assert b.get_input("fc.weight") is a.get_input("fc.weight")
    b.run(input=image)
    close(b.get_output(0), expected)


def test_parameter_files() -> None:
    given: dict[str, Any] = {
        "a": np.arange(6, dtype="float32").reshape(2, 3),
        "é": np.int8(3),
        "t": np.array(True),
    }
    data = bytes(relay.save_param_dict(given))
    found = relay.load_param_dict(data)
    assert list(found) == list(given)
    for name, value in given.items():
        assert found[name].dtype == np.asarray(value).dtype
        assert np.array_equal(found[name].numpy(), np.asarray(value))
    for cut in range(len(data)):
        with pytest.raises(LoadError):
            relay.load_param_dict(data[:cut])
    with pytest.raises(LoadError) as caught:
        relay.load_param_dict(b"12345678" + data[8:])
    says(caught, "load_param_dict: these are no parameters: the first bytes are wrong")


ERRORS: list[tuple[Callable[[GraphModule], Any], str]] = [
    (
        lambda m: m.set_input("inputs", np.zeros(3)),
        "net: no input 'inputs'; nearest: input\n  inputs: input float32[1, 3, 32, 32]",
    ),
    (lambda m: m.set_input(1, 0), "net: no input 1\n  inputs: input float32[1, 3, 32, 32]"),
    (
        lambda m: m.set_input("input", np.zeros((1, 3, 32, 31), "float32")),
        "net: input 'input': shape [1, 3, 32, 31] given\n  expected: input float32[1, 3, 32, 32]",
    ),
    (
        lambda m: m.set_input("input", np.zeros((1, 3, 32, 32))),
        "net: input 'input': dtype float64 given, float32 needed; x.astype('float32')\n"
        "  expected: input float32[1, 3, 32, 32]",
    ),
    (lambda m: m.run(), "net: run: these inputs were never set: input float32[1, 3, 32, 32]"),
    (lambda m: m.get_output(0), "net: get_output before run()"),
    (lambda m: m.get_output(2), "net: no output 2\n  outputs: output float32[1, 10]"),
    (
        lambda m: m.benchmark(cpu(0), func_name="main"),
        "benchmark: func_name='main'; only 'run' can be timed",
    ),
    (
        lambda m: m.load_params(relay.save_param_dict({"fc.weight": np.zeros(3)})),
        "net: no input 'fc.weight'\n  inputs: input float32[1, 3, 32, 32]\n"
        "  weights that relay.build bound are in the library and cannot be replaced",
    ),
    (lambda m: m["walk"], "net: an executor has no function 'walk'"),
]


@pytest.mark.parametrize(("fn", "text"), ERRORS, ids=[t[:40] for _, t in ERRORS])
def test_errors(fn: Callable[[GraphModule], Any], text: str, module: GraphModule) -> None:
    with pytest.raises(SmeltError) as caught:
        fn(module)
    says(caught, text)


def test_results_inside_are_not_kept(module: GraphModule, image: Array, expected: Array) -> None:
    module.run(input=image)
    close(module.debug_get_output("output"), expected)
    name = module.module.metadata["kernels"][0]["name"]
    for key in (name, 0):
        with pytest.raises(InputError) as caught:
            module.debug_get_output(key)
        says(
            caught,
            f"net: the result of kernel {name!r} is not kept: its memory is used again\n"
            '  smelt.contrib.debug_executor, on lib["debug_create"]("default", device), keeps all '
            "results",
        )
    with pytest.raises(InputError) as caught:
        module.debug_get_output(name + "x")
    assert str(caught.value).startswith(f"net: no kernel '{name}x'; nearest: ")


def test_only_compiled_models_are_taken(lib: relay.GraphExecutorFactoryModule) -> None:
    with pytest.raises(InputError) as caught:
        GraphModule(lib)  # type: ignore[arg-type]
    says(caught, 'GraphModule takes lib["default"](device), not a GraphExecutorFactoryModule')
