"""Models in WebAssembly: packages that node runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from sklearn.datasets import load_digits

import smelt
from smelt.runtime import compilers
from smelt.runtime.errors import ExportError
from tests.models import conv_nets
from tests.models.net import Array

from .test_cross import CASES, OPTIONS, network, numbers
from .webbed import HERE, arrays, need_node, node, run

ROOT = HERE.parents[1]
SMALL = 150_000
"""Bytes of code and JavaScript beside the constants."""


@pytest.mark.parametrize("case", CASES)
def test_a_package_gives_what_this_machine_does(case: str, tmp_path: Path) -> None:
    need_node()
    make, shapes = CASES[case]
    model, given = make(), numbers(shapes)
    smelt.compile_artifact(model, "wasm", options=OPTIONS).export_package(tmp_path / "net")
    found = arrays(run(tmp_path / "net", given, fixed=case == "network"))
    wanted = smelt.compile(model, options=OPTIONS)(**given)
    for a, b in zip(found, wanted if len(found) > 1 else [wanted], strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-6)


def test_bytes_are_exact_and_the_package_is_small(tmp_path: Path) -> None:
    need_node()
    samples = np.random.default_rng(1).standard_normal((8, 1, 3, 24, 24)).astype("float32")
    made = smelt.quantize(network(), samples, activations="int8", options=OPTIONS).mod
    smelt.compile_artifact(made, "wasm", options=OPTIONS).export_package(tmp_path / "net")
    (found,) = arrays(run(tmp_path / "net", {"x": samples[3]}))
    np.testing.assert_array_equal(found, smelt.compile(made, options=OPTIONS)(samples[3]).numpy())
    files = {f.name: f.stat().st_size for f in (tmp_path / "net").iterdir()}
    assert sorted(files) == ["index.d.mts", "index.mjs", "model.bin", "model.mjs", "model.wasm",
                             "package.json", "system.mjs"]  # fmt: skip
    assert sum(files.values()) - files["model.bin"] < SMALL


@pytest.mark.parametrize(
    ("feeds", "fixed", "said"),
    [
        ({"x": np.ones((7, 40), "float32")}, True,
         "rows: input x, float32[n, 40]: give { data, dims }, its sizes differ"),
        ({"x": np.ones((7, 41), "float32")}, False,
         "rows: input 'x': dimension 1 is 41, it must be 40"),
        ({"x": np.ones((7, 40), "int8")}, False,
         "rows: input x is a Int8Array; float32[n, 40] takes a Float32Array"),
        ({"y": np.ones((7, 40), "float32")}, False, "rows: no input y; it has: x"),
        ({}, False, "rows: input x, float32[n, 40], is missing"),
    ],
)  # fmt: skip
def test_wrong_inputs(package: Path, feeds: dict[str, Array], fixed: bool, said: str) -> None:
    assert run(package, feeds, fixed=fixed)["error"] == said


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of any number of rows."""
    need_node()
    folder = tmp_path_factory.mktemp("web") / "rows"
    smelt.compile_artifact(CASES["rows"][0](), "wasm", options=OPTIONS).export_package(folder)
    return folder


def test_results_that_no_memory_holds(tmp_path: Path) -> None:
    """More bytes than 32 bits count."""
    need_node()
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        squares (float[n, 1] x) => (float[n, n] y) { t = Transpose<perm = [1, 0]>(x) y = Mul(x, t) }
    """)
    smelt.compile_artifact(model, "wasm", options=OPTIONS).export_package(tmp_path / "net")
    (found,) = arrays(run(tmp_path / "net", {"x": np.ones((3, 1), "float32")}))
    np.testing.assert_array_equal(found, np.ones((3, 3), "float32"))
    for rows, count in ((33_000, 4_356_000_000), (40_000, 6_400_000_000)):
        said = run(tmp_path / "net", {"x": np.ones((rows, 1), "float32")})["error"]
        assert said == f"squares: no memory for {count} bytes"


def test_what_cannot_be_packed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = conv_nets.mlp(2)
    other = smelt.compile_artifact(model, "llvm -mtriple=aarch64-linux-gnu", options=OPTIONS)
    with pytest.raises(ExportError, match="packages are of models for WebAssembly"):
        other.export_package(tmp_path / "net")
    made = smelt.compile_artifact(model, "wasm", options=OPTIONS)
    with pytest.raises(
        ExportError, match=r"cannot write .*net.so: a package is a folder, e.g. net"
    ):
        made.export_package(tmp_path / "net.so")
    (tmp_path / "taken").write_text("")
    with pytest.raises(ExportError, match="taken: it is a file, and a package is a folder"):
        made.export_package(tmp_path / "taken")
    (tmp_path / "taken").unlink()
    monkeypatch.setattr(compilers, "_has_zig", lambda: False)
    with pytest.raises(ExportError, match="a C compiler for WebAssembly is needed"):
        made.export_package(tmp_path / "net")
    with pytest.raises(ExportError, match=r"there are no shared libraries for wasm32"):
        made.export_library(tmp_path / "net.so")
    assert not list(tmp_path.iterdir())


def test_a_model_of_what_javascript_has_no_arrays_for(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        net (float8e4m3fn[4] x) => (float[4] y) { y = Cast<to = 1>(x) }""")
    made = smelt.compile_artifact(model, "wasm", options=OPTIONS)
    with pytest.raises(ExportError, match="'x' is float8_e4m3fn, which JavaScript has no arrays"):
        made.export_package(tmp_path / "net")


def test_the_example_tells_digits(tmp_path: Path) -> None:
    """What the page does with a drawing, of the data's own images."""
    need_node()
    example = ROOT / "examples" / "web"
    subprocess.run([sys.executable, example / "make.py", tmp_path / "digits"], check=True,
                   capture_output=True)  # fmt: skip
    images, digits = load_digits(return_X_y=True)
    drawings = (images[:200].reshape(-1, 8, 8) / 16).tolist()
    (tmp_path / "drawings.json").write_text(json.dumps(drawings))
    said = node(HERE / "digits_run.mjs", example, tmp_path / "digits", tmp_path / "drawings.json")
    assert np.mean(np.array(json.loads(said)) == digits[:200]) > 0.9
