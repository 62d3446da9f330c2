"""Whole networks, read and written: onnxruntime computes the same as before."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.frontend.source import import_model
from smelt.relax.transform.canonicalize import simplify_graph
from tests.frontend.models import reference
from tests.models import control_nets, detector
from tests.models.test_networks import NETWORKS, image
from tests.models.test_real import MODELS as REAL
from tests.models.test_real import SEQUENCES

from .written import agree, both, checked, operators, runtime

ROOT = Path(__file__).resolve().parents[2]
MODELS = Path(os.environ.get("SMELT_MODELS", ROOT / "build" / "models"))
ZOO = ROOT / "build" / "zoo"
FLOATS = sorted(MODELS.rglob("*_f32.tflite"))


ALL = {**NETWORKS, **REAL}
CONTROL = ("branch", "tiny_if", "nms_tail", "post_processing")


@pytest.mark.parametrize("name", ALL)
def test_a_network_computes_the_same(name: str) -> None:
    build, feeds = ALL[name]
    model, given = build(2), feeds(2)
    for made in both(model):
        agree(runtime(made)(given), reference(model, given))


@pytest.mark.parametrize("name", ALL)
def test_a_symbolic_batch_stays_symbolic(name: str) -> None:
    build, feeds = ALL[name]
    model = build("n")
    for made in both(model):
        assert "n" in [i.type.tensor_type.shape.dim[0].dim_param for i in made.graph.input]
        run = runtime(made)
        for n in (1, 3):
            agree(run(feeds(n)), reference(model, feeds(n)))


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_symbolic_sequence_stays_symbolic(name: str) -> None:
    model, feeds = SEQUENCES[name]
    for made in both(model):
        run = runtime(made)
        for n, tokens in ((1, 2), (2, 19)):
            agree(run(feeds(n, tokens)), reference(model, feeds(n, tokens)))


@pytest.mark.parametrize("name", CONTROL)
def test_a_network_that_decides_computes_the_same(name: str) -> None:
    model, feeds = getattr(control_nets, name)(), getattr(control_nets, f"{name}_inputs")()
    for made in both(model):
        run = runtime(made)
        for given in feeds:
            agree(run(given), reference(model, given))


def test_a_detector_gives_the_boxes_that_are_left() -> None:
    model = detector.yolo("n", suppresses=True, least=0.3)
    for made in both(model):
        run = runtime(made)
        for n in (1, 3):
            given = image("images", 64)(n)
            agree(run(given), reference(model, given))


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 20, 24])
@pytest.mark.parametrize("name", ["mobilenet", "inception", "llama", "bert", "yolo", "unet"])
def test_a_network_of_another_operator_set(name: str, opset: int) -> None:
    build, feeds = ALL[name]
    model, given = build("n"), feeds(2)
    for made in both(model, opset):
        assert made.opset_import[0].version == opset
        agree(runtime(made)(given), reference(model, given))


def test_the_nodes_are_those_of_the_model() -> None:
    for name in ("squeezenet", "mobilenet", "resnet18"):
        model = NETWORKS[name][0](1)
        made = checked(from_onnx(model))
        for op in ("Conv", "Relu", "MaxPool", "Concat", "Gemm"):
            assert operators(made).count(op) == operators(model).count(op), (name, op)


@pytest.mark.skipif(not FLOATS, reason=f"no TFLite models in {MODELS} (SMELT_MODELS)")
@pytest.mark.parametrize("path", FLOATS, ids=lambda p: p.stem)
def test_a_tflite_model_computes_the_same(path: Path, tmp_path: Path) -> None:
    mod = import_model(path)
    exe = smelt.compile(mod, options=smelt.Options(cache_dir=str(tmp_path)))
    for form in (mod, simplify_graph(mod)):
        made = checked(form)
        (given,) = made.graph.input
        shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        agree(runtime(made)({given.name: x}), [exe(x).numpy()])


@pytest.mark.slow
@pytest.mark.skipif(not ZOO.exists(), reason=f"no models in {ZOO}")
@pytest.mark.parametrize("name", ["mobilenet_v2", "dscnn_kws", "squeezenet1_1", "llama_s_64"])
def test_a_large_model_computes_the_same(name: str) -> None:
    model = onnx.load(ZOO / f"{name}.onnx")
    random = np.random.default_rng(0)
    feeds = {}
    for i in model.graph.input:
        kind, shape = i.type.tensor_type, [d.dim_value for d in i.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        whole = np.issubdtype(dtype, np.integer)
        x = random.integers(0, 50, shape) if whole else random.standard_normal(shape)
        feeds[i.name] = x.astype(dtype)
    for made in both(model):
        agree(runtime(made)(feeds), runtime(model)(feeds))
