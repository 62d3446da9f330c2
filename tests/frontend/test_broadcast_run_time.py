"""Data-dependent sizes broadcast where they meet: programs that decide while they run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

import smelt
from smelt.runtime import load_module
from smelt.runtime.errors import InputError
from smelt.runtime.vm import VirtualMachine

from .models import model, node, random, reference

F32, I64 = np.float32, np.int64
COUNTS = list(itertools.product((1, 4), repeat=2))


def numbers(*values: int) -> np.ndarray:
    return np.array(values, I64)


def check(
    nodes: Sequence[NodeProto], inputs: dict[str, Any], feeds: Sequence[dict[str, Any]],
    wrong: dict[str, Any] | None = None,
    says: str = "or one of them 1, but these are", **constants: Any,
) -> Any:  # fmt: skip
    """onnxruntime's results for all feeds; an error for those that are wrong."""
    m = model(nodes, inputs, ["y"], {n: np.asarray(c) for n, c in constants.items()})
    exe = smelt.compile(m)
    for given in feeds:
        (want,) = reference(m, given)
        got = exe(**given).numpy()
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    if wrong is not None:
        with pytest.raises(InputError, match=says):
            exe(**wrong)
    return exe


SLICED: dict[str, Any] = {
    "a": (["n", 3], F32),
    "b": (["m", 3], F32),
    "p": ([1], I64),
    "q": ([1], I64),
}
SLICES = [node("Slice", ["a", "zero", "p"], "d"), node("Slice", ["b", "zero", "q"], "e")]


def sliced(p: int, q: int) -> dict[str, Any]:
    return {"a": random(6, 3), "b": random(5, 3, seed=1), "p": numbers(p), "q": numbers(q)}


JOINS: dict[str, list[NodeProto]] = {
    "Add": [node("Add", "de")],
    "Max": [node("Max", ["d", "e", "one"])],
    "Where": [node("Greater", "de", "g"), node("Where", "gde")],
    "Pow": [node("Abs", "d", "f"), node("Pow", "fe")],
    "a chain": [node("Add", "de", "f"), node("Mul", "fd", "g"), node("Sub", "ge")],
    "MatMul": [node("Add", "de", "f"), node("Transpose", "f", "g"), node("MatMul", "fg")],
    "softmax": [node("Add", "de", "f"), node("Softmax", "f", axis=0)],
    "Expand": [node("Shape", "e", "s"), node("Expand", "ds")],
}


@pytest.mark.parametrize("name", JOINS)
def test_parts_whose_sizes_the_data_tell(name: str) -> None:
    check(
        [*SLICES, *JOINS[name]], SLICED, [sliced(p, q) for p, q in COUNTS], sliced(3, 4),
        zero=numbers(0), one=np.float32(0.5),
    )  # fmt: skip


def test_what_is_said_of_sizes_that_do_not_fit() -> None:
    m = model([*SLICES, *JOINS["Add"]], SLICED, ["y"], {"zero": numbers(0)})
    with pytest.raises(InputError) as e:
        smelt.compile(m)(**sliced(3, 4))
    assert str(e.value) == (
        "segment1: sizes that do not fit: add_y (add) needs slice_d = slice_e or one of them 1, "
        "but these are 3 and 4\n  sizes: slice_d = 3, n = 6, slice_e = 4, m = 5; inputs: "
        "p0 uint8[slice_d]; p1 int64[]; p2 float32[n, 3]; p3 uint8[slice_e]; p4 int64[]; "
        "p5 float32[m, 3]"
    )


def test_a_computed_shape_repeats_sizes_of_inputs() -> None:
    feeds = [
        {"a": random(n, 3), "s": numbers(*s)}
        for n, s in [(1, (4, 1)), (4, (1, 3)), (4, (4, 3)), (1, (1, 1)), (4, (4, 1)), (1, (0, 3))]
    ]
    check([node("Expand", "as", "e"), node("Neg", "e")],
          {"a": (["n", 3], F32), "s": ([2], I64)}, feeds,
          {"a": random(4, 3), "s": numbers(5, 3)}, "which does not fit")  # fmt: skip


def test_a_size_of_the_data_meets_one_of_an_input() -> None:
    inputs = {"a": (["n", 3], F32), "b": (["m", 3], F32), "q": ([1], I64)}
    feeds = [{"a": random(n, 3), "b": random(5, 3), "q": numbers(q)} for n, q in COUNTS]
    check([node("Slice", ["b", "zero", "q"], "e"), node("Add", "ae", "f"), node("Mul", "fa")],
          inputs, feeds, {"a": random(3, 3), "b": random(5, 3), "q": numbers(4)},
          zero=numbers(0))  # fmt: skip


def branches(
    then: Sequence[NodeProto], other: Sequence[NodeProto], outputs: str, result: str
) -> list[NodeProto]:
    info = helper.make_tensor_value_info
    graphs = [
        helper.make_graph(list(nodes), name, [], [info(o, TensorProto.FLOAT, None)])
        for nodes, name, o in zip((then, other), ("then", "else"), outputs, strict=True)
    ]
    return [node("If", ["c"], [result], then_branch=graphs[0], else_branch=graphs[1])]


@pytest.mark.parametrize("c", [True, False])
def test_branches_of_different_sizes(c: bool) -> None:
    nodes = branches([node("Neg", "a", "t")], [node("Abs", "b", "u")], "tu", "d")
    inputs = {"c": ([], np.bool_), "a": (["n", 3], F32), "b": (["m", 3], F32), "e": (["k", 3], F32)}
    feeds = [
        {"c": np.array(c), "a": random(n, 3), "b": random(m, 3), "e": random(k, 3)}
        for n, m, k in itertools.product((1, 4), repeat=3)
    ]
    check([*nodes, node("Add", "de")], inputs, feeds)


def test_a_branch_in_which_sizes_meet() -> None:
    nodes = branches([node("Add", "ab", "t")], [node("Sub", "aa", "u")], "tu", "y")
    inputs = {"c": ([], np.bool_), "a": (["n", 3], F32), "b": (["m", 3], F32)}
    feeds = [
        {"c": np.array(c), "a": random(n, 3), "b": random(m, 3)}
        for c, n, m in itertools.product((True, False), (1, 4), (1, 4))
    ]
    check(nodes, inputs, [*feeds, {**feeds[4], "a": random(3, 3), "b": random(5, 3)}])


def test_a_program_that_was_written_to_a_file(tmp_path: Any) -> None:
    exe = check([*SLICES, *JOINS["Add"]], SLICED, [], zero=numbers(0))
    exe.export_library(tmp_path / "m.so")
    loaded = VirtualMachine(load_module(tmp_path / "m.so"))
    for p, q in COUNTS:
        given = sliced(p, q)
        got = loaded.run(*[given[n] for n in SLICED]).numpy()
        np.testing.assert_array_equal(got, given["a"][:p] + given["b"][:q])
