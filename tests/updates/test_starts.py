"""States that begin as an array: the first call reads it, and the first one after a reset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import smelt
from smelt import relay
from smelt.frontend.onnx import from_onnx
from smelt.ir.errors import CompileError
from smelt.relax.equal import assert_structural_equal
from smelt.relax.parser import parse
from smelt.relax.printer import constant_names
from smelt.relax.updates import declare_states
from smelt.runtime import LoadError
from smelt.runtime.metadata import constant_at, parse_levels
from tests.updates import nets

TOTAL = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
    total (float[2] x, float[2] past) => (float[2] y, float[2] present)
    {
        present = Add (past, x)
        y = Mul (present, x)
    }""")
FIRST = np.array([5, -7], "float32")
X = np.array([1, 2], "float32")


def total() -> Any:
    return smelt.compile(TOTAL, state={"past": ("present", FIRST)}, threads=1)


def three_calls(exe: Any) -> list[list[float]]:
    return [np.asarray(exe(X)).tolist() for _ in range(3)]


EXPECTED = [[6, -10], [7, -6], [8, -2]]


def test_the_first_call_reads_the_array() -> None:
    exe = total()
    assert exe.state["past"].numpy().tolist() == FIRST.tolist()
    assert three_calls(exe) == EXPECTED
    assert exe.state["past"].numpy().tolist() == [8, -1]
    exe.state.reset()
    assert exe.state["past"].numpy().tolist() == FIRST.tolist()
    assert three_calls(exe) == EXPECTED
    copy = exe.state.clone()
    copy.reset()
    assert three_calls(exe.with_state(copy)) == three_calls(exe.with_state()) == EXPECTED


def test_what_is_written_to_the_array_later_is_not_meant() -> None:
    first = FIRST.copy()
    exe: Any = smelt.compile(TOTAL, state={"past": ("present", first)}, threads=1)
    first[:] = 9
    assert three_calls(exe) == EXPECTED


@pytest.mark.parametrize("suffix", ["so", "tar"])
def test_an_exported_model_begins_the_same_way(tmp_path: Path, suffix: str) -> None:
    total().export_library(tmp_path / f"total.{suffix}")
    exe: Any = smelt.load(tmp_path / f"total.{suffix}")
    assert three_calls(exe) == EXPECTED
    exe.state.reset()
    assert three_calls(exe) == EXPECTED


def test_a_program_that_decides_begins_the_same_way(tmp_path: Path) -> None:
    first = np.arange(64, dtype="float32").reshape(8, 8)
    made: Any = smelt.compile(nets.chosen(8), state={"cache": ("after", first)}, threads=1)
    made.export_library(tmp_path / "chosen.so")
    loaded: Any = smelt.load(tmp_path / "chosen.so")
    x = np.ones((1, 8), "float32")
    for exe in (made, loaded):
        for _ in range(2):
            exe(np.array(False), np.array([[3]]), x)
            wanted = first.copy()
            wanted[3] = -1
            np.testing.assert_array_equal(exe.state["cache"].numpy(), wanted)
            exe.state.reset()
            np.testing.assert_array_equal(exe.state["cache"].numpy(), first)


def test_one_that_grows_may_begin_with_rows() -> None:
    first = [np.full((1, nets.HEADS, n, nets.DEPTH), n, "float32") for n in (2, 2)]
    state = {"past_k": ("present_k", first[0]), "past_v": ("present_v", first[1])}
    exe: Any = smelt.compile(nets.step("concat"), state=state, threads=1)
    free: Any = smelt.compile(nets.step("concat"), threads=1)
    given = nets.step_inputs(0)
    np.testing.assert_array_equal(np.asarray(exe(*given)), np.asarray(free(*given, *first)[0]))
    assert exe.state["past_k"].shape == (1, nets.HEADS, 3, nets.DEPTH)


def test_zeros_need_no_constant() -> None:
    zeros = np.zeros(2, "float32")
    exe: Any = smelt.compile(TOTAL, state={"past": ("present", zeros)}, threads=1)
    assert "starts" not in exe.metadata
    again: Any = smelt.compile(TOTAL, state={"past": ("present", np.array([0.0, -0.0], "float32"))})
    assert np.signbit(again.state["past"].numpy()).tolist() == [False, True]


def test_a_number_may_be_kept() -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        count (float x, float past) => (float y, float present)
        {
            present = Add (past, x)
            y = Mul (present, x)
        }""")
    first = np.array(3, "float32")
    exe: Any = smelt.compile(model, state={"past": ("present", first)}, threads=1)
    assert exe.state["past"].shape == ()
    assert [float(np.asarray(exe(np.float32(2)))) for _ in range(2)] == [10, 14]
    mod = declare_states(from_onnx(model), {"past": ("present", first)})
    arrays = {n: np.asarray(c.data) for n, c in constant_names(mod["main"]).items()}
    assert_structural_equal(mod, parse(mod.script(), arrays))
    assert_structural_equal(mod, relay.parse(relay.astext(mod)))


def test_the_text_has_it() -> None:
    mod = declare_states(from_onnx(TOTAL), {"past": ("present", FIRST)})
    arrays = {n: np.asarray(c.data) for n, c in constant_names(mod["main"]).items()}
    back = parse(mod.script(), arrays)
    assert_structural_equal(mod, back)
    assert three_calls(smelt.compile(back, threads=1)) == EXPECTED
    other = declare_states(from_onnx(TOTAL), {"past": ("present", FIRST + 1)})
    with pytest.raises(ValueError, match="starts"):
        assert_structural_equal(mod, other)


def test_relays_text_and_json_have_it() -> None:
    mod = declare_states(from_onnx(TOTAL), {"past": ("present", FIRST)})
    for back in (relay.parse(relay.astext(mod)), smelt.ir.load_json(smelt.ir.save_json(mod))):
        assert_structural_equal(mod, back)
        assert three_calls(smelt.compile(back, threads=1)) == EXPECTED


def test_the_header_says_it(tmp_path: Path) -> None:
    artifact = smelt.compile_artifact(TOTAL, state={"past": ("present", FIRST)})
    _, header = artifact.write(tmp_path / "total.o")
    assert "input 1 begins as the array at byte 0 of the constants" in header.read_text()
    assert artifact.weights[:8].view("float32").tolist() == FIRST.tolist()


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (np.zeros(3, "float32"), r"the first value of 'past' is float32\[3\], the input float32"),
        (np.zeros(2), r"the first value of 'past' is float64\[2\], the input float32\[2\]"),
        ("zeros", "the first value of 'past' is a str; legal: an array of numbers"),
    ],
)
def test_arrays_that_do_not_fit(first: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        smelt.compile(TOTAL, state={"past": ("present", first)})


@pytest.mark.parametrize("starts", [[[0, [2], 0]], [[1, [3], 0]], [[1, [2, 1], 0]], [[9, [], 0]]])
def test_a_damaged_description_is_refused(starts: Any) -> None:
    data = json.loads(json.dumps(dict(total().metadata)))
    assert parse_levels(json.dumps(data).encode())[0]["starts"] == [[1, [2], 0]]
    with pytest.raises(LoadError, match="its metadata is damaged: starts is"):
        parse_levels(json.dumps({**data, "starts": starts}).encode())


def test_an_array_behind_the_constants_is_refused() -> None:
    with pytest.raises(LoadError, match="a constant ends at byte 72 of 64"):
        constant_at(np.zeros(64, "uint8"), "float32", [2], 64)
