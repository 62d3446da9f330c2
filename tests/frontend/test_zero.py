"""Sizes of 0: each symbol in turn, all of them, and in the file, against onnxruntime."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import smelt
from smelt.runtime.errors import InputError, SmeltError

from .many import close
from .models import Arrays, model, node, random, reference

F32, I64 = np.float32, np.int64


class Op(NamedTuple):
    """A node: operands that are inputs (a shape; with the type and the numbers below which
    integers are, where they are no floats), operands that are constants, attributes."""

    name: str
    inputs: tuple[Any, ...]
    known: tuple[Any, ...]
    outputs: int
    attrs: dict[str, Any]


def op(name: str, *inputs: Any, known: tuple[Any, ...] = (), outputs: int = 1, **attrs: Any) -> Op:
    return Op(name, inputs, known, outputs, attrs)


def ints(*values: int) -> np.ndarray:
    return np.array(values, I64)


AB4, ROWS = ("a", "b", 4), ("a", 4)
SUMS = ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum",
        "ReduceLogSumExp", "ReduceMax", "ReduceMin")  # fmt: skip
IMAGE = ("n", 4, 9, 9)
FAMILIES: dict[str, list[Op]] = {
    "elements": [
        *[op(name, AB4) for name in ("Relu", "Erf", "Softplus", "Neg")],
        op("Add", AB4, ("b", 4)),
        op("Where", (ROWS, bool), ROWS, (1, 4)),
        op("Clip", ROWS, known=(F32(0), F32(1))),
        op("Cast", ROWS, to=TensorProto.INT64),
        op("QuantizeLinear", ROWS, known=(F32(0.5), np.uint8(3))),
        op("CumSum", AB4, known=(I64(1),)),
        op("Trilu", AB4),
        op("Softmax", AB4, axis=1),
        op("LogSoftmax", AB4, axis=0),
        op("LayerNormalization", AB4, known=(random(4), random(4))),
    ],
    "sums": [
        *[op(name, AB4, known=(ints(1),), keepdims=0) for name in SUMS],
        *[op(name, AB4) for name in SUMS],
        *[op(name, ("a", 4, "b"), known=(ints(0, 2),)) for name in SUMS],
        op("ReduceMax", (AB4, np.int32, 9), known=(ints(0),)),
        op("ReduceSum", (AB4, I64, 9), known=(ints(1),)),
        op("ArgMax", AB4, axis=2),
    ],
    "products": [
        op("MatMul", ("a", "k"), ("k", "b")),
        op("MatMul", AB4, known=(random(4, 16),)),
        op("MatMul", ("n", 5, "k"), ("n", "k", 6)),
        op("MatMul", ("k",), ("k", 7)),
        op("Gemm", ("a", "k"), ("k", "b"), ("b",), alpha=0.5, beta=2.0),
        op("Gemm", ("k", 33), ("k", 17), transA=1),
        op("Einsum", ("a", "b", "k"), ("a", "k", "n"), equation="abk,akc->abc"),
    ],
    "moves": [
        op("Concat", ("a", 4), ("b", 4), axis=0),
        op("Concat", ("n", "a", 4), ("n", "b", 4), ("n", 2, 4), axis=1),
        op("Split", ("a", 6), known=(ints(0, 6),), outputs=2, axis=1),
        op("Transpose", AB4, perm=[1, 0, 2]),
        op("Reshape", AB4, known=(ints(-1, 2),)),
        op("Flatten", AB4),
        op("Unsqueeze", AB4, known=(ints(1),)),
        op("Expand", ("a", 1, 4), known=(ints(1, 3, 1),)),
        op("Tile", ROWS, known=(ints(2, 0),)),
        op("Pad", ("a", "b"), known=(ints(1, 0, 1, 2), F32(3))),
        op("Pad", ("a", 6), known=(ints(0, -1, 0, -2),)),
        op("Slice", ("a", 6), known=(ints(0), ints(2), ints(0))),
        op("Slice", ("a", 6), known=(ints(1), ints(2**62), ints(0))),
        op("Slice", ("a", 6), known=(ints(-1), ints(-(2**62)), ints(0), ints(-1))),
        op("Slice", ("a", 6), known=(ints(0), ints(2**62), ints(0), ints(2))),
        op("Shape", AB4),
        op("Size", AB4),
    ],
    "choices": [
        op("Gather", (7, 4), (("a", "b"), I64, 7)),
        op("GatherElements", ROWS, (("a", 2), I64, 4), axis=1),
        op("GatherND", (5, 4), (("a", 1), I64, 5)),
        op("ScatterElements", ROWS, (("a", 2), I64, 4), ("a", 2), axis=1, reduction="add"),
        op("ScatterND", (5, 4), (("a", 1), I64, 1), ROWS, reduction="add"),
        op("OneHot", (("a",), I64, 4), known=(I64(5), np.array([0, 1], F32))),
        op("TopK", ("a", 8), known=(ints(3),), outputs=2),
        op("TopK", ("a", 8), known=(ints(0),), outputs=2),
        op("NonZero", ("a", "b")),
        op("Compress", ROWS, (("a",), bool), axis=0),
        op("Unique", ("a",)),
    ],
    "images": [
        op("Conv", IMAGE, known=(random(8, 4, 3, 3), random(8)), pads=[1, 1, 1, 1]),
        op("Conv", IMAGE, known=(random(8, 4, 1, 1),)),
        op("Conv", IMAGE, known=(random(4, 1, 3, 3),), group=4),
        op("ConvTranspose", IMAGE, known=(random(4, 8, 3, 3),), strides=[2, 2]),
        op("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        op("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2]),
        op("GlobalAveragePool", IMAGE),
        op("InstanceNormalization", IMAGE, known=(random(4), random(4))),
        op("LRN", IMAGE, size=3),
        op("Resize", IMAGE, known=(np.array([], F32), np.array([1, 1, 2, 2], F32)), mode="linear"),
        op("DepthToSpace", IMAGE, blocksize=2),
    ],
}


def joined(ops: list[Op], sizes: dict[str, int]) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """All nodes in one model, with sizes that are numbers replaced, and what each input is."""
    names: dict[Any, str] = {}
    constants: dict[str, np.ndarray] = {}
    nodes, results = [], []
    for k, o in enumerate(ops):
        own = [names.setdefault(x, f"x{len(names)}") for x in o.inputs]
        constants |= {f"c{k}_{i}": np.asarray(x) for i, x in enumerate(o.known)}
        own += [f"c{k}_{i}" for i in range(len(o.known))]
        outputs = [f"y{k}_{i}" for i in range(o.outputs)]
        nodes.append(node(o.name, own, outputs, **o.attrs))
        results += outputs
    inputs = {n: x if isinstance(x[0], tuple) else (x, F32) for x, n in names.items()}
    shapes = {n: ([sizes.get(e, e) for e in x[0]], x[1]) for n, x in inputs.items()}
    return model(nodes, shapes, results, constants), inputs


def feeds(inputs: dict[str, Any], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    found = {}
    for n, (shape, kind, *most) in inputs.items():
        x = rng.random([sizes.get(e, e) for e in shape]) + 0.1
        found[n] = (x * (most[0] - 1) if most else x > 0.5 if kind is bool else x).astype(kind)
    return found


def run(exe: Any, given: Arrays) -> list[np.ndarray]:
    found = exe(**given)
    return [np.asarray(y.numpy()) for y in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("threads", [1, 2])
def test_every_symbol_in_turn(name: str, threads: int) -> None:
    m, inputs = joined(FAMILIES[name], {})
    exe = smelt.compile(m, options=smelt.Options(threads=threads))
    symbols = sorted({e for shape, *_ in inputs.values() for e in shape if isinstance(e, str)})
    full = {s: 2 + i for i, s in enumerate(symbols)}
    for sizes in (full, *({**full, s: 0} for s in symbols), dict.fromkeys(symbols, 0)):
        given = feeds(inputs, sizes)
        want = reference(m, given)
        for a, b, o in zip(run(exe, given), want, m.graph.output, strict=True):
            close(a, b, 1e-5, f"{o.name} {sizes}")


@pytest.mark.parametrize("name", FAMILIES)
def test_numbers_of_the_file(name: str) -> None:
    m, inputs = joined(FAMILIES[name], {})
    symbols = sorted({e for shape, *_ in inputs.values() for e in shape if isinstance(e, str)})
    for symbol in symbols:
        sizes = {s: 0 if s == symbol else 3 for s in symbols}
        m, inputs = joined(FAMILIES[name], sizes)
        exe = smelt.compile(m, options=smelt.Options(threads=2))
        given = feeds(inputs, sizes)
        for a, b, o in zip(run(exe, given), reference(m, given), m.graph.output, strict=True):
            close(a, b, 1e-5, f"{o.name} {sizes}")


def numbers(m: onnx.ModelProto, *given: np.ndarray, threads: int = 2) -> list[np.ndarray]:
    exe = smelt.compile(m, options=smelt.Options(threads=threads))
    return run(exe, dict(zip([i.name for i in m.graph.input], given, strict=True)))


def test_the_mean_of_nothing_is_zero() -> None:
    """As onnxruntime has it; numpy says that it is no number."""
    m = model([node("ReduceMean", ["x", "axes"], keepdims=0)], {"x": (["a", 4], F32)},
              constants={"axes": ints(0)})  # fmt: skip
    np.testing.assert_array_equal(numbers(m, np.zeros((0, 4), F32))[0], np.zeros(4, F32))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(kind: str) -> None:
    """onnxruntime ends the process for a batch of 0: the state stays where it began."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    states = 2 if kind == "LSTM" else 1
    w, r = random(1, gates * 6, 4), random(1, gates * 6, 6)
    names = ["y", "h", "c"][: states + 1]
    given = {"x": (["s", "n", 4], F32), "h0": ([1, "n", 6], F32)}
    m = model([node(kind, ["x", "w", "r", "", "", "h0"], names, hidden_size=6)], given, names,
              {"w": w, "r": r})  # fmt: skip
    exe = smelt.compile(m)
    for s, n in ((0, 2), (3, 0), (0, 0)):
        h0 = random(1, n, 6)
        y, h, *_ = run(exe, {"x": random(s, n, 4), "h0": h0})
        assert y.shape == (s, 1, n, 6)
        np.testing.assert_array_equal(h, h0)


