"""`tvmc run`: inputs, outputs, times, here and on another machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from smelt.driver import tvmc as api
from smelt.driver.tvmc import TVMCModel, TVMCPackage
from smelt.rpc import Server, Tracker

from .conftest import Array, Command


@pytest.fixture(scope="module")
def package(model: TVMCModel, tmp_path_factory: pytest.TempPathFactory) -> TVMCPackage:
    """The network, linked."""
    return api.compile(model, package_path=tmp_path_factory.mktemp("package") / "net.tar")


def outputs(path: str = "out.npz") -> dict[str, Array]:
    with np.load(path) as found:
        return {n: found[n] for n in found.files}


def test_inputs_and_outputs(
    tvmc: Command, package: TVMCPackage, image: Array, expected: Array
) -> None:
    assert tvmc(f"run {package.package_path} --input image.npz --output out.npz") == ""
    found = outputs()
    assert list(found) == ["output_0"]
    np.testing.assert_allclose(found["output_0"], expected, rtol=1e-4, atol=1e-5)


def test_the_largest_elements(tvmc: Command, package: TVMCPackage, expected: Array) -> None:
    said = tvmc(f"run {package.package_path} -i image.npz --print-top 3").splitlines()
    assert [line.split()[0] for line in said] == ["index", "value"]
    order = [int(n) for n in said[0].split()[1:]]
    assert order == np.argsort(-expected[0])[:3].tolist()
    values = [float(v) for v in said[1].split()[1:]]
    np.testing.assert_allclose(values, expected[0][order], rtol=1e-3)


def test_more_largest_elements_than_there_are(package: TVMCPackage, tvmc: Command) -> None:
    said = tvmc(f"run {package.package_path} --print-top 99").splitlines()
    assert len(said[0].split()) == 11


@pytest.mark.parametrize("options", ["", "--end-to-end"])
def test_times(tvmc: Command, package: TVMCPackage, options: str) -> None:
    words = f"run {package.package_path} --print-time --repeat 4 --number 2 {options}"
    head, names, row = tvmc(words).splitlines()
    assert head == "Execution time summary:"
    figures = dict(zip(re.findall(r"(\w+) \(ms\)", names), map(float, row.split()), strict=True))
    assert list(figures) == ["median", "mean", "std", "min", "max"]
    assert 0 < figures["min"] <= figures["median"] <= figures["max"]


def test_kernels_are_timed(tvmc: Command, package: TVMCPackage) -> None:
    said = tvmc(f"run {package.package_path} --profile")
    assert said.startswith("kernel ")
    assert "\nfused_matmul_add " in said
    assert "\nrun " in said


PAIR = """<ir_version: 8, opset_import: ["": 17]>
    pair (float[2, 3] a, int32[2, 3] b, float[n, 3] c) => (float[2, 3] s, int32[2, 3] t) {
        s = Add(a, a)
        t = Add(b, b)
    }"""


@pytest.fixture
def pair(folder: Path) -> str:
    """A model with an input of open size, compiled."""
    onnx.save(onnx.parser.parse_model(PAIR.replace("float[n, 3] c", "float[1, 3] c")), "pair.onnx")
    return api.compile(api.load("pair.onnx"), package_path="pair.so").package_path


def test_what_is_not_given_is_filled(tvmc: Command, pair: str) -> None:
    np.savez("a.npz", a=np.full((2, 3), 7, "float32"))
    for mode, value in (("zeros", 0), ("ones", 2)):
        tvmc(f"run {pair} -i a.npz -o out.npz --fill-mode {mode}")
        found = outputs()
        assert (found["output_0"] == 14).all()
        assert found["output_1"].dtype == np.int32
        assert (found["output_1"] == value).all()
    tvmc(f"run {pair} -o out.npz")
    first = outputs()
    tvmc(f"run {pair} -o out.npz --fill-mode random")
    again = outputs()
    assert len(np.unique(first["output_0"])) == 6
    assert (first["output_0"] == again["output_0"]).all()


def test_open_sizes_are_not_filled(tvmc: Command, folder: Path) -> None:
    onnx.save(onnx.parser.parse_model(PAIR), "pair.onnx")
    tvmc("compile pair.onnx -o open.so")
    a, b = np.ones((2, 3), "float32"), np.ones((2, 3), "int32")
    np.savez("ab.npz", a=a, b=b)
    said = tvmc("run open.so -i ab.npz", code=1)
    assert said == (
        "Error: --fill-mode: the size of c float32[n, 3] is open; give it with --inputs, or "
        "compile with --input-shapes\n"
    )
    np.savez("abc.npz", a=a, b=b, c=np.ones((5, 3), "float32"))
    tvmc("run open.so -i abc.npz")


LIST = """<ir_version: 8, opset_import: ["": 17]>
    pieces (float[4, 3] x, string[2] s) => (seq(float[n, 3]) y, string[2] t) {
        y = SplitToSequence <axis = 0> (x)
        t = Identity(s)
    }"""


def test_what_is_no_array_of_numbers(tvmc: Command, folder: Path) -> None:
    onnx.save(onnx.parser.parse_model(LIST), "list.onnx")
    tvmc("compile list.onnx -o list.so --executor vm")
    said = tvmc("run list.so", code=1)
    assert said == "Error: --fill-mode: s string[2] is no tensor of numbers; tvmc.run takes it\n"
    texts = np.array(["a", "b"], object)
    result = api.run(TVMCPackage("list.so"), inputs={"s": texts}, fill_mode="ones")
    assert [a.shape for a in result.get_output("output_0")] == [(1, 3)] * 4
    assert result.get_output("output_1").tolist() == ["a", "b"]
    with pytest.raises(api.TVMCException, match="output_0 is no array of numbers, and cannot"):
        result.save("out.npz")
    assert not Path("out.npz").exists()


# -------------------------------------------------------------------------------- another machine


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Options for a tracker's machine."""
    monkeypatch.delenv("SMELT_RPC_TOKEN", raising=False)
    with (
        Tracker(port=0) as tracker,
        Server(port=0, key="board", tracker_addr=("127.0.0.1", tracker.port)),
    ):
        yield f"--rpc-tracker 127.0.0.1:{tracker.port} --rpc-key board"


def test_a_machine_that_a_tracker_gives(
    tvmc: Command, package: TVMCPackage, board: str, expected: Array
) -> None:
    said = tvmc(f"run {package.package_path} {board} -i image.npz -o out.npz --print-time "
                "--repeat 3 --profile --print-top 2")  # fmt: skip
    assert said.startswith("kernel ")
    assert "Execution time summary:" in said
    assert f"index{np.argmax(expected):>13}" in said
    np.testing.assert_allclose(outputs()["output_0"], expected, rtol=1e-4, atol=1e-5)


def test_a_server_without_a_tracker(
    tvmc: Command, package: TVMCPackage, expected: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SMELT_RPC_TOKEN", raising=False)
    with Server(port=0) as server:
        words = f"--rpc-tracker 127.0.0.1:{server.port} -i image.npz -o out.npz --print-time"
        tvmc(f"run {package.package_path} {words} --end-to-end")
    np.testing.assert_allclose(outputs()["output_0"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tuner", ["", "--enable-autoscheduler"])
def test_candidates_are_measured_there(tvmc: Command, board: str, tuner: str) -> None:
    tvmc(f"tune net.onnx -o log.json {board} --tasks 0 --trials 3 {tuner}")
    assert len(Path("log.json").read_text().splitlines()) >= 3
    tvmc("compile net.onnx -o net.so --tuning-records log.json")
