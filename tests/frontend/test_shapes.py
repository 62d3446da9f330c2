"""Shapes that ONNX computes with tensors: known at import, symbolic sizes included."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from smelt.frontend.onnx import from_onnx
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, values
from smelt.relax.printer import script

from .models import check, model, node, random

I64 = np.int64


def both(
    nodes: list[Any], shape: list[Any], constants: dict[str, Any], x: np.ndarray, **options: Any
) -> None:
    """The model with constant sizes, and with symbolic ones."""
    check(model(nodes, {"x": (x.shape, x.dtype)}, constants=constants, **options), {"x": x})
    check(model(nodes, {"x": (shape, x.dtype)}, constants=constants, **options), {"x": x})


def used(m: Any, shapes: Any = None) -> list[str]:
    """The operators of the imported model, in order."""
    f = from_onnx(m, shapes)["main"]
    return [v.callee for v in values(f.body) if isinstance(v, Call)]


FLATTEN = [
    node("Shape", ["x"], ["s"]),
    node("Gather", ["s", "zero"], ["b"], axis=0),
    node("Unsqueeze", ["b", "axis"], ["b1"]),
    node("Concat", ["b1", "rest"], ["t"], axis=0),
    node("Reshape", ["x", "t"]),
]
KNOWN = {"zero": np.array(0, I64), "axis": np.array([0], I64), "rest": np.array([-1], I64)}


def test_a_flatten_written_out() -> None:
    both(FLATTEN, ["n", 3, 4, 5], KNOWN, random(2, 3, 4, 5))
    assert used(model(FLATTEN, {"x": (["n", 3, 4, 5], "float32")}, constants=KNOWN)) == ["reshape"]


def test_a_remaining_extent_is_a_quotient() -> None:
    nodes = [node("Reshape", ["x", "t"])]
    for target in ([0, 0, 2, -1], [-1, 6], [0, -1], [3, 2, -1]):
        both(nodes, ["n", "s", 6], {"t": np.array(target, I64)}, random(4, 5, 6))


def test_heads_are_split_and_merged() -> None:
    nodes = [
        node("Shape", ["x"], ["b"], start=0, end=1),
        node("Shape", ["x"], ["s"], start=1, end=2),
        node("Concat", ["b", "s", "heads"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["r"]),
        node("Transpose", ["r"], ["h"], perm=[0, 2, 1, 3]),
        node("Concat", ["b", "minus", "width"], ["u"], axis=0),
        node("Reshape", ["h", "u"]),
    ]
    constants = {
        "heads": np.array([3, 4], I64),
        "minus": np.array([-1], I64),
        "width": np.array([4], I64),
    }
    both(nodes, ["batch", "seq", 12], constants, random(2, 5, 12))


def test_the_expand_of_the_torch_exporter() -> None:
    """Shape -> ConstantOfShape -> Mul by -1 -> Equal -> Where -> Expand."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Unsqueeze", ["n", "axis"], ["n1"]),
        node("Concat", ["n1", "tail"], ["want"], axis=0),
        node("Shape", ["want"], ["rank"]),
        node("ConstantOfShape", ["rank"], ["ones"], value=_tensor([1])),
        node("Mul", ["ones", "minus"], ["negative"]),
        node("Equal", ["want", "negative"], ["keep"]),
        node("Where", ["keep", "ones", "want"], ["shape"]),
        node("Expand", ["token", "shape"], ["e"]),
        node("Concat", ["e", "x"], ["y"], axis=1),
    ]
    constants = {
        **KNOWN,
        "tail": np.array([-1, -1], I64),
        "minus": np.array(-1, I64),
        "token": random(1, 1, 4),
    }
    both(nodes, ["batch", 3, 4], constants, random(2, 3, 4))


def _tensor(values: list[int]) -> Any:
    return numpy_helper.from_array(np.array(values, I64))


def test_positions_from_a_range() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["n"], axis=0),
        node("Range", ["zero", "n", "one"], ["p"]),
        node("Cast", ["p"], ["f"], to=1),
        node("Unsqueeze", ["f", "last"], ["c"]),
        node("Add", ["x", "c"]),
    ]
    constants = {"zero": np.array(0, I64), "one": np.array(1, I64), "last": np.array([1], I64)}
    both(nodes, ["batch", "seq", 4], constants, random(2, 5, 4))


def test_a_shape_used_as_data() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Cast", ["s"], ["f"], to=1),
        node("ReduceProd", ["f"], ["p"], keepdims=0),
        node("Sqrt", ["f"], ["r"]),
        node("Add", ["x", "r"], ["a"]),
        node("Div", ["a", "p"]),
    ]
    both(nodes, ["a", "b", 3], {}, random(2, 5, 3))