def test_images_without_pixels() -> None:
    """onnxruntime refuses them: a window over padding alone sums zeros."""
    m = model([node("Conv", ["x", "w"], pads=[2, 2, 2, 2])], {"x": (["n", 4, "h", "w0"], F32)},
              constants={"w": random(8, 4, 3, 3)})  # fmt: skip
    exe = smelt.compile(m)
    for n, h, w in ((2, 0, 5), (2, 5, 0), (2, 0, 0), (0, 5, 5)):
        (y,) = run(exe, {"x": random(n, 4, h, w)})
        assert y.shape == (n, 8, h + 2, w + 2)
        assert h * w or not y.any()


def test_an_element_of_nothing() -> None:
    """A place that is known is checked at entry; an index that the run brings gives 0."""
    x = {"x": (["b", "s", 4], F32)}
    for index, said in ((0, "max(1, s) = s, but these are 1 and 0"),
                        (-1, "max(s - 1, 0) = s - 1, but these are 0 and -1")):  # fmt: skip
        m = model([node("Gather", ["x", "i"], axis=1)], x, constants={"i": np.array(index)})
        exe = smelt.compile(m)
        assert run(exe, {"x": random(2, 1, 4)})[0].shape == (2, 4)
        with pytest.raises(InputError) as caught:
            run(exe, {"x": random(2, 0, 4)})
        assert str(caught.value) == (
            f"test: sizes that do not fit: gather_y (strided_slice) needs {said}\n"
            "  sizes: b = 2, s = 0; inputs: x float32[b, s, 4]"
        )
    m = model([node("Gather", ["x", "i"])], {"x": (["t", 4], F32), "i": ([2], I64)})
    assert not numbers(m, np.zeros((0, 4), F32), ints(0, 0))[0].any()


