"""Whole models beside TFLite's kernels: small ones written here, and trained ones where they are.

Trained models are looked for in the folder that SMELT_MODELS names, or in build/models.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tflite

import smelt
from smelt import relax, relay
from smelt.contrib import graph_executor
from smelt.frontend.tflite import from_tflite
from smelt.relax.interpret import interpret
from tests.tflite.build import Array, Oracle, Spec, Step, const, model

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("SMELT_MODELS", ROOT / "build" / "models"))
TRAINED = sorted(FOLDER.glob("**/*.tflite"))
HYBRID = 5e-3
"""Floats quantized between layers: one that is off by its last bit may go to the next step."""


def inputs(details: dict[str, object], seed: int) -> Array:
    """Random numbers, or a ramp, a constant, an end of the range."""
    r, shape = np.random.default_rng(seed), tuple(details["shape"])  # type: ignore[arg-type, var-annotated]
    count = int(np.prod(shape))
    if details["dtype"] is np.float32:
        ways = [r.normal(size=shape), np.linspace(-1, 1, count).reshape(shape), np.zeros(shape)]
        return np.asarray(ways[seed % 5 if seed % 5 < 3 else 0], np.float32)
    ways = [r.integers(-128, 128, shape), np.resize(np.arange(-128, 128), shape),
            np.full(shape, -128), np.full(shape, 127)]  # fmt: skip
    return np.asarray(ways[seed % 6 if seed % 6 < 4 else 0], np.int8)


def is_hybrid(path: Path) -> bool:
    """Whether a model has weights of 8 bits between floats."""
    read = smelt.frontend.tflite.load(path)
    kinds = {t.dtype for t in read.tensors.values()}
    return read.graph.inputs[0].dtype == "float32" and "int8" in kinds


@pytest.mark.skipif(not TRAINED, reason=f"no trained models in {FOLDER} (SMELT_MODELS)")
@pytest.mark.parametrize("path", TRAINED, ids=lambda p: p.stem)
def test_a_trained_model_is_tflites(path: Path) -> None:
    oracle, exe = Oracle(path.read_bytes()), smelt.compile(path, threads=1)
    tolerance = HYBRID if is_hybrid(path) else 1e-5
    for seed in range(20):
        x = inputs(oracle.it.get_input_details()[0], seed)
        (expected,), found = oracle(x), np.asarray(exe(x))
        if found.dtype == np.float32:
            assert np.max(np.abs(found - expected)) <= tolerance * np.max(np.abs(expected))
        else:
            np.testing.assert_array_equal(found, expected)


def small(seed: int) -> bytes:
    """Convolutions with a way around them, a mean, a product and softmax, of int8."""
    r = np.random.default_rng(seed)

    def weights(*shape: int, axis: int) -> Spec:
        scales = r.uniform(0.005, 0.02, shape[axis]).astype("float32")
        return const(r.integers(-127, 128, shape), "int8", scale=scales.tolist(),
                     zero=[0] * shape[axis], axis=axis)  # fmt: skip

    def bias(count: int) -> Spec:
        return const(r.integers(-500, 500, count), "int32")

    def image(scale: float, zero: int) -> Spec:
        return Spec((1, 8, 8, 4), "int8", scale, zero)

    tensors = [
        image(0.05, 3), weights(4, 3, 3, 4, axis=0), bias(4), image(0.1, -128),
        weights(1, 3, 3, 4, axis=3), bias(4), image(0.08, -5), image(0.12, 7),
        const([1, 2], "int32"), Spec((1, 4), "int8", 0.1, 0), weights(5, 4, axis=0), bias(5),
        Spec((1, 5), "int8", 0.2, 1), Spec((1, 5), "int8", 1 / 256, -128),
    ]  # fmt: skip
    once = {"StrideH": 1, "StrideW": 1}
    steps = [
        Step("CONV_2D", [0, 1, 2], [3], {**once, "FusedActivationFunction": 1}, "Conv2DOptions",
             version=3),
        Step("DEPTHWISE_CONV_2D", [3, 4, 5], [6], {**once, "DepthMultiplier": 1},
             "DepthwiseConv2DOptions", version=3),
        Step("ADD", [0, 6], [7], {}, "AddOptions", version=2),
        Step("MEAN", [7, 8], [9], {}, "ReducerOptions", version=2),
        Step("FULLY_CONNECTED", [9, 10, 11], [12], {}, "FullyConnectedOptions", version=4),
        Step("SOFTMAX", [12], [13], {"Beta": 1.0}, "SoftmaxOptions", version=2),
    ]  # fmt: skip
    return model(tensors, steps, [0], [13])


@pytest.mark.parametrize("seed", range(4))
def test_a_small_model_is_tflites(seed: int) -> None:
    content = small(seed)
    oracle, mod, exe = Oracle(content), from_tflite(content), smelt.compile(content, threads=1)
    for k in range(5):
        x = np.random.default_rng(k).integers(-128, 128, (1, 8, 8, 4)).astype("int8")
        (expected,) = oracle(x)
        np.testing.assert_array_equal(interpret(mod["main"], x)[0], expected)
        np.testing.assert_array_equal(np.asarray(exe(x)), expected)


def test_convolutions_are_chained_without_transposes() -> None:
    text = from_tflite(small(0)).script()
    assert text.count("R.transpose(") == 2  # of the model's input, which two operators read


def test_shapes_replace_those_of_the_file() -> None:
    content = small(1)
    exe = smelt.compile(content, shapes={"t0": ("n", 8, 8, 4)}, threads=1)
    x = np.random.default_rng(0).integers(-128, 128, (3, 8, 8, 4)).astype("int8")
    oracle = Oracle(content)
    expected = np.concatenate([oracle(x[k : k + 1])[0] for k in range(3)])
    np.testing.assert_array_equal(np.asarray(exe(x)), expected)
    assert [i.shape for i in exe.inputs] == [("n", 8, 8, 4)]


def test_a_signatures_names_are_names_of_inputs() -> None:
    tensors = [Spec((1, 3), name="serving_default_x:0"), Spec((1, 3))]
    content = model(tensors, [Step("ABS", [0], [1])], [0], [1], signed={"x": 0})
    exe = smelt.compile(content, shapes={"x": ("n", 3)})
    assert exe.inputs[0].name == "serving_default_x:0"
    assert np.asarray(exe(-np.ones((2, 3), np.float32))).tolist() == [[1.0] * 3] * 2


def test_text_of_a_model_reads_back() -> None:
    text = from_tflite(small(2)).script()
    assert 'rounding="twice"' in text
    assert smelt.script.parse(text, constants="zeros").script() == text


def test_places_that_the_run_finds() -> None:
    content = model([Spec((2, 3), "bool"), Spec((1, 2), "int64")],
                    [Step("WHERE", [0], [1], {}, "WhereOptions")], [0], [1])  # fmt: skip
    x = np.array([[1, 0, 1], [0, 1, 0]], bool)
    found = np.asarray(smelt.compile(content)(x))
    np.testing.assert_array_equal(found, Oracle(content)(x)[0])


def test_operators_of_ones_own() -> None:
    tensors = [Spec((2, 3)), Spec((2, 3))]
    content = model(tensors, [Step("Twice", [0], [1], custom=b"")], [0], [1])

    def twice(g, x):  # type: ignore[no-untyped-def]
        return g.call("add", x, x)

    x = np.ones((2, 3), np.float32)
    found = smelt.compile(content, operators={"custom.Twice": twice})(x)
    assert np.asarray(found).tolist() == [[2.0] * 3] * 2


def test_a_path_and_bytes_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "without_ending"
    path.write_bytes(small(0))
    text = from_tflite(small(0)).script()
    assert from_tflite(path).script() == text.replace('"main"}', '"without_ending"}')
    assert smelt.compile(path).inputs[0].name == "t0"


def test_the_classic_names() -> None:
    content = small(3)
    x = np.random.default_rng(3).integers(-128, 128, (1, 8, 8, 4)).astype("int8")
    (expected,) = Oracle(content)(x)
    mod, params = relay.frontend.from_tflite(content, {"t0": (1, 8, 8, 4)}, {"t0": "int8"})
    assert params == {}
    np.testing.assert_array_equal(np.asarray(smelt.compile(mod, threads=1)(x)), expected)
    lib = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](smelt.cpu()))
    lib.run(t0=x)
    np.testing.assert_array_equal(lib.get_output(0).numpy(), expected)
    same = relax.frontend.tflite.from_tflite(tflite.Model.GetRootAs(content, 0))
    assert same.script() == from_tflite(content).script()
