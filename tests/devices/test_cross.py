"""Models for other machines: one library for each, run there by a program without Python."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import smelt
from benchmarks.rpc_servers import Process
from smelt import relay
from smelt.codegen.llvm import resolve
from smelt.contrib.graph_executor import GraphModule
from smelt.runtime import LoadError
from smelt.runtime.linking import export_server
from smelt.stages import kernels_of, stage_text
from smelt.target import Target
from smelt.tuning import extract_tasks
from tests.models.net import Array, Net

from .crossed import CROSS, MACHINES, Runner

OPTIONS = smelt.Options(threads=2, cache_dir="")


@pytest.fixture(scope="module", params=CROSS)
def runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """smelt-run for every machine."""
    machine = CROSS[request.param]
    machine.need()
    return Runner(machine, tmp_path_factory.mktemp(request.param))


def network() -> onnx.ModelProto:
    """Convolutions of several kinds, a residual connection and a classifier."""
    net = Net(3)
    h = net.op("Relu", net.conv(net.input("x", (1, 3, 24, 24)), (3, 16), 3, 2, pads=[1] * 4))
    d = net.op("Relu", net.conv(h, (16, 16), 3, pads=[1] * 4))
    d = net.op("Relu", net.op("Add", net.conv(d, (16, 16), 3, pads=[1] * 4), h))
    d = net.op("Relu", net.conv(d, (16, 16), 3, pads=[1] * 4, groups=16))
    d = net.op("Flatten", net.op("GlobalAveragePool", net.conv(d, (16, 24), 1)))
    return net.model(net.op("Softmax", net.dense(d, (24, 10))))


def rows() -> onnx.ModelProto:
    """A product of any number of rows, with functions of the C library."""
    return onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        rows (float[n, 40] x) => (float[n, 40] y, float[n, 1] s) {
            t = Transpose<perm=[1, 0]>(x)
            a = MatMul(x, t)
            b = Softmax(a)
            c = MatMul(b, x)
            y = Erf(c)
            axes = Constant<value_ints = [1]>()
            s = ReduceLogSumExp(c, axes)
        }""")