def test_an_extent_that_divides_by_nothing() -> None:
    nodes = [
        node("Shape", ["z"], ["n"]),
        node("Concat", ["n", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"]),
    ]
    m = model(nodes, {"x": (["a", 6], F32), "z": (["c"], F32)}, constants={"rest": ints(-1)})
    exe = smelt.compile(m)
    assert run(exe, {"x": random(0, 6), "z": random(3)})[0].shape == (3, 0)
    with pytest.raises(InputError) as caught:
        exe(random(2, 6), random(0))
    assert "divides by zero: a = 2, c = 0" in str(caught.value)


def test_a_loop_without_turns_over_rows_that_are_none() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "x"], ["w"]),
            helper.make_node("Identity", ["c"], ["d"]),
            helper.make_node("ReduceSum", ["w"], ["s"], keepdims=0),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, ["a", 4]),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, ["a", 4]),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, []),
        ],
    )
    inputs = {"x": (["a", 4], F32), "m": ([], I64), "go": ([], bool)}
    m = model([node("Loop", ["m", "go", "x"], ["y", "z"], body=body)], inputs, ["y", "z"])
    exe = smelt.compile(m)
    for rows, turns in ((3, 0), (0, 2), (0, 0)):
        given = {"x": random(rows, 4), "m": np.array(turns), "go": np.array(True)}
        for a, b in zip(run(exe, given), reference(m, given), strict=True):
            close(a, b, 1e-5, f"{rows} rows, {turns} turns")


