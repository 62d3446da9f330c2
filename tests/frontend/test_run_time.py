"""Models that decide while they run, or whose structure depends on the inputs' values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import smelt
from smelt.frontend.onnx import NeedsValues, from_onnx
from smelt.model import Model
from smelt.runtime.errors import InputError

from .models import model, node, reference

RNG = np.random.default_rng(7)
FLOAT, INT = "float32", "int64"


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def agree(m: onnx.ModelProto, *feeds: Mapping[str, Any]) -> Any:
    """One compiled model gives onnxruntime's results for all of these inputs."""
    exe = smelt.compile(m)
    for feed in feeds:
        given = {k: np.asarray(v) for k, v in feed.items()}
        got = exe(**given)
        for a, b in zip(
            got if isinstance(got, tuple) else (got,), reference(m, given), strict=True
        ):
            assert a.numpy().dtype == b.dtype
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-5)
            assert a.shape == b.shape
    return exe


def graph(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, tuple[Any, Any]], outputs: Sequence[str]
) -> onnx.GraphProto:
    return model(nodes, inputs, outputs).graph


# ------------------------------------------------------------------------- data-dependent sizes


def test_reshape() -> None:
    m = model(
        [node("Reshape", ["x", "s"], ["r"]), node("Relu", ["r"])],
        {"x": (("n", 6), FLOAT), "s": ((3,), INT)},
    )
    exe = agree(
        m,
        {"x": random(4, 6), "s": numbers(2, -1, 3)},
        {"x": random(4, 6), "s": numbers(0, 3, 2)},
        {"x": random(1, 6), "s": numbers(6, 1, 1)},
    )
    assert not isinstance(exe, Model)
    assert [o.shape for o in exe.outputs] == [("y_0", "y_1", "y_2")]
    with pytest.raises(InputError, match=r"is \[5, 1, 2\], which does not hold 24 elements"):
        exe(random(4, 6), numbers(5, 1, 2))
    with pytest.raises(InputError, match="the operand 'shape' is -3; it has to be 0 or more"):
        exe(random(4, 6), numbers(-3, -8, 1))


def test_slice() -> None:
    m = model(
        [node("Slice", ["x", "b", "e", "a", "st"], ["s"]), node("Exp", ["s"])],
        {"x": ((8, 6), FLOAT), "b": ((2,), INT), "e": ((2,), INT), "st": ((2,), INT)},
        constants={"a": numbers(0, 1)},
    )
    x = random(8, 6)
    agree(
        m,
        {"x": x, "b": numbers(1, -3), "e": numbers(100, 6), "st": numbers(2, 1)},
        {"x": x, "b": numbers(-1, 4), "e": numbers(-100, 1), "st": numbers(-3, -1)},
        {"x": x, "b": numbers(5, 4), "e": numbers(2, 4), "st": numbers(1, 1)},
        {"x": x, "b": numbers(-9, 8), "e": numbers(-99, 7), "st": numbers(-1, -1)},
    )


@pytest.mark.parametrize("dtype", [INT, FLOAT])
def test_range(dtype: str) -> None:
    names = ("b", "e", "d")
    m = model(
        [node("Range", names, ["r"]), node("Mul", ["r", "r"])], dict.fromkeys(names, ((), dtype))
    )
    feeds = [(1, 10, 3), (10, 1, -2), (10, 1, 2), (0, 1, 1)]
    agree(m, *[{n: np.array(v, dtype) for n, v in zip(names, f, strict=True)} for f in feeds])


def test_non_zero() -> None:
    nodes = [
        node("NonZero", ["x"], ["p"]),
        node("Shape", ["p"], ["s"]),
        node("Transpose", ["p"], ["t"]),
        node("GatherND", ["x", "t"], ["z"]),
        node("Mul", ["z", "z"], ["w"]),
    ]
    m = model(nodes, {"x": (("n", 5), FLOAT)}, ["p", "s", "w"])
    agree(m, {"x": np.maximum(random(4, 5), 0)}, {"x": np.zeros((3, 5), FLOAT)})


def test_compress() -> None:
    m = model(
        [node("Compress", ["x", "c"], ["z"], axis=1), node("Neg", ["z"])],
        {"x": ((3, 4), FLOAT), "c": ((4,), "bool")},
    )
    x = random(3, 4)
    agree(m, {"x": x, "c": [True, False, True, True]}, {"x": x, "c": [False] * 4})


@pytest.mark.parametrize("many", [2, 4, 9, "k"])
@pytest.mark.parametrize("axis", [0, None])
def test_compress_by_more_or_fewer_conditions(many: int | str, axis: int | None) -> None:
    attrs: dict[str, Any] = {} if axis is None else {"axis": axis}
    m = model(
        [node("Compress", ["x", "c"], **attrs)],
        {"x": (("n",) if axis is None else ("n", 3), FLOAT), "c": ((many,), "bool")},
    )
    x = np.arange(4 if axis is None else 12, dtype=FLOAT).reshape((4,) if axis is None else (4, 3))
    for count in (2, 4, 9) if many == "k" else (many,):
        agree(m, *[{"x": x, "c": np.arange(count) % 3 == k} for k in (0, 2, 5)])


