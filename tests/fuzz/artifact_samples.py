"""Small artifacts of every form, each with a call and its answer."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import smelt
from smelt import byoc, relay, te
from smelt.runtime import linking
from smelt.runtime.compilers import find_compiler
from tests.byoc.support import NAME, affine, registered

from .artifact_child import BACK_END, external_loader

__all__ = ["make_samples"]

assert NAME == BACK_END
Array = np.ndarray[Any, Any]
F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = np.linspace(-2, 2, 12).reshape(3, 4).astype("float32")


def _graph(nodes: Any, inputs: Any, outputs: Any, **constants: Array) -> onnx.GraphProto:
    given, made = (
        [helper.make_tensor_value_info(*v) for v in values] for values in (inputs, outputs)
    )
    held = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    return helper.make_graph(nodes, "sample", given, made, held)


def _compiled(graph: onnx.GraphProto) -> Any:
    opset = [helper.make_opsetid("", 17)]
    return smelt.compile(helper.make_model(graph, opset_imports=opset, ir_version=8))


def _constants() -> Any:
    """y = x[:, places] * w + b, where places are constants that say where to read."""
    nodes = [
        helper.make_node("Gather", ["x", "places"], ["g"], axis=1),
        helper.make_node("MatMul", ["g", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["y"]),
    ]
    places = np.array([3, 0, 2, 1], np.int64)
    w = np.arange(16, dtype="float32").reshape(4, 4)
    ends = [("x", F32, [3, 4])], [("y", F32, [3, 4])]
    return _compiled(_graph(nodes, *ends, places=places, w=w, b=X[0]))


def _sizes() -> Any:
    """Two symbolic sizes, and an extent that is an expression of them."""
    nodes = [
        helper.make_node("Concat", ["x", "y"], ["both"], axis=0),
        helper.make_node("Mul", ["both", "w"], ["z"]),
    ]
    ends = [("x", F32, ["n", 4]), ("y", F32, ["m", 4])], [("z", F32, ["k", 4])]
    return _compiled(_graph(nodes, *ends, w=X[1]))


def _control() -> Any:
    """x + 1, n times, or x * x."""
    turn = [
        helper.make_node("Add", ["a", "one"], ["b"]),
        helper.make_node("Identity", ["go"], ["on"]),
    ]
    state = [("i", I64, []), ("go", BOOL, []), ("a", F32, [3])]
    body = _graph(turn, state, [("on", BOOL, []), ("b", F32, [3])])
    loop = helper.make_node("Loop", ["n", "", "x"], ["l"], body=body)
    product = helper.make_node("Mul", ["x", "x"], ["p"])
    branches = {
        "then_branch": _graph([loop], [], [("l", F32, [3])]),
        "else_branch": _graph([product], [], [("p", F32, [3])]),
    }
    node = helper.make_node("If", ["c"], ["y"], **branches)
    ends = [("c", BOOL, []), ("n", I64, []), ("x", F32, [3])], [("y", F32, [3])]
    return _compiled(_graph([node], *ends, one=np.ones(3, np.float32)))


def _lists() -> Any:
    """The sum of x * x as many times as there are ones, by data types: Python runs it."""
    p = relay.prelude.Prelude()
    x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(3,))
    squared = relay.Function([y], relay.multiply(y, y))
    held = p.map(squared, p.cons(x, p.cons(relay.add(x, x), p.nil())))
    z, t = relay.var("z", shape=(3,)), relay.var("t", shape=(3,))
    add = relay.Function([t, z], relay.add(t, z))
    p.mod["main"] = relay.Function([x], p.foldl(add, relay.const(np.zeros(3, "float32")), held))
    return smelt.compile(p.mod)


def _program() -> Any:
    """b = a * 2, a tensor program."""
    a = te.placeholder((te.var("n"), 4), "float32", "a")
    b = te.compute(a.shape, lambda i, j: a[i, j] * 2.0, name="b")
    return smelt.build(te.create_schedule(b.op), [a, b])


def _external(path: Path, **options: Any) -> None:
    """A part that Python code runs, with a constant of its own."""
    with registered():
        constants = {"one": np.ones(4, np.float32)}
        byoc.register_codegen(NAME)(lambda *_: byoc.Json("{}", constants))
        smelt.runtime.register_runtime(NAME)(external_loader)
        smelt.compile(affine()).export_library(path, **options)


def linker(folder: Path, coverage: bool) -> Callable[..., None]:
    """Links with one runtime, compiled to a folder, where it may count the lines that are run."""
    count = ["--coverage", "-O0"] if coverage else []

    def link(output: str, files: list[str], options: list[str]) -> None:
        cc, objects = find_compiler(None), []
        flags = [o for o in options if not o.startswith(("-l", "-Wl"))]
        for file in map(Path, files):
            runtime = file.suffix == ".c" and file.name != "model.c"
            made = folder / f"{file.stem}.o" if runtime else file.with_suffix(".o")
            if file.suffix == ".c" and not (runtime and made.exists()):
                more = count if runtime else []
                command = [*cc, *flags, *more, "-c", str(file), "-o", str(made)]
                subprocess.run(command, check=True)
            objects.append(str(made))
        others = [o for o in options if o not in flags]
        subprocess.run([*cc, "-shared", *count, *objects, "-o", output, *others], check=True)

    return link


def make_samples(folder: Path, runtime: Path, coverage: bool = False) -> None:
    """Writes the artifacts and their calls to a folder.

    runtime   where the runtime is compiled to
    coverage  it counts the lines that are run
    """
    options = {"fcompile": linker(runtime, coverage)}
    constants, sizes, control = _constants(), _sizes(), _control()
    constants.export_library(folder / "constants.so", **options)
    constants.export_library(folder / "linked.tar", cc=find_compiler(None))
    constants.export_library(folder / "objects.tar")
    most = linking._SIDECAR_BYTES
    try:
        linking._SIDECAR_BYTES = 0
        constants.export_library(folder / "aside.so", **options)
    finally:
        linking._SIDECAR_BYTES = most
    sizes.export_library(folder / "sizes.so", **options)
    _program().export_library(folder / "program.so", **options)
    _external(folder / "external.so", **options)
    control.export_library(folder / "control.vm")
    _lists().export_library(folder / "lists.vm")
    one = np.ones(4, np.float32)
    want = X[:, [3, 0, 2, 1]] @ np.arange(16, dtype="float32").reshape(4, 4) + X[0]
    calls = dict.fromkeys(("constants.so", "linked.tar", "objects.tar", "aside.so"), ([X], want))
    calls["sizes.so"] = [X, X[:2]], np.concatenate([X, X[:2]]) * X[1]
    calls["program.so"] = [X, np.zeros_like(X)], X * 2
    calls["external.so"] = [X], np.tanh(np.maximum(X, 0) ** 2 + np.linspace(0, 1, 4)) * 2
    given = [np.array(True), np.array(3), one[:3]]
    calls["control.vm"] = given, one[:3] * 4
    calls["lists.vm"] = [one[:3]], one[:3] * 5
    for name, (inputs, answer) in calls.items():
        np.savez(folder / f"{name}.npz", *inputs, answer)