def test_what_the_data_leave_over() -> None:
    """Sizes inside a program that decides while it runs."""
    ops = ("ReduceSum", "ReduceProd", "ReduceMax")
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        node("GatherND", ["x", "rows"], ["found"]),
        node("Softmax", ["found"], ["soft"], axis=0),
        node("Concat", ["found", "found"], ["twice"], axis=0),
        *[node(o, ["found"], [o], keepdims=0) for o in ops],
    ]
    m = model(nodes, {"x": (["a", "b"], F32)}, ["soft", "twice", *ops])
    exe = smelt.compile(m)
    for x in (random(3, 4), np.zeros((3, 4), F32), np.zeros((0, 4), F32), np.zeros((3, 0), F32)):
        for a, b in zip(run(exe, {"x": x}), reference(m, {"x": x}), strict=True):
            close(a, b, 1e-5, f"{x.shape}")


def test_a_slice_backwards_begins_inside() -> None:
    known = {"s": ints(-5), "e": ints(-(2**31)), "a": ints(0), "t": ints(-1)}
    m = model([node("Slice", ["x", *known])], {"x": (["n", 4], F32)}, constants=known)
    exe = smelt.compile(m)
    for n in (0, 1, 4, 5, 7):
        x = random(n, 4)
        np.testing.assert_array_equal(run(exe, {"x": x})[0], reference(m, {"x": x})[0])


@pytest.mark.parametrize(("begin", "end"), [(0, 1), (-1, 2**63 - 1)])
def test_a_slice_of_one_element_has_a_number_as_its_extent(begin: int, end: int) -> None:
    """So it broadcasts, and without elements there is none."""
    known = {"s": ints(begin), "e": ints(end), "a": ints(1)}
    m = model([node("Slice", ["x", *known], ["v"]), node("Add", ["v", "x"])],
              {"x": (["b", "t", 4], F32)}, constants=known)  # fmt: skip
    exe = smelt.compile(m)
    for b, t in ((2, 3), (2, 1), (0, 3), (2, 0), (0, 0)):
        x = random(b, t, 4)
        np.testing.assert_array_equal(run(exe, {"x": x})[0], reference(m, {"x": x})[0])


ENDS = {"s": ints(-1), "e": ints(2**63 - 1), "zero": ints(0), "one": ints(1), "a": ints(1),
        "first": np.array(0)}  # fmt: skip
