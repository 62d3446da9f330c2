"""Weights taken out of a model's bytes before they are parsed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from smelt.frontend.onnx.read import load
from smelt.frontend.onnx.wire import without_weights
from smelt.ir.errors import ImportFailure

from .models import node

RNG = np.random.default_rng(3)


def model(sizes: list[int]) -> onnx.ModelProto:
    arrays = [RNG.standard_normal(n).astype(np.float32) for n in sizes]
    nodes = [node("Identity", [f"w{n}"], [f"y{n}"]) for n in range(len(sizes))]
    graph = helper.make_graph(
        nodes, "weights", [],
        [helper.make_empty_tensor_value_info(f"y{n}") for n in range(len(sizes))],
        [numpy_helper.from_array(a, f"w{n}") for n, a in enumerate(arrays)],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@given(st.lists(st.sampled_from([0, 1, 1023, 1024, 5000]), min_size=1, max_size=5))
@settings(max_examples=20, deadline=None)
def test_nothing_is_lost(sizes: list[int]) -> None:
    m = model(sizes)
    data = m.SerializeToString()
    rest, weights = without_weights(data)
    assert sorted(weights) == [n for n, size in enumerate(sizes) if size >= 1024]
    assert len(rest) < 4200 * len(sizes) + 200
    found, want = load(data).graph, load(m).graph
    assert found.steps == want.steps
    assert list(found.arrays) == list(want.arrays)
    for name, array in want.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_damage_is_an_error_or_another_model(data: st.DataObject) -> None:
    whole = bytearray(model([2000, 3]).SerializeToString())
    cut = data.draw(st.integers(1, len(whole)))
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, min(60, len(whole) - 1)))] = data.draw(st.integers(0, 255))
    damaged = bytes(whole[:cut])
    try:
        expected = onnx.ModelProto.FromString(damaged)
        expected = expected if expected.HasField("graph") else None
    except Exception:
        expected = None
    rest, weights = without_weights(damaged)
    if not weights:
        assert rest == damaged
    if expected is None:
        with pytest.raises(ImportFailure):
            load(damaged)
