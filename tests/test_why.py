"""Why kernels are scheduled as they are: in Python and on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import smelt
from smelt.ir.errors import CompileError
from tests.models import conv_nets

ONE = smelt.Options(threads=1)


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return conv_nets.dscnn(1)


def test_what_was_chosen_comes_first(model: onnx.ModelProto) -> None:
    found = smelt.why(model, options=ONE, runners_up=2)
    exe = smelt.compile(model, options=ONE)
    kernels = {k["name"]: k for k in exe.metadata["kernels"]}
    assert {k.name for k in found} == set(kernels)
    for k in found:
        chosen = [f"{p.candidates[0].sketch}({p.candidates[0].decision})" for p in k.parts]
        own = [a.sketch for a in k.algorithms[:1] if a.sketch != "own"]
        assert kernels[k.name]["sketches"] == [*own, *chosen]
        assert kernels[k.name]["seconds"] == pytest.approx(k.seconds)
        assert "failed" not in kernels[k.name]
        for part in k.parts:
            first, *others = part.candidates
            assert all(first.seconds <= c.seconds for c in others)
            assert all(c.measured is None for c in part.candidates)
            assert {c.sketch for c in part.candidates}.isdisjoint(part.refused)


def test_candidates_are_measured(model: onnx.ModelProto) -> None:
    name = smelt.why(model, options=ONE)[0].name
    done: list[tuple[str, int, int]] = []
    (kernel,) = smelt.why(model, name, options=ONE, runners_up=1, measure=True,
                          progress=lambda *at: done.append(at))  # fmt: skip
    assert all(c.measured and c.measured > 0 for p in kernel.parts for c in p.candidates)
    assert done == [("kernels", 0, 1), ("kernels", 1, 1)]
    assert "measured" in kernel.text()


def test_profiles_have_what_was_predicted(model: onnx.ModelProto) -> None:
    exe = smelt.compile(model, options=ONE)
    report = exe.profile(np.zeros([int(d) for d in exe.inputs[0].shape], "float32"))
    assert all(k.predicted and k.predicted > 0 for k in report.kernels)
    assert "predicted" in report.table().splitlines()[0]


def test_mistakes(model: onnx.ModelProto) -> None:
    with pytest.raises(CompileError, match="the model has no kernel 'softmx'; nearest: softmax"):
        smelt.why(model, "softmx")
    with pytest.raises(
        CompileError, match=r"nothing can be measured here for llvm .*; legal: this machine's CPU"
    ):
        smelt.why(model, target="llvm -mtriple=aarch64-linux-gnu", measure=True)


def why(*words: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "smelt", "why", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def test_on_the_command_line(model: onnx.ModelProto, tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    onnx.save(model, file)
    name = smelt.why(model, options=ONE)[0].name
    (wanted,) = smelt.why(model, name, options=ONE, runners_up=0)
    done = why(file, name, "--threads", 1, "--runners-up", 0)
    assert (done.returncode, done.stdout.rstrip()) == (0, wanted.text())
    done = why(file, name, "--threads", 1, "--runners-up", 0, "--json")
    assert json.loads(done.stdout) == [json.loads(json.dumps(wanted.json()))]
    done = why(file, "softmx")
    assert done.returncode == 2
    assert "the model has no kernel 'softmx'" in done.stderr
