"""`tvmc compile`: packages of every kind, whose results are onnxruntime's."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import smelt
from smelt.driver import tvmc as api
from smelt.driver.tvmc import TVMCModel

from .conftest import Array, Command


def result(package: str | Path, image: Array) -> Array:
    """What smelt.load's executable gives."""
    return np.asarray(smelt.load(package)(image))


@pytest.mark.parametrize(
    ("options", "members"),
    [
        ("", ["model.so"]),
        ("-f tar", ["metadata.json", "model.c", "model0.o", "weights.bin"]),
        ("-o module.so", None),
    ],
)
def test_packages_are_what_smelt_loads(
    tvmc: Command, options: str, members: list[str] | None, image: Array, expected: Array
) -> None:
    assert tvmc(f"compile net.onnx {options}") == ""
    name = "module.tar" if members else "module.so"
    if members:
        with tarfile.open(name) as tar:
            assert set(members) <= set(tar.getnames())
            assert ("model.so" in tar.getnames()) == (members == ["model.so"])
    np.testing.assert_allclose(result(name, image), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        "--executor aot --executor-aot-unpacked-api 0 --executor-aot-workspace-byte-alignment=8"
        " --pass-config tir.usmp.enable=1 --pass-config tir.usmp.algorithm=greedy_by_size",
        "--executor vm",
        "--executor-graph-link-params=1 --runtime cpp --runtime-cpp-system-lib false",
        "-O 0 --target llvm",
        "--opt-level 1 --disabled-pass AlterOpLayout,FoldScaleAxis --module-name picture",
        "--target-llvm-mcpu=x86-64-v3 --target-llvm-num-cores 2",
        '--target \'{"kind": "llvm", "mcpu": "native"}\' --target-host llvm',
        "--desired-layout NHWC",
        "--desired-layout NHWC:HWIO NCHW --desired-layout-ops nn.conv2d nn.max_pool2d",
        "--cross-compiler cc --cross-compiler-options='-O1 -g0'",
    ],
)
def test_options_keep_the_results(
    tvmc: Command, options: str, image: Array, expected: Array
) -> None:
    tvmc(f"compile net.onnx -o net.so {options}")
    np.testing.assert_allclose(result("net.so", image), expected, rtol=1e-4, atol=1e-5)


def test_options_reach_the_compiler(tvmc: Command) -> None:
    tvmc("compile net.onnx -o a.so --pass-config smelt.threads=1 --target-llvm-mcpu x86-64-v2")
    tvmc("compile net.onnx -o b.so --disabled-pass FuseOps --module-name picture")
    about = smelt.runtime.read_metadata("a.so")
    assert "avx2" not in about["features"]
    other = smelt.runtime.read_metadata("b.so")
    assert other["name"] == "picture"
    assert len(other["kernels"]) > len(about["kernels"])


def test_narrow_floats(tvmc: Command, image: Array, expected: Array) -> None:
    tvmc("compile net.onnx -o net.so --mixed-precision --mixed-precision-calculation-type bfloat16")
    kinds = {k["dtype"] for k in smelt.runtime.read_metadata("net.so")["outputs"]}
    assert kinds == {"bfloat16"}
    found = result("net.so", image).astype("float32")
    assert np.max(np.abs(found - expected)) < 0.05 * np.max(np.abs(expected))


def test_what_passes_do_is_printed(tvmc: Command) -> None:
    words = "compile net.onnx --print-pass-times --print-ir-before FuseOps --print-ir-after "
    said = tvmc(words + "ConvertLayout,FuseOps --desired-layout NHWC")
    heads = [line for line in said.splitlines() if line.startswith(("# Before", "# After"))]
    assert heads == ["# After ConvertLayout", "# Before FuseOps", "# After FuseOps"]
    assert "% " in said
    assert "ms  100.0 %  all passes" in said
    assert "  FuseOps" in said


def test_forms_are_written_beside_the_package(tvmc: Command, folder: Path) -> None:
    tvmc("compile net.onnx -o net.so --dump-code relay,tir,ll,asm")
    relay, tir, ll, asm = [Path(f"net.so.{e}").read_text() for e in ("relay", "tir", "ll", "asm")]
    assert relay.count("nn.conv2d(") == 20
    assert "@T.prim_func" in tir
    assert re.search(r'^define i32 @"fused_conv2d', ll, re.M)
    assert ".globl\tfused_conv2d" in asm


LOOP = """<ir_version: 8, opset_import: ["": 17]>
    doubled (float[3] x, int64 n) => (float[3] y) {
        c = Constant <value = bool {1}> ()
        y = Loop (n, c, x) <body = b (int64 i, bool k, float[3] s) => (bool k2, float[3] s2) {
            k2 = Identity(k)
            s2 = Add(s, s)
        }>
    }"""


def test_models_that_decide_need_the_machine_for_them(tvmc: Command) -> None:
    onnx.save(onnx.parser.parse_model(LOOP), "loop.onnx")
    assert "give --executor vm\n" in tvmc("compile loop.onnx", code=1)
    tvmc("compile loop.onnx --executor vm -o loop.tar")
    np.savez("three.npz", n=np.int64(3), x=np.ones(3, "float32"))
    tvmc("run loop.tar -i three.npz -o y.npz")
    with np.load("y.npz") as found:
        assert found["output_0"].tolist() == [8, 8, 8]


def test_shapes_of_inputs_replace_those_of_the_file(tvmc: Command, network: object) -> None:
    tvmc('compile net.onnx -o net.so --input-shapes "input:[n, 3, 32, 32]"')
    exe = smelt.load("net.so")
    assert [i.shape for i in exe.inputs] == [("n", 3, 32, 32)]
    assert np.asarray(exe(np.ones((5, 3, 32, 32), "float32"))).shape == (5, 10)


def test_arguments_come_from_files_too(tvmc: Command) -> None:
    Path("options").write_text("--opt-level\n1\n-o\nnet.so\n")
    tvmc("compile @options net.onnx")
    assert smelt.runtime.read_metadata("net.so")["name"]
    Path("target.json").write_text('{"kind": "llvm", "mcpu": "x86-64-v2"}')
    tvmc("compile net.onnx -o old.so --target target.json")
    assert "avx2" not in smelt.runtime.read_metadata("old.so")["features"]


def test_saved_models_are_read_again(
    model: TVMCModel, tvmc: Command, image: Array, expected: Array
) -> None:
    model.save("net.relay")
    again = TVMCModel(model_path="net.relay")
    package = api.compile(again)
    np.testing.assert_allclose(result(package.package_path, image), expected, rtol=1e-4, atol=1e-5)
    tvmc("compile net.relay -o net.so")
    np.testing.assert_allclose(result("net.so", image), expected, rtol=1e-4, atol=1e-5)
    Path("net.txt").write_text(Path("net.relay").read_text())
    tvmc("compile net.txt --model-format relay -o net.so")
