"""What a written model is as a whole: names, bytes, files, branches, errors, and the ways to it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import smelt
from smelt import relay
from smelt.cli.commands import app
from smelt.cli.console import UsageError
from smelt.contrib.target import onnx as classic
from smelt.frontend.onnx import from_onnx, write
from smelt.frontend.onnx.write import save, to_onnx
from smelt.ir.errors import CompileError, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.types import TupleType, tensor_type
from smelt.relax.nodes import Function, If, RelaxExpr, Tuple, Var, call, constant
from smelt.relax.transform.canonicalize import simplify_graph
from smelt.runtime.errors import ExportError
from tests.frontend.models import model, node
from tests.models import control_nets, conv_nets, transformers
from tests.relay.support import small

from .written import agree, checked, operators, runtime

X = Var("x", tensor_type((2, 3), "float32"))
ONES = np.ones((2, 3), np.float32)


def module(y: RelaxExpr, *params: Var, **attrs: Any) -> IRModule:
    return IRModule({"main": Function(params or (X,), y, attrs)})


# -------------------------------------------------------------------------------- names, bytes


def test_the_same_module_gives_the_same_bytes() -> None:
    for build in (conv_nets.mobilenet, transformers.llama):
        given = build("n")
        texts = set()
        for _ in range(2):
            mod = simplify_graph(from_onnx(given))
            texts |= {to_onnx(mod).SerializeToString(deterministic=True) for _ in range(2)}
        assert len(texts) == 1


def test_names_are_kept_and_are_there_once() -> None:
    a = call("relu", X, name="layer")
    b = call("exp", a, name="layer")
    c = call("add", b, constant(ONES, "w"))
    d = call("multiply", c, constant(ONES * 2, "w"))
    made = checked(module(d, output_names=("layer",)))
    assert [(n.name, list(n.output)) for n in made.graph.node] == [
        ("layer", ["layer_1"]), ("layer_1", ["layer_1_1"]), ("Add", ["Add"]), ("Mul", ["layer"]),
    ]  # fmt: skip
    assert [t.name for t in made.graph.initializer] == ["w", "w_1"]


def test_a_constant_used_twice_is_one_initializer() -> None:
    w = np.random.default_rng(0).standard_normal((90, 3)).astype(np.float32)
    y = call("concat", call("matmul", X, constant(w), transpose_b=True),
             call("matmul", call("relu", X), constant(w), transpose_b=True), axis=0)  # fmt: skip
    assert len(checked(module(y)).graph.initializer) == 1


def test_results_may_be_inputs_constants_and_the_same_value() -> None:
    y = call("relu", X)
    made = checked(module(Tuple((X, y, y, constant(ONES * 4), call("add", y, y)))))
    names = [o.name for o in made.graph.output]
    assert names == ["output0", "output1", "output2", "output3", "output4"]
    got = runtime(made)({"x": -ONES})
    agree(got, [-ONES, 0 * ONES, 0 * ONES, 4 * ONES, 0 * ONES])


# ------------------------------------------------------------------------------------ branches


def test_a_branch_sees_the_values_around_it() -> None:
    go = Var("go", tensor_type((), "bool"))
    inner = call("exp", call("relu", X))
    other = Tuple((call("add", inner, X), X))
    t = TupleType((X.type, X.type))
    choice = If(go, Function((), Tuple((inner, call("negative", X)))), Function((), other), t)
    made = checked(module(Tuple((choice[0], choice[1], call("relu", X))), go, X))
    assert operators(made).count("If") == 1
    for taken in (True, False):
        got = runtime(made)({"go": np.array(taken), "x": ONES})
        first = np.exp(ONES) if taken else np.exp(ONES) + 1
        agree(got, [first, -ONES if taken else ONES, ONES])


# --------------------------------------------------------------------------------------- files


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    mod = module(call("relu", X))
    save(mod, tmp_path / "a.onnx", name="net")
    assert onnx.load(tmp_path / "a.onnx").graph.name == "net"
    with pytest.raises(ExportError, match="txt files cannot be written; legal: model"):
        save(mod, tmp_path / "a.txt")
    with pytest.raises(Unsupported):
        save(module(call("reinterpret", X, dtype="int32")), tmp_path / "b.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["a.onnx"]


def test_large_constants_lie_beside_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "APART", 10_000)
    w = np.random.default_rng(0).standard_normal((3, 1000)).astype(np.float32)
    made = smelt.to_onnx(module(call("matmul", X, constant(w, "w"))), tmp_path / "m.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    assert (tmp_path / "m.onnx").stat().st_size < 1000
    read = onnx.load(tmp_path / "m.onnx")
    assert read.graph.initializer[0].raw_data == made.graph.initializer[0].raw_data
    onnx.checker.check_model(tmp_path / "m.onnx")


# -------------------------------------------------------------------------------------- errors


def test_one_error_lists_everything_without_a_form() -> None:
    key = constant(np.zeros(10, np.uint64))
    draws = [call("threefry_split", key, name=f"draw{n}") for n in range(2)]
    y = call("reinterpret", X, dtype="int32", name="bits")
    with pytest.raises(Unsupported) as caught:
        to_onnx(module(Tuple((draws[0][0], draws[1][1], y))))
    assert str(caught.value) == (
        "to_onnx: 2 things without a form in ONNX, operator set 21\n"
        "  threefry_split: 2 nodes ('draw0', 'draw1'): ONNX has no such operator\n"
        "  reinterpret: 1 node ('bits'): BitCast comes with operator set 26\n"
        "  legal: tensors, operators that ONNX has or that are made of such, branches; "
        f"opset=11 to {write.NEWEST}"
    )
    assert operators(to_onnx(module(y), opset=26)) == ["BitCast"]


def test_a_loop_has_no_form() -> None:
    with pytest.raises(Unsupported, match="calls itself, or is a value: a loop that only the run"):
        to_onnx(from_onnx(control_nets.tiny_loop()))


@pytest.mark.parametrize("opset", [10, 99, "21", None])
def test_operator_sets_are_checked(opset: Any) -> None:
    said = f"to_onnx: opset={opset!r}; legal: 11 to {write.NEWEST}"
    with pytest.raises(CompileError, match=re.escape(said)):
        to_onnx(module(X), opset=opset)


def test_a_module_needs_a_main() -> None:
    f = Function((X,), X)
    with pytest.raises(CompileError, match="needs a graph function 'main'; it has: f, g"):
        to_onnx(IRModule({"f": f, "g": f}))


# ------------------------------------------------------------------------------------ the ways


def test_the_classic_face(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    made = classic.to_onnx(small(), {}, "net", opset_version=11, path=path)
    assert operators(made) == ["Conv", "Relu", "Mul"]
    assert made.graph.name == "net"
    assert onnx.load(path) == made
    x = relay.var("x", shape=(2, 3))
    w = relay.var("w", shape=(4, 3))
    f = relay.Function([x, w], relay.nn.softmax(relay.nn.dense(x, w)))
    made = classic.to_onnx(f, {"w": np.ones((4, 3), "float32")}, "f")
    assert [i.name for i in made.graph.input] == ["x"]
    agree(runtime(made)({"x": ONES}), [np.full((2, 4), 0.25, np.float32)])


def test_everything_that_compiles_is_written(tmp_path: Path) -> None:
    given = model([node("Relu", ["x"])], {"x": (("n", 3), np.float32)})
    onnx.save(given, tmp_path / "m.onnx")
    for source in (given, tmp_path / "m.onnx", from_onnx(given), from_onnx(given)["main"]):
        assert operators(smelt.to_onnx(source)) == ["Relu"]
    made = smelt.to_onnx(given, shapes={"x": (2, 3)}, opset=17, name="named")
    assert made.graph.name == "named"
    assert [d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim] == [2, 3]


def test_the_command(tmp_path: Path) -> None:
    onnx.save(model([node("Relu", ["x"])], {"x": (("n", 3), np.float32)}), tmp_path / "m.onnx")
    out = tmp_path / "out.onnx"
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "m.onnx"), "-o", str(out), "--opset",
                                    "17"])  # fmt: skip
    assert done.exit_code == 0, done.output
    assert onnx.load(out).opset_import[0].version == 17
    assert f"written to {out}: 1 nodes, weights 0.00 MB" in done.output.replace("\n", "")


def test_the_command_keeps_the_model(tmp_path: Path) -> None:
    source = tmp_path / "m.onnx"
    onnx.save(model([node("Relu", ["x"])], {"x": (("n", 3), np.float32)}), source)
    before = source.read_bytes()
    done = CliRunner().invoke(app, ["convert", str(source), "-o", str(source)])
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == f"--output {source} is the model itself; give another file"
    assert source.read_bytes() == before
