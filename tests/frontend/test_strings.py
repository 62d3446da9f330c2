"""Operators on texts against what onnxruntime or Python says."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import smelt
from smelt.runtime.errors import InputError


def texts(*items: str) -> np.ndarray:
    return np.array(items, object)


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, list[Any]]],
    outputs: list[str],
    constants: dict[str, np.ndarray] | None = None,
    ml: int = 4,
) -> Any:
    graph = helper.make_graph(
        nodes, "texts",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", ml)]
    return smelt.compile(helper.make_model(graph, opset_imports=opsets))


STRING = TensorProto.STRING
WORDS: dict[str, tuple[int, list[Any]]] = {"x": (STRING, ["n"])}


def test_concat_and_moves() -> None:
    nodes = [
        helper.make_node("StringConcat", ["x", "end"], ["a"]),
        helper.make_node("Reshape", ["x", "two"], ["b"]),
        helper.make_node("Gather", ["b", "one"], ["c"], axis=1),
        helper.make_node("Concat", ["c", "c"], ["d"], axis=0),
        helper.make_node("Equal", ["x", "end"], ["e"]),
        helper.make_node("Shape", ["x"], ["f"]),
    ]
    constants = {"end": texts("!"), "two": np.array([2, 2]), "one": np.array([1])}
    exe = model(nodes, {"x": (STRING, [4])}, ["a", "d", "e", "f"], constants)
    a, d, e, f = exe(texts("a", "!", "ü", ""))
    assert a.tolist() == ["a!", "!!", "ü!", "!"]
    assert d.tolist() == [["!"], [""], ["!"], [""]]
    assert e.numpy().tolist() == [False, True, False, False]
    assert f.numpy().tolist() == [4]


def test_split_counts() -> None:
    node = helper.make_node("StringSplit", ["x"], ["y", "z"], delimiter="-")
    neg = helper.make_node("Neg", ["z"], ["w"])
    exe = model([node, neg], WORDS, ["y", "w"])
    y, w = exe(texts("a-b", "", "c-d-e"))
    assert y.tolist() == [["a", "b", ""], ["", "", ""], ["c", "d", "e"]]
    assert w.numpy().tolist() == [-2, -1, -3]


def test_normalizer_and_pattern() -> None:
    normal = helper.make_node(
        "StringNormalizer", ["x"], ["y"], case_change_action="UPPER", stopwords=["The"]
    )
    match = helper.make_node("RegexFullMatch", ["x"], ["z"], pattern="[a-z]+")
    exe = model([normal, match], WORDS, ["y", "z"])
    y, z = exe(texts("the", "cat", "5"))
    assert y.tolist() == ["CAT", "5"]
    assert z.numpy().tolist() == [True, True, False]
    assert exe(texts("THE"))[0].tolist() == [""]


@pytest.mark.parametrize("to", [TensorProto.FLOAT, TensorProto.INT32])
def test_casts(to: int) -> None:
    there = helper.make_node("Cast", ["x"], ["y"], to=to)
    back = helper.make_node("Cast", ["y"], ["z"], to=STRING)
    exe = model([there, back], WORDS, ["y", "z"])
    y, z = exe(texts("3", "-14"))
    assert y.numpy().tolist() == [3, -14]
    assert [float(e) for e in z] == [3, -14]
    with pytest.raises(InputError, match="a text is no"):
        exe(texts("three"))


def test_labels() -> None:
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml",
        keys_strings=["a", "b"], values_int64s=[7, 8], default_int64=-1,
    )  # fmt: skip
    exe = model([node], WORDS, ["y"])
    assert exe(texts("b", "c", "a")).numpy().tolist() == [8, -1, 7]
    back = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml",
        keys_floats=[1.0, float("nan")], values_strings=["one", "none"],
    )  # fmt: skip
    exe = model([back], {"x": (TensorProto.FLOAT, ["n"])}, ["y"])
    assert exe(np.array([np.nan, 1, 2], np.float32)).tolist() == ["none", "one", "_Unused"]


@pytest.mark.parametrize("op", ["CategoryMapper", "LabelEncoder"])
def test_categories(op: str) -> None:
    names = ["a", "b", "c"]
    attrs: dict[str, Any] = {"cats_strings": names, "cats_int64s": [0, 1, 2]}
    if op == "LabelEncoder":
        attrs = {"classes_strings": names}
    there = helper.make_node(op, ["x"], ["y"], domain="ai.onnx.ml", **attrs)
    back = helper.make_node(op, ["y"], ["z"], domain="ai.onnx.ml", **attrs)
    exe = model([there, back], WORDS, ["y", "z"], ml=1)
    y, z = exe(texts("b", "?", "a"))
    assert y.numpy().tolist() == [1, -1, 0]
    assert z.tolist() == ["b", "_Unused", "a"]


def test_what_cannot_be() -> None:
    with pytest.raises(smelt.SmeltError, match="concat, expand_dims"):
        model([helper.make_node("Add", ["x", "x"], ["y"])], WORDS, ["y"])
    exe = model([helper.make_node("StringConcat", ["x", "x"], ["y"])], WORDS, ["y"])
    with pytest.raises(InputError, match="input 'x': dtype float32 given, texts needed"):
        exe(np.zeros(3, np.float32))