FIRST, LAST = ["zero", "one", "a"], ["s", "e", "a"]


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Slice", ["x", *FIRST], ["v"]), node("Relu", ["v"], ["y"])],
        [node("Slice", ["x", *LAST], ["v"]), node("Concat", ["v", "x"], ["y"], axis=1)],
        [node("Slice", ["x", *LAST], ["v"]), node("Slice", ["z", *FIRST], ["w"]),
         node("Concat", ["v", "w"], ["y"], axis=1)],
        [node("Slice", ["x", *LAST], ["v"]), node("Add", ["v", "z"], ["y"])],
        [node("Slice", ["x", *LAST], ["v"]), node("ReduceSum", ["v", "one"], ["y"])],
        [node("Concat", ["x", "z"], ["c"], axis=1), node("Slice", ["c", *LAST], ["y"])],
        [node("Slice", ["x", "one", "e", "a"], ["c"]), node("Slice", ["c", *LAST], ["y"])],
    ],
)  # fmt: skip
def test_sizes_of_zero_have_code_of_their_own(nodes: list[Any]) -> None:
    m = model(nodes, {"x": (["b", "t", 4], F32), "z": (["b", "u", 4], F32)}, ["y"], constants=ENDS)
    exe = smelt.compile(m)
    for b, t, u in itertools.product((0, 2), (0, 1, 3), (0, 1, 3)):
        given = {"x": random(b, t, 4), "z": random(b, u, 4)}
        try:
            wanted = reference(m, given)
        except Exception:  # nothing does not broadcast with three
            with pytest.raises(InputError, match="sizes that do not fit"):
                run(exe, given)
            continue
        np.testing.assert_allclose(run(exe, given)[0], wanted[0], rtol=1e-6)


def test_an_element_that_is_read_has_to_exist() -> None:
    """A gathered one, and one that loses its dimension."""
    for nodes in (
        [node("Gather", ["x", "first"], ["y"], axis=1)],
        [node("Slice", ["x", *FIRST], ["v"]), node("Squeeze", ["v", "one"], ["y"])],
    ):
        exe = smelt.compile(model(nodes, {"x": (["b", "t", 4], F32)}, ["y"], constants=ENDS))
        with pytest.raises(InputError, match=r"needs max\(1, t\) = t"):
            exe(random(2, 0, 4))


def test_a_size_that_is_never_zero_has_no_variant() -> None:
    m = model([node("Slice", ["x", *FIRST], ["y"])], {"x": (["t", 4, 4], F32)}, ["y"],
              constants={**ENDS, "a": ints(0)})  # fmt: skip
    assert str(smelt.compile(m).outputs[0].shape) == "('select(t == 0, 0, 1)', 4, 4)"
    exe = smelt.compile(m, shapes={"x": (smelt.Size("t", min=1), 4, 4)})
    assert exe.outputs[0].shape == (1, 4, 4)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_a_border_of_nothing_is_refused(mode: str) -> None:
    """What is left after cutting is repeated: nothing cannot be."""
    known = {"p": ints(-3, 2)}
    for extent in (3, "n"):
        m = model([node("Pad", ["x", "p"], mode=mode)], {"x": ([extent], F32)}, constants=known,
                  opset=19)  # fmt: skip
        with pytest.raises(SmeltError, match=r"repeats its elements|needs max\(n - 3, 1\)"):
            smelt.compile(m)(random(3))


@pytest.mark.parametrize(
    "condition", [[True], [True, True], [False, True], [True, False, True, True], [False, False]]
)
def test_compress_of_fewer_elements_than_conditions(condition: list[bool]) -> None:
    known = {"c": np.array(condition)}
    for extent in ("n", 1, 2, 3):
        m = model([node("Compress", ["x", "c"], axis=1)], {"x": (["b", extent], F32)},
                  constants=known)  # fmt: skip
        exe = smelt.compile(m)
        for n in (extent,) if isinstance(extent, int) else (0, 1, 2, 4):
            x = random(2, n)
            np.testing.assert_array_equal(run(exe, {"x": x})[0], reference(m, {"x": x})[0])
