"""Small models as torch exports them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir.errors import ImportFailure

from .models import check, random

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
onnx: Any = pytest.importorskip("onnx")


def export(net: Any, x: np.ndarray, path: Path, dynamic: Any = None) -> Any:
    net.eval()
    program = torch.onnx.export(
        net, (torch.from_numpy(x),), dynamo=True, dynamic_shapes=dynamic, verbose=False
    )
    program.save(path / "net.onnx")
    return onnx.load(path / "net.onnx")


@pytest.mark.slow
def test_a_small_cnn(tmp_path: Path) -> None:
    nn = torch.nn
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.SiLU(),
        nn.MaxPool2d(2),
        nn.Upsample(scale_factor=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )
    x = random(2, 3, 8, 8)
    batch = torch.export.Dim("batch")
    check(export(net, x, tmp_path, ({0: batch},)), {"input": random(5, 3, 8, 8)}, 1e-5)


@pytest.mark.slow
def test_a_small_transformer(tmp_path: Path) -> None:
    layer = torch.nn.TransformerEncoderLayer(
        16, 4, 32, batch_first=True, activation="gelu", norm_first=True
    )
    x = random(2, 6, 16)
    batch, seq = torch.export.Dim("batch"), torch.export.Dim("seq")
    m = export(layer, x, tmp_path, ({0: batch, 1: seq},))
    check(m, {m.graph.input[0].name: random(3, 9, 16)}, 1e-5)


@pytest.mark.parametrize("form", ["program", "onnx"])
def test_what_torch_exports_is_compiled_as_it_is(form: str) -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten()
    ).eval()
    x, sizes = random(2, 3, 8, 8), ({0: torch.export.Dim("batch")},)
    program = torch.export.export(net, (torch.from_numpy(x),), dynamic_shapes=sizes)
    if form == "onnx":
        program = torch.onnx.export(program, dynamo=True, verbose=False)
    exe = smelt.compile(program, shapes={"input": ("rows", 3, 8, 8)})
    for rows in (1, 5):
        y = random(rows, 3, 8, 8)
        with torch.no_grad():
            np.testing.assert_allclose(exe(y), net(torch.from_numpy(y)), rtol=1e-4, atol=1e-5)


def test_a_program_that_torch_cannot_export() -> None:
    class Odd(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.linalg.eigvals(x)

    program = torch.export.export(Odd(), (torch.eye(3),))
    with pytest.raises(ImportFailure, match="torch cannot export the program: "):
        smelt.compile(program)


class Cache(torch.nn.Module):  # type: ignore[misc]
    """A cache as an input and an output, or as a buffer; a BatchNorm beside it."""

    def __init__(self, kept: bool) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(8)
        self.kept = kept
        self.register_buffer("cache", torch.zeros(16, 8))

    def forward(self, x: Any, at: Any, past: Any) -> Any:
        x = self.norm(x)
        if self.kept:
            self.cache.index_copy_(0, at, x)
            return self.cache.amax(0) + past.amax(0)
        present = past.index_copy(0, at, x)
        return present.amax(0), present


def cached(net: Any) -> Any:
    return torch.export.export(net, (torch.ones(2, 8), torch.tensor([3, 4]), torch.zeros(16, 8)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cache_of_torch_is_a_state() -> None:
    net = Cache(kept=False).eval()
    program = cached(net)
    output = smelt.compile(program).outputs[1].name
    exe: Any = smelt.compile(program, state={"past": output})
    assert exe.metadata["updates"]
    past = torch.zeros(16, 8)
    for n in range(3):
        x, at = torch.full((2, 8), 1.0 + n), torch.tensor([n, 15 - n])
        wanted, past = net(x, at, past)
        np.testing.assert_allclose(exe(x, at).numpy(), wanted.detach().numpy(), rtol=1e-5)
        np.testing.assert_allclose(exe.state["past"].numpy(), past.detach().numpy(), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_a_program_writes_to_is_not_lost() -> None:
    with pytest.raises(ImportFailure, match="the program writes to its buffer 'cache', and ONNX"):
        smelt.compile(cached(Cache(kept=True).eval()))

    class Adds(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            x.add_(1)
            return x * 2

    with pytest.raises(ImportFailure, match="the program writes to its input 'x', and ONNX"):
        smelt.compile(torch.export.export(Adds(), (torch.ones(2),)))
    training = cached(Cache(kept=False).train())  # its statistics change no result
    assert len(smelt.compile(training).outputs) == 2
