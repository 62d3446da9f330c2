"""What is wrong with a model, said in full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from smelt.frontend.onnx import NeedsValues, from_onnx
from smelt.ir.errors import ImportFailure, SmeltError, TypeMismatch, Unsupported

from .models import model, node, random

X = {"x": ((1, 3, 8, 8), "float32")}
LAST = onnx.defs.onnx_opset_version()


def fails(made: object, kind: type[SmeltError], text: str, **options: Any) -> None:
    with pytest.raises(kind) as caught:
        from_onnx(made, name="m.onnx", **options)
    assert type(caught.value) is kind
    assert str(caught.value) == text


def relu(**changes: Any) -> onnx.ModelProto:
    return model([node("Relu", ["x"])], X, **changes)


# ---------------------------------------------------------------------------------------- files


def test_a_missing_file(tmp_path: Path) -> None:
    fails(tmp_path / "no.onnx", ImportFailure, f"{tmp_path}/no.onnx: no such file")


def test_a_directory(tmp_path: Path) -> None:
    fails(tmp_path, ImportFailure, f"{tmp_path}: is a directory; give the .onnx file in it")


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"")
    fails(tmp_path / "a.onnx", ImportFailure, "m.onnx: the file is empty")


def test_a_truncated_file() -> None:
    data = relu().SerializeToString()
    for cut in range(1, len(data)):
        with pytest.raises(SmeltError):
            from_onnx(data[:cut])
    half = data[: len(data) // 2]
    fails(
        half,
        ImportFailure,
        f"m.onnx: not an ONNX model, or a truncated one ({len(half)} bytes that do not "
        "parse as ModelProto)",
    )


def test_something_else() -> None:
    fails(
        b"# a text\n",
        ImportFailure,
        "m.onnx: not an ONNX model, or a truncated one (9 bytes that do not parse as ModelProto)",
    )
    fails(onnx.ModelProto(), ImportFailure, "m.onnx: not an ONNX model (it has no graph)")
    fails(3, ImportFailure, "an ONNX model is a path, bytes or an onnx.ModelProto, not int")


def external(tmp_path: Path, location: str, length: int | None = None) -> Path:
    m = model([node("Add", ["x", "w"])], {"x": ((4,), "float32")}, constants={"w": random(4)})
    t = m.graph.initializer[0]
    t.ClearField("raw_data")
    t.data_location = TensorProto.EXTERNAL
    t.external_data.add(key="location", value=location)
    path = tmp_path / "m.onnx"
    path.write_bytes(m.SerializeToString())
    if length is not None:
        (tmp_path / location).write_bytes(random(4).tobytes()[:length])
    return path


def test_external_data(tmp_path: Path) -> None:
    f = from_onnx(external(tmp_path, "w.bin", 16))["main"]
    np.testing.assert_array_equal(f.body.args[1].data, random(4))
    path = external(tmp_path, "w.bin", 10)
    what = "m.onnx: tensor 'w' lies in the external file "
    fails(path, ImportFailure, what + "'w.bin', which is too short: 10 bytes, bytes 0 to 16 needed")
    (tmp_path / "w.bin").unlink()
    fails(path, ImportFailure, what + "'w.bin', which does not exist")
    fails(
        onnx.load(path, load_external_data=False),
        ImportFailure,
        what + "'w.bin', but the model was not given as a path",
    )
    fails(
        external(tmp_path, "../w.bin"),
        ImportFailure,
        what + "'../w.bin', which is not below the model's folder",
    )


def test_a_tensor_of_the_wrong_length() -> None:
    m = model([node("Add", ["x", "w"])], X, constants={"w": random(4)})
    m.graph.initializer[0].raw_data = b"123"
    fails(m, ImportFailure, "m.onnx: tensor 'w' holds 3 bytes, its shape (4,) of float32 needs 16")


# ------------------------------------------------------------------------------------ operators


def test_opsets() -> None:
    fails(relu(opset=99), Unsupported, f"m.onnx: opset 99\n  supported: 1 to {LAST}")
    fails(relu(opset=999), Unsupported, f"m.onnx: opset 999\n  supported: 1 to {LAST}")
    m = relu()
    m.opset_import[0].domain = "com.acme"
    fails(
        m,
        ImportFailure,
        "m.onnx: the node 'relu_y' uses the operator Relu, but the model imports no opset for "
        "the domain ai.onnx",
    )


def test_all_unknown_operators_at_once() -> None:
    nodes = [
        node("Frob", ["x"], ["a"]),
        node("Frob", ["a"], ["b"]),
        node("Widget", ["b", "b"], ["c"]),
        node("Gadget", ["c"], ["y"], domain="com.acme"),
        node("Frob", ["x"], ["dead"]),
    ]
    fails(
        model(nodes, X),
        Unsupported,
        "m.onnx: 3 operators not supported\n"
        "  Frob (not in ai.onnx 18): 2 nodes ('frob_a', 'frob_b')\n"
        "  Widget (not in ai.onnx 18): 1 node ('widget_c')\n"
        "  com.acme.Gadget (not in any opset the model imports for 'com.acme'): "
        "1 node ('gadget_y')\n"
        "  operators of your own: smelt.compile(operators={'com.acme.Gadget': ...})",
    )


def test_an_unknown_mode() -> None:
    up = node("Resize", ["x", "", "s"], mode="linear", keep_aspect_ratio_policy="sometimes")
    fails(
        model([up], X, constants={"s": np.ones(4, np.float32)}),
        Unsupported,
        "m.onnx: node 'resize_y' (Resize-18): keep_aspect_ratio_policy='sometimes'\n"
        "  supported: stretch, not_larger, not_smaller",
    )
    pool = node("MaxPool", ["x"], kernel_shape=[2, 2], auto_pad="MAYBE")
    fails(
        model([pool], X),
        Unsupported,
        "m.onnx: node 'maxpool_y' (MaxPool-12): auto_pad='MAYBE'\n"
        "  supported: NOTSET, SAME_UPPER, SAME_LOWER, VALID",
    )


def test_attributes() -> None:
    fails(
        model([node("Relu", ["x"], slope=0.5)], X),
        Unsupported,
        "m.onnx: node 'relu_y' (Relu-14): attribute slope=0.5\n  supported: no attributes",
    )
    fails(
        model([node("Concat", ["x", "x"], axis=1.5)], X),
        ImportFailure,
        "m.onnx: node 'concat_y' (Concat-13): attribute axis=1.5 is no int",
    )
    fails(
        model([node("Concat", ["x", "x"])], X),
        ImportFailure,
        "m.onnx: node 'concat_y' (Concat-13): the attribute 'axis' is missing",
    )


def test_operands() -> None:
    fails(
        model([node("Conv", ["x"])], X),
        ImportFailure,
        "m.onnx: node 'conv_y' (Conv-11): the operand 'w' (number 1) is missing",
    )
    fails(
        model([node("Relu", ["x", "x"])], X),
        Unsupported,
        "m.onnx: node 'relu_y' (Relu-14): operand 'x' (number 1)\n  supported: x",
    )
    fails(
        model([node("ReduceSum", ["x", "s"])], {**X, "s": ((2,), "int64")}),
        NeedsValues,
        "m.onnx: node 'reducesum_y' (ReduceSum-13): the operand 'axes' depends on "
        "the values of the inputs\n"
        "  supported: constants and values computed from shapes; or values={'s': ...}",
    )
    fails(
        model([node("Add", ["x", "w"])], X, constants={"w": random(5)}),
        TypeMismatch,
        "m.onnx: node 'add_y' (Add-14): add: a [1, 3, 8, 8] and b [5] do not broadcast: "
        "extents 8 and 5 of "
        "dimension -1 have to be equal or 1",
    )


def test_results() -> None:
    two = node("Abs", ["x"], ["a", "i"])
    fails(
        model([two, node("Relu", ["i"])], X),
        Unsupported,
        "m.onnx: node 'abs_a' (Abs-13): the result 'i' (number 1) is used\n"
        "  supported: the first 1",
    )
    from_onnx(model([two], X, ["a"]))


# --------------------------------------------------------------------------------------- graphs


def test_names() -> None:
    fails(
        model([node("Add", ["x", "lost"])], X),
        ImportFailure,
        "m.onnx: the node 'add_y' (Add) reads 'lost', which nothing defines",
    )
    fails(
        model([node("Relu", ["x"], ["z"])], X),
        ImportFailure,
        "m.onnx: the result 'y' is defined by nothing",
    )
    fails(
        model([node("Relu", ["x"]), node("Exp", ["x"])], X),
        ImportFailure,
        "m.onnx: the value 'y' is defined twice: by the node 'exp_y' (Exp) "
        "and by the node 'relu_y'",
    )
    fails(
        model([node("Relu", ["x"], ["x"])], X, ["x"]),
        ImportFailure,
        "m.onnx: the value 'x' is defined twice: by the node 'relu_x' (Relu) and by an input",
    )
    twice = relu(constants={"w": random(1)})
    twice.graph.initializer.append(numpy_helper.from_array(random(2), "w"))
    fails(twice, ImportFailure, "m.onnx: the initializer 'w' is defined twice")


def test_a_cycle() -> None:
    nodes = [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Exp", ["b"])]
    fails(
        model(nodes, X),
        ImportFailure,
        "m.onnx: the graph has a cycle through the node 'add_a' (Add)",
    )


def test_the_order_of_nodes_does_not_matter() -> None:
    mod = from_onnx(model([node("Relu", ["a"]), node("Exp", ["x"], ["a"])], X))
    assert mod["main"].body.op.name == "relu"


# --------------------------------------------------------------------------------------- inputs


def with_input(t: onnx.TypeProto) -> onnx.ModelProto:
    m = relu()
    m.graph.input[0].type.CopyFrom(t)
    return m


def test_inputs_that_are_no_tensors() -> None:
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
    optional = helper.make_optional_type_proto(sequence)
    for t, what in (
        (sequence, "a sequence"),
        (optional, "an optional sequence"),
        (onnx.TypeProto(), "without a type"),
    ):
        text = (
            f"m.onnx: the input 'x' is no tensor, but {what}: its structure has to be known when "
            "the model is compiled"
        )
        fails(with_input(t), NeedsValues, text)
    with pytest.raises(Unsupported, match="input 'x' has the element type COMPLEX64"):
        from_onnx(with_input(helper.make_tensor_type_proto(TensorProto.COMPLEX64, (1,))))


def test_shapes() -> None:
    m = relu()
    fails(
        m,
        TypeMismatch,
        "m.onnx: shapes names 'z', which is no input\n  inputs: x",
        shapes={"z": (1,)},
    )
    fails(
        m,
        TypeMismatch,
        "m.onnx: shapes gives the input 'x' 2 dimensions, the file 4: (1, 3, 8, 8)",
        shapes={"x": (1, 2)},
    )
    fails(
        m,
        TypeMismatch,
        "m.onnx: shapes gives the input 'x' the extent -1; legal: numbers from 0, names, "
        "expressions",
        shapes={"x": (1, 3, -1, 8)},
    )
    free = model([node("Relu", ["x"])], {"x": (None, "float32")})
    fails(
        free,
        NeedsValues,
        "m.onnx: the input 'x' has no shape in the file; give one: shapes={'x': (...)}",
    )
    assert from_onnx(free, {"x": (2, "n")})["main"].params[0].type.rank == 2


@pytest.mark.parametrize(
    ("equation", "said"),
    [
        ("ij->ij", "names 1 tensors, 2 are given"),
        ("ij,jk->ik", ": j is 3 and 4"),
        ("ij,k1->ik", ": tensor 1 is 'k1'; one letter for each of its 2 dimensions is legal"),
        ("ij,kl->ii", ": the result 'ii' needs letters of the tensors, each once"),
    ],
)
def test_equations(equation: str, said: str) -> None:
    inputs = {"x": ((2, 3), "float32"), "w": ((4, 5), "float32")}
    m = model([node("Einsum", ["x", "w"], equation=equation)], inputs)
    apart = "" if said.startswith(":") else " "
    fails(
        m, TypeMismatch, f"m.onnx: node 'einsum_y' (Einsum-12): equation={equation!r}{apart}{said}"
    )


def test_everything_at_once() -> None:
    nodes = [
        node("Cauchy", ["x"], ["a"]),
        node("Cauchy", ["a"], ["b"]),
        node("NonZero", ["s"], ["c"]),
        node("Relu", ["b"], ["d"]),
        node("Slice", ["x", "s", "s", "", "c"], ["e"]),
        node("GroupNormalization", ["x"], ["f"], epsilon="small", num_groups=1),
    ]
    nodes[5] = node("DepthToSpace", ["x"], ["f"], blocksize=2, mode="XYZ")
    fails(
        model([*nodes, nodes[5]][:6], {**X, "s": ((), "int64")}, ["d", "c", "f"]),
        Unsupported,
        "m.onnx: 3 things not supported\n"
        "  Cauchy (not in ai.onnx 18): 2 nodes ('cauchy_a', 'cauchy_b')\n"
        "  DepthToSpace-13: 1 node ('depthtospace_f'): mode='XYZ'\n"
        "    supported: DCR, CRD\n"
        "  NonZero-13: 1 node ('nonzero_c'): an operand without dimensions\n"
        "    supported: one dimension or more",
    )


def test_a_branch_that_reads_what_could_not_be_imported_is_passed_over() -> None:
    made = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 18]>
        m (float[1, 3, n, 8] x, bool c) => (float[1, 3, a, b] y) {
            p = MaxPool <kernel_shape=[3, 3], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1> (x)
            y = If (c) <then_branch = t () => (float[1, 3, a, b] u) { u = Clip (p) },
                        else_branch = e () => (float[1, 3, a, b] v) { v = Neg (p) }>
        }""")
    with pytest.raises(Unsupported, match="ceil_mode=1 of a symbolic size") as caught:
        from_onnx(made)
    assert "Clip" not in str(caught.value)