def test_half_of_a_symbolic_size() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["n"], axis=0),
        node("Div", ["n", "two"], ["h"]),
        node("Unsqueeze", ["h", "axis"], ["h1"]),
        node("Slice", ["x", "begin", "h1", "one1"], ["a"]),
        node("Slice", ["x", "h1", "far", "one1"], ["b"]),
        node("Concat", ["b", "a"], ["y"], axis=1),
    ]
    constants = {
        "one": np.array(1, I64),
        "two": np.array(2, I64),
        "axis": np.array([0], I64),
        "begin": np.array([0], I64),
        "one1": np.array([1], I64),
        "far": np.array([(1 << 63) - 1], I64),
    }
    both(nodes, ["n", "seq", 3], constants, random(2, 7, 3))


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        (0, -1, 1),
        (1, 1 << 40, 1),
        (-2, 1 << 40, 1),
        (2, 100, 2),
        (-1, -(1 << 62), -1),
        (5, 0, -2),
        (9, 3, 1),
        (-9, -(1 << 62), -1),
        (-8, -20, -2),
    ],
)
def test_slices_of_a_symbolic_size(start: int, end: int, step: int) -> None:
    nodes = [node("Slice", ["x", "b", "e", "a", "s"])]
    constants = {
        k: np.array([v], I64) for k, v in (("b", start), ("e", end), ("a", 0), ("s", step))
    }
    both(nodes, ["n", 2], constants, random(7, 2))


def test_resize_by_computed_sizes() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Slice", ["s", "two", "four", "zero"], ["hw"]),
        node("Cast", ["hw"], ["f"], to=1),
        node("Mul", ["f", "scale"], ["m"]),
        node("Floor", ["m"], ["fl"]),
        node("Cast", ["fl"], ["i"], to=7),
        node("Slice", ["s", "zero", "two", "zero"], ["nc"]),
        node("Concat", ["nc", "i"], ["sizes"], axis=0),
        node("Resize", ["x", "", "", "sizes"], mode="nearest"),
    ]
    constants = {"zero": np.array([0], I64), "two": np.array([2], I64), "four": np.array([4], I64)}
    for scale in (2.0, 0.5, 1.5):
        known = {**constants, "scale": np.array(scale, np.float32)}
        both(nodes, [1, 2, "h", 6], known, random(1, 2, 8, 6))


def test_a_resize_by_scales_keeps_its_symbol() -> None:
    nodes = [
        node(
            "Resize",
            ["x", "", "k"],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    ]
    both(nodes, ["n", 2, "h", "w"], {"k": np.array([1, 1, 2, 2], np.float32)}, random(1, 2, 3, 4))


def test_windows_on_symbolic_images() -> None:
    for pool in (
        node("MaxPool", ["x"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        node("AveragePool", ["x"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("MaxPool", ["x"], kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
    ):
        for rows in (7, 8):
            both([pool], ["n", 2, "h", "w"], {}, random(1, 2, rows, 9))


def test_split_of_a_symbolic_size() -> None:
    nodes = [
        node("Split", ["x"], ["a", "b"], axis=0, num_outputs=2),
        node("Concat", ["b", "a"], axis=0),
    ]
    both(nodes, ["n", 2], {}, random(6, 2))


def test_a_branch_on_a_known_condition() -> None:
    def branch(name: str, op: str) -> Any:
        out = helper.make_tensor_value_info(name, 1, None)
        return helper.make_graph([node(op, ["x"], [name])], name, [], [out])

    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Size", ["s"], ["r"]),
        node("Equal", ["r", "two"], ["c"]),
        node("If", ["c"], then_branch=branch("p", "Exp"), else_branch=branch("q", "Neg")),
    ]
    both(nodes, ["n", 2], {"two": np.array(2, I64)}, random(6, 2))


def test_names_are_shared_and_replaced() -> None:
    nodes = [node("Add", ["x", "z"])]
    m = model(nodes, {"x": (["n", 4], "float32"), "z": (["n", 4], "float32")})
    for shapes, first in (
        (None, "n"),
        ({"x": (3, 4)}, "3"),
        ({"x": ("rows", 4), "z": ("rows", 4)}, "rows"),
    ):
        text = script(from_onnx(m, shapes))
        assert f'x: R.Tensor(({first}, 4), "float32")' in text
        assert f'z: R.Tensor(({first}, 4), "float32")' in text


def test_nameless_extents_get_names_of_their_own() -> None:
    m = model([node("Relu", ["x"])], {"x": ([None, 4, None], "float32")})
    assert "R.Tensor((x_0, 4, x_2)" in script(from_onnx(m))


def test_weights_are_views_of_the_file() -> None:
    w = random(64, 64)
    data = model(
        [node("MatMul", ["x", "w"])], {"x": ((1, 64), "float32")}, constants={"w": w}
    ).SerializeToString()
    f = from_onnx(data)["main"]
    array = f.body.args[1].data
    assert array.base is not None
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, w)


def test_a_function_of_the_model() -> None:
    opset = [helper.make_opsetid("", 18)]
    inner = helper.make_node("LeakyRelu", ["a"], ["b"])
    inner.attribute.append(onnx.AttributeProto(name="alpha", type="FLOAT", ref_attr_name="slope"))
    body = [inner, helper.make_node("Add", ["b", "a"], ["c"])]
    function = helper.make_function("acme", "Twist", ["a"], ["c"], body, opset, ["slope"])
    m = model([node("Twist", ["x"], domain="acme", slope=0.25)], {"x": (["n", 4], "float32")})
    m.functions.append(function)
    m.opset_import.append(helper.make_opsetid("acme", 1))
    x = random(3, 4)
    found = interpret(from_onnx(m)["main"], x)[0]
    np.testing.assert_allclose(found, np.where(x > 0, 2 * x, 1.25 * x), rtol=1e-6)
