"""Models that nobody means: sizes, counts and loops that cannot be, and very large ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.ir.errors import ImportFailure, TypeMismatch, Unsupported
from smelt.relax.nodes import Call, Constant, Function, values
from smelt.relax.transform import simplify_graph
from smelt.runtime.errors import SmeltError
from tests.bad_input.conftest import message
from tests.frontend.models import model, node
from tests.models.compare import compiled

X = {"x": ((1, 1, 5, 5), "float32")}
KERNEL = {"w": np.ones((1, 1, 3, 3), np.float32)}


def of_proto(change: Any) -> onnx.ModelProto:
    """y = relu(x), changed."""
    made = model([node("Relu", ["x"], ["y"])], {"x": ((2, 3), "float32")}, outputs=["y"])
    change(made)
    return made


def window(op: str, **attrs: Any) -> onnx.ModelProto:
    operands = ["x"] if "Pool" in op else ["x", "w"]
    weights = {} if "Pool" in op else KERNEL
    return model([node(op, operands, ["y"], **attrs)], X, constants=weights)


def dim(made: onnx.ModelProto) -> None:
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -3


def huge(made: onnx.ModelProto) -> None:
    for d in made.graph.input[0].type.tensor_type.shape.dim:
        d.dim_value = 1 << 40


def weight(made: onnx.ModelProto, dims: list[int], raw: bytes = b"") -> None:
    proto = numpy_helper.from_array(np.ones(4, np.float32), "k")
    del proto.dims[:]
    proto.dims.extend(dims)
    proto.raw_data = raw or proto.raw_data
    made.graph.initializer.append(proto)


def constants(op: str, **arrays: Any) -> onnx.ModelProto:
    """x + reduce(op(constants))."""
    nodes = [
        node(op, list(arrays), ["c"]),
        node("ReduceMax", ["c"], ["r"], keepdims=0),
        node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
        node("Add", ["x", "f"], ["y"]),
    ]
    known = {k: np.asarray(v) for k, v in arrays.items()}
    return model(nodes, {"x": ((2,), "float32")}, constants=known)


def calls(*edges: tuple[str, str]) -> onnx.ModelProto:
    """A node of the first function; each calls the other."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function(
            "own", a, ["p"], ["q"], [helper.make_node(b, ["p"], ["q"], domain="own")], opsets
        )
        for a, b in edges
    ]
    graph = model([node("Relu", ["x"], ["y"])], {"x": ((2,), "float32")}, outputs=["y"]).graph
    graph.node[0].domain, graph.node[0].op_type = "own", edges[0][0]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)


