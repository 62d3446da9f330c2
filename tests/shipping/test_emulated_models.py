"""A quantized network on other processors: the object file of an artifact, executed by emulators.

`make setup-edge` installs zig and the emulators; without them these tests are skipped.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import onnx
import pytest

import smelt
from smelt.artifact.artifact import Artifact
from smelt.ir.module import IRModule
from tests.intrin.emulate import LIMITED, run_model
from tests.models.net import Array, Net

pytestmark = pytest.mark.micro

OPTIONS = smelt.Options(threads=2, workers=0, cache_dir="")
SIDE = 20


def network() -> onnx.ModelProto:
    """Convolutions of several kinds, a residual connection and a classifier."""
    net = Net(3)
    h = net.op("Relu", net.conv(net.input("x", (1, 3, SIDE, SIDE)), (3, 16), 3, 2, pads=[1] * 4))
    d = net.op("Relu", net.conv(h, (16, 16), 3, pads=[1] * 4))
    d = net.op("Relu", net.op("Add", net.conv(d, (16, 16), 3, pads=[1] * 4), h))
    d = net.op("Relu", net.conv(d, (16, 16), 3, pads=[1] * 4, groups=16))
    d = net.op("Relu", net.conv(d, (16, 24), 1))
    d = net.op("Flatten", net.op("GlobalAveragePool", d))
    return net.model(net.dense(d, (24, 10)))


@cache
def quantized() -> tuple[IRModule, Array, Array]:
    """The network in bytes, an input, and what it gives on this machine.

    The bytes have a sign: QEMU 7 stops at what RISC-V converts to others (its issue 1441).
    """
    samples = np.random.default_rng(1).standard_normal((8, 1, 3, SIDE, SIDE)).astype("float32")
    made = smelt.quantize(network(), samples, activations="int8", options=OPTIONS).mod
    return made, samples[3], smelt.compile(made, options=OPTIONS)(samples[3]).numpy()


@cache
def artifact_for(machine: str) -> Artifact:
    """The network for a processor."""
    return smelt.compile_artifact(quantized()[0], LIMITED[machine].llvm, options=OPTIONS)


@pytest.mark.parametrize(
    ("machine", "kernels"), [("neon", 0), ("dotprod", 5), ("riscv", 0), ("rvv", 0)]
)
def test_a_quantized_network_is_exact(machine: str, kernels: int) -> None:
    """Where there is SDOT, all convolutions but the depthwise one, and the product, are summed by
    it; what is computed in floats between them is the same everywhere."""
    texts = artifact_for(machine).texts.values()
    assert len([t for t in texts if "@llvm.aarch64.neon.sdot." in t]) == kernels
    _, x, wanted = quantized()
    (found,) = run_model(LIMITED[machine], artifact_for(machine), [x])
    np.testing.assert_array_equal(found, wanted)


def test_a_quantized_network_runs_with_the_runtime() -> None:
    """Linked with smelt's runtime for AArch64, which divides its loops and finds the features."""
    artifact = artifact_for("dotprod")
    assert artifact.metadata["features"] == ["neon", "dotprod"]
    assert re.search(r"define internal .*\.task", "".join(artifact.texts.values()))
    _, x, wanted = quantized()
    (found,) = run_model(LIMITED["dotprod"], artifact, [x], runtime=True)
    np.testing.assert_array_equal(found, wanted)