def loop() -> onnx.ModelProto:
    """A loop that ends when its values say so, with a branch inside."""
    return onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        decides (float[3, 4] x) => (float[3, 4] y) {
            n = Constant<value_int = 20>()
            yes = Constant<value = bool {1}>()
            y = Loop(n, yes, x) <body = step (int64 i, bool c, float[3, 4] a)
                => (bool again, float[3, 4] b) {
                two = Constant<value_float = 1.5>()
                limit = Constant<value_float = 40.0>()
                sum = ReduceSum<keepdims = 0>(a)
                even = Less(sum, limit)
                b = If(even) <then_branch = grow () => (float[3, 4] g) { g = Mul(a, two) },
                              else_branch = stay () => (float[3, 4] h) { h = Tanh(a) }>
                again = Less(sum, limit)
            }>
        }""")


CASES: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, tuple[int, ...]]]] = {
    "network": (network, {"x": (1, 3, 24, 24)}),
    "rows": (rows, {"x": (7, 40)}),
    "loop": (loop, {"x": (3, 4)}),
}


def numbers(shapes: dict[str, tuple[int, ...]]) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    return {k: rng.random(s, np.float32) for k, s in shapes.items()}


@pytest.mark.parametrize("case", CASES)
def test_a_library_for_another_machine(runner: Runner, case: str, tmp_path: Path) -> None:
    make, shapes = CASES[case]
    model, given = make(), numbers(shapes)
    artifact = smelt.compile_artifact(model, runner.machine.target, options=OPTIONS)
    artifact.export_library(tmp_path / "m.so")
    found = runner(tmp_path / "m.so", given)
    wanted = smelt.compile(model, options=OPTIONS)(**given)
    for a, b in zip(found, wanted if len(found) > 1 else [wanted], strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-6)


def test_bytes_are_exact(runner: Runner, tmp_path: Path) -> None:
    """In bytes the results are the same on every machine, to the last bit."""
    samples = np.random.default_rng(1).standard_normal((8, 1, 3, 24, 24)).astype("float32")
    made = smelt.quantize(network(), samples, activations="int8", options=OPTIONS).mod
    artifact = smelt.compile_artifact(made, runner.machine.target, options=OPTIONS)
    artifact.export_library(tmp_path / "m.so")
    (found,) = runner(tmp_path / "m.so", {"x": samples[3]})
    np.testing.assert_array_equal(found, smelt.compile(made, options=OPTIONS)(samples[3]).numpy())


CHOSEN = {
    "aarch64": r"\tfmla\t.*v[0-9]+\.4s",
    "dotprod": r"\tsdot\t",
    "armv7": r"\tvfma\.f32\t.*q[0-9]+",
    "riscv64": r"\tfmadd\.s\t",
}
"""Instructions that kernels for a machine are made of."""


def multiplies_vectors(text: str) -> bool:
    """Whether a disassembly has vfmadd or vfmacc of RISC-V, which objdump shows as numbers; source:
    the specification of its vectors 1.0, chapter 10 (OP-V, and the upper 6 bits)."""
    numbers = [int(n, 16) for n in re.findall(r"\t\.4byte\t(0x[0-9a-f]+)", text)]
    return any(n & 0x7F == 0x57 and n >> 26 in (0b101000, 0b101100) for n in numbers)


@pytest.mark.parametrize("name", CROSS)
def test_the_library_has_the_instructions_of_its_machine(name: str, tmp_path: Path) -> None:
    machine = CROSS[name]
    machine.need()
    model: onnx.ModelProto | smelt.IRModule = network()
    if name == "dotprod":
        samples = np.random.default_rng(1).standard_normal((4, 1, 3, 24, 24)).astype("float32")
        model = smelt.quantize(model, samples, activations="int8", options=OPTIONS).mod
    artifact = smelt.compile_artifact(model, machine.target, options=OPTIONS)
    artifact.export_library(tmp_path / "m.so")
    done = subprocess.run([f"{machine.gnu}-objdump", "-d", "--no-show-raw-insn", tmp_path / "m.so"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    if name == "rvv":
        assert multiplies_vectors(done.stdout)
    else:
        assert re.search(CHOSEN[name], done.stdout)


def test_a_library_is_refused_by_a_processor_that_lacks_its_instructions(tmp_path: Path) -> None:
    """No SIGILL, and no result."""
    made, lesser = CROSS["dotprod"], CROSS["aarch64"]
    made.need()
    artifact = smelt.compile_artifact(network(), made.target, options=OPTIONS)
    artifact.export_library(tmp_path / "m.so")
    run = Runner(lesser, tmp_path)
    said = lesser.run([run.path, tmp_path / "m.so"], code=1)
    assert said == (
        "smelt-run: net was compiled for a CPU with fullfp16, dotprod, which this one lacks\n"
    )


@pytest.mark.parametrize("name", ["sve", "a64fx"])
def test_vectors_of_sve_are_as_long_as_the_processors(name: str, tmp_path: Path) -> None:
    """Another length would read and write past the end: it is refused."""
    machine = MACHINES[name]
    machine.need()
    artifact = smelt.compile_artifact(network(), machine.target, options=OPTIONS)
    artifact.export_library(tmp_path / "m.so")
    done = subprocess.run([f"{machine.gnu}-objdump", "-d", "--no-show-raw-insn", tmp_path / "m.so"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    long, short = [re.findall(rf"\tfm(?:la|ad)\t{r}", done.stdout) for r in ("z", "v")]
    assert len(long) > 2 * len(short), "few channels have vectors of their own length"
    shorter = replace(machine, emulator=(
        "qemu-aarch64", "-cpu", "max,sve128=on,sve256=off,sve512=off"))  # fmt: skip
    run = Runner(shorter, tmp_path)
    said = shorter.run([run.path, tmp_path / "m.so"], code=1)
    length = {"sve": "sve256b", "a64fx": "sve512b"}[name]
    assert said == f"smelt-run: net was compiled for a CPU with {length}, which this one lacks\n"


def test_a_classic_program_for_an_arm_board(tmp_path: Path) -> None:
    """relay.build, and export_library with the compiler's path."""
    CROSS["aarch64"].need()
    x = smelt.relay.var("x", shape=(1, 64), dtype="float32")
    w = smelt.relay.var("w", shape=(10, 64), dtype="float32")
    y = smelt.relay.nn.softmax(smelt.relay.nn.dense(x, w))
    mod = smelt.IRModule.from_expr(y)
    target = smelt.target.Target("llvm -mtriple=aarch64-linux-gnu -mattr=+neon")
    with smelt.transform.PassContext(opt_level=3):
        lib = smelt.relay.build(mod, target=target)
    lib.export_library(tmp_path / "tiny.so", cc=shutil.which("aarch64-linux-gnu-gcc"))
    given = numbers({"x": (1, 64), "w": (10, 64)})
    (found,) = Runner(CROSS["aarch64"], tmp_path)(tmp_path / "tiny.so", given)
    wanted = smelt.compile(mod, options=OPTIONS)(**given).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_the_shortest_target_for_linux_on_riscv_has_its_libraries_abi(tmp_path: Path) -> None:
    machine = CROSS["riscv64"]
    machine.need()
    artifact = smelt.compile_artifact(network(), "llvm -mtriple=riscv64-linux-gnu", options=OPTIONS)
    assert artifact.target.attrs["mabi"] == "lp64d"
    artifact.export_library(tmp_path / "m.so")
    given = numbers({"x": (1, 3, 24, 24)})
    (found,) = Runner(machine, tmp_path)(tmp_path / "m.so", given)
    wanted = smelt.compile(network(), options=OPTIONS)(**given).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_server_on_another_machine(tmp_path: Path) -> None:
    """It is compiled for that machine, and takes models from here."""
    machine = CROSS["aarch64"]
    machine.need()
    export_server(tmp_path / "smelt-server", machine.triple)
    model, given = network(), numbers({"x": (1, 3, 24, 24)})
    artifact = smelt.compile_artifact(model, machine.target, options=OPTIONS)
    artifact.export_library(tmp_path / "m.so")
    wanted = smelt.compile(model, options=OPTIONS)(**given).numpy()
    command = [*machine.emulator, "-L", f"/usr/{machine.gnu}", str(tmp_path / "smelt-server")]
    with Process(command, tmp_path) as server, server.connect() as session:
        assert session.about["machine"] == "aarch64"
        session.upload(tmp_path / "m.so")
        lib = session.load_module("m.so")
        np.testing.assert_allclose(lib(**given).numpy(), wanted, rtol=1e-5, atol=1e-6)
        module: Any = GraphModule(lib["default"](session.cpu(0)))
        module.set_input("x", given["x"])
        module.run()
        np.testing.assert_allclose(module.get_output(0).numpy(), wanted, rtol=1e-5, atol=1e-6)
        assert len(module.benchmark(session.cpu(0), repeat=2, number=1).results) == 2
        smelt.compile(model, options=OPTIONS).export_library(tmp_path / "here.so")
        session.upload(tmp_path / "here.so")
        with pytest.raises(LoadError, match=r"cannot load .*/here\.so"):
            session.load_module("here.so")
    assert not list(tmp_path.glob("smelt-rpc-*"))