def test_expand_tile_pad_fill() -> None:
    inputs = {"x": ((3, 1), FLOAT), "s": ((2,), INT), "p": ((4,), INT)}
    nodes = [
        node("Expand", ["x", "s"], ["a"]),
        node("Tile", ["x", "s"], ["b"]),
        node("ConstantOfShape", ["s"], ["c"]),
        node("Pad", ["x", "p"], ["d"]),
        node("Abs", ["a"], ["e"]),
    ]
    m = model(nodes, inputs, ["b", "c", "d", "e"])
    x = random(3, 1)
    exe = agree(
        m,
        {"x": x, "s": numbers(1, 4), "p": numbers(1, 0, 2, 3)},
        {"x": x, "s": numbers(3, 2), "p": numbers(0, 0, -1, 2)},
        {"x": x, "s": numbers(3, 1), "p": numbers(-1, 0, 0, 0)},
    )
    with pytest.raises(InputError, match=r"asks for \[5, 4\], which does not fit \[3, 4\]"):
        exe(x, numbers(5, 4), numbers(0, 0, 0, 0))


def test_topk_and_one_hot() -> None:
    nodes = [node("TopK", ["x", "k"], ["v", "i"]), node("OneHot", ["i", "k", "o"], ["h"])]
    m = model(nodes, {"x": ((3, 9), FLOAT), "k": ((1,), INT), "o": ((2,), FLOAT)}, ["v", "i", "h"])
    x = random(3, 9)
    on = np.array([0.5, 2], FLOAT)
    agree(m, {"x": x, "k": numbers(4), "o": on}, {"x": x, "k": numbers(9), "o": on})


# ------------------------------------------------------------------------------- values of inputs


def test_axes_that_are_inputs() -> None:
    m = model(
        [node("ReduceSum", ["x", "a"], keepdims=0)], {"x": ((3, 4, 5), FLOAT), "a": ((1,), INT)}
    )
    x = random(3, 4, 5)
    exe = agree(m, {"x": x, "a": numbers(1)}, {"x": x, "a": numbers(2)}, {"x": x, "a": numbers(1)})
    assert exe.needed == ("a",)
    assert isinstance(exe, Model)
    assert len(exe.variants) == 2
    with pytest.raises(smelt.SmeltError, match=r"its form depends on the inputs a"):
        exe.export_library("nowhere.so")
    fixed = smelt.compile(m, values={"a": numbers(2)})
    assert not isinstance(fixed, Model)
    assert [i.name for i in fixed.inputs] == ["x"]
    np.testing.assert_allclose(fixed(x).numpy(), x.sum(2), rtol=1e-5)
    with pytest.raises(NeedsValues) as e:
        from_onnx(m)
    assert e.value.inputs == ("a",)


def test_sequences_and_optional_values() -> None:
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, ["n"]))
    nodes = [
        node("SequenceLength", ["xs"], ["n"]),
        node("SequenceAt", ["xs", "k"], ["one"]),
        node("ConcatFromSequence", ["xs"], ["all"], axis=0),
        node("SequenceInsert", ["xs", "one"], ["more"]),
        node("OptionalHasElement", ["o"], ["there"]),
    ]
    m = model(nodes, {"k": ((), INT)}, ["n", "one", "all", "more", "there"])
    m.graph.input.append(helper.make_value_info("xs", sequence))
    m.graph.input.append(helper.make_value_info("o", helper.make_optional_type_proto(sequence)))
    exe = smelt.compile(m)
    xs = [random(2), random(3)]
    for given in (xs, None):
        n, one, joined, more, there = exe(numbers(1).reshape(()), xs, given)
        assert n.numpy() == 2
        assert there.numpy() == (given is not None)
        np.testing.assert_array_equal(one.numpy(), xs[1])
        np.testing.assert_array_equal(joined.numpy(), np.concatenate(xs))
        assert [len(x.numpy()) for x in more] == [2, 3, 3]
    with pytest.raises(InputError, match="input 'xs': None given; a sequence is needed"):
        exe(np.int64(0), None, None)
    with pytest.raises(InputError, match="1 inputs given, 3 needed"):
        exe(np.int64(0))


def test_an_input_without_a_shape() -> None:
    exe = smelt.compile(model([node("Neg", ["x"])], {"x": (None, FLOAT)}))
    for shape in ((2, 3), (4,), (2, 3)):
        np.testing.assert_array_equal(exe(x := random(*shape)).numpy(), -x)
    assert isinstance(exe, Model)
    assert len(exe.variants) == 2


def test_as_many_parts_as_a_size() -> None:
    nodes = [
        node("SplitToSequence", ["x"], ["s"], axis=0),
        node("SequenceLength", ["s"], ["n"]),
        node("ConcatFromSequence", ["s"], ["y"], axis=1),
    ]
    exe = smelt.compile(model(nodes, {"x": (("n", 3), FLOAT)}, ["n", "y"]))
    for n in (2, 4, 2):
        count, y = exe(x := random(n, 3))
        assert count.numpy() == n
        np.testing.assert_array_equal(y.numpy(), x.reshape(1, -1))
    assert isinstance(exe, Model)
    assert exe.needed == ("x",)
    assert len(exe.variants) == 2