big = 1 << 40
REFUSED: dict[str, tuple[type[SmeltError], onnx.ModelProto, str]] = {
    "an extent below 0": (
        ImportFailure, of_proto(dim),
        "input 'x' has the extent -3 in dimension 1; 0 or more is legal, or a name for a size "
        "that is not known",
    ),
    "more than memory can be": (
        ImportFailure, of_proto(huge),
        "the input 'x' of the shape (1099511627776, 1099511627776) and type float32 is larger "
        "than 140737488355328 bytes",
    ),
    "no outputs": (
        ImportFailure, of_proto(lambda m: m.graph.ClearField("output")), "the model has no outputs",
    ),
    "an output twice": (
        ImportFailure, of_proto(lambda m: m.graph.output.append(m.graph.output[0])),
        "the result 'y' is defined twice",
    ),
    "a weight below 0": (
        ImportFailure, of_proto(lambda m: weight(m, [-1, -4])),
        "tensor 'k' has the shape (-1, -4); legal: at most 32 dimensions of 0 or more",
    ),
    "a product that wraps to 0": (
        ImportFailure, of_proto(lambda m: weight(m, [1 << 32, 1 << 32])),
        "tensor 'k' holds 16 bytes, its shape (4294967296, 4294967296) of float32 needs "
        "73786976294838206464",
    ),
    "padding that leaves nothing": (
        TypeMismatch, window("Conv", pads=[-3, -3, -3, -3]),
        "node 'conv_y' (Conv-11): conv2d: spatial dimension 0: the kernel covers 3 pixels, the "
        "padded image has 0",
    ),
    "padding of a transposed convolution": (
        TypeMismatch, window("ConvTranspose", pads=[9, 9, 9, 9]),
        "node 'convtranspose_y' (ConvTranspose-11): conv_transpose: spatial dimension 0: the "
        "padding leaves -11 of the result's pixels",
    ),
    "an empty kernel": (
        TypeMismatch, window("MaxPool", kernel_shape=[0, 3]),
        "node 'maxpool_y' (MaxPool-12): max_pool: kernel=(0, 3); every number has to be at least 1",
    ),
    "a large kernel": (
        TypeMismatch, window("MaxPool", kernel_shape=[7, 7]),
        "node 'maxpool_y' (MaxPool-12): max_pool: spatial dimension 0: the kernel covers 7 pixels, "
        "the padded image has 5",
    ),
    "a large result": (
        ImportFailure, window("Conv", pads=[big, big, big, big]),
        "node 'conv_y' (Conv-11): a result of the shape (1, 1, 2199023255555, 2199023255555) and "
        "type float32 is larger than 140737488355328 bytes",
    ),
    "a name that is no text": (
        ImportFailure,
        onnx.load_from_string(
            of_proto(lambda m: None).SerializeToString().replace(b"relu_y", b"relu\xff_")
        ),
        "the name b'relu\\xff_' is no text in UTF-8",
    ),
    "a function that calls itself": (
        ImportFailure, calls(("f", "f")), "node 'relu_y/q': the function 'own.f' calls itself",
    ),
    "functions that call each other": (
        ImportFailure, calls(("f", "g"), ("g", "f")),
        "node 'relu_y/q/q': the function 'own.f' calls itself",
    ),
    "repeats below 0": (
        ImportFailure, constants("Tile", k=np.ones(1, np.float32), n=[-2]),
        "node 'tile_c' (Tile-13): repeats has the extent -2 in dimension 0; 0 or more is legal",
    ),
    "a shape below 0": (
        ImportFailure, constants("ConstantOfShape", s=[-2]),
        "node 'constantofshape_c' (ConstantOfShape-9): the shape has the extent -2 in dimension 0; "
        "0 or more is legal",
    ),
    "an endless range": (
        ImportFailure, constants("Range", a=np.float32(0), b=np.float32(np.inf), d=np.float32(1)),
        "node 'range_c' (Range-11): start=0.0, limit=inf, delta=1.0: finite numbers, delta not 0",
    ),
    "a table that only the importer can make": (
        Unsupported,
        constants("MelWeightMatrix", b=np.int64(1 << 16), n=np.int64(1 << 20), rate=np.int64(8000),
                  low=np.float32(0), high=np.float32(4000)),
        "node 'melweightmatrix_c' (MelWeightMatrix-17): weights of the shape (524289, 65536)\n"
        "  supported: up to 2097152 elements",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_is_refused(kind: str) -> None:
    error, proto, text = REFUSED[kind]
    said = message(error, lambda: from_onnx(proto.SerializeToString(), name="m"))
    assert said.removeprefix("m: ") == text


def test_functions_written_out_are_bounded() -> None:
    deep = calls(*[(f"f{n}", f"f{n + 1}") for n in range(80)])
    said = message(Unsupported, lambda: from_onnx(deep.SerializeToString()))
    assert said.endswith("the function 'own.f64' is nested too deeply\n  supported: 64 levels")


def test_external_data_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(bytes(24))

    def said(**entries: object) -> str:
        made = of_proto(lambda m: weight(m, [6]))
        made.graph.node[0].input[0] = "k"
        proto = made.graph.initializer[0]
        proto.ClearField("raw_data")
        proto.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            proto.external_data.add(key=key, value=str(value))
        (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
        text = message(ImportFailure, lambda: from_onnx(tmp_path / "m.onnx"))
        start = "m.onnx: tensor 'k' lies in the external file 'w', "
        assert text.startswith(start)
        return text.removeprefix(start)

    assert said(location="w", offset="x") == "at an offset or of a length that is no number"
    assert said(location="w", length=1 << 60) == (
        "of 1152921504606846976 bytes; its shape (6,) of float32 needs 24"
    )
    assert said(location="w", offset=4) == ("which is too short: 24 bytes, bytes 4 to 28 needed")
    assert said(location="w", offset=-4).startswith("which is too short")


# ------------------------------------------------------------------------------ large constants

FILL = np.array([1 << 13, 1 << 12])
SMALL = np.ones((1, 2), np.float32)
LARGE: dict[str, onnx.ModelProto] = {
    "ConstantOfShape": constants("ConstantOfShape", s=FILL),
    "Range": constants("Range", a=np.int64(0), b=np.int64(1 << 40), d=np.int64(1 << 15)),
    "Tile": constants("Tile", k=SMALL, s=FILL),
    "Expand": constants("Expand", k=SMALL[:, :1], s=FILL),
    "Pad": constants("Pad", k=SMALL, s=[0, 0, 1 << 13, 1 << 12]),
    "Gather": constants("Gather", k=np.ones((1, 4096), np.float32), i=np.zeros(1 << 13, "i8")),
    "Mul": constants("Mul", a=np.ones((1, 4096), np.float32), b=np.ones((4096, 1), np.float32)),
    "OneHot": constants("OneHot", i=np.arange(100), n=np.int64(1 << 20), v=np.array([0, 1], "f4")),
}


@pytest.mark.parametrize("op", LARGE)
def test_large_constants_are_left_to_kernels(op: str, tmp_path: Path) -> None:
    graph = simplify_graph(from_onnx(LARGE[op].SerializeToString()))["main"]
    assert isinstance(graph, Function)
    made = [v.data.nbytes for v in values(graph.body) if isinstance(v, Constant)]
    assert sum(made) < 1 << 20


@pytest.mark.parametrize("op", ["ConstantOfShape", "Range", "Gather"])
def test_what_was_left_is_right(op: str, tmp_path: Path) -> None:
    exe = compiled(LARGE[op], str(tmp_path))
    want = {"ConstantOfShape": 0.0, "Range": float((1 << 40) - (1 << 15)), "Gather": 1.0}[op]
    np.testing.assert_array_equal(
        exe(np.zeros(2, np.float32)).numpy(), np.full(2, want, np.float32)
    )


def test_an_eye_of_any_size_is_right(tmp_path: Path) -> None:
    nodes = [
        node("ConstantOfShape", ["s"], ["c"]), node("EyeLike", ["c"], ["e"], k=1),
        node("ReduceSum", ["e"], ["r"], keepdims=0), node("Add", ["x", "r"], ["y"]),
    ]  # fmt: skip
    made = model(nodes, {"x": ((2,), "float32")}, constants={"s": np.array([1 << 12, 1 << 11])})
    y = compiled(made, str(tmp_path))(np.zeros(2, np.float32)).numpy()
    np.testing.assert_array_equal(y, np.full(2, 2047, np.float32))


def test_products_of_constants_that_take_long_are_left() -> None:
    def products(side: int) -> int:
        nodes = [
            node("MatMul", ["k", "k"], ["c"]),
            node("ReduceMax", ["c"], ["r"], keepdims=0),
            node("Add", ["x", "r"], ["y"]),
        ]
        weights = {"k": np.ones((side, side), np.float32)}
        made = model(nodes, {"x": ((2,), "float32")}, constants=weights)
        main = simplify_graph(from_onnx(made))["main"]
        assert isinstance(main, Function)
        return sum(isinstance(v, Call) and v.callee == "matmul" for v in values(main.body))

    assert products(64) == 0
    assert products(2048) == 1


# ------------------------------------------------------------------------------------- chains


def test_a_chain_of_ten_thousand_nodes_compiles(tmp_path: Path) -> None:
    """Convolutions, additions, functions that are written out as arithmetic, a reshape."""
    names = ["x"]
    nodes = []
    for n in range(10_000):
        op = ("Add", "Tanh", "Neg", "Exp", "Relu")[n % 5]
        operands = [names[-1], "x"] if op == "Add" else [names[-1]]
        nodes.append(helper.make_node(op, operands, [f"v{n}"], name=f"n{n}"))
        names.append(f"v{n}")
    made = model(nodes, {"x": ((1, 4), "float32")}, outputs=[names[-1]])
    x = np.linspace(-1, 1, 4, dtype=np.float32)[None]
    y = compiled(made, str(tmp_path))(x).numpy()
    want = x.astype(np.float64)
    for n in range(10_000):
        v = want if n else x.astype(np.float64)
        want = [v + x, np.tanh(v), -v, np.exp(v), np.maximum(v, 0)][n % 5]
    np.testing.assert_allclose(y, want, rtol=1e-4)


@pytest.mark.parametrize("op", ["Exp", "Cos", "Atanh", "Elu", "Where"])
def test_long_groups_of_functions_written_out(op: str, tmp_path: Path) -> None:
    """Deep expressions: Python's stack stays low."""
    nodes, last = [], "x"
    for n in range(48):
        operands = ["b", last, "x"] if op == "Where" else [last]
        nodes += [node(op, operands, [f"w{n}"]), node("Neg", [f"w{n}"], [f"v{n}"])]
        last = f"v{n}"
    weights = {"b": np.array([True, False])} if op == "Where" else {}
    made = model(nodes, {"x": ((3, 2), "float32")}, [last], weights)
    exe = compiled(made, str(tmp_path))
    assert np.isfinite(exe(np.full((3, 2), 0.1, np.float32)).numpy()).all()


def test_a_concat_of_many_operands(tmp_path: Path) -> None:
    count = 300
    nodes = [node("Mul", ["x", f"k{n}"], [f"v{n}"]) for n in range(count)]
    nodes.append(node("Concat", [f"v{n}" for n in range(count)], ["y"], axis=0))
    weights = {f"k{n}": np.array(n, np.float32) for n in range(count)}
    made = model(nodes, {"x": ((1, 2), "float32")}, ["y"], weights)
    x = np.array([[1.0, 2.0]], np.float32)
    want = np.arange(count, dtype=np.float32)[:, None] * x
    np.testing.assert_array_equal(compiled(made, str(tmp_path))(x).numpy(), want)


def test_the_text_of_a_long_graph_is_read_again() -> None:
    nodes = [node("Neg", ["x" if n == 0 else f"v{n - 1}"], [f"v{n}"]) for n in range(10_000)]
    made = from_onnx(model(nodes, {"x": ((2,), "float32")}, outputs=["v9999"]))
    again = smelt.script.parse(str(made))
    assert smelt.ir.structural_equal(made, again)