def test_a_library_is_refused_by_a_processor_whose_vectors_are_shorter(tmp_path: Path) -> None:
    """No wrong result: code for 256 bits would leave half of every vector out."""
    made, lesser = MACHINES["rvv256"], MACHINES["rvv128"]
    made.need()
    artifact = smelt.compile_artifact(network(), made.target, options=OPTIONS)
    artifact.export_library(tmp_path / "m.so")
    said = lesser.run([Runner(lesser, tmp_path).path, tmp_path / "m.so"], code=1)
    assert said == ("smelt-run: net was compiled for a CPU with zvl256b, which this one lacks\n")


def test_code_for_another_machine_has_as_many_threads_as_that() -> None:
    """Every way to compile asks the target, unless it is told."""
    x = relay.var("x", shape=(256, 512), dtype="float32")
    w = relay.const(np.ones((512, 512), "float32"))
    mod = smelt.IRModule.from_expr(relay.nn.dense(x, w))
    plain = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"
    for words, cores in ((plain, 4), (f"{plain} -num-cores=1", 1), (f"{plain} -num-cores=2", 2)):
        assert {t.cores for t in extract_tasks(mod, words)} == {cores}
        specs = kernels_of(mod, None, resolve(Target(words)), None, None, "a test")
        assert {s.cores for s in specs.values()} == {cores}
        assert ("T.parallel" in stage_text(mod, "scheduled", target=words)) == (cores > 1)
        made: list[Any] = [smelt.compile_artifact(mod, words), relay.build(mod, words)._code]
        assert [m.options.threads for m in made] == [cores, cores]
        with smelt.transform.PassContext(config={"smelt.threads": 3}):
            told: Any = relay.build(mod, words)._code
        assert told.options.threads == 3
