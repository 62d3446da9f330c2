"""Variables: read and assigned in the order of the file, call by call beside TFLite's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.cli import main as command_line
from smelt.frontend.tflite import from_tflite, survey
from smelt.ir.errors import ImportFailure, TypeMismatch, Unsupported
from smelt.runtime.state import StatefulExecutable
from tests.tflite.build import Array, Oracle, Part, Spec, Step, const, model
from tests.tflite.check import differences

HANDLE = Spec((), "resource")
PAIR = Spec((2,))
X = np.array([1, 2], "float32")


def handle(out: int, name: str = "v", container: str = "") -> Step:
    options = {"Container": container, "SharedName": name}
    return Step("VAR_HANDLE", [], [out], options, "VarHandleOptions")


def read(variable: int, out: int) -> Step:
    return Step("READ_VARIABLE", [variable], [out], {}, "ReadVariableOptions")


def assign(variable: int, value: int) -> Step:
    return Step("ASSIGN_VARIABLE", [variable, value], [], {}, "AssignVariableOptions")


def once(number: int) -> Step:
    return Step("CALL_ONCE", [], [], {"InitSubgraphIndex": number}, "CallOnceOptions")


def add(a: int, b: int, out: int) -> Step:
    return Step("ADD", [a, b], [out], {}, "AddOptions")


def multiply(a: int, b: int, out: int) -> Step:
    return Step("MUL", [a, b], [out], {}, "MulOptions")


def begins(**first: Spec) -> Part:
    """A subgraph that assigns constants to variables."""
    tensors, steps = [], []
    for n, (name, value) in enumerate(first.items()):
        tensors += [HANDLE, value]
        steps += [handle(2 * n, name), assign(2 * n, 2 * n + 1)]
    return tensors, steps, [], []


FIRST = begins(v=const([5, -7], "float32"))


def agree(content: bytes, calls: Sequence[Sequence[Array]]) -> Any:
    """Compare some calls, and the same again behind a reset; gives the executable."""
    exe: Any = smelt.compile(content, threads=1)
    for _ in range(2):
        oracle = Oracle(content)
        for given in calls:
            found = exe(*given)
            found = found if isinstance(found, tuple | list) else [found]
            for a, b in zip(found, oracle(*given), strict=True):
                assert not differences(np.asarray(a), b)
        if isinstance(exe, StatefulExecutable):
            exe.state.reset()
    return exe


def counter(*more: Part, first: Part = FIRST) -> bytes:
    """v = v + x, twice the new value."""
    steps = [once(1), handle(1), read(1, 2), add(2, 0, 3), assign(1, 3), add(3, 3, 4)]
    return model([PAIR, HANDLE, PAIR, PAIR, PAIR], steps, [0], [4], others=[first, *more])


def test_a_variable_is_kept() -> None:
    exe = agree(counter(), [[X]] * 3)
    assert list(exe.state) == ["v"]
    assert exe.state["v"].numpy().tolist() == [5, -7]
    assert [o.name for o in exe.outputs] == ["t4"]


def test_an_exported_model_begins_with_the_files_value(tmp_path: Path) -> None:
    smelt.compile(counter(), threads=1).export_library(tmp_path / "counter.so")
    exe: Any = smelt.load(tmp_path / "counter.so")
    assert np.asarray(exe(X)).tolist() == [12, -10]


def test_inputs_may_be_kept_beside_variables() -> None:
    exe: Any = smelt.compile(counter(), state={"t0": ("t4", X)}, threads=1)
    oracle, x = Oracle(counter()), X
    for _ in range(3):
        x = oracle(x)[0]
        exe()
        assert not differences(np.asarray(exe.state["t0"]), x)
    assert list(exe.state) == ["t0", "v"]


def test_subgraphs_of_other_signatures_do_not_matter() -> None:
    reset: Part = ([PAIR, HANDLE], [handle(1), assign(1, 0)], [0], [0])
    agree(counter(reset), [[X]] * 2)


def test_reads_see_what_was_assigned_in_front_of_them() -> None:
    steps = [once(1), handle(1), read(1, 2), assign(1, 0), read(1, 3), multiply(2, 3, 4),
             assign(1, 4), read(1, 5)]  # fmt: skip
    tensors = [PAIR, HANDLE, *[PAIR] * 4]
    exe = agree(model(tensors, steps, [0], [2, 3, 5], others=[FIRST]), [[X], [X + 1], [X - 3]])
    assert len(exe.outputs) == 3


def test_handles_of_one_name_are_one_variable() -> None:
    first: Part = (
        [HANDLE, const([1, 1], "float32"), HANDLE, const([2, 2], "float32")],
        [handle(0, "v"), assign(0, 1), handle(2, "v", "other"), assign(2, 3)], [], [],
    )  # fmt: skip
    steps = [once(1), handle(1), handle(2), handle(3, "v", "other"), read(1, 4), add(4, 0, 5),
             assign(2, 5), read(1, 6), read(3, 7), multiply(7, 0, 8), assign(3, 8)]  # fmt: skip
    tensors = [PAIR, *[HANDLE] * 3, *[PAIR] * 5]
    exe = agree(model(tensors, steps, [0], [6, 7], others=[first]), [[X]] * 3)
    assert list(exe.state) == ["v", "other/v"]


def test_two_variables_change_places() -> None:
    first = begins(a=const([0, 1], "float32"), b=const([1, 2], "float32"))
    steps = [once(1), handle(1, "a"), handle(2, "b"), read(1, 3), read(2, 4), assign(1, 4),
             assign(2, 3), add(3, 0, 5)]  # fmt: skip
    tensors = [PAIR, HANDLE, HANDLE, PAIR, PAIR, PAIR]
    agree(model(tensors, steps, [0], [5], others=[first]), [[X]] * 4)


def test_one_value_for_two_variables_and_a_result() -> None:
    first = begins(a=const([0, 1], "float32"), b=const([1, 2], "float32"))
    steps = [once(1), handle(1, "a"), handle(2, "b"), read(1, 3), read(2, 4), add(3, 0, 5),
             add(4, 5, 6), assign(1, 6), assign(2, 6)]  # fmt: skip
    tensors = [PAIR, HANDLE, HANDLE, *[PAIR] * 4]
    agree(model(tensors, steps, [0], [6], others=[first]), [[X]] * 4)


def test_first_values_may_be_computed() -> None:
    first: Part = (
        [HANDLE, const([1, 2], "float32"), const([3, 4], "float32"), PAIR, PAIR, PAIR],
        [handle(0), multiply(1, 2, 3), assign(0, 3), read(0, 4), add(4, 1, 5), assign(0, 5)], [],
        [],
    )  # fmt: skip
    exe = agree(counter(first=first), [[X]] * 2)
    assert exe.state["v"].numpy().tolist() == [4, 10]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_variables_of_whole_numbers(dtype: str) -> None:
    scale = None if dtype == "int32" else 0.5
    kind = Spec((2,), dtype, scale, 3)
    first = begins(v=const([5, 40], dtype, scale=scale, zero=3))
    steps = [once(1), handle(1), read(1, 2), add(2, 0, 3), assign(1, 3)]
    content = model([kind, HANDLE, kind, kind], steps, [0], [3], others=[first])
    exe = agree(content, [[np.array([n, 9], dtype)] for n in range(4)])
    assert exe.state["v"].dtype == dtype


def test_a_variable_may_be_a_number() -> None:
    kind = Spec((), "int32")
    steps = [once(1), handle(1), read(1, 2), add(2, 0, 3), assign(1, 3)]
    content = model([kind, HANDLE, kind, kind], steps, [0], [3],
                    others=[begins(v=const(5, "int32"))])  # fmt: skip
    exe = agree(content, [[np.array(n, "int32")] for n in range(4)])
    assert exe.state["v"].shape == ()


def test_what_nothing_assigns_is_a_constant() -> None:
    r = np.random.default_rng(0)
    first = begins(w=const(r.normal(size=(4, 3)), "float32"))
    tensors = [Spec((2, 3)), HANDLE, Spec((4, 3)), Spec((2, 4))]
    layer = Step("FULLY_CONNECTED", [0, 2, -1], [3], {}, "FullyConnectedOptions")
    content = model(tensors, [once(1), handle(1, "w"), read(1, 2), layer], [0], [3],
                    others=[first])  # fmt: skip
    exe = agree(content, [[r.normal(size=(2, 3)).astype("float32")]])
    assert not isinstance(exe, StatefulExecutable)
    assert "R.Constant((4, 3)" in from_tflite(content).script()


def test_what_is_assigned_in_front_of_all_reads_needs_no_first_value() -> None:
    steps = [handle(1), assign(1, 0), read(1, 2), add(2, 2, 3)]
    exe = agree(model([PAIR, HANDLE, PAIR, PAIR], steps, [0], [3]), [[X], [X + 1]])
    assert not isinstance(exe, StatefulExecutable)


# ------------------------------------------------------------------------------------ subgraphs


def choice(yes: Part, no: Part, inside: bool, first: Part = FIRST) -> bytes:
    """A branch that takes x and, unless it makes one inside, a handle; then a read."""
    operands = [0, 1] if inside else [0, 1, 2]
    step = Step("IF", operands, [3], {"ThenSubgraphIndex": 2, "ElseSubgraphIndex": 3}, "IfOptions")
    tensors = [Spec((1,), "bool"), PAIR, HANDLE, PAIR, PAIR]
    steps = [once(1), handle(2), step, read(2, 4)]
    return model(tensors, steps, [0, 1], [3, 4], others=[first, yes, no])


def accumulates(inside: bool) -> Part:
    """v = v + x"""
    steps = [handle(1), read(1, 2), add(2, 0, 3), assign(1, 3)]
    return [PAIR, HANDLE, PAIR, PAIR], steps[not inside :], [0] if inside else [0, 1], [2]


def doubles(inside: bool) -> Part:
    """No assignment."""
    return [PAIR, HANDLE, PAIR], [add(0, 0, 2)], [0] if inside else [0, 1], [2]


CALLS = [[np.array([n % 3 != 1]), X + n] for n in range(5)]


@pytest.mark.parametrize("inside", [True, False])
def test_a_branch_may_assign(inside: bool) -> None:
    agree(choice(accumulates(inside), doubles(inside), inside), CALLS)
    agree(choice(doubles(inside), accumulates(inside), inside), CALLS)
    agree(choice(accumulates(inside), accumulates(inside), inside), CALLS)


def loop(inside: bool) -> bytes:
    """v = v + x, n times. The loop carries the handle, or makes it inside."""
    n = Spec((1,), "int32")
    below: Part = (
        [n, PAIR, HANDLE, const([0], "int32"), Spec((1,), "bool")],
        [Step("GREATER", [0, 3], [4], {}, "GreaterOptions")], [0, 1] if inside else [0, 1, 2], [4],
    )  # fmt: skip
    down = Step("SUB", [0, 5], [6], {}, "SubOptions")
    steps = [handle(2), read(2, 3), add(3, 1, 4), assign(2, 4), down, read(2, 7), multiply(7, 1, 8)]
    tensors = [n, PAIR, HANDLE, PAIR, PAIR, const([1], "int32"), n, PAIR, PAIR]
    carried = [] if inside else [2]
    body: Part = (tensors, steps[not inside :], [0, 1, *carried], [6, 1, *carried])
    own = [n, PAIR, HANDLE, n, PAIR, HANDLE, PAIR]
    step = Step("WHILE", [0, 1, *carried], [3, 4, *([] if inside else [5])],
                {"CondSubgraphIndex": 2, "BodySubgraphIndex": 3}, "WhileOptions")  # fmt: skip
    behind = read(2 if inside else 5, 6)
    return model(own, [once(1), handle(2), step, behind], [0, 1], [3, 6],
                 others=[FIRST, below, body])  # fmt: skip


@pytest.mark.parametrize("inside", [True, False])
def test_a_loop_may_assign(inside: bool) -> None:
    agree(loop(inside), [[np.array([n], "int32"), X + n] for n in (3, 0, 1, 20)])


def program(seed: int) -> bytes:
    """Random reads, assignments and sums of three variables, some of them in branches."""
    r = np.random.default_rng(seed)
    names = "abc"

    def part(tensors: list[Spec], known: list[int], deep: bool) -> list[Step]:
        handles = {n: len(tensors) + k for k, n in enumerate(names)}
        tensors += [HANDLE] * 3
        steps = [handle(at, n) for n, at in handles.items()]
        for _ in range(int(r.integers(3, 9))):
            at, new = handles[names[r.integers(3)]], len(tensors)
            a, b = (known[int(r.integers(len(known)))] for _ in range(2))
            kind = int(r.integers(6 if deep else 5))
            if kind < 2:
                steps.append(assign(at, a))
                continue
            if kind == 2:
                steps.append(add(a, b, new))
            elif kind < 5:
                steps.append(read(at, new))
            else:
                others.append(side())
                others.append(side())
                options = {"ThenSubgraphIndex": len(others) - 1, "ElseSubgraphIndex": len(others)}
                steps.append(Step("IF", [1, a], [new], options, "IfOptions"))
            tensors.append(PAIR)
            known.append(new)
        return steps

    def side() -> Part:
        tensors, known = [PAIR], [0]
        steps = part(tensors, known, False)
        results = [k for k in known if k] or [0]
        if results == [0]:
            tensors.append(PAIR)
            results = [len(tensors) - 1]
            steps.append(add(0, 0, results[0]))
        return tensors, steps, [0], [results[-1]]

    others: list[Part] = [begins(**{n: const(r.integers(-3, 4, 2), "float32") for n in names})]
    tensors, known = [PAIR, Spec((1,), "bool")], [0]
    steps = part(tensors, known, True)
    tensors.append(PAIR)
    last = len(tensors) - 1
    steps.append(add(known[-1], 0, last))
    return model(tensors, [once(1), *steps], [0, 1], [last, *known[1:]], others=others)


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed: int) -> None:
    content = program(seed)
    r = np.random.default_rng(seed)
    agree(content, [[r.integers(-3, 4, 2).astype("float32"), r.random(1) < 0.5] for _ in range(3)])


# ----------------------------------------------------------------------------- streaming of audio

FRAMES, BANDS, FILTERS = 6, 8, 4


def streaming(quantized: bool) -> bytes:
    """A convolution over the last frames of a sound, which are kept, and a layer behind it."""
    r = np.random.default_rng(3)
    dtype = "int8" if quantized else "float32"
    scales = iter((0.05, 0.05, 0.05, 0.05, 0.1, 0.1, 0.1) if quantized else [None] * 7)

    def values(*shape: int) -> Spec:
        return Spec(shape, dtype, next(scales))

    def weights(*shape: int) -> Spec:
        if quantized:
            return const(r.integers(-127, 128, shape), "int8", scale=0.01)
        return const(r.normal(0, 0.5, shape), "float32")

    def bias(n: int, scale: float) -> Spec:
        if quantized:
            return const(r.integers(-99, 99, n), "int32", scale=scale)
        return const(r.normal(0, 0.5, n), "float32")

    ints = [const(v, "int32") for v in ([0, 1, 0, 0], [1, FRAMES, BANDS, 1], [1, 1, 1, 1])]
    tensors = [
        values(1, 1, BANDS, 1), HANDLE, values(1, FRAMES, BANDS, 1), *ints,
        values(1, FRAMES - 1, BANDS, 1), values(1, FRAMES, BANDS, 1), weights(FILTERS, 3, 3, 1),
        bias(FILTERS, 0.0005), values(1, FRAMES - 2, BANDS - 2, FILTERS),
        weights(3, (FRAMES - 2) * (BANDS - 2) * FILTERS), bias(3, 0.001), values(1, 3),
    ]  # fmt: skip
    slices = {"BeginMask": 0, "EndMask": 0}
    layer: dict[str, Any] = {"StrideH": 1, "StrideW": 1, "Padding": 1, "FusedActivationFunction": 1}
    steps = [
        once(1), handle(1, "frames"), read(1, 2),
        Step("STRIDED_SLICE", [2, 3, 4, 5], [6], slices, "StridedSliceOptions"),
        Step("CONCATENATION", [6, 0], [7], {"Axis": 1}, "ConcatenationOptions", version=2),
        assign(1, 7),
        Step("CONV_2D", [7, 8, 9], [10], layer, "Conv2DOptions", version=3),
        Step("FULLY_CONNECTED", [10, 11, 12], [13], {}, "FullyConnectedOptions", version=4),
    ]  # fmt: skip
    silence = np.full((1, FRAMES, BANDS, 1), -4 if quantized else 0.25)
    first = begins(frames=const(silence, dtype, scale=0.05 if quantized else None))
    return model(tensors, steps, [0], [13], others=[first])


@pytest.mark.parametrize("quantized", [False, True])
def test_a_stream_of_frames(quantized: bool) -> None:
    r = np.random.default_rng(1)
    frames = r.normal(0, 1, (10, 1, 1, BANDS, 1)).astype("float32")
    if quantized:
        frames = r.integers(-128, 128, frames.shape).astype("int8")
    exe = agree(streaming(quantized), [[f] for f in frames])
    assert exe.state["frames"].shape == (1, FRAMES, BANDS, 1)


# --------------------------------------------------------------------------------------- errors


def refused(content: bytes) -> str:
    with pytest.raises((Unsupported, ImportFailure)) as e:
        from_tflite(content)
    return str(e.value).removeprefix("<bytes>: ")


def test_a_variable_without_a_value() -> None:
    content = model([PAIR, HANDLE, PAIR, PAIR], [handle(1), read(1, 2), add(0, 2, 3)], [0], [3])
    with pytest.raises(RuntimeError):
        Oracle(content)(X)
    assert refused(content) == (
        "node '1' (READ_VARIABLE): the variable 'v' has no value here, an error in TFLite too\n"
        "  supported: variables that CALL_ONCE or a node in front of it assigns"
    )


def test_a_value_of_one_side_only() -> None:
    """The read behind the branch is an error in TFLite, if the other side was taken."""
    yes: Part = ([PAIR, HANDLE], [handle(1), assign(1, 0)], [0], [0])
    content = choice(yes, doubles(True), True, begins())
    assert "the variable 'v' has no value here" in refused(content)


def wider() -> bytes:
    steps = [once(1), handle(1), read(1, 2), assign(1, 0), add(0, 0, 3)]
    four = Spec((4,))
    return model([four, HANDLE, PAIR, four], steps, [0], [2, 3], others=[FIRST])


BAD: dict[str, tuple[bytes, str]] = {
    "another shape": (
        wider(),
        "the variable 'v' is float32[2] at first and float32[4] then\n  supported: one type",
    ),
    "a subgraph": (
        model([PAIR, PAIR], [once(7), add(0, 0, 1)], [0], [1], others=[([HANDLE], [], [], [])]),
        "node '0' (CALL_ONCE): subgraph 7; there are 2, and the first one is the model",
    ),
    "twice": (
        counter(FIRST, first=([HANDLE], [once(2)], [], [])),
        "node '1.0' (CALL_ONCE): a subgraph that does so\n"
        "  supported: CALL_ONCE in the model itself",
    ),
    "late": (
        model([PAIR, HANDLE, PAIR], [handle(1), assign(1, 0), once(1), read(1, 2)], [0], [2],
              others=[FIRST]),
        "node '2' (CALL_ONCE): the variable 'v' is used in front of it\n"
        "  supported: CALL_ONCE in front of what uses variables",
    ),
    "an input": (
        model([HANDLE, PAIR], [read(0, 1)], [0], [1]),
        "the input or output 't0' is a handle of a resource\n  supported: tensors",
    ),
    "no handle": (
        model([PAIR, HANDLE, PAIR], [read(0, 2)], [0], [2]),
        "node '0' (READ_VARIABLE): the operand 't0' is no handle of a variable",
    ),
    "no value": (
        model([PAIR, HANDLE], [handle(1), Step("ASSIGN_VARIABLE", [1], [])], [0], [0]),
        "node '1' (ASSIGN_VARIABLE): operands and results are 1 and 0; legal: (2, 0)",
    ),
    "another operator": (
        model([PAIR, HANDLE, PAIR], [handle(1), add(0, 1, 2)], [0], [2]),
        "node '1' (ADD): the operand 't1', a handle of the variable 'v'\n"
        "  supported: such handles of VAR_HANDLE, CALL_ONCE, READ_VARIABLE, ASSIGN_VARIABLE, IF, "
        "WHILE",
    ),
    "another type": (
        model([PAIR, HANDLE, Spec((2,), "int32")], [handle(1), assign(1, 0), read(1, 2)], [0], [2]),
        "node '2' (READ_VARIABLE, which makes 't2'): the file says that 't2' is int32; from these "
        "operands the operator makes float32",
    ),
    "random": (
        counter(first=([const([2], "int32"), PAIR, HANDLE],
                       [Step("RANDOM_UNIFORM", [0], [1]), handle(2), assign(2, 1)], [], [])),
        "1 operator not supported\n  RANDOM_UNIFORM: 1 node ('1.0')",
    ),
    "a table": (
        model([PAIR, HANDLE, Spec((1,), "int64"), PAIR],
              [Step("HASHTABLE", [], [1]), Step("HASHTABLE_SIZE", [1], [2]), add(0, 0, 3)], [0],
              [2, 3]),
        "2 operators not supported\n  HASHTABLE: 1 node ('0')\n  HASHTABLE_SIZE: 1 node ('1')",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name: str) -> None:
    content, text = BAD[name]
    assert refused(content) == text


def test_a_value_for_a_variable() -> None:
    with pytest.raises(TypeMismatch) as e:
        from_tflite(counter(), values={"v": X})
    assert str(e.value) == (
        "<bytes>: values names 'v', which the model changes: exe.state['v'] = array sets it"
    )


def test_the_survey_knows_variables() -> None:
    found = survey(counter())
    assert found.works
    listed = [o.operator for o in found.operators]
    assert listed == ["ADD", "ASSIGN_VARIABLE", "READ_VARIABLE"]


@pytest.mark.parametrize("make", [counter, lambda: streaming(True)])
def test_the_command_line_compares_the_first_call(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.tflite").write_bytes(make())
    monkeypatch.setattr("sys.argv", ["smelt", "check", str(tmp_path / "model.tflite")])
    with pytest.raises(SystemExit) as e:
        command_line.main()
    assert not e.value.code
    assert "model.tflite: as TFLite" in capsys.readouterr().out.replace("\n", "")
