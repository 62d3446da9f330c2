"""TFLite models for Ethos-U, as vela makes them: what it says and gives, and C for the driver."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from smelt.frontend.tflite import load
from smelt.ir.errors import CompileError, ImportFailure
from smelt.micro import ethosu
from smelt.micro.ethosu import FOLDER, EthosU, compile, compile_for_ethosu
from smelt.runtime import ExportError
from tests.tflite.build import Spec, Step, const, model

from .test_c import WARNINGS


@pytest.fixture
def vela() -> None:
    try:
        compile.vela_command()
    except CompileError:
        pytest.skip("needs the package ethos-u-vela")


def written(path: Path, last: str = "") -> Path:
    """A convolution of bytes, an activation, and perhaps numbers as floats."""
    r = np.random.default_rng(0)
    image = (1, 8, 8, 4)
    tensors = [
        Spec(image, "int8", 0.1, 3, name="image"),
        const(r.integers(-90, 90, (4, 3, 3, 4)), "int8", scale=[0.02] * 4, zero=[0] * 4),
        const(r.integers(-90, 90, 4), "int32", scale=[0.002] * 4, zero=[0] * 4),
        Spec(image, "int8", 0.2, -5), Spec(image, "int8", 1 / 256, -128, name="shares"),
        Spec(image, "float32", name="floats"),
    ]  # fmt: skip
    place = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    steps = [
        Step("CONV_2D", [0, 1, 2], [3], place, "Conv2DOptions", version=3),
        Step("LOGISTIC", [3], [4], version=2),
        *([Step(last, [4], [5], version=2)] if last else []),
    ]
    path.write_bytes(model(tensors, steps, [0], [5 if last else 4]))
    return path


def made(folder: Path, accelerator: str = "ethos-u55-128", last: str = "") -> EthosU:
    return compile_for_ethosu(written(folder / "net.tflite", last), accelerator)


DRIVER = """
#include "net.h"
#include "ethosu_driver.h"
#include <stdio.h>
#include <string.h>

static int64_t held;
struct ethosu_driver *ethosu_reserve_driver(void) { return (struct ethosu_driver *)&held; }
void ethosu_release_driver(struct ethosu_driver *driver) { (void)driver; }
int ethosu_invoke_v3(struct ethosu_driver *driver, const void *commands, const int size,
                     uint64_t *const bases, const size_t *base_sizes, const int count, void *arg) {
    (void)driver; (void)arg;
    for (int n = 0; n < count; ++n) if (bases[n] % 16 != 0) return 7;
    if (memcmp(commands, "COP1", 4) != 0 || size % 4 != 0) return 8;
    printf("%d %u %u %u %d\\n", size, (unsigned)base_sizes[0], (unsigned)base_sizes[1],
           (unsigned)base_sizes[2], ((const int8_t *)(uintptr_t)bases[1])[IMAGE_OFFSET]);
    memset((void *)(uintptr_t)bases[1], 42, base_sizes[1]);
    return 0;
}

