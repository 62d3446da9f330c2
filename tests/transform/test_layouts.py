"""The orders in memory that a graph's results get, and what they cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import smelt
from smelt.artifact.graph import plan_graph
from smelt.frontend.source import import_model
from smelt.pipeline import GRAPH, checked_context, run_graph
from smelt.relax.nodes import Call, GlobalVar, values
from smelt.relax.transform.choose_layouts import price
from smelt.relax.verify import verify
from smelt.relax.views import VIEW_NAMES
from smelt.script import parse
from smelt.topi.registry import Op
from tests.frontend.models import reference
from tests.models.net import Net
from tests.models.test_networks import NETWORKS


def window(op: str, shape: list[int], *after: tuple[str, dict[str, Any]], **attrs: Any) -> Any:
    """A model: relu, a window, and further operators of one operand."""
    weights = []
    inputs = ["r"]
    if op == "Conv":
        filters = (shape[1], shape[1] // attrs.get("group", 1), *attrs["kernel_shape"])
        data = np.random.default_rng(0).standard_normal(filters).astype(np.float32)
        weights = [numpy_helper.from_array(data, "w")]
        inputs.append("w")
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node(op, inputs, ["v0"], **attrs)]
    for n, (name, given) in enumerate(after):
        nodes.append(helper.make_node(name, [f"v{n}"], [f"v{n + 1}"], **given))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info(f"v{len(after)}", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


CONV: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
PIXEL: dict[str, Any] = {"kernel_shape": [1, 1]}
POOL: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
FLAT: tuple[str, dict[str, Any]] = ("Flatten", {})
CASES: list[tuple[str, onnx.ModelProto, int]] = [
    ("pixels write rows", window("Conv", [1, 8, 28, 28], **PIXEL), 0),
    ("larger windows are copied", window("Conv", [1, 8, 28, 28], **CONV), 1),
    ("narrow ones are, too", window("Conv", [1, 8, 14, 14], **CONV), 1),
    ("in tiles, too", window("Conv", [1, 16, 28, 28], **CONV), 1),
    ("one with steps is copied", window("Conv", [1, 8, 56, 56], **CONV, strides=[2, 2]), 1),
    ("so it is before a view", window("Conv", [1, 8, 56, 56], FLAT, **CONV, strides=[2, 2]), 1),
    ("grouped ones are copied", window("Conv", [1, 8, 28, 28], **CONV, group=2), 1),
    ("of single pixels what stays is copied", window("Conv", [1, 32, 28, 28], **PIXEL,
        strides=[2, 2], group=4), 0),
    ("but those of one pixel write rows", window("Conv", [1, 8, 28, 28], **PIXEL, group=2), 0),
    ("so do narrow images of these", window("Conv", [1, 32, 10, 10], **PIXEL), 0),
    ("very small ones are copied", window("Conv", [1, 32, 7, 7], **PIXEL), 1),
    ("pooling writes rows", window("MaxPool", [1, 8, 14, 14], **POOL), 0),
    ("pooling before a view too", window("MaxPool", [1, 8, 14, 14], FLAT, **POOL), 0),
    ("windows that share pixels are read side by side", window("MaxPool", [1, 8, 14, 14],
        kernel_shape=[3, 3], strides=[2, 2]), 0),
    ("means at edges are copied", window("Conv", [1, 8, 28, 28],
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}), **PIXEL), 2),
    ("a channel a row is a view", window("Conv", [1, 8, 28, 28],
        ("Transpose", {"perm": [0, 2, 3, 1]}), FLAT, **CONV), 0),
]  # fmt: skip


@pytest.mark.parametrize(("what", "model", "copies"), CASES, ids=[c[0] for c in CASES])
def test_the_cheaper_way_is_taken(what: str, model: onnx.ModelProto, copies: int) -> None:
    exe = smelt.compile(model)
    names = [k["name"] for k in exe.metadata["kernels"]]
    conv = next(n for n, name in enumerate(names) if "conv" in name or "pool" in name)
    assert len(names[conv + 1 :]) == copies, names
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(exe(x).numpy(), reference(model, {"x": x})[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("channels", "wanted"), [(8, ()), (16, ((0, 2, 3, 1),))])
def test_what_stands_before_tiles_writes_channels_last(channels: int, wanted: Any) -> None:
    """Elementwise work as such; a model's input is copied."""
    mod = run_graph(
        import_model(window("Conv", [1, channels, 28, 28], **CONV)), checked_context("a test")
    )
    first = next(v for v in values(mod["main"].body) if isinstance(v, Call) and v.callee == "relu")
    assert first.attrs.get("layout", ()) == wanted
    net = Net(1)
    bare = net.model(net.conv(net.input("x", [1, channels, 28, 28]), (channels, channels), 3))
    names = [k["name"] for k in smelt.compile(bare).metadata["kernels"]]
    assert names == [*["copy"] * bool(wanted), "fused_conv2d_add", "copy"]


def test_an_order_costs_nothing_where_the_kernel_writes_it_anyway() -> None:
    mod = run_graph(import_model(CASES[0][1]), checked_context("a test"), steps=GRAPH[:-1])
    conv = mod["conv2d"]
    rows, channels_last = (0, 1, 2, 3), (0, 2, 3, 1)
    assert price(conv, channels_last, channels_last) == 0
    assert 0 < price(conv, channels_last, rows) < 1


@pytest.mark.parametrize("name", NETWORKS)
def test_layouts_are_settled_and_can_be_read(name: str) -> None:
    """What is left in "main" is kernels and views; memory is planned without another decision."""
    mod = run_graph(import_model(NETWORKS[name][0](2)), checked_context("a test"))
    verify(mod)
    main = mod["main"]
    for v in values(main.body):
        if isinstance(v, Call):
            assert isinstance(v.op, GlobalVar) or (isinstance(v.op, Op) and v.callee in VIEW_NAMES)
    plan = plan_graph(mod)
    assert [s.kind for s in plan.outputs] == ["output"] * len(main.results())
    assert len({id(s) for s in plan.outputs}) == len(plan.outputs)
    text = mod.script()
    assert str(parse(text, constants="zeros")) == text


def test_the_stage_shows_layouts(tmp_path: Any) -> None:
    model = CASES[1][1]
    assert "layout=((0, 2, 3, 1),)" in smelt.stage_text(model, "layout")
    assert "layout=" not in smelt.stage_text(model, "fused")
    smelt.compile(model, options=smelt.Options(dump_dir=tmp_path))
    (file,) = tmp_path.glob("*_choose_layouts.txt")
    assert "layout=((0, 2, 3, 1),)" in file.read_text()
