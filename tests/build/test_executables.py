"""One kind of object for users, whatever it takes to run a model."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type, cast

import numpy as np
import onnx
import pytest

import smelt
from smelt.ir.errors import CompileError, TypeMismatch
from smelt.ir.options import OptionValues
from smelt.ir.transform import PassContext
from smelt.model import Model
from smelt.runtime import Executable, ExportError, InputError, NativeExecutable, NDArray, Results
from smelt.runtime.vm import VMExecutable
from smelt.stages import stage_module

Make = Callable[..., onnx.ModelProto]
HEAD = '<ir_version: 8, opset_import: ["": 17]>'

STRAIGHT = """net (float[n, 3] x, float[n, 3] y) => (float[n, 3] total, float[n, 3] scaled)
    { total = Add (x, y)  scaled = Mul (x, y) }"""
DECIDING = """net (float[n, 3] x, float[n, 3] y) => (float[n, 3] total, float[n, 3] scaled) {
    some = ReduceSum <keepdims = 0> (x)  zero = Constant <value_float = 0.0> ()
    up = Greater (some, zero)
    total = If (up) <then_branch = a () => (float[n, 3] p) { p = Add (x, y) },
                     else_branch = b () => (float[n, 3] q) { q = Sub (x, y) }>
    scaled = Mul (x, y) }"""
LAZY = """net (float[n, 3] x, float[n, 3] y, int64[1] axes) => (float[m] total, float[n, 3] scaled)
    { total = ReduceSum <keepdims = 0> (x, axes)  scaled = Mul (x, y) }"""

X = np.arange(6, dtype="float32").reshape(2, 3) + 1
Y = np.full((2, 3), 2, "float32")
AXES = np.array([0])


def compiled(text: str, **keywords: Any) -> Executable:
    return smelt.compile(onnx.parser.parse_model(HEAD + text), threads=1, **keywords)


@pytest.fixture(
    name="exe",
    scope="module",
    params=[("straight", STRAIGHT), ("deciding", DECIDING), ("lazy", LAZY)],
    ids=lambda p: p[0],
)
def fixture_exe(request: pytest.FixtureRequest) -> Executable:
    return compiled(request.param[1])


def feeds(exe: Executable) -> dict[str, Any]:
    given = {"x": X, "y": Y, "axes": AXES}
    return {i.name: given[i.name] for i in exe.inputs}


def test_the_three_ways_to_run_a_model(exe: Executable) -> None:
    kinds = {"straight": NativeExecutable, "deciding": VMExecutable, "lazy": Model}
    assert isinstance(exe, tuple(kinds.values()))


def test_arrays_names_or_a_dict(exe: Executable) -> None:
    given = feeds(exe)
    for made in (exe(*given.values()), exe(**given), exe(given)):
        assert isinstance(made, Results)
        assert made.names == ("total", "scaled")
        np.testing.assert_array_equal(made["scaled"].numpy(), X * Y)
        np.testing.assert_array_equal(made[1].numpy(), X * Y)
        assert list(made.as_dict()) == ["total", "scaled"]


def test_run_as_onnxruntime_does(exe: Executable) -> None:
    given = feeds(exe)
    total, scaled = exe.run(None, given)
    assert type(total) is np.ndarray
    np.testing.assert_array_equal(exe.run(["scaled"], given)[0], scaled)
    with pytest.raises(InputError, match="no output 'scale'; nearest: scaled; outputs: total, sc"):
        exe.run(["scale"], given)
    with pytest.raises(InputError, match=r"feeds is a ndarray; give a dict: exe.run\(None, {'x'"):
        exe.run(None, cast(Any, X))


def test_what_it_says_of_itself(exe: Executable) -> None:
    assert [i.name for i in exe.inputs] == list(feeds(exe))
    assert [o.name for o in exe.outputs] == ["total", "scaled"]
    assert str(exe).startswith("Executable net: x float32[n, 3]; y float32[n, 3]")
    assert exe.metadata["name"] == "net"
    assert exe.memory.weights >= 0


def test_times(exe: Executable) -> None:
    given = feeds(exe)
    assert len(exe.benchmark(given, repeat=2, number=1).results) == 2
    report = exe.profile(given, repeat=2)
    assert any("multiply" in k.ops for k in report.kernels)
    assert "(between kernels)" in report.table()


def test_wrong_calls(exe: Executable) -> None:
    with pytest.raises(InputError, match="no input is named 'X'; nearest: x"):
        exe(**{**feeds(exe), "X": X})
    with pytest.raises(InputError, match="1 inputs given"):
        exe(X)
    with pytest.raises(InputError, match="a list given; arrays are taken"):
        exe(*[[1.0], *list(feeds(exe).values())[1:]])
    with pytest.raises(InputError, match="dtype float64 given, float32 needed"):
        exe(*[X.astype("float64"), *list(feeds(exe).values())[1:]])


def test_it_is_the_same_after_a_file(exe: Executable, tmp_path: Path) -> None:
    if isinstance(exe, Model):
        advice = r"its form depends on the inputs axes; give .* smelt.compile\(values={'axes': ...}\) "
        with pytest.raises(InputError, match=f"net: bind: {advice}to bind it, or call it instead"):
            exe.bind(feeds(exe))
        with pytest.raises(CompileError, match=f"net: {advice}to write it as a file"):
            exe.export_library(tmp_path / "net.so")
        return
    exe.export_library(tmp_path / "net.so")
    loaded = smelt.load(tmp_path / "net.so")
    assert type(loaded) is type(exe)
    assert (loaded.inputs, loaded.outputs) == (exe.inputs, exe.outputs)
    made = loaded(feeds(exe))
    assert isinstance(made, Results)
    np.testing.assert_array_equal(made["scaled"].numpy(), X * Y)
    with pytest.raises(ExportError, match="exported by copying that file"):
        loaded.export_library(tmp_path / "again.so")


def test_sequences_come_back_as_lists(tmp_path: Path) -> None:
    exe = compiled("""net (float[4, 3] x) => (seq(float[2, 3]) parts, float[4, 3] y)
        { parts = SplitToSequence (x)  y = Neg (x) }""")
    x = np.ones((4, 3), "float32")
    exe.export_library(tmp_path / "net.so")
    for one in (exe, smelt.load(tmp_path / "net.so")):
        assert str(one.outputs[0]) == "parts sequence of float32[...]"
        parts: Any = one.run(["parts"], {"x": x})[0]
        assert [p.shape for p in parts] == [(1, 3)] * 4


def test_a_sequence_that_is_known() -> None:
    text = "net (seq(float[3]) parts) => (float[n] y) { y = ConcatFromSequence <axis=0> (parts) }"
    exe = compiled(text, values={"parts": [X[0], Y[0]]})
    assert isinstance(exe, NativeExecutable) and not exe.inputs
    np.testing.assert_array_equal(cast(Any, exe()).numpy(), np.concatenate([X[0], Y[0]]))
    with pytest.raises(TypeMismatch, match=r"values gives 'parts.1' a str; give an array: values={"):
        compiled(text, values={"parts": [X[0], "y"]})


def test_results_that_are_not_there() -> None:
    made = compiled(STRAIGHT)(X, Y)
    assert isinstance(made, Results)
    with pytest.raises(InputError, match="no result 'Total'; nearest: total; results: total, s"):
        made["Total"]
    with pytest.raises(InputError, match="the model has 2 results; take one, by number or name"):
        made.numpy()
    for missing, kind in (("Total", KeyError), (2, IndexError)):
        with pytest.raises(kind):
            made[missing]
    assert not hasattr(made, "shape") and not hasattr(made, "total") and not hasattr(made, "foo")
    assert [made[n] is one for n, one in enumerate(made)] == [True, True]
    assert np.asarray([made[1], made[1]]).shape == (2, *made[1].shape)
    assert np.asarray(made[:1]).shape == np.asarray(Results([made[0]], ["a"])).shape
    assert copy.copy(made).names == made.names
    assert pickle.loads(pickle.dumps(Results([], ["a"]))).names == ("a",)


def test_numbers_for_inputs_without_dimensions() -> None:
    exe = compiled("net (float[2] x, float k, int64 n) => (float[2] y)"
                   " { m = Cast <to = 1> (n)  a = Mul (x, k)  y = Add (a, m) }")  # fmt: skip
    np.testing.assert_array_equal(exe(np.ones(2, "float32"), 2.5, 3).numpy(), [5.5, 5.5])
    with pytest.raises(InputError, match=r"input 'n': 1\.5 given, which no int64 is"):
        exe(np.ones(2, "float32"), 2.5, 1.5)


# ------------------------------------------------------------------------------------- results


def test_results_behave_as_arrays() -> None:
    a: Any = smelt.runtime.array(np.array([[1.0, -2.0], [3.0, 4.0]], "float32"))
    n = a.numpy()
    for made, want in (
        (a + 1, n + 1), (1 - a, 1 - n), (a * a, n * n), (a / 2, n / 2), (2**a, 2**n),
        (a @ a, n @ n), (n @ a, n @ n), (-a, -n), (abs(a), abs(n)), (a > 0, n > 0),
        (a == n, n == n), (a != 1, n != 1), (np.exp(a), np.exp(n)), (a.argmax(1), n.argmax(1)),
        (a.T, n.T), (a // 2, n // 2), (a % 2, n % 2), (a.mean(), n.mean()), (n + a, n + n),
    ):  # fmt: skip
        np.testing.assert_array_equal(made, want)
        assert np.asarray(made).dtype == np.asarray(want).dtype
    assert [list(row) for row in a] == [[1, -2], [3, 4]]
    assert bool(smelt.runtime.array(np.array(1)))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(a)
    with pytest.raises(AttributeError, match="no attribute 'argmaxx'"):
        a.argmaxx()
    np.testing.assert_array_equal(np.from_dlpack(a), n)
    np.testing.assert_array_equal(smelt.runtime.from_dlpack(n).numpy(), n)


# ------------------------------------------------------------------------------------- options


def test_options_as_keywords() -> None:
    fields = typing.get_type_hints(smelt.Options)
    assert typing.get_type_hints(OptionValues) == fields
    with pytest.raises(CompileError, match=r"smelt\.compile: no option 'thread'; nearest: threads"):
        compiled(STRAIGHT, thread=1)
    with pytest.raises(CompileError, match=r"options is a dict; give smelt\.Options"):
        compiled(STRAIGHT, options={"threads": 1})
    with pytest.raises(CompileError, match=r"Options\.opt_level is 9; legal: 0 to 3"):
        compiled(STRAIGHT, opt_level=9)


def test_type_checkers_know_the_types() -> None:
    """What `make check` lets mypy prove, and does here once."""
    exe = smelt.compile(onnx.parser.parse_model(HEAD + STRAIGHT), threads=1)
    assert_type(exe, Executable)
    assert_type(exe(X, Y), NDArray | Results)
    assert_type(exe.memory.weights, int)
    assert_type(exe.metadata["kernels"][0]["name"], str)
    assert_type(exe.inputs[0].shape, tuple[int | str, ...])
    with pytest.raises(CompileError):
        smelt.compile(b"", thread=1)  # type: ignore[call-arg]


def test_the_public_face_is_typed() -> None:
    """Every public function and method of what users hold says its types, and none is Any."""
    subjects: list[Any] = [smelt.compile, smelt.load, smelt.build, smelt.compile_artifact]
    for kind in (Executable, Results, smelt.Options, smelt.Size):
        subjects += [f for n, f in vars(kind).items() if inspect.isfunction(f) and n[0] != "_"]
    subjects += [Executable.__call__, Results.__getitem__, NDArray.numpy]
    for f in subjects:
        signature = inspect.signature(f)
        notes = {n: p.annotation for n, p in signature.parameters.items() if n != "self"}
        notes["return"] = signature.return_annotation
        for name, note in notes.items():
            assert note is not inspect.Parameter.empty, f"{f.__qualname__}: {name}"
            assert "Any" not in str(note).split("AnyArray"), f"{f.__qualname__}: {name}: {note}"


def test_progress_ends_where_everything_is_done(tmp_path: Path) -> None:
    for folder in ("", tmp_path, tmp_path):  # the last finds all kernels in the cache
        seen: dict[str, tuple[int, int]] = {}
        compiled(STRAIGHT, progress=lambda stage, *n, to=seen: to.update({stage: n}),
                 cache_dir=folder)  # fmt: skip
        assert set(seen) == {"graph", "kernels"}
        assert all(done == total > 0 for done, total in seen.values())
    seen = {}
    with PassContext(disabled_pass=["UnrollLoop"]):
        compiled(STRAIGHT, progress=lambda stage, *n: seen.update({stage: n}))
    assert seen["kernels"][0] == seen["kernels"][1]


@pytest.mark.parametrize("what", ["shapes", "values", "operators"])
def test_what_belongs_to_a_file_is_refused_with_a_graph(what: str) -> None:
    graph = stage_module(onnx.parser.parse_model(HEAD + STRAIGHT), "graph")
    given: dict[str, Any] = {
        "shapes": {"x": (2, 3)}, "values": {"y": Y}, "operators": {"a.B": "relu"},
    }  # fmt: skip
    with pytest.raises(CompileError, match=f"{what} are given with the model file"):
        smelt.compile(graph, **{what: given[what]})