static _Alignas(16) uint8_t scratch[NET_SCRATCH_BYTES], fast[NET_FAST_BYTES + 1];
int main(void) {
    static int8_t x[256] = {-17}, y[256];
    const struct net_inputs inputs = {.image = x};
    const struct net_outputs outputs = {.shares = y};
    const int32_t status = net_run(&inputs, &outputs, scratch, fast);
    return status != 0 ? (int)status : y[0] == 42 && y[255] == 42 ? 0 : 9;
}
"""
"""A driver that looks at what it is given, and a program that runs a model on it."""


@pytest.mark.usefixtures("vela")
@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_a_whole_model(accelerator: str, tmp_path: Path) -> None:
    m = made(tmp_path, accelerator)
    assert (m.npu, m.cpu) == (("CONV_2D", "LOGISTIC"), ())
    assert m.command_stream.startswith(b"COP1")
    assert m.weights
    assert [t.shape for t in (*m.inputs, *m.outputs)] == [(1, 8, 8, 4)] * 2
    assert m.scratch_bytes == sum((m.blocks[0].scratch, m.blocks[0].fast)) >= 256
    assert m.estimate.cycles > 100
    assert m.estimate.macs >= 8 * 8 * 4 * 4 * 9
    assert [s.op for s in load(m.tflite).graph.steps] == ["ethos-u"]
    saved = m.save(tmp_path / "out")
    assert [p.name for p in saved] == ["net_vela.tflite", "net.c", "net.h"]
    (tmp_path / "out" / "main.c").write_text(DRIVER)
    flags = [*[w for w in WARNINGS if w not in ("-std=c99", "-pedantic")], f"-I{FOLDER}",
             f"-DIMAGE_OFFSET={m.inputs[0].offset}"]  # fmt: skip
    subprocess.run(
        ["gcc", *flags, "main.c", "net.c", "-o", "net"], cwd=tmp_path / "out", check=True
    )
    subprocess.run(
        ["gcc", "-c", *WARNINGS, f"-I{FOLDER}", "net.c"], cwd=tmp_path / "out", check=True
    )
    done = subprocess.run([tmp_path / "out" / "net"], capture_output=True, text=True, check=True)
    b = m.blocks[0]
    seen = [len(b.commands), len(b.weights), b.scratch, b.fast, -17]
    assert [int(n) for n in done.stdout.split()] == seen


@pytest.mark.usefixtures("vela")
def test_what_stays_on_the_cpu(tmp_path: Path) -> None:
    m = made(tmp_path, last="DEQUANTIZE")
    assert (m.npu, m.cpu) == (("CONV_2D", "LOGISTIC"), ("DEQUANTIZE",))
    assert len(m.blocks) == 1
    assert m.command_stream.startswith(b"COP1")
    assert not m.inputs
    with pytest.raises(CompileError, match="net: DEQUANTIZE stay on the CPU"):
        _ = m.c
    assert [p.name for p in m.save(tmp_path / "out")] == ["net_vela.tflite"]
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="cannot make the folder"):
        m.save(tmp_path / "file" / "out")


@pytest.mark.usefixtures("vela")
def test_what_vela_refuses(tmp_path: Path) -> None:
    tensors = [Spec((1, 4), "float32"), Spec((1, 4), "float32")]
    floats = tmp_path / "floats.tflite"
    floats.write_bytes(model(tensors, [Step("LOGISTIC", [0], [1])], [0], [1]))
    text = r"floats\.tflite has no operator that ethos-u55-128 computes: its tensors are float32; "
    with pytest.raises(CompileError, match=text):
        compile_for_ethosu(floats)
    net = written(tmp_path / "net.tflite")
    with pytest.raises(CompileError, match=r"net\.tflite: vela failed: .*no_such_mode"):
        compile_for_ethosu(net, memory_mode="no_such_mode")
    with pytest.raises(CompileError, match=r"vela took longer than timeout=0\.01 seconds"):
        compile_for_ethosu(net, timeout=0.01)


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = written(tmp_path / "net.tflite")
    with pytest.raises(
        CompileError, match=r"accelerator is 'u55'; legal: ethos-u55-32, .*u85-2048"
    ):
        compile_for_ethosu(net, "u55")
    with pytest.raises(CompileError, match="timeout is 0; legal: seconds above 0"):
        compile_for_ethosu(net, timeout=0)
    (tmp_path / "none.tflite").write_text("nothing of the kind")
    with pytest.raises(ImportFailure, match="not a TFLite model"):
        compile_for_ethosu(tmp_path / "none.tflite")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        CompileError, match=r"vela, which is not there: pip install 'smelt\[ethos-u"
    ):
        compile_for_ethosu(net)


def test_a_compiler_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = [sys.executable, "-c", "import sys; print('much'); sys.exit('Error: no such thing')"]
    monkeypatch.setattr(compile, "vela_command", lambda: fails)
    with pytest.raises(CompileError, match=r"net\.tflite: vela failed: Error: no such thing$"):
        made(tmp_path)
    monkeypatch.setattr(compile, "vela_command", lambda: [str(tmp_path / "nothing")])
    with pytest.raises(CompileError, match=r"vela cannot be started: .*nothing: No such file"):
        made(tmp_path)


def test_the_classic_name_says_what_there_is() -> None:
    assert ethosu.compile_for_ethosu is compile_for_ethosu
    with pytest.raises(ImportError, match=r"smelt\.micro\.ethosu\.compile_for_ethosu takes a TFL"):
        exec("from smelt.relay.op.contrib import ethosu")
