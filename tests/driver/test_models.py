"""Trained models, TFLite's and PyTorch's, and packages for other machines."""

from __future__ import annotations

import importlib.util
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

import smelt
from smelt.driver import tvmc as api
from tests.devices.crossed import CROSS, Runner
from tests.tflite.build import Oracle

from .conftest import Array, Command

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("SMELT_MODELS", ROOT / "build" / "models"))
TRAINED = sorted(FOLDER.glob("**/ic_*.tflite"))


@pytest.mark.skipif(not TRAINED, reason=f"no trained models in {FOLDER} (SMELT_MODELS)")
@pytest.mark.parametrize("path", TRAINED, ids=lambda p: p.stem)
def test_a_trained_model(tvmc: Command, path: Path) -> None:
    oracle = Oracle(path.read_bytes())
    details = oracle.it.get_input_details()[0]
    random = np.random.default_rng(0)
    x = random.integers(-128, 128, details["shape"]).astype(details["dtype"])
    np.savez("x.npz", **{details["name"]: x})
    tvmc(f"compile {path} -o net.tar")
    with tarfile.open("net.tar") as tar:
        assert tar.getnames() == ["model.so"]
    names = [i.name for i in smelt.load("net.tar").inputs]
    np.savez("x.npz", **{names[0]: x})
    tvmc("run net.tar -i x.npz -o y.npz --print-top 3")
    (expected,) = oracle(x)
    with np.load("y.npz") as found:
        if found["output_0"].dtype == np.float32:
            np.testing.assert_allclose(found["output_0"], expected, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(found["output_0"], expected)


@pytest.mark.skipif(
    not (importlib.util.find_spec("torch") and importlib.util.find_spec("onnxscript")),
    reason="torch or onnxscript is missing",
)
def test_what_torch_has_saved(tvmc: Command) -> None:
    torch = importlib.import_module("torch")
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(1568, 4)
    ).eval()
    x = torch.randn(1, 3, 16, 16)
    torch.export.save(torch.export.export(net, (x,)), "net.pt2")
    tvmc("compile net.pt2 -o net.so")
    (name,) = [i.name for i in smelt.load("net.so").inputs]
    np.savez("x.npz", **{name: x.numpy()})
    tvmc("run net.so -i x.npz -o y.npz")
    with np.load("y.npz") as found, torch.no_grad():
        np.testing.assert_allclose(found["output_0"], net(x).numpy(), rtol=1e-4, atol=1e-5)
    Path("net.pt2").write_bytes(b"no archive")
    assert "net.pt2: torch cannot read it: " in tvmc("compile net.pt2", code=1)


@pytest.mark.parametrize("name", ["aarch64", "riscv64"])
def test_another_machine(
    tvmc: Command, name: str, tmp_path: Path, image: Array, expected: Array
) -> None:
    machine = CROSS[name]
    machine.need()
    run = Runner(machine, tmp_path)
    tvmc(f'compile net.onnx -o net.so --target "{machine.target}" --dump-code asm')
    (found,) = run(tmp_path / "net.so", {"input": image})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    kind, _, words = machine.target.partition(" ")
    attributes = [w.removeprefix("-").partition("=") for w in words.split()]
    given = " ".join([f"--target-{kind}-{n}={v}" for n, _, v in attributes])
    tvmc(f"compile net.onnx -o net.tar {given} --target-llvm-num-cores=2 --executor vm "
         f"--cross-compiler {machine.gnu}-gcc")  # fmt: skip
    with tarfile.open("net.tar") as tar:
        tar.extract("model.so", tmp_path, filter="data")
    (found,) = run(tmp_path / "model.so", {"input": image})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    said = tvmc("run net.tar", code=1)
    assert "this machine is " in said


def test_a_target_without_records_or_a_machine_is_not_tuned(tvmc: Command) -> None:
    words = '--target "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"'
    assert tvmc(f"tune net.onnx -o log.json {words}", code=1).endswith(
        "; give --rpc-tracker HOST:PORT and --rpc-key KEY\n"
    )
    model = api.load("net.onnx")
    with pytest.raises(api.TVMCException, match="nothing can be measured here"):
        api.tune(model, "llvm -mtriple=aarch64-linux-gnu")
