"""One library for several processors: each runs its best code that it has the instructions for."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import smelt
from smelt.cli.commands import app
from smelt.ir.errors import SmeltError, TargetError
from smelt.levels import is_list, level_targets
from smelt.runtime.errors import LoadError
from smelt.runtime.linking import export_runner
from smelt.runtime.native import missing_features
from tests.models.net import Array

from .crossed import CROSS, Runner
from .test_cross import CASES, OPTIONS, network, numbers

LEVELS = "x86-64,x86-64-v2,x86-64-v3,x86-64-v4"
EMULATED = {"qemu64": "any CPU", "Nehalem": "popcnt", "Haswell": "avx2"}
"""Processors of qemu, and the last feature of the code that is to be picked there."""


def wanted(model: onnx.ModelProto, given: dict[str, Array]) -> list[Array]:
    return results(smelt.compile(model, options=OPTIONS), given)


def results(exe: smelt.Executable, given: dict[str, Array]) -> list[Array]:
    found = exe(**given)
    return [f.numpy() for f in (found if isinstance(found, smelt.Results) else [found])]


def same(found: list[Array], model: onnx.ModelProto, given: dict[str, Array]) -> None:
    for a, b in zip(found, wanted(model, given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("case", "ending"), [("network", ".so"), ("rows", ".tar"), ("loop", ".so")]
)
def test_the_best_that_this_processor_can_run(case: str, ending: str, tmp_path: Path) -> None:
    make, shapes = CASES[case]
    model, given = make(), numbers(shapes)
    path = tmp_path / f"m{ending}"
    smelt.compile_levels(model, LEVELS, options=OPTIONS).export_library(path)
    made = smelt.load(path)
    have = [not missing_features([f]) for f in ("avx512vl", "avx2", "popcnt")]
    best = "-v4" if have[0] else "-v3" if have[1] else "-v2" if have[2] else ""
    assert made.metadata["target"].endswith(f"-mcpu=x86-64{best} -tag=x86-64{best}")
    same(results(made, given), model, given)


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with smelt-run for this machine, and a library for several processors."""
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("qemu-x86_64 is missing: make setup-edge")
    folder = tmp_path_factory.mktemp("levels")
    export_runner(folder / "smelt-run")
    smelt.compile_levels(network(), LEVELS, options=OPTIONS).export_library(folder / "m.so")
    return folder


def emulate(processor: str, folder: Path, *flags: str | Path, code: int = 0) -> str:
    done = subprocess.run(
        ["qemu-x86_64", "-cpu", processor, folder / "smelt-run", *flags],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@pytest.mark.parametrize("processor", EMULATED)
def test_other_processors_run_other_code(processor: str, emulated: Path, tmp_path: Path) -> None:
    listed = emulate(processor, emulated, "-l", emulated / "m.so").splitlines()
    assert listed[-1].endswith(EMULATED[processor])
    given = numbers({"x": (1, 3, 24, 24)})
    np.save(tmp_path / "x.npy", given["x"])
    emulate(processor, emulated, emulated / "m.so", tmp_path / "x.npy", "-o", tmp_path)
    same([np.load(tmp_path / "y0.npy")], network(), given)


def test_a_processor_that_can_run_none_of_them(emulated: Path, tmp_path: Path) -> None:
    made = smelt.compile_levels(network(), "x86-64-v3,x86-64-v4", options=OPTIONS)
    made.export_library(tmp_path / "m.so")
    said = emulate("Nehalem", emulated, tmp_path / "m.so", code=1)
    assert said.splitlines()[-1] == (
        "smelt-run: net was compiled for a CPU with lzcnt, movbe, bmi, bmi2, f16c, fma, avx, avx2, "
        "which this one lacks"
    )


def test_levels_of_another_machine(tmp_path: Path) -> None:
    both, lesser = CROSS["dotprod"], CROSS["aarch64"]
    both.need()
    samples = np.random.default_rng(1).standard_normal((8, 1, 3, 24, 24)).astype("float32")
    model = smelt.quantize(network(), samples, activations="int8", options=OPTIONS).mod
    target = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72,cortex-a76"
    smelt.compile_levels(model, target, options=OPTIONS).export_library(tmp_path / "m.so")
    found = []
    for machine, last in ((both, "dotprod"), (lesser, "neon")):
        run = Runner(machine, tmp_path)
        listed = machine.run([run.path, "-l", tmp_path / "m.so"]).splitlines()
        assert listed[-1].endswith(last)
        found += run(tmp_path / "m.so", {"x": samples[3]})
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(
        found[0], smelt.compile(model, options=OPTIONS)(samples[3]).numpy()
    )


def test_a_damaged_library_is_refused(tmp_path: Path) -> None:
    """Of metadata that belong to other code nothing is used."""
    for name, levels in (("a", "x86-64,x86-64-v3"), ("b", "x86-64,x86-64-v2,x86-64-v3")):
        made = smelt.compile_levels(network(), levels, options=OPTIONS)
        made.export_library(tmp_path / f"{name}.so")
    a, b = (tmp_path / "a.so").read_bytes(), (tmp_path / "b.so").read_bytes()
    (tmp_path / "c.so").write_bytes(a[: len(a) // 2] + b[len(a) // 2 :])
    with pytest.raises(LoadError, match="cannot load"):
        smelt.load(tmp_path / "c.so")


def test_targets_in_order() -> None:
    found = [t.mcpu for t in level_targets(["x86-64-v2", "x86-64-v4", "llvm -mcpu=x86-64-v3"])]
    assert found == ["x86-64-v4", "x86-64-v3", "x86-64-v2"]
    made = level_targets("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72,cortex-a76 -num-cores=2")
    assert [(t.mcpu, t.attrs["num-cores"]) for t in made] == [("cortex-a76", 2), ("cortex-a72", 2)]
    assert is_list("x86-64,x86-64-v2")
    assert not is_list("llvm -mcpu=haswell -mattr=+avx,+fma")


WRONG: dict[str, tuple[str | list[str], str]] = {
    "one": ("x86-64-v3", "names no list of processors"),
    "none": ([], "no targets"),
    "families": (["x86-64-v3", "llvm -mtriple=aarch64-linux-gnu"], "of one family and one system"),
    "same": (["x86-64-v3", "llvm -mcpu=haswell"], "has the same features as"),
    "unknown": ("x86-64-v3,x86-64-v5", "unknown target kind 'x86-64-v5'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_targets_that_do_not_belong_together(case: str) -> None:
    targets, text = WRONG[case]
    with pytest.raises(SmeltError, match=text):
        level_targets(targets)


def test_lists_are_for_libraries() -> None:
    with pytest.raises(TargetError, match="compile_levels"):
        smelt.compile(network(), "llvm -mcpu=x86-64-v2,x86-64-v3", options=OPTIONS)


def test_the_command(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    made = tmp_path / "net.so"
    words = ["compile", str(tmp_path / "net.onnx"), "--target", "x86-64,x86-64-v2", "-o", str(made)]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert smelt.load(made).metadata["target"].startswith("llvm ")
    done = CliRunner().invoke(app, words[:-2])
    assert "a library for several processors: give -o" in str(done.exception)