# ------------------------------------------------------------------------------------ control flow


def test_if() -> None:
    yes = graph([node("MatMul", ["x", "x"], ["u"])], {}, ["u"])
    no = graph([node("Neg", ["x"], ["v"])], {}, ["v"])
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "c"], ["b"]),
        node("If", ["b"], ["i"], then_branch=yes, else_branch=no),
        node("Relu", ["i"]),
    ]
    m = model(nodes, {"x": ((4, 4), FLOAT)}, constants={"c": np.array(0, FLOAT)})
    agree(m, {"x": np.ones((4, 4), FLOAT)}, {"x": -np.ones((4, 4), FLOAT)})


def test_if_with_shapes_that_differ() -> None:
    yes = graph([node("Concat", ["x", "x"], ["u"], axis=0)], {}, ["u"])
    no = graph([node("Neg", ["x"], ["v"])], {}, ["v"])
    m = model(
        [node("If", ["b"], ["i"], then_branch=yes, else_branch=no), node("Relu", ["i"])],
        {"x": ((2, 3), FLOAT), "b": ((), "bool")},
    )
    exe = agree(m, {"x": random(2, 3), "b": True}, {"x": random(2, 3), "b": False})
    assert not isinstance(exe, Model)


def test_while() -> None:
    nodes = [
        node("Mul", ["s", "w"], ["s2"]),
        node("ReduceSum", ["s2"], ["q"], keepdims=0),
        node("Less", ["q", "lim"], ["c2"]),
        node("Identity", ["q"], ["qq"]),
    ]
    body = graph(
        nodes, {"i": ((), INT), "c": ((), "bool"), "s": (("n",), FLOAT)}, ["c2", "s2", "qq"]
    )
    for o, t in zip(body.output, (TensorProto.BOOL, 1, 1), strict=True):
        o.type.tensor_type.elem_type = t
    m = model(
        [node("Loop", ["m", "", "x"], ["y", "l"], body=body), node("Neg", ["l"], ["z"])],
        {"x": (("n",), FLOAT), "w": (("n",), FLOAT), "m": ((), INT)},
        ["y", "z"],
        {"lim": np.array(100, FLOAT)},
    )
    ones = np.ones(3, FLOAT)
    agree(
        m,
        {"x": ones, "w": 1.5 * ones, "m": 50},
        {"x": ones, "w": 1.1 * ones, "m": 5},
        {"x": ones, "w": 1.1 * ones, "m": 1},
    )


def test_a_loop_whose_value_grows() -> None:
    nodes = [node("Concat", ["s", "one"], ["s2"], axis=0), node("Identity", ["c"], ["c2"])]
    body = graph(nodes, {"i": ((), INT), "c": ((), "bool"), "s": (("n",), FLOAT)}, ["c2", "s2"])
    for o, t in zip(body.output, (TensorProto.BOOL, 1), strict=True):
        o.type.tensor_type.elem_type = t
    m = model(
        [node("Loop", ["m", "", "x"], ["g"], body=body), node("Neg", ["g"])],
        {"x": ((2,), FLOAT), "m": ((), INT)},
        constants={"one": np.ones(1, FLOAT)},
    )
    agree(m, {"x": random(2), "m": 7}, {"x": random(2), "m": 0})


@pytest.mark.parametrize("back", [0, 1])
def test_scan(back: int) -> None:
    nodes = [node("Add", ["h", "x"], ["h2"]), node("Tanh", ["h2"], ["o"])]
    body = graph(nodes, {"h": ((4,), FLOAT), "x": ((4,), FLOAT)}, ["h2", "o"])
    for o in body.output:
        o.type.tensor_type.elem_type = 1
    scan = node(
        "Scan", ["h", "xs"], ["hf", "os"], body=body, num_scan_inputs=1,
        scan_input_directions=[back], scan_output_directions=[back], scan_output_axes=[1],
    )  # fmt: skip
    m = model([scan], {"h": ((4,), FLOAT), "xs": (("t", 4), FLOAT)}, ["hf", "os"])
    agree(m, {"h": random(4), "xs": random(20, 4)}, {"h": random(4), "xs": random(3, 4)})
    short = model([scan], {"h": ((4,), FLOAT), "xs": ((5, 4), FLOAT)}, ["hf", "os"])
    assert not isinstance(agree(short, {"h": random(4), "xs": random(5, 4)}), Model)


def test_a_program_as_a_file(tmp_path: Any) -> None:
    m = model([node("NonZero", ["x"])], {"x": (("n",), FLOAT)})
    path = tmp_path / "places.vm"
    smelt.compile(m).export_library(path)
    machine = smelt.runtime.vm.VirtualMachine(smelt.runtime.load_module(str(path)))
    assert machine.invoke("main", np.array([0, 2, 0, 1], FLOAT)).numpy().tolist() == [[1, 3]]
