"""Runtimes side by side: workers that answer, and what the tables say of them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks import peers, zoo
from benchmarks.peers import Pace, Side
from benchmarks.processes import ROOT, Failed, Foreign, Talk, busy_core, cpu_ticks
from benchmarks.shapes import MatMul

ECHO = """
from benchmarks.processes import give_back, questions
for q in questions():
    print("noise")
    give_back({"error": "no"} if q == "fail" else [q])
"""
MEDIAN = {"median_ms": 2.0}


def talk(program: str) -> Talk:
    paths = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    return Talk([sys.executable, "-c", program], 1, paths, 1)


def test_a_worker_answers_again_and_again() -> None:
    with talk(ECHO) as worker:
        assert [worker.ask(n) for n in (1, {"a": 2})] == [[1], [{"a": 2}]]
        with pytest.raises(Failed, match=r"^no$"):
            worker.ask("fail")
        assert worker.ask(3) == [3]


@pytest.mark.parametrize(("end", "why"), [("1 / 0", "division by zero"), ("exit(3)", "code 3")])
def test_a_worker_that_ends_says_why(end: str, why: str) -> None:
    with talk(f"input(); {end}") as worker, pytest.raises(Failed, match=why):
        worker.ask(1)


def test_a_busy_core_is_free_again() -> None:
    with busy_core(1) as process:
        assert Path(f"/proc/{process}").exists()
    assert not Path(f"/proc/{process}").exists()


def test_a_busy_core_is_free_when_the_benchmark_is_killed() -> None:
    source = "from benchmarks.processes import busy_core\n"
    source += "with busy_core(1) as process: print(process, flush=True); input()"
    asked = subprocess.Popen(
        [sys.executable, "-c", source], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with asked:
        assert asked.stdout is not None
        busy = Path(f"/proc/{int(asked.stdout.readline())}")
        assert busy.exists()
        asked.kill()
    end = time.monotonic() + 30
    while busy.exists() and " Z " not in busy.joinpath("stat").read_text():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_work_that_is_meant_is_not_foreign() -> None:
    """Once the process has worked for 0.2 seconds, at least 0.1 of them are told apart."""
    with busy_core(1) as process:
        everything, others = Foreign(), Foreign([process])
        start, before = time.perf_counter(), cpu_ticks(process)
        while cpu_ticks(process) < before + 20:
            time.sleep(0.01)
        apart = everything.cores() - others.cores()
        assert apart > 0.1 / (time.perf_counter() - start)


def test_what_pip_cannot_install_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(peers.PACKAGES, "litert", ("not a requirement",))
    with pytest.raises(Failed, match=r"^litert cannot be installed: ERROR"):
        peers.python("litert", tmp_path)
    assert not (tmp_path / "litert" / "whole").exists()


@pytest.fixture(name="files")
def fixture_files(tmp_path: Path) -> tuple[Path, Path]:
    """A product, and an input."""
    model, inputs = tmp_path / "m.onnx", tmp_path / "m.npz"
    onnx.save(MatMul(4, 8, 16).model(), model)
    np.savez(inputs, a=np.ones((4, 16), np.float32))
    return model, inputs


def test_sides_take_turns(files: tuple[Path, Path]) -> None:
    one = Side("one", 1)
    sized = {"shapes": {"a": ["n", 16]}, "sizes": {"n": {"max": 8, "likely": [4]}}}
    symbolic = Side("symbolic", 1, sizes=sized)
    with peers.beside([one, symbolic]) as workers:
        told = workers.load(*files)
        times = workers.time(Pace(0.01, 2))
    assert [told[name]["difference"] for name in ("one", "symbolic")] == [0.0, 0.0]
    assert all(times[name]["calls"] >= 6 for name in ("one", "symbolic"))
    assert times.keys() == {"one", "symbolic", "foreign_cores"}


def test_a_model_that_one_side_refuses(files: tuple[Path, Path]) -> None:
    """Its reason is that of the last model only."""
    one, static = Side("one", 1), Side("static", 1, sizes={"shapes": {"a": [5, 16]}})
    with peers.beside([one, static]) as workers:
        assert list(workers.load(*files)) == ["one"]
        assert "shape [4, 16]" in workers.failed["static"]
        onnx.save(MatMul(5, 8, 16).model(), files[0])
        np.savez(files[1], a=np.ones((5, 16), np.float32))
        assert list(workers.load(*files)) == ["one", "static"]
        assert not workers.failed


def test_what_cannot_be_started_lacks_in_every_model(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def python(name: str) -> str:
        raise Failed(f"{name} cannot be installed: why")

    monkeypatch.setattr(peers, "python", python)
    with peers.beside([Side("openvino", 1, "openvino")]) as workers:
        assert not workers.load(*files)
        assert workers.failed == {"openvino": "openvino cannot be installed: why"}


def test_results_of_a_converted_model_have_channels_last() -> None:
    image = np.arange(24.0).reshape(1, 2, 3, 4)
    last = [np.moveaxis(image, 1, -1)]
    assert peers.difference(Side("litert", 1, "litert"), last, [image]) == 0.0
    assert peers.difference(Side("smelt", 1), last, [image]) == float("inf")
    assert peers.difference(Side("smelt", 1), [], [image]) == float("inf")


def test_a_side_with_other_results_is_not_timed(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded(side: Side, *_: object) -> dict[str, object]:
        return {"load_s": 0.0, "results": [np.array([1.0 if side.name == "one" else 1.5])]}

    monkeypatch.setattr(peers, "loaded", loaded)
    one, other = Side("one", 1), Side("other", 1)
    with peers.beside([one, other]) as workers:
        assert list(workers.load(*files)) == ["one"]
        assert workers.failed == {"other": "its results are off by 5.0e-01"}
        assert workers.time(Pace(0.01, 1)).keys() == {"foreign_cores"}
        assert workers.failed.keys() == {"one", "other"}


def test_models_are_chosen_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(model: Path, *_: object) -> dict[str, object]:
        return {"error": model.stem}

    monkeypatch.setattr(zoo, "compare", compare)
    monkeypatch.setattr(zoo, "versions", dict)
    for name in ("a", "b_int8", "bert_base_dynamic", "without_inputs", "z"):
        (tmp_path / f"{name}.onnx").touch()
        if name != "without_inputs":
            (tmp_path / f"{name}.inputs.npz").touch()
    for names, wanted in (((), ["a", "a", "z", "z"]), (["b_int8"], ["b_int8", "b_int8"])):
        rows = zoo.measure(tmp_path, names=names, say=str)["rows"]
        assert [row["model"] for row in rows] == wanted
    assert [row["threads"] for row in rows] == [1, 2]


def test_ratios_are_to_onnxruntime_and_to_the_best() -> None:
    row = {"smelt": MEDIAN, "onnxruntime": {"median_ms": 4.0}, "openvino": {"median_ms": 1.0}}
    assert zoo.ratios(row) == {"ratio": 0.5, "best": "openvino", "best_ratio": 2.0}
    assert zoo.ratios({"smelt": MEDIAN, "litert": {"error": "x"}}) == {}


def test_the_table_names_what_lacks() -> None:
    row = {"model": "m", "threads": 1, "smelt": MEDIAN, "onnxruntime": MEDIAN, "error": 0.0}
    row |= {"foreign_cores": 0.0, "litert": {"error": "it cannot be installed"}}
    text = zoo.section({"rows": [row | zoo.ratios(row)]})
    assert "| m, 1 | 2.000 | 2.000 | 1.00 | 0.0e+00 | – | – | 1.00 |" in text
    assert text.endswith("LiteRT (m): it cannot be installed.")
